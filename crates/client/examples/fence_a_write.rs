//! What a fencing token is for: a store that has seen a newer token refuses the older one, so that a holder which slept
//! through the loss of its lock cannot do harm when it wakes.
//!
//! Needs a server: `leasehold serve --in-memory` in another terminal.
//!
//! ```text
//! cargo run -p leasehold-client --example fence_a_write
//! ```

use leasehold_client::{Client, Error, Lock, LockOptions, Ttl};

/// A store that compares tokens. A database does it in one statement:
/// `UPDATE ... SET value = ?, token = ? WHERE id = ? AND token <= ?`.
#[derive(Default)]
struct Store {
    highest_token: u64,
    value: String,
}

impl Store {
    /// Accepts a write whose token is no older than the newest that was seen.
    fn write(&mut self, token: u64, value: &str) -> Result<(), String> {
        if token < self.highest_token {
            return Err(format!("token {token} is stale: {} was seen", self.highest_token));
        }
        self.highest_token = token;
        self.value = value.into();
        Ok(())
    }
}

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
    let lock = Lock::new(&client, "fenced-store");
    let mut store = Store::default();

    let first = lock.lock(Ttl::SHORT, LockOptions::default()).await?;
    let old_token = first.token()?;
    println!("the first holder writes: {:?}", store.write(old_token, "by the first"));
    // Imagine that it is paused here for so long that its lease ends. Giving it back does the same, only sooner.
    first.unlock().await?;

    let second = lock.lock(Ttl::SHORT, LockOptions::default()).await?;
    println!("the second holder writes: {:?}", store.write(second.token()?, "by the second"));

    // The first wakes up and still has its old token in hand.
    match store.write(old_token, "by the first, much too late") {
        Ok(()) => println!("the store was harmed"),
        Err(refusal) => println!("the first holder writes again, and is refused: {refusal}"),
    }
    println!("the store says: {:?}", store.value);
    second.unlock().await
}
