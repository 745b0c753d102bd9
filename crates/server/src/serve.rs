//! A server from start to end: binds, recovers, serves, stops. The order matters and is all there is here: the port
//! before the data, so that a second server on the same port touches nothing; the data before the first answer; at the
//! end, who waits is told before the connections close.

use std::convert::Infallible;
use std::fmt;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use leasehold_engine::{
    AdmissionLimits, Clock, DriverOptions, Engine, EngineOptions, Failure, FilesError, FilesRecovered,
    Handle, LaneLimits, MachineClock, Metrics, OnEvents, Recovered, Replay, Restored, Secrets, recover_files,
};
use leasehold_files::{DiskStore, FileStore, MemoryDisk};
use leasehold_journal::{
    FILES_FOLDER, FileJournal, Folder, FolderError, Journal, MemoryJournal, OpenError, Options, Recovery,
};
use leasehold_state_machine::ids::HashKey;
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::task::{self, JoinHandle as Task};
use tokio::time::timeout;
use tracing::{error, info, warn};

use crate::audit::AuditLog;
use crate::auth::{Auth, TokensError};
use crate::config::Settings;
use crate::grpc::outcomes::Outcomes;
use crate::http::accept::{ConnectionLimits, Draining, accept};
use crate::http::door::{Door, Watch};
use crate::http::gate::Gate;
use crate::limits::{DRAIN_TIMEOUT, OTHER_FILES, TRAIL_TIMEOUT};
use crate::logs;
use crate::look_out::look_out;
use crate::metrics;
use crate::tls::self_signed::{self, Introduction};
use crate::tls::{Tls, TlsError};
use crate::trail;
use crate::watch::{Feed, FeedLimits};

/// What is said for one start only, and never kept in a file of settings.
#[derive(Clone, Copy, Debug, Default)]
pub struct Exceptions {
    /// An old copy of the data was put back; perhaps with how long to grant nothing.
    pub restored: Option<Option<Duration>>,
    /// The operator vouches for the wall clock.
    pub accept_clock: bool,
}

/// What a start found, for the person who started it.
#[derive(Clone, Debug)]
pub struct Report {
    /// Where the server listens.
    pub address: SocketAddr,
    /// Whether connections are encrypted.
    pub tls: bool,
    /// What is to be known of a certificate that the server made itself.
    pub self_signed: Option<Introduction>,
    /// Whether a token is asked for.
    pub token: bool,
    /// Where its data is; none when it keeps nothing.
    pub data: Option<PathBuf>,
    /// What the journal was recovered from.
    pub journal: Recovery,
    /// What state it was in.
    pub recovered: Recovered,
    /// What was done to the files.
    pub files: FilesRecovered,
    /// How long opening and recovering took.
    pub took: Duration,
}

/// Why a server did not start, or ended by itself.
#[derive(Debug)]
pub enum ServeError {
    /// The address cannot be listened on.
    Listen {
        /// Which one.
        address: SocketAddr,
        /// Why.
        source: io::Error,
    },
    /// The certificate or its key cannot be used.
    Tls(TlsError),
    /// The tokens cannot be used.
    Tokens(TokensError),
    /// The data directory cannot be used.
    Folder(FolderError),
    /// The journal cannot be opened.
    Journal(OpenError),
    /// A file lacks bytes that the journal has seen on the disk.
    Files(FilesError),
    /// The audit log cannot be opened.
    AuditLog {
        /// Which file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The operating system refused something else.
    System {
        /// What was being done, as in "cannot {doing}".
        doing: &'static str,
        /// Why.
        source: io::Error,
    },
    /// The engine ended.
    Storage(Failure),
}

impl fmt::Display for ServeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ServeError::Listen { address, source } if source.kind() == io::ErrorKind::AddrInUse => {
                write!(f, "{address} is taken by another process: stop it, or choose another --listen")
            }
            ServeError::Listen { address, source } => write!(f, "cannot listen on {address}: {source}"),
            ServeError::Tls(error) => error.fmt(f),
            ServeError::Tokens(error) => error.fmt(f),
            ServeError::Folder(error) => error.fmt(f),
            ServeError::Journal(error) => error.fmt(f),
            ServeError::Files(error) => error.fmt(f),
            ServeError::AuditLog { path, source } => {
                write!(f, "cannot open the audit log {}: {source}", path.display())
            }
            ServeError::System { doing, source } => write!(f, "cannot {doing}: {source}"),
            ServeError::Storage(failure) => write!(f, "stopped: {failure}"),
        }
    }
}

impl std::error::Error for ServeError {}

impl From<FilesError> for ServeError {
    fn from(error: FilesError) -> Self {
        match error {
            FilesError::Journal(error) => ServeError::Journal(error),
            FilesError::Storage(error) => ServeError::Journal(OpenError::Storage(error)),
            short @ FilesError::Short { .. } => ServeError::Files(short),
        }
    }
}

/// A server that serves.
pub struct Running {
    report: Report,
    credentials: Credentials,
    door: Arc<Door>,
    engine: Handle,
    accepting: Task<Draining>,
    stop_accepting: oneshot::Sender<()>,
    threads: Vec<JoinHandle<()>>,
}

/// What the server proves itself with, and what it asks of others. Both are read from files and can be read again.
#[derive(Clone, Debug)]
pub struct Credentials {
    tls: Option<Arc<Tls>>,
    auth: Arc<Auth>,
}

impl Credentials {
    fn read(
        settings: &Settings,
        folder: Option<&Folder>,
        address: SocketAddr,
    ) -> Result<(Credentials, Option<Introduction>), ServeError> {
        let (tls, introduction) = match (&settings.tls_cert, &settings.tls_key) {
            (Some(certificate), Some(key)) => (Some(Tls::from_files(certificate, key)), None),
            _ if settings.dev_tls => {
                let names = self_signed::names(address.ip(), &settings.allow_hosts);
                let (tls, introduction) =
                    self_signed::tls(folder.map(Folder::directory), &names).map_err(ServeError::Tls)?;
                (Some(Ok(tls)), Some(introduction))
            }
            _ => (None, None),
        };
        let auth = match &settings.token_file {
            Some(path) => Auth::from_file(path).map_err(ServeError::Tokens)?,
            None => Auth::none(),
        };
        let tls = tls.transpose().map_err(ServeError::Tls)?.map(Arc::new);
        Ok((Credentials { tls, auth: Arc::new(auth) }, introduction))
    }

    /// Reads certificate, key and tokens again, for requests and connections to come; those that are there go on. What
    /// cannot be used is said in the log, and the old ones stay.
    pub fn reload(&self) {
        if let Some(tls) = &self.tls
            && let Err(error) = tls.reload()
        {
            error!("the old certificate stays: {error}");
        }
        if let Err(error) = self.auth.reload() {
            error!("the old tokens stay: {error}");
        }
    }
}

/// So many connections that the server still has files for everything else, whatever it was told.
fn with_files_left(connections_max: usize) -> usize {
    let files = metrics::process::max_fds().and_then(|files| usize::try_from(files).ok());
    let room = files.map_or(usize::MAX, |files| files.saturating_sub(OTHER_FILES)).max(1);
    if room < connections_max {
        warn!(
            "only {room} connections at once, and not {connections_max}: the operating system allows this process \
             {} open files; raise it (LimitNOFILE of systemd, `ulimit -Hn`) above --connections-max",
            files.unwrap_or_default()
        );
    }
    room.min(connections_max)
}

/// Starts a server and returns when it serves. Until then its port already says that it is starting.
pub async fn start(settings: Settings, exceptions: Exceptions) -> Result<Running, ServeError> {
    let begun = Instant::now();
    let no_listener = |source| ServeError::Listen { address: settings.listen, source };
    let listener = TcpListener::bind(settings.listen).await.map_err(no_listener)?;
    let address = listener.local_addr().map_err(no_listener)?;
    let folder = match settings.in_memory {
        true => None,
        false => Some(Folder::open(&settings.data).map_err(ServeError::Folder)?),
    };
    let (credentials, self_signed) = Credentials::read(&settings, folder.as_ref(), address)?;
    let gate = Gate::new(address.ip(), settings.allow_hosts.clone())
        .with_auth(Arc::clone(&credentials.auth))
        .with_tls(credentials.tls.clone());
    let door = Arc::new(Door::new(gate).with_in_flight_max(settings.in_flight_max));
    let limits = ConnectionLimits {
        connections_max: with_files_left(settings.connections_max),
        per_peer_max: settings.connections_per_peer_max,
        ..ConnectionLimits::default()
    };
    let (stop_accepting, stopped) = oneshot::channel();
    let tls = credentials.tls.clone();
    let accepting = task::spawn(accept(listener, Arc::clone(&door), tls, limits, async {
        // A sender that is gone belongs to a start that failed.
        let _ = stopped.await;
    }));

    // Replaying a journal is long work for a thread that others share.
    let (tls, token) = (settings.has_tls(), settings.token_file.is_some());
    let comment_every = Duration::from_millis(settings.watch_comment_ms);
    let data = (!settings.in_memory).then(|| settings.data.clone());
    let opened = task::spawn_blocking(move || open(&settings, folder, exceptions)).await;
    let Opened { engine, journal, recovered, files, feed, threads } = opened.map_err(|error| {
        ServeError::System { doing: "finish the recovery", source: io::Error::other(error) }
    })??;
    door.open(engine.clone(), Watch { feed, comment_every });
    let took = begun.elapsed();
    let report = Report { address, tls, self_signed, token, data, journal, recovered, files, took };
    Ok(Running { report, credentials, door, engine, accepting, stop_accepting, threads })
}

impl Running {
    /// What the start found.
    pub fn report(&self) -> &Report {
        &self.report
    }

    /// What can be read again while it serves.
    pub fn credentials(&self) -> Credentials {
        self.credentials.clone()
    }

    /// Keeps the thread that runs it awake while requests come one after the other: to be spawned on a runtime with one
    /// thread, on a machine with more processors than that.
    pub fn look_out(&self) -> impl Future<Output = Infallible> + Send + use<> {
        look_out(self.engine.clone())
    }

    /// Serves until `stop` resolves, and then ends in good order; or until the engine fails.
    pub async fn until(self, stop: impl Future<Output = ()>) -> Result<(), ServeError> {
        tokio::select! {
            failure = self.engine.failed() => return Err(ServeError::Storage(failure)),
            () = stop => {}
        }
        info!("stopping");
        self.door.close();
        let _ = self.stop_accepting.send(());
        let connections = async {
            if let Ok(draining) = self.accepting.await {
                draining.finish().await;
            }
        };
        // Both at once: the engine's last words are what the connections wait for.
        let engine = timeout(DRAIN_TIMEOUT, self.engine.stop());
        let ((), engine_stopped) = tokio::join!(connections, engine);
        if engine_stopped.is_err() {
            // What was not made durable was not acknowledged either.
            warn!("the journal did not finish in time; what it had not acknowledged may be lost");
            return Ok(());
        }
        let ended = task::spawn_blocking(move || {
            for thread in self.threads {
                // A thread that panicked has said so itself.
                let _ = thread.join();
            }
        });
        let _ = timeout(TRAIL_TIMEOUT, ended).await;
        Ok(())
    }
}

/// What is behind the door.
struct Opened {
    engine: Handle,
    journal: Recovery,
    recovered: Recovered,
    files: FilesRecovered,
    feed: Arc<Feed>,
    threads: Vec<JoinHandle<()>>,
}

/// Opens the data, recovers, and starts the engine's threads: every call that the server makes of the engine, but for
/// asking it.
fn open(settings: &Settings, folder: Option<Folder>, exceptions: Exceptions) -> Result<Opened, ServeError> {
    let system = |doing| move |source| ServeError::System { doing, source };
    let clock = MachineClock::new().map_err(system("read this machine's boot id"))?;
    let audit = settings.audit_log.as_deref().map(|path| {
        AuditLog::open(path).map_err(|source| ServeError::AuditLog { path: path.to_owned(), source })
    });

    let mut replay = Replay::new(settings.limits());
    let mut random = Secrets::from_system().map_err(system("draw random bits"))?;
    let mut files_recovered = FilesRecovered::default();
    let (journal, recovery, files): (Box<dyn Journal>, Recovery, Arc<dyn FileStore>) =
        if let Some(folder) = folder {
            let [high, low] = random.draw().0;
            let journal_id = (u128::from(high) << 64 | u128::from(low)).to_be_bytes();
            let mut options = Options::new(journal_id);
            options.segment_bytes = settings.segment_bytes;
            // Half a segment leaves room for the header and the sectors' stamps.
            let half = usize::try_from(settings.segment_bytes / 2).unwrap_or(usize::MAX);
            options.batch_bytes_max = options.batch_bytes_max.min(half);
            // Two segments, as with the default: smaller ones ask for less to be kept and read again.
            options.snapshot_after_bytes =
                options.snapshot_after_bytes.min(settings.segment_bytes.saturating_mul(2));
            let (journal, recovery) =
                FileJournal::open(folder.clone(), options, &mut replay).map_err(ServeError::Journal)?;
            let files = DiskStore::new(folder.make_inside(FILES_FOLDER).map_err(ServeError::Folder)?);
            files_recovered = recover_files(&replay, &folder, &files)?;
            (Box::new(journal), recovery, Arc::new(files))
        } else {
            let files = DiskStore::new(MemoryDisk::new());
            (Box::new(MemoryJournal::new()), Recovery::default(), Arc::new(files))
        };
    let audit = audit.transpose()?;

    let options = EngineOptions {
        founding_key: HashKey(random.draw().0),
        restored: exceptions.restored.map(|time| Restored { for_ms: time.map(whole_ms) }),
        accept_clock: exceptions.accept_clock,
        batch_bytes_max: journal.batch_bytes_max(),
        metrics: Arc::new(Metrics::default()),
    };
    let limits = FeedLimits { watchers_max: settings.watchers_max, lag_max: settings.watch_lag_max };
    let feed = Arc::new(Feed::new(replay.take_history(), limits));
    let (engine, recovered) = Engine::recover(replay, clock.boot_id(), clock.read(), options);
    let (on_events, threads) = trail::start(audit, Arc::clone(&feed)).map_err(system("start a thread"))?;
    let options = driver(settings, files, on_events, Arc::clone(&feed));
    let engine = leasehold_engine::start(engine, journal, Arc::new(clock), options)
        .map_err(system("start a thread"))?;
    Ok(Opened { engine, journal: recovery, recovered, files: files_recovered, feed, threads })
}

fn driver(
    settings: &Settings,
    files: Arc<dyn FileStore>,
    on_events: OnEvents,
    feed: Arc<Feed>,
) -> DriverOptions {
    let lanes = AdmissionLimits::default();
    DriverOptions {
        admission: AdmissionLimits {
            ordinary: LaneLimits { requests_max: settings.queue_max, ..lanes.ordinary },
            ..lanes
        },
        room_reserve_bytes: settings.disk_reserve_bytes,
        files,
        scribe: Box::new(Outcomes::default()),
        on_events,
        history: Some(Box::new(move |seq| feed.history_up_to(seq))),
        on_notice: Box::new(logs::notice),
    }
}

fn whole_ms(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
