//! One fault after the other on one server with a crew at work: killed, failing, slow and stopped servers, and every trouble on
//! the way to them. Then all is well for a moment, and everything that anybody was told is judged together.
//!
//! Seconds of it are a test. `scripts/faults` lets it go on for hours.

use std::collections::BTreeMap;
use std::fmt;
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use super::crew::{Crew, Seat};
use super::needs;
use super::strace::{ANSWERS, FILES, Injection, Trace, Tracer, WRITES};
use super::verdict::{self, Tally};
use super::weather::{Trouble, Weather};
use crate::lock::stage::{state, until};
use crate::program::{Place, Server};

const CREW: usize = 10;
/// How much the crew does between two faults of the long run.
const ANSWERS_BETWEEN: u64 = 3_500;
/// For how many minutes the long run goes on.
const MINUTES: &str = "LEASEHOLD_FAULTS_MINUTES";

/// Everything that can happen.
#[derive(Clone, Copy)]
enum Fault {
    /// kill -9, at any moment.
    Kill,
    /// kill -9, before the system call with this number of the threads with this name.
    KillAt(&'static str, &'static str),
    /// A call that fails, of a thread.
    Fail(&'static str, &'static str, &'static str),
    /// Syncs that take so many microseconds longer.
    Slow(u64),
    /// SIGSTOP, and SIGCONT so many milliseconds later.
    Stop(u64),
    /// Something on the way, for so many milliseconds.
    Way(Trouble, u64),
}

const FAULTS: &[Fault] = &[
    Fault::Kill,
    Fault::Way(Trouble::Cut, 0),
    Fault::KillAt("journal", FILES),
    Fault::Way(Trouble::LoseAnswers, 300),
    Fault::Fail("journal", "fdatasync", "error=EIO"),
    Fault::Stop(700),
    Fault::KillAt("tokio-rt-worker", ANSWERS),
    Fault::Way(Trouble::Stall, 900),
    Fault::Slow(300_000),
    Fault::Fail("journal", WRITES, "retval=100"),
    Fault::Way(Trouble::DribbleToServer, 400),
    Fault::KillAt("files", FILES),
    Fault::Fail("files", WRITES, "error=ENOSPC"),
    Fault::Way(Trouble::EndLate, 3_500),
    Fault::Fail("journal", WRITES, "error=ENOSPC"),
    Fault::Way(Trouble::DribbleToClients, 400),
];

/// Only where there is time for them.
const LONG_FAULTS: &[Fault] = &[
    Fault::Slow(2_000_000),
    Fault::Stop(5_000),
    Fault::Slow(5_000_000),
    Fault::Way(Trouble::Stall, 5_000),
    Fault::KillAt("journal", "futex"),
    Fault::KillAt("chores", FILES),
    Fault::Fail("chores", "fdatasync", "error=EIO"),
];

/// Among how many calls of a thread the struck one is drawn. The chores make few, in a snapshot now and then.
fn calls_of(thread: &str, busy: u64) -> u64 {
    if thread == "chores" { 3 } else { busy }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::Kill => f.write_str("kill -9"),
            Fault::KillAt(thread, "futex") => {
                write!(f, "kill -9 when a thread called {thread} waits or wakes")
            }
            Fault::KillAt(thread, _) => write!(f, "kill -9 at a system call of a thread called {thread}"),
            Fault::Fail(thread, calls, effect) => {
                write!(f, "{effect} for {calls} of a thread called {thread}")
            }
            Fault::Slow(delay_us) => write!(f, "syncs that take {} ms longer", delay_us / 1000),
            Fault::Stop(ms) => write!(f, "the server stopped for {ms} ms"),
            Fault::Way(trouble, ms) => write!(f, "on the way: {trouble:?} for {ms} ms"),
        }
    }
}

/// A server under a crew, and what was done to it.
struct Storm<'a> {
    place: &'a Place,
    server: Option<Server>,
    listen: String,
    weather: Weather,
    crew: Crew,
    faults: BTreeMap<String, u64>,
    random: u64,
}

impl Storm<'_> {
    fn begin<'a>(place: &'a Place, word: &str, seed: u64) -> Storm<'a> {
        let server = place.serve_with(super::SMALL_SEGMENTS);
        let listen = server.address.to_string();
        let weather = Weather::before(server.address);
        let crew = Crew::start(word, &vec![Seat::at(weather.address()); CREW]);
        let random = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
        Storm { place, server: Some(server), listen, weather, crew, faults: BTreeMap::new(), random }
    }

    fn strike(&mut self, fault: Fault) {
        self.crew.until_answered(100);
        let server = self.server.as_mut().unwrap();
        let happened = match fault {
            Fault::Kill => {
                self.server.take().unwrap().kill();
                true
            }
            Fault::KillAt(thread, calls) => {
                let when = self.draw(calls_of(thread, 60));
                self.inject(thread, &Injection { calls, effect: "signal=SIGKILL", when }, |trace| {
                    trace.last_call().is_some()
                })
            }
            Fault::Fail(thread, calls, effect) => {
                let when = self.draw(calls_of(thread, 20));
                self.inject(thread, &Injection { calls, effect, when }, |trace| !trace.injected().is_empty())
            }
            Fault::Slow(delay_us) => {
                let log = self.place.path("trace");
                let effect = format!("delay_exit={delay_us}");
                let injection = Injection { calls: "fdatasync", effect: &effect, when: "1+".into() };
                let tracer = Tracer::attach(server, "journal", &injection, log.clone());
                until("a sync was slow", || Trace::read(&log).delayed() > 0);
                sleep(Duration::from_micros(delay_us));
                tracer.detach().delayed() > 0
            }
            Fault::Stop(ms) => {
                let pid = i32::try_from(server.pid()).unwrap();
                server.signal(Signal::STOP);
                until("it is stopped", || state(pid) == Some('T'));
                sleep(Duration::from_millis(ms));
                server.signal(Signal::CONT);
                true
            }
            Fault::Way(trouble, ms) => self.weather.trouble(trouble, Duration::from_millis(ms)) > 0,
        };
        if happened {
            *self.faults.entry(fault.to_string()).or_default() += 1;
        }
        if self.server.is_none() {
            let arguments = ["--listen", &self.listen, "--segment-bytes", "1048576"];
            self.server = Some(self.place.serve_with(&arguments));
        }
    }

    /// Waits for the server to end by it. A thread that has too little to do may never come to the call.
    fn inject(&mut self, thread: &str, injection: &Injection, happened: impl Fn(&Trace) -> bool) -> bool {
        let mut server = self.server.take().unwrap();
        let tracer = Tracer::attach(&server, thread, injection, self.place.path("trace"));
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_secs(3) && server.ended().is_none() {
            sleep(Duration::from_millis(5));
        }
        if server.ended().is_none() {
            tracer.detach();
            self.server = Some(server);
            return false;
        }
        let trace = tracer.finish();
        assert!(happened(&trace), "the server ended, and not by what was done to it: {trace}");
        true
    }

    fn draw(&mut self, most: u64) -> String {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        (self.random % most + 1).to_string()
    }

    /// All is well; everything that was said is judged.
    fn end(self, word: &str, faults: &mut BTreeMap<String, u64>) -> Tally {
        self.crew.until_answered(100);
        let operations = self.crew.finish();
        let server = self.server.unwrap();
        let tally = verdict::judge(word, operations, &mut server.client());
        server.stop();
        for (fault, count) in self.faults {
            *faults.entry(fault).or_default() += count;
        }
        tally
    }
}

#[test]
fn one_fault_after_the_other() {
    if !needs::met(&["strace"]) {
        return;
    }
    let place = Place::new();
    let mut storm = Storm::begin(&place, "storm", 1);
    for fault in FAULTS {
        storm.strike(*fault);
    }
    let mut faults = BTreeMap::new();
    let tally = storm.end("storm", &mut faults);
    println!("storm: {tally:?}; {faults:?}");
    // A thread with little to do may not have come to its call in time; most do.
    assert!(faults.len() > FAULTS.len() / 2, "{faults:?}");
    assert!(tally.grants > 100 && tally.writes > 100, "{tally:?}");
}

/// Not a test of its own: hours of it.
#[test]
#[ignore = "started by scripts/faults, for as long as it is told"]
fn for_hours() {
    let Some(minutes) = std::env::var(MINUTES).ok().and_then(|minutes| minutes.parse::<u64>().ok()) else {
        panic!("{MINUTES} says for how many minutes")
    };
    let begun = Instant::now();
    let (mut faults, mut all) = (BTreeMap::new(), Tally::default());
    let mut place = Place::new();
    for round in 0_u64.. {
        if begun.elapsed() > Duration::from_secs(minutes * 60) {
            break;
        }
        // The same data for some time: its journal has been through everything before.
        if round.is_multiple_of(10) {
            place = Place::new();
        }
        let word = format!("storm{round}");
        let mut storm = Storm::begin(&place, &word, round + 1);
        for _ in FAULTS {
            let many = FAULTS.len() + LONG_FAULTS.len();
            let drawn: usize = storm.draw(many as u64).parse().unwrap();
            storm.strike(*FAULTS.iter().chain(LONG_FAULTS).nth(drawn - 1).unwrap());
            storm.crew.until_answered(ANSWERS_BETWEEN);
        }
        all = all.and(storm.end(&word, &mut faults));
        let struck: u64 = faults.values().sum();
        println!("{} s, {struck} faults, {all:?}", begun.elapsed().as_secs());
    }
    for (fault, count) in &faults {
        println!("{count:>6} {fault}");
    }
    assert!(faults.len() == FAULTS.len() + LONG_FAULTS.len(), "not every fault happened: {faults:?}");
}
