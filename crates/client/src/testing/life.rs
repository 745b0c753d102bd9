//! One life of the server, from its recovery to its end: the engine, the door and the watch feed of the real one, without
//! threads and sockets.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use leasehold_engine::{
    ByHand, Clock as EngineClock, DriverOptions, Engine, EngineOptions, Metrics, Moment, Reading, Secrets,
};
use leasehold_journal::Journal;
use leasehold_server::grpc::outcomes::Outcomes;
use leasehold_server::grpc::watch::event;
use leasehold_server::http::door::{Door, Watch};
use leasehold_server::http::gate::Gate;
use leasehold_server::limits::{WATCH_LAG_MAX, WATCHERS_MAX};
use leasehold_server::watch::{Feed, FeedLimits};
use leasehold_state_machine::answer::Snapshot;
use leasehold_state_machine::codec::BootId;
use leasehold_state_machine::ids::HashKey;
use leasehold_state_machine::resource::Resource;

use super::clock::TestClock;
use super::memory::Memory;
use crate::clock::Clock;
use leasehold_protocol::v1;

/// Everything runs in one boot of one machine.
const BOOT_ID: BootId = *b"a test's machine";
/// There is nobody to keep it from.
const FOUNDING_KEY: HashKey = HashKey([1, 2]);
/// Only event streams over HTTP carry comments.
const COMMENT_EVERY: Duration = Duration::from_secs(15);

/// What happened, for the test to look at.
pub(super) type History = Arc<Mutex<Vec<v1::Event>>>;

/// A server that runs.
pub(super) struct Life {
    /// Which one this is.
    pub number: u64,
    /// Where requests come in.
    pub door: Arc<Door>,
    feed: Arc<Feed>,
    hand: ByHand,
}

impl Life {
    /// Recovers from what the last life left behind.
    pub fn begin(number: u64, clock: &TestClock, memory: &Memory, history: &History) -> Life {
        let limits = FeedLimits { watchers_max: WATCHERS_MAX, lag_max: WATCH_LAG_MAX };
        let feed = Arc::new(Feed::new(memory.replay().take_history(), limits));
        let engine = recovered(clock, memory);
        let driver = DriverOptions {
            scribe: Box::new(Outcomes::default()),
            on_events: {
                let (feed, history) = (Arc::clone(&feed), Arc::clone(history));
                Box::new(move |chapter| {
                    let events = chapter.read();
                    let public =
                        events.iter().filter_map(|(seq, wall_ms, event)| Moment::of(*seq, *wall_ms, event));
                    let mut history = history.lock().unwrap_or_else(PoisonError::into_inner);
                    history.extend(public.map(|moment| event(&moment)));
                    feed.intake().put(chapter);
                })
            },
            files: memory.files(),
            ..DriverOptions::default()
        };
        let clock = Arc::new(ServerClock(clock.clone()));
        let secrets = Secrets::from_seed(number);
        let (hand, engine) = ByHand::new(engine, Box::new(memory.clone()), clock, secrets, driver);
        let door = Arc::new(Door::new(Gate::new(IpAddr::V4(Ipv4Addr::LOCALHOST), Vec::new())));
        door.open(engine, Watch { feed: Arc::clone(&feed), comment_every: COMMENT_EVERY });
        let mut life = Life { number, door, feed, hand };
        // What recovery decided is durable before anybody asks.
        life.turn();
        life
    }

    /// Does what is due and what was asked. Says whether anybody may have heard of it.
    pub fn turn(&mut self) -> bool {
        let turned = self.hand.turn();
        assert!(turned.is_ok(), "memory takes every batch: {turned:?}");
        self.feed.pass_all_on();
        turned.unwrap_or(false)
    }

    /// Whether somebody has asked something since the last turn.
    pub fn is_wanted(&self) -> bool {
        self.hand.is_wanted()
    }

    /// When it next has something to do by itself.
    pub fn due_us(&self) -> Option<u64> {
        self.hand.wake_raw_us()
    }

    /// A lock, as the newest turn left it.
    pub fn look(&self, resource: &Resource) -> Snapshot {
        self.hand.engine().machine().snapshot(resource)
    }
}

/// The engine that goes on from what lies in memory; nothing of what it decides is written there yet.
pub(super) fn recovered(clock: &TestClock, memory: &Memory) -> Engine {
    let clock = ServerClock(clock.clone());
    let options = EngineOptions {
        founding_key: FOUNDING_KEY,
        restored: None,
        accept_clock: false,
        batch_bytes_max: memory.batch_bytes_max(),
        metrics: Arc::new(Metrics::default()),
    };
    Engine::recover(memory.replay(), clock.boot_id(), clock.read(), options).0
}

/// The clocks of the server's machine.
struct ServerClock(TestClock);

impl EngineClock for ServerClock {
    fn read(&self) -> Reading {
        Reading { raw_us: self.0.now_us(), wall_ms: self.0.wall_ms() }
    }

    fn boot_id(&self) -> BootId {
        BOOT_ID
    }
}
