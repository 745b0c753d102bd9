//! One of many processes leads, the others follow and know whom.
//!
//! Needs a server: `leasehold serve --in-memory` in another terminal. Then start this several times, and end the one that
//! leads with ctrl-c: it resigns, and the next in line leads at once. Kill it, and the next leads within the TTL.
//!
//! ```text
//! cargo run -p leasehold-client --example run_as_leader
//! ```

use std::time::Duration;

use leasehold_client::{Client, Error, Following, Leader, Next, Term, Ttl};
use tokio_util::sync::CancellationToken;

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
    let stop = CancellationToken::new();
    let ctrl_c = stop.clone();
    tokio::spawn(async move {
        let _ = tokio::signal::ctrl_c().await;
        ctrl_c.cancel();
    });
    println!("{} is a candidate", client.owner());
    Leader::new(&client, "scheduler")
        .ttl(Ttl::SHORT)
        .value(format!("started by process {}", std::process::id()))
        .stopped_by(stop)
        .run(lead, follow)
        .await?;
    println!("gone");
    Ok(())
}

async fn lead(term: Term) -> Next {
    let stopping = term.stopping();
    loop {
        // The token goes with everything that only a leader may do. It is looked up each time, so that a process that was
        // paused does not go on with one that is over.
        match term.token() {
            Ok(token) => println!("leading with token {token}"),
            Err(error) => println!("not leading any more: {error}"),
        }
        tokio::select! {
            () = stopping.cancelled() => return Next::Again,
            () = tokio::time::sleep(Duration::from_secs(2)) => {}
        }
    }
}

async fn follow(mut following: Following) {
    loop {
        match following.changed().await {
            Some(leader) => println!(
                "following {} ({})",
                leader.owner_id,
                leader.value.as_deref().unwrap_or("nothing published")
            ),
            None => println!("nobody leads"),
        }
    }
}
