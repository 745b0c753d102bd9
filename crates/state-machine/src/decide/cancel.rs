//! Cancel: taking a request back by its id, wherever it has got to; and marks, by which a stream's client lets its
//! answered numbers be forgotten.

use alloc::vec::Vec;

use crate::answer::{Answer, Outcome, Refusal};
use crate::event::{CancelFound, Departure, Event, Release};
use crate::ids::{RequestName, Secret};
use crate::invalid::Invalid;
use crate::limits::{CLIENTS_MAX, NUMBER_END, OPEN_NUMBERS_MAX};
use crate::machine::{Machine, Output};
use crate::requests::Fate;
use crate::resource::Resource;
use crate::words::ClientId;

use super::acquire::not_a_number;

impl Machine {
    /// Takes back a request, wherever it has got to. Who knows the lock it was for says so; a stream's client need not.
    pub(crate) fn cancel(
        &mut self,
        resource: Option<&Resource>,
        name: RequestName,
        drawn: Secret,
        out: &mut Output,
    ) -> Outcome {
        if let RequestName::Numbered(client, number) = &name {
            self.requests.hear_of(client, self.now.us);
            if let Some(refusal) = not_a_number(*number) {
                return Err(refusal);
            }
        }
        if self.requests.has_forgotten(&name) {
            return Err(Refusal::NotFound("this number was answered, and is forgotten as its client asked"));
        }
        if let Some(Fate::Waiting(ticket)) = self.fate(&name) {
            // One whose time has passed left no trace: the cancel finds nothing.
            self.dequeue_if_due(ticket, out);
        }
        let found = match self.fate(&name) {
            None => match self.no_room_for(&name, drawn, out) {
                Some(refusal) => return Err(refusal),
                None => CancelFound::Unknown,
            },
            Some(Fate::Waiting(ticket)) => {
                self.same_lock(resource, self.waiters.get(&ticket).map(|waiter| &waiter.ask.resource))?;
                self.dequeue(ticket, Departure::Cancelled, out);
                CancelFound::Waiting
            }
            Some(Fate::Lease(slot)) => {
                self.same_lock(resource, self.leases.get(slot).map(|lease| &lease.resource))?;
                if self.end_if_over(slot, out).is_some() {
                    return Ok(Answer::Cancelled(CancelFound::Released));
                }
                self.give_back(slot, Release::Cancelled, out);
                CancelFound::Released
            }
            Some(Fate::Ended(_)) => return Ok(Answer::Cancelled(CancelFound::Released)),
            Some(Fate::Cancelled(found)) => return Ok(Answer::Cancelled(found)),
            Some(Fate::Session(_) | Fate::Broke(_) | Fate::Wrote(_) | Fate::Deleted) => {
                let problem = "this id belongs to a request that is not an acquire";
                return Err(Refusal::Invalid(Invalid::new("request_id", problem)));
            }
        };
        self.emit(Event::Cancelled { request: name, found }, out);
        Ok(Answer::Cancelled(found))
    }

    /// Takes note of the answers that a stream's client has. Numbers that were forgotten before stay so.
    pub(crate) fn mark_answered(
        &mut self,
        client: &ClientId,
        answered_through: u64,
        open: &[u64],
        out: &mut Output,
    ) {
        let key = self.client_key(client);
        let answered_through = answered_through.min(NUMBER_END - 1);
        self.requests.hear_of(&key, self.now.us);
        let known = self.requests.clients.get(&key);
        if known.is_none() && (answered_through == 0 || self.requests.clients.len() >= CLIENTS_MAX) {
            return;
        }
        let before = known.map_or(0, |client| client.answered_through);
        let mut open: Vec<u64> = open.iter().copied().filter(|number| *number <= answered_through).collect();
        open.retain(|number| known.is_none_or(|client| !client.has_forgotten(*number)));
        open.sort_unstable();
        open.dedup();
        open.truncate(OPEN_NUMBERS_MAX);
        let news = answered_through > before
            || answered_through == before && known.is_some_and(|client| client.open.len() > open.len());
        if news {
            self.emit(Event::Marked { client: key, answered_through, open }, out);
        }
    }

    fn fate(&self, name: &RequestName) -> Option<Fate> {
        self.requests.get(name).map(|known| known.fate.clone())
    }

    fn same_lock(&self, asked: Option<&Resource>, actual: Option<&Resource>) -> Result<(), Refusal> {
        if asked.is_none() || actual == asked {
            return Ok(());
        }
        let problem = "this id belongs to a request for another lock";
        Err(Refusal::Invalid(Invalid::new("request_id", problem)))
    }
}
