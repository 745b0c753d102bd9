//! Drives a server: many clients at once, each of which takes a lock, holds it (and perhaps appends to a file under it), gives
//! it back, and begins again, until the time is over. What fails is counted and tried anew after a pause. Prints nothing.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use leasehold_client::keeper::{Confirmed, Keeper, Renewal};
use leasehold_client::{BootClock, Clock, Error, Trouble, Unavailable};
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;

use super::door::{Door, Held, Wish};
use super::files::{Appends, Author, Desk};
use super::histogram::Histogram;
use super::referee::{Believer, Referee};
use super::stream::claim;
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
    /// Cycles so far.
    pub cycles: AtomicU64,
    /// Failed calls so far.
    pub errors: AtomicU64,
    /// The time is over.
    pub over: CancellationToken,
}

/// What one client met.
#[derive(Debug, Default)]
pub struct Tally {
    /// Acquire and release together.
    pub latency: Histogram,
    /// From asking to holding.
    pub wait: Histogram,
    /// The first call that failed, and when.
    pub first_error: Option<(Instant, String)>,
}

impl Run {
    /// The beginning of a run.
    pub fn new(plan: Plan) -> Run {
        let referee = Referee::new(plan.locks);
        let (cycles, errors) = (AtomicU64::new(0), AtomicU64::new(0));
        Run { plan, referee, cycles, errors, over: CancellationToken::new() }
    }

    /// A call failed.
    pub fn failed(&self, tally: &mut Tally, error: &Error) {
        self.errors.fetch_add(1, Ordering::Relaxed);
        tally.first_error.get_or_insert_with(|| (Instant::now(), error.to_string()));
    }

    /// What a client waits after a failed call, unless the time is over.
    pub async fn pause(&self, client: usize) {
        let apart = u32::try_from(client % 16).unwrap_or(0);
        let pause = tokio::time::sleep(PAUSE + PAUSE_APART * apart);
        let _ = self.over.clone().run_until_cancelled(pause).await;
    }

    /// Waits for an answer as long as the plan allows, and not long beyond the end of the run.
    pub async fn answered<T>(&self, call: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
        tokio::select! {
            answered = timeout(self.plan.timeout, call) => {
                answered.unwrap_or_else(|_| Err(self.silence(self.plan.timeout)))
            }
            () = over_for(&self.over, self.plan.grace()) => Err(self.silence(self.plan.grace())),
        }
    }

    fn silence(&self, waited: Duration) -> Error {
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
    /// Where appends are made, and how many were.
    desk: Option<Arc<Desk>>,
    appends: u64,
    tally: Tally,
    /// A lease that could not be given back yet.
    owed: Option<Held>,
}

impl<D: Door> Client<D> {
    pub fn new(door: D, number: usize, run: Arc<Run>, desk: Option<Arc<Desk>>) -> Client<D> {
        let owner = run.plan.owner_name(number);
        Client { door, number, owner, run, desk, appends: 0, tally: Tally::default(), owed: None }
    }

    /// Runs until the time is over.
    pub async fn run(mut self) -> Tally {
        for cycle in 0.. {
            if self.run.over.is_cancelled() {
                break;
            }
            let lock = self.run.plan.lock(self.number, cycle);
            if let Err(error) = self.cycle(lock).await {
                self.run.failed(&mut self.tally, &error);
                self.run.pause(self.number).await;
            }
        }
        self.tally
    }

    /// Takes a lock, holds it, gives it back.
    async fn cycle(&mut self, lock: usize) -> Result<(), Error> {
        self.pay_back().await?;
        let Some((held, took)) = self.acquire(lock).await? else { return Ok(()) };
        let appended = self.hold(lock, &held).await;
        let begun = Instant::now();
        self.owed = Some(held);
        let paid_back = self.pay_back().await;
        let took = took + appended? + begun.elapsed();
        paid_back?;
        if !self.run.over.is_cancelled() {
            self.tally.latency.record(us(took));
            self.run.cycles.fetch_add(1, Ordering::Relaxed);
        }
        match &self.desk {
            Some(desk) => desk.put_away_full(&self.run, self.number).await,
            None => Ok(()),
        }
    }

    /// Asks for a lock; none when the time was over first.
    async fn acquire(&mut self, lock: usize) -> Result<Option<(Held, Duration)>, Error> {
        let run = Arc::clone(&self.run);
        let plan = &run.plan;
        let name = plan.lock_name(lock);
        let wish = Wish { lock: &name, owner: &self.owner, ttl: plan.ttl, wait: plan.wait };
        let begun = Instant::now();
        let asking = timeout(plan.timeout.saturating_add(plan.wait), self.door.acquire(wish));
        let held = tokio::select! {
            answered = asking => answered.map_err(|_| run.silence(plan.timeout))??,
            // The line is worked off at the end, so that nobody leaves a grant behind that is just on its way.
            () = over_for(&run.over, plan.grace()) => {
                return if plan.wait.is_zero() { Err(run.silence(plan.grace())) } else { Ok(None) };
            }
        };
        let took = begun.elapsed();
        if !run.over.is_cancelled() {
            self.tally.wait.record(us(took));
        }
        Ok(Some((held, took)))
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
        let now_us = BootClock.now_us();
        self.run.referee.enter(lock, now_us, Believer { client: self.number, token: held.token, until_us });
        let appended = self.append(held).await;
        if !self.run.plan.hold.is_zero() {
            let left = Duration::from_micros(until_us.saturating_sub(BootClock.now_us()));
            let pause = tokio::time::sleep(self.run.plan.hold.min(left));
            let _ = self.run.over.clone().run_until_cancelled(pause).await;
        }
        self.run.referee.leave(lock, held.token);
        appended
    }

    async fn append(&mut self, held: &Held) -> Result<Duration, Error> {
        let Some(desk) = &self.desk else { return Ok(Duration::ZERO) };
        let author = Author { client: self.number, number: self.appends };
        self.appends += 1;
        let begun = Instant::now();
        desk.append(&self.run, &mut self.door, &claim(held), author).await?;
        Ok(begun.elapsed())
    }

    /// Gives back what is held. What the server does not take for held any more is done with.
    async fn pay_back(&mut self) -> Result<(), Error> {
        let Some(held) = self.owed.take() else { return Ok(()) };
        let released = self.run.answered(self.door.release(&held)).await;
        if matches!(released, Err(Error::ServerUnavailable(_) | Error::Busy { .. })) {
            self.owed = Some(held);
        }
        released
    }
}

/// Resolves when the time has been over for so long.
async fn over_for(over: &CancellationToken, grace: Duration) {
    over.cancelled().await;
    tokio::time::sleep(grace).await;
}

/// In whole microseconds.
pub fn us(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}
