//! Runs a job on one machine at a time, however many start it.
//!
//! Needs a server: `leasehold serve --in-memory` in another terminal. Then start this twice; the second waits for the first.
//!
//! ```text
//! cargo run -p leasehold-client --example lock_a_job
//! ```

use std::time::Duration;

use leasehold_client::{Client, Error, Lock, LockOptions, Ttl};

#[tokio::main]
async fn main() -> Result<(), Error> {
    let server = std::env::var("LEASEHOLD_SERVER").unwrap_or_else(|_| "127.0.0.1:7420".into());
    let client = match Client::connect(&server).await {
        Ok(client) => client,
        Err(error) => {
            eprintln!("{error}\nStart a server first: leasehold serve --in-memory");
            return Err(error);
        }
    };
    let lock = Lock::new(&client, "nightly-report");
    if let Some(holder) = lock.lease().holder().await? {
        println!("{} is at it; waiting in line", holder.owner_id);
    }
    let guard = lock.lock(Ttl::SHORT, LockOptions::default()).await?;
    println!("the job is ours, with token {}", guard.token()?);

    // The job is dropped when the lock is lost, so that it never runs beside another.
    let done = guard
        .run(async {
            for part in 1..=5 {
                tokio::time::sleep(Duration::from_secs(1)).await;
                println!("part {part} of 5 is done");
            }
        })
        .await;
    match done {
        Ok(()) => println!("the report is ready"),
        Err(error) => println!("stopped: {error}"),
    }
    guard.unlock().await
}
