//! All operations of a process over few streams: each is numbered, sent in a group with whatever else waits, sent again under
//! the same number when a stream breaks, and answered once. Knows what an operation costs, not what it means.

mod mark;

mod answers;
mod asked;
mod begins;
mod book;
mod entry;
mod notices;
mod open;

mod asking;
mod link;

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use leasehold_protocol::v1;
use tokio::sync::{mpsc, watch};

use self::asked::Asked;
use self::asking::Asking;
use self::entry::{Entry, HEAD_BYTES, Stance};
use self::link::Link;
use self::notices::Notices;
use crate::clock::Clock;
use crate::error::Error;
use crate::group::Usual;
use crate::outcome::Told;
use crate::random::Random;
use crate::retry::RetryPolicy;
use crate::wire::{Failed, Wire};

/// No sensible operation is longer.
const OPERATION_BYTES_MAX: usize = 16 * 1024;
/// Operations in line on one stream while the server has not said how many it takes.
const WAITING_UNKNOWN: usize = 512;

/// An answer that is neither a notice nor a refusal.
#[derive(Clone, Debug)]
pub(crate) struct Answered {
    /// What was told.
    pub told: Told,
    /// When the attempt that is answered was sent; never later than it truly was.
    pub sent_us: u64,
}

/// The streams of one client. Clones share them.
#[derive(Clone)]
pub(crate) struct Operations {
    streams: Arc<Streams>,
}

struct Streams {
    makings: Makings,
    /// Everything goes over this one, but for those in line that it has no room for.
    first: Arc<Link>,
    spare: Mutex<Vec<Arc<Link>>>,
}

/// What a stream is made of.
struct Makings {
    wire: Arc<dyn Wire>,
    clock: Arc<dyn Clock>,
    random: Random,
    policy: RetryPolicy,
    runtime: tokio::runtime::Handle,
    notices: Arc<Notices>,
}

impl Drop for Streams {
    fn drop(&mut self) {
        self.first.close();
        for link in self.spare().iter() {
            link.close();
        }
    }
}

impl Operations {
    /// Must be called inside a runtime, on which the streams are attended.
    pub fn new(
        wire: Arc<dyn Wire>,
        clock: Arc<dyn Clock>,
        random: Random,
        policy: RetryPolicy,
    ) -> Operations {
        let runtime = tokio::runtime::Handle::current();
        let notices = Arc::new(Notices::default());
        let makings = Makings { wire, clock, random, policy, runtime, notices };
        let (first, spare) = (makings.link(false), Mutex::default());
        let streams = Streams { makings, first, spare };
        Operations { streams: Arc::new(streams) }
    }

    /// Makes sure that there is a server, by one attempt.
    pub async fn greet(&self) -> Result<(), Failed> {
        let greeted = self.first().greet().await;
        greeted.unwrap_or_else(|_| {
            Err(Failed::Trouble(crate::wire::Trouble::Broken("the client is closed".into())))
        })
    }

    /// Asks, and asks again by the client's policy until there is an answer.
    pub async fn ask(&self, what: impl Into<Asked>) -> Result<Answered, Error> {
        self.begin(what, self.by_policy())?.await
    }

    /// Like [`Operations::ask`], and goes on with it when the caller does not wait for the answer any more: for what ends
    /// something.
    pub async fn insist(&self, what: impl Into<Asked>) -> Result<Answered, Error> {
        self.begin(what, self.by_policy())?.insist().await
    }

    /// Sends once, on the stream that is there or the next one, and does not repeat it. Drop it to forget it.
    pub async fn send(&self, what: impl Into<Asked>) -> Result<Answered, Error> {
        self.begin(what, Stance::Once)?.await
    }

    /// Asks in the background, for far longer than somebody would wait: for what ends something. Never blocks, and needs no
    /// runtime.
    pub fn later(&self, what: impl Into<Asked>) {
        self.first().ask(Entry::in_background(what, &self.streams.makings.policy));
    }

    /// Stands in line until this time, or for as long as it takes; keeps its place when connections break. Dropped
    /// unanswered, it leaves the line. [`Error::Busy`]: there is no line to stand in.
    pub fn stand_in_line(&self, acquire: v1::AcquireRequest, until_us: Option<u64>) -> InLine {
        let (position, positions) = watch::channel(None);
        let mut entry = Entry::in_line(acquire, until_us);
        entry.position = Some(position);
        let asking = check_length(entry.bytes()).map(|()| Asking::begin(self.take_room(), entry));
        InLine { asking, positions }
    }

    /// The ended leases of this session that streams are told of, from now on.
    pub fn ended_of(&self, session_id: &str) -> mpsc::UnboundedReceiver<v1::EndedLease> {
        self.streams.makings.notices.listen(session_id)
    }

    /// What was sent at this time got no answer: if nothing at all was heard since, a new connection is made now.
    pub fn doubt(&self, since_us: u64) {
        self.first().doubt(since_us);
    }

    /// Runs a task on the runtime that the client belongs to.
    pub fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.streams.makings.runtime.spawn(task);
    }

    /// Resolves when nothing is under way any more, in the background either.
    pub async fn settled(&self) {
        let spare = self.streams.spare().clone();
        for link in std::iter::once(self.first()).chain(spare) {
            link.settled().await;
        }
    }

    fn by_policy(&self) -> Stance {
        Stance::Policy { attempts: self.streams.makings.policy.attempts }
    }

    /// Asks by the client's policy, for whoever is woken like this.
    pub fn begin_for(&self, what: &Usual<'_>, waker: &Waker) -> Result<Question<'_>, Error> {
        check_length(what.encoded_len() + HEAD_BYTES)?;
        Ok(Question(Asking::begin_for(&*self.streams.first, what, self.by_policy(), waker)))
    }

    fn begin(&self, what: impl Into<Asked>, stance: Stance) -> Result<Asking, Error> {
        let entry = Entry::new(what.into(), stance);
        check_length(entry.bytes())?;
        Ok(Asking::begin(self.first(), entry))
    }

    fn first(&self) -> Arc<Link> {
        Arc::clone(&self.streams.first)
    }

    /// A place on a link for one more in line, taken by this. The first keeps half of its room for what does not wait.
    fn take_room(&self) -> Arc<Link> {
        let (first, mut spare) = (&self.streams.first, self.streams.spare());
        let room = first.in_flight_max().map_or(WAITING_UNKNOWN, |most| most / 2);
        let has_room = |link: &&Arc<Link>| link.waiting.load(Ordering::Relaxed) < room.max(1);
        let found = std::iter::once(first).filter(|_| room > 0).chain(&*spare).find(has_room).map(Arc::clone);
        let link = found.unwrap_or_else(|| {
            let new = self.streams.makings.link(true);
            spare.push(Arc::clone(&new));
            new
        });
        link.waiting.fetch_add(1, Ordering::Relaxed);
        link
    }
}

impl Streams {
    fn spare(&self) -> MutexGuard<'_, Vec<Arc<Link>>> {
        // Nothing that can panic is done under this lock.
        self.spare.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Makings {
    /// A link that is attended from now on.
    fn link(&self, spare: bool) -> Arc<Link> {
        let (wire, clock) = (Arc::clone(&self.wire), Arc::clone(&self.clock));
        let (random, notices) = (self.random.clone(), Arc::clone(&self.notices));
        let link = Link::new(wire, clock, self.policy, random, notices, spare);
        self.runtime.spawn(Arc::clone(&link).attend());
        link
    }
}

/// Refuses one that is too long to be sent.
fn check_length(bytes: usize) -> Result<(), Error> {
    match bytes {
        bytes if bytes > OPERATION_BYTES_MAX => Err(Error::Invalid {
            field: "request".into(),
            detail: format!(
                "it is {bytes} bytes long; names, owners and metadata together are at most {OPERATION_BYTES_MAX}"
            ),
        }),
        _ => Ok(()),
    }
}

/// What was asked, to be awaited. Dropped unanswered, it is forgotten, and taken back if it may have begun something.
pub(crate) struct Question<'o>(Asking<&'o Link>);

impl Future for Question<'_> {
    type Output = Result<Answered, Error>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.0).poll(cx)
    }
}

/// A place in line, to be awaited. Dropped unanswered, it is given up.
pub(crate) struct InLine {
    asking: Result<Asking, Error>,
    positions: watch::Receiver<Option<u64>>,
}

impl InLine {
    /// Which place it is, from 1; none while the server has not said so.
    pub fn position(&self) -> watch::Receiver<Option<u64>> {
        self.positions.clone()
    }
}

impl Future for InLine {
    type Output = Result<Answered, Error>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match &mut self.asking {
            Ok(asking) => Pin::new(asking).poll(cx),
            Err(error) => Poll::Ready(Err(error.clone())),
        }
    }
}

impl Drop for InLine {
    fn drop(&mut self) {
        if let Ok(asking) = &self.asking {
            asking.link().waiting.fetch_sub(1, Ordering::Relaxed);
        }
    }
}
