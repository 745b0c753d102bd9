//! A session: many leases that live by one heartbeat. It is opened, kept alive in the background, and closed; what was
//! granted under it ends with it.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use leasehold_protocol::v1;
use leasehold_protocol::v1::operation::What as Asked;
use tokio_util::sync::CancellationToken;

use crate::client::Client;
use crate::error::Error;
use crate::heart::{self, Close, Heart};
use crate::hold::Standing;
use crate::keeper::{Keeper, Renewal};
use crate::leader::Leader;
use crate::lease::Lease;
use crate::lock::Lock;
use crate::outcome::Told;
use crate::ttl::Ttl;
use crate::view::Metadata;

/// How a session is opened.
#[derive(Clone, Debug, Default)]
pub struct SessionOptions {
    metadata: Metadata,
    renewal: Renewal,
}

impl SessionOptions {
    /// What everybody may read about the session.
    pub fn metadata(mut self, key: impl Into<String>, value: impl Into<String>) -> SessionOptions {
        self.metadata.insert(key.into(), value.into());
        self
    }

    /// Sends a heartbeat this long after the last one that was confirmed, if that is earlier than a third of the TTL.
    pub fn renew_every(mut self, every: Duration) -> SessionOptions {
        self.renewal = Renewal::every(every);
        self
    }
}

/// Many leases that live by one heartbeat: what a program opens that holds hundreds or thousands of locks.
///
/// Clones, and the leases under it, share one session. It is closed when it is told so, or in the background when the last of
/// them is dropped. When it is lost, everything under it is lost; a lease under it can also end alone, while it lives on.
///
/// ```
/// use leasehold_client::{AcquireOptions, Client, Error, Session, SessionOptions, Ttl};
///
/// async fn shards(client: &Client) -> Result<(), Error> {
///     let session = Session::open(client, Ttl::SHORT, SessionOptions::default()).await?;
///     let mut mine = Vec::new();
///     for shard in 0..100 {
///         let lease = session.lease(format!("shard-{shard}"));
///         if lease.acquire(Ttl::default(), AcquireOptions::default()).await? {
///             mine.push(lease);
///         }
///     }
///     println!("{} shards are ours, with one heartbeat", mine.len());
///     session.close().await
/// }
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Error> {
/// #     let server = leasehold_client::testing::Server::new();
/// #     shards(&server.client("me")).await
/// # }
/// ```
#[derive(Clone)]
pub struct Session {
    shared: Arc<Shared>,
}

struct Shared {
    client: Client,
    heart: Arc<Heart>,
}

impl Session {
    /// Opens a session, and keeps it alive from now on.
    pub async fn open(
        client: &Client,
        ttl: impl Into<Ttl>,
        options: SessionOptions,
    ) -> Result<Session, Error> {
        let opening = v1::OpenSessionRequest {
            owner_id: client.owner().to_owned(),
            ttl_ms: ttl.into().ms(),
            request_id: None,
            metadata: options.metadata,
        };
        let answered = client.operations().ask(Asked::OpenSession(opening)).await?;
        let Told::Session(told) = answered.told else {
            return Err(Error::Unexpected { detail: "no session came of opening one".into() });
        };
        let keeper = Keeper::new(options.renewal);
        let clock = Arc::clone(client.clock());
        let heart = Arc::new(Heart::new(told.session_id.clone(), keeper, clock, client.operations().clone()));
        heart.opened(&told, answered.sent_us);
        client.operations().spawn(heart::keep(Arc::clone(&heart)));
        let shared = Shared { client: client.clone(), heart: Arc::clone(&heart) };
        let session = Session { shared: Arc::new(shared) };
        heart.settled().await.map_err(Error::Ended)?;
        Ok(session)
    }

    /// A lease under this session, not yet acquired.
    pub fn lease(&self, lock: impl Into<String>) -> Lease {
        Lease::under(self, lock)
    }

    /// A lock under this session.
    pub fn lock(&self, lock: impl Into<String>) -> Lock {
        Lock::under(self, lock)
    }

    /// A leader under this session.
    pub fn leader(&self, lock: impl Into<String>) -> Leader {
        Leader::under(self, lock)
    }

    /// How it stands now.
    pub fn standing(&self) -> Standing {
        self.heart().look().map_or(Standing::Lost, Standing::from)
    }

    /// Whether it lives; if not, the error that ended it.
    pub fn check(&self) -> Result<(), Error> {
        self.heart().look().map(drop).map_err(Error::Ended)
    }

    /// Fires when the session is lost or otherwise over.
    pub fn lost(&self) -> CancellationToken {
        self.heart().over().child_token()
    }

    /// Closes the session and ends everything under it. Stop first what its leases protect. Once only: later calls say that
    /// it is over, and send nothing.
    pub async fn close(&self) -> Result<(), Error> {
        match self.heart().close() {
            Close::Lived(request) => {
                let closing = self.client().operations().insist(Asked::CloseSession(request));
                closing.await.map(drop)
            }
            Close::Ended(how) => Err(Error::Ended(how)),
        }
    }

    pub(crate) fn client(&self) -> &Client {
        &self.shared.client
    }

    pub(crate) fn heart(&self) -> &Arc<Heart> {
        &self.shared.heart
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.heart.let_go();
    }
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Its id is a secret.
        f.debug_struct("Session").field("standing", &self.standing()).finish_non_exhaustive()
    }
}
