//! `leasehold sim`: runs seeds, says which one failed and how to see it again. Decides nothing about what is right.

use std::collections::BTreeMap;
use std::io::{IsTerminal, Write};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

use clap::Args;

use crate::faults::{FaultKind, Tally};
use crate::invariants::Violation;
use crate::plant;
use crate::run::{self as simulation, Outcome};

/// Run the server in a simulated world of faults, and check every promise
#[derive(Args, Clone, Debug)]
pub struct SimArgs {
    /// How many seeds to run, one after the other from --first.
    #[arg(long, default_value_t = 100, value_name = "N")]
    pub seeds: u64,
    /// The first seed.
    #[arg(long, default_value_t = 1, value_name = "S")]
    pub first: u64,
    /// How many seeds to run at once; as many as there are cores unless given.
    #[arg(long, value_name = "J")]
    pub jobs: Option<usize>,
    /// Run this one seed only.
    #[arg(long, value_name = "S", conflicts_with_all = ["seeds", "first"])]
    pub seed: Option<u64>,
    /// Tell the story of the run, line by line; needs --seed.
    #[arg(long, requires = "seed")]
    pub trace: bool,
    /// Put this bug in on purpose, to see it caught; `list` names them all. Needs a build with the feature planted-bugs.
    #[arg(long, value_name = "NAME")]
    pub bug: Option<String>,
}

/// What the seeds came to.
#[derive(Debug, Default)]
struct Totals {
    seeds: u64,
    tally: Tally,
    failed: BTreeMap<u64, Violation>,
}

/// A promise was broken: a bug of ours, as all commands count it.
const BROKEN: u8 = 70;
/// Asked for what there is not, as all commands count it.
const USAGE: u8 = 64;

/// Runs the command.
pub fn run(args: SimArgs) -> ExitCode {
    let planted = match args.bug.as_deref() {
        None => Ok(None),
        Some("list") => match plant::list() {
            Ok(bugs) => {
                print!("{bugs}");
                return ExitCode::SUCCESS;
            }
            Err(problem) => Err(problem),
        },
        Some(name) => plant::choose(name).map(Some),
    };
    let _planted = match planted {
        Ok(planted) => planted,
        Err(problem) => {
            eprintln!("leasehold: {problem}");
            return ExitCode::from(USAGE);
        }
    };
    let again = args.bug.as_ref().map_or(String::new(), |bug| format!(" --bug {bug}"));
    say_which_seed_panicked(again.clone());
    let totals = match args.seed {
        Some(seed) => one(seed, args.trace),
        None => many(&args),
    };
    for (seed, violation) in totals.failed.iter().take(5) {
        eprintln!("seed {seed} violates {violation}");
        eprintln!("see it again with: leasehold sim --seed {seed} --trace{again}");
    }
    if !args.trace {
        println!("{}", line(&totals));
    }
    if totals.failed.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(BROKEN) }
}

fn one(seed: u64, trace: bool) -> Totals {
    let outcome = run_seed(seed, trace);
    // Nobody may be there to read the story.
    let _ = std::io::stdout().write_all(outcome.trace.as_bytes());
    let failed = outcome.violation.map(|violation| (seed, violation)).into_iter().collect();
    Totals { seeds: 1, tally: outcome.tally, failed }
}

fn many(args: &SimArgs) -> Totals {
    let jobs = args.jobs.unwrap_or_else(|| thread::available_parallelism().map_or(1, usize::from)).max(1);
    let next = AtomicU64::new(0);
    let failed = AtomicBool::new(false);
    let totals = Mutex::new(Totals::default());
    let bar = std::io::stderr().is_terminal();
    thread::scope(|scope| {
        for _ in 0..jobs {
            scope.spawn(|| {
                while !failed.load(Ordering::Relaxed) {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= args.seeds {
                        break;
                    }
                    let seed = args.first.wrapping_add(number);
                    let outcome = run_seed(seed, false);
                    let mut totals = totals.lock().unwrap_or_else(PoisonError::into_inner);
                    totals.seeds += 1;
                    totals.tally.add(&outcome.tally);
                    if let Some(violation) = outcome.violation {
                        failed.store(true, Ordering::Relaxed);
                        totals.failed.insert(seed, violation);
                    }
                    if bar {
                        draw(totals.seeds, args.seeds);
                    }
                }
            });
        }
    });
    if bar {
        eprint!("\r\x1b[K");
    }
    totals.into_inner().unwrap_or_else(PoisonError::into_inner)
}

fn draw(done: u64, all: u64) {
    const WIDTH: u64 = 40;
    let full = usize::try_from(done * WIDTH / all.max(1)).unwrap_or(0);
    let empty = usize::try_from(WIDTH).unwrap_or(0).saturating_sub(full);
    eprint!("\r[{}{}] {done}/{all} seeds", "#".repeat(full), "-".repeat(empty));
}

/// The one line of totals.
fn line(totals: &Totals) -> String {
    let Totals { seeds, tally, failed } = totals;
    let seconds = tally.simulated_us / 1_000_000;
    let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    let kinds: Vec<String> =
        FaultKind::ALL.iter().map(|kind| format!("{} {}", tally.of(*kind), kind.text())).collect();
    format!(
        "{seeds} seeds, {} failed; {hours}h{minutes:02}m{seconds:02}s simulated; {} operations, {} grants, {} writes to files; {} faults: {}",
        failed.len(),
        tally.operations,
        tally.grants,
        tally.writes,
        tally.faults(),
        kinds.join(", ")
    )
}

thread_local! {
    static SEED: std::cell::Cell<Option<u64>> = const { std::cell::Cell::new(None) };
}

fn run_seed(seed: u64, trace: bool) -> Outcome {
    SEED.set(Some(seed));
    let outcome = simulation::run(seed, trace);
    SEED.set(None);
    outcome
}

/// An assertion inside the engine is a violation too; the seed must not be lost with it.
fn say_which_seed_panicked(again: String) {
    let before = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        before(info);
        if let Some(seed) = SEED.get() {
            eprintln!("seed {seed} violates an assertion of the server");
            eprintln!("see it again with: leasehold sim --seed {seed} --trace{again}");
            std::process::exit(BROKEN.into());
        }
    }));
}
