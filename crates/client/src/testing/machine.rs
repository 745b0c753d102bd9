//! The server's machine: its process, which lives or not; its memory, which outlives it; the weather around it. Everything
//! that clients and the test do to the server goes through here.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use leasehold_server::http::door::Door;
use leasehold_state_machine::answer::Snapshot;
use leasehold_state_machine::resource::Resource;
use tokio::sync::watch;

use super::clock::{TestClock, Turned};
use super::life::{self, History, Life};
use super::memory::Memory;
use super::weather::{Way, WayId, Weather};
use leasehold_protocol::v1;

/// The server's machine.
pub(super) struct Machine {
    clock: TestClock,
    memory: Memory,
    life: Mutex<Option<Life>>,
    weather: watch::Sender<Weather>,
    /// How many lives there were.
    lives: AtomicU64,
    /// How many answers are still to be lost.
    to_lose: AtomicU64,
    history: History,
}

impl Machine {
    /// A machine that is off.
    pub fn new(clock: &TestClock) -> Arc<Machine> {
        let machine = Arc::new(Machine {
            clock: clock.clone(),
            memory: Memory::default(),
            life: Mutex::new(None),
            weather: watch::Sender::new(Weather::default()),
            lives: AtomicU64::new(0),
            to_lose: AtomicU64::new(0),
            history: History::default(),
        });
        let turned: Arc<dyn Turned> = Arc::clone(&machine) as Arc<dyn Turned>;
        clock.drive(Arc::downgrade(&turned));
        machine
    }

    /// The clock that it goes by.
    pub fn clock(&self) -> &TestClock {
        &self.clock
    }

    /// How it is around it, for those who want to hear of changes.
    pub fn weather(&self) -> watch::Receiver<Weather> {
        self.weather.subscribe()
    }

    /// Changes the weather.
    pub fn change(&self, change: impl FnOnce(&mut Weather)) {
        self.weather.send_modify(change);
        self.clock.stir();
    }

    /// A way for one more client.
    pub fn lay_a_way(&self) -> WayId {
        let mut id = 0;
        self.change(|weather| {
            id = weather.ways.len();
            weather.ways.push(Way::default());
        });
        id
    }

    /// Breaks the connection that a client has.
    pub fn cut(&self, way: WayId) {
        self.change(|weather| weather.cut(way));
    }

    /// Starts the server's process, unless it runs.
    pub fn start(&self) {
        let mut life = self.lock();
        if life.is_none() {
            let number = self.lives.fetch_add(1, Ordering::Relaxed);
            *life = Some(Life::begin(number, &self.clock, &self.memory, &self.history));
            drop(life);
            self.change(|weather| weather.life = Some(number));
        }
    }

    /// Kills it. Whatever was not answered never will be.
    pub fn kill(&self) {
        let life = self.lock().take();
        // First the connections: nobody hears the last words of a process that was killed.
        self.change(|weather| (weather.life, weather.frozen) = (None, false));
        drop(life);
    }

    /// The door of the life that runs, and which life that is.
    pub fn door(&self) -> Option<(Arc<Door>, u64)> {
        self.lock().as_ref().map(|life| (Arc::clone(&life.door), life.number))
    }

    /// Has what was asked carried out, unless the process stands still.
    pub fn attend(&self) {
        if self.weather.borrow().frozen {
            return;
        }
        let mut life = self.lock();
        let turned = life.as_mut().is_some_and(|life| life.is_wanted() && life.turn());
        drop(life);
        if turned {
            self.clock.stir();
        }
    }

    /// So many answers more will be lost.
    pub fn lose_replies(&self, count: u64) {
        self.to_lose.store(count, Ordering::Relaxed);
    }

    /// Whether the next answer is lost.
    pub fn loses_a_reply(&self) -> bool {
        let one_less = |left: u64| left.checked_sub(1);
        self.to_lose.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_less).is_ok()
    }

    /// A lock as the server knows it; while it is down, as a start would find it.
    pub fn look(&self, resource: &Resource) -> Snapshot {
        match &*self.lock() {
            Some(life) => life.look(resource),
            None => life::recovered(&self.clock, &self.memory).machine().snapshot(resource),
        }
    }

    /// Everything that happened so far.
    pub fn history(&self) -> Vec<v1::Event> {
        self.history.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn lock(&self) -> MutexGuard<'_, Option<Life>> {
        self.life.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Turned for Machine {
    fn due_us(&self) -> Option<u64> {
        if self.weather.borrow().frozen {
            return None;
        }
        self.lock().as_ref()?.due_us()
    }

    fn turn(&self) -> bool {
        if self.weather.borrow().frozen {
            return false;
        }
        self.lock().as_mut().is_some_and(Life::turn)
    }
}
