//! The run-loop: who leads, who follows and what they know, and how leadership passes on.

use std::sync::Arc;
use std::time::Duration;

use leasehold_client::{Client, Ended, Error, EventKind, Leader, Led, Next, Term, Ttl, Watched};
use tokio::sync::{Notify, mpsc};
use tokio_util::sync::CancellationToken;

use crate::proxy::{Proxy, Way};
use crate::server::{PATIENCE, Server, client};

const TTL: Duration = Duration::from_secs(6);

/// What a candidate tells of itself.
#[derive(Debug)]
enum Says {
    Leads(Term),
    Stopping,
    Follows(Option<Led>),
}

/// A candidate that leads until it is told to resign.
struct Candidate {
    says: mpsc::UnboundedReceiver<Says>,
    resign: Arc<Notify>,
    stop: CancellationToken,
    run: tokio::task::JoinHandle<Result<(), Error>>,
}

impl Candidate {
    fn new(client: &Client) -> Candidate {
        let (say, says) = mpsc::unbounded_channel();
        let (resign, stop) = (Arc::new(Notify::new()), CancellationToken::new());
        let leader = Leader::new(client, "crown")
            .ttl(TTL)
            .value(format!("{} at work", client.owner()))
            .stopped_by(stop.clone());
        let (resigns, tell) = (Arc::clone(&resign), say.clone());
        let leading = move |term: Term| {
            let (say, resign) = (say.clone(), Arc::clone(&resigns));
            async move {
                say.send(Says::Leads(term.clone())).unwrap();
                tokio::select! {
                    () = term.stopping().cancelled_owned() => {
                        say.send(Says::Stopping).unwrap();
                        Next::Again
                    }
                    () = resign.notified() => Next::Stop,
                }
            }
        };
        let run = tokio::spawn(leader.run(leading, move |mut following| {
            let say = tell.clone();
            async move {
                loop {
                    say.send(Says::Follows(following.changed().await)).unwrap();
                }
            }
        }));
        Candidate { says, resign, stop, run }
    }

    async fn says(&mut self) -> Says {
        tokio::time::timeout(PATIENCE, self.says.recv()).await.expect("something happens").unwrap()
    }

    async fn leads(&mut self) -> Term {
        loop {
            if let Says::Leads(term) = self.says().await {
                return term;
            }
        }
    }

    /// Follows somebody who says this.
    async fn follows(&mut self, owner: &str, value: &str) {
        loop {
            if let Says::Follows(Some(led)) = self.says().await
                && led.owner_id == owner
                && led.value.as_deref() == Some(value)
            {
                return;
            }
        }
    }
}

#[tokio::test]
async fn a_follower_knows_the_leader_and_leads_at_once_when_it_resigns() {
    let server = Server::start();
    let (one, two) = (server.client("one").await, server.client("two").await);
    let mut first = Candidate::new(&one);
    let term = first.leads().await;
    let token = term.token().unwrap();
    let mut second = Candidate::new(&two);
    second.follows("one", "one at work").await;
    term.publish("one at rest").await.unwrap();
    second.follows("one", "one at rest").await;

    let seq = one.get("crown").await.unwrap().seq;
    first.resign.notify_one();
    let next = second.leads().await;
    assert!(next.token().unwrap() > token);
    first.run.await.unwrap().unwrap();
    assert_eq!(term.token(), Err(Error::Ended(Ended::Released)));
    // The hand-over is one step: nothing lies between the end of a term and the beginning of the next.
    let mut events = one.watch(Watched::Lock("crown".into()), Some(seq));
    let (released, granted) = (events.next().await.unwrap().unwrap(), events.next().await.unwrap().unwrap());
    assert_eq!((released.kind, granted.kind), (EventKind::Released, EventKind::Granted));
    assert_eq!(granted.seq, released.seq + 1);
    // It is told to stop, resigns and leaves.
    second.stop.cancel();
    assert!(matches!(second.says().await, Says::Stopping));
    second.run.await.unwrap().unwrap();
    assert!(!one.get("crown").await.unwrap().is_held());
}

#[tokio::test]
async fn when_a_leader_is_cut_off_a_follower_leads_and_never_both() {
    let server = Server::start();
    let proxy = Proxy::to(server.address).await;
    let (one, two) = (client(proxy.address, "one").await, server.client("two").await);
    let mut first = Candidate::new(&one);
    let term = first.leads().await;
    let mut second = Candidate::new(&two);
    second.follows("one", "one at work").await;
    let silent = std::time::Instant::now();
    proxy.to_server(Way::Stall);
    proxy.to_client(Way::Stall);
    assert!(matches!(first.says().await, Says::Stopping));
    assert_eq!(term.token(), Err(Error::Ended(Ended::Lost)));
    let next = second.leads().await;
    assert!(silent.elapsed() <= TTL + TTL / 4, "{:?}", silent.elapsed());
    // Connected again, the first one stands in line behind it and follows.
    proxy.to_server(Way::Forward);
    proxy.to_client(Way::Forward);
    first.follows("two", "two at work").await;
    assert!(next.token().is_ok());
    second.resign.notify_one();
    first.leads().await;
}

#[tokio::test]
async fn dropping_the_loop_resigns_whoever_else_has_a_hand_on_the_term() {
    let server = Server::start();
    let (one, two) = (server.client("one").await, server.client("two").await);
    let mut first = Candidate::new(&one);
    let term = first.leads().await;
    let mut second = Candidate::new(&two);
    second.follows("one", "one at work").await;
    first.run.abort();
    second.leads().await;
    assert_eq!(term.token(), Err(Error::Ended(Ended::Released)));
}

#[tokio::test]
async fn what_leads_and_does_not_stop_is_dropped_in_time() {
    let server = Server::start();
    let proxy = Proxy::to(server.address).await;
    let (one, two) = (client(proxy.address, "one").await, server.client("two").await);
    let (say, mut says) = mpsc::unbounded_channel();
    let stubborn = move |term: Term| {
        let say = say.clone();
        async move {
            say.send(term).unwrap();
            std::future::pending::<Next>().await
        }
    };
    let leader = Leader::new(&one, "crown").ttl(TTL).after_loss(Next::Stop);
    let run = tokio::spawn(leader.run(stubborn, |_| async {}));
    says.recv().await.unwrap();
    let mut second = Candidate::new(&two);
    second.follows_somebody().await;
    proxy.to_server(Way::Stall);
    assert_eq!(tokio::time::timeout(PATIENCE, run).await.expect("it is dropped").unwrap(), Ok(()));
    // It was dropped before another could lead.
    while let Ok(says) = second.says.try_recv() {
        assert!(!matches!(says, Says::Leads(_)));
    }
    second.leads().await;
}

impl Candidate {
    async fn follows_somebody(&mut self) {
        while !matches!(self.says().await, Says::Follows(Some(_))) {}
    }
}

#[tokio::test]
async fn what_no_attempt_would_mend_ends_the_loop() {
    let server = Server::start();
    let client = server.client("one").await;
    let run =
        Leader::new(&client, "sem:reserved").ttl(Ttl::SHORT).run(|_| async { Next::Again }, |_| async {});
    assert!(matches!(run.await, Err(Error::Invalid { .. })));
}
