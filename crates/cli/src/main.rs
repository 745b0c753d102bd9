//! The `leasehold` program: one command a file. Parses, hands over, and turns what came of it into an exit status;
//! everything else is somebody else's.
#![forbid(unsafe_code)]

use std::process::ExitCode;

use clap::{Parser, Subcommand};

mod status;

mod duration;

mod backup;
mod journal;
mod serve;

use status::Status;

/// Leases, locks and leaders with fencing tokens: one durable server, one command line.
#[derive(Parser)]
#[command(name = "leasehold", version, propagate_version = true, after_help = status::HELP)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Serve(Box<serve::Serve>),
    #[command(subcommand)]
    Journal(journal::Journal),
    Backup(backup::Backup),
    Sim(leasehold_simulation::command::SimArgs),
}

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(message) => {
            // Help and versions arrive as errors too; only real ones go to standard error.
            let _ = message.print();
            let status = if message.use_stderr() { Status::Usage } else { Status::Success };
            return status.into();
        }
    };
    let done = match cli.command {
        Command::Serve(serve) => serve.run(),
        Command::Journal(journal) => journal.run(),
        Command::Backup(backup) => backup.run(),
        Command::Sim(sim) => return leasehold_simulation::command::run(sim),
    };
    match done {
        Ok(()) => Status::Success.into(),
        Err(failure) => {
            eprintln!("leasehold: {}", failure.sentence);
            failure.status.into()
        }
    }
}
