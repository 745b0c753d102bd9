//! The Rust SDK of Leasehold: hold a lock, and learn in time that it is lost.
//!
//! A client must stop believing in its lease before the server may give it to another. Everything here serves that: what
//! is believed is counted on the boot-time clock from the moment a request was *sent*, is looked up when asked and not
//! when a timer fires, and what is lost once is lost for good.
//!
//! Modules in reading order, low to high.
#![forbid(unsafe_code)]

pub mod keeper;

mod alarm;
mod boot_clock;
mod clock;
mod error;
mod random;
mod retry;

mod wire;

mod address;
mod connect;
mod grpc;
mod pipe;
mod socket;
mod tls;

mod refusal;
mod view;

mod operations;

mod calls;
mod client;
mod observe;
mod owner;

#[cfg(feature = "testing")]
pub mod testing;

pub use boot_clock::BootClock;
pub use client::{Client, ClientBuilder};
pub use clock::{Clock, Sleep};
pub use error::{Advice, Ended, Error, Held, Unavailable};
pub use observe::Observer;
pub use retry::RetryPolicy;
pub use view::{
    Ask, BreakAsk, Broke, Cancelled, Claim, Event, EventKind, Grant, Holder, ListFilter, Metadata, Mode,
    Page, SessionRow, Snapshot, Waiter, Watched,
};
pub use wire::Trouble;
