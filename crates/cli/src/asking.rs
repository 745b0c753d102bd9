//! What every command that asks a server has in common: where the server is, what opens its door, for how long to try, and
//! how what goes wrong is told. Knows no command, and chooses no exit status.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use leasehold_client::{Client, ClientBuilder, Error, Page, Trouble, Unavailable};
use leasehold_server::auth;
use leasehold_server::secret_file;
use tokio::runtime::Runtime;
use tokio::time::timeout;

use crate::duration;
use crate::explain;
use crate::status::{Failure, of_client};

/// Where a server listens that was told nothing else.
pub const SERVER: &str = "http://127.0.0.1:7420";

/// Whom to ask, and how. Flatten it last: the heading goes on to whatever follows.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Asking a server")]
pub struct Asking {
    /// The server's address: http://HOST:PORT or https://HOST:PORT
    #[arg(long, value_name = "URL", env = "LEASEHOLD_SERVER", default_value = SERVER)]
    pub server: String,
    /// Show the first token of this file to the server
    #[arg(long, value_name = "FILE", env = "LEASEHOLD_TOKEN_FILE")]
    pub token_file: Option<PathBuf>,
    /// Trust the certificates in this PEM file instead of the system's
    #[arg(long, value_name = "FILE", env = "LEASEHOLD_CA_FILE")]
    pub ca_file: Option<PathBuf>,
    /// Give up when no answer has come in this time; time in line is not counted
    #[arg(long, value_name = "DURATION", default_value = "15s", value_parser = duration::parse)]
    pub timeout: Duration,
    /// Print JSON, one object a line; what goes wrong is one on standard error
    #[arg(long)]
    pub json: bool,
}

/// Who asks.
#[derive(Args, Clone, Debug)]
pub struct Owner {
    /// Who asks, as others see it; user@host:pid unless given
    #[arg(long, value_name = "OWNER", env = "LEASEHOLD_OWNER")]
    pub owner: Option<String>,
}

impl Asking {
    /// What a client is made with.
    pub fn builder(&self) -> Result<ClientBuilder, Failure> {
        let mut builder = Client::builder(&self.server);
        if let Some(path) = &self.token_file {
            let token = auth::first_token(path).map_err(|error| self.unusable(error))?;
            builder = builder.token(token);
        }
        if let Some(path) = &self.ca_file {
            let (pem, _) = secret_file::read(path).map_err(|error| self.unusable(error))?;
            builder = builder.ca_pem(pem);
        }
        Ok(builder)
    }

    /// A connected client. `failed` says what cannot be done without: "could not acquire deploy".
    pub async fn connect(&self, owner: Option<&str>, failed: &str) -> Result<Client, Failure> {
        let mut builder = self.builder()?;
        if let Some(owner) = owner {
            builder = builder.owner(owner);
        }
        let connected = timeout(self.timeout, builder.connect()).await;
        connected.unwrap_or_else(|_| Err(self.silence(false))).map_err(|error| self.failure(failed, &error))
    }

    /// Waits for an answer, but not for ever: `beyond` is what the work may take by itself.
    pub async fn bounded<T>(
        &self,
        beyond: Duration,
        work: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, Error> {
        let longest = self.timeout.saturating_add(beyond);
        timeout(longest, work).await.unwrap_or_else(|_| Err(self.silence(true)))
    }

    /// Connects, asks for one thing, and ends.
    pub fn ask<T>(
        &self,
        failed: &str,
        work: impl AsyncFnOnce(Client) -> Result<T, Error>,
    ) -> Result<T, Failure> {
        self.ask_at_length(failed, async |client| self.bounded(Duration::ZERO, work(client)).await)
    }

    /// Connects, asks for as long as the work takes, and ends. The work sees to its own bounds.
    pub fn ask_at_length<T>(
        &self,
        failed: &str,
        work: impl AsyncFnOnce(Client) -> Result<T, Error>,
    ) -> Result<T, Failure> {
        let runtime = runtime()?;
        let done = runtime.block_on(async {
            let client = self.connect(None, failed).await?;
            work(client).await.map_err(|error| self.failure(failed, &error))
        });
        // A name that is still being looked up is not waited for.
        runtime.shutdown_background();
        done
    }

    /// All rows of a list that comes in pages, each of which may take the time of one answer.
    pub fn gather<T>(
        &self,
        failed: &str,
        page: impl AsyncFn(&Client, Option<String>) -> Result<Page<T>, Error>,
    ) -> Result<Vec<T>, Failure> {
        self.ask_at_length(failed, async |client| {
            let mut rows = Vec::new();
            let mut cursor = None;
            loop {
                let found = self.bounded(Duration::ZERO, page(&client, cursor)).await?;
                rows.extend(found.rows);
                cursor = found.next_cursor;
                if cursor.is_none() {
                    return Ok(rows);
                }
            }
        })
    }

    /// How an error is told, in words or in JSON.
    pub fn failure(&self, failed: &str, error: &Error) -> Failure {
        let sentence = explain::sentence(failed, &self.server, error);
        Failure { status: of_client(error), problem: self.problem(&sentence, error, &[]), sentence }
    }

    /// The error for programs, if one asks, with what else is to be named.
    pub fn problem(&self, sentence: &str, error: &Error, named: &[(&str, &str)]) -> Option<String> {
        self.json.then(|| explain::problem(sentence, error, named))
    }

    /// A failure before anything was asked, or of the asking itself; told under this code to programs.
    pub fn told_as(&self, code: &str, failure: Failure) -> Failure {
        let problem =
            self.json.then(|| serde_json::json!({"code": code, "detail": failure.sentence}).to_string());
        Failure { problem, ..failure }
    }

    fn unusable(&self, error: impl Into<Failure>) -> Failure {
        self.told_as("invalid_argument", error.into())
    }

    /// No answer came in time.
    pub fn silence(&self, may_have_happened: bool) -> Error {
        Error::ServerUnavailable(Box::new(Unavailable {
            server: self.server.clone(),
            attempts: 1,
            trouble: Trouble::Silence(format!("waited {}", duration::show(self.timeout))),
            may_have_happened,
        }))
    }
}

/// What a command's asking runs on.
pub fn runtime() -> Result<Runtime, Failure> {
    let built = tokio::runtime::Builder::new_current_thread().enable_all().build();
    built.map_err(|error| Failure::new(crate::status::of_io(&error), format!("cannot start: {error}")))
}
