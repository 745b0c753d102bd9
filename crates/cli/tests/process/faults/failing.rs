//! A disk that fails: every write and every sync of the server's threads is refused or cut short, one in each round, while
//! clients are at work. The server ends, tries nothing again and acknowledges nothing more; when the cause is gone it starts,
//! and everything that it had acknowledged is true.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{JoinHandle, sleep, spawn};
use std::time::{Duration, Instant, SystemTime};

use super::killed::has_a_snapshot;
use super::script::{self, Told};
use super::strace::{Injection, SYNCS, Trace, Tracer, WRITES};
use super::{SMALL_SEGMENTS, needs};
use crate::client::Client;
use crate::kill::history::Fate;
use crate::kill::workers::own_lock;
use crate::lock::stage::until;
use crate::program::Place;

/// The exit status after a failed write.
const STOPPED: i32 = 70;

/// Clients beside the script, so that there is always somebody to be told something wrong.
struct Beside {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<BTreeMap<String, Fate>>>,
}

impl Beside {
    fn start(address: SocketAddr) -> Beside {
        let stop = Arc::new(AtomicBool::new(false));
        let work = |client_number: usize| {
            let stop = Arc::clone(&stop);
            spawn(move || {
                let (mut client, mut fates) = (Client::new(address), BTreeMap::new());
                // With an odd count a lock is kept, and what is kept says when it was asked for.
                for count in (1..).step_by(2) {
                    let lock = format!("beside{client_number}-{count}");
                    if stop.load(Ordering::Relaxed)
                        || own_lock(&mut client, "beside", &lock, count, &mut fates).is_err()
                    {
                        return fates;
                    }
                    sleep(Duration::from_millis(10));
                }
                fates
            })
        };
        Beside { threads: (0..2).map(work).collect(), stop }
    }

    fn finish(self) -> BTreeMap<String, Fate> {
        self.stop.store(true, Ordering::Relaxed);
        self.threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    }
}

/// What one round came to.
struct Round {
    /// The call that was made to fail, if any was.
    failed: Option<String>,
    /// The server's exit status, if it ended.
    status: Option<i32>,
    told: Told,
}

fn round(place: &Place, thread: &str, injection: &Injection) -> Round {
    let chores = thread == "chores";
    let large_writes = if chores { script::SNAPSHOT } else { script::ONE_SEGMENT };
    let mut server = place.serve_with(SMALL_SEGMENTS);
    let (begun, begun_wall) = (Instant::now(), SystemTime::now());
    let log = place.path("trace");
    let tracer = Tracer::attach(&server, thread, injection, log.clone());
    let beside = Beside::start(server.address);
    let mut told = Told::default();
    let done = script::run(&mut server.client(), &mut told, large_writes).is_ok();
    let has_failed = || !Trace::read(&log).injected().is_empty();
    if done && chores {
        // They come to their work when the others have done theirs.
        until("the chores are done", || server.ended().is_some() || has_failed() || has_a_snapshot(place));
    }
    // A snapshot that finds no room is put off, and nobody is the worse for it.
    let must_end = !done || (chores && has_failed() && injection.effect != "error=ENOSPC");
    if must_end {
        until("the server has ended", || server.ended().is_some());
    }
    let status = server.ended().map(|status| status.code().unwrap_or(-1));
    if status.is_none() {
        server.kill();
    }
    told.fates.extend(beside.finish());
    let failed = tracer.finish().injected();
    assert!(failed.len() <= 1, "one call was to fail, and {} did", failed.len());
    if thread == "journal"
        && let Some((call, at)) = failed.first()
    {
        let at = begun + at.duration_since(begun_wall).unwrap_or_default();
        for (lock, fate) in &told.fates {
            let late = matches!(fate, Fate::Held { sent, .. } if *sent > at);
            assert!(!late, "{lock} was asked for after {call} had failed, and granted");
        }
    }
    Round { failed: failed.into_iter().next().map(|(call, _)| call), status, told }
}

/// Lets each of these calls fail in turn, in one of these ways or in all of them.
fn sweep(thread: &str, kinds: &[&str], effects: &[&str]) -> BTreeMap<String, u64> {
    let (begun, mut failures, mut open) = (Instant::now(), BTreeMap::new(), 0);
    // Strace counts each kind of call by itself.
    for calls in kinds {
        for call in 1_usize.. {
            let turn = [effects[call % effects.len()]];
            let mut reached = false;
            for effect in if needs::full() { effects } else { &turn } {
                let place = Place::new();
                let injection = Injection { calls, effect, when: call.to_string() };
                let Round { failed, status, told } = round(&place, thread, &injection);
                if let Some(failed) = &failed {
                    *failures.entry(format!("{failed} {effect}")).or_default() += 1;
                }
                if let Some(status) = status {
                    assert!(failed.is_some(), "the server ended with {status}, and no call had failed");
                    assert_eq!(status, STOPPED);
                }
                reached |= failed.is_some();
                let server = place.serve_with(SMALL_SEGMENTS);
                open += told.judge(&mut server.client());
            }
            if !reached {
                break;
            }
        }
    }
    println!("{thread}: {failures:?}, {open} steps left open, {:.1} s", begun.elapsed().as_secs_f64());
    failures
}

#[test]
fn at_every_sync_of_the_journal() {
    if !needs::met(&["strace"]) {
        return;
    }
    let failures = sweep("journal", &SYNCS, &["error=EIO", "error=ENOSPC"]);
    assert!(failures["fdatasync error=EIO"] > 5 && failures["fdatasync error=ENOSPC"] > 5, "{failures:?}");
    assert!(failures.keys().any(|failure| failure.starts_with("fsync")), "{failures:?}");
}

#[test]
fn at_every_write_of_the_journal() {
    if !needs::met(&["strace"]) {
        return;
    }
    let failures = sweep("journal", &[WRITES], &["error=EIO", "error=ENOSPC", "retval=100"]);
    assert!(failures.values().all(|count| *count > 5) && failures.len() == 3, "{failures:?}");
}

#[test]
fn in_the_background_too() {
    if !needs::met(&["strace"]) {
        return;
    }
    let both = [WRITES, SYNCS[0], SYNCS[1]];
    let chores = sweep("chores", &both, &["error=EIO", "error=ENOSPC"]);
    assert!(chores.len() > 3, "writes and syncs: {chores:?}");
    let files = sweep("files", &[WRITES], &["error=EIO", "error=ENOSPC", "retval=3"]);
    assert!(files.len() == 3, "{files:?}");
}
