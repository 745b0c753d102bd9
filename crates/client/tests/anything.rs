//! Anything may happen at any time: workers that contend, wait, are aborted and let go of futures half-way, over a network
//! that breaks, parts and loses answers, with a server that freezes, crashes and breaks leases. Whatever happens, no two
//! believe in what excludes each other, tokens grow, everybody is served in the end, and nothing is left behind.
//!
//! `SEEDS=1000 cargo test -p leasehold-client --test anything` looks further; `SEED=7` looks at one again.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::future::Future;
use std::sync::{Arc, Mutex, Weak};
use std::task::{Context, Waker};
use std::time::Duration;

use leasehold_client::testing::Server;
use leasehold_client::{
    Client, Guard, Leader, Lock, LockOptions, Next, Session, SessionOptions, Standing, Term, Ttl,
};
use tokio::task::JoinHandle;

const MS: Duration = Duration::from_millis(1);
const S: Duration = Duration::from_secs(1);
const LOCKS: [&str; 4] = ["deploy", "path:/a", "path:/a/b", "path:/a/c"];
const CLIENTS: usize = 4;
const STEPS: u32 = 60;
/// A TTL that nobody waits for: what is left behind with it is found out.
const HOUR: Duration = Duration::from_secs(3600);
/// Whatever was asked for is over so long after everything works again.
const SERVED_WITHIN: Duration = Duration::from_secs(1500);

/// The same numbers for the same seed.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % sides
    }

    fn time(&mut self, most: Duration) -> Duration {
        most / 1000 * u32::try_from(self.roll(1001)).unwrap()
    }

    fn one_of<T: Copy>(&mut self, all: &[T]) -> T {
        all[usize::try_from(self.roll(all.len() as u64)).unwrap()]
    }

    fn happens(&mut self, percent: u64) -> bool {
        self.roll(100) < percent
    }
}

/// What a worker does.
#[derive(Clone, Copy, Debug)]
struct Plan {
    lock: &'static str,
    shared: bool,
    ttl: Duration,
    wait: Option<Duration>,
    own_session: bool,
    never_renew: bool,
    progress: bool,
    hold: Duration,
    end: End,
    /// Stands for election, and not for a lock.
    leads: bool,
}

#[derive(Clone, Copy, Debug)]
enum End {
    Unlock,
    Drop,
    /// Begins to unlock, and lets go of that too.
    DropUnlock,
}

impl Plan {
    fn new(dice: &mut Dice) -> Plan {
        Plan {
            lock: dice.one_of(&LOCKS),
            shared: dice.happens(25),
            ttl: dice.one_of(&[2 * S, 10 * S, 30 * S, HOUR]),
            wait: dice.happens(40).then(|| dice.time(20 * S)),
            own_session: dice.happens(30),
            never_renew: dice.happens(10),
            progress: dice.happens(10),
            hold: dice.time(10 * S),
            end: dice.one_of(&[End::Unlock, End::Drop, End::DropUnlock]),
            leads: false,
        }
    }

    fn to_lead(dice: &mut Dice) -> Plan {
        let ttl = dice.one_of(&[2 * S, 10 * S]);
        Plan { leads: true, shared: false, own_session: false, wait: None, ttl, ..Plan::new(dice) }
    }

    fn options(&self) -> LockOptions {
        let mut options = LockOptions::default();
        if self.shared {
            options = options.shared();
        }
        if let Some(wait) = self.wait {
            options = options.timeout(wait);
        }
        if self.never_renew && !self.own_session {
            options = options.never_renew();
        }
        if self.progress {
            options = options.tied_to_progress(S);
        }
        options
    }

    fn excludes(&self, other: &Plan) -> bool {
        let above = |a: &str, b: &str| a == b || b.starts_with(&format!("{a}/"));
        let overlap = above(self.lock, other.lock) || above(other.lock, self.lock);
        overlap && !(self.shared && other.shared)
    }
}

/// Everything that was granted.
#[derive(Clone, Default)]
struct Ledger(Arc<Mutex<Vec<Grant>>>);

/// What was granted to whom, and with which token.
struct Grant {
    plan: Plan,
    token: u64,
    guard: Weak<Guard>,
}

impl Grant {
    fn is_believed(&self) -> bool {
        self.guard.upgrade().is_some_and(|guard| guard.standing() != Standing::Lost)
    }
}

impl Ledger {
    fn granted(&self, plan: Plan, token: u64, guard: Weak<Guard>) {
        let mut ledger = self.0.lock().unwrap();
        for earlier in ledger.iter().filter(|earlier| plan.excludes(&earlier.plan)) {
            assert!(token > earlier.token, "{token} after {}: {plan:?} {:?}", earlier.token, earlier.plan);
        }
        ledger.push(Grant { plan, token, guard });
        drop(ledger);
        self.check();
    }

    /// Whoever does something is the last to whom it was granted.
    fn does_something(&self, plan: Plan, token: u64) {
        for later in self.0.lock().unwrap().iter().filter(|grant| grant.token > token) {
            assert!(
                !plan.excludes(&later.plan),
                "{token} works under {}: {plan:?} {:?}",
                later.token,
                later.plan
            );
        }
    }

    /// No two believe in what excludes each other.
    fn check(&self) {
        let ledger = self.0.lock().unwrap();
        let believed: Vec<&Grant> = ledger.iter().filter(|grant| grant.is_believed()).collect();
        for (at, one) in believed.iter().enumerate() {
            for other in &believed[..at] {
                let (both, plans) = ((one.token, other.token), (one.plan, other.plan));
                assert!(!one.plan.excludes(&other.plan), "{both:?} are both believed: {plans:?}");
            }
        }
    }
}

async fn work(client: Client, plan: Plan, ledger: Ledger) {
    let (lock, ttl) = if plan.own_session {
        let Ok(session) = Session::open(&client, plan.ttl, SessionOptions::default()).await else { return };
        (session.lock(plan.lock), Ttl::default())
    } else {
        (Lock::new(&client, plan.lock), plan.ttl.into())
    };
    let Ok(guard) = lock.lock(ttl, plan.options()).await else { return };
    // One that was lost as soon as it was got has no token to show.
    let Ok(token) = guard.token() else { return };
    let guard = Arc::new(guard);
    ledger.granted(plan, token, Arc::downgrade(&guard));
    let kept = guard.run(busy(&client, plan, token, &ledger, || guard.progress())).await.is_ok();
    assert_eq!(kept, guard.standing() != Standing::Lost, "what was done was done under the lock");
    let guard = Arc::try_unwrap(guard).expect("nobody else keeps it");
    match plan.end {
        End::Unlock => drop(guard.unlock().await),
        End::Drop => drop(guard),
        End::DropUnlock => {
            let mut unlocking = Box::pin(guard.unlock());
            let _ = unlocking.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        }
    }
}

/// What is done under a lock, bit by bit.
async fn busy(client: &Client, plan: Plan, token: u64, ledger: &Ledger, progress: impl Fn()) {
    let clock = client.clock();
    let until_us = clock.now_us() + u64::try_from(plan.hold.as_micros()).unwrap();
    while clock.now_us() < until_us {
        clock.sleep_until(until_us.min(clock.now_us() + 300_000)).await;
        ledger.does_something(plan, token);
        progress();
    }
}

/// Leads once for as long as planned. Some do not listen when they are told to stop.
async fn lead(client: Client, plan: Plan, ledger: Ledger) {
    let leading = |term: Term| {
        let (client, ledger) = (client.clone(), ledger.clone());
        async move {
            let Ok(token) = term.token() else { return Next::Again };
            ledger.granted(plan, token, Weak::new());
            let stopping = term.stopping();
            tokio::select! {
                () = busy(&client, plan, token, &ledger, || term.progress()) => Next::Stop,
                () = stopping.cancelled(), if !matches!(plan.end, End::Drop) => Next::Again,
            }
        }
    };
    let mut leader = Leader::new(&client, plan.lock).ttl(plan.ttl);
    if plan.progress {
        leader = leader.tied_to_progress(S);
    }
    let led = leader.run(leading, |_| std::future::pending()).await;
    assert!(led.is_ok(), "{led:?}");
}

/// Does something to somebody.
fn disturb(dice: &mut Dice, server: &Server, clients: &[Client], down: &mut bool, frozen: &mut bool) {
    let client = &clients[usize::try_from(dice.roll(clients.len() as u64)).unwrap()];
    match dice.roll(14) {
        0 => server.cut(),
        1 => server.partition(client),
        2 | 3 => server.heal(client),
        4 => server.suspend(client),
        5 | 6 => server.resume(client),
        7 => {
            server.crash();
            (*down, *frozen) = (true, false);
        }
        8 | 9 => {
            server.start();
            *down = false;
        }
        10 => {
            server.freeze();
            *frozen = true;
        }
        11 => {
            server.thaw();
            *frozen = false;
        }
        12 => server.lose_replies(dice.roll(4)),
        _ => {
            let lock = dice.one_of(&LOCKS);
            let held = server.holders(lock).iter().any(|holder| holder.lock == lock);
            if held && !*down && !*frozen {
                server.break_lock(lock, "by chance");
            }
        }
    }
}

async fn a_day(seed: u64) {
    let mut dice = Dice(seed);
    let server = Server::new();
    let clients: Vec<_> = (0..CLIENTS).map(|n| server.client(format!("client-{n}"))).collect();
    let ledger = Ledger::default();
    let mut workers: Vec<JoinHandle<()>> = Vec::new();
    let (mut down, mut frozen) = (false, false);
    for _ in 0..STEPS {
        for _ in 0..dice.roll(3) {
            let client = clients[usize::try_from(dice.roll(CLIENTS as u64)).unwrap()].clone();
            let plan = if dice.happens(20) { Plan::to_lead(&mut dice) } else { Plan::new(&mut dice) };
            workers.push(match plan.leads {
                true => tokio::spawn(lead(client, plan, ledger.clone())),
                false => tokio::spawn(work(client, plan, ledger.clone())),
            });
        }
        if dice.happens(15) && !workers.is_empty() {
            workers[usize::try_from(dice.roll(workers.len() as u64)).unwrap()].abort();
        }
        if dice.happens(60) {
            disturb(&mut dice, &server, &clients, &mut down, &mut frozen);
        }
        if dice.happens(3) {
            server.clock().jump(dice.time(20 * S));
        }
        let most = dice.one_of(&[MS, S, 5 * S]);
        server.clock().advance(dice.time(most)).await;
        ledger.check();
    }
    server.start();
    server.thaw();
    for client in &clients {
        server.heal(client);
        server.resume(client);
    }
    server.lose_replies(0);
    let began = server.clock().elapsed();
    for worker in workers {
        match server.clock().wait_for(worker).await {
            Ok(()) => {}
            Err(failed) => assert!(failed.is_cancelled(), "{failed}"),
        }
    }
    let took = server.clock().elapsed() - began;
    assert!(took < SERVED_WITHIN, "the last was served after {took:?}");
    server.clock().advance(60 * S).await;
    for lock in LOCKS {
        assert_eq!((server.holders(lock), server.waiters(lock)), (Vec::new(), Vec::new()), "{lock}");
    }
    for client in &clients {
        client.settled().await;
    }
    let sessions = clients[0].sessions(None, None).await.unwrap();
    assert_eq!(sessions.rows, [], "every session was closed");
    assert!(ledger.0.lock().unwrap().len() > 5, "something was granted");
}

#[test]
fn whatever_happens_nobody_is_wrong_and_nothing_is_left() {
    let asked = |name: &str| std::env::var(name).ok().map(|text| text.parse::<u64>().unwrap());
    let seeds = match asked("SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..asked("SEEDS").unwrap_or(60),
    };
    for seed in seeds {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let day = std::panic::AssertUnwindSafe(|| runtime.block_on(a_day(seed)));
        if let Err(panic) = std::panic::catch_unwind(day) {
            eprintln!("SEED={seed}");
            std::panic::resume_unwind(panic);
        }
    }
}
