//! A disk whose syncs take a millisecond longer. `strace` holds up every sync of the server, and touches no other call of it; what
//! it costs by itself is measured beside it, with no delay.

use std::process::{Command, Stdio};
use std::time::Duration;

use super::crew::{self, Rounds};
use super::telling::say;
use super::{on_threads, record};
use crate::book::Book;
use crate::compare::Scale;
use crate::drive::Values;
use crate::served::{Served, program};

/// How much longer a sync takes.
const DELAY_US: u64 = 1_000;

/// On what the server runs.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Disk {
    AsItIs,
    /// Syncs are traced, and not held up.
    Traced,
    Slow,
}

impl Disk {
    fn name(self) -> &'static str {
        match self {
            Disk::AsItIs => "as it is",
            Disk::Traced => "traced",
            Disk::Slow => "1 ms slower",
        }
    }

    /// What starts the server on it.
    fn command(self) -> Result<Command, String> {
        let program = program()?;
        if self == Disk::AsItIs {
            return Ok(Command::new(program));
        }
        let mut command = Command::new("strace");
        // With -D the process that is started is the server. The filter lets all other calls pass by strace.
        command.args(["-D", "-f", "--seccomp-bpf", "-qqq", "-o", "/dev/null", "-e", "signal=none"]);
        command.args(["-e", "trace=fdatasync,fsync"]);
        if self == Disk::Slow {
            command.args(["-e", &format!("inject=fdatasync,fsync:delay_exit={DELAY_US}")]);
        }
        command.arg(program);
        Ok(command)
    }
}

/// Each number of callers on each disk, one after the other.
pub fn measure(scale: Scale, book: &mut Book) -> Result<(), String> {
    let version = Command::new("strace").arg("-V").stdout(Stdio::null()).status();
    if !version.is_ok_and(|status| status.success()) {
        say("slow-disk is skipped: there is no strace (Debian: apt-get install strace)", true);
        return Ok(());
    }
    let long = Duration::from_secs(if scale.quick { 1 } else { 5 });
    for callers in [1, 64, 256, 1024] {
        for disk in [Disk::AsItIs, Disk::Traced, Disk::Slow] {
            on_threads(one(callers, disk, long, book))
                .map_err(|problem| format!("{callers} callers, disk {}: {problem}", disk.name()))?;
        }
    }
    Ok(())
}

async fn one(callers: usize, disk: Disk, long: Duration, book: &mut Book) -> Result<(), String> {
    let data = tempfile::tempdir().map_err(|error| error.to_string())?;
    let served = Served::start_by(disk.command()?, &data.path().join("data"), &[])?;
    let client = crew::connect(&served).await?;
    let rounds = Rounds::begin(&client, callers, 100_000);
    tokio::time::sleep(long / 4).await;
    let before = (rounds.done(), Commits::read(&served)?);
    tokio::time::sleep(long).await;
    let after = (rounds.done(), Commits::read(&served)?);
    rounds.end().await?;
    let commits = after.1.count - before.1.count;
    let values = Values::from([
        ("per_second", (after.0 - before.0) as f64 / long.as_secs_f64()),
        ("commit_us", (after.1.ms - before.1.ms) * 1e3 / commits),
        ("events_per_commit", (after.1.events - before.1.events) / commits),
    ]);
    record(book, "slow-disk", disk.name(), callers, values);
    Ok(())
}

/// What the server says of its commits.
struct Commits {
    count: f64,
    ms: f64,
    events: f64,
}

impl Commits {
    fn read(served: &Served) -> Result<Commits, String> {
        Ok(Commits {
            count: served.metric("lock_journal_commit_ms_count")?,
            ms: served.metric("lock_journal_commit_ms_sum")?,
            events: served.metric("lock_journal_batch_sum")?,
        })
    }
}
