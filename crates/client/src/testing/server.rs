//! The server as a test holds it: gives out clients, and does to them and to itself what networks and kernels do. Decides
//! nothing about locks: behind it runs the engine that runs in a real server.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use futures_util::future::FutureExt;
use leasehold_protocol::v1;
use leasehold_server::grpc::{requests, shapes};
use leasehold_server::wire::commands::Call;
use leasehold_state_machine::resource::Resource;
use tokio::sync::watch;

use super::clock::{TestClock, Turned};
use super::machine::Machine;
use super::weather::{Way, WayId, Weather};
use super::wire::MemoryWire;
use crate::client::Client;
use crate::clock::{Clock, Sleep};
use crate::random::Random;
use crate::retry::RetryPolicy;
use crate::view::{Event, Holder, Snapshot, Waiter};

/// A Leasehold server in memory, by the rules of the real one, on a clock that the test turns. Clones are the same server.
///
/// See the [module](super) for how a test is written.
#[derive(Clone)]
pub struct Server {
    machine: Arc<Machine>,
    /// By the number of their way.
    clients: Arc<Mutex<Vec<Arc<ClientClock>>>>,
}

impl Server {
    /// A server that has just started for the first time, with a clock of its own.
    #[expect(clippy::new_without_default, reason = "a server is started, not assumed")]
    pub fn new() -> Server {
        Server::with_clock(&TestClock::new())
    }

    /// The same, on a clock that others go by too.
    pub fn with_clock(clock: &TestClock) -> Server {
        let machine = Machine::new(clock);
        machine.start();
        Server { machine, clients: Arc::default() }
    }

    /// The clock of this server and of its clients.
    pub fn clock(&self) -> &TestClock {
        self.machine.clock()
    }

    /// A client of this server that goes by this owner, as in a process of its own: with its own connection and its own
    /// sense of time.
    ///
    /// # Panics
    ///
    /// Outside an async runtime.
    pub fn client(&self, owner: impl Into<String>) -> Client {
        self.client_with(owner, RetryPolicy::default())
    }

    /// The same, with another retry policy than usual.
    ///
    /// # Panics
    ///
    /// Outside an async runtime.
    pub fn client_with(&self, owner: impl Into<String>, retry: RetryPolicy) -> Client {
        let mut clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        let way = self.machine.lay_a_way();
        assert_eq!(way, clients.len(), "every client has a way");
        let clock = ClientClock { clock: self.clock().clone(), way, weather: self.machine.weather() };
        let clock = Arc::new(clock);
        clients.push(Arc::clone(&clock));
        let wire = MemoryWire {
            machine: Arc::clone(&self.machine),
            way,
            clock: Arc::clone(&clock) as Arc<dyn Clock>,
            within: retry.attempt_timeout,
        };
        let random = Random::from_seed(way as u64 + 1);
        Client::over(Arc::new(wire), clock, random, retry, owner.into())
    }

    /// Lets the server's process stand still, as SIGSTOP or a stuck disk does: what is asked waits, nothing is answered, and
    /// nothing ends. When it goes on it leaves the time out of the life of every lease.
    pub fn freeze(&self) {
        self.machine.change(|weather| weather.frozen = true);
    }

    /// Lets it go on.
    pub fn thaw(&self) {
        self.machine.change(|weather| weather.frozen = false);
        self.machine.turn();
    }

    /// Kills the server's process. Connections break, and nobody can connect.
    pub fn crash(&self) {
        self.machine.kill();
    }

    /// Starts it again: it recovers from its journal, as after any crash. Does nothing to a server that runs.
    pub fn start(&self) {
        self.machine.start();
    }

    /// Kills it and starts it again in the same moment.
    pub fn restart(&self) {
        self.crash();
        self.start();
    }

    /// Breaks all connections; both ends learn of it. New ones can be made at once.
    pub fn cut(&self) {
        self.machine.change(|weather| (0..weather.ways.len()).for_each(|way| weather.cut(way)));
    }

    /// The next so many times that the server has an answer, the request is carried out and the connection breaks before
    /// the answer arrives. Takes the place of what was said before.
    pub fn lose_replies(&self, count: u64) {
        self.machine.lose_replies(count);
    }

    /// Lets nothing through between this client and the server, in either direction. Neither learns of it: the connection
    /// is silent. What was sent arrives when the partition has [healed](Server::heal).
    pub fn partition(&self, client: &Client) {
        self.change_way(client, |way| way.parted = true);
    }

    /// Ends a partition.
    pub fn heal(&self, client: &Client) {
        self.change_way(client, |way| way.parted = false);
    }

    /// Lets this client's process stand still, as SIGSTOP does, while the others go on: it is not woken by the clock, and
    /// nothing comes to it or from it. What a test looks at meanwhile is what the process would see if it looked now.
    pub fn suspend(&self, client: &Client) {
        self.change_way(client, |way| way.suspended = true);
    }

    /// Lets it go on.
    pub fn resume(&self, client: &Client) {
        self.change_way(client, |way| way.suspended = false);
    }

    /// Breaks the leases on this lock, as an operator does: they cannot be renewed any more, and the lock is given to
    /// others at their deadline. Gives their tokens.
    ///
    /// # Panics
    ///
    /// When nobody holds it, the reason is empty, or the server does not run or stands still.
    pub fn break_lock(&self, lock: &str, reason: &str) -> Vec<u64> {
        self.end(lock, reason, false)
    }

    /// The same, but the lock is given to others at once, while its holder may still believe: only the token protects.
    ///
    /// # Panics
    ///
    /// As [`Server::break_lock`].
    pub fn break_by_force(&self, lock: &str, reason: &str) -> Vec<u64> {
        self.end(lock, reason, true)
    }

    /// Who holds this lock or something that overlaps it, by the server's word; while it is down, by its journal.
    ///
    /// # Panics
    ///
    /// When there can be no such lock.
    pub fn holders(&self, lock: &str) -> Vec<Holder> {
        self.look(lock).holders
    }

    /// Who stands in line for it, in order.
    ///
    /// # Panics
    ///
    /// When there can be no such lock.
    pub fn waiters(&self, lock: &str) -> Vec<Waiter> {
        self.look(lock).waiters
    }

    /// Everything that happened to locks so far, over all restarts.
    pub fn events(&self) -> Vec<Event> {
        self.machine.history().into_iter().map(|event| known(Event::told(event))).collect()
    }

    fn look(&self, lock: &str) -> Snapshot {
        match Resource::parse(lock) {
            Ok(resource) => known(Snapshot::told(shapes::snapshot_of(self.machine.look(&resource)))),
            Err(invalid) => panic!("there is no lock `{lock}`: {}", invalid.problem),
        }
    }

    fn end(&self, lock: &str, reason: &str, force: bool) -> Vec<u64> {
        let asked = v1::BreakRequest {
            lock: lock.into(),
            reason: reason.into(),
            force,
            ..v1::BreakRequest::default()
        };
        let Some((door, _)) = self.machine.door() else { panic!("the server does not run") };
        let mut call = Box::pin(async move { door.call(Call::Break, requests::break_lock(asked)).await });
        assert!((&mut call).now_or_never().is_none(), "nobody answers before the engine was turned");
        self.machine.attend();
        match (&mut call).now_or_never() {
            Some(Ok(answer)) => shapes::broke(answer).tokens.into_iter().map(i64::cast_unsigned).collect(),
            Some(Err(refusal)) => panic!("`{lock}` cannot be broken: {refusal:?}"),
            None => panic!("the server stands still: nobody can ask it to break `{lock}`"),
        }
    }

    fn change_way(&self, client: &Client, change: impl FnOnce(&mut Way)) {
        let wanted = Arc::as_ptr(client.clock()).cast::<()>();
        let clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        let found = clients.iter().find(|clock| Arc::as_ptr(clock).cast::<()>() == wanted);
        let Some(way) = found.map(|clock| clock.way) else {
            panic!("{client:?} is no client of this server")
        };
        drop(clients);
        self.machine.change(|weather| change(&mut weather.ways[way]));
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server").field("clock", self.clock()).finish_non_exhaustive()
    }
}

/// A client's sense of time: that of the test, but while the client is suspended nothing wakes it.
#[derive(Debug)]
struct ClientClock {
    clock: TestClock,
    way: WayId,
    weather: watch::Receiver<Weather>,
}

impl Clock for ClientClock {
    fn now_us(&self) -> u64 {
        self.clock.now_us()
    }

    fn sleep_until(&self, at_us: u64) -> Sleep {
        let (sleep, way, mut weather) = (self.clock.sleeper(at_us), self.way, self.weather.clone());
        Box::pin(async move {
            sleep.await;
            // Without a server there is nobody who could suspend it.
            let _ = weather.wait_for(|weather| !weather.ways[way].suspended).await;
        })
    }
}

fn known<T, E: fmt::Debug>(told: Result<T, E>) -> T {
    match told {
        Ok(told) => told,
        Err(error) => panic!("the server and its client are of one version: {error:?}"),
    }
}
