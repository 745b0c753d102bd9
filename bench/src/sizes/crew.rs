//! Callers of the SDK for the measurements about sizes: some fill a server, some go round as fast as they can, and one goes round
//! alone and steadily and remembers how long each of its calls took. Knows nothing of what is measured with them.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

use leasehold_client::{Ask, Client, Metadata, RetryPolicy};
use tokio::task::{JoinHandle, JoinSet};

use super::telling::Counted;
use crate::samples::micros;
use crate::served::Served;

/// The longest TTL that a server takes: nothing ends by itself while it is measured.
pub const FOREVER: Duration = Duration::from_secs(86_400);
/// Owners that share what is held.
const OWNERS: usize = 64;
/// Callers that fill a server: half of what one stream takes in flight.
const FILLERS: usize = 512;

/// A client with a connection of its own, which waits for answers for as long as they take.
pub async fn connect(served: &Served) -> Result<Client, String> {
    let patient = RetryPolicy { attempt_timeout: Duration::from_secs(60), ..RetryPolicy::default() };
    let builder = Client::builder(&format!("http://{}", served.address)).owner("bench").retry(patient);
    builder.connect().await.map_err(|error| error.to_string())
}

/// The name of a held lock. There is room between any two: see [`between`].
pub fn name(number: usize) -> String {
    format!("job-{number:07}")
}

/// A name that nobody holds, and that lies among those that are held.
fn between(number: usize) -> String {
    format!("job-{number:07}-x")
}

/// Takes these locks and keeps them; `ttl` is asked for each when it is sent.
pub async fn hold(
    client: &Client,
    locks: Range<usize>,
    ttl: impl Fn() -> Duration + Copy + Send + 'static,
) -> Result<(), String> {
    let progress = Counted::of("holding", locks.len(), "locks");
    let next = Arc::new(AtomicUsize::new(locks.start));
    let mut fillers = JoinSet::new();
    for _ in 0..FILLERS.min(locks.len()) {
        let (client, next, locks, progress) = (client.clone(), next.clone(), locks.clone(), progress.clone());
        fillers.spawn(async move {
            loop {
                let number = next.fetch_add(1, Relaxed);
                if number >= locks.end {
                    return Ok(());
                }
                let owner = Some(format!("worker-{:02}", number % OWNERS));
                let ask = Ask { owner, ttl: Some(ttl()), ..Ask::new(name(number)) };
                client.acquire(ask).await.map_err(|error| format!("a lock was not granted: {error}"))?;
                progress.add(1);
            }
        });
    }
    all(fillers).await
}

/// Ends with the first error.
async fn all(mut tasks: JoinSet<Result<(), String>>) -> Result<(), String> {
    while let Some(ended) = tasks.join_next().await {
        ended.map_err(|error| format!("a caller panicked: {error}"))??;
    }
    Ok(())
}

/// Callers that acquire and release as fast as they can, each time another name among those that are held. They stop when
/// told to.
pub struct Rounds {
    stop: Arc<AtomicBool>,
    done: Arc<AtomicU64>,
    callers: JoinSet<Result<(), String>>,
}

impl Rounds {
    /// Begins. `among` is how many names are held.
    pub fn begin(client: &Client, callers: usize, among: usize) -> Rounds {
        Rounds::begin_with(client, callers, among, 0)
    }

    /// The same, with so many bytes of metadata in each acquire: they fill the journal.
    pub fn begin_with(client: &Client, callers: usize, among: usize, bytes: usize) -> Rounds {
        let metadata = match bytes {
            0 => Metadata::new(),
            _ => Metadata::from([("note".to_owned(), "x".repeat(bytes))]),
        };
        let (stop, done) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let mut set = JoinSet::new();
        for caller in 0..callers {
            let (client, stop, done) = (client.clone(), stop.clone(), done.clone());
            let metadata = metadata.clone();
            set.spawn(async move {
                // Callers keep to names of their own, a stretch of the whole each, and jump about in it.
                let (first, stretch) = (caller * among / callers, (among / callers).max(1));
                let mut at = caller;
                while !stop.load(Relaxed) {
                    at = at.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                    let lock = format!("{}-{caller}", between(first + (at >> 33) % stretch));
                    cycle(&client, Ask { metadata: metadata.clone(), ..Ask::new(lock) }).await?;
                    done.fetch_add(1, Relaxed);
                }
                Ok(())
            });
        }
        Rounds { stop, done, callers: set }
    }

    /// Cycles done so far.
    pub fn done(&self) -> u64 {
        self.done.load(Relaxed)
    }

    /// Stops, when each has finished its cycle.
    pub async fn end(self) -> Result<u64, String> {
        self.stop.store(true, Relaxed);
        all(self.callers).await?;
        Ok(self.done.load(Relaxed))
    }
}

/// How long the two halves of a cycle took.
async fn cycle(client: &Client, ask: Ask) -> Result<(u32, u32), String> {
    let begun = Instant::now();
    let grant = client.acquire(ask).await.map_err(|error| format!("an acquire failed: {error}"))?;
    let acquired_us = micros(begun.elapsed());
    client.release(&grant.claim()).await.map_err(|error| format!("a release failed: {error}"))?;
    Ok((acquired_us, micros(begun.elapsed())))
}

/// One cycle of the steady caller.
#[derive(Clone, Copy)]
pub struct Round {
    /// When it began and when it ended.
    pub during: (Instant, Instant),
    /// How long its acquire took.
    pub acquire_us: u32,
    /// How long all of it took.
    pub cycle_us: u32,
}

/// A caller alone on a connection, which goes round one lock all the time.
pub struct Steady {
    stop: Arc<AtomicBool>,
    task: JoinHandle<Result<Vec<Round>, String>>,
}

impl Steady {
    /// Begins.
    pub async fn begin(served: &Served) -> Result<Steady, String> {
        let client = connect(served).await?;
        let stop = Arc::new(AtomicBool::new(false));
        let heard = stop.clone();
        let task = tokio::spawn(async move {
            let mut rounds = Vec::new();
            while !heard.load(Relaxed) {
                let begun = Instant::now();
                let (acquire_us, cycle_us) = cycle(&client, Ask::new("steady")).await?;
                rounds.push(Round { during: (begun, Instant::now()), acquire_us, cycle_us });
            }
            Ok(rounds)
        });
        Ok(Steady { stop, task })
    }

    /// Stops, and gives every cycle there was.
    pub async fn end(self) -> Result<Vec<Round>, String> {
        self.stop.store(true, Relaxed);
        self.task.await.map_err(|error| format!("the steady caller panicked: {error}"))?
    }
}

/// The rounds that were under way in a stretch of time, be it in part.
pub fn in_stretch(rounds: &[Round], stretch: (Instant, Instant)) -> impl Iterator<Item = &Round> {
    rounds.iter().filter(move |round| round.during.1 >= stretch.0 && round.during.0 <= stretch.1)
}
