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

/// Who waits for the renewal of which lease.
#[derive(Default)]
struct Waiting {
    leases: HashMap<i64, VecDeque<oneshot::Sender<i64>>>,
    /// Why nothing comes any more.
    ended: Option<String>,
}

impl Waiting {
    fn add(&mut self, lease: i64, sender: oneshot::Sender<i64>) -> Result<(), String> {
        if self.ended.is_some() {
            return Err(self.reason());
        }
        self.leases.entry(lease).or_default().push_back(sender);
        Ok(())
    }

    fn reason(&self) -> String {
        format!("the stream of renewals has ended: {}", self.ended.as_deref().unwrap_or("nobody knows why"))
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
            // Whoever still waits learns from the closed channel that nothing comes any more.
            *lock(&renewed) = Waiting { leases: HashMap::new(), ended: Some(ended) };
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
            Ok(Some(answer)) => {
                let first = lock(waiting).leases.get_mut(&answer.id).and_then(VecDeque::pop_front);
                first.map(|first| first.send(answer.ttl));
            }
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
        let (sender, renewed) = oneshot::channel();
        lock(&self.connection.waiting).add(self.lease, sender)?;
        let _ = self.connection.renewals.send(LeaseKeepAliveRequest { id: self.lease });
        match renewed.await {
            Ok(ttl_s) if ttl_s > 0 => Ok(()),
            Ok(_) => Err("a lease was gone before its renewal".into()),
            Err(_) => Err(lock(&self.connection.waiting).reason()),
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
