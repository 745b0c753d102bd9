//! kill -9 at every system call that a thread makes for a fixed workload: before the first, before the second, and so on
//! until the workload is done before the kill would come. After each kill the data must be sound, the next start must
//! serve, and everything that was acknowledged must still be true.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, ExitStatus};
use std::thread::sleep;
use std::time::{Duration, Instant};

use super::SMALL_SEGMENTS;
use super::needs;
use super::script::{self, Told};
use super::strace::{ANSWERS, CHANGES, FILES, Injection, Trace, Tracer, WRITES};
use super::written::{How, Written};
use crate::kill::history::Fate;
use crate::lock::stage::until;
use crate::program::{PATIENCE, Place, Server, run, stderr};

/// How often the process was killed before which call.
#[derive(Default)]
struct Kills(BTreeMap<String, u64>);

impl Kills {
    fn note(&mut self, trace: &Trace) {
        let Some(call) = trace.last_call() else { panic!("the process was killed, and not by strace") };
        *self.0.entry(call).or_default() += 1;
    }

    fn total(&self) -> u64 {
        self.0.values().sum()
    }

    fn of(&self, call: &str) -> u64 {
        self.0.iter().filter(|(name, _)| name.starts_with(call)).map(|(_, count)| count).sum()
    }

    fn report(&self, what: &str, begun: Instant, open: usize) {
        let list: Vec<_> = self.0.iter().map(|(call, count)| format!("{call} {count}")).collect();
        println!(
            "{what}: {} kills ({}), {open} of them in the middle of a step, {:.1} s",
            self.total(),
            list.join(", "),
            begun.elapsed().as_secs_f64()
        );
    }
}

const FIRST_SEGMENT: &str = "segment-00000000000000000001";
/// More calls than the workload makes, and the most that strace counts to.
const NEVER: u64 = 65_535;

fn kill_at(calls: &str, call: u64) -> Injection<'_> {
    Injection { calls, effect: "signal=SIGKILL", when: call.to_string() }
}

fn was_killed(status: ExitStatus) -> bool {
    status.signal() == Some(9)
}

/// One workload, and the threads whose calls it is killed at.
struct Sweep<'a> {
    thread: &'a str,
    calls: &'a str,
    large_writes: u8,
    /// Whether nothing of the workload is left to do.
    settled: fn(&Place) -> bool,
}

impl Sweep<'_> {
    /// Sees which calls there are when nothing goes wrong, and then kills at each of them.
    fn run(&self) -> Kills {
        let (begun, mut kills, mut open) = (Instant::now(), Kills::default(), 0);
        let place = Place::new();
        let (told, trace, killed) = self.round(&place, &kill_at(self.calls, NEVER));
        assert!(!killed && judge(&place, told) == 0);
        for (name, count) in trace.calls() {
            for call in 1..=count {
                let place = Place::new();
                let (told, trace, killed) = self.round(&place, &kill_at(&name, call));
                open += judge(&place, told);
                // Threads share the work in their own way, and a batch more or less is made each time.
                if !killed {
                    break;
                }
                kills.note(&trace);
            }
        }
        kills.report(self.thread, begun, open);
        kills
    }

    /// The workload with one kill in it, unless it is done before that.
    fn round(&self, place: &Place, injection: &Injection) -> (Told, Trace, bool) {
        let mut server = place.serve_with(SMALL_SEGMENTS);
        let tracer = Tracer::attach(&server, self.thread, injection, place.path("trace"));
        let mut told = Told::default();
        let done = script::run(&mut server.client(), &mut told, self.large_writes).is_ok();
        let settled = || done && (self.settled)(place);
        until("the workload is done, or the server dead", || settled() || server.ended().is_some());
        let ended = server.ended();
        if ended.is_none() {
            server.kill();
        }
        let trace = tracer.finish();
        assert!(ended.is_none_or(was_killed), "{ended:?}");
        (told, trace, ended.is_some())
    }
}

/// The data is sound, the server starts, and all that was told is true.
fn judge(place: &Place, told: Told) -> usize {
    if needs::full() {
        let check = run(&["journal", "check", "--data", &place.data()]);
        assert_eq!(check.status.code(), Some(0), "{}", stderr(&check));
    }
    let server = place.serve_with(SMALL_SEGMENTS);
    told.judge(&mut server.client())
}

const JOURNAL: Sweep =
    Sweep { thread: "journal", calls: FILES, large_writes: script::ONE_SEGMENT, settled: |_| true };

#[test]
fn at_every_write_of_the_journal_thread() {
    if !needs::met(&["strace"]) {
        return;
    }
    let kills = Sweep { calls: WRITES, ..JOURNAL }.run();
    assert!(kills.of("pwrite64") > 25, "one for every change");
}

#[test]
fn at_every_other_call_of_the_journal_thread() {
    if !needs::met(&["strace"]) {
        return;
    }
    let others = FILES.replace("pwrite64,", "");
    let kills = Sweep { calls: &others, ..JOURNAL }.run();
    assert!(kills.of("fdatasync") > 25, "one for every change");
    assert!(kills.of("rename") > 0 && kills.of("fsync") > 0, "the journal went over to another segment");
}

#[test]
fn at_every_call_of_the_chores() {
    if !needs::met(&["strace"]) {
        return;
    }
    let large_writes = script::SNAPSHOT;
    let kills = Sweep { thread: "chores", large_writes, settled: has_a_snapshot, ..JOURNAL }.run();
    assert!(kills.of("rename") > 0, "a snapshot was about to be published");
    assert!(kills.of("unlink") > 0, "segments were about to be removed");
}

/// A snapshot is there, and what it replaces has gone.
pub fn has_a_snapshot(place: &Place) -> bool {
    let names = fs::read_dir(place.path("data")).unwrap();
    let names: Vec<_> = names.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    let made = names.iter().any(|name| name.starts_with("snapshot-") && !name.ends_with(".tmp"))
        && !names.contains(&FIRST_SEGMENT.to_owned());
    if made {
        // The folder is synced once more after that, which leaves no trace to wait for.
        sleep(Duration::from_millis(100));
    }
    made
}

#[test]
fn at_every_call_of_the_threads_that_write_files() {
    if !needs::met(&["strace"]) {
        return;
    }
    let kills = Sweep { thread: "files", ..JOURNAL }.run();
    assert!(kills.of("pwrite64") > 0 && kills.of("openat") > 0 && kills.of("unlink") > 0);
}

/// What is on the disk and was told to nobody.
#[test]
fn just_before_answers_leave() {
    if !needs::met(&["strace"]) {
        return;
    }
    let kills = Sweep { thread: "tokio-rt-worker", calls: ANSWERS, ..JOURNAL }.run();
    assert!(kills.total() > 0);
}

/// Starts a server and kills it on the way, at every call of each kind; then starts it again and shows it to the judge. Looks
/// at each server that was not killed on the way.
fn kill_starts(
    what: &str,
    prepare: impl Fn(&Place),
    look: impl Fn(&Server),
    judge: impl Fn(&Place, Server),
) -> Kills {
    let (begun, mut kills) = (Instant::now(), Kills::default());
    for calls in CHANGES {
        for call in 1.. {
            let place = Place::new();
            prepare(&place);
            let log = place.path("trace");
            let traced = place.try_serve(kill_at(calls, call).command(&log), SMALL_SEGMENTS);
            let status = match traced {
                Ok(server) => {
                    look(&server);
                    server.kill();
                    break;
                }
                Err(status) => status,
            };
            assert!(was_killed(status), "{status}");
            kills.note(&traced_to_the_end(&log));
            judge(&place, place.serve_with(SMALL_SEGMENTS));
        }
    }
    kills.report(what, begun, 0);
    kills
}

#[test]
fn at_every_call_of_a_first_start() {
    if !needs::met(&["strace"]) {
        return;
    }
    // The folder is there, so that only one thread makes calls and counts them.
    let make_folder = |place: &Place| {
        fs::create_dir(place.path("data")).unwrap();
        fs::set_permissions(place.path("data"), Permissions::from_mode(0o700)).unwrap();
    };
    let kills = kill_starts(
        "first start",
        make_folder,
        |_| {},
        |place, server| {
            let mut told = Told::default();
            script::run(&mut server.client(), &mut told, 0).unwrap();
            server.kill();
            assert_eq!(judge(place, told), 0);
        },
    );
    assert!(kills.of("pwrite64") > 1 && kills.of("fdatasync") > 1 && kills.of("rename") == 1);
}

/// A start that removes what was left behind, cuts off a torn record and brings files in line is killed on the way.
#[test]
fn at_every_call_of_a_recovery() {
    if !needs::met(&["strace"]) {
        return;
    }
    let base = Place::new();
    let told = torn(&base);
    let copy = |place: &Place| {
        assert!(Command::new("cp").args(["-a", &base.data(), &place.data()]).status().unwrap().success());
    };
    let (cut_before, cut_after) = (Cell::new(0), Cell::new(0));
    let whole = |server: &Server| assert!(says_torn(server), "{:?}", server.lines);
    let kills = kill_starts("recovery", copy, whole, |_, server| {
        let cut = if says_torn(&server) { &cut_after } else { &cut_before };
        cut.set(cut.get() + 1);
        told.clone().judge(&mut server.client());
    });
    assert!(cut_after.get() > 0, "no kill came before the torn record was cut off");
    assert!(cut_before.get() > 0, "no kill came after the torn record was cut off");
    assert!(kills.of("unlink") > 0 && kills.of("rename") > 0);
}

fn says_torn(server: &Server) -> bool {
    server.lines.iter().any(|line| line.contains("an unfinished record was cut off"))
}

/// Strace ends a moment after what it traced.
fn traced_to_the_end(log: &Path) -> Trace {
    let begun = Instant::now();
    loop {
        let trace = Trace::read(log);
        if trace.last_call().is_some() {
            return trace;
        }
        assert!(begun.elapsed() < PATIENCE, "strace says nothing of a kill");
        sleep(Duration::from_millis(1));
    }
}

/// The data of a server that was killed while it wrote: a leftover, and a last record whose end never reached the disk.
fn torn(place: &Place) -> Told {
    let server = place.serve_with(SMALL_SEGMENTS);
    let mut client = server.client();
    let mut told = Told::default();
    script::run(&mut client, &mut told, script::ONE_SEGMENT).unwrap();
    // The write that is torn: nobody counts on it.
    let Some(Fate::Held { lease, .. }) = told.fates.get("path:%2Fbooks") else { panic!("not held") };
    let mut torn = Written::new("books/torn", "path:%2Fbooks", lease);
    torn.change(&mut client, How::Append, &vec![b'x'; 100 << 10]).unwrap();
    server.kill();
    fs::write(place.path("data/prepared-99.tmp"), "left over").unwrap();
    let last = fs::read_dir(place.path("data"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.file_name().unwrap().to_string_lossy().starts_with("segment-"))
        .max()
        .unwrap();
    let mut bytes = fs::read(&last).unwrap();
    let end = bytes.iter().rposition(|byte| *byte != 0).unwrap();
    let sector = end / 512 * 512;
    bytes[sector..sector + 512].fill(0);
    fs::write(&last, bytes).unwrap();
    told
}
