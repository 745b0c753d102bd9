//! A way to a server that fails when told to. Sits on loopback between a client and a server, and forwards, drops, stalls,
//! dribbles or cuts, each direction by itself; counts connections and bytes.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
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
    /// Connections of an earlier generation are cut.
    generation: u64,
    server: SocketAddr,
}

/// The counts of one proxy.
#[derive(Debug, Default)]
pub struct Counts {
    pub connections: AtomicU64,
    pub to_server_bytes: AtomicU64,
    pub to_client_bytes: AtomicU64,
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
        let (mood, moods) =
            watch::channel(Mood { to_server: Way::Forward, to_client: Way::Forward, generation: 0, server });
        let counts = Arc::new(Counts::default());
        let accepting = tokio::spawn(accept(listener, moods, Arc::clone(&counts)));
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

    /// From now on new connections go to this server.
    pub fn lead_to(&self, server: SocketAddr) {
        self.mood.send_modify(|mood| mood.server = server);
    }

    /// Cuts all connections there are. New ones go on.
    pub fn cut(&self) {
        self.mood.send_modify(|mood| mood.generation += 1);
    }

    /// How many connections there have been.
    pub fn connections(&self) -> u64 {
        self.counts.connections.load(Ordering::SeqCst)
    }

    pub fn to_server_bytes(&self) -> u64 {
        self.counts.to_server_bytes.load(Ordering::SeqCst)
    }

    pub fn to_client_bytes(&self) -> u64 {
        self.counts.to_client_bytes.load(Ordering::SeqCst)
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.cut();
        self.accepting.abort();
    }
}

async fn accept(listener: TcpListener, mood: watch::Receiver<Mood>, counts: Arc<Counts>) {
    loop {
        let (client, _) = listener.accept().await.unwrap();
        counts.connections.fetch_add(1, Ordering::SeqCst);
        let (mood, counts) = (mood.clone(), Arc::clone(&counts));
        tokio::spawn(async move {
            let born = *mood.borrow();
            // Whoever finds no server behind the proxy is hung up on.
            let Ok(server) = TcpStream::connect(born.server).await else { return };
            client.set_nodelay(true).unwrap();
            server.set_nodelay(true).unwrap();
            let (from_client, to_client) = client.into_split();
            let (from_server, to_server) = server.into_split();
            let there =
                carry(from_client, to_server, mood.clone(), |mood| mood.to_server, &counts.to_server_bytes);
            let back =
                carry(from_server, to_client, mood.clone(), |mood| mood.to_client, &counts.to_client_bytes);
            let mut moods = mood.clone();
            let cut = moods.wait_for(|mood| mood.generation != born.generation);
            tokio::select! {
                () = async { tokio::join!(there, back); } => {}
                _ = cut => {}
            }
        });
    }
}

async fn carry(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    mut mood: watch::Receiver<Mood>,
    way: fn(&Mood) -> Way,
    count: &AtomicU64,
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
        count.fetch_add(length as u64, Ordering::SeqCst);
        // What was read just before a stall is held back with the rest.
        let Ok(now) = mood.wait_for(|mood| way(mood) != Way::Stall).await.map(|mood| way(&mood)) else {
            return;
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
