//! Many operations and their answers over one connection. Reads groups as they come, asks the engine under each
//! operation's number, and writes what has been answered meanwhile in groups, each of at most half of what is in flight: there
//! is one task for a whole stream, and no delay to gather more.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures_util::stream::{self, Stream, StreamExt};
use hyper::body::Incoming;
use leasehold_engine::Heard;
use leasehold_protocol::v1;
use leasehold_protocol::v1::operation::What;
use leasehold_protocol::v1::outcome::What as Told;
use leasehold_state_machine::answer::{Answer, Outcome, Refusal};
use leasehold_state_machine::command::Command;
use leasehold_state_machine::ids::{Secret, SessionId};
use leasehold_state_machine::invalid::Invalid;
use leasehold_state_machine::words::{ClientId, RequestId};
use prost::Message;
use tokio::sync::watch;

use super::asked::{self, Asked, AskedGroup, AskedOperation, OPERATION_BYTES_MIN};
use super::endings::{Ending, Endings};
use super::frame::{self, GrpcReply, Inbound};
use super::mark::Mark;
use super::told::ToldGroup;
use super::{refused, requests, shapes};
use crate::http::door::{Door, Stage};
use crate::limits::{
    GROUP_BYTES_MAX, GROUP_OPERATIONS_MIN, GROUP_OPERATIONS_PER_IN_FLIGHT, STREAM_SESSIONS_MAX,
};
use crate::metrics::tallies::Ended;
use crate::wire::commands::Call;
use crate::wire::problem::Denial;

/// How long a client is told to wait when too much of its own is in flight.
const OWN_DOING_RETRY_MS: u64 = 10;

/// Answers a stream of operations until the client has no more and everything is answered.
pub fn answer(door: &Arc<Door>, body: Incoming, within: Duration) -> Result<GrpcReply, Denial> {
    let groups = Inbound::new(body, GROUP_BYTES_MAX, within, door.unfinished());
    let outcomes = converse_in_bytes(door, groups)?;
    Ok(frame::many_encoded(outcomes.map(|group| group.map_err(|denial| refused::status(&denial)))))
}

/// The same for groups that came by any way. Ends after its first denial.
pub fn converse<G>(
    door: &Arc<Door>,
    groups: G,
) -> Result<impl Stream<Item = Result<v1::OutcomeGroup, Denial>> + Send + use<G>, Denial>
where
    G: Stream<Item = Result<v1::OperationGroup, Denial>> + Send + Unpin,
{
    let groups = groups.map(|group| group.map(|group| Bytes::from(group.encode_to_vec())));
    Ok(converse_in_bytes(door, groups)?.map(|group| frame::only_message(group?)))
}

/// Takes groups as their bytes, and gives groups as they lie in a body.
fn converse_in_bytes<G>(
    door: &Arc<Door>,
    groups: G,
) -> Result<impl Stream<Item = Result<Bytes, Denial>> + Send + use<G>, Denial>
where
    G: Stream<Item = Result<Bytes, Denial>> + Send + Unpin,
{
    let conversation = Conversation {
        engine: door.serving()?.stream(),
        stages: door.stages(),
        stopping: false,
        inbound: Some(groups),
        door: Arc::clone(door),
        in_flight_max: door.in_flight_max(),
        client: None,
        mark: Mark::default(),
        counts: Counts::default(),
        sessions: HashSet::new(),
        meant: HashMap::new(),
        outcomes: ToldGroup::default(),
        endings: Endings::default(),
    };
    Ok(stream::unfold(Some(conversation), |state| async {
        let mut conversation = state?;
        Some(match conversation.next().await {
            Ok(None) => return None,
            Ok(Some(group)) => (Ok(group), Some(conversation)),
            Err(denial) => (Err(denial), None),
        })
    }))
}

/// One stream.
struct Conversation<G> {
    door: Arc<Door>,
    engine: leasehold_engine::Stream<Noted>,
    stages: watch::Receiver<Stage>,
    /// Whether the server is stopping: nothing more is read, and what is in flight is told so.
    stopping: bool,
    /// None when the client has no more.
    inbound: Option<G>,
    in_flight_max: usize,
    /// Whose numbers these are; none before the hello.
    client: Option<ClientId>,
    mark: Mark,
    counts: Counts,
    /// Sessions whose ended leases are told here.
    sessions: HashSet<Secret>,
    /// The sessions that operations in flight keep alive or close, by their numbers: few do.
    meant: HashMap<u64, SessionId>,
    outcomes: ToldGroup,
    /// What ended in this group, and is not counted yet.
    endings: Endings,
}

/// What is noted of an operation without an outcome.
#[derive(Clone, Copy)]
struct Noted {
    call: Call,
    waits: bool,
    since: Instant,
}

/// Operations in flight. What keeps up or ends what was begun counts apart, so that a client whose acquires all wait can
/// still renew and release.
#[derive(Default)]
struct Counts {
    ordinary: usize,
    upkeep: usize,
}

impl Counts {
    fn of(&mut self, call: Call) -> &mut usize {
        match call {
            Call::Renew | Call::Release | Call::Cancel | Call::KeepAlive | Call::CloseSession => {
                &mut self.upkeep
            }
            _ => &mut self.ordinary,
        }
    }
}

impl<G: Stream<Item = Result<Bytes, Denial>> + Unpin> Conversation<G> {
    /// The next group of outcomes; none at the end.
    async fn next(&mut self) -> Result<Option<Bytes>, Denial> {
        // The group before this one leaves first: its half of the clients asks for the next thing meanwhile.
        if self.engine.has_more() {
            tokio::task::yield_now().await;
        }
        loop {
            if !self.outcomes.is_empty() {
                return Ok(Some(self.outcomes.take()));
            }
            if self.engine.in_flight() == 0 {
                if self.stopping {
                    return Err(self.door.stopping().await.into());
                }
                if self.inbound.is_none() {
                    return Ok(None);
                }
            }
            let reading = async {
                match &mut self.inbound {
                    Some(inbound) => inbound.next().await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                () = self.engine.hear() => self.tell_heard(),
                group = reading, if !self.stopping => match group {
                    Some(group) => self.take(&group?)?,
                    None => self.inbound = None,
                },
                _ = self.stages.changed(), if !self.stopping => {
                    self.stopping = *self.stages.borrow() == Stage::Stopping;
                }
            }
        }
    }

    /// Takes in a group of operations.
    fn take(&mut self, group: &[u8]) -> Result<(), Denial> {
        let since = Instant::now();
        let operations_max = GROUP_OPERATIONS_PER_IN_FLIGHT * self.in_flight_max + GROUP_OPERATIONS_MIN;
        if group.len() / OPERATION_BYTES_MIN > operations_max
            && asked::count_operations(group).map_err(frame::unreadable)? > operations_max
        {
            let problem = format!("a group has at most {operations_max} operations; send them in several");
            return Err(Invalid::new("operations", problem).into());
        }
        let group = AskedGroup::read(group).map_err(frame::unreadable)?;
        let mut operations = group.operations.into_iter();
        let client = match &self.client {
            Some(client) => client.clone(),
            None => self.greet(operations.next())?,
        };
        self.mark.take(group.answered_through, group.open)?;
        if let Some((answered_through, open)) = self.mark.untold() {
            self.engine.mark(client.clone(), answered_through, open);
        }
        for operation in operations {
            self.begin(operation, &client, since);
        }
        self.endings.tally(self.door.metrics(), since);
        self.engine.send();
        Ok(())
    }

    fn greet(&mut self, first: Option<AskedOperation<'_>>) -> Result<ClientId, Denial> {
        let what = first.filter(|first| first.number == 0).map(|first| first.what);
        let Some(Some(What::Hello(hello))) = what.and_then(Asked::any) else {
            return Err(Invalid::new("hello", "a stream begins with a hello, whose number is 0").into());
        };
        let client = ClientId::parse(&hello.client_id)?;
        self.client = Some(client.clone());
        let in_flight_max = u32::try_from(self.in_flight_max).unwrap_or(u32::MAX);
        self.told(0, Told::Welcome(v1::Welcome { in_flight_max }));
        Ok(client)
    }

    /// Asks the engine, or answers at once what need not be asked.
    fn begin(&mut self, operation: AskedOperation<'_>, client: &ClientId, since: Instant) {
        let number = operation.number;
        if let Some(known) = self.engine.noted(number) {
            // A newer attempt of the same operation by the same way: its outcome will answer both. Only that of an acquire
            // may say something new, which is how long it waits.
            if known.call == Call::Acquire && operation.what.is_acquire() {
                self.begin_again(operation, client);
            }
            return;
        }
        let (call, command) = match self.command(operation, client) {
            Ok(command) => command,
            Err(refusal) => return self.refuse(number, refusal),
        };
        let waits = matches!(&command, Ok(Command::Acquire(acquire)) if acquire.wait.ms() > 0);
        if let Ok(Command::KeepAlive { session, .. } | Command::CloseSession { session }) = &command {
            self.meant.insert(number, *session);
        }
        let note = Noted { call, waits, since };
        let asked = match command {
            _ if *self.counts.of(call) >= self.in_flight_max => Err(Refusal::Busy {
                what: "operations in flight on this stream",
                retry_ms: OWN_DOING_RETRY_MS,
            }),
            Ok(command) => self.engine.ask(number, note, command),
            Err(invalid) => Err(Refusal::Invalid(invalid)),
        };
        match asked {
            Ok(()) => *self.counts.of(call) += 1,
            Err(refusal) => self.end(number, note, Err(refusal)),
        }
    }

    /// Asks the engine again. When it does not let that in, the attempt before stands as it was.
    fn begin_again(&mut self, operation: AskedOperation<'_>, client: &ClientId) {
        let number = operation.number;
        if let Ok((_, Ok(command))) = self.command(operation, client) {
            let _ = self.engine.ask_again(number, command);
        }
    }

    /// What an operation asks for; refused when it cannot be told, or must not be carried out any more.
    fn command(
        &self,
        operation: AskedOperation<'_>,
        client: &ClientId,
    ) -> Result<(Call, Result<Command, Invalid>), Refusal> {
        let number = operation.number;
        let invalid = |field, problem| Err(Refusal::Invalid(Invalid::new(field, problem)));
        if number == 0 {
            return invalid("number", "operations are numbered from 1");
        }
        if self.mark.has_forgotten(number) {
            return Err(Refusal::NotFound("this number was answered, and is forgotten as its client asked"));
        }
        let id = || Some(RequestId::Numbered(client.clone(), number));
        let what = match operation.what {
            Asked::Acquire(asked) => return Ok((Call::Acquire, requests::asked_acquire(&asked, id()))),
            Asked::Release(asked) => return Ok((Call::Release, requests::asked_release(&asked))),
            Asked::Any(what) => *what,
        };
        Ok(match what {
            Some(What::Acquire(asked)) => (Call::Acquire, requests::acquire_as(asked, id())),
            Some(What::Renew(asked)) => (Call::Renew, requests::renew(asked)),
            Some(What::Release(asked)) => (Call::Release, requests::release(asked)),
            Some(What::Cancel(number)) => {
                (Call::Cancel, Ok(Command::CancelNumber { client: client.clone(), number }))
            }
            Some(What::Verify(asked)) => (Call::Verify, requests::verify(asked)),
            Some(What::Get(asked)) => (Call::Get, requests::get(asked)),
            Some(What::OpenSession(asked)) => (Call::OpenSession, requests::open_session_as(asked, id())),
            Some(What::KeepAlive(asked)) => (Call::KeepAlive, requests::keep_alive(asked)),
            Some(What::CloseSession(asked)) => (Call::CloseSession, requests::close_session(asked)),
            Some(What::Hello(_)) => return invalid("hello", "a stream has one hello, at its beginning"),
            None => return invalid("what", "this operation asks for nothing that is known here"),
        })
    }

    /// Turns everything heard into outcomes and notices.
    fn tell_heard(&mut self) {
        while let Some(heard) = self.engine.heard() {
            match heard {
                Heard::Outcome { number, note, outcome } => {
                    *self.counts.of(note.call) -= 1;
                    self.end(number, note, outcome);
                }
                Heard::Written { number: _, note, at } => {
                    *self.counts.of(note.call) -= 1;
                    let Noted { call, waits, since } = note;
                    self.endings.add(Ending { call, waits, since, ended: Ended::Success });
                    self.outcomes.add_written(self.engine.written(at));
                }
                Heard::Queued { number, position } => {
                    self.told(number, Told::Queued(v1::Queued { position }));
                }
                Heard::Ended { session, ended } => {
                    let ended = Vec::from([shapes::ended(&ended)]);
                    self.told(0, Told::Ended(Box::new(v1::Ended { session_id: session.text(), ended })));
                }
            }
        }
        self.endings.tally(self.door.metrics(), Instant::now());
    }

    /// An operation is over.
    fn end(&mut self, number: u64, operation: Noted, outcome: Outcome) {
        let Noted { call, waits, since } = operation;
        self.endings.add(Ending { call, waits, since, ended: Ended::of(&outcome) });
        let meant = match call {
            Call::KeepAlive | Call::CloseSession => self.meant.remove(&number),
            _ => None,
        };
        match (&outcome, meant) {
            (Ok(Answer::Session(view)), _) => self.listen_to(view.session),
            (Ok(Answer::Closed), Some(session))
            | (Err(Refusal::LeaseExpired | Refusal::Released | Refusal::NotFound(_)), Some(session)) => {
                self.ignore(session);
            }
            _ => {}
        }
        match outcome {
            Ok(answer) => self.answered(number, answer),
            Err(refusal) => self.refuse(number, refusal),
        }
    }

    /// Lets the client hear of this session's ended leases. Who keeps more sessions than can be listened to learns the
    /// rest from the answers to its heartbeats.
    fn listen_to(&mut self, session: SessionId) {
        if self.sessions.len() < STREAM_SESSIONS_MAX && self.sessions.insert(session.secret()) {
            self.engine.listen_to(session);
        }
    }

    /// This session is over.
    fn ignore(&mut self, session: SessionId) {
        if self.sessions.remove(&session.secret()) {
            self.engine.ignore(session);
        }
    }

    fn answered(&mut self, number: u64, answer: Answer) {
        let what = match answer {
            Answer::Cancelled(_) => Told::Cancelled(shapes::cancelled(answer)),
            Answer::Valid { .. } => Told::Verified(shapes::verified(answer)),
            Answer::Snapshot(snapshot) => Told::Snapshot(Box::new(shapes::snapshot_of(*snapshot))),
            Answer::Session(view) => Told::Session(Box::new(shapes::session_of(&view))),
            Answer::Closed => Told::Closed(shapes::closed(answer)),
            // Such answers are written where they are decided.
            Answer::Lease(_)
            | Answer::Released { .. }
            // These are to calls that streams do not carry.
            | Answer::Locks { .. }
            | Answer::Broke { .. }
            | Answer::Sessions { .. }
            | Answer::Wrote(_)
            | Answer::Deleted
            | Answer::File(_)
            | Answer::Files { .. } => {
                panic!("an answer that no stream is told so: {answer:?}")
            }
        };
        self.told(number, what);
    }

    fn refuse(&mut self, number: u64, refusal: Refusal) {
        self.told(number, Told::Error(Box::new(refused::error(&refusal.into()))));
    }

    fn told(&mut self, number: u64, what: Told) {
        self.outcomes.add(number, what);
    }
}
