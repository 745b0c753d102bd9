//! Is it all true under every fault? One seed, one run, the same bytes every time.
//!
//! The engine struct and the file journal are the server's own; time, network, disk and clients are simulated. There is
//! no real clock, no thread and no system randomness inside a run. What must hold is in `invariants/`, one file each.
//!
//! Modules in reading order, low to high.

#![forbid(unsafe_code)]

mod faults;
mod plant;
mod random;
mod trace;

mod ledger;

pub mod invariants;

mod world;

mod disk;
mod network;
mod story;

mod node;

mod belief;
mod workload;

mod client;
mod session;
mod task;

mod run;

pub mod command;

pub use faults::{FaultKind, Tally};
pub use plant::Plant;
pub use run::{Outcome, run, run_planted};
