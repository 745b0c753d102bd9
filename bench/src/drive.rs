//! Drives a system: many clients at once in one runtime with a thread for every two cores, each in a loop, for a time; counts
//! what they did, how long it took them, and the CPU that it cost on both sides. Every system is driven by exactly this code.

use std::collections::BTreeMap;
use std::num::NonZero;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::thread::available_parallelism;
use std::time::{Duration, Instant};

use tokio::task::JoinSet;

use crate::peers::process::{Process, cpu_seconds};
use crate::peers::{LockClient, Way};
use crate::referee::Referee;
use crate::samples::{Percentiles, micros};

/// How long leases live: far longer than anything waits, so that none expires while it is measured.
pub const TTL: Duration = Duration::from_secs(30);
/// Names that each client uses in turn where nobody else wants them.
const NAMES_EACH: usize = 8;
/// One of the clients' threads for so many cores, for every system the same: the others are the server's.
const CORES_A_THREAD: usize = 2;
/// How long clients may take to end, once the time is over.
const END: Duration = Duration::from_secs(30);

/// What clients do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Workload {
    /// Each acquires and releases names of its own.
    Uncontended,
    /// All want the same lock.
    Contended,
    /// Each renews one lease of its own.
    Renewals,
}

impl Workload {
    /// All of them.
    pub const ALL: &'static [Workload] = &[Workload::Uncontended, Workload::Contended, Workload::Renewals];
    /// For locks that are not leases.
    pub const CYCLES: &'static [Workload] = &[Workload::Uncontended, Workload::Contended];

    /// For tables, and as a key.
    pub fn name(self) -> &'static str {
        match self {
            Workload::Uncontended => "uncontended",
            Workload::Contended => "contended",
            Workload::Renewals => "renewals",
        }
    }
}

/// One measurement.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// What clients do.
    pub workload: Workload,
    /// How many there are.
    pub clients: usize,
    /// How long they run before anything counts.
    pub warm: Duration,
    /// How long is counted.
    pub time: Duration,
}

/// What a measurement gave, by name. Units come last in a name.
pub type Values = BTreeMap<&'static str, f64>;

/// A way, without its type.
pub trait Driven: Send + Sync {
    /// Measures.
    fn drive(&self, plan: Plan, server: &Process) -> Result<Values, String>;
}

impl<W: Way> Driven for W {
    fn drive(&self, plan: Plan, server: &Process) -> Result<Values, String> {
        let cores = available_parallelism().map_or(1, NonZero::get);
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads((cores / CORES_A_THREAD).max(1))
            .enable_all()
            .build()
            .map_err(|error| format!("cannot start the clients' runtime: {error}"))?;
        let values = runtime.block_on(measure(self, plan, server));
        runtime.shutdown_timeout(Duration::from_secs(5));
        values
    }
}

const WARMING: u8 = 0;
const COUNTING: u8 = 1;
const OVER: u8 = 2;

/// What all clients of a measurement share.
struct Shared {
    workload: Workload,
    phase: AtomicU8,
    referee: Referee,
}

/// What one client counted.
struct Tally {
    /// Of whole cycles, or renewals.
    cycles_us: Vec<u32>,
    /// From asking to holding, where others want the same.
    waits_us: Vec<u32>,
}

/// Room for what most clients count, made before they count: nobody moves figures while others are measured.
const TALLY_ROOM: usize = 4_096;

async fn measure<W: Way>(way: &W, plan: Plan, server: &Process) -> Result<Values, String> {
    let names = match plan.workload {
        Workload::Contended => 1,
        Workload::Uncontended => plan.clients * NAMES_EACH,
        Workload::Renewals => plan.clients,
    };
    let shared = Arc::new(Shared {
        workload: plan.workload,
        phase: AtomicU8::new(WARMING),
        referee: Referee::new(names),
    });
    let mut clients = JoinSet::new();
    for (number, client) in way.clients(plan.clients, plan.workload).await?.into_iter().enumerate() {
        clients.spawn(run(client, number, Arc::clone(&shared)));
    }
    sleep_while_all_run(&mut clients, plan.warm).await?;
    let changes = shared.referee.changes();
    let before = (server.cpu_seconds(), cpu_seconds(std::process::id()), Instant::now());
    shared.phase.store(COUNTING, Ordering::Release);
    sleep_while_all_run(&mut clients, plan.time).await?;
    shared.phase.store(OVER, Ordering::Release);
    let seconds = before.2.elapsed().as_secs_f64();
    let server_cpu = server.cpu_seconds() - before.0;
    let client_cpu = cpu_seconds(std::process::id()) - before.1;
    let changes = shared.referee.changes() - changes;

    let mut tallies = Vec::with_capacity(plan.clients);
    let joining = async {
        while let Some(joined) = clients.join_next().await {
            tallies.push(joined.map_err(|error| format!("a client panicked: {error}"))??);
        }
        Ok::<(), String>(())
    };
    tokio::time::timeout(END, joining)
        .await
        .map_err(|_| format!("clients did not end within {} s", END.as_secs()))??;
    shared.referee.verdict()?;

    let done: usize = tallies.iter().map(|tally| tally.cycles_us.len()).sum();
    if done == 0 {
        return Err("nothing was done in the time".to_owned());
    }
    let mut values = Values::from([
        ("per_second", done as f64 / seconds),
        ("server_cpu_us", server_cpu * 1e6 / done as f64),
        ("client_cpu_us", client_cpu * 1e6 / done as f64),
    ]);
    let latency = Percentiles::of(tallies.iter().flat_map(|tally| tally.cycles_us.iter().copied()).collect());
    values.extend([
        ("p50_us", latency.p50),
        ("p90_us", latency.p90),
        ("p99_us", latency.p99),
        ("max_us", latency.max),
    ]);
    if plan.workload == Workload::Contended {
        values.extend(waits(tallies.iter().flat_map(|tally| tally.waits_us.iter().copied()).collect()));
        let each = || tallies.iter().map(|tally| tally.cycles_us.len() as f64);
        let (least, most) = (each().fold(f64::MAX, f64::min), each().fold(0.0, f64::max));
        values.extend([
            ("changes_per_second", changes as f64 / seconds),
            ("least_to_most", least / most.max(1.0)),
        ]);
    }
    Ok(values)
}

/// What is told of waits.
pub fn waits(waits_us: Vec<u32>) -> Values {
    let waits = Percentiles::of(waits_us);
    Values::from([
        ("wait_p50_us", waits.p50),
        ("wait_p99_us", waits.p99),
        ("wait_max_us", waits.max),
        ("longest_to_median", waits.max / waits.p50.max(1.0)),
    ])
}

/// Sleeps; a client that ends before its time has failed.
async fn sleep_while_all_run(
    clients: &mut JoinSet<Result<Tally, String>>,
    time: Duration,
) -> Result<(), String> {
    tokio::select! {
        () = tokio::time::sleep(time) => Ok(()),
        Some(ended) = clients.join_next() => match ended {
            Ok(Ok(_)) => Err("a client ended before its time".to_owned()),
            Ok(Err(error)) => Err(error),
            Err(error) => Err(format!("a client panicked: {error}")),
        },
    }
}

/// The locks that a client uses in turn, by number and name. Whoever needs a place for each lock can make it beforehand.
pub fn names(workload: Workload, client: usize) -> Vec<(usize, String)> {
    match workload {
        Workload::Contended => vec![(0, "bench-contended".to_owned())],
        Workload::Uncontended => (0..NAMES_EACH)
            .map(|name| (client * NAMES_EACH + name, format!("bench-{client}-{name}")))
            .collect(),
        Workload::Renewals => vec![(client, format!("bench-renewed-{client}"))],
    }
}

/// The locks that a client uses in turn, their names in one piece of memory: with many clients nothing of a client is in the cache
/// any more when it is its turn, and whatever lies apart is waited for.
struct Locks {
    /// The number of the first; the others follow it.
    first: usize,
    /// One name after the other, each as long as all.
    names: String,
    length: usize,
    turn: usize,
}

impl Locks {
    fn new(workload: Workload, client: usize) -> Locks {
        let all = names(workload, client);
        let (first, length) = all.first().map_or((0, 0), |(number, name)| (*number, name.len()));
        let alike =
            all.iter().enumerate().all(|(at, (number, name))| (*number, name.len()) == (first + at, length));
        assert!(
            alike,
            "the locks of a client are numbered in a row, and their names are of one length: {all:?}"
        );
        Locks { first, names: all.into_iter().map(|(_, name)| name).collect(), length, turn: 0 }
    }

    /// The number and the name of the next one.
    fn next(&mut self) -> (usize, &str) {
        let at = self.turn * self.length;
        let next = (self.first + self.turn, &self.names[at..at + self.length]);
        self.turn = if at + self.length < self.names.len() { self.turn + 1 } else { 0 };
        next
    }
}

/// One client, until the time is over. What ends while it counts is counted, whenever it began: else whoever is
/// slow would look slower still. Each cycle begins when the last one ends, so that the clock is read once for both.
async fn run<C: LockClient>(mut client: C, number: usize, shared: Arc<Shared>) -> Result<Tally, String> {
    let contended = shared.workload == Workload::Contended;
    let mut tally = Tally {
        cycles_us: Vec::with_capacity(TALLY_ROOM),
        waits_us: Vec::with_capacity(if contended { TALLY_ROOM } else { 0 }),
    };
    let mut locks = Locks::new(shared.workload, number);
    let mut began = Instant::now();
    if shared.workload == Workload::Renewals {
        let (lock, name) = locks.next();
        let mut held = client.acquire(name).await?;
        shared.referee.enter(lock, number, C::token(&held));
        began = Instant::now();
        while shared.phase.load(Ordering::Acquire) != OVER {
            client.renew(&mut held).await?;
            let ended = Instant::now();
            if shared.phase.load(Ordering::Acquire) == COUNTING {
                tally.cycles_us.push(micros(ended - began));
            }
            began = ended;
        }
        shared.referee.leave(lock, number);
        client.release(held).await?;
        return Ok(tally);
    }
    while shared.phase.load(Ordering::Acquire) != OVER {
        let (lock, name) = locks.next();
        let held = client.acquire(name).await?;
        // Nobody is waited for where nobody else wants it.
        let waited = if contended { began.elapsed() } else { Duration::ZERO };
        shared.referee.enter(lock, number, C::token(&held));
        if contended {
            // Whoever was told that it holds the lock too is seen now, also where one thread runs all clients.
            tokio::task::yield_now().await;
        }
        shared.referee.leave(lock, number);
        client.release(held).await?;
        let ended = Instant::now();
        if shared.phase.load(Ordering::Acquire) == COUNTING {
            tally.cycles_us.push(micros(ended - began));
            if contended {
                tally.waits_us.push(micros(waited));
            }
        }
        began = ended;
    }
    Ok(tally)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicU64;

    /// Gives everybody what they ask for, under tokens that grow.
    struct GivesToAll(Arc<AtomicU64>);

    impl LockClient for GivesToAll {
        type Held = u64;

        async fn acquire(&mut self, _: &str) -> Result<u64, String> {
            tokio::task::yield_now().await;
            Ok(self.0.fetch_add(1, Ordering::Relaxed))
        }

        async fn renew(&mut self, _: &mut u64) -> Result<(), String> {
            Ok(())
        }

        async fn release(&mut self, _: u64) -> Result<(), String> {
            tokio::task::yield_now().await;
            Ok(())
        }

        fn token(held: &u64) -> Option<u64> {
            Some(*held)
        }
    }

    #[test]
    fn a_service_that_gives_a_lock_to_two_at_once_is_found_out_by_one_thread() {
        let shared = |workload, names| {
            let (phase, referee) = (AtomicU8::new(COUNTING), Referee::new(names));
            Arc::new(Shared { workload, phase, referee })
        };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        for (workload, names, fair) in
            [(Workload::Contended, 1, false), (Workload::Uncontended, 2 * NAMES_EACH, true)]
        {
            let (shared, tokens) = (shared(workload, names), Arc::new(AtomicU64::new(1)));
            let cycles = runtime.block_on(async {
                let clients: Vec<_> = (0..2)
                    .map(|number| run(GivesToAll(Arc::clone(&tokens)), number, Arc::clone(&shared)))
                    .map(tokio::spawn)
                    .collect();
                tokio::time::sleep(Duration::from_millis(20)).await;
                shared.phase.store(OVER, Ordering::Release);
                let mut cycles = 0;
                for client in clients {
                    cycles += client.await.unwrap().unwrap().cycles_us.len();
                }
                cycles
            });
            assert!(cycles > 0);
            let verdict = shared.referee.verdict();
            assert_eq!(verdict.is_ok(), fair, "{verdict:?}");
            assert!(fair || verdict.unwrap_err().contains("at once"));
        }
    }

    #[test]
    fn a_client_uses_all_its_locks_in_turn() {
        for workload in Workload::ALL {
            for client in [0, 9, 1_023] {
                let mut locks = Locks::new(*workload, client);
                for (number, name) in [names(*workload, client), names(*workload, client)].concat() {
                    assert_eq!(locks.next(), (number, name.as_str()));
                }
            }
        }
    }
}
