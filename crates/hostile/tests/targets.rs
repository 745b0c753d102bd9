//! Every target with its samples, with the inputs that are kept in `corpus/`, and with many that are made from both by a seed.
//! `LEASEHOLD_HOSTILE_INPUTS` sets how many, `LEASEHOLD_HOSTILE_SEED` from where.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::{env, fs};

use leasehold_hostile::{Mutator, TARGETS, Target};

fn setting(name: &str, default: u64) -> u64 {
    env::var(name).map_or(default, |text| text.parse().expect("a number"))
}

fn kept(target: &Target) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(target.name);
    let mut paths: Vec<_> = fs::read_dir(folder)
        .map(|entries| entries.map(|entry| entry.unwrap().path()).collect())
        .unwrap_or_default();
    paths.sort();
    paths.into_iter().map(|path| fs::read(path).unwrap()).collect()
}

fn attempt(target: &Target, bytes: &[u8]) -> bool {
    catch_unwind(AssertUnwindSafe(|| (target.run)(bytes))).unwrap_or_else(|_| {
        let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        panic!("{} does not hold for {} bytes: {hex}", target.name, bytes.len());
    })
}

fn attack(name: &str) {
    let target = TARGETS.iter().find(|target| target.name == name).expect("it is in the list");
    let mut inputs = (target.samples)();
    let sound = inputs.iter().filter(|input| attempt(target, input)).count();
    assert!(sound > inputs.len() / 4, "{name}: {sound} of {} samples are accepted", inputs.len());
    inputs.extend(kept(target));
    for input in &inputs {
        attempt(target, input);
    }
    let mut mutator = Mutator::new(setting("LEASEHOLD_HOSTILE_SEED", 1));
    let count = setting("LEASEHOLD_HOSTILE_INPUTS", 100_000);
    let accepted = (0..count).filter(|_| attempt(target, &mutator.input(&inputs))).count();
    println!("{name}: {count} inputs, {accepted} of them accepted");
    // It must get past the front door, and not always.
    let share = accepted as f64 / count as f64;
    assert!((0.002..0.9).contains(&share), "{name}: {accepted} of {count} inputs were accepted");
}

#[test]
fn event() {
    attack("event");
}

#[test]
fn batch() {
    attack("batch");
}

#[test]
fn snapshot() {
    attack("snapshot");
}

#[test]
fn journal_files() {
    attack("journal_files");
}

#[test]
fn resource() {
    attack("resource");
}

#[test]
fn http() {
    attack("http");
}

#[test]
fn grpc() {
    attack("grpc");
}
