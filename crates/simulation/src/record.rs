//! What clients asked and heard, in the form that the judge of histories reads (`crates/history`): a second opinion that shares
//! nothing with the invariants, and sees only what can be seen from outside. Costs nothing when nobody wants it.

use std::collections::BTreeMap;

use leasehold_history::{History, Kind, Mode, Operation, Outcome as Told};
use leasehold_state_machine::answer::{Answer, Outcome, Refusal};
use leasehold_state_machine::command::{Command, Proof};
use leasehold_state_machine::ids::SessionId;
use leasehold_state_machine::words::{self, ClientId, Owner, RequestId};

use crate::network::CallId;

/// A history in the making.
#[derive(Debug, Default)]
pub struct Record {
    wanted: bool,
    calls: BTreeMap<CallId, Operation>,
    /// Calls that live by a session: how long, only the session's heartbeats say.
    under_session: Vec<CallId>,
    /// Leases with a session of their own that clients heard of: lock and token by id.
    own: BTreeMap<String, (String, u64)>,
}

impl Record {
    /// One that is kept, or none.
    pub fn new(wanted: bool) -> Record {
        Record { wanted, ..Record::default() }
    }

    /// A client sends something, at this moment of virtual time.
    pub fn sent(&mut self, call: CallId, client: usize, command: &Command, now_us: u64) {
        if !self.wanted {
            return;
        }
        let begin = |kind, lock: &str| Operation::new(&format!("client-{client}"), call, kind, lock, now_us);
        let holders = |kind, proof: &Proof| {
            let mut operation = begin(kind, proof.resource.text());
            operation.token = Some(proof.token);
            operation
        };
        let operation = match command {
            Command::Acquire(ask) => {
                let mut operation = begin(Kind::Acquire, ask.resource.text());
                operation.mode = mode(ask.mode);
                operation.request_id = ask.request_id.as_ref().map(|id| name(&ask.owner, id));
                operation.wait_us = Some(ask.wait.us());
                if ask.session.is_some() {
                    self.under_session.push(call);
                }
                operation
            }
            Command::Renew(renew) => holders(Kind::Renew, &renew.proof),
            Command::Release(proof) => holders(Kind::Release, proof),
            Command::Cancel { resource, owner, request_id } => {
                let mut operation = begin(Kind::Cancel, resource.text());
                operation.request_id = Some(name(owner, request_id));
                operation
            }
            Command::CancelNumber { client, number } => {
                let mut operation = begin(Kind::Cancel, "?");
                operation.request_id = Some(numbered(client, *number));
                operation
            }
            // The end of the session that a lease has for itself is the lease's end.
            Command::CloseSession { session: SessionId::Own(lease) } => {
                let Some((lock, token)) = self.own.get(&lease.text()) else { return };
                let mut operation = begin(Kind::Release, lock);
                operation.token = Some(*token);
                operation
            }
            Command::Break(wish) => begin(Kind::Break, wish.resource.text()),
            _ => return,
        };
        self.calls.insert(call, operation);
    }

    /// Its client hears the answer.
    pub fn heard(&mut self, call: CallId, outcome: &Outcome, now_us: u64) {
        let by_session = self.under_session.contains(&call);
        let Some(operation) = self.calls.get_mut(&call) else { return };
        // Somebody may have kept a copy of these and send it again, whenever they like: they are never over.
        if matches!(operation.kind, Kind::Cancel | Kind::Break) {
            return;
        }
        let told = match outcome {
            Ok(Answer::Lease(view)) => {
                operation.token = Some(view.token);
                operation.lease = Some(view.lease.text());
                if by_session || !matches!(view.session, SessionId::Own(_)) {
                    // It may have gone as soon as it was there.
                    operation.until_us = Some(operation.invoked_us);
                } else {
                    operation.ttl_us = Some(view.ttl.us());
                    self.own.insert(view.lease.text(), (operation.lock.clone(), view.token));
                }
                Told::Done
            }
            Ok(_) => Told::Done,
            Err(Refusal::LeaseExpired | Refusal::Released) => Told::Lost,
            // A newer attempt is answered instead, or it may yet come to pass.
            Err(Refusal::Cancelled | Refusal::Unavailable { .. } | Refusal::Busy { .. }) => Told::Unknown,
            Err(_) => Told::Refused,
        };
        operation.answer(now_us, told);
    }

    /// The history.
    pub fn into_history(self) -> History {
        History::new(self.calls.into_values())
    }
}

fn mode(mode: words::Mode) -> Mode {
    match mode {
        words::Mode::Exclusive => Mode::Exclusive,
        words::Mode::Shared => Mode::Shared,
    }
}

/// Chosen ids belong to their owner, numbers to the client that counts.
fn name(owner: &Owner, id: &RequestId) -> String {
    match id {
        RequestId::Chosen(text) => format!("{} {text}", owner.text()),
        RequestId::Numbered(client, number) => numbered(client, *number),
    }
}

fn numbered(client: &ClientId, number: u64) -> String {
    format!("{} {number}", client.text())
}
