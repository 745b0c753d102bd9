//! One session with a ZooKeeper server: requests go out in order and as many at once as there are, answers come back in
//! that order, watches fire once, and the session is kept alive. Knows nothing of locks.

use std::collections::{HashMap, VecDeque};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::{mpsc, oneshot};

use super::jute::{Connected, Incoming, Request, XID_PING, connect_frame, cut_frame};

/// How long a session outlives its last sign of life; also the longest that ZooKeeper's defaults allow is 40 s.
const TIMEOUT_MS: i32 = 30_000;
/// A session that is idle this long is kept alive by a ping.
const PING_EVERY: Duration = Duration::from_secs(8);

/// What a request was answered with.
pub struct Reply {
    /// 0 for none.
    pub error: i32,
    /// What only the one who asked understands.
    pub body: Bytes,
}

impl Reply {
    /// The body, unless the server refused.
    pub fn body(self, what: &str) -> Result<Bytes, String> {
        if self.error == 0 {
            Ok(self.body)
        } else {
            Err(format!("cannot {what}: ZooKeeper says {}", self.error))
        }
    }
}

/// Who waits for what.
#[derive(Default)]
struct Waiting {
    xid: i32,
    replies: VecDeque<(i32, oneshot::Sender<Reply>)>,
    pongs: VecDeque<oneshot::Sender<Reply>>,
    watches: HashMap<String, oneshot::Sender<()>>,
    /// Nothing is answered any more.
    ended: bool,
}

/// A session, which any number of clients may share: ends when the last of them lets go of it.
pub struct Session {
    waiting: Arc<Mutex<Waiting>>,
    outgoing: mpsc::UnboundedSender<Bytes>,
}

impl Session {
    /// Opens a new session on a connection of its own.
    pub async fn open(server: SocketAddr) -> Result<Session, String> {
        let mut stream =
            TcpStream::connect(server).await.map_err(|error| format!("cannot connect: {error}"))?;
        stream.set_nodelay(true).map_err(|error| error.to_string())?;
        stream.write_all(&connect_frame(TIMEOUT_MS)).await.map_err(|error| error.to_string())?;
        let (mut reading, writing) = stream.into_split();
        let mut read = BytesMut::with_capacity(16 * 1024);
        let connected = Connected::read(next_frame(&mut reading, &mut read).await?)?;
        if connected.timeout_ms <= 0 {
            return Err("ZooKeeper gave no session".into());
        }
        let waiting = Arc::new(Mutex::new(Waiting::default()));
        let (outgoing, queue) = mpsc::unbounded_channel();
        tokio::spawn(write(queue, writing, waiting.clone()));
        tokio::spawn({
            let waiting = waiting.clone();
            async move {
                // Whoever still waits learns from the closed channel that nothing comes any more.
                let _ = hear(reading, read, &waiting).await;
                let mut waiting = lock(&waiting);
                *waiting = Waiting { ended: true, ..Waiting::default() };
            }
        });
        Ok(Session { waiting, outgoing })
    }

    /// Sends a request at once; its answer can be waited for later. What one client sends is done in that order.
    pub fn send(&self, request: &Request) -> Answer {
        let (sender, answer) = oneshot::channel();
        let mut waiting = lock(&self.waiting);
        if !waiting.ended {
            let xid = if *request == Request::Ping {
                waiting.pongs.push_back(sender);
                XID_PING
            } else {
                waiting.xid = waiting.xid.checked_add(1).unwrap_or(1);
                let xid = waiting.xid;
                waiting.replies.push_back((xid, sender));
                xid
            };
            // Under the same lock as the queue of those who wait, so that both have one order.
            let _ = self.outgoing.send(request.frame(xid));
        }
        Answer(answer)
    }

    /// Sends a request and waits for its answer.
    pub async fn call(&self, request: &Request) -> Result<Reply, String> {
        self.send(request).wait().await
    }

    /// Reads a node and leaves a watch: what it returns is done when the node changes or is gone. None if it is not there.
    pub async fn watch(&self, path: &str) -> Result<Option<oneshot::Receiver<()>>, String> {
        let (sender, fired) = oneshot::channel();
        lock(&self.waiting).watches.insert(path.to_owned(), sender);
        let reply = self.call(&Request::GetDataAndWatch { path: path.to_owned() }).await?;
        if reply.error == super::jute::NO_NODE {
            lock(&self.waiting).watches.remove(path);
            return Ok(None);
        }
        reply.body("watch a node")?;
        Ok(Some(fired))
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        let _ = self.send(&Request::Close);
    }
}

/// An answer that is on its way.
pub struct Answer(oneshot::Receiver<Reply>);

impl Answer {
    /// Waits for it.
    pub async fn wait(self) -> Result<Reply, String> {
        self.0.await.map_err(|_| "ZooKeeper's session has ended".into())
    }
}

fn lock(waiting: &Mutex<Waiting>) -> MutexGuard<'_, Waiting> {
    waiting.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Writes all that waits in one piece, and pings when nothing does.
async fn write(
    mut queue: mpsc::UnboundedReceiver<Bytes>,
    mut stream: OwnedWriteHalf,
    waiting: Arc<Mutex<Waiting>>,
) {
    let mut out = BytesMut::new();
    loop {
        match tokio::time::timeout(PING_EVERY, queue.recv()).await {
            Ok(None) => return,
            Ok(Some(frame)) => out.extend_from_slice(&frame),
            Err(_) => {
                lock(&waiting).pongs.push_back(oneshot::channel().0);
                out.extend_from_slice(&Request::Ping.frame(XID_PING));
            }
        }
        while let Ok(frame) = queue.try_recv() {
            out.extend_from_slice(&frame);
        }
        if stream.write_all(&out).await.is_err() {
            return;
        }
        out.clear();
    }
}

/// Hands every frame to the one who waits for it, until the connection ends.
async fn hear(mut stream: OwnedReadHalf, mut read: BytesMut, waiting: &Mutex<Waiting>) -> Result<(), String> {
    loop {
        let frame = next_frame(&mut stream, &mut read).await?;
        let incoming = Incoming::read(frame)?;
        let mut waiting = lock(waiting);
        match incoming {
            Incoming::Notification { path } => {
                waiting.watches.remove(&path).map(|watch| watch.send(()));
            }
            Incoming::Pong => {
                let pong = waiting.pongs.pop_front();
                pong.map(|pong| pong.send(Reply { error: 0, body: Bytes::new() }));
            }
            Incoming::Reply { xid, error, body } => {
                let (asked, reply) = waiting.replies.pop_front().ok_or("an answer to nothing")?;
                if asked != xid {
                    return Err(format!("an answer to request {xid} where one to {asked} was due"));
                }
                let _ = reply.send(Reply { error, body });
            }
        }
    }
}

async fn next_frame(stream: &mut OwnedReadHalf, read: &mut BytesMut) -> Result<Bytes, String> {
    loop {
        if let Some(frame) = cut_frame(read)? {
            return Ok(frame);
        }
        match stream.read_buf(read).await {
            Ok(0) => return Err("ZooKeeper closed the connection".into()),
            Ok(_) => {}
            Err(error) => return Err(error.to_string()),
        }
    }
}
