//! A group of outcomes as it goes out: those that were written where they were decided, as they are, and all others out of their
//! generated messages.

use bytes::{Bytes, BytesMut};
use leasehold_protocol::v1;
use leasehold_protocol::v1::outcome::What;

use super::{frame, outcomes};
use crate::limits::TOLD_ROOM_BYTES_MAX;

/// An `OutcomeGroup` in the making.
#[derive(Default)]
pub struct ToldGroup {
    /// The group as it will lie in a body, where it leaves from: its room is used again when it has been sent.
    outgoing: BytesMut,
    /// How long the last one was; only saves growing.
    last_length: usize,
    /// One outcome of it; kept to be used again.
    outcome: Vec<u8>,
}

impl ToldGroup {
    /// Whether nothing is in it.
    pub fn is_empty(&self) -> bool {
        self.outgoing.is_empty()
    }

    /// Adds an outcome.
    pub fn add(&mut self, number: u64, what: What) {
        let mut outcome = std::mem::take(&mut self.outcome);
        outcome.clear();
        outcomes::put_any(&mut outcome, &v1::Outcome { number, what: Some(what) });
        self.add_written(&outcome);
        self.outcome = outcome;
    }

    /// Adds an outcome that was written before.
    pub fn add_written(&mut self, outcome: &[u8]) {
        if self.outgoing.is_empty() {
            self.outgoing.reserve(self.last_length.min(TOLD_ROOM_BYTES_MAX));
            // What stands before the group says how long it is, which is known when it leaves.
            self.outgoing.extend_from_slice(&[0; frame::HEAD_BYTES]);
        }
        self.outgoing.extend_from_slice(outcome);
    }

    /// The group as it lies in a body; an empty one is left. There must be something in it.
    pub fn take(&mut self) -> Bytes {
        assert!(!self.is_empty(), "a group that says nothing is not sent");
        self.last_length = self.outgoing.len();
        let head = frame::head_of(self.outgoing.len() - frame::HEAD_BYTES);
        self.outgoing[..frame::HEAD_BYTES].copy_from_slice(&head);
        self.outgoing.split().freeze()
    }
}
