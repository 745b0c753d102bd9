//! One heartbeat for many leases: what a session's client believes of it, and the one task that keeps it alive. An answer
//! first takes off the leases that it names as ended, then confirms the others; nothing but the answer to a heartbeat
//! confirms a lease that it does not name. It never sends a renewal for a single lease.
//!
//! Why an answer may confirm every lease that is known when it is heard: the heartbeat was decided either before the lease
//! was granted, and then the session, and the lease with it, lives at least as long as the answer says; or after, and
//! then a lease that had ended is named, in this answer or in one that was taken in before.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use leasehold_protocol::v1;
use leasehold_protocol::v1::operation::What as Asked;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::clock::Clock;
use crate::error::{Ended, Error};
use crate::hold::{Hold, Promise};
use crate::keeper::{self, Keeper, Step};
use crate::operations::{Answered, Operations};
use crate::outcome::Told;

/// A session, as its client sees it.
pub(crate) struct Heart {
    /// A secret.
    id: String,
    clock: Arc<dyn Clock>,
    operations: Operations,
    nudge: Arc<Notify>,
    over: CancellationToken,
    /// Something was confirmed.
    news: Notify,
    state: Mutex<State>,
}

struct State {
    keeper: Keeper,
    ended: Option<Ended>,
    /// Whether the server was told, or is being told, that it is not needed any more.
    closed: bool,
    /// The leases that live by it, by token.
    holds: HashMap<u64, Arc<Hold>>,
    /// The first moment at which one of them wants something; it may be too early, never too late.
    look_us: u64,
    /// When the task looks by itself.
    wake_us: u64,
    /// Leases that were lost while the session lives, and when the server would have ended them by itself.
    leaving: Vec<(u64, Arc<Hold>)>,
    /// The newest end that was taken in.
    seen: Option<u64>,
    /// Acquires under way.
    asking: usize,
    /// What ended while acquires were under way: a late answer may still grant it, and once it was `seen` no heartbeat
    /// names it again.
    ended_early: HashMap<u64, Ended>,
}

/// What a close has to do.
pub(crate) enum Close {
    /// It lived until now: tell the server.
    Lived(v1::CloseSessionRequest),
    /// It had ended before.
    Ended(Ended),
}

/// What the task has to do.
enum Turn {
    Beat(v1::KeepAliveRequest),
    WaitUntil(u64),
    Over,
}

/// Leases to be ended once the lock is free, so that whoever is woken may look.
type Ending = Vec<(Arc<Hold>, Ended)>;

impl Heart {
    /// A session that was opened, before anything of it is believed.
    pub fn new(id: String, keeper: Keeper, clock: Arc<dyn Clock>, operations: Operations) -> Heart {
        Heart {
            id,
            clock,
            operations,
            nudge: Arc::new(Notify::new()),
            over: CancellationToken::new(),
            news: Notify::new(),
            state: Mutex::new(State {
                keeper,
                ended: None,
                closed: false,
                holds: HashMap::new(),
                look_us: u64::MAX,
                wake_us: 0,
                leaving: Vec::new(),
                seen: None,
                asking: 0,
                ended_early: HashMap::new(),
            }),
        }
    }

    /// Its id, a secret.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Fires when it is over.
    pub fn over(&self) -> &CancellationToken {
        &self.over
    }

    /// Wakes the task.
    pub fn nudge(&self) -> &Arc<Notify> {
        &self.nudge
    }

    /// How it stands now, or how it ended.
    pub fn look(&self) -> Result<keeper::Standing, Ended> {
        let mut state = self.lock();
        if let Some(ended) = &state.ended {
            return Err(ended.clone());
        }
        match state.keeper.look(self.clock.now_us()) {
            keeper::Standing::Lost => {
                self.end_all(state, Ended::Lost);
                Err(Ended::Lost)
            }
            standing => Ok(standing),
        }
    }

    /// Resolves once it may be relied on, or is over.
    pub async fn settled(&self) -> Result<(), Ended> {
        loop {
            let news = self.news.notified();
            if self.look()? != keeper::Standing::Unconfirmed {
                return Ok(());
            }
            tokio::select! {
                () = news => {}
                () = self.over.cancelled() => {}
            }
        }
    }

    /// It is over, and everything under it.
    pub fn end(&self, how: Ended) {
        let state = self.lock();
        if state.ended.is_none() {
            self.end_all(state, how);
        }
    }

    /// Closes it: it is over, and everything under it. Only the first call has anything to send.
    pub fn close(&self) -> Close {
        let before = self.look().err();
        let mut state = self.lock();
        let stands = matches!(state.ended, None | Some(Ended::Lost));
        let send = stands && !std::mem::replace(&mut state.closed, true);
        if state.ended.is_none() {
            self.end_all(state, Ended::SessionClosed);
        } else {
            drop(state);
        }
        let request = v1::CloseSessionRequest { session_id: self.id.clone() };
        match before {
            None if send => Close::Lived(request),
            before => {
                if send {
                    self.operations.later(Asked::CloseSession(request));
                }
                Close::Ended(before.unwrap_or(Ended::SessionClosed))
            }
        }
    }

    /// Closes it without waiting for an answer.
    pub fn let_go(&self) {
        if let Close::Lived(request) = self.close() {
            self.operations.later(Asked::CloseSession(request));
        }
    }

    /// An acquire under it begins; it is over when this is dropped.
    pub fn asking(self: &Arc<Heart>) -> Asking {
        self.lock().asking += 1;
        Asking(Arc::clone(self))
    }

    /// Keeps this lease too, from now on.
    pub fn attach(&self, hold: &Arc<Hold>) {
        let mut state = self.lock();
        let token = hold.claim().fencing_token;
        let ended = state.ended.clone().or_else(|| state.ended_early.get(&token).cloned());
        match ended {
            Some(how) => {
                drop(state);
                hold.end(how);
            }
            None => {
                let now_us = self.clock.now_us();
                let look_us = match hold.step(now_us) {
                    Step::WaitUntil(at_us) => at_us,
                    Step::Renew | Step::Lost => now_us,
                };
                state.look_us = state.look_us.min(look_us);
                state.holds.insert(token, Arc::clone(hold));
                let early = look_us < state.wake_us;
                drop(state);
                if early {
                    self.nudge.notify_one();
                }
            }
        }
    }

    /// This lease is over, and needs no heartbeat.
    pub fn detach(&self, token: u64) {
        self.lock().holds.remove(&token);
    }

    /// The server has ended a lease of it.
    fn take_off(&self, ended: &[v1::EndedLease]) {
        let mut state = self.lock();
        let ending = state.take_off(ended);
        drop(state);
        end_each(ending);
    }

    /// An answer to a heartbeat.
    fn beaten(&self, session: &v1::Session, sent_us: u64) {
        self.take_off(&session.ended);
        let promise = Promise::from(session);
        let mut state = self.lock();
        if state.ended.is_some() {
            return;
        }
        let highest = session.ended.iter().map(|ended| ended.seq).max();
        state.seen = state.seen.max(highest);
        let heard_us = self.clock.now_us();
        if state.keeper.confirm(promise.confirmation(sent_us, heard_us)) == keeper::Confirmed::Lost {
            return self.end_all(state, Ended::Lost);
        }
        state.look_us = heard_us;
        let holds: Vec<_> = state.holds.values().cloned().collect();
        drop(state);
        for hold in holds {
            hold.confirm_unless_stuck(promise, sent_us);
        }
        self.news.notify_waiters();
    }

    /// Confirms the opening itself.
    pub fn opened(&self, session: &v1::Session, sent_us: u64) {
        self.beaten(session, sent_us);
    }

    /// One of the leases wants something.
    fn look_at_each(&self) {
        self.lock().look_us = 0;
    }

    /// What to do now.
    fn turn(&self) -> Turn {
        let mut state = self.lock();
        let now_us = self.clock.now_us();
        let mut beat = false;
        let wake_us = match state.keeper.step(now_us) {
            _ if state.ended.is_some() => return Turn::Over,
            Step::Lost => {
                self.end_all(state, Ended::Lost);
                return Turn::Over;
            }
            Step::Renew => {
                beat = true;
                now_us
            }
            Step::WaitUntil(at_us) => at_us,
        };
        if beat || state.look_us <= now_us {
            beat |= state.look_at_each(now_us);
        }
        let due = state.leaving.extract_if(.., |(at_us, _)| *at_us <= now_us).collect::<Vec<_>>();
        let left_us = state.leaving.iter().map(|(at_us, _)| *at_us).min().unwrap_or(u64::MAX);
        let turn = if beat {
            state.beat_sent(now_us);
            Turn::Beat(v1::KeepAliveRequest { session_id: self.id.clone(), seen: state.seen, request: 0 })
        } else {
            state.wake_us = wake_us.min(state.look_us).min(left_us);
            Turn::WaitUntil(state.wake_us)
        };
        drop(state);
        for (_, hold) in due {
            hold.let_go();
        }
        turn
    }

    fn end_all(&self, mut state: MutexGuard<'_, State>, how: Ended) {
        state.keeper.lose();
        state.ended = Some(how.clone());
        let holds = std::mem::take(&mut state.holds);
        drop(state);
        self.over.cancel();
        end_each(holds.into_values().map(|hold| (hold, how.clone())).collect());
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn take_off(&mut self, ended: &[v1::EndedLease]) -> Ending {
        let mut ending = Vec::new();
        for lease in ended {
            let token = lease.fencing_token.cast_unsigned();
            let how = match lease.reason.as_str() {
                "broken" => Ended::Broken(String::new()),
                _ => Ended::Released,
            };
            match self.holds.remove(&token) {
                Some(hold) => ending.push((hold, how)),
                None if self.asking > 0 => {
                    self.ended_early.insert(token, how);
                }
                None => {}
            }
        }
        ending
    }

    /// Looks at each lease; gives whether one of them needs a heartbeat now.
    fn look_at_each(&mut self, now_us: u64) -> bool {
        let (mut beat, mut look_us) = (false, u64::MAX);
        let leaving = &mut self.leaving;
        self.holds.retain(|_, hold| {
            match hold.step(now_us) {
                // The session goes on, and the server would keep it: it is given back when its holder must have stopped.
                Step::Lost => {
                    leaving.push((hold.runs_out_us(), Arc::clone(hold)));
                    return false;
                }
                Step::Renew => beat = true,
                Step::WaitUntil(at_us) => look_us = look_us.min(at_us),
            }
            true
        });
        self.look_us = look_us;
        beat
    }

    /// A heartbeat speaks for everything that waits for one.
    fn beat_sent(&mut self, now_us: u64) {
        self.keeper.renewal_sent(now_us);
        for hold in self.holds.values() {
            if hold.step(now_us) == Step::Renew {
                hold.renewal_sent(now_us);
            }
        }
        self.look_us = now_us;
    }
}

/// An acquire under a session, whose outcome is not known yet.
pub(crate) struct Asking(Arc<Heart>);

impl Drop for Asking {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.asking -= 1;
        if state.asking == 0 {
            // Whatever is granted from now on has a newer token.
            state.ended_early = HashMap::new();
        }
    }
}

/// Keeps a session alive until it is over.
pub(crate) async fn keep(heart: Arc<Heart>) {
    let (clock, operations) = (&heart.clock, &heart.operations);
    let mut notices = operations.ended_of(&heart.id);
    let mut under_way = FuturesUnordered::new();
    let mut unanswered_us = None;
    loop {
        let wake_us = match heart.turn() {
            Turn::Over => return,
            Turn::Beat(beat) => {
                if let Some(since_us) = unanswered_us.replace(clock.now_us()) {
                    operations.doubt(since_us);
                }
                under_way.push(operations.send(Asked::KeepAlive(beat)));
                continue;
            }
            Turn::WaitUntil(wake_us) => wake_us,
        };
        tokio::select! {
            biased;
            () = heart.over.cancelled() => return,
            Some(ended) = notices.recv() => heart.take_off(&[ended]),
            Some(answer) = under_way.next() => {
                if take_in(&heart, answer) {
                    unanswered_us = None;
                }
            }
            () = heart.nudge.notified() => heart.look_at_each(),
            () = clock.sleep_until(wake_us) => {}
        }
    }
}

/// Takes in an answer, counted from its own sending; several may be under way. Gives whether the server has answered.
fn take_in(heart: &Heart, answer: Result<Answered, Error>) -> bool {
    match answer {
        Ok(Answered { told: Told::Session(session), sent_us }) => {
            heart.beaten(&session, sent_us);
            true
        }
        // Nothing that answers a heartbeat: as good as none.
        Ok(_) => false,
        Err(refusal) => {
            let how = match &refusal {
                // We have not closed it: somebody has.
                Error::Ended(Ended::Released) => Some(Ended::SessionClosed),
                Error::Ended(how) => Some(how.clone()),
                Error::NotFound { .. } => Some(Ended::Forgotten),
                _ => None,
            };
            if let Some(how) = how {
                heart.end(how);
            }
            matches!(refusal, Error::Busy { .. })
        }
    }
}

fn end_each(ending: Ending) {
    for (hold, how) in ending {
        hold.end(how);
    }
}

#[cfg(all(test, feature = "testing"))]
mod tests;
