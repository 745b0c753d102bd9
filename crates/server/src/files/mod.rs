//! Reading files through any door: a bounded number of bytes in memory for everybody who reads, and the bytes of one file
//! piece by piece. Never makes a writer wait, and never judges who may write.

pub mod on_the_way;
pub mod readers;
pub mod reading;

pub use readers::Readers;
pub use reading::{Reading, Slice};
