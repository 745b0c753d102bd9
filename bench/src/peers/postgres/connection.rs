//! One session with a PostgreSQL server: asks and waits for the answer, one question at a time. Knows nothing of locks.

use std::net::SocketAddr;

use bytes::BytesMut;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::wire::{self, Incoming};

/// A session.
pub struct Connection {
    stream: TcpStream,
    read: BytesMut,
    written: BytesMut,
}

impl Connection {
    /// Begins a session as this user, who is trusted.
    pub async fn open(server: SocketAddr, user: &str) -> Result<Connection, String> {
        let stream = TcpStream::connect(server).await.map_err(|error| format!("cannot connect: {error}"))?;
        stream.set_nodelay(true).map_err(|error| error.to_string())?;
        let mut connection = Connection { stream, read: BytesMut::new(), written: BytesMut::new() };
        wire::put_startup(&mut connection.written, user);
        connection.ask().await?;
        Ok(connection)
    }

    /// Runs statements without parameters.
    pub async fn query(&mut self, statements: &str) -> Result<(), String> {
        wire::put_query(&mut self.written, statements);
        self.ask().await.map(drop)
    }

    /// Prepares a statement under a name.
    pub async fn prepare(&mut self, name: &str, statement: &str) -> Result<(), String> {
        wire::put_parse(&mut self.written, name, statement);
        wire::put_sync(&mut self.written);
        self.ask().await.map(drop)
    }

    /// Executes a prepared statement in a transaction of its own; tells how many rows it returned or touched.
    pub async fn execute(&mut self, name: &str, parameters: &[&[u8]]) -> Result<u64, String> {
        wire::put_execute(&mut self.written, name, parameters);
        wire::put_sync(&mut self.written);
        self.ask().await
    }

    /// Sends what was written and hears everything until the server is ready again.
    async fn ask(&mut self) -> Result<u64, String> {
        self.stream.write_all(&self.written).await.map_err(|error| error.to_string())?;
        self.written.clear();
        let mut rows = 0;
        let mut refused = None;
        loop {
            match wire::cut_message(&mut self.read)? {
                Some(Incoming::Ready) => return refused.map_or(Ok(rows), Err),
                Some(Incoming::Done { rows: done }) => rows = done,
                Some(Incoming::Refused { why }) => refused = Some(format!("PostgreSQL says: {why}")),
                Some(Incoming::Trusted | Incoming::Row | Incoming::Other) => {}
                None => match self.stream.read_buf(&mut self.read).await {
                    // A session that is refused at its beginning never becomes ready.
                    Ok(0) => {
                        return Err(refused.unwrap_or_else(|| "PostgreSQL closed the connection".into()));
                    }
                    Ok(_) => {}
                    Err(error) => return Err(error.to_string()),
                },
            }
        }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.written.clear();
        wire::put_terminate(&mut self.written);
        let _ = self.stream.try_write(&self.written);
    }
}
