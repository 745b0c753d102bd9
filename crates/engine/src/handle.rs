//! What the doors hold: asks the engine and waits for its word. Clones are cheap. Decides nothing but who gets in.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use leasehold_files::FileStore;
use leasehold_journal::StorageError;
use leasehold_state_machine::answer::{Answer, Outcome, Refusal};
use leasehold_state_machine::command::{Attachment, Command};
use leasehold_state_machine::ids::{LeaseId, SessionId};
use tokio::sync::{oneshot, watch};

use crate::admission::{Admission, AdmissionLimits, Permit};
use crate::bustle::Bustle;
use crate::clock::Clock;
use crate::inbox::Inbox;
use crate::limits::UNAVAILABLE_RETRY_MS;
use crate::metrics::Metrics;
use crate::op::Op;
use crate::storage::{Back, Errand, Word};
use crate::stream::{Listener, Way};

/// Asks the engine.
#[derive(Clone)]
pub struct Handle {
    pub(crate) shared: Arc<Shared>,
}

/// Why the engine ended without being asked to. The process must exit.
#[derive(Clone, Debug)]
pub enum Failure {
    /// The journal failed.
    Storage(Arc<StorageError>),
    /// A thread of the engine panicked: our bug.
    Panicked,
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Failure::Storage(error) => error.fmt(f),
            Failure::Panicked => {
                f.write_str("the engine ran into a bug of ours and stopped; start again to recover")
            }
        }
    }
}

impl std::error::Error for Failure {}

/// What the handles and the threads that turn the engine share.
pub(crate) struct Shared {
    pub inbox: Inbox<Message, Errand, Box<Back>>,
    pub admission: Admission,
    pub bustle: Bustle,
    pub metrics: Arc<Metrics>,
    pub clock: Arc<dyn Clock>,
    pub short_of_room: AtomicBool,
    pub failure: watch::Sender<Option<Failure>>,
    /// To read from. The threads that write have it, and give it up when they end.
    pub files: Weak<dyn FileStore>,
    /// Whether requests are taken.
    pub open: AtomicBool,
    next_attachment: AtomicU64,
}

/// What comes into the engine. Small, because many lie in one queue: what is long lies elsewhere.
pub(crate) enum Message {
    Ask(Box<Asked>),
    /// Something that has no answer.
    Tell(Box<Telling>),
    /// Wants to hear of a session's ended leases.
    Listen(SessionId, Listener),
    /// Does not want to any more.
    Ignore(SessionId, Listener),
    Storage(Word),
    Stop(oneshot::Sender<()>),
}

/// Something that has no answer.
pub(crate) struct Telling {
    pub attachment: Attachment,
    pub arrived_raw_us: u64,
    pub command: Command,
}

/// A request that was let in, with its way back.
pub(crate) struct Asked {
    pub attachment: Attachment,
    pub arrived_raw_us: u64,
    pub command: Command,
    pub permit: Permit,
    pub way: Way,
}

/// That a request was let in.
pub(crate) struct Entry {
    pub attachment: Attachment,
    pub permit: Permit,
}

impl Shared {
    pub fn new(
        limits: AdmissionLimits,
        metrics: Arc<Metrics>,
        clock: Arc<dyn Clock>,
        files: &Arc<dyn FileStore>,
    ) -> Shared {
        Shared {
            inbox: Inbox::default(),
            admission: Admission::new(limits),
            bustle: Bustle::default(),
            metrics,
            clock,
            short_of_room: AtomicBool::new(false),
            failure: watch::Sender::new(None),
            files: Arc::downgrade(files),
            open: AtomicBool::new(true),
            next_attachment: AtomicU64::new(1),
        }
    }

    /// Lets nobody in any more and says why. Only the first reason counts.
    pub fn fail(&self, failure: Failure) {
        self.open.store(false, Ordering::Relaxed);
        self.failure.send_if_modified(|known| {
            let first = known.is_none();
            if first {
                *known = Some(failure);
            }
            first
        });
    }

    /// Lets a request in that has arrived at this time, if there is room for it.
    pub fn admit(&self, op: Op, command: &Command, arrived_raw_us: u64) -> Result<Entry, Refusal> {
        let attachment = self.attachment();
        if !self.open.load(Ordering::Relaxed) {
            return Err(STOPPING);
        }
        if op.needs_room() && self.short_of_room.load(Ordering::Relaxed) {
            return Err(NO_ROOM);
        }
        let permit = self
            .admission
            .admit(command, attachment.0 ^ arrived_raw_us)
            .inspect_err(|_| self.metrics.count_busy(op))?;
        self.bustle.asked(arrived_raw_us);
        Ok(Entry { attachment, permit })
    }

    /// Sends something that has no answer.
    pub fn tell(&self, command: Command) {
        // When nobody takes it any more, the next recovery finds everybody detached anyway.
        let _ = self.inbox.put(self.telling(command));
    }

    /// Something that has no answer, to be sent.
    pub fn telling(&self, command: Command) -> Message {
        let (attachment, arrived_raw_us) = (self.attachment(), self.clock.raw_us());
        Message::Tell(Box::new(Telling { attachment, arrived_raw_us, command }))
    }

    fn attachment(&self) -> Attachment {
        Attachment(self.next_attachment.fetch_add(1, Ordering::Relaxed))
    }
}

impl Handle {
    /// Asks, and waits for the answer. The future may be dropped at any moment: an acquire that waits is then detached
    /// at once, and a grant that nobody can ask for again is given back.
    pub async fn ask(&self, command: Command) -> Outcome {
        let shared = &self.shared;
        let (op, arrived_raw_us) = (Op::of(&command), shared.clock.raw_us());
        let is_acquire = op == Op::Acquire;
        let Entry { attachment, permit } = shared.admit(op, &command, arrived_raw_us)?;
        let (answer, receiver) = oneshot::channel();
        let asked = Asked { attachment, arrived_raw_us, command, permit, way: Way::Once(answer) };
        // Dropped when the server has just stopped, which the receiver then finds out.
        let _ = shared.inbox.put(Message::Ask(Box::new(asked)));
        let mut attempt = Attempt { shared, attachment, is_acquire, receiver };
        // A sender that is dropped without a word belongs to a server that stops.
        (&mut attempt.receiver).await.unwrap_or(Err(STOPPING))
    }

    /// Gives back a grant that was answered and could not be delivered, if no request id can bring it again.
    pub fn abandon(&self, lease: LeaseId) {
        self.shared.tell(Command::Abandon { lease });
    }

    /// What the engine counts.
    pub fn metrics(&self) -> &Metrics {
        &self.shared.metrics
    }

    /// Resolves when requests come one after the other, each soon after the answer before: once for every such request.
    pub async fn bustle(&self) {
        self.shared.bustle.begun().await;
    }

    /// Whether that goes on.
    pub fn bustles(&self) -> bool {
        self.shared.bustle.lasts(self.shared.clock.raw_us())
    }

    /// Whether requests are taken.
    pub fn is_ready(&self) -> bool {
        self.shared.open.load(Ordering::Relaxed)
    }

    /// Resolves when the engine has failed, and never otherwise. The process must exit then.
    pub async fn failed(&self) -> Failure {
        let mut failure = self.shared.failure.subscribe();
        match failure.wait_for(Option::is_some).await.as_deref() {
            Ok(Some(failure)) => failure.clone(),
            // The sender lives as long as this handle.
            _ => std::future::pending().await,
        }
    }

    /// Stops: nothing new is taken, everything decided is made durable and told, who still waits is told `unavailable`,
    /// and the threads end. How long to wait for that is the caller's business.
    pub async fn stop(&self) {
        self.shared.open.store(false, Ordering::Relaxed);
        let (ended, end) = oneshot::channel();
        if self.shared.inbox.put(Message::Stop(ended)).is_ok() {
            // An error means that the thread ended otherwise; that is an end too.
            let _ = end.await;
        }
    }
}

pub(crate) const STOPPING: Refusal =
    Refusal::Unavailable { why: "the server is stopping", retry_ms: UNAVAILABLE_RETRY_MS };
const NO_ROOM: Refusal =
    Refusal::Unavailable { why: "the disk is nearly full", retry_ms: UNAVAILABLE_RETRY_MS };

/// One attempt of a call while it waits. Dropping it, answered or not, leaves nothing behind.
struct Attempt<'a> {
    shared: &'a Shared,
    attachment: Attachment,
    is_acquire: bool,
    receiver: oneshot::Receiver<Outcome>,
}

impl Drop for Attempt<'_> {
    fn drop(&mut self) {
        if !self.is_acquire || self.receiver.is_terminated() {
            return;
        }
        // Once closed, either the answer is here already or whoever turns the engine finds that nobody hears it.
        self.receiver.close();
        match self.receiver.try_recv() {
            Ok(outcome) => {
                if let Some(lease) = undelivered(&outcome) {
                    self.shared.tell(Command::Abandon { lease });
                }
            }
            Err(_) => self.shared.tell(Command::Detach { gone: self.attachment }),
        }
    }
}

/// The lease that an answer to an acquire grants, if nobody can ask for that answer again.
pub(crate) fn undelivered(outcome: &Outcome) -> Option<LeaseId> {
    match outcome {
        Ok(Answer::Lease(lease)) if !lease.repeatable => Some(lease.lease),
        _ => None,
    }
}
