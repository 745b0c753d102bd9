//! The test server, used as a program's own tests would use it: loss, contention and hand-over at exactly their times,
//! without a socket and without sleeping.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::time::Duration;

use leasehold_client::testing::Server;
use leasehold_client::{
    AcquireOptions, Advice, Ask, Client, Ended, Error, EventKind, Guard, Leader, Lease, Lock, LockOptions,
    Next, RetryPolicy, Session, SessionOptions, Standing, Term, Ttl, Watched,
};
use tokio::task::JoinHandle;

const S: Duration = Duration::from_secs(1);
const US: Duration = Duration::from_micros(1);
const TTL: Duration = Duration::from_secs(30);

/// Waits in line for as long as it takes.
async fn lock(client: &Client, name: &str) -> Guard {
    Lock::new(client, name).lock(TTL, LockOptions::default()).await.unwrap()
}

/// The same in the background; in line when it returns.
async fn stand_in_line(server: &Server, client: &Client, name: &'static str) -> JoinHandle<Guard> {
    let client = client.clone();
    let standing = tokio::spawn(async move { lock(&client, name).await });
    server.clock().settle().await;
    standing
}

fn holders(server: &Server, name: &str) -> Vec<String> {
    server.holders(name).into_iter().map(|holder| holder.owner_id).collect()
}

fn waiters(server: &Server, name: &str) -> Vec<String> {
    server.waiters(name).into_iter().map(|waiter| waiter.owner_id).collect()
}

#[tokio::test]
async fn a_program_that_stood_still_past_its_ttl_sees_at_its_first_look_that_it_lost() {
    let server = Server::new();
    let (one, two) = (server.client("one"), server.client("two"));
    let guard = lock(&one, "deploy").await;
    let token = guard.token().unwrap();
    let claim = guard.lease().claim().unwrap();
    server.clock().advance(S).await;

    server.clock().jump(TTL + S);
    assert_eq!(guard.standing(), Standing::Lost);
    let lost = guard.token().unwrap_err();
    assert_eq!(lost, Error::Ended(Ended::Lost));
    assert!(guard.lost().is_cancelled());

    let other = lock(&two, "deploy").await;
    assert!(other.token().unwrap() > token);
    let before = server.events().len();
    assert!(matches!(one.renew(&claim, None, None).await, Err(Error::Ended(Ended::Expired))));
    assert!(matches!(one.release(&claim).await, Err(Error::Ended(Ended::Expired))));
    assert_eq!(guard.token().unwrap_err(), lost, "the same error for good");
    assert_eq!(guard.unlock().await.unwrap_err(), lost);
    server.clock().advance(S).await;
    assert_eq!(server.events().len(), before, "its late words changed nothing");
    assert_eq!(holders(&server, "deploy"), ["two"]);
    assert!(other.token().is_ok());
}

#[tokio::test]
async fn a_suspended_holder_loses_to_the_next_in_line_at_the_deadline_exactly() {
    let server = Server::new();
    let (one, two) = (server.client("one"), server.client("two"));
    let guard = lock(&one, "deploy").await;
    let standing = stand_in_line(&server, &two, "deploy").await;
    assert_eq!(waiters(&server, "deploy"), ["two"]);

    server.suspend(&one);
    server.clock().advance(TTL - US).await;
    assert_eq!(holders(&server, "deploy"), ["one"]);
    server.clock().advance(US).await;
    assert_eq!(holders(&server, "deploy"), ["two"]);
    let other = standing.await.unwrap();
    assert_eq!(guard.standing(), Standing::Lost);
    assert!(other.token().is_ok());

    server.resume(&one);
    server.clock().advance(10 * S).await;
    assert_eq!(holders(&server, "deploy"), ["two"]);
    assert!(guard.lost().is_cancelled() && !other.lost().is_cancelled());
}

#[tokio::test]
async fn the_signal_fires_at_exactly_half_the_ttl_when_the_server_is_silent() {
    let server = Server::new();
    let client = server.client("one");
    let guard = lock(&client, "deploy").await;
    let lost = guard.lost();
    server.freeze();
    server.clock().advance(TTL / 2 - US).await;
    assert!(matches!(guard.standing(), Standing::InJeopardy { .. }));
    assert!(!lost.is_cancelled());
    server.clock().advance(US).await;
    assert!(lost.is_cancelled());

    // The server was at fault, and takes nothing from anybody for that; but what is lost is lost.
    server.thaw();
    server.clock().advance(S).await;
    assert_eq!(guard.token().unwrap_err(), Error::Ended(Ended::Lost));
}

#[tokio::test]
async fn a_lock_is_kept_for_as_long_as_it_is_wanted() {
    let server = Server::new();
    let client = server.client("one");
    let guard = lock(&client, "deploy").await;
    let token = guard.token().unwrap();
    server.clock().advance(3600 * S).await;
    assert!(matches!(guard.standing(), Standing::Safe { .. }));
    assert_eq!(guard.token(), Ok(token));
    guard.unlock().await.unwrap();
    assert!(holders(&server, "deploy").is_empty());
    let kinds: Vec<_> = server.events().into_iter().map(|event| event.kind).collect();
    assert_eq!(kinds, [EventKind::Granted, EventKind::Released]);
}

#[tokio::test]
async fn a_lost_reply_comes_again_with_the_same_token() {
    let server = Server::new();
    let client = server.client("one");
    server.lose_replies(3);
    let asking = client.clone();
    let asked = tokio::spawn(async move { lock(&asking, "deploy").await });
    server.clock().advance(S).await;
    let guard = asked.await.unwrap();
    let [holder] = &server.holders("deploy")[..] else { panic!("one holder") };
    assert_eq!(guard.token(), Ok(holder.fencing_token));
    assert_eq!(server.events().len(), 1, "granted once");
}

#[tokio::test]
async fn a_grant_that_is_heard_of_late_counts_from_when_it_was_made() {
    let server = Server::new();
    let (one, two) = (server.client("one"), server.client("two"));
    let first = lock(&one, "deploy").await;
    let asking = two.clone();
    let standing = tokio::spawn(async move {
        let options = LockOptions::default().never_renew();
        Lock::new(&asking, "deploy").lock(TTL, options).await.unwrap()
    });
    server.clock().settle().await;
    // Granted now; the answer is lost with its connection, and the next one comes ten seconds later.
    server.partition(&two);
    first.unlock().await.unwrap();
    let [granted] = &server.holders("deploy")[..] else { panic!("one holder") };
    server.cut();
    server.clock().advance(10 * S).await;
    assert!(!standing.is_finished());
    server.heal(&two);
    server.clock().advance(S).await;
    let guard = standing.await.unwrap();
    assert_eq!(guard.token(), Ok(granted.fencing_token));

    let lost = guard.lost();
    server.clock().advance(4 * S - US).await;
    assert!(!lost.is_cancelled());
    server.clock().advance(US).await;
    assert!(lost.is_cancelled(), "half of the TTL counts from the grant, not from the answer");
    assert_eq!(holders(&server, "deploy"), ["two"]);
}

#[tokio::test]
async fn a_restart_keeps_the_holder_and_the_order_of_the_line() {
    let server = Server::new();
    let holder = server.client("holder");
    let guard = lock(&holder, "deploy").await;
    let token = guard.token().unwrap();
    let mut line = Vec::new();
    for name in ["first", "second", "third"] {
        line.push(stand_in_line(&server, &server.client(name), "deploy").await);
    }
    for _ in 0..3 {
        server.restart();
        server.clock().advance(2 * S).await;
        assert_eq!(holders(&server, "deploy"), ["holder"]);
        assert_eq!(waiters(&server, "deploy"), ["first", "second", "third"]);
    }
    server.clock().advance(60 * S).await;
    assert_eq!(guard.token(), Ok(token));
    guard.unlock().await.unwrap();
    let mut last = token;
    for (standing, name) in line.into_iter().zip(["first", "second", "third"]) {
        let guard = standing.await.unwrap();
        assert_eq!(holders(&server, "deploy"), [name]);
        assert!(guard.token().unwrap() > last);
        last = guard.token().unwrap();
        guard.unlock().await.unwrap();
    }
}

#[tokio::test]
async fn a_holder_survives_cuts_and_short_absences() {
    let server = Server::new();
    let client = server.client("one");
    let guard = lock(&client, "deploy").await;
    for _ in 0..5 {
        server.cut();
        server.clock().advance(7 * S).await;
        server.crash();
        server.clock().advance(3 * S).await;
        server.start();
        server.clock().advance(4 * S).await;
        server.partition(&client);
        server.clock().advance(3 * S).await;
        server.heal(&client);
        server.clock().advance(4 * S).await;
        assert!(guard.token().is_ok());
    }
    assert_eq!(server.events().len(), 1);
}

#[tokio::test]
async fn a_partitioned_holder_stops_before_the_next_one_starts() {
    let server = Server::new();
    let (one, two) = (server.client("one"), server.client("two"));
    let guard = lock(&one, "deploy").await;
    let standing = stand_in_line(&server, &two, "deploy").await;
    server.partition(&one);
    let lost = guard.lost();
    let clock = server.clock();
    let began = clock.elapsed();
    let mut stopped = None;
    while !standing.is_finished() {
        clock.advance(S / 10).await;
        stopped = stopped.or(lost.is_cancelled().then(|| clock.elapsed() - began));
    }
    assert_eq!(stopped, Some(TTL / 2));
    assert_eq!(clock.elapsed() - began, TTL);
}

#[tokio::test]
async fn a_broken_lease_of_a_session_says_so_while_the_session_lives_on() {
    let server = Server::new();
    let client = server.client("one");
    let session = Session::open(&client, TTL, SessionOptions::default()).await.unwrap();
    let (kept, broken) = (session.lease("kept"), session.lease("broken"));
    assert!(kept.acquire(Ttl::default(), AcquireOptions::default()).await.unwrap());
    assert!(broken.acquire(Ttl::default(), AcquireOptions::default()).await.unwrap());
    let token = broken.token().unwrap();
    assert_eq!(server.break_lock("broken", "stuck"), [token]);
    server.clock().settle().await;
    assert_eq!(broken.standing(), Standing::Lost);
    assert!(matches!(broken.token(), Err(Error::Ended(Ended::Broken(_)))));
    server.clock().advance(10 * TTL).await;
    assert!(kept.token().is_ok() && session.check().is_ok());
    assert_eq!(holders(&server, "broken"), [""; 0]);
}

#[tokio::test]
async fn an_operator_can_break_by_force() {
    let server = Server::new();
    let (one, two) = (server.client("one"), server.client("two"));
    let guard = lock(&one, "deploy").await;
    let standing = stand_in_line(&server, &two, "deploy").await;
    server.break_by_force("deploy", "it hangs");
    server.clock().settle().await;
    let other = standing.await.unwrap();
    assert!(other.token().unwrap() > guard.lease().claim().map_or(0, |claim| claim.fencing_token));
    server.clock().advance(TTL / 2).await;
    assert_eq!(guard.standing(), Standing::Lost);
}

#[tokio::test]
async fn without_a_server_there_is_a_definite_answer_in_bounded_time() {
    let server = Server::new();
    let policy = RetryPolicy { attempts: 3, ..RetryPolicy::default() };
    let client = server.client_with("one", policy);
    server.crash();
    let (asking, clock) = (client.clone(), server.clock().clone());
    let asked = tokio::spawn(async move { asking.acquire(Ask::new("deploy")).await });
    clock.advance(10 * S).await;
    let error = asked.await.unwrap().unwrap_err();
    let Error::ServerUnavailable(unavailable) = &error else { panic!("{error}") };
    assert_eq!(unavailable.attempts, 3);
    assert!(error.outcome_is_known(), "nobody was there who could have carried it out");
    assert_eq!(error.advice(), Advice::CheckServer);

    server.start();
    assert!(client.acquire(Ask::new("deploy")).await.is_ok());
}

#[tokio::test]
async fn a_leader_that_dies_is_followed_within_the_ttl_and_one_that_resigns_at_once() {
    let server = Server::new();
    let lead = |client: &Client| {
        let leading = |term: Term| async move {
            term.stopping().cancelled().await;
            Next::Again
        };
        tokio::spawn(Leader::new(client, "scheduler").ttl(TTL).run(leading, |_| std::future::pending()))
    };
    let clients = ["a", "b", "c"].map(|name| server.client(name));
    let mut leaders = Vec::new();
    for client in &clients {
        leaders.push(lead(client));
        server.clock().settle().await;
    }
    assert_eq!(holders(&server, "scheduler"), ["a"]);
    server.clock().advance(TTL * 4).await;
    assert_eq!(holders(&server, "scheduler"), ["a"]);

    server.suspend(&clients[0]);
    let died = server.clock().elapsed();
    while holders(&server, "scheduler") == ["a"] {
        server.clock().advance(S / 10).await;
    }
    assert!(server.clock().elapsed() - died <= TTL);
    assert_eq!(holders(&server, "scheduler"), ["b"]);

    leaders[1].abort();
    server.clock().settle().await;
    assert_eq!(holders(&server, "scheduler"), ["c"], "without any time passing");
}

#[tokio::test]
async fn one_attempt_does_not_wait_and_a_dropped_wait_leaves_the_line() {
    let server = Server::new();
    let (one, two) = (server.client("one"), server.client("two"));
    let guard = lock(&one, "deploy").await;
    assert!(!Lease::new(&two, "deploy").acquire(TTL, AcquireOptions::default()).await.unwrap());
    let standing = stand_in_line(&server, &two, "deploy").await;
    assert_eq!(waiters(&server, "deploy"), ["two"]);
    standing.abort();
    server.clock().settle().await;
    assert!(waiters(&server, "deploy").is_empty());
    drop(guard);
    server.clock().settle().await;
    assert!(holders(&server, "deploy").is_empty(), "a dropped guard gives its lock back");
}

#[tokio::test]
async fn an_observer_misses_nothing_over_cuts_and_restarts() {
    let server = Server::new();
    let (watcher, worker) = (server.client("watcher"), server.client("worker"));
    let mut seen = watcher.watch(Watched::Lock("deploy".into()), None);
    let watching = tokio::spawn(async move {
        let mut kinds = Vec::new();
        while kinds.len() < 8 {
            kinds.push(seen.next().await.unwrap().unwrap().kind.to_string());
        }
        kinds
    });
    server.clock().settle().await;
    for round in 0..4 {
        let guard = lock(&worker, "deploy").await;
        match round {
            0 => server.cut(),
            1 => server.restart(),
            2 => server.partition(&watcher),
            _ => server.heal(&watcher),
        }
        server.clock().wait_for(guard.unlock()).await.unwrap();
        server.clock().advance(S).await;
    }
    assert_eq!(server.clock().wait_for(watching).await.unwrap(), ["granted", "released"].repeat(4));
}

#[tokio::test(start_paused = true)]
async fn a_worker_may_sleep_by_tokios_clock_too() {
    let server = Server::new();
    let client = server.client("one");
    let worker = client.clone();
    let rounds = tokio::spawn(async move {
        let guard = lock(&worker, "deploy").await;
        let mut rounds = 0;
        let working = async {
            loop {
                tokio::time::sleep(S).await;
                rounds += 1;
            }
        };
        let stopped: Result<(), Error> = guard.run(working).await;
        assert_eq!(stopped, Err(Error::Ended(Ended::Lost)));
        rounds
    });
    server.clock().advance(100 * S).await;
    server.partition(&client);
    server.clock().advance(TTL).await;
    let rounds = rounds.await.unwrap();
    // The last renewal that was confirmed is up to a third of the TTL old when the partition begins.
    assert!((105..=115).contains(&rounds), "{rounds}");
}

#[tokio::test]
#[should_panic(expected = "never comes to rest")]
async fn a_loop_that_never_waits_is_found_out() {
    let server = Server::new();
    let client = server.client("one");
    tokio::spawn(async move {
        loop {
            let _ = lock(&client, "deploy").await.unlock().await;
        }
    });
    server.clock().advance(S).await;
}

/// A busy day: workers that contend, fail, are cut off and come back. Gives everything that happened, and when.
async fn a_busy_day() -> Vec<String> {
    let server = Server::new();
    let clients: Vec<_> = (0..5).map(|n| server.client(format!("worker-{n}"))).collect();
    for client in &clients {
        let (client, clock) = (client.clone(), server.clock().clone());
        tokio::spawn(async move {
            loop {
                let Ok(guard) = Lock::new(&client, "deploy").lock(TTL / 3, LockOptions::default()).await
                else {
                    continue;
                };
                let work = leasehold_client::Clock::sleep_until(
                    &clock,
                    leasehold_client::Clock::now_us(&clock) + 1_700_000,
                );
                let _ = guard.run(work).await;
                let _ = guard.unlock().await;
            }
        });
    }
    let clock = server.clock();
    for round in 0..6 {
        clock.advance(10 * S).await;
        match round {
            0 => server.cut(),
            1 => server.partition(&clients[1]),
            2 => server.restart(),
            3 => {
                server.heal(&clients[1]);
                server.suspend(&clients[2]);
            }
            4 => {
                server.resume(&clients[2]);
                server.lose_replies(3);
            }
            _ => server.freeze(),
        }
    }
    clock.advance(3 * S).await;
    server.thaw();
    clock.advance(30 * S).await;
    let told = server.events();
    told.iter().map(|event| format!("{:?}", event)).collect()
}

#[tokio::test]
async fn the_same_script_does_the_same_thing_twice() {
    let first = a_busy_day().await;
    assert!(first.len() > 100, "something happened: {}", first.len());
    let second = a_busy_day().await;
    for (number, (first, second)) in first.iter().zip(&second).enumerate() {
        assert_eq!(first, second, "event {number}");
    }
    assert_eq!(first.len(), second.len());
}
