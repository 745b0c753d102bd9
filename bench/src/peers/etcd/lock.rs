//! A client of etcd's lock call: a lease for each client, granted before, and all clients on few connections, as etcd's own
//! client library has it. Renewals of all clients of a connection share one stream, again as there.

use std::collections::{HashMap, VecDeque};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{mpsc, oneshot};
use tokio_stream::wrappers::UnboundedReceiverStream;
use tonic::Streaming;
use tonic::client::Grpc;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::transport::{Channel, Endpoint};
use tonic_prost::ProstCodec;

use super::messages::{
    LeaseGrantRequest, LeaseGrantResponse, LeaseKeepAliveRequest, LeaseKeepAliveResponse, LockRequest,
    LockResponse, UnlockRequest, UnlockResponse,
};
use crate::peers::LockClient;

/// How many seconds a lease was given, or why nothing comes any more.
type Renewed = Result<i64, String>;

/// Who waits for the renewal of which lease.
#[derive(Default)]
struct Waiting {
    leases: HashMap<i64, VecDeque<oneshot::Sender<Renewed>>>,
    /// Why nothing comes any more.
    ended: Option<String>,
}

impl Waiting {
    /// Told when the lease is renewed, or when nothing comes any more, which may be at once.
    fn add(&mut self, lease: i64) -> oneshot::Receiver<Renewed> {
        let (sender, renewed) = oneshot::channel();
        match &self.ended {
            Some(reason) => drop(sender.send(Err(reason.clone()))),
            None => self.leases.entry(lease).or_default().push_back(sender),
        }
        renewed
    }

    fn renewed(&mut self, lease: i64, ttl_s: i64) {
        if let Some(first) = self.leases.get_mut(&lease).and_then(VecDeque::pop_front) {
            // Whoever asked may have gone.
            let _ = first.send(Ok(ttl_s));
        }
    }

    fn end(&mut self, why: &str) {
        let reason = format!("the stream of renewals has ended: {why}");
        for (_, waiting) in self.leases.drain() {
            waiting.into_iter().for_each(|sender| drop(sender.send(Err(reason.clone()))));
        }
        self.ended = Some(reason);
    }
}

/// One connection, which clients share.
#[derive(Clone)]
pub struct Connection {
    grpc: Grpc<Channel>,
    renewals: mpsc::UnboundedSender<LeaseKeepAliveRequest>,
    waiting: Arc<Mutex<Waiting>>,
}

impl Connection {
    /// Connects, and opens the stream of renewals.
    pub async fn open(server: SocketAddr) -> Result<Connection, String> {
        let endpoint =
            Endpoint::from_shared(format!("http://{server}")).map_err(|error| error.to_string())?;
        let channel =
            endpoint.tcp_nodelay(true).connect().await.map_err(|error| format!("cannot connect: {error}"))?;
        let grpc = Grpc::new(channel);
        let (renewals, requests) = mpsc::unbounded_channel();
        let waiting: Arc<Mutex<Waiting>> = Arc::default();
        let codec = ProstCodec::<LeaseKeepAliveRequest, LeaseKeepAliveResponse>::default();
        let path = PathAndQuery::from_static("/etcdserverpb.Lease/LeaseKeepAlive");
        let request = tonic::Request::new(UnboundedReceiverStream::new(requests));
        let mut streaming = grpc.clone();
        streaming.ready().await.map_err(|error| format!("not ready: {error}"))?;
        let renewed = Arc::clone(&waiting);
        // The server opens its half with its first answer, which nobody has asked for yet.
        tokio::spawn(async move {
            let ended = match streaming.streaming(request, path, codec).await {
                Ok(answers) => hear(answers.into_inner(), &renewed).await,
                Err(status) => status.to_string(),
            };
            lock(&renewed).end(&ended);
        });
        Ok(Connection { grpc, renewals, waiting })
    }

    /// Has a lease granted.
    pub async fn grant(&mut self, ttl_s: i64) -> Result<i64, String> {
        let request = LeaseGrantRequest { ttl: ttl_s, id: 0 };
        let granted: LeaseGrantResponse = self.call("/etcdserverpb.Lease/LeaseGrant", request).await?;
        if granted.error.is_empty() { Ok(granted.id) } else { Err(format!("no lease: {}", granted.error)) }
    }

    async fn call<Q, A>(&mut self, path: &'static str, request: Q) -> Result<A, String>
    where
        Q: prost::Message + Send + Sync + 'static,
        A: prost::Message + Default + Send + Sync + 'static,
    {
        self.grpc.ready().await.map_err(|error| format!("not ready: {error}"))?;
        let codec = ProstCodec::<Q, A>::default();
        let answer =
            self.grpc.unary(tonic::Request::new(request), PathAndQuery::from_static(path), codec).await;
        answer.map(tonic::Response::into_inner).map_err(|status| format!("{path}: {status}"))
    }
}

/// Tells of each renewal whoever waits for it, to the end of the stream; gives the reason of that.
async fn hear(mut answers: Streaming<LeaseKeepAliveResponse>, waiting: &Mutex<Waiting>) -> String {
    loop {
        match answers.message().await {
            Ok(Some(answer)) => lock(waiting).renewed(answer.id, answer.ttl),
            Ok(None) => return "etcd closed it".into(),
            Err(status) => return status.to_string(),
        }
    }
}

/// A client with a lease of its own.
pub struct Client {
    connection: Connection,
    lease: i64,
}

impl Client {
    /// A client whose locks hang on this lease.
    pub fn new(connection: Connection, lease: i64) -> Client {
        Client { connection, lease }
    }
}

impl LockClient for Client {
    type Held = LockResponse;

    async fn acquire(&mut self, lock: &str) -> Result<LockResponse, String> {
        let request = LockRequest { name: lock.as_bytes().to_vec(), lease: self.lease };
        self.connection.call("/v3lockpb.Lock/Lock", request).await
    }

    async fn renew(&mut self, _held: &mut LockResponse) -> Result<(), String> {
        let renewed = lock(&self.connection.waiting).add(self.lease);
        let _ = self.connection.renewals.send(LeaseKeepAliveRequest { id: self.lease });
        match renewed.await {
            Ok(Ok(ttl_s)) if ttl_s > 0 => Ok(()),
            Ok(Ok(_)) => Err("a lease was gone before its renewal".into()),
            Ok(Err(reason)) => Err(reason),
            Err(_) => Err("whoever hears renewals is gone".into()),
        }
    }

    async fn release(&mut self, held: LockResponse) -> Result<(), String> {
        let request = UnlockRequest { key: held.key };
        let _: UnlockResponse = self.connection.call("/v3lockpb.Lock/Unlock", request).await?;
        Ok(())
    }

    fn token(held: &LockResponse) -> Option<u64> {
        held.header.as_ref().and_then(|header| u64::try_from(header.revision).ok())
    }
}

fn lock(waiting: &Mutex<Waiting>) -> MutexGuard<'_, Waiting> {
    waiting.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_waits_when_the_stream_ends_or_comes_after_that_is_told_why() {
        let mut waiting = Waiting::default();
        let mut renewals = [waiting.add(7), waiting.add(7)];
        waiting.renewed(7, 60);
        assert_eq!(renewals[0].try_recv(), Ok(Ok(60)));
        waiting.end("too many pings");
        let told = Ok(Err("the stream of renewals has ended: too many pings".to_owned()));
        assert_eq!(renewals[1].try_recv(), told);
        assert_eq!(waiting.add(7).try_recv(), told);
    }
}
