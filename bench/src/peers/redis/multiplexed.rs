//! Redis through the library that programs in Rust have for it, redis-rs: one of its multiplexed connections, cloned for every
//! client, as its own documentation recommends. All defaults but those that made it faster.

use std::net::SocketAddr;

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Client, Cmd, ConnectionAddr, IntoConnectionInfo, RedisError, Value};

use super::lock::{Carrier, Locker, Scripts};
use super::resp::Reply;
use crate::drive::Workload;
use crate::peers::Way;

/// Commands that may wait to be sent: more than there are clients, so that none waits for room.
const BUFFER: usize = 4096;

/// The way.
pub struct Multiplexed {
    /// The server.
    pub address: SocketAddr,
}

impl Multiplexed {
    /// What it is, with its exact version and settings.
    pub fn settings() -> String {
        let packages = include_str!("../../../../Cargo.lock");
        let version = packages.split_once("name = \"redis\"\nversion = \"").map(|(_, rest)| rest);
        let version = version.and_then(|rest| rest.split('"').next()).unwrap_or_default();
        format!(
            "multiplexed: redis-rs {version}, pipeline_buffer_size {BUFFER}, no response_timeout, all else default"
        )
    }

    async fn open(&self) -> Result<MultiplexedConnection, String> {
        // Without TCP_NODELAY, which is off by default: commands would go out one by one, for less than half of the rate.
        let address = ConnectionAddr::Tcp(self.address.ip().to_string(), self.address.port());
        let info = address.into_connection_info().map_err(told)?;
        let config = AsyncConnectionConfig::new().set_pipeline_buffer_size(BUFFER).set_response_timeout(None);
        let client = Client::open(info).map_err(told)?;
        client.get_multiplexed_async_connection_with_config(&config).await.map_err(told)
    }
}

fn told(error: RedisError) -> String {
    error.to_string()
}

impl Carrier for MultiplexedConnection {
    async fn ask(&mut self, words: &[&[u8]]) -> Result<Reply, String> {
        let mut command = Cmd::new();
        words.iter().for_each(|word| {
            command.arg(*word);
        });
        match command.query_async(self).await.map_err(told)? {
            Value::Okay | Value::SimpleString(_) => Ok(Reply::Word),
            Value::Nil => Ok(Reply::Nil),
            Value::Int(number) => Ok(Reply::Number(number)),
            Value::BulkString(bytes) => Ok(Reply::Bytes(bytes)),
            other => Err(format!("Redis answered {other:?}")),
        }
    }
}

impl Way for Multiplexed {
    type Client = Locker<MultiplexedConnection>;

    async fn clients(&self, count: usize, _: Workload) -> Result<Vec<Self::Client>, String> {
        let mut connection = self.open().await?;
        let scripts = Scripts::load(&mut connection).await?;
        Ok((0..count).map(|_| Locker::new(connection.clone(), scripts.clone())).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_settings_have_the_version() {
        assert!(
            Multiplexed::settings().starts_with("multiplexed: redis-rs 1."),
            "{}",
            Multiplexed::settings()
        );
    }
}
