//! A way to a server that fails when told to. Sits on loopback between a client and a server, and forwards, drops, stalls,
//! dribbles or cuts, each direction by itself; counts connections, and keeps what the client has said.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// What becomes of bytes in one direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// They go on.
    Forward,
    /// They are read and thrown away.
    Drop,
    /// They are not even read; they go on when this ends.
    Stall,
    /// They go on one at a time.
    Dribble,
}

/// What the proxy does now.
#[derive(Clone, Copy, Debug)]
struct Mood {
    to_server: Way,
    to_client: Way,
    /// Connections up to this one are cut.
    cut_through: u64,
    /// Connections up to this one stand still in both directions.
    frozen_through: u64,
}

/// The counts of one proxy.
#[derive(Debug, Default)]
pub struct Counts {
    connections: AtomicU64,
    /// Connections that there are now.
    pub open: AtomicU64,
    /// Bytes that were thrown away, or went on one at a time.
    pub dropped_bytes: AtomicU64,
    pub dribbled_bytes: AtomicU64,
    /// What clients have sent, on all connections together.
    said: Mutex<Vec<u8>>,
}

pub struct Proxy {
    pub address: SocketAddr,
    pub counts: Arc<Counts>,
    mood: watch::Sender<Mood>,
    accepting: tokio::task::JoinHandle<()>,
}

impl Proxy {
    pub async fn to(server: SocketAddr) -> Proxy {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (mood, moods) = watch::channel(Mood {
            to_server: Way::Forward,
            to_client: Way::Forward,
            cut_through: 0,
            frozen_through: 0,
        });
        let counts = Arc::new(Counts::default());
        let accepting = tokio::spawn(accept(listener, server, moods, Arc::clone(&counts)));
        Proxy { address, counts, mood, accepting }
    }

    /// From now on bytes to the server go this way.
    pub fn to_server(&self, way: Way) {
        self.mood.send_modify(|mood| mood.to_server = way);
    }

    /// From now on bytes to the client go this way.
    pub fn to_client(&self, way: Way) {
        self.mood.send_modify(|mood| mood.to_client = way);
    }

    /// Cuts all connections there are. New ones go on.
    pub fn cut(&self) {
        self.cut_through(self.connections());
    }

    /// Cuts the connections up to this one, counted from 1.
    pub fn cut_through(&self, last: u64) {
        self.mood.send_modify(|mood| mood.cut_through = mood.cut_through.max(last));
    }

    /// Stops all connections there are, without a word to either side. New ones go on.
    pub fn freeze(&self) {
        let connections = self.connections();
        self.mood.send_modify(|mood| mood.frozen_through = connections);
    }

    /// The kinds of the HTTP/2 frames that the only client so far has sent over its only connection.
    pub fn frames_to_server(&self) -> Vec<u8> {
        assert_eq!(self.connections(), 1);
        let said = self.counts.said.lock().unwrap();
        let mut rest = said.strip_prefix(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").expect("HTTP/2");
        let mut kinds = Vec::new();
        while let [a, b, c, kind, _flags, _s, _t, _u, _v, after @ ..] = rest {
            let length = u32::from_be_bytes([0, *a, *b, *c]) as usize;
            let Some(next) = after.get(length..) else { break };
            kinds.push(*kind);
            rest = next;
        }
        kinds
    }

    /// How many connections there have been.
    pub fn connections(&self) -> u64 {
        self.counts.connections.load(Ordering::SeqCst)
    }

    pub fn to_server_bytes(&self) -> u64 {
        self.counts.said.lock().unwrap().len() as u64
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.cut();
        self.accepting.abort();
    }
}

async fn accept(listener: TcpListener, server: SocketAddr, mood: watch::Receiver<Mood>, counts: Arc<Counts>) {
    loop {
        let (client, _) = listener.accept().await.unwrap();
        let id = counts.connections.fetch_add(1, Ordering::SeqCst) + 1;
        let (mood, counts) = (mood.clone(), Arc::clone(&counts));
        tokio::spawn(async move {
            // Whoever finds no server behind the proxy is hung up on.
            let Ok(server) = TcpStream::connect(server).await else { return };
            counts.open.fetch_add(1, Ordering::SeqCst);
            client.set_nodelay(true).unwrap();
            server.set_nodelay(true).unwrap();
            let (from_client, to_client) = client.into_split();
            let (from_server, to_server) = server.into_split();
            let there = carry(
                from_client,
                to_server,
                mood.clone(),
                &counts,
                |bytes| {
                    counts.said.lock().unwrap().extend_from_slice(bytes);
                },
                |mood| if id <= mood.frozen_through { Way::Stall } else { mood.to_server },
            );
            let back = carry(
                from_server,
                to_client,
                mood.clone(),
                &counts,
                |_| {},
                |mood| if id <= mood.frozen_through { Way::Stall } else { mood.to_client },
            );
            let mut moods = mood.clone();
            let cut = moods.wait_for(|mood| id <= mood.cut_through);
            tokio::select! {
                () = async { tokio::join!(there, back); } => {}
                _ = cut => {}
            }
            counts.open.fetch_sub(1, Ordering::SeqCst);
        });
    }
}

async fn carry(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    mut mood: watch::Receiver<Mood>,
    counts: &Counts,
    note: impl Fn(&[u8]),
    way: impl Fn(&Mood) -> Way,
) {
    let mut bytes = [0; 16 * 1024];
    loop {
        if mood.wait_for(|mood| way(mood) != Way::Stall).await.is_err() {
            return;
        }
        let length = tokio::select! {
            read = from.read(&mut bytes) => match read {
                Ok(0) | Err(_) => {
                    let _ = to.shutdown().await;
                    return;
                }
                Ok(length) => length,
            },
            _ = mood.changed() => continue,
        };
        note(&bytes[..length]);
        // What was read just before a stall is held back with the rest.
        let Ok(now) = mood.wait_for(|mood| way(mood) != Way::Stall).await.map(|mood| way(&mood)) else {
            return;
        };
        match now {
            Way::Drop => counts.dropped_bytes.fetch_add(length as u64, Ordering::SeqCst),
            Way::Dribble => counts.dribbled_bytes.fetch_add(length as u64, Ordering::SeqCst),
            Way::Forward | Way::Stall => 0,
        };
        let sent = match now {
            Way::Drop => Ok(()),
            Way::Forward | Way::Stall => to.write_all(&bytes[..length]).await,
            Way::Dribble => dribble(&mut to, &bytes[..length]).await,
        };
        if sent.is_err() {
            return;
        }
    }
}

async fn dribble(to: &mut OwnedWriteHalf, bytes: &[u8]) -> std::io::Result<()> {
    for byte in bytes {
        to.write_all(&[*byte]).await?;
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    Ok(())
}
