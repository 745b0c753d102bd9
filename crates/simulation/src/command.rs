//! `leasehold sim`: runs seeds, says which one failed, makes that run small and says how to see it again. Decides nothing
//! about what is right.

use std::io::Write;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use clap::Args;

use crate::account::Account;
use crate::cuts::Cuts;
use crate::plant;
use crate::progress::Progress;
use crate::run::{Order, Outcome, carry_out};
use crate::shrink::{Shrunk, shrink};

/// Run the server in a simulated world of faults, and check every promise
#[derive(Args, Clone, Debug)]
pub struct SimArgs {
    /// How many seeds to run, one after the other from --first; 100 unless given, or as many as --minutes allow.
    #[arg(long, value_name = "N")]
    pub seeds: Option<u64>,
    /// The first seed.
    #[arg(long, default_value_t = 1, value_name = "S")]
    pub first: u64,
    /// How many seeds to run at once; as many as there are cores unless given.
    #[arg(long, value_name = "J")]
    pub jobs: Option<usize>,
    /// Begin no seed after so many minutes.
    #[arg(long, value_name = "M")]
    pub minutes: Option<u64>,
    /// Run this one seed only.
    #[arg(long, value_name = "S", conflicts_with_all = ["seeds", "first", "minutes"])]
    pub seed: Option<u64>,
    /// Tell the story of the run, line by line; needs --seed.
    #[arg(long, requires = "seed")]
    pub trace: bool,
    /// Put this bug in on purpose, to see it caught; `list` names them all. Needs a build with the feature planted-bugs.
    #[arg(long, value_name = "NAME")]
    pub bug: Option<String>,
    /// Leave this out of the run, in the words that a failing one gave; needs --seed.
    #[arg(long, requires = "seed", value_name = "WORDS", default_value_t)]
    pub cut: Cuts,
    /// Do not make a failing run small.
    #[arg(long)]
    pub no_shrink: bool,
}

/// A promise was broken: a bug of ours, as all commands count it.
const BROKEN: u8 = 70;
/// Asked for what there is not, as all commands count it.
const USAGE: u8 = 64;
/// How many seeds are run without `--seeds`.
const SEEDS: u64 = 100;
/// How long a failing run is made smaller.
const SHRINK_FOR: Duration = Duration::from_secs(60);

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
    let account = match args.seed {
        Some(seed) => one(&args, seed),
        None => many(&args),
    };
    for (seed, violation) in account.failed.iter().take(5) {
        eprintln!("seed {seed} violates {violation}");
        eprintln!("see it again with: leasehold sim --seed {seed} --trace{again}");
    }
    if let Some(seed) = account.failed.keys().next().filter(|_| !args.no_shrink && !args.trace) {
        make_small(&Order { seed: *seed, cuts: args.cut.clone(), ..Order::default() }, &again);
    }
    if !args.trace {
        println!("{account}");
    }
    if account.failed.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(BROKEN) }
}

fn one(args: &SimArgs, seed: u64) -> Account {
    let order = Order { seed, cuts: args.cut.clone(), trace: args.trace, ..Order::default() };
    let outcome = run_order(&order);
    // Nobody may be there to read the story.
    let _ = std::io::stdout().write_all(outcome.trace.as_bytes());
    let failed = outcome.violation.map(|violation| (seed, violation)).into_iter().collect();
    Account { seeds: 1, tally: outcome.tally, failed }
}

fn many(args: &SimArgs) -> Account {
    let jobs = args.jobs.unwrap_or_else(|| thread::available_parallelism().map_or(1, usize::from)).max(1);
    let within = args.minutes.map(|minutes| Duration::from_secs(60 * minutes));
    let seeds = args.seeds.or(within.is_none().then_some(SEEDS));
    let next = AtomicU64::new(0);
    let over = AtomicBool::new(false);
    let shared = Mutex::new((Account::default(), Progress::new(seeds, within)));
    thread::scope(|scope| {
        for _ in 0..jobs {
            scope.spawn(|| {
                while !over.load(Ordering::Relaxed) {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if seeds.is_some_and(|seeds| number >= seeds) {
                        break;
                    }
                    let seed = args.first.wrapping_add(number);
                    let outcome = run_order(&Order { seed, ..Order::default() });
                    let mut shared = shared.lock().unwrap_or_else(PoisonError::into_inner);
                    let (account, progress) = &mut *shared;
                    account.seeds += 1;
                    account.tally.add(&outcome.tally);
                    if let Some(violation) = outcome.violation {
                        over.store(true, Ordering::Relaxed);
                        account.failed.insert(seed, violation);
                    }
                    if progress.is_over() {
                        over.store(true, Ordering::Relaxed);
                    }
                    progress.tell(account);
                }
            });
        }
    });
    let (account, progress) = shared.into_inner().unwrap_or_else(PoisonError::into_inner);
    progress.end();
    account
}

fn make_small(order: &Order, again: &str) {
    eprintln!("making it smaller, for up to {} s…", SHRINK_FOR.as_secs());
    let begun = Instant::now();
    SEED.set(Some(order.seed));
    let shrunk = shrink(order, || begun.elapsed() < SHRINK_FOR);
    SEED.set(None);
    let Some(Shrunk { cuts, clients, disasters, outcome, tries }) = shrunk else { return };
    let seconds = outcome.ended_us / 1_000_000;
    eprintln!(
        "the smallest of {tries} runs has {clients} clients and {disasters} large faults, and ends after {seconds} s"
    );
    if let Some(violation) = outcome.violation {
        eprintln!("it violates {violation}");
    }
    eprintln!("see it with: leasehold sim --seed {} --cut {cuts} --trace{again}", order.seed);
}

thread_local! {
    static SEED: std::cell::Cell<Option<u64>> = const { std::cell::Cell::new(None) };
}

fn run_order(order: &Order) -> Outcome {
    SEED.set(Some(order.seed));
    let outcome = carry_out(order);
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
