//! Cancel: taking a request back by its id, wherever it has got to.

use crate::answer::{Answer, Outcome, Refusal};
use crate::event::{CancelFound, Departure, Event, Release};
use crate::invalid::Invalid;
use crate::machine::{Machine, Output};
use crate::requests::Fate;
use crate::resource::Resource;
use crate::words::{Owner, RequestId};

impl Machine {
    pub(crate) fn cancel(
        &mut self,
        resource: &Resource,
        owner: &Owner,
        request_id: &RequestId,
        out: &mut Output,
    ) -> Outcome {
        let key = self.hash_key().request(owner, request_id);
        if let Some(Fate::Waiting(ticket)) = self.requests.get(&key).map(|known| known.fate.clone()) {
            // One whose time has passed left no trace: the cancel finds nothing.
            self.dequeue_if_due(ticket, out);
        }
        let found = match self.requests.get(&key).map(|known| known.fate.clone()) {
            None => {
                if !self.room_for_a_request_id(out) {
                    return Err(Refusal::Busy {
                        what: "all request ids kept are too young to forget",
                        retry_ms: 1000,
                    });
                }
                CancelFound::Unknown
            }
            Some(Fate::Waiting(ticket)) => {
                self.same_lock(resource, self.waiters.get(&ticket).map(|waiter| &waiter.ask.resource))?;
                self.dequeue(ticket, Departure::Cancelled, out);
                CancelFound::Waiting
            }
            Some(Fate::Lease(slot)) => {
                self.same_lock(resource, self.leases.get(slot).map(|lease| &lease.ask.resource))?;
                if self.end_if_over(slot, out).is_some() {
                    return Ok(Answer::Cancelled(CancelFound::Released));
                }
                self.give_back(slot, Release::Cancelled, out);
                CancelFound::Released
            }
            Some(Fate::Ended(_)) => return Ok(Answer::Cancelled(CancelFound::Released)),
            Some(Fate::Cancelled(found)) => return Ok(Answer::Cancelled(found)),
            Some(Fate::Session(_) | Fate::Broke(_)) => {
                let problem = "this id belongs to a request that is not an acquire";
                return Err(Refusal::Invalid(Invalid::new("request_id", problem)));
            }
        };
        self.emit(Event::Cancelled { request: key, found }, out);
        Ok(Answer::Cancelled(found))
    }

    fn same_lock(&self, asked: &Resource, actual: Option<&Resource>) -> Result<(), Refusal> {
        if actual == Some(asked) {
            return Ok(());
        }
        let problem = "this id belongs to a request for another lock";
        Err(Refusal::Invalid(Invalid::new("request_id", problem)))
    }
}
