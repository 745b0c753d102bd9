//! Redis with a connection for each client, one command after the other.

use std::net::SocketAddr;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::lock::{Carrier, Locker, Scripts};
use super::resp::{Reply, command, reply};
use crate::drive::Workload;
use crate::peers::Way;

/// The way.
pub struct Connections {
    /// The server.
    pub address: SocketAddr,
}

/// One client's connection.
pub struct Connection {
    stream: TcpStream,
    out: Vec<u8>,
    heard: Vec<u8>,
}

impl Connection {
    async fn open(address: SocketAddr) -> Result<Connection, String> {
        let stream = TcpStream::connect(address).await.map_err(|error| format!("{address}: {error}"))?;
        stream.set_nodelay(true).map_err(|error| error.to_string())?;
        Ok(Connection { stream, out: Vec::new(), heard: Vec::new() })
    }
}

impl Carrier for Connection {
    async fn ask(&mut self, words: &[&[u8]]) -> Result<Reply, String> {
        self.out.clear();
        self.heard.clear();
        command(&mut self.out, words);
        self.stream.write_all(&self.out).await.map_err(|error| error.to_string())?;
        loop {
            match self.stream.read_buf(&mut self.heard).await.map_err(|error| error.to_string())? {
                0 => return Err("Redis closed the connection".to_owned()),
                _ => {
                    if let Some((reply, _)) = reply(&self.heard)? {
                        return Ok(reply);
                    }
                }
            }
        }
    }
}

impl Way for Connections {
    type Client = Locker<Connection>;

    async fn clients(&self, count: usize, _: Workload) -> Result<Vec<Locker<Connection>>, String> {
        let scripts = Scripts::load(&mut Connection::open(self.address).await?).await?;
        let mut clients = Vec::with_capacity(count);
        for _ in 0..count {
            clients.push(Locker::new(Connection::open(self.address).await?, scripts.clone()));
        }
        Ok(clients)
    }
}
