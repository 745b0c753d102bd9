//! Deciding: a request and the turn's `now` become events and replies. One file for each thing that can be asked.
//!
//! A decision changes what is journaled only by `emit`. It may be held back when it met more overdue leases than one
//! slice ends; then it is brought again next turn, and nothing it has done so far is undone or repeated.

mod acquire;
mod breaking;
mod cancel;
mod file;
mod holder;
mod housekeep;
mod line;
mod promise;
mod read;
mod recover;
mod rule;
mod session;

pub use recover::Rearm;

use crate::answer::{Outcome, Refusal};
use crate::command::{Command, Request};
use crate::event::{Ending, Event, Release, Under};
use crate::ids::RequestName;
use crate::machine::{Machine, Output};

/// What came of judging a request.
pub(crate) enum Judged {
    /// Its caller is told this, now.
    Tell(Outcome),
    /// Its caller has been told, stands in line, or has nothing to hear.
    Done,
    /// There is more to end first than one slice holds.
    HeldBack,
}

impl From<Outcome> for Judged {
    fn from(outcome: Outcome) -> Self {
        Judged::Tell(outcome)
    }
}

impl From<Refusal> for Judged {
    fn from(refusal: Refusal) -> Self {
        Judged::Tell(Err(refusal))
    }
}

impl From<Ending> for Refusal {
    fn from(how: Ending) -> Self {
        match how {
            Ending::Expired => Refusal::LeaseExpired,
            Ending::Released => Refusal::Released,
        }
    }
}

impl Machine {
    /// Decides one request. `Some` gives it back: it must be brought again next turn, before newer ones.
    pub fn decide(&mut self, mut request: Request, out: &mut Output) -> Option<Request> {
        assert!(self.is_founded(), "a journal is founded before anything is decided");
        let judged = match &mut request.command {
            Command::Break(wanted) => self.break_leases(wanted, out),
            _ => self.judge(&request, out),
        };
        let held_back = match judged {
            Judged::Tell(outcome) => {
                self.tell(request.attachment, outcome, out);
                None
            }
            Judged::Done => None,
            Judged::HeldBack => Some(request),
        };
        self.look_again(out);
        held_back
    }

    fn judge(&mut self, request: &Request, out: &mut Output) -> Judged {
        match &request.command {
            Command::Acquire(wanted) => self.acquire(request, wanted, out),
            Command::Renew(wanted) => self.renew(request, wanted, out),
            Command::Release(proof) => self.release(proof, out).into(),
            Command::Cancel { resource, owner, request_id } => {
                let name = self.hash_key().request(owner, request_id);
                self.cancel(Some(resource), name, request.secret, out).into()
            }
            Command::CancelNumber { client, number } => {
                let name = RequestName::Numbered(self.client_key(client), *number);
                self.cancel(None, name, request.secret, out).into()
            }
            Command::Mark { client, answered_through, open } => {
                self.mark_answered(client, *answered_through, open, out);
                Judged::Done
            }
            Command::Verify { resource, token } => self.verify(resource, *token).into(),
            Command::Get { resource } => self.get(resource).into(),
            Command::List(page) => self.list(page).into(),
            Command::Break(_) => unreachable!("decided by `decide` itself"),
            Command::OpenSession { owner, ttl, request_id, metadata } => {
                self.open_session(request, owner, *ttl, request_id.as_ref(), metadata, out)
            }
            Command::KeepAlive { session, seen } => self.keep_alive(request, session, *seen, out),
            Command::CloseSession { session } => self.close_session(session, out).into(),
            Command::ListSessions { limit, cursor } => self.list_sessions(*limit, cursor.as_deref()).into(),
            Command::WriteFile(wanted) => self.write_file(request, wanted, out),
            Command::DeleteFile { name, proof, request_id } => {
                self.delete_file(request, name, proof, request_id.as_ref(), out)
            }
            Command::StatFile { name } => self.stat_file(request.attachment, name, out),
            Command::ListFiles { prefix, limit, cursor } => {
                self.list_files(prefix, *limit, cursor.as_deref()).into()
            }
            Command::Detach { gone } => {
                self.detach(*gone, out);
                Judged::Done
            }
            Command::Abandon { lease } => {
                self.abandon(lease, out);
                Judged::Done
            }
        }
    }

    /// Ends a lease whose time has come, and its session with it if that is what ran out. How it ended, if it did.
    pub(crate) fn end_if_over(&mut self, slot: u32, out: &mut Output) -> Option<Ending> {
        let lease = self.leases.get(slot)?;
        let how = self.lease_over(lease)?;
        if let Under::Session(session) = lease.under()
            && !lease.broken()
        {
            self.end_session_if_due(session, out);
        }
        let lease = self.leases.get(slot)?;
        let late_us = self.now.us.saturating_sub(self.deadline_us(lease));
        let name = lease.name(slot, &self.owners);
        let event = match how {
            Ending::Expired => {
                out.expiry_lag_us.push(late_us);
                Event::Expired { lease: name }
            }
            Ending::Released if lease.broken() => Event::Released { lease: name, why: Release::Broken },
            Ending::Released => Event::Released { lease: name, why: Release::Closed },
        };
        self.emit(event, out);
        Some(how)
    }
}
