//! The door: one request to one answer. Gate, route, intake, command, engine, reply, in this order.

use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use bytes::Bytes;
use hyper::Request;
use hyper::body::Incoming;
use hyper::header;
use hyper::http::request::Parts;
use leasehold_engine::Handle;
use leasehold_state_machine::answer::{Answer, Outcome, Refusal};
use leasehold_state_machine::command::Command;
use leasehold_state_machine::event::Seq;
use leasehold_state_machine::file::FileName;
use leasehold_state_machine::invalid::Invalid;
use tokio::sync::watch;

use super::events::EventStream;
use super::gate::Gate;
use super::intake::{Bounds, Unfinished};
use super::reply::{self, Reply};
use super::route::{self, Page, To};
use super::watch_request::{self, WatchRequest};
use super::{intake, openapi, pages};
use crate::files::{Readers, Reading};
use crate::limits::{
    BODY_BYTES_MAX, IN_FLIGHT_MAX, UNFINISHED_BODIES_MAX, UNFINISHED_WRITE_BYTES_MAX, WRITE_BODY_TIMES,
};
use crate::metrics::exposition;
use crate::metrics::tallies::{Ended, Tallies};
use crate::watch::{Concern, Feed, Watching};
use crate::wire::commands::{Call, Sent};
use crate::wire::problem::Denial;
use crate::wire::shapes;

/// How long a client is told to wait for a server that is starting or stopping.
const COMING_AND_GOING_RETRY_MS: u64 = 500;

/// How far a server is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// There is no engine yet.
    Starting,
    /// Requests are taken.
    Serving,
    /// Requests are not taken any more.
    Stopping,
}

/// Everything a request can meet. It opens before the engine is there, so that a starting server says so.
pub struct Door {
    gate: Gate,
    tallies: Arc<Tallies>,
    unfinished: Unfinished,
    unfinished_writes: Unfinished,
    readers: Arc<Readers>,
    in_flight_max: usize,
    engine: OnceLock<Handle>,
    watch: OnceLock<Watch>,
    stage: watch::Sender<Stage>,
}

/// What watchers meet.
#[derive(Debug)]
pub struct Watch {
    /// Where events come from.
    pub feed: Arc<Feed>,
    /// How often an event stream carries a comment.
    pub comment_every: Duration,
}

impl Door {
    /// A door without an engine behind it: everything but health and metrics is `unavailable`.
    pub fn new(gate: Gate) -> Door {
        Door {
            gate,
            tallies: Arc::default(),
            unfinished: Unfinished::new(UNFINISHED_BODIES_MAX * BODY_BYTES_MAX),
            unfinished_writes: Unfinished::new(UNFINISHED_WRITE_BYTES_MAX),
            readers: Arc::default(),
            in_flight_max: IN_FLIGHT_MAX,
            engine: OnceLock::new(),
            watch: OnceLock::new(),
            stage: watch::Sender::new(Stage::Starting),
        }
    }

    /// Bounds the operations in flight on one gRPC stream.
    pub fn with_in_flight_max(self, in_flight_max: usize) -> Door {
        Door { in_flight_max, ..self }
    }

    /// Operations at most in flight on one gRPC stream.
    pub fn in_flight_max(&self) -> usize {
        self.in_flight_max
    }

    /// Puts the engine and its feed behind the door. Happens once.
    pub fn open(&self, engine: Handle, watch: Watch) {
        assert!(self.watch.set(watch).is_ok(), "one feed for the life of a door");
        assert!(self.engine.set(engine).is_ok(), "one engine for the life of a door");
        self.stage.send_if_modified(|stage| {
            let starting = *stage == Stage::Starting;
            if starting {
                *stage = Stage::Serving;
            }
            starting
        });
    }

    /// From now on everything is answered `unavailable`, and nobody watches any more.
    pub fn close(&self) {
        self.stage.send_replace(Stage::Stopping);
        if let Some(watch) = self.watch.get() {
            watch.feed.close();
        }
    }

    /// How far the server is.
    pub fn stage(&self) -> Stage {
        *self.stage.borrow()
    }

    /// How far the server is, for those who want to hear of it.
    pub fn stages(&self) -> watch::Receiver<Stage> {
        self.stage.subscribe()
    }

    /// Resolves when the server begins to stop, with what conversations are told then.
    pub async fn stopping(&self) -> Refusal {
        // The sender lives as long as this door.
        let _ = self.stages().wait_for(|stage| *stage == Stage::Stopping).await;
        not_now("the server is stopping")
    }

    /// What is counted at the door.
    pub fn metrics(&self) -> &Arc<Tallies> {
        &self.tallies
    }

    /// Answers one request. Dropped when the client closes its connection.
    pub async fn answer(&self, request: Request<Incoming>, body_timeout: Duration) -> Reply {
        match self.carry_out(request, body_timeout).await {
            Ok(reply) => reply,
            Err(denial) => reply::denial(&denial),
        }
    }

    async fn carry_out(&self, request: Request<Incoming>, body_timeout: Duration) -> Result<Reply, Denial> {
        let (head, body) = request.into_parts();
        self.admit(&head)?;
        let (to, segment) = route::find(&head.method, head.uri.path())?;
        if let To::Call(call) = to
            && call.has_bytes()
        {
            return self.write_file(call, segment, &head, body, body_timeout).await;
        }
        let body = self.take(body, body_timeout).await?;
        let call = match to {
            To::Call(call) => call,
            To::Page(page) => return self.page(page, &head),
            To::WatchLock | To::WatchPrefix if !body.is_empty() => return Err(no_body().into()),
            To::WatchLock => {
                return self.watch(watch_request::of_lock(segment, head.uri.query(), &head.headers)?).await;
            }
            To::WatchPrefix => {
                return self.watch(watch_request::of_prefix(head.uri.query(), &head.headers)?).await;
            }
        };
        if call.has_json() {
            intake::check_media_type(&head.headers)?;
        } else if !body.is_empty() {
            return Err(no_body().into());
        }
        let sent = Sent { segment, query: head.uri.query(), headers: &head.headers, body: &body };
        if call == Call::ReadFile {
            return self.read_file(sent).await;
        }
        let answer = self.call(call, call.command(sent)).await?;
        Ok(match (call, &answer) {
            (Call::StatFile, Answer::File(view)) => reply::file_head(view),
            _ => reply::json(shapes::render(&answer)),
        })
    }

    /// Begins to watch: after the event `from`, or with what happens next.
    pub async fn begin_watch(&self, concern: Concern, from: Option<Seq>) -> Result<Watching, Denial> {
        self.serving()?;
        let feed = &self.feed()?.feed;
        feed.read_on(from).await;
        Ok(feed.watch(concern, from)?)
    }

    async fn watch(&self, request: WatchRequest) -> Result<Reply, Denial> {
        let watching = self.begin_watch(request.concern, request.from).await?;
        let comment_every = self.feed()?.comment_every;
        Ok(reply::events(EventStream::new(watching, request.from.is_some(), comment_every)))
    }

    fn feed(&self) -> Result<&Watch, Refusal> {
        self.watch.get().ok_or(not_now("the server is starting"))
    }

    /// Who may ask; the same for every door.
    pub fn admit(&self, head: &Parts) -> Result<(), Denial> {
        self.gate.judge(head.version, &head.uri, &head.headers)
    }

    /// Takes a request's body in; the same bounds for every door.
    pub async fn take(&self, body: Incoming, within: Duration) -> Result<Bytes, Denial> {
        let bounds = Bounds { bytes_max: BODY_BYTES_MAX, within, unfinished: &self.unfinished };
        intake::take(body, bounds).await
    }

    /// Takes in the body of a write to a file, which is longer than others. `within` is what others have.
    pub async fn take_write(
        &self,
        body: Incoming,
        bytes_max: usize,
        within: Duration,
    ) -> Result<Bytes, Denial> {
        let within = within.saturating_mul(WRITE_BODY_TIMES);
        intake::take(body, Bounds { bytes_max, within, unfinished: &self.unfinished_writes }).await
    }

    /// Where what has come in part is counted.
    pub fn unfinished(&self) -> &Unfinished {
        &self.unfinished
    }

    /// Asks the engine what was asked here, and counts it.
    pub async fn call(&self, call: Call, command: Result<Command, Invalid>) -> Outcome {
        let started = Instant::now();
        let waits = matches!(&command, Ok(Command::Acquire(acquire)) if acquire.wait.ms() > 0);
        let outcome = match command {
            Ok(command) => match self.serving() {
                Ok(engine) => engine.ask(command).await,
                Err(refusal) => Err(refusal),
            },
            Err(invalid) => Err(Refusal::Invalid(invalid)),
        };
        self.tallies.called(call, waits, started.elapsed(), Ended::of(&outcome));
        outcome
    }

    /// Begins to read a file, and counts it: the bytes from and up to what `part` makes of the file's size.
    pub async fn read(
        &self,
        name: Result<FileName, Invalid>,
        part: impl FnOnce(u64) -> Result<(u64, u64), Denial>,
    ) -> Result<Reading, Denial> {
        let started = Instant::now();
        let begun = async {
            let file = self.serving()?.open_file(name?).await?;
            let (start, end) = part(file.view().size)?;
            Ok(Reading::begin(&self.readers, file, start, end).await?)
        };
        let begun = begun.await;
        self.tallies.called(Call::ReadFile, false, started.elapsed(), Ended::of_any(&begun));
        begun
    }

    /// The engine, while there is one that serves.
    pub fn serving(&self) -> Result<&Handle, Refusal> {
        if self.stage() == Stage::Stopping {
            return Err(not_now("the server is stopping"));
        }
        self.engine.get().ok_or(not_now("the server is starting"))
    }

    fn page(&self, page: Page, head: &Parts) -> Result<Reply, Denial> {
        Ok(match page {
            Page::Index => {
                let authority = head.uri.authority().map(|authority| authority.as_str());
                let host = head.headers.get(header::HOST).and_then(|host| host.to_str().ok());
                reply::page(pages::index(self.gate.scheme(), authority.or(host)), pages::INDEX_POLICY)
            }
            Page::Health => reply::json(pages::health()),
            Page::Version => reply::json(pages::version()),
            Page::OpenApi => reply::json(openapi::text().into()),
            Page::Ready => {
                let engine = self.serving()?;
                if !engine.is_ready() {
                    return Err(not_now("the server is not ready").into());
                }
                reply::json(pages::ready())
            }
            Page::Metrics => reply::text(
                "text/plain; version=0.0.4; charset=utf-8",
                exposition::render(
                    &self.tallies,
                    self.engine.get().map(Handle::metrics),
                    &self.readers,
                    self.watch.get().map(|watch| &*watch.feed),
                ),
            ),
        })
    }
}

fn not_now(why: &'static str) -> Refusal {
    Refusal::Unavailable { why, retry_ms: COMING_AND_GOING_RETRY_MS }
}

fn no_body() -> Invalid {
    Invalid::new("body", "this call has no body")
}
