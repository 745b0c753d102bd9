//! The `leasehold` program: one command a file. Parses, hands over, and turns what came of it into an exit status;
//! everything else is somebody else's.
#![forbid(unsafe_code)]

use std::io::Write;
use std::process::ExitCode;

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};

/// Why not the system's: docs/adr/0012.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

mod status;

mod duration;
mod metadata;
mod paint;
mod printing;
mod quote;
mod table;

mod explain;
mod input;
mod interrupt;
mod shapes;

mod asking;
mod file_lease;
mod holding;
mod under_lease;

mod tenancy;

mod acquire;
mod break_lock;
mod cancel;
mod elect;
mod get;
mod lock;
mod ls;
mod release;
mod renew;
mod sessions;
mod verify;
mod watch;

mod file_writing;

mod append;
mod cat;
mod files;
mod rm;
mod write;

mod backup;
mod journal;
mod serve;

mod load;

mod completions;
mod help;
mod man;

use status::Status;

/// Says whether this is the program as it is shipped: docs/adr/0013.
const VERSION: &str = match option_env!("LEASEHOLD_TRAINED") {
    None => env!("CARGO_PKG_VERSION"),
    Some(_) => concat!(env!("CARGO_PKG_VERSION"), " (trained)"),
};

/// Leases, locks and leaders with fencing tokens: one durable server, one command line.
#[derive(Parser)]
#[command(name = "leasehold", version = VERSION, propagate_version = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Lock(Box<lock::LockCommand>),
    Elect(Box<elect::Elect>),
    Acquire(acquire::Acquire),
    Renew(renew::Renew),
    Release(release::Release),
    Cancel(cancel::Cancel),
    Verify(verify::Verify),
    Get(get::Get),
    Ls(ls::Ls),
    Watch(watch::Watch),
    Break(break_lock::Break),
    Sessions(sessions::Sessions),
    Append(append::Append),
    Write(write::Write),
    Cat(cat::Cat),
    Files(files::Files),
    Rm(rm::Rm),
    Serve(Box<serve::Serve>),
    #[command(subcommand)]
    Journal(journal::Journal),
    Backup(backup::Backup),
    Load(Box<load::Load>),
    Sim(leasehold_simulation::command::SimArgs),
    Completions(completions::Completions),
    Man(man::Manual),
}

/// What can be asked of this program: everything that parses, helps, completes or documents is made of it.
fn definition() -> clap::Command {
    help::grouped(Cli::command())
}

fn main() -> ExitCode {
    if let Some(ended) = under_lease::inner_role(std::env::args_os()) {
        return ended;
    }
    let parsed = definition().try_get_matches().and_then(|matches| Cli::from_arg_matches(&matches));
    let cli = match parsed {
        Ok(cli) => cli,
        Err(message) => {
            // Help and versions arrive as errors too; only real ones go to standard error.
            let _ = message.print();
            let status = if message.use_stderr() { Status::Usage } else { Status::Success };
            return status.into();
        }
    };
    let done = match cli.command {
        Command::Lock(lock) => return ended(lock.run()),
        Command::Elect(elect) => return ended(elect.run()),
        Command::Acquire(acquire) => acquire.run(),
        Command::Renew(renew) => renew.run(),
        Command::Release(release) => release.run(),
        Command::Cancel(cancel) => cancel.run(),
        Command::Verify(verify) => verify.run(),
        Command::Get(get) => get.run(),
        Command::Ls(ls) => ls.run(),
        Command::Watch(watch) => watch.run(),
        Command::Break(breaking) => breaking.run(),
        Command::Sessions(sessions) => sessions.run(),
        Command::Append(append) => append.run(),
        Command::Write(write) => write.run(),
        Command::Cat(cat) => cat.run(),
        Command::Files(files) => files.run(),
        Command::Rm(rm) => rm.run(),
        Command::Serve(serve) => serve.run(),
        Command::Journal(journal) => journal.run(),
        Command::Backup(backup) => backup.run(),
        Command::Load(load) => load.run(),
        Command::Sim(sim) => return leasehold_simulation::command::run(sim),
        Command::Completions(completions) => completions.run(definition()),
        Command::Man(manual) => manual.run(definition()),
    };
    ended(done.map(|()| Status::Success))
}

/// The exit status, with a sentence for what went wrong.
fn ended(done: Result<Status, status::Failure>) -> ExitCode {
    match done {
        Ok(status) => status.into(),
        Err(failure) => {
            // That nobody reads it does not change how it ended.
            let _ = match failure.problem {
                Some(problem) => writeln!(std::io::stderr(), "{problem}"),
                None => writeln!(std::io::stderr(), "leasehold: {}", failure.sentence),
            };
            failure.status.into()
        }
    }
}
