//! Requests over one HTTP/2 connection: adds who asks, and finds out what it means when the answer is none. Never retries.

use std::error::Error as StdError;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use hyper::body::Incoming;
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HeaderValue, USER_AGENT};
use hyper::{Request, Response, StatusCode};
use leasehold_protocol::v1;
use prost::Message;
use tonic::codegen::Service;
use tonic::{Code, Status};

use crate::connect::{Sender, cause};
use crate::socket::{Greeting, Handle};
use crate::wire::{Failed, Trouble};

/// Names the refusal in a status's details.
const REFUSAL_TYPE: &str = "type.googleapis.com/leasehold.v1.Error";

/// One connection, for as many requests at once as it takes.
#[derive(Clone)]
pub(crate) struct Pipe {
    sender: Sender,
    handle: Arc<Handle>,
    /// Whether it is encrypted.
    secure: bool,
    authorization: Option<HeaderValue>,
    /// Streams that are open on it.
    streams: Arc<AtomicUsize>,
}

/// A stream that is open on a connection.
pub(crate) struct Occupied(Arc<AtomicUsize>);

impl Drop for Occupied {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Streams on one connection: a little fewer than servers take, which let more wait without a word.
pub(crate) const STREAMS_MAX: usize = 1_000;

impl Pipe {
    pub fn new(
        sender: Sender,
        handle: Arc<Handle>,
        secure: bool,
        authorization: Option<HeaderValue>,
    ) -> Pipe {
        Pipe { sender, handle, secure, authorization, streams: Arc::default() }
    }

    /// Takes a stream's place on it, if it is open and there are fewer than so many.
    pub fn occupy(&self, streams_max: usize) -> Option<Occupied> {
        if !self.is_open() || self.streams.load(Ordering::Relaxed) >= streams_max {
            return None;
        }
        self.streams.fetch_add(1, Ordering::Relaxed);
        Some(Occupied(Arc::clone(&self.streams)))
    }

    /// Whether requests can still be sent.
    pub fn is_open(&self) -> bool {
        !self.sender.is_closed() && !self.handle.is_cut()
    }

    /// Ends everything on it.
    pub fn cut(&self) {
        self.handle.cut();
    }

    /// Grows whenever something is heard on it.
    pub fn heard(&self) -> u64 {
        self.handle.heard()
    }

    /// What a call that failed came to.
    pub fn failed(&self, status: &Status) -> Failed {
        if let Some(refusal) = refusal(status) {
            return Failed::Refused(Box::new(refusal));
        }
        let source = status.source();
        let detail = source.map_or_else(|| status.message().to_owned(), cause);
        let trouble = match (source.and_then(find_trouble), status.code()) {
            (Some(known), _) => known,
            (None, Code::Unauthenticated | Code::PermissionDenied) => {
                let code = "permission_denied".into();
                return Failed::Refused(Box::new(v1::Error { code, detail, ..v1::Error::default() }));
            }
            (None, Code::Unimplemented | Code::Internal) if source.is_none() => Trouble::NotLeasehold(detail),
            (None, Code::Unavailable) if source.is_none() => Trouble::NotServing(detail),
            (None, _) => self.broken(detail),
        };
        Failed::Trouble(trouble)
    }

    /// No answer came in time.
    pub fn silent(&self) -> Failed {
        let silence = Trouble::Silence("the connection was taken, but no answer came".into());
        Failed::Trouble(self.greeted_oddly().unwrap_or(silence))
    }

    /// The connection is of no use.
    fn broken(&self, detail: String) -> Trouble {
        self.greeted_oddly().unwrap_or(Trouble::Broken(detail))
    }

    /// What answers there is something else, by its first bytes.
    fn greeted_oddly(&self) -> Option<Trouble> {
        Some(match self.handle.greeting() {
            _ if self.secure => return None,
            Greeting::Tls => Trouble::Tls("it speaks TLS: write https:// instead of http://".into()),
            Greeting::Http1 { unavailable: true } => {
                Trouble::NotServing("it answered HTTP 503; there may be too many connections".into())
            }
            Greeting::Http1 { unavailable: false } => {
                Trouble::NotLeasehold("it does not speak HTTP/2, but HTTP/1".into())
            }
            Greeting::Unknown => Trouble::NotLeasehold("it does not speak HTTP".into()),
            Greeting::Nothing | Greeting::Http2 => return None,
        })
    }
}

/// The server's own refusal.
fn refusal(status: &Status) -> Option<v1::Error> {
    let rich = tonic_types::pb::Status::decode(status.details()).ok()?;
    let detail = rich.details.iter().find(|detail| detail.type_url == REFUSAL_TYPE)?;
    v1::Error::decode(&*detail.value).ok()
}

fn find_trouble(error: &(dyn StdError + 'static)) -> Option<Trouble> {
    let mut error = Some(error);
    while let Some(at) = error {
        if let Some(trouble) = at.downcast_ref::<Trouble>() {
            return Some(trouble.clone());
        }
        error = at.source();
    }
    None
}

impl Service<Request<tonic::body::Body>> for Pipe {
    type Response = Response<Incoming>;
    type Error = Box<dyn StdError + Send + Sync>;
    type Future = BoxFuture<'static, Result<Self::Response, Self::Error>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.sender.poll_ready(cx).map_err(Into::into)
    }

    fn call(&mut self, mut request: Request<tonic::body::Body>) -> Self::Future {
        let headers = request.headers_mut();
        headers.insert(USER_AGENT, HeaderValue::from_static(NAME));
        if let Some(authorization) = &self.authorization {
            headers.insert(AUTHORIZATION, authorization.clone());
        }
        let answer = self.sender.send_request(request);
        async move { expect_grpc(answer.await?) }.boxed()
    }
}

/// What the server's logs call us.
const NAME: &str = concat!("leasehold-client/", env!("CARGO_PKG_VERSION"));

/// Takes only an answer that speaks gRPC. What stands between may answer in its own words.
fn expect_grpc(answer: Response<Incoming>) -> Result<Response<Incoming>, Box<dyn StdError + Send + Sync>> {
    let status = answer.status();
    let is_grpc = answer
        .headers()
        .get(CONTENT_TYPE)
        .is_some_and(|media_type| media_type.as_bytes().starts_with(b"application/grpc"));
    if is_grpc && status == StatusCode::OK {
        return Ok(answer);
    }
    Err(match status {
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => {
            Status::permission_denied(format!("it answered HTTP {status}: is the token right?")).into()
        }
        StatusCode::BAD_GATEWAY | StatusCode::SERVICE_UNAVAILABLE | StatusCode::GATEWAY_TIMEOUT => {
            Trouble::NotServing(format!("it answered HTTP {status}")).into()
        }
        _ if is_grpc => Trouble::NotLeasehold(format!("it answered HTTP {status}")).into(),
        _ => Trouble::NotLeasehold(format!("it answered HTTP {status}, but not as gRPC")).into(),
    })
}
