//! What may come from outside, made worse: the decoders and parsers of Leasehold, each with bytes of any kind and with what
//! must hold for all of them. A target panics when something does not hold, and does nothing else.
//!
//! The same functions are run by the tests of this crate, with a seeded generator and a corpus that is kept, and by libFuzzer
//! from `fuzz/`. `docs/proof.md` says how.
//!
//! Modules in reading order, low to high.

#![forbid(unsafe_code)]

mod mutation;

mod message;

pub mod targets;

pub use mutation::Mutator;

/// One way in from outside.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// Its name; the corpus has a folder of that name.
    pub name: &'static str,
    /// Tries these bytes, and says whether they were accepted.
    pub run: fn(&[u8]) -> bool,
    /// Inputs to begin with: all that is accepted, in small.
    pub samples: fn() -> Vec<Vec<u8>>,
}

/// All of them.
pub const TARGETS: [Target; 7] = [
    targets::event::TARGET,
    targets::batch::TARGET,
    targets::snapshot::TARGET,
    targets::journal_files::TARGET,
    targets::resource::TARGET,
    targets::http::TARGET,
    targets::grpc::TARGET,
];
