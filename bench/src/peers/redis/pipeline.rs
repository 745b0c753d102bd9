//! Redis with one connection that all clients share: whatever waits to be sent goes in one write, and replies are matched to
//! those who asked by their order. As good as we could make it, because this is what Leasehold is measured against.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::Notify;

use super::lock::{Carrier, Locker, Scripts};
use super::resp::{Reply, command, reply};
use crate::drive::Workload;
use crate::peers::Way;

/// What is read at once.
const READ_BYTES: usize = 64 << 10;

/// The way.
pub struct Pipelined {
    /// The server.
    pub address: SocketAddr,
}

/// The connection that all share.
struct Pipe {
    lane: Mutex<Lane>,
    /// Wakes the writer.
    more: Notify,
}

#[derive(Default)]
struct Lane {
    out: Vec<u8>,
    /// Whose replies come next, in the order in which they asked.
    asked: VecDeque<Arc<Slot>>,
    /// The writer was told that there is something.
    told: bool,
    broken: Option<String>,
}

/// Where a client finds its reply.
#[derive(Default)]
struct Slot(Mutex<Answer>);

#[derive(Default)]
struct Answer {
    reply: Option<Result<Reply, String>>,
    waker: Option<Waker>,
}

impl Slot {
    fn fill(&self, reply: Result<Reply, String>) {
        let mut answer = lock(&self.0);
        answer.reply = Some(reply);
        let waker = answer.waker.take();
        drop(answer);
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Pipe {
    async fn open(address: SocketAddr) -> Result<Arc<Pipe>, String> {
        let stream = TcpStream::connect(address).await.map_err(|error| format!("{address}: {error}"))?;
        stream.set_nodelay(true).map_err(|error| error.to_string())?;
        let (reads, writes) = stream.into_split();
        let pipe = Arc::new(Pipe { lane: Mutex::default(), more: Notify::new() });
        tokio::spawn(send(Arc::clone(&pipe), writes));
        tokio::spawn(hear(Arc::clone(&pipe), reads));
        Ok(pipe)
    }

    /// Nothing more will come: everybody who waits is told so, and who comes later.
    fn fail(&self, why: &str) {
        let mut lane = lock(&self.lane);
        lane.broken = Some(why.to_owned());
        let waiting = std::mem::take(&mut lane.asked);
        drop(lane);
        waiting.iter().for_each(|slot| slot.fill(Err(why.to_owned())));
    }
}

/// Writes whatever waits, all of it at once. Lets others go first before each write, so that what those ask who were answered
/// together goes together.
async fn send(pipe: Arc<Pipe>, mut writes: OwnedWriteHalf) {
    let mut out = Vec::new();
    loop {
        pipe.more.notified().await;
        tokio::task::yield_now().await;
        {
            let mut lane = lock(&pipe.lane);
            lane.told = false;
            std::mem::swap(&mut out, &mut lane.out);
        }
        if let Err(error) = writes.write_all(&out).await {
            return pipe.fail(&error.to_string());
        }
        out.clear();
    }
}

/// Reads replies, and gives all that came at once to those who asked.
async fn hear(pipe: Arc<Pipe>, mut reads: OwnedReadHalf) {
    let mut heard = Vec::with_capacity(READ_BYTES);
    let (mut replies, mut slots) = (Vec::new(), Vec::new());
    loop {
        match reads.read_buf(&mut heard).await {
            Ok(0) => return pipe.fail("Redis closed the connection"),
            Ok(_) => {}
            Err(error) => return pipe.fail(&error.to_string()),
        }
        let mut used = 0;
        loop {
            match reply(&heard[used..]) {
                Ok(Some((reply, bytes))) => {
                    replies.push(reply);
                    used += bytes;
                }
                Ok(None) => break,
                Err(problem) => return pipe.fail(&problem),
            }
        }
        heard.drain(..used);
        heard.reserve(READ_BYTES);
        {
            let mut lane = lock(&pipe.lane);
            let count = replies.len().min(lane.asked.len());
            slots.extend(lane.asked.drain(..count));
        }
        if slots.len() < replies.len() {
            return pipe.fail("Redis answered more than it was asked");
        }
        slots.drain(..).zip(replies.drain(..)).for_each(|(slot, reply)| slot.fill(Ok(reply)));
    }
}

/// One client's share of the connection.
pub struct Share {
    pipe: Arc<Pipe>,
    slot: Arc<Slot>,
}

impl Share {
    fn of(pipe: &Arc<Pipe>) -> Share {
        Share { pipe: Arc::clone(pipe), slot: Arc::default() }
    }
}

impl Carrier for Share {
    async fn ask(&mut self, words: &[&[u8]]) -> Result<Reply, String> {
        let tell = {
            let mut lane = lock(&self.pipe.lane);
            if let Some(broken) = &lane.broken {
                return Err(broken.clone());
            }
            command(&mut lane.out, words);
            lane.asked.push_back(Arc::clone(&self.slot));
            !std::mem::replace(&mut lane.told, true)
        };
        if tell {
            self.pipe.more.notify_one();
        }
        std::future::poll_fn(|context| {
            let mut answer = lock(&self.slot.0);
            match answer.reply.take() {
                Some(reply) => Poll::Ready(reply),
                None => {
                    answer.waker = Some(context.waker().clone());
                    Poll::Pending
                }
            }
        })
        .await
    }
}

impl Way for Pipelined {
    type Client = Locker<Share>;

    async fn clients(&self, count: usize, _: Workload) -> Result<Vec<Locker<Share>>, String> {
        let pipe = Pipe::open(self.address).await?;
        let scripts = Scripts::load(&mut Share::of(&pipe)).await?;
        Ok((0..count).map(|_| Locker::new(Share::of(&pipe), scripts.clone())).collect())
    }
}
