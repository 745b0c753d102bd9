//! kill -9 under the load of more than 64 clients, again and again on the same data. Whatever anybody was told before is
//! compared with what the server says after: leases, releases, changes, sessions, the order of the lines, request ids.
//!
//! Nothing here knows when the kill comes. Each client writes down the step it is about to take, and then what it was
//! told; where the kill leaves a step open, both outcomes are right, but only one of them, and a repeat must find it.

pub mod history;
mod line;
mod movers;
pub mod workers;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::program::{PATIENCE, Place, run, stderr};
use history::History;
use line::Line;

const ROUNDS: usize = 4;
const WORKERS: usize = 40;
const SESSION_WORKERS: usize = 8;
const MOVERS: usize = 8;
const LINES: usize = 3;
/// In each line, with a request id to come back with.
const PATIENT: usize = 6;

/// How far the load has come. The kill waits for it and not for the clock.
#[derive(Clone, Default)]
pub struct Progress(Arc<AtomicU64>);

impl Progress {
    pub fn step(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    fn until(&self, steps: u64) {
        let begun = Instant::now();
        while self.0.load(Ordering::Relaxed) < steps {
            assert!(begun.elapsed() < PATIENCE, "the load makes no progress");
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

#[test]
fn everything_acknowledged_survives_kill_9_under_load() {
    const { assert!(WORKERS + SESSION_WORKERS + MOVERS + LINES * PATIENT >= 64) };
    let place = Place::new();
    let mut server = place.serve();
    // The same address each time, as clients know it.
    let listen = server.address.to_string();
    let address = server.address;
    let mut history = History::default();
    let mut open_steps = 0;

    for round in 0..ROUNDS {
        let lines: Vec<_> =
            (0..LINES).map(|n| Line::form(address, &format!("round{round}-line{n}"), PATIENT)).collect();
        let progress = Progress::default();
        let workers: Vec<_> =
            (0..WORKERS).map(|n| workers::locks(address, round, n, progress.clone())).collect();
        let sessions: Vec<_> =
            (0..SESSION_WORKERS).map(|n| workers::sessions(address, round, n, progress.clone())).collect();
        let moving = format!("round{round}-moving");
        let movers: Vec<_> =
            (0..MOVERS).map(|n| movers::start(address, &moving, n, progress.clone())).collect();

        // Somewhere else in the work each time.
        progress.until(600 + 331 * round as u64);
        server.kill();

        let mut told = BTreeMap::new();
        for worker in workers {
            told.extend(worker.join().unwrap());
        }
        let sessions: Vec<_> = sessions.into_iter().flat_map(|worker| worker.join().unwrap()).collect();
        let turns: Vec<_> = movers.into_iter().map(|mover| mover.join().unwrap()).collect();

        let check = run(&["journal", "check", "--data", &place.data()]);
        assert_eq!(check.status.code(), Some(0), "{}", stderr(&check));
        server = place.serve_with(&["--listen", &listen]);
        let mut client = server.client();
        // First the lines: those who stand in them have five seconds to come back.
        for line in lines {
            line.judge(&mut client);
        }
        movers::judge(&mut client, &moving, &turns);
        open_steps += history.judge_round(&mut client, told, sessions);
    }
    // What the first kills left must have outlived all the others too.
    history.judge_all(&mut server.client());
    assert!(open_steps > 0, "no kill came in the middle of anything: there was no load");
    assert!(history.len() > 100 * ROUNDS, "only {} locks", history.len());
    server.stop();
}
