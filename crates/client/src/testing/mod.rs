//! A server in memory and a clock that the test turns.

mod carrier;
mod clock;
mod life;
mod machine;
mod memory;
mod weather;
mod wire;

pub use clock::TestClock;
