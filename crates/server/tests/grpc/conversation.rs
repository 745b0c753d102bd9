//! A stream of operations as a client sees it.

use std::collections::VecDeque;
use std::net::SocketAddr;

use leasehold_protocol::v1;
use leasehold_protocol::v1::operation::What;
use leasehold_protocol::v1::outcome::What as Told;
use tokio::sync::mpsc;
use tokio_stream::wrappers::UnboundedReceiverStream;
use tonic::{Status, Streaming};

use crate::caller::Caller;

/// One stream on a connection of its own. Dropping it drops the connection.
pub struct Conversation {
    caller: Caller,
    groups: Option<mpsc::UnboundedSender<v1::OperationGroup>>,
    told: Streaming<v1::OutcomeGroup>,
    /// Outcomes that nobody has asked for yet.
    kept: VecDeque<v1::Outcome>,
    pub last_number: u64,
    pub in_flight_max: u32,
}

impl Conversation {
    /// Says hello as this client.
    pub fn with(address: SocketAddr, client: &str) -> Conversation {
        let mut conversation = Conversation::silent(address);
        conversation.send([hello(client)]);
        match conversation.next() {
            v1::Outcome { number: 0, what: Some(Told::Welcome(welcome)) } => {
                conversation.in_flight_max = welcome.in_flight_max;
            }
            other => panic!("{other:?}"),
        }
        conversation
    }

    /// Has not said anything yet.
    pub fn silent(address: SocketAddr) -> Conversation {
        let caller = Caller::to(address);
        let (groups, sent) = mpsc::unbounded_channel();
        let told = caller.call(caller.operations().stream(UnboundedReceiverStream::new(sent))).unwrap();
        let kept = VecDeque::new();
        Conversation { caller, groups: Some(groups), told, kept, last_number: 0, in_flight_max: 0 }
    }

    /// Sends one operation under the next number.
    pub fn ask(&mut self, what: What) -> u64 {
        self.last_number += 1;
        self.send([operation(self.last_number, what)]);
        self.last_number
    }

    pub fn send(&mut self, operations: impl Into<Vec<v1::Operation>>) {
        self.send_group(v1::OperationGroup { operations: operations.into(), ..Default::default() });
    }

    pub fn send_group(&mut self, group: v1::OperationGroup) {
        self.groups.as_ref().unwrap().send(group).unwrap();
    }

    /// Has nothing more to say.
    pub fn finish(&mut self) {
        self.groups = None;
    }

    /// The next outcome or notice.
    pub fn next(&mut self) -> v1::Outcome {
        if self.kept.is_empty() {
            let group = self.group().unwrap().expect("an outcome");
            self.kept.extend(group.outcomes);
        }
        self.kept.pop_front().expect("groups are not empty")
    }

    /// The next group as it comes; none at the end of the stream.
    pub fn group(&mut self) -> Result<Option<v1::OutcomeGroup>, Status> {
        self.caller.wait(self.told.message())
    }

    /// Why the stream ended.
    pub fn end(&mut self) -> Status {
        loop {
            match self.group() {
                Ok(Some(group)) => self.kept.extend(group.outcomes),
                Ok(None) => panic!("it ended well"),
                Err(status) => return status,
            }
        }
    }

    /// The outcome of this operation; notices about it are passed over, and everything else is kept.
    pub fn outcome_of(&mut self, number: u64) -> Told {
        self.find(|outcome| outcome.number == number && !matches!(outcome.what, Some(Told::Queued(_))))
    }

    /// The notice that this operation stands in line.
    pub fn queued(&mut self, number: u64) -> u64 {
        match self.find(|outcome| outcome.number == number) {
            Told::Queued(queued) => queued.position,
            other => panic!("{other:?}"),
        }
    }

    /// The next notice of ended leases.
    pub fn ended(&mut self) -> v1::Ended {
        match self.find(|outcome| matches!(outcome.what, Some(Told::Ended(_)))) {
            Told::Ended(ended) => *ended,
            other => panic!("{other:?}"),
        }
    }

    pub fn lease(&mut self, number: u64) -> v1::Lease {
        match self.outcome_of(number) {
            Told::Lease(lease) => *lease,
            other => panic!("{other:?}"),
        }
    }

    pub fn session(&mut self, number: u64) -> v1::Session {
        match self.outcome_of(number) {
            Told::Session(session) => *session,
            other => panic!("{other:?}"),
        }
    }

    /// The refusal of this operation.
    pub fn error(&mut self, number: u64) -> v1::Error {
        match self.outcome_of(number) {
            Told::Error(error) => *error,
            other => panic!("{other:?}"),
        }
    }

    fn find(&mut self, is_it: impl Fn(&v1::Outcome) -> bool) -> Told {
        let mut passed = VecDeque::new();
        let found = loop {
            let outcome = self.next();
            if is_it(&outcome) {
                break outcome;
            }
            passed.push_back(outcome);
        };
        passed.append(&mut self.kept);
        self.kept = passed;
        found.what.unwrap()
    }
}

pub fn operation(number: u64, what: What) -> v1::Operation {
    v1::Operation { number, what: Some(what) }
}

pub fn hello(client: &str) -> v1::Operation {
    operation(0, What::Hello(v1::Hello { client_id: client.into() }))
}
