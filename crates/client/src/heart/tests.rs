//! A heart by hand: what each answer does to the session and to each of its leases.

use std::time::Duration;

use futures_util::FutureExt;

use super::*;
use crate::client::Client;
use crate::hold::Standing;
use crate::keeper::Renewal;
use crate::testing::Server;
use crate::view::Claim;

const TTL_MS: u64 = 24_000;

fn heart(client: &Client) -> Arc<Heart> {
    let (clock, operations) = (Arc::clone(client.clock()), client.operations().clone());
    Arc::new(Heart::new("secret".into(), Keeper::new(Renewal::Timetable), clock, operations))
}

/// An answer to a heartbeat that was decided at once.
fn told(ended: &[(i64, u64)]) -> v1::Session {
    let lease = |(fencing_token, seq): &(i64, u64)| v1::EndedLease {
        lock: "a".into(),
        fencing_token: *fencing_token,
        reason: "broken".into(),
        seq: *seq,
    };
    v1::Session {
        ttl_ms: TTL_MS,
        renew_after_ms: TTL_MS / 3,
        stop_after_ms: TTL_MS / 2,
        ended: ended.iter().map(lease).collect(),
        ..v1::Session::default()
    }
}

/// A lease under it, granted by an attempt that was sent then and is answered now.
fn granted_as(
    client: &Client,
    heart: &Heart,
    (token, progress_within_us): (u64, Option<u64>),
    promise: Promise,
    sent_us: u64,
) -> Arc<Hold> {
    let claim =
        Claim { lock: "a".into(), owner_id: "me".into(), lease_id: "secret".into(), fencing_token: token };
    let (clock, operations) = (Arc::clone(client.clock()), client.operations().clone());
    let mut keeper = Keeper::new(Renewal::Timetable);
    if let Some(within_us) = progress_within_us {
        keeper = keeper.tied_to_progress(within_us, clock.now_us());
    }
    let hold = Arc::new(Hold::new(claim, keeper, clock, operations, Arc::clone(heart.nudge())));
    hold.confirm(promise, sent_us);
    heart.attach(&hold);
    hold
}

fn granted(client: &Client, heart: &Heart, token: u64) -> Arc<Hold> {
    granted_as(client, heart, (token, None), Promise::from(&told(&[])), client.clock().now_us())
}

fn is_broken(hold: &Hold) -> bool {
    hold.look() == Err(Ended::Broken(String::new()))
}

fn left(hold: &Hold) -> Duration {
    match hold.look().map(Standing::from) {
        Ok(Standing::Safe { left } | Standing::InJeopardy { left }) => left,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_grant_that_is_heard_of_after_its_end_is_not_believed() {
    let server = Server::new();
    let client = server.client("me");
    let heart = heart(&client);
    heart.opened(&told(&[]), client.clock().now_us());
    let asking = heart.asking();
    heart.beaten(&told(&[(7, 100)]), client.clock().now_us());
    // Confirmed as seen, it is not named again.
    heart.beaten(&told(&[]), client.clock().now_us());
    assert!(is_broken(&granted(&client, &heart, 7)));
    assert!(granted(&client, &heart, 8).look().is_ok());
    drop(asking);
    assert!(heart.lock().ended_early.is_empty(), "what is granted from now on is newer");
}

#[tokio::test]
async fn takes_off_what_ended_before_it_confirms_the_rest() {
    let server = Server::new();
    let client = server.client("me");
    let heart = heart(&client);
    heart.opened(&told(&[]), client.clock().now_us());
    let (broken, fine) = (granted(&client, &heart, 7), granted(&client, &heart, 8));
    server.clock().jump(Duration::from_secs(9));
    heart.beaten(&told(&[(7, 100)]), client.clock().now_us());
    assert!(is_broken(&broken) && broken.over().is_cancelled());
    assert_eq!(left(&fine), Duration::from_millis(TTL_MS / 2));
}

#[tokio::test]
async fn only_a_heartbeat_says_what_was_seen() {
    let server = Server::new();
    let client = server.client("me");
    let heart = heart(&client);
    heart.opened(&told(&[]), client.clock().now_us());
    let hold = granted(&client, &heart, 7);
    // A notice may have overtaken another that is lost.
    heart.take_off(&told(&[(7, 100)]).ended);
    assert!(is_broken(&hold));
    assert_eq!(heart.lock().seen, None);
    heart.beaten(&told(&[(6, 90), (7, 100)]), client.clock().now_us());
    heart.beaten(&told(&[(6, 90)]), client.clock().now_us());
    assert_eq!(heart.lock().seen, Some(100));
}

#[tokio::test]
async fn a_lease_that_needs_it_earlier_has_a_heartbeat_earlier() {
    let server = Server::new();
    let client = server.client("me");
    let heart = heart(&client);
    let begun_us = client.clock().now_us();
    heart.opened(&told(&[]), begun_us);
    assert!(matches!(heart.turn(), Turn::WaitUntil(at_us) if at_us == begun_us + 8_000_000));
    server.clock().jump(Duration::from_secs(1));
    // Its attempt was under way for a while: it is to be renewed before the session is.
    let promise = Promise { ttl_ms: TTL_MS, renew_after_ms: 3_000, stop_after_ms: 7_000 };
    granted_as(&client, &heart, (7, None), promise, begun_us);
    assert!(matches!(heart.turn(), Turn::WaitUntil(at_us) if at_us == begun_us + 3_000_000));
    server.clock().jump(Duration::from_secs(2));
    assert!(matches!(heart.turn(), Turn::Beat(_)));
    assert!(matches!(heart.turn(), Turn::WaitUntil(at_us) if at_us == begun_us + 4_000_000));
    heart.beaten(&told(&[]), begun_us + 3_000_000);
    assert!(matches!(heart.turn(), Turn::WaitUntil(at_us) if at_us == begun_us + 11_000_000));
}

#[tokio::test]
async fn a_heartbeat_does_not_speak_for_who_is_stuck_until_they_get_on() {
    let server = Server::new();
    let client = server.client("me");
    let heart = heart(&client);
    let begun_us = client.clock().now_us();
    heart.opened(&told(&[]), begun_us);
    let promise = Promise::from(&told(&[]));
    let stuck = granted_as(&client, &heart, (7, Some(1_000_000)), promise, begun_us);
    let lost = granted_as(&client, &heart, (8, Some(1_000_000)), promise, begun_us);
    server.clock().jump(Duration::from_secs(8));
    assert!(matches!(heart.turn(), Turn::Beat(_)));
    heart.beaten(&told(&[]), client.clock().now_us());
    assert_eq!((left(&stuck), left(&lost)), (Duration::from_secs(4), Duration::from_secs(4)));
    assert!(matches!(heart.turn(), Turn::WaitUntil(at_us) if at_us == begun_us + 12_000_000));

    stuck.report_progress();
    assert!(heart.nudge.notified().now_or_never().is_some(), "the task is woken");
    heart.look_at_each();
    assert!(matches!(heart.turn(), Turn::Beat(_)));
    heart.beaten(&told(&[]), client.clock().now_us());
    assert_eq!((left(&stuck), left(&lost)), (Duration::from_secs(12), Duration::from_secs(4)));

    // Nobody keeps the other, but the server would: it is given back when its holder must have stopped.
    server.clock().jump(Duration::from_secs(4));
    let turn = heart.turn();
    assert_eq!(lost.look(), Err(Ended::Lost));
    assert!(matches!(turn, Turn::WaitUntil(at_us) if at_us <= begun_us + 24_000_000));
    assert_eq!(heart.lock().leaving.len(), 1);
    server.clock().jump(Duration::from_secs(2));
    stuck.report_progress();
    heart.beaten(&told(&[]), client.clock().now_us());
    server.clock().jump(Duration::from_secs(10));
    heart.turn();
    assert!(heart.lock().leaving.is_empty());
}
