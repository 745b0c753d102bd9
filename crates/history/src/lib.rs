//! Was it all true? The record of what clients asked and were told, and the checks that judge it afterwards.
//!
//! A history is a list of [`Operation`]s, each with the moment at which it was invoked and the moment at which its answer was
//! heard. Nothing in here runs a server, reads a clock or trusts one: the judge knows no other crate of Leasehold, so that a
//! mistake in the service cannot be shared by what looks for it.
//!
//! What was never answered counts as open-ended: it may take effect at any moment after it was invoked, or never.
//!
//! ```
//! use leasehold_history::{History, Kind, Operation, Outcome};
//!
//! let mut first = Operation::new("w1", 1, Kind::Acquire, "deploy", 1_000);
//! first.token = Some(7);
//! first.answer(2_000, Outcome::Done);
//! let mut second = Operation::new("w2", 1, Kind::Acquire, "deploy", 3_000);
//! second.token = Some(7);
//! second.answer(4_000, Outcome::Done);
//!
//! let mut lines = Vec::new();
//! for operation in [&first, &second] {
//!     leasehold_history::write_line(&mut lines, operation).unwrap();
//! }
//! let history = History::read(lines.as_slice()).unwrap();
//! let report = leasehold_history::check(&history, &Default::default());
//! assert_eq!(report.violations[0].rule, "token_order");
//! ```
//!
//! Modules in reading order, low to high.

#![forbid(unsafe_code)]

mod operation;

mod lines;
mod recorder;

mod violation;

mod ground;

mod ceiling;

mod grants;

mod linear;
mod rules;

mod check;

pub use check::{Report, check};
pub use grants::Settings;
pub use ground::overlaps;
pub use lines::{History, LineError, write_line};
pub use operation::{Kind, Mode, Operation, Outcome};
pub use recorder::Recorder;
pub use violation::Violation;
