//! After a restart: how far the leases found in the journal still reach, and what the engine starts with. Never shortens
//! a lease on guesswork. Reads no clock and no disk.

use leasehold_planted::{Bug, planted};
use leasehold_state_machine::codec::BootId;
use leasehold_state_machine::token::Doubt;
use leasehold_state_machine::{Horizon, Rearm};

use crate::clock::Reading;
use crate::horizon::HorizonPolicy;
use crate::limits::AWAY_DISAGREEMENT_US_MAX;
use crate::replay::Traces;

/// What a start found, for the person who reads the log.
#[derive(Clone, Debug, PartialEq)]
pub struct Recovered {
    /// Whether the journal begins with this start.
    pub founded: bool,
    /// Whether leases were re-armed in the boot that granted them, exactly, or elsewhere, generously.
    pub same_boot: bool,
    /// How long the server was away, when that is known.
    pub away_ms: Option<u64>,
    /// Leases that live.
    pub leases: usize,
    /// Leases whose time had run out meanwhile.
    pub expired: usize,
    /// Requests in line.
    pub waiters: usize,
    /// Sessions that live, those of single leases included.
    pub sessions: usize,
    /// For how long nothing is granted, because an old copy of the data was put back.
    pub grants_held_ms: Option<u64>,
    /// Why the wall clock is not used for tokens.
    pub doubt: Option<Doubt>,
}

/// An old copy of the data directory was put back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Restored {
    /// How long to grant nothing; without it, the largest TTL in the journal.
    pub for_ms: Option<u64>,
}

/// How to go on from what the journal holds.
pub(crate) struct Resumption {
    pub rearm: Rearm,
    pub same_boot: bool,
    pub away_ms: Option<u64>,
    pub horizon: HorizonPolicy,
}

/// Compares the journal's last traces with the clocks of this start.
pub(crate) fn resume(
    traces: &Traces,
    horizon: Option<Horizon>,
    boot_id: BootId,
    reading: Reading,
) -> Resumption {
    let away_us = away_us(traces, boot_id, reading);
    let away_ms = away_us.map(|away_us| away_us / 1000);
    match horizon {
        // A horizon of an older boot says nothing here, even when a later batch is of this one.
        Some(horizon) if away_us.is_some() && traces.horizon_boot == Some(boot_id) => Resumption {
            rearm: Rearm::SameBoot,
            same_boot: true,
            away_ms,
            horizon: HorizonPolicy::carried_on(horizon.until_raw_us),
        },
        _ => {
            let length_us = horizon.map_or(0, |horizon| horizon.length_us);
            Resumption {
                rearm: Rearm::Elsewhere,
                same_boot: false,
                away_ms,
                horizon: HorizonPolicy::begun_anew(reading.raw_us.saturating_add(length_us)),
            }
        }
    }
}

/// How long the server was away, if this is the same boot and both clocks agree on it.
fn away_us(traces: &Traces, boot_id: BootId, reading: Reading) -> Option<u64> {
    let last = traces.last.filter(|last| last.boot_id == boot_id)?.reading;
    let raw_us = reading.raw_us.checked_sub(last.raw_us)?;
    let wall_us = i128::from(reading.wall_ms) * 1000 - i128::from(last.wall_ms) * 1000;
    let disagreement_us = (i128::from(raw_us) - wall_us).unsigned_abs();
    let agree = disagreement_us <= u128::from(AWAY_DISAGREEMENT_US_MAX) || planted(Bug::ClocksNotCompared);
    agree.then_some(raw_us)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wall::Anchor;

    const BOOT: BootId = [1; 16];
    const S: u64 = 1_000_000;

    fn read(raw_s: u64, wall_s: u64) -> Reading {
        Reading { raw_us: raw_s * S, wall_ms: wall_s * 1000 }
    }

    fn same_boot(traces: &Traces, boot_id: BootId, reading: Reading) -> bool {
        let horizon = Horizon { until_raw_us: 102 * S, length_us: 2 * S };
        resume(traces, Some(horizon), boot_id, reading).same_boot
    }

    #[test]
    fn the_same_boot_is_one_in_which_both_clocks_agree() {
        let last = Some(Anchor { boot_id: BOOT, reading: read(100, 5000) });
        let traces = Traces { last, anchor: None, horizon_boot: Some(BOOT) };
        assert!(same_boot(&traces, BOOT, read(160, 5060)));
        assert!(same_boot(&traces, BOOT, read(160, 5061)));
        assert!(same_boot(&traces, BOOT, read(160, 5059)));
        assert!(!same_boot(&traces, BOOT, read(160, 5062)), "the wall clock was set, or time was lost");
        assert!(!same_boot(&traces, BOOT, read(160, 4000)));
        assert!(!same_boot(&traces, BOOT, read(99, 4999)), "a machine put back to an earlier moment");
        assert!(!same_boot(&traces, [2; 16], read(160, 5060)));
    }

    #[test]
    fn a_horizon_of_an_older_boot_does_not_count() {
        let last = Some(Anchor { boot_id: BOOT, reading: read(100, 5000) });
        let traces = Traces { last, anchor: None, horizon_boot: Some([2; 16]) };
        assert!(!same_boot(&traces, BOOT, read(160, 5060)));
    }
}
