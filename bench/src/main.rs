//! Measures Leasehold and other lock services side by side on this machine, in one run, interleaved, and writes the figures,
//! tables and plots. Nothing here is a test, and nothing fails for being slow.
//!
//! ```text
//! scripts/bench [--quick]
//! ```

// The seam is here before all who use it are.
#![allow(dead_code)]

mod alone;
mod book;
mod compare;
mod drive;
mod http;
mod peers;
mod referee;
mod samples;
mod served;

use std::process::ExitCode;
use std::time::Duration;

use crate::book::{Book, Progress};
use crate::compare::Scale;

const USAGE: &str = "usage: leasehold-bench [--quick] [--only WORKLOAD]...";

fn main() -> ExitCode {
    let mut scale = Scale::FULL;
    let mut only: Vec<String> = Vec::new();
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        match (argument.as_str(), argument == "--only") {
            ("--quick", _) => scale = Scale::QUICK,
            (_, true) => only.extend(arguments.next()),
            _ => {
                eprintln!("{USAGE}");
                return ExitCode::from(64);
            }
        }
    }
    match run(scale, &only) {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            eprintln!("{problem}");
            ExitCode::FAILURE
        }
    }
}

fn run(scale: Scale, only: &[String]) -> Result<(), String> {
    let wanted = |name: &str| only.is_empty() || only.iter().any(|only| only == name);
    let mut book = Book::default();
    let mut progress = Progress::new(Duration::from_secs(60));
    compare::run(scale, &peers::all(), &wanted, &mut book, &mut progress)?;
    for part in alone::PARTS.iter().filter(|part| wanted(part.name)) {
        let expected = part.expected[usize::from(scale.quick)];
        for _ in 0..if scale.quick { 1 } else { part.rounds } {
            (part.run)(scale, &mut book).map_err(|error| format!("{}: {error}", part.name))?;
            progress.done(expected, part.name);
        }
    }
    for (key, _) in book.figures() {
        println!("{key:?} {:?}", book.value(key, "per_second"));
    }
    Ok(())
}
