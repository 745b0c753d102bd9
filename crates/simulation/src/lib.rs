//! Is it all true under every fault? One seed, one run, the same bytes every time.
//!
//! The engine struct and the file journal are the server's own, and what clients believe is told by the SDK's own keeper;
//! time, network, disk and the rest of the clients are simulated. There is no real clock, no thread and no system
//! randomness inside a run. What must hold is in `invariants/`, one file each.
//!
//! Modules in reading order, low to high.

#![forbid(unsafe_code)]

mod faults;
mod local_clock;
mod plant;
mod random;
mod stream;
mod trace;

mod plan;

mod cuts;

mod ledger;

pub mod invariants;

mod register;

mod record;

mod world;

mod disk;
mod network;
mod story;

mod node;

mod workload;

mod client;
mod keeping;
mod session;
mod task;
mod updating;
mod writing;

mod run;
mod shrink;
mod strike;

mod account;
mod progress;

pub mod command;

pub use account::Account;
pub use cuts::Cuts;
pub use faults::{FaultKind, Tally};
pub use run::{Order, Outcome, carry_out, run, run_heeding};
pub use shrink::{Shrunk, shrink};
