//! A server in memory and a clock that the test turns: tests for what a program does when it loses its lock, waits for
//! somebody, or leads. They take microseconds, need no socket and never sleep.
//!
//! It is not a mock. Behind [`Server`] runs the engine of the real server, and what its clients are told is what they would
//! be told over the network, word for word. [`Server::client`] gives clients like any other: the program under test cannot
//! tell the difference. Time stands still until the test lets it pass: some time with [`TestClock::advance`], or as much as
//! something takes with [`TestClock::wait_for`]. Then everything that is due happens, each thing at exactly its own moment.
//!
//! Add the feature to the dependencies for development, and keep it out of the program:
//!
//! ```toml
//! [dev-dependencies]
//! leasehold-client = { version = "0.1", features = ["testing"] }
//! ```
//!
//! Tests run on tokio's current-thread runtime, the one that `#[tokio::test]` gives by itself. (The examples below are whole
//! programs, so that they can be run; in a test each would be a function with that attribute.)
//!
//! # A worker that loses its lock
//!
//! Half of the TTL after the last word from the server the lock is lost, whatever the worker is doing:
//!
//! ```
//! use std::time::Duration;
//!
//! use leasehold_client::testing::Server;
//! use leasehold_client::{Client, Lock, LockOptions};
//!
//! const TTL: Duration = Duration::from_secs(30);
//!
//! /// The program under test: works until it is done, or until it may not go on.
//! async fn work(client: Client) -> &'static str {
//!     let Ok(guard) = Lock::new(&client, "report").lock(TTL, LockOptions::default()).await else {
//!         return "never began";
//!     };
//!     let endless = std::future::pending::<()>();
//!     match guard.run(endless).await {
//!         Ok(()) => "done",
//!         Err(_) => "stopped",
//!     }
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() {
//! let server = Server::new();
//! let client = server.client("worker-1");
//! let worker = tokio::spawn(work(client.clone()));
//!
//! server.clock().advance(Duration::from_secs(3600)).await;
//! assert_eq!(server.holders("report")[0].owner_id, "worker-1");
//!
//! server.partition(&client);
//! server.clock().advance(TTL / 2).await;
//! assert!(worker.is_finished());
//! assert_eq!(worker.await.unwrap(), "stopped");
//! // The server does not know that, and keeps its promise to the worker for the other half.
//! assert_eq!(server.holders("report").len(), 1);
//! # }
//! ```
//!
//! [`Server::freeze`], [`Server::cut`], [`Server::crash`], [`Server::lose_replies`] and [`Server::break_lock`] do to it what
//! else can happen; [`TestClock::jump`] stops the whole program and [`Server::suspend`] one client, as a suspended machine
//! or SIGSTOP does.
//!
//! # Two workers that want the same
//!
//! ```
//! use std::time::Duration;
//!
//! use leasehold_client::testing::Server;
//! use leasehold_client::{Lock, LockOptions, Ttl};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), leasehold_client::Error> {
//! let server = Server::new();
//! let (one, two) = (server.client("one"), server.client("two"));
//! let guard = Lock::new(&one, "invoices").lock(Ttl::SHORT, LockOptions::default()).await?;
//! let token = guard.token()?;
//!
//! let waiting = tokio::spawn(async move {
//!     Lock::new(&two, "invoices").lock(Ttl::SHORT, LockOptions::default()).await
//! });
//! server.clock().settle().await;
//! assert_eq!(server.waiters("invoices")[0].owner_id, "two");
//!
//! // The first stops for a minute, as if somebody had closed the lid. Its ten seconds run out, and the other goes on.
//! server.suspend(&one);
//! server.clock().advance(Duration::from_secs(60)).await;
//! let other = waiting.await.expect("it did not panic")?;
//! assert!(other.token()? > token);
//!
//! // When it wakes up, its first look tells.
//! server.resume(&one);
//! assert!(guard.token().is_err());
//! # Ok(())
//! # }
//! ```
//!
//! # A leader that hands over
//!
//! ```
//! use std::time::Duration;
//!
//! use leasehold_client::testing::Server;
//! use leasehold_client::{Client, Leader, Next};
//! use tokio_util::sync::CancellationToken;
//!
//! async fn serve(client: Client, stop: CancellationToken) {
//!     let leading = |term: leasehold_client::Term| async move {
//!         term.stopping().cancelled().await;
//!         Next::Again
//!     };
//!     let following = |_| std::future::pending();
//!     let leader = Leader::new(&client, "scheduler").stopped_by(stop);
//!     leader.run(leading, following).await.unwrap();
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() {
//! let server = Server::new();
//! let stop = CancellationToken::new();
//! tokio::spawn(serve(server.client("first"), stop.clone()));
//! server.clock().settle().await;
//! tokio::spawn(serve(server.client("second"), CancellationToken::new()));
//! server.clock().advance(Duration::from_secs(600)).await;
//! assert_eq!(server.holders("scheduler")[0].owner_id, "first");
//!
//! // It resigns, and the other leads without any time passing.
//! stop.cancel();
//! server.clock().settle().await;
//! assert_eq!(server.holders("scheduler")[0].owner_id, "second");
//! # }
//! ```
//!
//! # What a test does not see here
//!
//! Sockets, TLS, and how long a disk takes. A test that waits for real I/O or for a blocking thread waits for it before it
//! turns the clock: [`TestClock::advance`] knows when tasks rest, not when the world does. Code that sleeps by tokio's own
//! timers sleeps in earnest, unless the test pauses them (`#[tokio::test(start_paused = true)]`): then they are turned along.

mod tokio_time;

mod clock;

mod weather;

mod life;
mod memory;

mod machine;

mod carrier;
mod wire;

mod server;

pub use clock::TestClock;
pub use server::Server;
