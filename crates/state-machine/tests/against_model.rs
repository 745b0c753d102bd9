//! Random commands against a model that is too simple to be wrong.
//!
//! The seeds are fixed; `LEASEHOLD_SEEDS=100000` tries that many instead, and `LEASEHOLD_SEED=17` only that one. A run
//! that fails is made as short as it can be and printed.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod model;

use std::panic::{AssertUnwindSafe, catch_unwind};

use model::drive::Pair;
use model::steps::{Step, limits, run};

const SEEDS: u64 = 10_000;

fn number_from_env(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().unwrap_or_else(|_| panic!("{name} is a number")))
}

/// Which step fails, and how; or how many answers were compared.
fn outcome(seed: u64, steps: &[Step]) -> Result<u64, (usize, String)> {
    let mut pair = Pair::new(limits(seed));
    for (index, step) in steps.iter().enumerate() {
        match catch_unwind(AssertUnwindSafe(|| pair.step(step))) {
            Ok(Ok(())) => {}
            Ok(Err(problem)) => return Err((index, problem)),
            Err(panic) => {
                let text = panic.downcast_ref::<String>().cloned();
                let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| text.to_string()));
                return Err((index, format!("panic: {}", text.unwrap_or_default())));
            }
        }
    }
    Ok(pair.compared)
}

/// Takes steps out as long as the run still fails.
fn shorten(seed: u64, mut steps: Vec<Step>) -> Vec<Step> {
    let mut size = steps.len().div_ceil(2);
    while size > 0 {
        let length = steps.len();
        let mut at = 0;
        while at < steps.len() {
            let mut fewer = steps.clone();
            fewer.drain(at..(at + size).min(steps.len()));
            match outcome(seed, &fewer) {
                Err((last, _)) => {
                    fewer.truncate(last + 1);
                    steps = fewer;
                }
                Ok(_) => at += size,
            }
        }
        if steps.len() == length {
            size /= 2;
        }
    }
    steps
}

fn explain(seed: u64, steps: Vec<Step>) -> String {
    let steps = shorten(seed, steps);
    let (_, problem) = outcome(seed, &steps).expect_err("a shortened run still fails");
    let mut text = format!("seed {seed} fails; LEASEHOLD_SEED={seed} repeats it. Shortened:\n");
    for step in &steps {
        text += &format!("  {step:?}\n");
    }
    text + &problem
}

#[test]
fn the_machine_does_what_the_model_does() {
    let only = number_from_env("LEASEHOLD_SEED");
    let seeds = match only {
        Some(seed) => seed..seed + 1,
        None => 0..number_from_env("LEASEHOLD_SEEDS").unwrap_or(SEEDS),
    };
    // Panics are caught and told with their run; their own words would drown it.
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    let mut compared = 0;
    let failure = seeds.into_iter().find_map(|seed| {
        let steps = run(seed);
        match outcome(seed, &steps) {
            Ok(count) => {
                compared += count;
                None
            }
            Err((last, _)) => Some(explain(seed, steps[..=last].to_vec())),
        }
    });
    std::panic::set_hook(hook);
    assert!(failure.is_none(), "{}", failure.unwrap_or_default());
    println!("{compared} answers compared");
    assert!(compared > 0);
}
