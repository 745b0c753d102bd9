//! Drives a server: many clients at once, each of which takes a lock, holds it (and perhaps appends to a file under it), gives
//! it back, and begins again, until the time is over. What fails is counted and tried anew after a pause. Prints nothing.

use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use leasehold_client::keeper::{Confirmed, Keeper, Renewal};
use leasehold_client::{BootClock, Claim, Clock, Error, Trouble, Unavailable};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::door::{Door, Held, Wish};
use super::files::{Appends, Author, Desk};
use super::patience::{Impatience, Patience};
use super::referee::{Believer, Referee};
use super::tally::Tally;
use crate::duration;

/// How long calls that are under way at the end are waited for, at most.
const GRACE: Duration = Duration::from_secs(5);
/// The pause of a client after a failed call, and what others pause longer, so that they do not come back all at once.
const PAUSE: Duration = Duration::from_millis(50);
const PAUSE_APART: Duration = Duration::from_millis(7);

/// What every client does.
#[derive(Clone, Debug)]
pub struct Plan {
    pub clients: usize,
    pub locks: usize,
    pub hold: Duration,
    pub ttl: Duration,
    /// How long to stand in line for a lock; zero where nobody else wants it.
    pub wait: Duration,
    /// How long a call may take beyond that.
    pub timeout: Duration,
    /// Whom they ask.
    pub server: String,
    /// What the names of all locks begin with.
    pub prefix: String,
    /// What the names of all owners begin with.
    pub owner: String,
    /// What is appended to files, if that is what is done.
    pub appends: Option<Appends>,
}

impl Plan {
    /// The lock of a client's next cycle. All are used; clients share one only if there are fewer locks than clients, or
    /// not a whole number for each.
    fn lock(&self, client: usize, cycle: usize) -> usize {
        client.wrapping_add(cycle.wrapping_mul(self.clients)) % self.locks
    }

    /// How long calls that are under way at the end are waited for.
    pub fn grace(&self) -> Duration {
        self.timeout.min(GRACE)
    }

    /// Whether two clients can want the same lock.
    pub fn shares(clients: usize, locks: usize) -> bool {
        !locks.is_multiple_of(clients)
    }

    pub fn lock_name(&self, lock: usize) -> String {
        match &self.appends {
            None => format!("{}-{lock}", self.prefix),
            Some(appends) => format!("path:/{}/{lock}", appends.folder),
        }
    }

    pub fn owner_name(&self, client: usize) -> String {
        format!("{}/{client}", self.owner)
    }
}

/// What all clients of a run share.
#[derive(Debug)]
pub struct Run {
    pub plan: Plan,
    pub referee: Referee,
    pub tally: Tally,
    /// Failed calls so far.
    pub errors: AtomicU64,
    /// The first of them, in words.
    first_error: OnceLock<String>,
    /// Whether the time is over: for those who look often.
    over: AtomicBool,
    /// The same, for those who wait for it.
    ended: CancellationToken,
}

impl Run {
    /// The beginning of a run.
    pub fn new(plan: Plan) -> Run {
        let referee = Referee::new(plan.locks);
        let (over, ended) = (AtomicBool::new(false), CancellationToken::new());
        let (errors, first_error) = (AtomicU64::new(0), OnceLock::new());
        Run { plan, referee, tally: Tally::new(), errors, first_error, over, ended }
    }

    /// The time is over.
    pub fn end(&self) {
        self.over.store(true, Ordering::Release);
        self.ended.cancel();
    }

    /// Whether the time is over.
    pub fn is_over(&self) -> bool {
        self.over.load(Ordering::Acquire)
    }

    /// Resolves when the time is over.
    pub fn ended(&self) -> impl Future<Output = ()> + Send + use<> {
        self.ended.clone().cancelled_owned()
    }

    /// A call failed.
    pub fn failed(&self, error: &Error) {
        self.errors.fetch_add(1, Ordering::Relaxed);
        self.first_error.get_or_init(|| error.to_string());
    }

    /// The first call that failed, in words.
    pub fn first_error(&self) -> Option<String> {
        self.first_error.get().cloned()
    }

    /// What a client waits after a failed call, unless the time is over.
    pub async fn pause(&self, client: usize) {
        let apart = u32::try_from(client % 16).unwrap_or(0);
        let pause = tokio::time::sleep(PAUSE + PAUSE_APART * apart);
        let _ = self.ended.clone().run_until_cancelled(pause).await;
    }

    /// The error of a call that was not answered for so long.
    pub fn silence(&self, waited: Duration) -> Error {
        Error::ServerUnavailable(Box::new(Unavailable {
            server: self.plan.server.clone(),
            attempts: 1,
            trouble: Trouble::Silence(format!("no answer within {}", duration::show(waited))),
            may_have_happened: true,
        }))
    }
}

/// One client of a run.
pub struct Client<D> {
    door: D,
    number: usize,
    owner: String,
    run: Arc<Run>,
    patience: Patience,
    /// The lock that it takes, and its name: most take the same all the time.
    named: (usize, String),
    /// Where appends are made, and how many were.
    desk: Option<Arc<Desk>>,
    appends: u64,
    /// A lease that could not be given back yet.
    owed: Option<Claim>,
}

impl<D: Door> Client<D> {
    pub fn new(door: D, number: usize, run: Arc<Run>, desk: Option<Arc<Desk>>) -> Client<D> {
        let (owner, lock) = (run.plan.owner_name(number), run.plan.lock(number, 0));
        let (patience, named) = (Patience::new(Arc::clone(&run)), (lock, run.plan.lock_name(lock)));
        Client { door, number, owner, run, patience, named, desk, appends: 0, owed: None }
    }

    /// Runs until the time is over.
    pub async fn run(mut self) {
        for cycle in 0.. {
            if self.run.is_over() {
                break;
            }
            let lock = self.run.plan.lock(self.number, cycle);
            if let Err(error) = self.cycle(lock).await {
                self.run.failed(&error);
                self.run.pause(self.number).await;
            }
        }
    }

    /// Takes a lock, holds it, gives it back.
    async fn cycle(&mut self, lock: usize) -> Result<(), Error> {
        self.pay_back().await?;
        let Some((held, took_us)) = self.acquire(lock).await? else { return Ok(()) };
        let appended = self.hold(lock, &held).await;
        let begun_us = BootClock.now_us();
        self.owed = Some(held.claim);
        let paid_back = self.pay_back().await;
        let took_us = took_us + us(appended?) + (BootClock.now_us() - begun_us);
        paid_back?;
        if !self.run.is_over() {
            self.run.tally.done(self.number, took_us);
        }
        match &self.desk {
            Some(desk) => desk.put_away_full(&self.run, self.number).await,
            None => Ok(()),
        }
    }

    /// Asks for a lock; none when the time was over first. Gives how long it took, too.
    async fn acquire(&mut self, lock: usize) -> Result<Option<(Held, u64)>, Error> {
        let plan = &self.run.plan;
        if self.named.0 != lock {
            self.named = (lock, plan.lock_name(lock));
        }
        let wish = Wish { lock: &self.named.1, owner: &self.owner, ttl: plan.ttl, wait: plan.wait };
        let (begun_us, most) = (BootClock.now_us(), plan.timeout.saturating_add(plan.wait));
        let held = match self.patience.wait(begun_us, most, pin!(self.door.acquire(wish))).await {
            Ok(answered) => answered?,
            Err(Impatience::Late) => return Err(self.run.silence(plan.timeout)),
            // The line is worked off at the end, so that nobody leaves a grant behind that is just on its way.
            Err(Impatience::Over) if !plan.wait.is_zero() => return Ok(None),
            Err(Impatience::Over) => return Err(self.run.silence(plan.grace())),
        };
        let took_us = held.confirmation.heard_us.saturating_sub(begun_us);
        // Where nobody stands in line it is of no interest.
        if !plan.wait.is_zero() && !self.run.is_over() {
            self.run.tally.waited(self.number, took_us);
        }
        Ok(Some((held, took_us)))
    }

    /// Holds a lock for as long as the plan says, its own clock allows, and the run lasts, and appends to its file if it has
    /// one. Gives the time that the append took.
    async fn hold(&mut self, lock: usize, held: &Held) -> Result<Duration, Error> {
        let mut keeper = Keeper::new(Renewal::Never);
        let Confirmed::Until(until_us) = keeper.confirm(held.confirmation) else {
            // It came too late to be relied on by itself.
            let detail = "a grant came when its time was nearly over, and was given back unused".to_owned();
            return Err(Error::Unexpected { detail });
        };
        let (heard_us, token) = (held.confirmation.heard_us, held.claim.fencing_token);
        self.run.referee.enter(lock, heard_us, Believer { client: self.number, token, until_us });
        let appended = self.append(&held.claim).await;
        if !self.run.plan.hold.is_zero() {
            let left = Duration::from_micros(until_us.saturating_sub(BootClock.now_us()));
            let pause = tokio::time::sleep(self.run.plan.hold.min(left));
            let _ = self.run.ended.clone().run_until_cancelled(pause).await;
        }
        self.run.referee.leave(lock, token);
        appended
    }

    async fn append(&mut self, claim: &Claim) -> Result<Duration, Error> {
        let Some(desk) = &self.desk else { return Ok(Duration::ZERO) };
        let author = Author { client: self.number, number: self.appends };
        self.appends += 1;
        let begun = Instant::now();
        desk.append(&mut self.patience, &mut self.door, claim, author).await?;
        Ok(begun.elapsed())
    }

    /// Gives back what is held. What the server does not take for held any more is done with.
    async fn pay_back(&mut self) -> Result<(), Error> {
        let Some(claim) = self.owed.take() else { return Ok(()) };
        let released = self.patience.answered(pin!(self.door.release(&claim))).await;
        if matches!(released, Err(Error::ServerUnavailable(_) | Error::Busy { .. })) {
            self.owed = Some(claim);
        }
        released
    }
}

/// In whole microseconds.
pub fn us(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}
