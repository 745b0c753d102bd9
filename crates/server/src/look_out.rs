//! Keeps the thread of the doors awake while requests come one after the other. A thread that sleeps until a socket or the
//! engine wakes it is there later than one that looks, by more than the engine takes to decide; and whoever waits for the next
//! answer waits for that too. Changes nothing but when things happen.

use std::convert::Infallible;

use leasehold_engine::Handle;
use tokio::task;

/// Looks out for ever. It gives way to every task and thread that has something to do, and sleeps when nothing was asked or
/// told for a moment.
///
/// For a runtime with one thread, which looks at its sockets each time. Where there are several, another one would sit at the
/// sockets meanwhile, and be woken as before.
pub async fn look_out(engine: Handle) -> Infallible {
    loop {
        engine.bustle().await;
        while engine.bustles() {
            std::thread::yield_now();
            task::yield_now().await;
        }
    }
}
