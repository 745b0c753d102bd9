//! A number of connections that clients take turns with, as an application's pool has it. Whoever waited longest is next.

use std::sync::{Mutex, PoisonError};

use tokio::sync::Semaphore;

use super::connection::Connection;

/// The pool.
pub struct Pool {
    idle: Mutex<Vec<Connection>>,
    free: Semaphore,
}

impl Pool {
    /// Of these connections.
    pub fn new(connections: Vec<Connection>) -> Pool {
        Pool { free: Semaphore::new(connections.len()), idle: Mutex::new(connections) }
    }

    /// Executes a prepared statement on any connection, when there is one. One that failed is not used again.
    pub async fn execute(&self, name: &str, parameters: &[&[u8]]) -> Result<u64, String> {
        let _turn = self.free.acquire().await.map_err(|error| error.to_string())?;
        let taken = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let mut connection = taken.ok_or("all connections have failed")?;
        let rows = connection.execute(name, parameters).await?;
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).push(connection);
        Ok(rows)
    }
}
