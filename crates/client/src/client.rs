//! The client: one server, one owner, one clock, and the connection that everything shares. Holds no lock itself.

use std::fmt;
use std::sync::Arc;

use hyper::header::HeaderValue;

use crate::address::Address;
use crate::boot_clock::BootClock;
use crate::clock::Clock;
use crate::error::{Error, Unavailable};
use crate::grpc::{Destination, Grpc};
use crate::observe::Observer;
use crate::operations::Operations;
use crate::owner::default_owner;
use crate::random::Random;
use crate::refusal;
use crate::retry::RetryPolicy;
use crate::tls;
use crate::view::{Watched, us};
use crate::wire::{Failed, Trouble, Wire};

/// A client of one server. Clones are cheap, and share the connection and the streams on it.
///
/// It belongs to the async runtime in which it was made: when that ends, so does the client.
///
/// ```no_run
/// # async fn example() -> Result<(), leasehold_client::Error> {
/// use leasehold_client::{Ask, Client};
///
/// let client = Client::connect("http://127.0.0.1:7420").await?;
/// let grant = client.acquire(Ask::new("deploy")).await?;
/// println!("deploy is ours, with token {}", grant.fencing_token);
/// client.release(&grant.claim()).await?;
/// # Ok(())
/// # }
/// ```
///
/// Its plain calls do one thing each and keep nothing alive. To hold something for as long as work takes, use a
/// [`Lock`](crate::Lock), a [`Leader`](crate::Leader) or a [`Lease`](crate::Lease).
#[derive(Clone)]
pub struct Client {
    parts: Arc<Parts>,
}

/// What a client is made of.
pub(crate) struct Parts {
    pub wire: Arc<dyn Wire>,
    pub clock: Arc<dyn Clock>,
    pub random: Random,
    pub policy: RetryPolicy,
    pub owner: String,
    pub operations: Operations,
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client")
            .field("server", &self.server())
            .field("owner", &self.owner())
            .finish_non_exhaustive()
    }
}

impl Client {
    /// Connects to a server: `http://host:port`, `https://host:port`, or just `host:port`. Says within seconds if it is not
    /// to be had.
    pub async fn connect(server: &str) -> Result<Client, Error> {
        Client::builder(server).connect().await
    }

    /// For a client that is to be otherwise than the usual one.
    pub fn builder(server: &str) -> ClientBuilder {
        ClientBuilder {
            server: server.to_owned(),
            owner: None,
            token: None,
            ca_pem: None,
            policy: RetryPolicy::default(),
            clock: None,
        }
    }

    /// Over a way that is there already. Must be called inside a runtime.
    pub(crate) fn over(
        wire: Arc<dyn Wire>,
        clock: Arc<dyn Clock>,
        random: Random,
        policy: RetryPolicy,
        owner: String,
    ) -> Client {
        let operations = Operations::new(Arc::clone(&wire), Arc::clone(&clock), random.clone(), policy);
        Client { parts: Arc::new(Parts { wire, clock, random, policy, owner, operations }) }
    }

    /// Who asks, unless a call says otherwise.
    pub fn owner(&self) -> &str {
        &self.parts.owner
    }

    /// The server's address.
    pub fn server(&self) -> &str {
        self.parts.wire.server()
    }

    /// The clock that everything is counted on.
    pub fn clock(&self) -> &Arc<dyn Clock> {
        &self.parts.clock
    }

    /// Watches what happens to a lock or to many, after this event or from now on, without gaps or repeats.
    pub fn watch(&self, what: Watched, from: Option<u64>) -> Observer {
        Observer::new(self.clone(), what, from)
    }

    /// Resolves when everything that was asked for is answered: also what goes on in the background after something was
    /// dropped, such as leaving a line. For a program that is about to end; give it a limit of its own, because it waits for
    /// the server.
    pub async fn settled(&self) {
        self.operations().settled().await;
    }

    pub(crate) fn operations(&self) -> &Operations {
        &self.parts.operations
    }

    pub(crate) fn wire(&self) -> &Arc<dyn Wire> {
        &self.parts.wire
    }

    pub(crate) fn random(&self) -> &Random {
        &self.parts.random
    }

    pub(crate) fn policy(&self) -> &RetryPolicy {
        &self.parts.policy
    }

    /// Makes sure that there is a server, by the client's policy. What no other attempt would change fails at once.
    async fn greet(&self) -> Result<(), Error> {
        let policy = self.policy();
        let mut attempts = 0;
        loop {
            let failed = match self.operations().greet().await {
                Ok(()) => return Ok(()),
                Err(failed) => failed,
            };
            attempts += 1;
            let (passing, after, trouble) = match failed {
                Failed::Trouble(trouble) => (may_pass(&trouble), None, trouble),
                Failed::Refused(refusal) => match refusal::again(&refusal) {
                    None => return Err(refusal::error(*refusal, "")),
                    Some(refusal::Again::Busy(after) | refusal::Again::NotServing(after)) => {
                        (true, Some(after), Trouble::NotServing(refusal.detail))
                    }
                },
            };
            if !passing || attempts >= policy.attempts {
                let server = self.server().to_owned();
                let unavailable = Unavailable { server, attempts, trouble, may_have_happened: false };
                return Err(Error::ServerUnavailable(Box::new(unavailable)));
            }
            let pause = policy.pause(attempts, after, self.random().number());
            self.clock().sleep_until(self.clock().now_us().saturating_add(us(pause))).await;
        }
    }
}

/// Whether a trouble may pass by itself.
fn may_pass(trouble: &Trouble) -> bool {
    match trouble {
        Trouble::Refused(_) | Trouble::Silence(_) | Trouble::Broken(_) | Trouble::NotServing(_) => true,
        Trouble::NoSuchHost(_) | Trouble::Tls(_) | Trouble::NotLeasehold(_) => false,
    }
}

/// Makes a [`Client`].
///
/// ```no_run
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// use leasehold_client::Client;
///
/// let client = Client::builder("https://locks.example:7420")
///     .owner("worker-1@host7")
///     .ca_pem(std::fs::read("authority.pem")?)
///     .token(std::fs::read_to_string("token")?.trim())
///     .connect()
///     .await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct ClientBuilder {
    server: String,
    owner: Option<String>,
    token: Option<String>,
    ca_pem: Option<Vec<u8>>,
    policy: RetryPolicy,
    clock: Option<Arc<dyn Clock>>,
}

impl fmt::Debug for ClientBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientBuilder")
            .field("server", &self.server)
            .field("owner", &self.owner)
            .field("has_token", &self.token.is_some())
            .finish_non_exhaustive()
    }
}

impl ClientBuilder {
    /// Who asks; `user@host:pid` otherwise.
    pub fn owner(mut self, owner: impl Into<String>) -> ClientBuilder {
        self.owner = Some(owner.into());
        self
    }

    /// The bearer token that the server wants to see.
    pub fn token(mut self, token: impl Into<String>) -> ClientBuilder {
        self.token = Some(token.into());
        self
    }

    /// The certificate of the authority that signed the server's, in PEM form; the system's authorities otherwise. An
    /// address that does not say `http://` is then taken for an encrypted one.
    pub fn ca_pem(mut self, pem: impl Into<Vec<u8>>) -> ClientBuilder {
        self.ca_pem = Some(pem.into());
        self
    }

    /// How calls without a deadline of their own are retried.
    pub fn retry(mut self, policy: RetryPolicy) -> ClientBuilder {
        self.policy = policy;
        self
    }

    /// The clock that everything is counted on; the machine's boot-time clock otherwise.
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> ClientBuilder {
        self.clock = Some(clock);
        self
    }

    /// Connects. Must be called inside a Tokio runtime, which the client then belongs to.
    pub async fn connect(self) -> Result<Client, Error> {
        let wire = Arc::new(Grpc::new(self.destination()?)?);
        let clock = self.clock.unwrap_or_else(|| Arc::new(BootClock));
        let owner = self.owner.unwrap_or_else(default_owner);
        let client = Client::over(wire, clock, Random::from_system(), self.policy, owner);
        client.greet().await?;
        Ok(client)
    }

    /// Where to connect to, and how.
    pub(crate) fn destination(&self) -> Result<Destination, Error> {
        let address = Address::parse(&self.server, self.ca_pem.is_some())?;
        let tls = match address.secure {
            true => Some(tls::config(self.ca_pem.as_deref())?),
            false => None,
        };
        let authorization = self.token.as_deref().map(bearer).transpose()?;
        Ok(Destination { address, tls, authorization, within: self.policy.attempt_timeout })
    }
}

/// The header that shows a token. Marked so that nobody logs it.
fn bearer(token: &str) -> Result<HeaderValue, Error> {
    let visible = !token.is_empty() && token.bytes().all(|byte| byte.is_ascii_graphic());
    let header = HeaderValue::from_str(&format!("Bearer {token}")).ok().filter(|_| visible);
    let mut header = header.ok_or_else(|| Error::Invalid {
        field: "token".into(),
        detail: "a token is visible ASCII without blanks; is there a line break in it?".into(),
    })?;
    header.set_sensitive(true);
    Ok(header)
}
