//! What is true? Resources, sessions, leases, waiters, tokens and fenced files, as a pure state machine.
//!
//! `decide` turns a request and one reading of the clocks into events and replies; `apply` takes an event in. Nothing
//! here reads a clock, draws a random number, does I/O, starts a thread or iterates a hash map: the same inputs give
//! the same outputs, byte for byte, which is what the journal, the simulator and the standbys rest on.
//!
//! Modules in reading order, low to high.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod limits;

pub mod invalid;
pub mod resource;
pub mod words;

pub mod file;

pub mod ids;
pub mod time;
pub mod token;

pub mod answer;
pub mod command;
pub mod event;

pub mod codec;

mod crowd;
mod files;
mod intervals;
mod keyed;
mod lease;
pub mod numbers;
mod ordered;
mod owners;
mod places;
mod records;
mod remembered;
mod requests;
#[cfg(test)]
mod scatter;
mod slab;
mod sorted;
mod space;
mod timers;
mod tombstones;

mod apply;
mod decide;
mod invariants;
pub mod machine;
mod snapshot;

pub use decide::Rearm;
pub use machine::{Counts, EndedNotice, Horizon, Machine, Output, QueuedNotice};
pub use snapshot::Picture;
