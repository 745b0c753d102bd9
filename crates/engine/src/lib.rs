//! In what order, and who may be told when: the engine around the state machine and the journal.
//!
//! [`Engine`] is a plain struct that the server's threads and the simulator drive alike: no threads, no clock, no I/O, no
//! async. [`start`] puts real threads around it and gives a [`Handle`]; [`ByHand`] gives one without any. Nothing in this crate
//! knows a wire format, and nothing decides who holds a lock: that is the state machine's.
//!
//! Modules in reading order, low to high.

#![forbid(unsafe_code)]

pub mod limits;

mod clock;
mod notice;
mod op;
mod sync;

mod horizon;
mod server_time;
mod wall;

mod chapter;
mod file_change;

mod backlog;
mod metrics;
mod withheld;

mod history;
mod recovery;
mod replay;

mod picture;

mod files_recovery;
mod synced_fold;

mod engine;

mod admission;
mod bustle;
mod inbox;
mod pace;
mod placement;
mod secrets;

mod handle;
mod reading;
mod scribe;
mod stream;
mod voice;

mod appliers;
mod parcels;

mod desk;
mod storage;

mod by_hand;

mod driven;
mod stand_in;

mod driver;

pub use admission::{Admission, AdmissionLimits, LaneLimits, Permit};
pub use backlog::Batch;
pub use by_hand::ByHand;
pub use chapter::{Chapter, Contents, Told};
pub use clock::{Clock, MachineClock, Reading};
pub use desk::{OnEvents, OnNotice};
pub use driver::{DriverOptions, start};
pub use engine::{Engine, EngineOptions, Released};
pub use file_change::FileChange;
pub use files_recovery::{FilesError, FilesRecovered, recover_files};
pub use handle::{Failure, Handle};
pub use history::{History, Moment, MomentKind};
pub use metrics::{Histogram, HistogramReading, Metrics};
pub use notice::Notice;
pub use op::{Op, Purpose};
pub use picture::{Picture, Pictured};
pub use reading::{OpenFile, ReadError};
pub use recovery::{Recovered, Restored};
pub use replay::{FileTraces, Replay, Traces};
pub use scribe::Scribe;
pub use secrets::{Secrets, founding_key};
pub use storage::HistoryUpTo;
pub use stream::{Heard, Stream};
pub use synced_fold::SyncedFold;
pub use wall::Anchor;
pub use withheld::Unasked;
