//! A client of the unary calls, for tests that are not async themselves.

use std::net::SocketAddr;

use leasehold_protocol::v1;
use leasehold_protocol::v1::files_client::FilesClient;
use leasehold_protocol::v1::locks_client::LocksClient;
use leasehold_protocol::v1::operations_client::OperationsClient;
use leasehold_protocol::v1::sessions_client::SessionsClient;
use prost::Message;
use tokio::runtime::Runtime;
use tonic::transport::Channel;
use tonic::{Code, Response, Status};

use crate::server::PATIENCE;

/// One connection.
pub struct Caller {
    pub runtime: Runtime,
    pub channel: Channel,
}

impl Caller {
    pub fn to(address: SocketAddr) -> Caller {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let endpoint = Channel::from_shared(format!("http://{address}")).unwrap();
        let channel = runtime.block_on(endpoint.connect()).unwrap();
        Caller { runtime, channel }
    }

    pub fn locks(&self) -> LocksClient<Channel> {
        // Snapshots of long lines are longer than a client takes by default.
        LocksClient::new(self.channel.clone()).max_decoding_message_size(64 << 20)
    }

    pub fn sessions(&self) -> SessionsClient<Channel> {
        SessionsClient::new(self.channel.clone())
    }

    pub fn files(&self) -> FilesClient<Channel> {
        FilesClient::new(self.channel.clone())
    }

    pub fn operations(&self) -> OperationsClient<Channel> {
        OperationsClient::new(self.channel.clone())
    }

    /// Waits for something, but not for ever.
    pub fn wait<T>(&self, future: impl Future<Output = T>) -> T {
        self.runtime
            .block_on(async { tokio::time::timeout(PATIENCE, future).await })
            .expect("an answer in time")
    }

    /// Waits for the answer to a call.
    pub fn call<T>(&self, call: impl Future<Output = Result<Response<T>, Status>>) -> Result<T, Status> {
        self.wait(call).map(Response::into_inner)
    }

    /// Acquires and expects to get it.
    pub fn acquire(&self, lock: &str, owner: &str) -> v1::Lease {
        self.call(self.locks().acquire(acquire(lock, owner))).unwrap()
    }
}

pub fn acquire(lock: &str, owner: &str) -> v1::AcquireRequest {
    v1::AcquireRequest { lock: lock.into(), owner_id: owner.into(), ..Default::default() }
}

pub fn release(lease: &v1::Lease) -> v1::ReleaseRequest {
    v1::ReleaseRequest {
        lock: lease.lock.clone(),
        owner_id: lease.owner_id.clone(),
        lease_id: lease.lease_id.clone(),
        fencing_token: lease.fencing_token,
    }
}

pub fn renew(lease: &v1::Lease) -> v1::RenewRequest {
    v1::RenewRequest {
        lock: lease.lock.clone(),
        owner_id: lease.owner_id.clone(),
        lease_id: lease.lease_id.clone(),
        fencing_token: lease.fencing_token,
        ..Default::default()
    }
}

/// The typed detail of a refused call, which must be there and agree with the status.
pub fn detail(status: &Status) -> v1::Error {
    let rich = tonic_types::pb::Status::decode(status.details()).unwrap();
    assert_eq!((rich.code, rich.message.as_str()), (status.code() as i32, status.message()));
    assert_eq!(rich.details.len(), 1, "{status:?}");
    assert_eq!(rich.details[0].type_url, "type.googleapis.com/leasehold.v1.Error");
    let error = v1::Error::decode(&*rich.details[0].value).unwrap();
    assert_eq!(error.detail, status.message());
    assert_eq!(status.code(), code_of(&error.code), "{error:?}");
    error
}

/// The table of codes as the contract has it.
pub fn code_of(code: &str) -> Code {
    match code {
        "invalid_argument" | "too_large" => Code::InvalidArgument,
        "unauthenticated" => Code::Unauthenticated,
        "permission_denied" => Code::PermissionDenied,
        "not_found" => Code::NotFound,
        "held" => Code::Aborted,
        "lease_expired" | "released" | "stale_token" | "scope_mismatch" => Code::FailedPrecondition,
        "gone" => Code::OutOfRange,
        "cancelled" => Code::Cancelled,
        "busy" | "unavailable" => Code::Unavailable,
        other => panic!("{other}"),
    }
}
