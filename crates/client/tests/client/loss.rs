//! The client stops before anybody else may start: servers that fall silent, answers that are late, runtimes that starve,
//! holders that are stuck.

use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use leasehold_client::{Ended, Error, Guard, Lock, LockOptions, Standing};
use tokio::task::JoinHandle;

use crate::proxy::{Proxy, Way};
use crate::server::{PATIENCE, Server, client};

/// Long enough for a machine that is busy with other things.
const TTL: Duration = Duration::from_secs(6);

fn plain() -> LockOptions {
    LockOptions::default()
}

const LOST: Error = Error::Ended(Ended::Lost);

/// Somebody else who wants it, by a way of their own.
fn next_in_line(server: &Server, lock: &'static str) -> JoinHandle<(u64, Instant)> {
    let address = server.address;
    tokio::spawn(async move {
        let guard = Lock::new(&client(address, "next").await, lock).lock(TTL, plain()).await.unwrap();
        (guard.token().unwrap(), Instant::now())
    })
}

/// The guard's signal fires, and says the same to whoever looks.
async fn lost(guard: &Guard) -> Instant {
    tokio::time::timeout(PATIENCE, guard.lost().cancelled()).await.expect("the signal fires");
    let at = Instant::now();
    assert_eq!(guard.standing(), Standing::Lost);
    assert_eq!(guard.token(), Err(LOST));
    at
}

#[tokio::test]
async fn a_server_that_falls_silent_costs_the_lock_at_half_the_ttl() {
    let server = Server::start();
    let proxy = Proxy::to(server.address).await;
    let holder = client(proxy.address, "holder").await;
    let guard = Lock::new(&holder, "deploy").lock(TTL, plain()).await.unwrap();
    let next = next_in_line(&server, "deploy");
    let silent = Instant::now();
    proxy.to_server(Way::Stall);
    proxy.to_client(Way::Stall);
    assert!(matches!(guard.standing(), Standing::Safe { .. }));
    let at = lost(&guard).await;
    assert!(at - silent <= TTL / 2 + TTL / 8, "{:?}", at - silent);
    assert!(!next.is_finished(), "nobody else has it yet");
    let (token, granted) = next.await.unwrap();
    assert!(granted > at);
    // The old holder comes back and says all it has to say: nothing changes.
    proxy.to_server(Way::Forward);
    proxy.to_client(Way::Forward);
    let other = server.client("other").await;
    assert_eq!(guard.unlock().await, Err(LOST));
    holder.get("deploy").await.unwrap();
    assert!(other.get("deploy").await.unwrap().last_token.is_none_or(|last| last == token));
}

#[tokio::test]
async fn answers_that_come_too_late_change_nothing() {
    let server = Server::start();
    let proxy = Proxy::to(server.address).await;
    let guard = Lock::new(&client(proxy.address, "holder").await, "deploy").lock(TTL, plain()).await.unwrap();
    // Renewals arrive, and are carried out; their answers are held up.
    proxy.to_client(Way::Stall);
    lost(&guard).await;
    let other = server.client("other").await;
    assert!(other.get("deploy").await.unwrap().is_held(), "the server believes in it");
    proxy.to_client(Way::Forward);
    let next = next_in_line(&server, "deploy");
    for _ in 0..20 {
        assert_eq!((guard.standing(), guard.token()), (Standing::Lost, Err(LOST)));
        tokio::time::sleep(Duration::from_millis(25)).await;
    }
    // It has stopped: the client releases, and nobody waits for the deadline.
    drop(guard);
    next.await.unwrap();
}

#[tokio::test]
async fn a_lost_reply_leads_to_the_same_token_and_to_an_end_in_time() {
    let server = Server::start();
    let proxy = Proxy::to(server.address).await;
    let holder = client(proxy.address, "holder").await;
    let other = server.client("other").await;
    proxy.to_client(Way::Drop);
    let locking = tokio::spawn({
        let holder = holder.clone();
        async move { Lock::new(&holder, "deploy").lock(TTL, plain().never_renew()).await }
    });
    let granted = loop {
        match other.get("deploy").await.unwrap().holders.first() {
            Some(holder) => break holder.fencing_token,
            None => tokio::task::yield_now().await,
        }
    };
    let next = next_in_line(&server, "deploy");
    // Committed, and not heard of for a good part of the TTL; then the retry is answered.
    tokio::time::sleep(TTL / 3).await;
    proxy.to_client(Way::Forward);
    proxy.cut();
    let guard = locking.await.unwrap().unwrap();
    assert_eq!(guard.token(), Ok(granted));
    let at = lost(&guard).await;
    assert!(!next.is_finished(), "nobody else has it yet");
    assert!(next.await.unwrap().1 > at);
}

#[tokio::test]
async fn a_starved_runtime_sees_at_its_first_look_that_it_lost() {
    let server = Server::start();
    let holder = server.client("holder").await;
    let ttl = Duration::from_secs(2);
    let guard = Lock::new(&holder, "deploy").lock(ttl, plain()).await.unwrap();
    let signal = guard.lost();
    // This test has one thread, and everything that could renew or fire is on it.
    std::thread::sleep(ttl / 2 + ttl / 8);
    assert!(!signal.is_cancelled(), "nobody has looked");
    assert_eq!(guard.token(), Err(LOST));
    assert!(signal.is_cancelled(), "whoever looks fires the signal");
    let ran = guard.run(async { panic!("it is not begun") }).await;
    assert_eq!(ran, Err::<(), _>(LOST));
}

#[test]
fn a_guard_that_outlives_its_runtime_is_lost_in_time_and_dropped_in_peace() {
    let server = Server::start();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let ttl = Duration::from_secs(2);
    let guard = runtime.block_on(async {
        Lock::new(&server.client("holder").await, "deploy").lock(ttl, plain()).await.unwrap()
    });
    let signal = guard.lost();
    drop(runtime);
    std::thread::sleep(ttl / 2);
    assert_eq!(guard.token(), Err(LOST));
    assert!(signal.is_cancelled());
    drop(guard);
}

#[tokio::test]
async fn what_runs_under_the_lock_is_dropped_when_it_is_lost() {
    struct Work(Arc<OnceLock<Instant>>);
    impl Drop for Work {
        fn drop(&mut self) {
            self.0.set(Instant::now()).unwrap();
        }
    }
    let server = Server::start();
    let proxy = Proxy::to(server.address).await;
    let guard = Lock::new(&client(proxy.address, "holder").await, "deploy").lock(TTL, plain()).await.unwrap();
    assert_eq!(guard.run(async { 7 }).await, Ok(7));
    let next = next_in_line(&server, "deploy");
    proxy.to_server(Way::Stall);
    let dropped = Arc::default();
    let work = Work(Arc::clone(&dropped));
    let ran = guard
        .run(async move {
            let _work = work;
            std::future::pending::<()>().await
        })
        .await;
    assert_eq!(ran, Err(LOST));
    let at = *dropped.get().unwrap();
    assert!(!next.is_finished());
    assert!(next.await.unwrap().1 > at);
}

#[tokio::test]
async fn a_stuck_holder_does_not_keep_its_lock() {
    let server = Server::start();
    let holder = server.client("holder").await;
    let ttl = Duration::from_secs(3);
    let tied = plain().tied_to_progress(Duration::from_secs(1));
    let guard = Lock::new(&holder, "deploy").lock(ttl, tied).await.unwrap();
    // It gets on for longer than it could without renewals...
    let begun = Instant::now();
    while begun.elapsed() < ttl {
        tokio::time::sleep(Duration::from_millis(50)).await;
        guard.progress();
    }
    assert!(guard.token().is_ok());
    // ...and then it does not.
    let next = next_in_line(&server, "deploy");
    lost(&guard).await;
    guard.progress();
    assert_eq!(guard.token(), Err(LOST), "for good");
    next.await.unwrap();
}

#[tokio::test]
async fn without_renewals_it_is_lost_at_half_the_ttl() {
    let server = Server::start();
    let holder = server.client("holder").await;
    let ttl = Duration::from_secs(2);
    let asked = Instant::now();
    let guard = Lock::new(&holder, "deploy").lock(ttl, plain().never_renew()).await.unwrap();
    let Standing::Safe { left } = guard.standing() else { panic!("it is fresh") };
    assert!(left <= ttl / 2);
    lost(&guard).await;
    assert!(asked.elapsed() >= ttl / 2 - Duration::from_millis(5), "{:?}", asked.elapsed());
}
