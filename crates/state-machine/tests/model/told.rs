//! What somebody was told, reduced to what the contract promises: no slots, no wall times, no words of comfort.

use std::collections::BTreeSet;

use leasehold_state_machine::answer::{Answer, FileView, HolderView, Outcome, Refusal, WaiterView};
use leasehold_state_machine::event::CancelFound;
use leasehold_state_machine::ids::{Secret, SessionId};
use leasehold_state_machine::words::{Metadata, Mode};

/// An answer or a refusal, without what the contract leaves open.
#[derive(Clone, Debug, PartialEq)]
pub enum Told {
    Lease(LeaseTold),
    ReleaseDone {
        remaining_ms: Option<u64>,
    },
    CancelDone(CancelFound),
    Valid {
        expires_in_ms: u64,
    },
    Snapshot {
        crowd: Crowd,
        last_token: Option<u64>,
        version: u64,
        seq: u64,
    },
    Locks(Vec<(String, Crowd)>),
    Broke {
        tokens: BTreeSet<u64>,
        free_in_ms: u64,
    },
    Session(SessionTold),
    Closed,
    Sessions(Vec<SessionSeen>),
    Wrote {
        offset: u64,
        length: u64,
        size: u64,
    },
    Deleted,
    File(FileTold),
    Files(Vec<FileTold>),
    Scope,
    TooLarge(&'static str),
    Invalid(String),
    NotFound,
    /// With whoever was in the way, where the model knows it.
    Held(Option<Crowd>),
    LeaseExpired,
    Released,
    StaleToken {
        highest_token: Option<u64>,
    },
    Cancelled,
    Busy,
    Unavailable,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FileTold {
    pub name: String,
    pub number: u64,
    pub size: u64,
    pub token: u64,
}

#[derive(Clone, Debug, PartialEq)]
pub struct LeaseTold {
    pub secret: Secret,
    /// None in what the model expects of a new grant: the number is the machine's to choose.
    pub token: Option<u64>,
    pub lock: String,
    pub owner: String,
    /// The secret of the opened session, or none for the lease's own.
    pub session: Option<Secret>,
    pub mode: Mode,
    pub ttl_ms: u64,
    pub expires_in_ms: u64,
    pub renew_after_ms: u64,
    pub stop_after_ms: u64,
    pub metadata: u64,
    pub repeatable: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub struct SessionTold {
    pub secret: Secret,
    pub owner: String,
    pub ttl_ms: u64,
    pub expires_in_ms: u64,
    pub renew_after_ms: u64,
    pub stop_after_ms: u64,
    /// Lock, token, reason.
    pub ended: BTreeSet<(String, u64, String)>,
}

/// A row of the list of sessions.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SessionSeen {
    pub owner: String,
    pub ttl_ms: u64,
    pub expires_in_ms: u64,
    pub leases: u64,
    pub waiters: u64,
}

/// Everybody who overlaps: holders in any order, waiters in theirs.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Crowd {
    pub holders: BTreeSet<Holder>,
    pub waiters: Vec<Waiting>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Holder {
    pub token: u64,
    pub lock: String,
    pub owner: String,
    pub mode: Mode,
    pub expires_in_ms: u64,
    pub metadata: u64,
    pub broken: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Waiting {
    pub lock: String,
    pub owner: String,
    pub mode: Mode,
    pub position: u64,
    pub waiting_ms: u64,
    pub attached: bool,
}

impl Told {
    /// Whether the machine's words are what the model expects.
    pub fn allows(&self, got: &Told) -> bool {
        match (self, got) {
            (Told::Held(None), Told::Held(_)) => true,
            (Told::Lease(want), Told::Lease(got)) if want.token.is_none() => {
                *want == LeaseTold { token: None, ..got.clone() }
            }
            _ => self == got,
        }
    }
}

/// Reads an outcome of the machine.
pub fn told(outcome: &Outcome) -> Told {
    match outcome {
        Ok(answer) => answered(answer),
        Err(refusal) => refused(refusal),
    }
}

fn answered(answer: &Answer) -> Told {
    match answer {
        Answer::Lease(view) => {
            assert!(view.version <= view.seq, "a lock's last change is not after the state it is told with");
            Told::Lease(LeaseTold {
                secret: view.lease.secret,
                token: Some(view.token),
                lock: view.resource.text().into(),
                owner: view.owner.text().into(),
                session: match view.session {
                    SessionId::Opened { secret, .. } => Some(secret),
                    SessionId::Own(id) => {
                        assert_eq!(id, view.lease, "a lease's own session is named after it");
                        None
                    }
                },
                mode: view.mode,
                ttl_ms: view.ttl.ms(),
                expires_in_ms: view.expires_in_ms,
                renew_after_ms: view.renew_after_ms,
                stop_after_ms: view.stop_after_ms,
                metadata: number_in(&view.metadata),
                repeatable: view.repeatable,
            })
        }
        Answer::Released { remaining_ms } => Told::ReleaseDone { remaining_ms: *remaining_ms },
        Answer::Cancelled(found) => Told::CancelDone(*found),
        Answer::Valid { expires_in_ms } => Told::Valid { expires_in_ms: *expires_in_ms },
        Answer::Snapshot(snapshot) => Told::Snapshot {
            crowd: crowd(&snapshot.holders, &snapshot.waiters),
            last_token: snapshot.last_token,
            version: snapshot.version,
            seq: snapshot.seq,
        },
        Answer::Locks { locks, .. } => Told::Locks(
            locks.iter().map(|row| (row.resource.text().into(), crowd(&row.holders, &row.waiters))).collect(),
        ),
        Answer::Broke { tokens, free_in_ms } => {
            Told::Broke { tokens: tokens.iter().copied().collect(), free_in_ms: *free_in_ms }
        }
        Answer::Session(view) => {
            assert!(
                view.ended.windows(2).all(|pair| pair[0].seq < pair[1].seq),
                "ended[] is in order of seq"
            );
            Told::Session(SessionTold {
                secret: view.session.secret(),
                owner: view.owner.text().into(),
                ttl_ms: view.ttl.ms(),
                expires_in_ms: view.expires_in_ms,
                renew_after_ms: view.renew_after_ms,
                stop_after_ms: view.stop_after_ms,
                ended: view
                    .ended
                    .iter()
                    .map(|end| (end.resource.text().into(), end.token, end.reason.into()))
                    .collect(),
            })
        }
        Answer::Closed => Told::Closed,
        Answer::Sessions { sessions, .. } => {
            let mut rows: Vec<SessionSeen> = sessions
                .iter()
                .map(|row| SessionSeen {
                    owner: row.owner.text().into(),
                    ttl_ms: row.ttl.ms(),
                    expires_in_ms: row.expires_in_ms,
                    leases: row.leases,
                    waiters: row.waiters,
                })
                .collect();
            rows.sort();
            Told::Sessions(rows)
        }
        Answer::Wrote(written) => {
            Told::Wrote { offset: written.offset, length: written.length, size: written.size }
        }
        Answer::Deleted => Told::Deleted,
        Answer::File(view) => Told::File(file(view)),
        Answer::Files { files, .. } => Told::Files(files.iter().map(file).collect()),
    }
}

fn file(view: &FileView) -> FileTold {
    assert!(view.created_wall_ms > 0 && view.version > 0);
    FileTold { name: view.name.text().into(), number: view.number, size: view.size, token: view.token }
}

fn refused(refusal: &Refusal) -> Told {
    match refusal {
        Refusal::Invalid(invalid) => Told::Invalid(invalid.field.to_string()),
        Refusal::NotFound(_) => Told::NotFound,
        Refusal::Held(held) => {
            assert!(held.retry_ms > 0, "a retry time is never 0");
            Told::Held(Some(crowd(&held.holders, &held.waiters)))
        }
        Refusal::LeaseExpired => Told::LeaseExpired,
        Refusal::Released => Told::Released,
        Refusal::StaleToken { highest_token } => Told::StaleToken { highest_token: *highest_token },
        Refusal::ScopeMismatch(_) => Told::Scope,
        Refusal::TooLarge { what, .. } => Told::TooLarge(what),
        Refusal::Cancelled => Told::Cancelled,
        Refusal::Busy { retry_ms, .. } => {
            assert!(*retry_ms > 0, "a retry time is never 0");
            Told::Busy
        }
        Refusal::Unavailable { .. } => Told::Unavailable,
    }
}

fn crowd(holders: &[HolderView], waiters: &[WaiterView]) -> Crowd {
    Crowd {
        holders: holders
            .iter()
            .map(|view| Holder {
                token: view.token,
                lock: view.resource.text().into(),
                owner: view.owner.text().into(),
                mode: view.mode,
                expires_in_ms: view.expires_in_ms,
                metadata: number_in(&view.metadata),
                broken: view.broken,
            })
            .collect(),
        waiters: waiters
            .iter()
            .map(|view| Waiting {
                lock: view.resource.text().into(),
                owner: view.owner.text().into(),
                mode: view.mode,
                position: view.position,
                waiting_ms: view.waiting_ms,
                attached: view.attached,
            })
            .collect(),
    }
}

/// The model's metadata is one number; 0 stands for none.
pub fn metadata(number: u64) -> Metadata {
    let entry = (number > 0).then(|| ("n".to_string(), number.to_string()));
    Metadata::new(entry.into_iter().collect()).unwrap()
}

fn number_in(metadata: &Metadata) -> u64 {
    metadata.entries().next().map_or(0, |(_, value)| value.parse().unwrap())
}
