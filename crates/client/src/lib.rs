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

mod fields;
mod group;
mod outcome;
mod wire;

mod address;
mod connect;
mod grpc;
mod pipe;
mod socket;
mod tls;

mod file_view;
mod refusal;
mod view;

mod operations;

mod acquiring;
mod calls;
mod client;
mod file_calls;
mod observe;
mod owner;
mod releasing;

mod options;
mod ttl;

mod hold;
mod upkeep;

mod heart;
mod obtain;

mod lease;
mod observed;
mod session;

mod guard;
mod lock;

mod leader;

pub mod bare;

#[cfg(feature = "testing")]
pub mod testing;

pub use boot_clock::BootClock;
pub use client::{Client, ClientBuilder};
pub use clock::{Clock, Sleep};
pub use error::{Advice, Ended, Error, Held, Unavailable};
pub use file_calls::FileReader;
pub use file_view::{FileRow, FileWrite, Written};
pub use guard::Guard;
pub use hold::Standing;
pub use leader::{Following, Leader, Led, Next, Term};
pub use lease::Lease;
pub use lock::{Lock, LockOptions};
pub use observe::Observer;
pub use observed::{Changes, Holding, Observed};
pub use options::AcquireOptions;
pub use retry::RetryPolicy;
pub use session::{Session, SessionOptions};
pub use ttl::Ttl;
pub use view::{
    Ask, BreakAsk, Broke, Cancelled, Claim, Event, EventKind, Grant, Holder, ListFilter, Metadata, Mode,
    Page, SessionRow, Snapshot, Waiter, Watched,
};
pub use wire::Trouble;
