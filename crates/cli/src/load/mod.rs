//! `leasehold load`: drives a server with many clients, checks while it measures, and tells what it came to. Here: what can
//! be asked for, and the course of a run; what clients do is in `drive.rs`.

mod histogram;

mod referee;
mod tally;

mod door;
mod grpc;
mod http;
mod stream;

mod drive;
mod files;
mod patience;

mod plot;
mod progress;
mod report;

use std::fs::File;
use std::io::Write;
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::available_parallelism;
use std::time::{Duration, SystemTime};

use clap::{Args, ValueEnum};
use leasehold_client::{ClientBuilder, Error, RetryPolicy};
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior, interval_at, timeout};

use crate::asking::Asking;
use crate::duration;
use crate::interrupt::interrupted;
use crate::paint::Paint;
use crate::printing::print;
use crate::status::{Failure, Status, of_io};
use door::{Door, Wish};
use drive::{Client, Plan, Run};
use files::counters::Counters;
use files::writer::Writer;
use files::{Appends, Desk, RECORD_BYTES_MIN, Sharing};
use progress::Progress;
use report::{Contended, Files, Report, Sample};

/// The longest wait that a server takes: clients in line stay there for the whole run.
const WAIT_MAX: Duration = Duration::from_secs(3600);
/// The picture has at most about so many points.
const SAMPLES: u32 = 300;
const SAMPLE_EVERY_MIN: Duration = Duration::from_millis(100);

/// Drive a server with many clients, and check it while it is measured
///
/// Each client takes a lock, holds it, gives it back, and begins again. All the while it is checked that no two clients
/// believe at once that they hold the same lock, and that tokens grow. A violation is told, and ends with status 70;
/// calls that fail are counted and tried anew.
///
/// With --files each client appends to a fenced file of its own, under a lease that it keeps. All files are read back, and must
/// hold what was acknowledged, in its order, and nothing else; then they are deleted.
#[derive(Args)]
#[command(after_help = "\
Examples:
  leasehold load --duration 5s
  leasehold load --clients 200 --protocol stream --plot load.svg
  leasehold load --contended --hold 1ms --json
  leasehold load --files --clients 64 --duration 5s
  leasehold load --files --together --bytes 4096")]
pub struct Load {
    /// How many clients ask at once
    #[arg(long, value_name = "N", default_value_t = 80, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    clients: u32,
    /// For how long
    #[arg(long, value_name = "DURATION", default_value = "20s", value_parser = duration::parse)]
    duration: Duration,
    /// How many locks there are for them; with fewer locks than clients they stand in line. As many as clients unless given
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    locks: Option<u32>,
    /// All clients want one lock, and stand in line for it
    #[arg(long, conflicts_with = "locks")]
    contended: bool,
    /// Append to fenced files, each client to its own; with --contended each append takes and gives back the one lock
    #[arg(long, conflicts_with = "locks")]
    files: bool,
    /// All clients append to one file, under one lease that they share
    #[arg(long, requires = "files", conflicts_with = "contended")]
    together: bool,
    /// How many bytes each append has, 1024 unless given
    #[arg(long, value_name = "N", requires = "files", value_parser = clap::value_parser!(u32).range(RECORD_BYTES_MIN as i64..=1 << 20))]
    bytes: Option<u32>,
    /// Read a file back, delete it and begin a new one when it has so many bytes; a share of 1 GiB unless given
    #[arg(long, value_name = "N", requires = "files", value_parser = clap::value_parser!(u64).range(1..=1 << 30))]
    file_bytes: Option<u64>,
    /// How long each holds its lock, less than half the TTL
    #[arg(long, value_name = "DURATION", default_value = "0", value_parser = parse_hold)]
    hold: Duration,
    /// How long a lease lives: a duration, or short (10s), long (60s), batch (300s)
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = duration::parse_ttl)]
    ttl: Duration,
    /// Over which protocol
    #[arg(long, value_enum, default_value_t = Protocol::Stream)]
    protocol: Protocol,
    /// Draw cycles over time, and how long they took, as an SVG picture
    #[arg(long, value_name = "FILE")]
    plot: Option<PathBuf>,
    /// What the names of the locks and files begin with
    #[arg(long, value_name = "NAME", default_value = "load")]
    prefix: String,
    /// What the clients are called, before /0, /1 and so on; load:PID unless given
    #[arg(long, value_name = "OWNER", env = "LEASEHOLD_OWNER")]
    owner: Option<String>,
    #[command(flatten)]
    asking: Asking,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Protocol {
    /// HTTP/1.1 with JSON, a connection for each client
    Http,
    /// Unary gRPC calls, a connection for each client
    Grpc,
    /// The stream of operations, shared by all clients as the SDK does it
    Stream,
}

impl Protocol {
    fn text(self) -> &'static str {
        match self {
            Protocol::Http => "HTTP",
            Protocol::Grpc => "unary gRPC",
            Protocol::Stream => "a gRPC stream",
        }
    }

    /// How many threads drive clients, of so many processors. Those who share one connection do little by themselves: more
    /// threads would wake each other more than they get done, and take the time from the server if that is here too.
    fn threads(self, processors: usize) -> usize {
        match self {
            Protocol::Http | Protocol::Grpc => processors,
            Protocol::Stream => processors.div_ceil(4),
        }
    }
}

/// How long to hold; nothing at all needs no unit.
fn parse_hold(text: &str) -> Result<Duration, String> {
    if text == "0" { Ok(Duration::ZERO) } else { duration::parse(text) }
}

/// What was seen of a run from outside, while it lasted.
struct Measured {
    took: Duration,
    holder_changes: u64,
    samples: Vec<Sample>,
    /// As the server itself counted.
    syncs_per_append: Option<f64>,
}

/// What came of a run, and how it ended if somebody ended it.
struct Finished {
    report: Report,
    violations: Vec<String>,
    interrupted: Option<Status>,
}

impl Load {
    pub fn run(self) -> Result<(), Failure> {
        let plan = self.plan()?;
        // Before the run, so that it is not in vain.
        let picture =
            self.plot.as_ref().map(|path| File::create(path).map_err(|error| self.unwritable(&error)));
        let picture = picture.transpose()?;
        let threads = self.protocol.threads(available_parallelism().map_or(1, NonZero::get));
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(threads).enable_all().build();
        let runtime =
            runtime.map_err(|error| Failure::new(of_io(&error), format!("cannot start threads: {error}")))?;
        let finished = runtime.block_on(self.measure(plan));
        // Calls that nobody waits for any more are not waited for.
        runtime.shutdown_background();
        let Finished { report, violations, interrupted } = finished?;
        if let Some(mut picture) = picture {
            picture.write_all(plot::svg(&report).as_bytes()).map_err(|error| self.unwritable(&error))?;
        }
        print(&match self.asking.json {
            true => report.json(),
            false => report.text(Paint::for_stdout()),
        })?;
        violations.iter().for_each(|sentence| eprintln!("violation: {sentence}"));
        match (report.violations, interrupted) {
            (0, None) => Ok(()),
            (0, Some(status)) => Err(Failure::new(status, "ended before its time")),
            (count, _) => {
                let of = if self.files {
                    "what fenced files promise"
                } else {
                    "exclusion or of the order of tokens"
                };
                let sentence = format!("{count} violations of {of} were seen");
                Err(self.asking.told_as("internal", Failure::new(Status::Broken, sentence)))
            }
        }
    }

    fn plan(&self) -> Result<Plan, Failure> {
        let refuse =
            |wrong: &str| self.asking.told_as("invalid_argument", Failure::new(Status::Usage, wrong));
        if self.hold >= self.ttl / 2 {
            return Err(refuse("--hold must be less than half of --ttl: leases are not renewed under load"));
        }
        if self.files && !self.contended && !self.hold.is_zero() {
            return Err(refuse(
                "--hold goes with --files only if it is --contended: other leases are kept all the time",
            ));
        }
        if self.duration.is_zero() {
            return Err(refuse("--duration must be longer than nothing"));
        }
        let clients = self.clients as usize;
        let one = self.contended || self.together;
        let locks = if one { 1 } else { self.locks.unwrap_or(self.clients) as usize };
        Ok(Plan {
            clients,
            locks,
            hold: self.hold,
            ttl: self.ttl,
            wait: if Plan::shares(clients, locks) { WAIT_MAX } else { Duration::ZERO },
            timeout: self.asking.timeout,
            server: self.asking.server.clone(),
            prefix: self.prefix.clone(),
            owner: self.owner.clone().unwrap_or_else(|| format!("load:{}", std::process::id())),
            appends: self.files.then(|| self.appends()),
        })
    }

    fn appends(&self) -> Appends {
        let sharing = match (self.contended, self.together) {
            (true, _) => Sharing::InTurn,
            (_, true) => Sharing::Together,
            _ => Sharing::Apart,
        };
        // No other run has it, also when an earlier one was killed and left its files.
        let begun = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_micros();
        let folder = format!("{}/{}-{begun}", self.prefix, std::process::id());
        let record_bytes = self.bytes.unwrap_or(1024) as usize;
        Appends { record_bytes, file_bytes_max: self.file_bytes, sharing, folder }
    }

    /// What is done over and over, and what is timed of it.
    fn work(&self) -> (&'static str, &'static str) {
        match (self.files, self.contended) {
            (false, _) => ("cycles", "acquire and release together"),
            (true, false) => ("appends", "an append"),
            (true, true) => ("appends", "acquire, append and release together"),
        }
    }

    async fn measure(&self, plan: Plan) -> Result<Finished, Failure> {
        // One attempt: what fails is to be seen, not mended.
        let insistent = self.asking.builder()?.owner(&plan.owner);
        let builder = insistent.clone().retry(RetryPolicy::once(self.asking.timeout));
        let many = || 0..=plan.clients;
        match self.protocol {
            Protocol::Http => {
                let doors = many().map(|_| http::Http::new(builder.clone())).collect();
                self.course(plan, doors, insistent).await
            }
            Protocol::Grpc => {
                let doors = many().map(|_| builder.unary().map(grpc::Grpc::new)).collect::<Result<_, _>>();
                self.course(plan, doors.map_err(|error| self.failure(&error))?, insistent).await
            }
            Protocol::Stream => {
                let connected = timeout(self.asking.timeout, builder.connect()).await;
                let client = connected.unwrap_or_else(|_| Err(self.asking.silence(false)));
                let client = client.map_err(|error| self.failure(&error))?;
                let grace = plan.grace();
                let doors = many().map(|_| stream::Stream::new(client.clone())).collect();
                let finished = self.course(plan, doors, insistent).await;
                // Who left the line is also seen to have left it.
                let _ = timeout(grace, client.settled()).await;
                finished
            }
        }
    }

    /// The course of a run: everybody connects, all begin at once, and end when the time is over. The last door is nobody's,
    /// and for looking whether the server is there.
    async fn course<D: Door>(
        &self,
        plan: Plan,
        mut doors: Vec<D>,
        builder: ClientBuilder,
    ) -> Result<Finished, Failure> {
        let stop = interrupted()?;
        let mut spare = doors.pop().ok_or_else(|| Failure::new(Status::Broken, "there is no way in"))?;
        self.look(&plan, &mut spare).await.map_err(|error| self.failure(&error))?;
        let doors = self.open(doors).await.map_err(|error| self.failure(&error))?;
        let desk = self.desk(&plan, &builder).await.map_err(|error| self.failure(&error))?;
        let run = Arc::new(Run::new(plan));
        let before = self.counters(&builder).await;
        let begun = Instant::now();
        let mut clients = JoinSet::new();
        for (number, door) in doors.into_iter().enumerate() {
            let run = Arc::clone(&run);
            match desk.clone().filter(|_| !self.contended) {
                Some(desk) => clients.spawn(Writer::new(door, number, run, desk).run()),
                None => clients.spawn(Client::new(door, number, run, desk.clone()).run()),
            };
        }
        let (samples, interrupted) = self.observe(&run, begun, stop).await;
        run.end();
        // What happens while the line is worked off is not of this time.
        let (took, holder_changes) = (begun.elapsed(), run.referee.changes());
        let after = self.counters(&builder).await;
        let syncs_per_append =
            after.zip(before).and_then(|(after, before)| after.syncs_per_write_since(before));
        let measured = Measured { took, holder_changes, samples, syncs_per_append };
        while let Some(ended) = clients.join_next().await {
            ended.map_err(|error| Failure::new(Status::Broken, format!("a client failed: {error}")))?;
        }
        // Who waits in line over a stream does not see that the server has gone: it may come back.
        let left = timeout(run.plan.grace(), async {
            let looked = self.look(&run.plan, &mut spare).await;
            // A connection from before the server was started anew is broken, and the next is not.
            if looked.is_err() { self.look(&run.plan, &mut spare).await } else { looked }
        });
        let left = left.await.unwrap_or_else(|_| Err(self.asking.silence(false)));
        // Files can be read back from a server that is there.
        let wrong = match (&desk, left) {
            (_, Err(gone)) => Vec::from([gone]),
            (Some(desk), Ok(())) => desk.close(&run).await,
            (None, Ok(())) => Vec::new(),
        };
        let report = self.report(&run, measured, &wrong, desk.as_deref());
        Ok(Finished { report, violations: run.referee.told(), interrupted })
    }

    /// Takes the leases that appends are made under, if any are.
    async fn desk(&self, plan: &Plan, builder: &ClientBuilder) -> Result<Option<Arc<Desk>>, Error> {
        let Some(appends) = &plan.appends else { return Ok(None) };
        let client = timeout(plan.timeout, builder.clone().connect()).await;
        let client = client.unwrap_or_else(|_| Err(self.asking.silence(false)))?;
        Ok(Some(Arc::new(Desk::open(client, appends, plan.locks, plan.ttl).await?)))
    }

    /// What the server has counted so far, if it is of interest.
    async fn counters(&self, builder: &ClientBuilder) -> Option<Counters> {
        if !self.files {
            return None;
        }
        timeout(self.asking.timeout, Counters::read(builder)).await.ok().flatten()
    }

    /// Whether the server is there and lets us: one cycle on a lock of our own.
    async fn look(&self, plan: &Plan, door: &mut impl Door) -> Result<(), Error> {
        let lock = format!("{}-look-{}", plan.prefix, std::process::id());
        let wish = Wish { lock: &lock, owner: &plan.owner, ttl: plan.ttl, wait: Duration::ZERO };
        let look = async {
            let held = door.acquire(wish).await?;
            door.release(&held.claim).await
        };
        timeout(plan.timeout, look).await.unwrap_or_else(|_| Err(self.asking.silence(false)))
    }

    /// Connects all clients, before the time is taken.
    async fn open<D: Door>(&self, doors: Vec<D>) -> Result<Vec<D>, Error> {
        let mut opening = JoinSet::new();
        for mut door in doors {
            opening.spawn(async move { door.open().await.map(|()| door) });
        }
        let mut open = Vec::new();
        while let Some(opened) = opening.join_next().await {
            open.push(opened.unwrap_or_else(|error| Err(Error::Unexpected { detail: error.to_string() }))?);
        }
        Ok(open)
    }

    /// Looks at the run from time to time until its time is over, or somebody stops it.
    async fn observe(
        &self,
        run: &Run,
        begun: Instant,
        stop: impl Future<Output = Status>,
    ) -> (Vec<Sample>, Option<Status>) {
        let progress = Progress::new(self.duration, self.work().0);
        let end = tokio::time::sleep_until(begun + self.duration);
        let every = (self.duration / SAMPLES).max(SAMPLE_EVERY_MIN);
        let mut ticks = interval_at(begun + every, every);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let sample = || Sample { after: begun.elapsed(), cycles: run.tally.count() };
        let mut samples = vec![Sample { after: Duration::ZERO, cycles: 0 }];
        tokio::pin!(end, stop);
        loop {
            let (over, interrupted) = tokio::select! {
                _ = ticks.tick() => (false, None),
                () = &mut end => (true, None),
                status = &mut stop => (true, Some(status)),
            };
            let (before, now) = (samples.last().copied().unwrap_or(sample()), sample());
            samples.push(now);
            if over {
                progress.clear();
                return (samples, interrupted);
            }
            progress.show(before, now, run.errors.load(Ordering::Relaxed));
        }
    }

    fn report(
        &self,
        run: &Run,
        measured: Measured,
        wrong_in_the_end: &[Error],
        desk: Option<&Desk>,
    ) -> Report {
        let Measured { took, holder_changes, samples, syncs_per_append } = measured;
        let last = wrong_in_the_end.first().map(|error| format!("at the end: {error}"));
        let (done, timed) = self.work();
        let files =
            |desk: &Desk| Files { bytes: desk.record_bytes(), syncs_per_append, read_back: desk.found() };
        Report {
            heading: self.heading(&run.plan),
            took,
            done,
            timed,
            latency: run.tally.latency(),
            files: desk.map(files),
            contended: self.contended.then_some(Contended { holder_changes, wait: run.tally.wait() }),
            errors: run.errors.load(Ordering::Relaxed) + wrong_in_the_end.len() as u64,
            first_error: run.first_error().or(last),
            violations: run.referee.violations(),
            samples,
        }
    }

    fn heading(&self, plan: &Plan) -> String {
        let count = |count: usize, what: &str| format!("{count} {what}{}", if count == 1 { "" } else { "s" });
        let hold = match plan.hold.is_zero() {
            true => String::new(),
            false => format!(", each held for {}", duration::show(plan.hold)),
        };
        let what = match &plan.appends {
            None => count(plan.locks, "lock"),
            Some(Appends { record_bytes, sharing, .. }) => {
                let to = match sharing {
                    Sharing::Apart => "a file of its own each",
                    Sharing::Together => "one file under one lease",
                    Sharing::InTurn => "one file in turn",
                };
                format!("appends of {record_bytes} bytes to {to}")
            }
        };
        format!("{} over {}, {what}{hold}", count(plan.clients, "client"), self.protocol.text())
    }

    fn failure(&self, error: &Error) -> Failure {
        self.asking.failure("could not put load on the server", error)
    }

    fn unwritable(&self, error: &std::io::Error) -> Failure {
        let path = self.plot.as_deref().unwrap_or(Path::new("")).display();
        Failure::new(of_io(error), format!("cannot write {path}: {error}"))
    }
}
