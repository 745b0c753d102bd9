//! Who gets in. A request that is admitted counts, with its bytes, until it is answered or stands in line; where the
//! count is full the next is told `busy` at once, so that no queue grows. Renewals and releases have a lane of their own.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use leasehold_state_machine::answer::Refusal;
use leasehold_state_machine::command::Command;

use crate::limits::{
    BUSY_RETRY_MS, ORDINARY_BYTES_MAX, ORDINARY_REQUESTS_MAX, READ_BYTES_MAX, READ_REQUESTS_MAX,
    UPKEEP_BYTES_MAX, UPKEEP_REQUESTS_MAX, WRITE_LANE_BYTES_MAX, WRITE_LANE_REQUESTS_MAX,
};
use crate::op::{Op, Purpose, weight_bytes};

/// The bounds of one lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaneLimits {
    /// Requests at once.
    pub requests_max: usize,
    /// Bytes of those requests.
    pub bytes_max: usize,
}

/// The bounds of all lanes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AdmissionLimits {
    /// For what begins something: acquire, break, the opening of a session.
    pub ordinary: LaneLimits,
    /// For what keeps up or ends it: renew, release, cancel, keep-alive, close, delete.
    pub upkeep: LaneLimits,
    /// For what brings bytes for a file. A write counts until its bytes are in the file.
    pub write: LaneLimits,
    /// For what only looks.
    pub read: LaneLimits,
}

impl Default for AdmissionLimits {
    fn default() -> Self {
        AdmissionLimits {
            ordinary: LaneLimits { requests_max: ORDINARY_REQUESTS_MAX, bytes_max: ORDINARY_BYTES_MAX },
            upkeep: LaneLimits { requests_max: UPKEEP_REQUESTS_MAX, bytes_max: UPKEEP_BYTES_MAX },
            write: LaneLimits { requests_max: WRITE_LANE_REQUESTS_MAX, bytes_max: WRITE_LANE_BYTES_MAX },
            read: LaneLimits { requests_max: READ_REQUESTS_MAX, bytes_max: READ_BYTES_MAX },
        }
    }
}

/// Counts who is inside.
#[derive(Debug)]
pub struct Admission {
    ordinary: Arc<Lane>,
    upkeep: Arc<Lane>,
    write: Arc<Lane>,
    read: Arc<Lane>,
}

#[derive(Debug)]
struct Lane {
    limits: LaneLimits,
    requests: AtomicUsize,
    bytes: AtomicUsize,
}

/// The right to be inside, of one request or of several that leave together; given back when it is dropped.
#[derive(Debug)]
pub struct Permit {
    lane: Arc<Lane>,
    requests: usize,
    bytes: usize,
}

impl Admission {
    /// Nobody is inside yet.
    pub fn new(limits: AdmissionLimits) -> Admission {
        let lane =
            |limits| Arc::new(Lane { limits, requests: AtomicUsize::new(0), bytes: AtomicUsize::new(0) });
        Admission {
            ordinary: lane(limits.ordinary),
            upkeep: lane(limits.upkeep),
            write: lane(limits.write),
            read: lane(limits.read),
        }
    }

    /// Lets a request in, or says when to come back. `chance` is any number that differs from request to request.
    pub fn admit(&self, command: &Command, chance: u64) -> Result<Permit, Refusal> {
        let lane = match Op::of(command).purpose() {
            Purpose::Ordinary => &self.ordinary,
            Purpose::Upkeep => &self.upkeep,
            Purpose::Write => &self.write,
            Purpose::Read => &self.read,
        };
        let permit = Permit { lane: lane.clone(), requests: 1, bytes: weight_bytes(command) };
        let requests = lane.requests.fetch_add(1, Relaxed) + 1;
        let bytes = lane.bytes.fetch_add(permit.bytes, Relaxed) + permit.bytes;
        if requests > lane.limits.requests_max || bytes > lane.limits.bytes_max {
            let retry_ms = BUSY_RETRY_MS + scatter(chance) % BUSY_RETRY_MS;
            return Err(Refusal::Busy { what: "requests in flight", retry_ms });
        }
        Ok(permit)
    }
}

impl Permit {
    /// Takes in another one for the same lane: both are given back at once. One for another lane is given back to the caller.
    pub fn join(&mut self, mut other: Permit) -> Option<Permit> {
        if !Arc::ptr_eq(&self.lane, &other.lane) {
            return Some(other);
        }
        self.requests += std::mem::take(&mut other.requests);
        self.bytes += std::mem::take(&mut other.bytes);
        None
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        if self.requests > 0 {
            self.lane.requests.fetch_sub(self.requests, Relaxed);
            self.lane.bytes.fetch_sub(self.bytes, Relaxed);
        }
    }
}

/// Spreads neighbouring numbers far apart (the finish of splitmix64).
fn scatter(number: u64) -> u64 {
    let number = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;
    use leasehold_state_machine::ids::{LeaseId, Secret, SessionId};
    use leasehold_state_machine::words::{Metadata, Owner, Ttl};

    fn open() -> Command {
        let owner = Owner::parse("w").unwrap();
        Command::OpenSession { owner, ttl: Ttl::default(), request_id: None, metadata: Metadata::default() }
    }

    fn keep_alive() -> Command {
        let id = LeaseId { slot: 0, secret: Secret([0, 0]) };
        Command::KeepAlive { session: SessionId::Own(id), seen: None }
    }

    fn limits(requests_max: usize, bytes_max: usize) -> AdmissionLimits {
        AdmissionLimits { ordinary: LaneLimits { requests_max, bytes_max }, ..AdmissionLimits::default() }
    }

    #[test]
    fn a_full_lane_says_busy_and_leaves_the_other_open() {
        let admission = Admission::new(limits(2, usize::MAX));
        let first = admission.admit(&open(), 1).unwrap();
        let _second = admission.admit(&open(), 2).unwrap();
        match admission.admit(&open(), 3) {
            Err(Refusal::Busy { retry_ms, .. }) => {
                assert!((BUSY_RETRY_MS..2 * BUSY_RETRY_MS).contains(&retry_ms));
            }
            other => panic!("{other:?}"),
        }
        assert!(admission.admit(&keep_alive(), 4).is_ok());
        drop(first);
        assert!(admission.admit(&open(), 5).is_ok(), "who was turned away does not count");
    }

    #[test]
    fn bytes_are_bounded_too() {
        let one = weight_bytes(&open());
        let admission = Admission::new(limits(100, one * 3));
        let inside: Vec<_> = (0..3).map(|n| admission.admit(&open(), n).unwrap()).collect();
        assert!(admission.admit(&open(), 9).is_err());
        drop(inside);
        assert!(admission.admit(&open(), 9).is_ok());
    }

    #[test]
    fn the_time_to_come_back_is_scattered() {
        let times: std::collections::BTreeSet<_> = (0..100).map(|n| scatter(n) % BUSY_RETRY_MS).collect();
        assert!(times.len() > 25);
    }
}
