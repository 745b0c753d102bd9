//! Carries messages between a client and the server as a network does: while the weather is fair at once, otherwise later
//! or not at all. The server's side of a call lives here, apart from the client's: who has gone is gone for the server only
//! when word of it gets through.

use std::collections::VecDeque;
use std::sync::Arc;

use futures_util::future::poll_fn;
use futures_util::stream::{self, BoxStream, StreamExt};
use leasehold_server::grpc::refused;
use leasehold_server::wire::problem::Denial;
use tokio::sync::mpsc;

use super::machine::Machine;
use super::weather::Connection;
use crate::group::Group;
use crate::wire::{Failed, Groups, Trouble};
use leasehold_protocol::v1;

/// What the server has to say to one stream or call.
pub(super) type Answers<T> = BoxStream<'static, Result<T, Denial>>;
/// The same where the client hears it.
pub(super) type Told<T> = mpsc::UnboundedReceiver<Result<T, Failed>>;

/// Carries answers to the client until there are no more, nobody wants them, or the connection breaks. `counts` says whether
/// something is an answer that can be lost.
pub(super) fn answers<T: Send + 'static>(
    machine: &Arc<Machine>,
    connection: Connection,
    answers: Answers<T>,
    counts: fn(&T) -> bool,
) -> Told<T> {
    let (tell, told) = mpsc::unbounded_channel();
    tokio::spawn(Carrier { machine: Arc::clone(machine), connection, tell, counts }.carry(answers));
    told
}

struct Carrier<T> {
    machine: Arc<Machine>,
    connection: Connection,
    tell: mpsc::UnboundedSender<Result<T, Failed>>,
    counts: fn(&T) -> bool,
}

impl<T> Carrier<T> {
    async fn carry(self, answers: Answers<T>) {
        let mut answers = Some(answers);
        let mut on_the_way = VecDeque::new();
        let mut weather = self.machine.weather();
        loop {
            let (broken, runs, passes) = {
                let weather = weather.borrow_and_update();
                let broken = weather.is_broken(self.connection);
                (broken, !weather.frozen, weather.passes(self.connection.way))
            };
            if broken {
                answers = None;
                // Whatever was on the way is lost with the connection.
                on_the_way.clear();
                self.machine.attend();
            }
            if passes {
                for answer in on_the_way.drain(..) {
                    self.pass(answer);
                }
                if broken {
                    return self.pass(Err(Failed::Trouble(Trouble::Broken("the connection was cut".into()))));
                }
                if answers.is_none() {
                    return;
                }
            }
            tokio::select! {
                biased;
                changed = weather.changed() => if changed.is_err() { return },
                () = self.tell.closed(), if passes => break,
                answer = self.next(&mut answers), if runs && answers.is_some() => match answer {
                    None => answers = None,
                    Some(Ok(answer)) if (self.counts)(&answer) && self.machine.loses_a_reply() => {
                        self.machine.cut(self.connection.way);
                    }
                    Some(answer) => {
                        on_the_way.push_back(answer.map_err(|denial| {
                            Failed::Refused(Box::new(refused::error(&denial)))
                        }));
                    }
                },
            }
        }
        drop(answers);
        self.machine.attend();
    }

    /// The server's next answer. Whoever asks it to do something sees to it that it is done.
    async fn next(&self, answers: &mut Option<Answers<T>>) -> Option<Result<T, Denial>> {
        poll_fn(|cx| {
            let Some(answers) = answers else { return std::task::Poll::Ready(None) };
            let polled = answers.poll_next_unpin(cx);
            self.machine.attend();
            polled
        })
        .await
    }

    fn pass(&self, answer: Result<T, Failed>) {
        self.machine.clock().stir();
        // Who has gone will be found out soon.
        let _ = self.tell.send(answer);
    }
}

/// Carries groups of operations to the server, until there are no more or nobody reads them. The client's side is always
/// taken at once, as a socket takes it.
pub(super) fn groups(
    machine: &Arc<Machine>,
    connection: Connection,
    mut groups: Groups,
) -> BoxStream<'static, Result<v1::OperationGroup, Denial>> {
    let (put, mut read) = mpsc::unbounded_channel();
    let machine = Arc::clone(machine);
    tokio::spawn(async move {
        let mut on_the_way: VecDeque<Group> = VecDeque::new();
        let mut weather = machine.weather();
        let mut ended = false;
        loop {
            let passes = weather.borrow_and_update().passes(connection.way);
            if passes {
                for group in on_the_way.drain(..) {
                    machine.clock().stir();
                    // Nobody reads a broken connection.
                    let _ = put.send(Ok(group.read()));
                }
                if ended {
                    return;
                }
            }
            tokio::select! {
                biased;
                () = put.closed() => return,
                changed = weather.changed() => if changed.is_err() { return },
                group = groups.next(), if !ended => match group {
                    Some(group) => on_the_way.push_back(group),
                    None => ended = true,
                },
            }
        }
    });
    stream::poll_fn(move |cx| read.poll_recv(cx)).boxed()
}
