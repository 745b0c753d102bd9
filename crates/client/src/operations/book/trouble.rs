//! What becomes of what is open when a stream breaks, falls silent or cannot be opened, and when time runs out.

use std::collections::VecDeque;
use std::time::Duration;

use leasehold_protocol::v1;

use super::super::asked::Lane;
use super::super::entry::{Next, Place, Stance, return_us};
use super::{Book, Delivery, Effects, Stream, reply};
use crate::refusal;
use crate::wire::{Failed, Trouble};

/// The least time between two attempts to open a stream, which is doubled a few times if they go on to fail.
const REOPEN_MIN_US: u64 = 50_000;
const REOPEN_DOUBLED_MAX: u32 = 3;
/// A stream that fell so long after another is opened again at once.
const GOOD_US: u64 = 250_000;

/// What a look at the clock has shown.
#[derive(Debug, PartialEq, Eq)]
pub(in super::super) enum Verdict {
    Good,
    /// Nothing is heard on the stream that should have been: it is not to be trusted.
    Silent,
}

impl Book {
    /// Renewals go unanswered since then.
    pub fn doubt(&mut self, since_us: u64) {
        self.doubted_since_us = self.doubted_since_us.max(Some(since_us));
    }

    /// The stream has ended, or could not be opened.
    pub fn fell(&mut self, failed: Failed, now_us: u64, effects: &mut Effects) {
        let welcome = self.stream.take().is_some_and(|stream| stream.welcome);
        self.in_flight = [0; 2];
        self.adrift.clear();
        self.due_us = u64::MAX;
        self.doubted_since_us = None;
        let before_us = self.fell_us.replace(now_us);
        let at_once = welcome && before_us.is_none_or(|before_us| now_us >= before_us + GOOD_US);
        self.reopen_us = now_us + self.reopen_pause_us(at_once);
        let greeted = self.greeters.drain(..).map(|to| Delivery { to, what: Err(failed.clone()) });
        effects.greetings.extend(greeted);
        let trouble = match failed {
            Failed::Trouble(trouble) => trouble,
            Failed::Refused(refusal) if refusal::again(&refusal).is_some() => {
                Trouble::NotServing(refusal.detail)
            }
            Failed::Refused(refusal) => return self.fail_all(&refusal, effects),
        };
        // Those in line come back together: each by itself would be one attempt after the other.
        let pause_us = if at_once { 0 } else { return_us(self.random.number()) };
        let numbers: Vec<u64> = self.open.iter().map(|(number, _)| number).collect();
        for number in numbers {
            self.cut(number, &trouble, welcome, (now_us, now_us + pause_us), effects);
        }
        self.lanes.iter_mut().for_each(VecDeque::clear);
        self.trouble = Some(trouble);
    }

    /// How long to wait before the next stream: not at all for one that was good, else longer each time, and not as long as
    /// all the others that lost the same server.
    fn reopen_pause_us(&mut self, at_once: bool) -> u64 {
        if at_once {
            self.falls = 0;
            return 0;
        }
        let pause_us = REOPEN_MIN_US << self.falls.min(REOPEN_DOUBLED_MAX);
        self.falls += 1;
        pause_us / 2 + self.random.up_to(pause_us / 2)
    }

    fn cut(
        &mut self,
        number: u64,
        trouble: &Trouble,
        welcome: bool,
        (now_us, return_us): (u64, u64),
        effects: &mut Effects,
    ) {
        let Some(entry) = self.open.get_mut(number) else { return };
        let waited = match entry.place {
            Place::Sent { .. } => true,
            // It had no chance to be sent; that it had none was its attempt only if there was no stream at all.
            Place::Queued => !welcome,
            Place::Cut { .. } | Place::Refused { .. } => false,
            Place::Recalled => {
                entry.settle_sent();
                return;
            }
        };
        if !waited {
            entry.settle_sent();
            entry.place = match (entry.place, entry.stance) {
                (Place::Queued, _) => Place::Cut { until_us: now_us },
                (Place::Cut { .. }, Stance::InLine { .. }) => Place::Cut { until_us: return_us },
                (place, _) => place,
            };
            return;
        }
        if let Next::Over = entry.cut(now_us, return_us, self.random.number(), &self.policy) {
            let error = entry.unavailable(&self.server, trouble.clone());
            self.give_up(number, error, effects);
        }
    }

    /// The server does not want us at all: whatever is open fails with its words.
    fn fail_all(&mut self, refusal: &v1::Error, effects: &mut Effects) {
        self.lanes.iter_mut().for_each(VecDeque::clear);
        for (number, mut entry) in self.open.take() {
            self.marks.answered(number);
            let error = refusal::error(refusal.clone(), &entry.lock());
            reply(&mut entry, Err(error), &mut self.answers, effects);
        }
    }

    /// Nothing can be sent any more, for good.
    pub fn close(&mut self, trouble: &Trouble, effects: &mut Effects) {
        self.stream = None;
        self.lanes.iter_mut().for_each(VecDeque::clear);
        let failed = || Err(Failed::Trouble(trouble.clone()));
        effects.greetings.extend(self.greeters.drain(..).map(|to| Delivery { to, what: failed() }));
        for (_, mut entry) in self.open.take() {
            entry.settle_sent();
            let error = entry.unavailable(&self.server, trouble.clone());
            reply(&mut entry, Err(error), &mut self.answers, effects);
        }
    }

    /// Looks at the clock: who has waited too long, and who may be sent again. Gives whether the stream can be trusted.
    pub fn check(&mut self, now_us: u64, effects: &mut Effects) -> Verdict {
        let doubted = self.doubted_since_us.take();
        let mut silent = match &self.stream {
            Some(stream) if stream.welcome => {
                doubted.is_some_and(|since_us| stream.heard_us <= since_us) && self.is_late(stream, now_us)
            }
            _ => now_us >= self.welcome_due_us(),
        };
        if now_us < self.due_us && !silent {
            return Verdict::Good;
        }
        let heard_us = self.stream.as_ref().map_or(0, |stream| stream.heard_us);
        let welcome = self.stream.as_ref().is_some_and(|stream| stream.welcome);
        let opened = self.stream.as_ref().is_some_and(|stream| stream.opened_us.is_some());
        let mut overdue = Vec::new();
        let mut due_us = self.welcome_due_us();
        self.open.for_each_mut(|number, entry| {
            let look_us = match (entry.place, entry.stance) {
                // Whether the stream is opened at all is the attempt.
                (Place::Sent { .. }, Stance::Policy { .. }) if !opened => u64::MAX,
                (Place::Sent { at_us, due_us }, Stance::Policy { .. }) if due_us <= now_us => {
                    silent |= heard_us <= at_us;
                    overdue.push(number);
                    return;
                }
                (Place::Sent { due_us, .. }, _) if due_us <= now_us => {
                    overdue.push(number);
                    return;
                }
                (Place::Sent { due_us, .. }, _) => due_us,
                (Place::Refused { until_us }, _) if until_us <= now_us => {
                    entry.place = Place::Queued;
                    self.lanes[entry.lane() as usize].push_back(number);
                    u64::MAX
                }
                // There is a stream to take it: it makes its one attempt, however short its wait.
                (Place::Queued, Stance::InLine { .. }) if welcome => u64::MAX,
                (
                    Place::Cut { .. } | Place::Refused { .. } | Place::Queued,
                    Stance::InLine { until_us: Some(until_us) },
                ) if until_us <= now_us => {
                    overdue.push(number);
                    return;
                }
                (Place::Refused { until_us }, _) => until_us,
                (_, Stance::InLine { until_us: Some(until_us) }) => until_us,
                _ => u64::MAX,
            };
            due_us = due_us.min(look_us);
        });
        self.due_us = due_us;
        if silent && opened {
            // Whoever was sent is cut off with the stream, which counts as an attempt.
            return Verdict::Silent;
        }
        for number in overdue {
            self.overdue(number, now_us, effects);
        }
        assert!(self.due_us > now_us, "whatever was due has been seen to");
        Verdict::Good
    }

    /// Whether something that keeps a lease alive goes unanswered for clearly longer than the way to the server and back.
    /// (Who renews often may ask again while the answer is still on its way: a new connection would only take longer.)
    fn is_late(&self, stream: &Stream, now_us: u64) -> bool {
        let late_us = 2 * stream.welcomed_in_us;
        self.open.iter().any(|(_, entry)| match entry.place {
            Place::Sent { at_us, .. } => {
                entry.lane() == Lane::Upkeep && at_us >= stream.heard_us && at_us + late_us <= now_us
            }
            _ => false,
        })
    }

    /// One has waited too long, though the stream is alive.
    fn overdue(&mut self, number: u64, now_us: u64, effects: &mut Effects) {
        let Some(entry) = self.open.get_mut(number) else { return };
        entry.attempts += 1;
        entry.uncertain |= entry.in_flight;
        let over = match entry.stance {
            Stance::Policy { attempts } => entry.attempts >= attempts,
            Stance::InLine { until_us } => until_us.is_some_and(|until_us| until_us <= now_us),
            Stance::Once | Stance::Given => false,
        };
        if over {
            let known = self.trouble.clone().filter(|_| self.stream.is_none());
            let trouble = known.unwrap_or_else(|| silence(self.policy.attempt_timeout));
            let error = entry.unavailable(&self.server, trouble);
            return self.give_up(number, error, effects);
        }
        if let Stance::InLine { .. } = entry.stance {
            // The server's longest wait is nearly over: ask for another.
            entry.place = Place::Queued;
            self.lanes[entry.lane() as usize].push_back(number);
        } else if let Place::Sent { at_us, .. } = entry.place {
            let due_us = entry.due_us(now_us, &self.policy);
            entry.place = Place::Sent { at_us, due_us };
            self.due_us = self.due_us.min(due_us);
        }
    }
}

/// Nothing came back for this long.
fn silence(waited: Duration) -> Trouble {
    Trouble::Silence(format!("no answer within {} ms", waited.as_millis()))
}
