//! A lease as a row of a PostgreSQL table, as many applications make their own: whoever can insert the row, or finds it
//! expired, holds the lock. Durable: a transaction is answered when it is on disk. Waits by asking again.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use super::SUPERUSER;
use super::connection::Connection;
use super::pool::Pool;
use crate::drive::{TTL, Workload};
use crate::peers::{LockClient, Way};

/// The table.
pub const TABLE: &str = "CREATE TABLE leases \
     (name text PRIMARY KEY, owner bigint NOT NULL, expires timestamptz NOT NULL)";
/// Returns a row if the lock is held now.
pub const ACQUIRE: &str = "INSERT INTO leases AS lease (name, owner, expires) \
     VALUES ($1, $2, now() + $3 * interval '1 second') \
     ON CONFLICT (name) DO UPDATE SET owner = excluded.owner, expires = excluded.expires \
     WHERE lease.expires < now() RETURNING owner";
/// The same for one who waits: looks first, so that asking in vain writes nothing and waits for no disk.
const ACQUIRE_AGAIN: &str = "INSERT INTO leases AS lease (name, owner, expires) \
     SELECT $1::text, $2::bigint, now() + $3::float8 * interval '1 second' \
     WHERE NOT EXISTS (SELECT FROM leases WHERE name = $1::text AND expires >= now()) \
     ON CONFLICT (name) DO UPDATE SET owner = excluded.owner, expires = excluded.expires \
     WHERE lease.expires < now() RETURNING owner";
const RENEW: &str = "UPDATE leases SET expires = now() + $3 * interval '1 second' \
     WHERE name = $1 AND owner = $2 AND expires > now()";
const RELEASE: &str = "DELETE FROM leases WHERE name = $1 AND owner = $2";

/// The first pause of one who waits; each after it is twice as long.
const PAUSE_FIRST: Duration = Duration::from_millis(1);
/// The longest pause.
const PAUSE_LONGEST: Duration = Duration::from_millis(16);

/// Clients on a pool of connections.
pub struct Pooled {
    /// The server.
    pub address: SocketAddr,
    /// As many connections at most; fewer where there are fewer clients.
    pub connections_max: usize,
}

impl Way for Pooled {
    type Client = Client;

    async fn clients(&self, count: usize, _workload: Workload) -> Result<Vec<Client>, String> {
        /// No two clients are the same owner, not even of two measurements.
        static OWNERS: AtomicI64 = AtomicI64::new(0);
        let mut connections = Vec::new();
        for _ in 0..count.min(self.connections_max) {
            let mut connection = Connection::open(self.address, SUPERUSER).await?;
            connection.prepare("acquire", ACQUIRE).await?;
            connection.prepare("acquire-again", ACQUIRE_AGAIN).await?;
            connection.prepare("renew", RENEW).await?;
            connection.prepare("release", RELEASE).await?;
            connections.push(connection);
        }
        let pool = Arc::new(Pool::new(connections));
        let client =
            |_| Client { pool: Arc::clone(&pool), owner: OWNERS.fetch_add(1, Ordering::Relaxed), draw: 0 };
        Ok((0..count).map(client).collect())
    }
}

/// An owner of leases.
pub struct Client {
    pool: Arc<Pool>,
    owner: i64,
    /// How many pauses it drew.
    draw: u64,
}

impl Client {
    async fn execute(&self, statement: &str, lock: &str, ttl: Option<Duration>) -> Result<bool, String> {
        let owner = self.owner.to_be_bytes();
        let ttl = ttl.map(|ttl| ttl.as_secs_f64().to_be_bytes());
        let mut parameters: Vec<&[u8]> = vec![lock.as_bytes(), &owner];
        parameters.extend(ttl.as_ref().map(|ttl| &ttl[..]));
        Ok(self.pool.execute(statement, &parameters).await? == 1)
    }

    /// Between half of a pause and all of it, so that those who wait do not ask in step.
    fn jittered(&mut self, pause: Duration) -> Duration {
        self.draw += 1;
        let mixed = (self.owner as u64 ^ self.draw.rotate_left(32)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        pause / 2 + (pause / 2).mul_f64((mixed >> 40) as f64 / f64::from(1 << 24))
    }
}

impl LockClient for Client {
    /// The lock's name.
    type Held = String;

    async fn acquire(&mut self, lock: &str) -> Result<String, String> {
        let mut pause = PAUSE_FIRST;
        let mut held = self.execute("acquire", lock, Some(TTL)).await?;
        while !held {
            tokio::time::sleep(self.jittered(pause)).await;
            pause = (pause * 2).min(PAUSE_LONGEST);
            held = self.execute("acquire-again", lock, Some(TTL)).await?;
        }
        Ok(lock.to_owned())
    }

    async fn renew(&mut self, held: &mut String) -> Result<(), String> {
        let renewed = self.execute("renew", held, Some(TTL)).await?;
        if renewed { Ok(()) } else { Err("a row was gone before its renewal".into()) }
    }

    async fn release(&mut self, held: String) -> Result<(), String> {
        let released = self.execute("release", &held, None).await?;
        if released { Ok(()) } else { Err("a row was gone before its release".into()) }
    }
}
