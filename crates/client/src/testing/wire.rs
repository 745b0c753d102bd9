//! The way to a server in memory: the same messages as over gRPC, answered by the same code, without a socket.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{BoxFuture, FutureExt};
use futures_util::stream::{self, BoxStream, StreamExt, TryStreamExt};
use leasehold_protocol::v1;
use leasehold_protocol::v1::outcome::What;
use leasehold_server::grpc::{files, operations, refused, requests, shapes, watch};
use leasehold_server::http::door::Door;
use leasehold_server::wire::commands::Call as Asked;
use leasehold_server::wire::problem::Denial;

use super::carrier;
use super::machine::Machine;
use super::weather::{Connection, WayId};
use crate::clock::Clock;
use crate::outcome::OutcomeGroup;
use crate::view::us;
use crate::wire::{Call, CallAnswer, Conversation, Failed, Groups, Trouble, Wire};

/// One client's way to the server.
pub(super) struct MemoryWire {
    pub machine: Arc<Machine>,
    pub way: WayId,
    pub clock: Arc<dyn Clock>,
    /// How long it is tried to reach the server.
    pub within: Duration,
}

impl MemoryWire {
    /// Finds the server, over the connection that is there or a new one. Nobody answers where nothing gets through, and
    /// nobody accepts at a server that stands still.
    async fn open(&self) -> Result<(Arc<Door>, Connection), Failed> {
        let mut weather = self.machine.weather();
        let reached = weather
            .wait_for(|weather| weather.passes(self.way) && !(weather.frozen && weather.life.is_some()));
        let until_us = self.clock.now_us().saturating_add(us(self.within));
        let number = tokio::select! {
            biased;
            reached = reached => reached.map(|weather| weather.ways[self.way].connection),
            () = self.clock.sleep_until(until_us) => {
                let silence = format!("the server in memory said nothing for {:?}", self.within);
                return Err(Failed::Trouble(Trouble::Silence(silence)));
            }
        };
        self.machine.clock().stir();
        match (self.machine.door(), number) {
            (Some((door, life)), Ok(number)) => Ok((door, Connection { way: self.way, number, life })),
            _ => Err(Failed::Trouble(Trouble::Refused("the server in memory does not run".into()))),
        }
    }
}

impl Wire for MemoryWire {
    fn server(&self) -> &str {
        "a server in memory"
    }

    fn converse(&self, groups: Groups) -> BoxFuture<'_, Result<Conversation, Failed>> {
        async move {
            let (door, connection) = self.open().await?;
            let groups = carrier::groups(&self.machine, connection, groups);
            let answers = operations::converse(&door, groups).map_err(refusal)?;
            let told = carrier::answers(&self.machine, connection, answers.boxed(), is_answer);
            Ok(Conversation {
                connection: connection.number,
                told: received(told).map_ok(OutcomeGroup::from).boxed(),
            })
        }
        .boxed()
    }

    fn call(&self, call: Call) -> BoxFuture<'_, Result<CallAnswer, Failed>> {
        async move {
            let (door, connection) = self.open().await?;
            let answers = stream::once(async move { carry_out(&door, call).await }).boxed();
            let mut told = carrier::answers(&self.machine, connection, answers, |_| true);
            let broken = || Err(Failed::Trouble(Trouble::Broken("the connection was cut".into())));
            told.recv().await.unwrap_or_else(broken)
        }
        .boxed()
    }

    fn watch(
        &self,
        request: v1::WatchRequest,
    ) -> BoxFuture<'_, Result<BoxStream<'static, Result<v1::Event, Failed>>, Failed>> {
        async move {
            let (door, connection) = self.open().await?;
            let events = watch::events(&door, request).await.map_err(refusal)?.boxed();
            Ok(received(carrier::answers(&self.machine, connection, events, |_| false)))
        }
        .boxed()
    }

    fn read_file(
        &self,
        _: v1::ReadFileRequest,
    ) -> BoxFuture<'_, Result<BoxStream<'static, Result<v1::ReadFileResponse, Failed>>, Failed>> {
        let detail = "the server of `testing` does not read files; look at their sizes, or use a real server";
        let error = v1::Error { code: "not_found".into(), detail: detail.into(), ..v1::Error::default() };
        async { Err(Failed::Refused(Box::new(error))) }.boxed()
    }

    fn distrust(&self, connection: u64) {
        self.machine.change(|weather| {
            let way = &mut weather.ways[self.way];
            way.connection = way.connection.max(connection + 1);
        });
    }
}

async fn carry_out(door: &Door, call: Call) -> Result<CallAnswer, Denial> {
    let answer = match call {
        Call::List(asked) => {
            CallAnswer::List(shapes::locks(door.call(Asked::List, requests::list(asked)).await?))
        }
        Call::Break(asked) => {
            CallAnswer::Break(shapes::broke(door.call(Asked::Break, requests::break_lock(asked)).await?))
        }
        Call::ListSessions(asked) => CallAnswer::ListSessions(shapes::sessions(
            door.call(Asked::ListSessions, requests::list_sessions(asked)).await?,
        )),
        Call::Cancel(asked) => {
            CallAnswer::Cancel(shapes::cancelled(door.call(Asked::Cancel, requests::cancel(asked)).await?))
        }
        Call::Acquire(asked) => {
            CallAnswer::Acquire(shapes::lease(door.call(Asked::Acquire, requests::acquire(asked)).await?))
        }
        Call::AppendFile(asked) => {
            CallAnswer::WriteFile(files::wrote(door.call(Asked::AppendFile, files::append(asked)).await?))
        }
        Call::WriteFile(asked) => {
            CallAnswer::WriteFile(files::wrote(door.call(Asked::WriteFile, files::write(asked)).await?))
        }
        Call::DeleteFile(asked) => {
            CallAnswer::DeleteFile(files::deleted(door.call(Asked::DeleteFile, files::delete(asked)).await?))
        }
        Call::StatFile(asked) => {
            CallAnswer::StatFile(files::file(door.call(Asked::StatFile, files::stat(asked)).await?))
        }
        Call::ListFiles(asked) => {
            CallAnswer::ListFiles(files::files(door.call(Asked::ListFiles, files::list(asked)).await?))
        }
    };
    Ok(answer)
}

/// Whether a group carries an answer to something that was asked.
fn is_answer(group: &v1::OutcomeGroup) -> bool {
    let notice = |what: &What| matches!(what, What::Welcome(_) | What::Queued(_) | What::Ended(_));
    group.outcomes.iter().any(|outcome| outcome.what.as_ref().is_some_and(|what| !notice(what)))
}

fn refusal(denial: Denial) -> Failed {
    Failed::Refused(Box::new(refused::error(&denial)))
}

fn received<T: Send + 'static>(mut told: carrier::Told<T>) -> BoxStream<'static, Result<T, Failed>> {
    stream::poll_fn(move |cx| told.poll_recv(cx)).boxed()
}

#[cfg(test)]
mod tests {
    use leasehold_protocol::v1::operation::What as Wish;
    use leasehold_state_machine::resource::Resource;
    use tokio::sync::mpsc;

    use super::super::clock::TestClock;
    use super::*;
    use crate::group::{Group, GroupWriter, encoded};
    use crate::outcome::{self, Told};

    /// One client with one stream, by hand.
    struct Hand {
        wire: MemoryWire,
        say: mpsc::UnboundedSender<Group>,
        told: BoxStream<'static, Result<OutcomeGroup, Failed>>,
    }

    fn server() -> (TestClock, Arc<Machine>) {
        let clock = TestClock::new();
        let machine = Machine::new(&clock);
        machine.start();
        (clock, machine)
    }

    impl Hand {
        async fn open(machine: &Arc<Machine>, client: &str) -> Hand {
            let wire = MemoryWire {
                machine: Arc::clone(machine),
                way: machine.lay_a_way(),
                clock: Arc::new(machine.clock().clone()),
                within: 2 * S,
            };
            Hand::on(wire, client).await.unwrap()
        }

        async fn on(wire: MemoryWire, client: &str) -> Result<Hand, Failed> {
            let (say, mut said) = mpsc::unbounded_channel();
            let hello = Wish::Hello(v1::Hello { client_id: client.into() });
            say.send(group([(0, hello)])).unwrap();
            let groups = stream::poll_fn(move |cx| said.poll_recv(cx)).boxed();
            let told = wire.converse(groups).await?.told;
            let mut hand = Hand { wire, say, told };
            assert!(matches!(hand.hear().await, (0, Told::Welcome(_))));
            Ok(hand)
        }

        async fn again(self, client: &str) -> Result<Hand, Failed> {
            let Hand { wire, .. } = self;
            Hand::on(wire, client).await
        }

        fn ask(&self, number: u64, wish: Wish) {
            self.say.send(group([(number, wish)])).unwrap();
        }

        async fn hear(&mut self) -> (u64, Told) {
            let group = self.told.next().await.unwrap().unwrap();
            let [outcome] = group.outcomes.try_into().unwrap();
            (outcome.number, outcome.told.unwrap())
        }

        async fn lease(&mut self, expected: u64) -> v1::Lease {
            match self.hear().await {
                (number, Told::Lease(told)) if number == expected => outcome::lease(&told).unwrap(),
                other => panic!("not the lease {expected}: {other:?}"),
            }
        }

        async fn failure(&mut self) -> Failed {
            self.told.next().await.unwrap().unwrap_err()
        }
    }

    fn group<const N: usize>(operations: [(u64, Wish); N]) -> Group {
        let mut group = GroupWriter::default();
        for (number, wish) in operations {
            group.add(number, &encoded(&wish));
        }
        group.finish(0, &[])
    }

    fn acquire(owner: &str, wait_ms: u64) -> Wish {
        Wish::Acquire(v1::AcquireRequest {
            lock: "a".into(),
            owner_id: owner.into(),
            ttl_ms: Some(30_000),
            wait_ms,
            ..v1::AcquireRequest::default()
        })
    }

    fn holders(machine: &Machine) -> Vec<String> {
        let snapshot = machine.look(&Resource::parse("a").unwrap());
        snapshot.holders.iter().map(|holder| holder.owner.text().to_owned()).collect()
    }

    const S: Duration = Duration::from_secs(1);

    #[tokio::test]
    async fn a_lock_is_handed_over_at_the_deadline_and_not_before() {
        let (clock, machine) = server();
        let (mut one, mut two) = (Hand::open(&machine, "one").await, Hand::open(&machine, "two").await);
        one.ask(1, acquire("w1", 0));
        let first = one.lease(1).await;
        two.ask(1, acquire("w2", 600_000));
        assert!(matches!(two.hear().await, (1, Told::Queued(v1::Queued { position: 1 }))));
        clock.advance(30 * S - Duration::from_micros(1)).await;
        assert_eq!(holders(&machine), ["w1"]);
        clock.advance(Duration::from_micros(1)).await;
        assert_eq!(holders(&machine), ["w2"]);
        let second = two.lease(1).await;
        assert!(second.fencing_token > first.fencing_token);
        assert_eq!(second.stop_after_ms, 30_000 + 15_000, "counted from when it was asked for");
    }

    #[tokio::test]
    async fn an_answer_is_lost_with_its_connection_and_comes_again() {
        let (_clock, machine) = server();
        let mut one = Hand::open(&machine, "one").await;
        machine.lose_replies(1);
        one.ask(1, acquire("w1", 0));
        assert!(matches!(one.failure().await, Failed::Trouble(Trouble::Broken(_))));
        assert_eq!(holders(&machine), ["w1"], "it was carried out");
        let mut one = one.again("one").await.unwrap();
        one.ask(1, acquire("w1", 0));
        one.lease(1).await;
        assert_eq!(machine.history().len(), 1, "granted once");
    }

    #[tokio::test]
    async fn nothing_gets_through_a_partition_and_all_of_it_later() {
        let (clock, machine) = server();
        let (mut one, mut two) = (Hand::open(&machine, "one").await, Hand::open(&machine, "two").await);
        two.ask(1, acquire("w2", 0));
        two.lease(1).await;
        let part = |parted| machine.change(|weather| weather.ways[0].parted = parted);
        one.ask(1, acquire("w1", 600_000));
        assert!(matches!(one.hear().await, (1, Told::Queued(_))));
        part(true);
        one.ask(2, Wish::Get(v1::GetRequest { lock: "a".into() }));
        clock.advance(30 * S).await;
        assert_eq!(holders(&machine), ["w1"], "the server does not know that nobody hears it");
        assert!(one.told.next().now_or_never().is_none());
        part(false);
        one.lease(1).await;
        assert!(matches!(one.hear().await, (2, Told::Snapshot(_))));
    }

    #[tokio::test]
    async fn a_server_that_stood_still_leaves_that_time_out() {
        let (clock, machine) = server();
        let mut one = Hand::open(&machine, "one").await;
        one.ask(1, acquire("w1", 0));
        let lease = one.lease(1).await;
        machine.change(|weather| weather.frozen = true);
        let renew = v1::RenewRequest {
            lock: lease.lock.clone(),
            owner_id: lease.owner_id.clone(),
            lease_id: lease.lease_id.clone(),
            fencing_token: lease.fencing_token,
            ..v1::RenewRequest::default()
        };
        one.ask(2, Wish::Renew(renew));
        clock.advance(3600 * S).await;
        assert!(one.told.next().now_or_never().is_none());
        machine.change(|weather| weather.frozen = false);
        assert_eq!(one.lease(2).await.fencing_token, lease.fencing_token);
    }

    #[tokio::test]
    async fn a_restart_keeps_the_holder_and_the_line_in_order() {
        let (clock, machine) = server();
        let mut hands = Vec::new();
        for client in ["w1", "w2", "w3"] {
            let mut hand = Hand::open(&machine, client).await;
            hand.ask(1, acquire(client, 600_000));
            hand.hear().await;
            hands.push(hand);
        }
        machine.kill();
        for hand in &mut hands {
            assert!(matches!(hand.failure().await, Failed::Trouble(Trouble::Broken(_))));
        }
        assert_eq!(holders(&machine), ["w1"], "so it is written");
        let Err(refused) = hands.pop().unwrap().again("w3").await else { panic!("nobody is there") };
        assert!(matches!(refused, Failed::Trouble(Trouble::Refused(_))));
        machine.start();
        // In another order than they stand in line.
        let mut three = Hand::open(&machine, "w3").await;
        three.ask(1, acquire("w3", 600_000));
        three.hear().await;
        let mut two = hands.pop().unwrap().again("w2").await.unwrap();
        two.ask(1, acquire("w2", 600_000));
        two.hear().await;
        clock.advance(31 * S).await;
        clock.advance(31 * S).await;
        let order: Vec<_> = machine.history().into_iter().filter(|event| event.r#type == "granted").collect();
        assert_eq!(order.iter().map(|event| &*event.owner_id).collect::<Vec<_>>(), ["w1", "w2", "w3"]);
        two.lease(1).await;
        three.lease(1).await;
    }

    #[tokio::test]
    async fn calls_and_watches_go_the_same_way() {
        let (clock, machine) = server();
        let mut one = Hand::open(&machine, "one").await;
        let request = v1::WatchRequest {
            what: Some(v1::watch_request::What::Lock("a".into())),
            ..v1::WatchRequest::default()
        };
        let mut events = one.wire.watch(request).await.unwrap();
        one.ask(1, acquire("w1", 0));
        let lease = one.lease(1).await;
        let event = events.next().await.unwrap().unwrap();
        assert_eq!((&*event.r#type, event.fencing_token), ("granted", Some(lease.fencing_token)));
        let asked =
            v1::BreakRequest { lock: "a".into(), reason: "stuck".into(), ..v1::BreakRequest::default() };
        let Ok(CallAnswer::Break(broke)) = one.wire.call(Call::Break(asked.clone())).await else { panic!() };
        assert_eq!(broke.tokens, [lease.fencing_token]);
        assert_eq!(events.next().await.unwrap().unwrap().r#type, "broken");
        clock.advance(30 * S).await;
        let Err(Failed::Refused(error)) = one.wire.call(Call::Break(asked)).await else { panic!() };
        assert_eq!(error.code, "not_found");
        machine.cut(0);
        assert_eq!(events.next().await.unwrap().unwrap().r#type, "released", "it had arrived");
        assert!(matches!(events.next().await, Some(Err(Failed::Trouble(Trouble::Broken(_))))));
    }
}
