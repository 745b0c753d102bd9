//! What is believed of one lease that was granted: shared by its handles and by whatever keeps it alive. Validity is
//! computed from the clock at each look; whoever looks past the window ends the lease there and then, whatever any timer
//! did. It never sends a renewal; it knows how to give the lease back without waiting.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use leasehold_protocol::v1;
use leasehold_protocol::v1::operation::What as Asked;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::calls;
use crate::clock::Clock;
use crate::error::{Ended, Error};
use crate::keeper::{self, Confirmation, Confirmed, Keeper, Step};
use crate::operations::Operations;
use crate::view::Claim;

/// How a lease stands, from the clock of this moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// Confirmed not long ago.
    Safe {
        /// What is left until it is lost, if no renewal is confirmed.
        left: Duration,
    },
    /// A renewal is overdue. The lease is still held; finish, or prepare to stop.
    InJeopardy {
        /// What is left until it is lost, if no renewal is confirmed.
        left: Duration,
    },
    /// Over, for good, or never begun. `token()` says why.
    Lost,
}

/// What an answer promises, counted from the sending of what it answers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Promise {
    pub ttl_ms: u64,
    pub renew_after_ms: u64,
    pub stop_after_ms: u64,
}

impl From<&v1::Lease> for Promise {
    fn from(told: &v1::Lease) -> Promise {
        Promise {
            ttl_ms: told.ttl_ms,
            renew_after_ms: told.renew_after_ms,
            stop_after_ms: told.stop_after_ms,
        }
    }
}

impl From<&v1::Session> for Promise {
    fn from(told: &v1::Session) -> Promise {
        Promise {
            ttl_ms: told.ttl_ms,
            renew_after_ms: told.renew_after_ms,
            stop_after_ms: told.stop_after_ms,
        }
    }
}

impl Promise {
    /// For an attempt sent then, whose answer is heard now.
    pub fn confirmation(self, sent_us: u64, heard_us: u64) -> Confirmation {
        Confirmation {
            sent_us,
            heard_us,
            ttl_us: self.ttl_ms.saturating_mul(1000),
            renew_after_us: self.renew_after_ms.saturating_mul(1000),
            stop_after_us: self.stop_after_ms.saturating_mul(1000),
        }
    }
}

/// One lease, as its client sees it.
pub(crate) struct Hold {
    claim: Claim,
    clock: Arc<dyn Clock>,
    operations: Operations,
    /// Wakes whoever keeps it.
    nudge: Arc<Notify>,
    /// Fires on every end.
    over: CancellationToken,
    /// Something was confirmed, or it is over.
    news: Notify,
    belief: Mutex<Belief>,
}

struct Belief {
    keeper: Keeper,
    /// How it ended. The first reason stays.
    ended: Option<Ended>,
    given_back: bool,
}

/// What a release has to do.
pub(crate) enum GiveBack {
    /// It was held until now: tell the server.
    Held(v1::ReleaseRequest),
    /// It had ended before.
    Ended(Ended),
}

impl Hold {
    /// What was granted, before anything of it is believed.
    pub fn new(
        claim: Claim,
        keeper: Keeper,
        clock: Arc<dyn Clock>,
        operations: Operations,
        nudge: Arc<Notify>,
    ) -> Hold {
        let belief = Belief { keeper, ended: None, given_back: false };
        Hold {
            claim,
            clock,
            operations,
            nudge,
            over: CancellationToken::new(),
            news: Notify::new(),
            belief: Mutex::new(belief),
        }
    }

    /// What proves that it is ours.
    pub fn claim(&self) -> &Claim {
        &self.claim
    }

    /// The clock that it is counted on.
    pub fn clock(&self) -> &Arc<dyn Clock> {
        &self.clock
    }

    /// The way to its server.
    pub fn operations(&self) -> &Operations {
        &self.operations
    }

    /// Resolves when whoever keeps it should look again.
    pub async fn nudged(&self) {
        self.nudge.notified().await;
    }

    /// Fires when it is over.
    pub fn over(&self) -> &CancellationToken {
        &self.over
    }

    /// How it stands now, or how it ended.
    pub fn look(&self) -> Result<keeper::Standing, Ended> {
        let mut belief = self.lock();
        let standing = belief.look(self.clock.now_us());
        self.unlock(belief);
        standing
    }

    /// What whoever keeps it has to do next.
    pub fn step(&self, now_us: u64) -> Step {
        let mut belief = self.lock();
        let step = match belief.look(now_us) {
            Ok(_) => belief.keeper.step(now_us),
            Err(_) => Step::Lost,
        };
        self.unlock(belief);
        step
    }

    /// A renewal was sent that may confirm it.
    pub fn renewal_sent(&self, now_us: u64) {
        self.lock().keeper.renewal_sent(now_us);
    }

    /// Takes in an answer that speaks for it.
    pub fn confirm(&self, promise: Promise, sent_us: u64) -> Confirmed {
        let mut belief = self.lock();
        let heard_us = self.clock.now_us();
        let confirmed = match belief.look(heard_us) {
            Ok(_) => belief.keeper.confirm(promise.confirmation(sent_us, heard_us)),
            Err(_) => Confirmed::Lost,
        };
        self.unlock(belief);
        self.news.notify_waiters();
        confirmed
    }

    /// Takes in an answer for many leases: it does not speak for one whose holder is stuck.
    pub fn confirm_unless_stuck(&self, promise: Promise, sent_us: u64) {
        let stuck = self.lock().keeper.is_stuck(self.clock.now_us());
        if !stuck {
            self.confirm(promise, sent_us);
        }
    }

    /// It is over, whatever the clock says.
    pub fn end(&self, how: Ended) {
        let mut belief = self.lock();
        if belief.look(self.clock.now_us()).is_ok() {
            belief.end(how);
        }
        self.unlock(belief);
    }

    /// The holder has got on.
    pub fn report_progress(&self) {
        if self.lock().keeper.report_progress(self.clock.now_us()) {
            self.nudge.notify_one();
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

    /// Until when it is believed if no renewal is confirmed, or how it ended.
    pub fn believed_until_us(&self) -> Result<u64, Ended> {
        let mut belief = self.lock();
        let standing = belief.look(self.clock.now_us());
        let until_us = belief.keeper.until_us().unwrap_or(0);
        self.unlock(belief);
        standing.map(|_| until_us)
    }

    /// Resolves once it is believed beyond this, or is over.
    pub async fn believed_beyond(&self, beyond_us: u64) -> Result<u64, Ended> {
        loop {
            let news = self.news.notified();
            let until_us = self.believed_until_us()?;
            if until_us > beyond_us {
                return Ok(until_us);
            }
            tokio::select! {
                () = news => {}
                () = self.over.cancelled() => {}
            }
        }
    }

    /// Its time to live, as the server has it.
    pub fn ttl(&self) -> Duration {
        Duration::from_micros(self.lock().keeper.ttl_us())
    }

    /// By when its holder must have stopped: a third of the TTL after the loss, which leaves a sixth for clocks that differ.
    /// Now, if the server has ended it.
    pub fn stop_by_us(&self) -> u64 {
        let belief = self.lock();
        match belief.ended {
            None | Some(Ended::Lost | Ended::Broken(_)) => {
                let ttl_us = belief.keeper.ttl_us();
                belief.keeper.until_us().map_or(0, |until_us| until_us.saturating_add(ttl_us / 3))
            }
            Some(_) => 0,
        }
    }

    /// When the server would end it, if nothing renewed it: half a TTL past its loss.
    pub fn runs_out_us(&self) -> u64 {
        let belief = self.lock();
        let lost_us = belief.keeper.until_us().unwrap_or_else(|| self.clock.now_us());
        lost_us.saturating_add(belief.keeper.ttl_us() / 2)
    }

    /// Gives it back. Only the first call of this and [`Hold::let_go`] has anything to send.
    pub fn give_back(&self) -> GiveBack {
        let mut belief = self.lock();
        let before = belief.look(self.clock.now_us()).err();
        let send = belief.give_back();
        belief.end(Ended::Released);
        self.unlock(belief);
        match before {
            None => GiveBack::Held(self.release()),
            Some(how) => {
                if send {
                    self.operations.later(Asked::Release(self.release()));
                }
                GiveBack::Ended(how)
            }
        }
    }

    /// Its holder has stopped and does not wait for an answer.
    pub fn let_go(&self) {
        if let GiveBack::Held(release) = self.give_back() {
            self.operations.later(Asked::Release(release));
        }
    }

    fn release(&self) -> v1::ReleaseRequest {
        let claim = self.claim.clone();
        v1::ReleaseRequest {
            lock: claim.lock,
            owner_id: claim.owner_id,
            lease_id: claim.lease_id,
            fencing_token: calls::token(claim.fencing_token),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Belief> {
        self.belief.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Fires the signal if it is over, with the lock set free: whoever is woken may look.
    fn unlock(&self, belief: MutexGuard<'_, Belief>) {
        let over = belief.ended.is_some();
        drop(belief);
        if over && !self.over.is_cancelled() {
            self.over.cancel();
        }
    }
}

impl Belief {
    fn look(&mut self, now_us: u64) -> Result<keeper::Standing, Ended> {
        if let Some(ended) = &self.ended {
            return Err(ended.clone());
        }
        let standing = self.keeper.look(now_us);
        if standing == keeper::Standing::Lost {
            self.end(Ended::Lost);
            return Err(Ended::Lost);
        }
        Ok(standing)
    }

    fn end(&mut self, how: Ended) {
        self.keeper.lose();
        self.ended.get_or_insert(how);
    }

    /// Whether the server is still to be told that the holder has stopped.
    fn give_back(&mut self) -> bool {
        let stands = matches!(self.ended, None | Some(Ended::Lost | Ended::Broken(_)));
        stands && !std::mem::replace(&mut self.given_back, true)
    }
}

impl From<keeper::Standing> for Standing {
    fn from(standing: keeper::Standing) -> Standing {
        match standing {
            keeper::Standing::Safe { left_us } => Standing::Safe { left: Duration::from_micros(left_us) },
            keeper::Standing::InJeopardy { left_us } => {
                Standing::InJeopardy { left: Duration::from_micros(left_us) }
            }
            keeper::Standing::Unconfirmed | keeper::Standing::Lost => Standing::Lost,
        }
    }
}

/// What a refused renewal says of the lease; none if it says nothing, and is to be repeated.
pub(crate) fn ended_by(refusal: &Error) -> Option<Ended> {
    match refusal {
        // We have not released it, and nobody else can: it was broken.
        Error::Ended(Ended::Released) => Some(Ended::Broken(String::new())),
        Error::Ended(how) => Some(how.clone()),
        Error::NotFound { .. } => Some(Ended::Forgotten),
        _ => None,
    }
}

#[cfg(all(test, feature = "testing"))]
mod tests {
    use futures_util::FutureExt;

    use super::*;
    use crate::client::Client;
    use crate::keeper::Renewal;
    use crate::testing::Server;

    const TTL: Promise = Promise { ttl_ms: 24_000, renew_after_ms: 8_000, stop_after_ms: 12_000 };

    fn hold(client: &Client) -> Hold {
        let claim =
            Claim { lock: "a".into(), owner_id: "me".into(), lease_id: "secret".into(), fencing_token: 7 };
        let (clock, operations) = (Arc::clone(client.clock()), client.operations().clone());
        Hold::new(claim, Keeper::new(Renewal::Timetable), clock, operations, Arc::default())
    }

    #[tokio::test]
    async fn an_answer_past_its_time_settles_nothing_before_a_renewal_does() {
        let server = Server::new();
        let client = server.client("me");
        let (hold, sent_us) = (hold(&client), client.clock().now_us());
        server.clock().jump(Duration::from_secs(13));
        assert_eq!(hold.confirm(TTL, sent_us), Confirmed::AskAgain);
        assert_eq!(hold.step(client.clock().now_us()), Step::Renew);
        let mut settled = Box::pin(hold.settled());
        assert_eq!((&mut settled).now_or_never(), None);
        hold.confirm(TTL, client.clock().now_us());
        assert_eq!(settled.now_or_never(), Some(Ok(())));
    }

    #[tokio::test]
    async fn the_first_end_is_the_one_that_stays() {
        let server = Server::new();
        let client = server.client("me");
        let (broken, lost) = (hold(&client), hold(&client));
        for hold in [&broken, &lost] {
            hold.confirm(TTL, client.clock().now_us());
        }
        broken.end(Ended::Broken("why".into()));
        server.clock().jump(Duration::from_secs(12));
        lost.end(Ended::Expired);
        assert!(broken.over().is_cancelled() && lost.over().is_cancelled());
        broken.end(Ended::Stale);
        assert_eq!(broken.look(), Err(Ended::Broken("why".into())));
        assert_eq!(lost.look(), Err(Ended::Lost), "it was lost before the server spoke");
        assert_eq!(lost.confirm(TTL, client.clock().now_us()), Confirmed::Lost);
        assert!(matches!(lost.give_back(), GiveBack::Ended(Ended::Lost)));
    }

    #[tokio::test]
    async fn a_holder_has_a_third_of_the_ttl_to_stop_after_a_loss_and_no_time_after_an_end() {
        let server = Server::new();
        let client = server.client("me");
        let (hold, sent_us) = (hold(&client), client.clock().now_us());
        hold.confirm(TTL, sent_us);
        server.clock().jump(Duration::from_secs(12));
        assert_eq!(hold.look(), Err(Ended::Lost));
        assert_eq!(hold.stop_by_us(), sent_us + 20_000_000);
        let (hold, sent_us) = (self::hold(&client), client.clock().now_us());
        hold.confirm(TTL, sent_us);
        hold.end(Ended::Expired);
        assert_eq!(hold.stop_by_us(), 0);
    }
}
