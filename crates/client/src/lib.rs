//! The Rust SDK of Leasehold: hold a lock, and learn in time that it is lost.
//!
//! A client must stop believing in its lease before the server may give it to another. Everything here serves that: what
//! is believed is counted on the boot-time clock from the moment a request was *sent*, is looked up when asked and not
//! when a timer fires, and what is lost once is lost for good.
//!
//! Modules in reading order, low to high.
#![forbid(unsafe_code)]

pub mod keeper;

mod clock;
mod error;
mod random;
mod retry;

mod wire;

#[cfg(feature = "testing")]
pub mod testing;

pub use clock::Clock;
pub use error::{Advice, Ended, Error, Held, Unavailable};
pub use retry::RetryPolicy;
