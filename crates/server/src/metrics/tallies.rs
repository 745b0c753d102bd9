//! What is counted at the door: calls by their outcome, how long they took, connections.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use leasehold_engine::Histogram;
use leasehold_state_machine::answer::{Outcome, Refusal};

use crate::wire::commands::Call;
use crate::wire::problem::Denial;

/// How a call ended, as `result` says it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// It was carried out.
    Success,
    /// It was refused.
    Fail,
    /// It was refused because of load.
    Busy,
}

impl Ended {
    /// All of them, in the order of their discriminants.
    pub const ALL: [Ended; 3] = [Ended::Success, Ended::Fail, Ended::Busy];

    /// The label.
    pub fn text(self) -> &'static str {
        match self {
            Ended::Success => "success",
            Ended::Fail => "fail",
            Ended::Busy => "busy",
        }
    }

    /// How this outcome ends a call.
    pub fn of(outcome: &Outcome) -> Ended {
        match outcome {
            Ok(_) => Ended::Success,
            Err(Refusal::Busy { .. }) => Ended::Busy,
            Err(_) => Ended::Fail,
        }
    }

    /// The same of what has been refused at the door.
    pub fn of_any<T>(outcome: &Result<T, Denial>) -> Ended {
        match outcome {
            Ok(_) => Ended::Success,
            Err(Denial::Refusal(Refusal::Busy { .. })) => Ended::Busy,
            Err(_) => Ended::Fail,
        }
    }
}

/// The counters of a door.
#[derive(Debug)]
pub struct Tallies {
    ended: [[AtomicU64; Ended::ALL.len()]; Call::ALL.len()],
    latency: [Histogram; Call::ALL.len()],
    /// Acquires that were ready to wait; their time is mostly other people's.
    waited: Histogram,
    connections: AtomicU64,
    connections_refused: AtomicU64,
}

impl Default for Tallies {
    fn default() -> Self {
        Tallies {
            ended: Default::default(),
            latency: std::array::from_fn(|_| Histogram::of_latencies()),
            waited: Histogram::of_latencies(),
            connections: AtomicU64::new(0),
            connections_refused: AtomicU64::new(0),
        }
    }
}

impl Tallies {
    /// A call has ended. `waits` says whether it was ready to stand in line.
    pub fn called(&self, call: Call, waits: bool, took: Duration, ended: Ended) {
        self.called_times(call, waits, took, ended, 1);
    }

    /// So many calls have ended alike.
    pub fn called_times(&self, call: Call, waits: bool, took: Duration, ended: Ended, times: u64) {
        self.ended[call as usize][ended as usize].fetch_add(times, Ordering::Relaxed);
        let histogram = if waits { &self.waited } else { &self.latency[call as usize] };
        histogram.observe_times(u64::try_from(took.as_micros()).unwrap_or(u64::MAX), times);
    }

    /// How many calls have ended this way.
    pub fn count(&self, call: Call, ended: Ended) -> u64 {
        self.ended[call as usize][ended as usize].load(Ordering::Relaxed)
    }

    /// The label `op` and the histogram of each kind of call.
    pub fn latencies(&self) -> impl Iterator<Item = (&'static str, &Histogram)> {
        let calls = Call::ALL.iter().map(|call| (call.text(), &self.latency[*call as usize]));
        calls.chain([("acquire_wait", &self.waited)])
    }

    /// A connection has opened; it closes when the guard is dropped.
    pub fn connection_opened(self: &Arc<Self>) -> OpenConnection {
        self.connections.fetch_add(1, Ordering::Relaxed);
        OpenConnection(Arc::clone(self))
    }

    /// A connection was one too many.
    pub fn connection_refused(&self) {
        self.connections_refused.fetch_add(1, Ordering::Relaxed);
    }

    /// Connections now, and those refused since the start.
    pub fn connections(&self) -> (u64, u64) {
        (self.connections.load(Ordering::Relaxed), self.connections_refused.load(Ordering::Relaxed))
    }
}

/// Counts as one open connection while it lives.
#[derive(Debug)]
pub struct OpenConnection(Arc<Tallies>);

impl Drop for OpenConnection {
    fn drop(&mut self) {
        self.0.connections.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn discriminants_are_places_in_the_tables() {
        for (place, call) in Call::ALL.into_iter().enumerate() {
            assert_eq!(call as usize, place);
        }
        for (place, ended) in Ended::ALL.into_iter().enumerate() {
            assert_eq!(ended as usize, place);
        }
    }
}
