//! PostgreSQL's advisory locks, held by a session: a connection for each client, a place in the server's own line, nothing on
//! disk, no lease. The server knows them by a number only.

use std::net::SocketAddr;

use super::SUPERUSER;
use super::connection::Connection;
use crate::drive::Workload;
use crate::peers::{LockClient, Way};

/// A connection for each client.
pub struct Sessions {
    /// The server.
    pub address: SocketAddr,
}

impl Way for Sessions {
    type Client = Client;

    async fn clients(&self, count: usize, _workload: Workload) -> Result<Vec<Client>, String> {
        let mut clients = Vec::with_capacity(count);
        for _ in 0..count {
            let mut connection = Connection::open(self.address, SUPERUSER).await?;
            connection.prepare("acquire", "SELECT pg_advisory_lock($1)").await?;
            connection.prepare("release", "SELECT pg_advisory_unlock($1)").await?;
            clients.push(Client { connection });
        }
        Ok(clients)
    }
}

/// A session that locks.
pub struct Client {
    connection: Connection,
}

impl LockClient for Client {
    /// The lock's number.
    type Held = [u8; 8];

    async fn acquire(&mut self, lock: &str) -> Result<[u8; 8], String> {
        let number = number(lock).to_be_bytes();
        self.connection.execute("acquire", &[&number]).await?;
        Ok(number)
    }

    async fn renew(&mut self, _held: &mut [u8; 8]) -> Result<(), String> {
        Err("an advisory lock is not a lease".into())
    }

    async fn release(&mut self, held: [u8; 8]) -> Result<(), String> {
        self.connection.execute("release", &[&held]).await.map(drop)
    }
}

/// A name's number (FNV-1a). Two names with one number would wait for each other, and never hold at once.
fn number(lock: &str) -> u64 {
    lock.bytes()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::number;

    #[test]
    fn names_are_numbered_as_fnv_says() {
        assert_eq!(number(""), 0xcbf2_9ce4_8422_2325);
        assert_eq!(number("a"), 0xaf63_dc4c_8601_ec8c);
    }
}
