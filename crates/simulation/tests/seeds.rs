//! The seeds that every change must pass: a fixed block of ordinary ones, all that ever failed, and a few that nobody has
//! seen before.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::thread;

use leasehold_simulation::{FaultKind, Tally, run};

/// Runs seeds on all cores; panics at the first that fails.
fn run_all(seeds: &[u64]) -> Tally {
    let jobs = thread::available_parallelism().map_or(1, usize::from);
    let parts: Vec<Vec<u64>> =
        (0..jobs).map(|job| seeds.iter().copied().skip(job).step_by(jobs).collect()).collect();
    let mut total = Tally::default();
    thread::scope(|scope| {
        let threads: Vec<_> = parts
            .iter()
            .map(|part| {
                scope.spawn(move || {
                    let mut tally = Tally::default();
                    for seed in part {
                        let outcome = run(*seed, false);
                        if let Some(violation) = outcome.violation {
                            panic!(
                                "seed {seed} violates {violation}\nsee it with: leasehold sim --seed {seed} --trace"
                            );
                        }
                        tally.add(&outcome.tally);
                    }
                    tally
                })
            })
            .collect();
        for thread in threads {
            match thread.join() {
                Ok(tally) => total.add(&tally),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
    });
    total
}

#[test]
fn a_fixed_block_of_seeds_holds_and_every_fault_takes_effect() {
    let seeds: Vec<u64> = (1..=300).collect();
    let tally = run_all(&seeds);
    for kind in FaultKind::ALL {
        assert!(tally.of(*kind) > 0, "no {} took effect in {} seeds", kind.text(), seeds.len());
    }
    assert!(tally.grants > 1000 && tally.operations > 10_000 && tally.updates > 100, "{tally:?}");
    assert!(tally.simulated_us > 365 * 86_400 * 1_000_000, "quiet seeds last: {tally:?}");
}

#[test]
fn fresh_seeds_hold() {
    let first = RandomState::new().build_hasher().finish() % 1_000_000_000_000;
    println!("fresh seeds: leasehold sim --first {first} --seeds 40");
    let seeds: Vec<u64> = (first..first + 40).collect();
    run_all(&seeds);
}

#[test]
fn every_seed_that_ever_failed_holds() {
    let seeds: Vec<u64> = include_str!("seeds.txt")
        .lines()
        .filter_map(|line| line.split('#').next())
        .map(str::trim)
        .filter(|number| !number.is_empty())
        .map(|number| number.parse().expect("a seed a line, and what it found after a #"))
        .collect();
    run_all(&seeds);
}

#[test]
fn the_same_seed_gives_the_same_bytes() {
    // The first and the last are quiet.
    for seed in [1, 7, 19, 23, 3] {
        let first = run(seed, true).trace;
        assert!(first.lines().count() > 100, "seed {seed} has a story");
        assert!(first == run(seed, true).trace, "seed {seed} told two stories");
    }
}
