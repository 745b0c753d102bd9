//! Watching: what happens to a lock, or to all locks with a prefix, told to whoever wants to hear it, without gaps or
//! repeats, across reconnects and restarts.
//!
//! Events leave the engine through the [`intake`], which never makes it wait. The [`feed`] keeps the last of
//! them and passes each to the [`seat`]s it concerns; whoever sits there reads them with a [`watching`]. Only durable
//! events come here. Nothing here knows how they are written on a wire.

pub mod concern;
pub mod shown;

pub mod intake;
pub mod seat;

pub mod index;

pub mod feed;
pub mod watching;

pub use concern::Concern;
pub use feed::{Feed, FeedLimits, NotWatching};
pub use shown::Shown;
pub use watching::{Ending, Watching};
