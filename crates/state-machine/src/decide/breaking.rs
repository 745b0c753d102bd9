//! Break: an operator takes a resource from its holders, at their deadline or, with force, at once.

use crate::answer::{Answer, Refusal};
use crate::command::Break;
use crate::event::{Event, RequestMark};
use crate::ids::Secret;
use crate::limits::{BREAK_LEASES_MAX, BREAK_TOKENS_MAX};
use crate::machine::{Machine, Output};
use crate::requests::Fate;

use super::Judged;
use super::acquire::other_payload;

impl Machine {
    /// Breaks the leases on exactly this resource, a slice at a time; the request keeps the tokens of earlier slices.
    pub(crate) fn break_leases(&mut self, wanted: &mut Break, out: &mut Output) -> Judged {
        let mark = self.break_mark(wanted);
        if let Some(mark) = mark {
            match self.known(&mark) {
                Some(Err(refusal)) => return refusal.into(),
                Some(Ok(known)) => {
                    return match known.fate {
                        Fate::Broke(told) => {
                            let (tokens, free_in_ms) = *told;
                            Ok(Answer::Broke { tokens, free_in_ms }).into()
                        }
                        Fate::Cancelled(_) => Refusal::Cancelled.into(),
                        _ => other_payload().into(),
                    };
                }
                None if self.requests.break_tokens() >= BREAK_TOKENS_MAX => {
                    let what = "the answers of earlier breaks are still remembered; leave the request id out";
                    return Refusal::Busy { what, retry_ms: 60_000 }.into();
                }
                None => {
                    if let Some(refusal) = self.no_room_for(&mark.name, Secret([0; 2]), out) {
                        return refusal.into();
                    }
                }
            }
        }
        let mut free_at_us = self.now.us;
        let through = *wanted.broken.through.get_or_insert(self.last_token);
        for slot in self.space.leases_on(&wanted.resource, &self.leases) {
            if self.slice == 0 {
                return Judged::HeldBack;
            }
            let Some(lease) = self.leases.get(slot) else { continue };
            let token = lease.token;
            if token > through || wanted.token.is_some_and(|only| only != token) {
                continue;
            }
            // Leases come oldest first, and so the tokens are sorted.
            let known = wanted.broken.tokens.binary_search(&token).is_ok();
            if !known && wanted.broken.tokens.len() == BREAK_LEASES_MAX {
                break;
            }
            let news = !lease.broken() || wanted.force;
            if news || self.lease_over(lease).is_some() {
                self.slice -= 1;
            }
            if self.end_if_over(slot, out).is_some() {
                continue;
            }
            if news {
                self.break_lease(slot, wanted, out);
            }
            if let Some(lease) = self.leases.get(slot) {
                free_at_us = free_at_us.max(self.deadline_us(lease));
            }
            if !known {
                wanted.broken.tokens.push(token);
            }
        }
        let tokens = core::mem::take(&mut wanted.broken.tokens);
        if tokens.is_empty() {
            return Refusal::NotFound("nobody holds this resource, or not with this token").into();
        }
        let free_in_ms = (free_at_us - self.now.us).div_ceil(1000);
        if let Some(request) = mark {
            self.emit(Event::BreakAnswered { request, tokens: tokens.clone(), free_in_ms }, out);
        }
        Ok(Answer::Broke { tokens, free_in_ms }).into()
    }

    fn break_lease(&mut self, slot: u32, wanted: &Break, out: &mut Output) {
        let Some(lease) = self.leases.get(slot) else { return };
        // From here on the lease has a deadline of its own: renewals of its session no longer move it.
        let deadline_us = self.deadline_us(lease);
        let (reason, force) = (wanted.reason.clone(), wanted.force);
        let lease = lease.name(slot, &self.owners);
        self.emit(Event::Broken { lease, reason, force }, out);
        self.arm_lease(slot, deadline_us);
    }

    fn break_mark(&self, wanted: &Break) -> Option<RequestMark> {
        let id = wanted.request_id.as_ref()?;
        let key = self.hash_key();
        let payload = key.payload([
            b"break",
            wanted.resource.text().as_bytes(),
            wanted.reason.text().as_bytes(),
            &[u8::from(wanted.force)],
            &wanted.token.unwrap_or(0).to_le_bytes(),
        ]);
        Some(RequestMark { name: key.ownerless_request(id), payload })
    }
}
