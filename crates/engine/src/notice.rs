//! What an operator should hear of: rare things, said once each. Writes no log itself.

use std::fmt;

use leasehold_state_machine::token::Doubt;

/// One thing worth a line in the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Notice {
    /// A commit took long.
    SlowCommit {
        /// How long.
        ms: u64,
    },
    /// The server stood still, and left that time out of the life of every lease.
    Stall {
        /// How long.
        ms: u64,
    },
    /// The wall clock reads something that is not used for tokens from now on.
    ClockDoubted {
        /// Why.
        doubt: Doubt,
    },
    /// Leases were ended long after their deadline.
    SweepLag {
        /// How long, at the worst of one turn.
        ms: u64,
    },
    /// Free disk space fell under the reserve, or rose above it again.
    Room {
        /// Whether it is short now.
        short: bool,
        /// Bytes left.
        bytes: u64,
    },
}

impl fmt::Display for Notice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Notice::SlowCommit { ms } => write!(f, "a journal commit took {ms} ms"),
            Notice::Stall { ms } => {
                write!(f, "the server stood still for {ms} ms; no lease loses that time")
            }
            Notice::ClockDoubted { doubt } => {
                match doubt {
                    Doubt::TooEarly => f.write_str("the wall clock reads before 2025")?,
                    Doubt::TooLate => f.write_str("the wall clock reads after 2080")?,
                    Doubt::Ahead { by_ms } => {
                        let hours = by_ms / 3_600_000;
                        write!(f, "the wall clock is {hours} hours ahead of what the journal lets expect")?;
                    }
                }
                f.write_str(" and is not used for tokens; set it right, or accept it with --accept-clock")
            }
            Notice::SweepLag { ms } => write!(f, "leases were ended up to {ms} ms after their deadline"),
            Notice::Room { short: true, bytes } => write!(
                f,
                "only {bytes} bytes are left on the disk: nothing new is begun until there is room again"
            ),
            Notice::Room { short: false, bytes } => {
                write!(f, "there is room on the disk again: {bytes} bytes")
            }
        }
    }
}
