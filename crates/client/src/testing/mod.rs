//! A server in memory and a clock that the test turns.

mod tokio_time;

mod clock;

mod weather;

mod life;
mod memory;

mod machine;

mod carrier;
mod wire;

pub use clock::TestClock;
