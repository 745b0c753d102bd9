//! How a server is set up: flags over environment over a TOML file over defaults. One struct is all three, so that a
//! setting has one name everywhere: `--leases-max`, `LEASEHOLD_LEASES_MAX`, `leases_max`.

use std::fmt;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use leasehold_state_machine::limits::{Limits, NUMBER_END, OPEN_NUMBERS_MAX};
use serde::{Deserialize, Serialize};

use crate::limits::{
    CONNECTIONS_MAX, CONNECTIONS_PER_PEER_MAX, IN_FLIGHT_MAX, SEGMENT_BYTES_MIN, WATCH_COMMENT_MS,
    WATCH_COMMENT_MS_MAX, WATCH_COMMENT_MS_MIN, WATCH_LAG_MAX, WATCHERS_MAX,
};

/// Where a server listens when nobody says otherwise.
pub const LISTEN: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 7420);
/// Where its data is when nobody says otherwise.
pub const DATA: &str = "./leasehold-data";

/// The most records that a table of the state machine can number.
const RECORDS_MAX: usize = u32::MAX as usize - 1;

/// Settings that somebody gave: on the command line, in the environment, or in a file.
#[derive(Args, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct Given {
    /// Directory for the journal; created if it is not there [default: ./leasehold-data]
    #[arg(long, value_name = "DIR", env = "LEASEHOLD_DATA")]
    pub data: Option<PathBuf>,
    /// Address and port to listen on; port 0 takes a free one [default: 127.0.0.1:7420]
    #[arg(long, value_name = "ADDR", env = "LEASEHOLD_LISTEN")]
    pub listen: Option<SocketAddr>,
    /// Keep nothing: everything is gone when the server stops
    #[arg(long, env = "LEASEHOLD_IN_MEMORY", value_name = "BOOL", hide_possible_values = true)]
    #[arg(num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub in_memory: Option<bool>,
    /// Certificate chain in PEM form, the server's own certificate first; read again on SIGHUP
    #[arg(long, value_name = "FILE", env = "LEASEHOLD_TLS_CERT")]
    pub tls_cert: Option<PathBuf>,
    /// Private key of the certificate in PEM form; read again on SIGHUP
    #[arg(long, value_name = "FILE", env = "LEASEHOLD_TLS_KEY")]
    pub tls_key: Option<PathBuf>,
    /// TLS with a certificate of its own, for development
    #[arg(long, env = "LEASEHOLD_DEV_TLS", value_name = "BOOL", hide_possible_values = true)]
    #[arg(num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub dev_tls: Option<bool>,
    /// Serve only those who show a token of this file, one a line; read again on SIGHUP
    #[arg(long, value_name = "FILE", env = "LEASEHOLD_TOKEN_FILE")]
    pub token_file: Option<PathBuf>,
    /// Listen beyond loopback without encryption or authentication
    #[arg(long, env = "LEASEHOLD_INSECURE", value_name = "BOOL", hide_possible_values = true)]
    #[arg(num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub insecure: Option<bool>,
    /// Another host name under which clients may address this server; repeatable
    #[arg(long = "allow-host", value_name = "NAME", env = "LEASEHOLD_ALLOW_HOSTS", value_delimiter = ',')]
    pub allow_hosts: Option<Vec<String>>,
    /// Append every event to this file, one JSON line each
    #[arg(long, value_name = "FILE", env = "LEASEHOLD_AUDIT_LOG")]
    pub audit_log: Option<PathBuf>,
    /// How much is logged [default: info]
    #[arg(long, value_name = "LEVEL", env = "LEASEHOLD_LOG_LEVEL", value_enum)]
    pub log_level: Option<LogLevel>,
    /// Logs for people or for machines [default: text]
    #[arg(long, value_name = "FORMAT", env = "LEASEHOLD_LOG_FORMAT", value_enum)]
    pub log_format: Option<LogFormat>,
    /// Live leases at most
    #[arg(long, value_name = "N", env = "LEASEHOLD_LEASES_MAX", help_heading = "Limits")]
    pub leases_max: Option<usize>,
    /// Waiters at most, on all locks together
    #[arg(long, value_name = "N", env = "LEASEHOLD_WAITERS_MAX", help_heading = "Limits")]
    pub waiters_max: Option<usize>,
    /// Waiters at most on one lock
    #[arg(long, value_name = "N", env = "LEASEHOLD_WAITERS_PER_LOCK_MAX", help_heading = "Limits")]
    pub waiters_per_lock_max: Option<usize>,
    /// Opened sessions at most
    #[arg(long, value_name = "N", env = "LEASEHOLD_SESSIONS_MAX", help_heading = "Limits")]
    pub sessions_max: Option<usize>,
    /// Request ids remembered at most after what they named has ended
    #[arg(long, value_name = "N", env = "LEASEHOLD_REQUEST_IDS_MAX", help_heading = "Limits")]
    pub request_ids_max: Option<usize>,
    /// Files at most
    #[arg(long, value_name = "N", env = "LEASEHOLD_FILES_MAX", help_heading = "Limits")]
    pub files_max: Option<usize>,
    /// Bytes at most in one file
    #[arg(long, value_name = "BYTES", env = "LEASEHOLD_FILE_BYTES_MAX", help_heading = "Limits")]
    pub file_bytes_max: Option<u64>,
    /// Bytes at most in all files together
    #[arg(long, value_name = "BYTES", env = "LEASEHOLD_FILES_BYTES_MAX", help_heading = "Limits")]
    pub files_bytes_max: Option<u64>,
    /// Connections at most
    #[arg(long, value_name = "N", env = "LEASEHOLD_CONNECTIONS_MAX", help_heading = "Limits")]
    pub connections_max: Option<usize>,
    /// Connections at most from one address beyond this machine (IPv6: from one /64)
    #[arg(long, value_name = "N", env = "LEASEHOLD_CONNECTIONS_PER_PEER_MAX", help_heading = "Limits")]
    pub connections_per_peer_max: Option<usize>,
    /// Watchers at most
    #[arg(long, value_name = "N", env = "LEASEHOLD_WATCHERS_MAX", help_heading = "Limits")]
    pub watchers_max: Option<usize>,
    /// Operations at most in flight on one gRPC stream
    #[arg(long, value_name = "N", env = "LEASEHOLD_IN_FLIGHT_MAX", help_heading = "Limits")]
    pub in_flight_max: Option<usize>,
    /// Events that may pass a watcher that does not keep up, before it is cut off
    #[arg(long, value_name = "N", env = "LEASEHOLD_WATCH_LAG_MAX", help_heading = "Limits")]
    pub watch_lag_max: Option<usize>,
    /// How often an event stream carries a comment, so that nobody on the way takes it for dead
    #[arg(long, value_name = "MS", env = "LEASEHOLD_WATCH_COMMENT_MS", help_heading = "Limits")]
    pub watch_comment_ms: Option<u64>,
    /// Requests at most that are being worked on; beyond it the answer is `busy`
    #[arg(long, value_name = "N", env = "LEASEHOLD_QUEUE_MAX", help_heading = "Limits")]
    pub queue_max: Option<usize>,
    /// Free disk space below which nothing is begun that needs room
    #[arg(long, value_name = "BYTES", env = "LEASEHOLD_DISK_RESERVE_BYTES", help_heading = "Limits")]
    pub disk_reserve_bytes: Option<u64>,
    /// Size of the journal's files
    #[arg(long, value_name = "BYTES", env = "LEASEHOLD_SEGMENT_BYTES", help_heading = "Limits")]
    pub segment_bytes: Option<u64>,
}

/// How much is logged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogLevel {
    /// What failed.
    Error,
    /// And what an operator should look at.
    Warn,
    /// And expiries, breaks, ended sessions, stalls, slow commits.
    #[default]
    Info,
    /// And every grant and release.
    Debug,
    /// And more.
    Trace,
}

/// For whom logs are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// For people.
    #[default]
    Text,
    /// For machines: one JSON object a line.
    Json,
}

/// The settings a server runs with. As TOML it is a file that gives the same settings again.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[expect(missing_docs, reason = "each is explained where it is given")]
pub struct Settings {
    pub data: PathBuf,
    pub listen: SocketAddr,
    pub in_memory: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tls_cert: Option<PathBuf>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tls_key: Option<PathBuf>,
    pub dev_tls: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token_file: Option<PathBuf>,
    pub insecure: bool,
    pub allow_hosts: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub audit_log: Option<PathBuf>,
    pub log_level: LogLevel,
    pub log_format: LogFormat,
    pub leases_max: usize,
    pub waiters_max: usize,
    pub waiters_per_lock_max: usize,
    pub sessions_max: usize,
    pub request_ids_max: usize,
    pub files_max: usize,
    pub file_bytes_max: u64,
    pub files_bytes_max: u64,
    pub connections_max: usize,
    pub connections_per_peer_max: usize,
    pub watchers_max: usize,
    /// Operations in flight on one gRPC stream.
    pub in_flight_max: usize,
    pub watch_lag_max: usize,
    pub watch_comment_ms: u64,
    pub queue_max: usize,
    pub disk_reserve_bytes: u64,
    pub segment_bytes: u64,
}

/// Why there are no settings.
#[derive(Debug)]
pub enum ConfigError {
    /// The file cannot be read.
    Unreadable {
        /// Which file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The file is not what it should be; the reason names the key.
    Malformed {
        /// Which file.
        path: PathBuf,
        /// What is wrong and where.
        source: Box<toml::de::Error>,
    },
    /// A number out of its bounds.
    OutOfBounds {
        /// The setting.
        key: &'static str,
        /// The least it may be.
        min: u64,
        /// The most it may be.
        max: u64,
    },
    /// Two settings that do not go together, or one that needs another.
    Pair(&'static str),
    /// Listening for everybody needs more, or asking for it in so many words.
    NotLoopback {
        /// Where.
        listen: SocketAddr,
        /// What there is not.
        without: &'static str,
    },
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ConfigError::Unreadable { path, source } => write!(f, "cannot read {}: {source}", path.display()),
            ConfigError::Malformed { path, source } => write!(f, "{}: {source}", path.display()),
            ConfigError::OutOfBounds { key, min, max } => write!(f, "{key} must be from {min} to {max}"),
            ConfigError::Pair(sentence) => f.write_str(sentence),
            ConfigError::NotLoopback { listen, without } => write!(
                f,
                "{listen} can be reached from other machines, without {without}: give --tls-cert, --tls-key and \
                 --token-file, or listen on 127.0.0.1, or say --insecure if the network is trusted"
            ),
        }
    }
}

impl std::error::Error for ConfigError {}

impl Given {
    /// Reads a file. Unknown keys are refused by name.
    pub fn read(path: &Path) -> Result<Given, ConfigError> {
        let text = std::fs::read_to_string(path)
            .map_err(|source| ConfigError::Unreadable { path: path.to_owned(), source })?;
        toml::from_str(&text)
            .map_err(|source| ConfigError::Malformed { path: path.to_owned(), source: Box::new(source) })
    }

    /// These settings, and where they say nothing those of `lower`.
    pub fn over(self, lower: Given) -> Given {
        Given {
            data: self.data.or(lower.data),
            listen: self.listen.or(lower.listen),
            in_memory: self.in_memory.or(lower.in_memory),
            tls_cert: self.tls_cert.or(lower.tls_cert),
            tls_key: self.tls_key.or(lower.tls_key),
            dev_tls: self.dev_tls.or(lower.dev_tls),
            token_file: self.token_file.or(lower.token_file),
            insecure: self.insecure.or(lower.insecure),
            allow_hosts: self.allow_hosts.or(lower.allow_hosts),
            audit_log: self.audit_log.or(lower.audit_log),
            log_level: self.log_level.or(lower.log_level),
            log_format: self.log_format.or(lower.log_format),
            leases_max: self.leases_max.or(lower.leases_max),
            waiters_max: self.waiters_max.or(lower.waiters_max),
            waiters_per_lock_max: self.waiters_per_lock_max.or(lower.waiters_per_lock_max),
            sessions_max: self.sessions_max.or(lower.sessions_max),
            request_ids_max: self.request_ids_max.or(lower.request_ids_max),
            files_max: self.files_max.or(lower.files_max),
            file_bytes_max: self.file_bytes_max.or(lower.file_bytes_max),
            files_bytes_max: self.files_bytes_max.or(lower.files_bytes_max),
            connections_max: self.connections_max.or(lower.connections_max),
            connections_per_peer_max: self.connections_per_peer_max.or(lower.connections_per_peer_max),
            watchers_max: self.watchers_max.or(lower.watchers_max),
            in_flight_max: self.in_flight_max.or(lower.in_flight_max),
            watch_lag_max: self.watch_lag_max.or(lower.watch_lag_max),
            watch_comment_ms: self.watch_comment_ms.or(lower.watch_comment_ms),
            queue_max: self.queue_max.or(lower.queue_max),
            disk_reserve_bytes: self.disk_reserve_bytes.or(lower.disk_reserve_bytes),
            segment_bytes: self.segment_bytes.or(lower.segment_bytes),
        }
    }

    /// The settings to run with, checked.
    pub fn settle(self) -> Result<Settings, ConfigError> {
        let limits = Limits::default();
        let settings = Settings {
            data: self.data.unwrap_or_else(|| DATA.into()),
            listen: self.listen.unwrap_or(LISTEN),
            in_memory: self.in_memory.unwrap_or(false),
            tls_cert: self.tls_cert,
            tls_key: self.tls_key,
            dev_tls: self.dev_tls.unwrap_or(false),
            token_file: self.token_file,
            insecure: self.insecure.unwrap_or(false),
            allow_hosts: self.allow_hosts.unwrap_or_default(),
            audit_log: self.audit_log,
            log_level: self.log_level.unwrap_or_default(),
            log_format: self.log_format.unwrap_or_default(),
            leases_max: self.leases_max.unwrap_or(limits.leases_max),
            waiters_max: self.waiters_max.unwrap_or(limits.waiters_max),
            waiters_per_lock_max: self.waiters_per_lock_max.unwrap_or(limits.waiters_per_lock_max),
            sessions_max: self.sessions_max.unwrap_or(limits.sessions_max),
            request_ids_max: self.request_ids_max.unwrap_or(limits.request_ids_max),
            files_max: self.files_max.unwrap_or(limits.files_max),
            file_bytes_max: self.file_bytes_max.unwrap_or(limits.file_bytes_max),
            files_bytes_max: self.files_bytes_max.unwrap_or(limits.files_bytes_max),
            connections_max: self.connections_max.unwrap_or(CONNECTIONS_MAX),
            connections_per_peer_max: self.connections_per_peer_max.unwrap_or(CONNECTIONS_PER_PEER_MAX),
            watchers_max: self.watchers_max.unwrap_or(WATCHERS_MAX),
            in_flight_max: self.in_flight_max.unwrap_or(IN_FLIGHT_MAX),
            watch_lag_max: self.watch_lag_max.unwrap_or(WATCH_LAG_MAX),
            watch_comment_ms: self.watch_comment_ms.unwrap_or(WATCH_COMMENT_MS),
            queue_max: self.queue_max.unwrap_or(leasehold_engine::limits::ORDINARY_REQUESTS_MAX),
            disk_reserve_bytes: self
                .disk_reserve_bytes
                .unwrap_or(leasehold_engine::limits::ROOM_RESERVE_BYTES),
            segment_bytes: self.segment_bytes.unwrap_or(leasehold_journal::limits::SEGMENT_BYTES),
        };
        settings.check()?;
        Ok(settings)
    }
}

impl Settings {
    /// As a TOML file.
    pub fn to_toml(&self) -> String {
        let text = toml::to_string(self);
        assert!(text.is_ok(), "settings are numbers, flags and texts");
        text.unwrap_or_default()
    }

    /// The bounds of the state machine.
    pub fn limits(&self) -> Limits {
        Limits {
            leases_max: self.leases_max,
            waiters_max: self.waiters_max,
            waiters_per_lock_max: self.waiters_per_lock_max,
            sessions_max: self.sessions_max,
            request_ids_max: self.request_ids_max,
            files_max: self.files_max,
            file_bytes_max: self.file_bytes_max,
            files_bytes_max: self.files_bytes_max,
            ..Limits::default()
        }
    }

    fn check(&self) -> Result<(), ConfigError> {
        for (key, value) in [
            ("leases_max", self.leases_max),
            ("waiters_max", self.waiters_max),
            ("waiters_per_lock_max", self.waiters_per_lock_max),
            ("sessions_max", self.sessions_max),
            ("request_ids_max", self.request_ids_max),
            ("files_max", self.files_max),
            ("connections_max", self.connections_max),
            ("connections_per_peer_max", self.connections_per_peer_max),
            ("watchers_max", self.watchers_max),
            ("watch_lag_max", self.watch_lag_max),
            ("queue_max", self.queue_max),
        ] {
            if !(1..=RECORDS_MAX).contains(&value) {
                return Err(ConfigError::OutOfBounds { key, min: 1, max: RECORDS_MAX as u64 });
            }
        }
        for (key, value) in
            [("file_bytes_max", self.file_bytes_max), ("files_bytes_max", self.files_bytes_max)]
        {
            if !(1..NUMBER_END).contains(&value) {
                return Err(ConfigError::OutOfBounds { key, min: 1, max: NUMBER_END - 1 });
            }
        }
        if !(WATCH_COMMENT_MS_MIN..=WATCH_COMMENT_MS_MAX).contains(&self.watch_comment_ms) {
            let (min, max) = (WATCH_COMMENT_MS_MIN, WATCH_COMMENT_MS_MAX);
            return Err(ConfigError::OutOfBounds { key: "watch_comment_ms", min, max });
        }
        // A client may name this many of its numbers as still open.
        let (min, max) = (1, OPEN_NUMBERS_MAX);
        if !(min..=max).contains(&self.in_flight_max) {
            let (min, max) = (min as u64, max as u64);
            return Err(ConfigError::OutOfBounds { key: "in_flight_max", min, max });
        }
        let (min, max) = (SEGMENT_BYTES_MIN, leasehold_journal::limits::SEGMENT_BYTES_MAX);
        if !(min..=max).contains(&self.segment_bytes) {
            return Err(ConfigError::OutOfBounds { key: "segment_bytes", min, max });
        }
        self.check_exposure()
    }

    /// Beyond loopback only encrypted and for those with a token, unless the operator says otherwise.
    fn check_exposure(&self) -> Result<(), ConfigError> {
        match (&self.tls_cert, &self.tls_key) {
            (Some(_), None) => return Err(ConfigError::Pair("tls_cert needs tls_key, its private key")),
            (None, Some(_)) => return Err(ConfigError::Pair("tls_key needs tls_cert, its certificate")),
            (Some(_), Some(_)) if self.dev_tls => {
                return Err(ConfigError::Pair("dev_tls and tls_cert are two certificates: choose one"));
            }
            _ => {}
        }
        // ::ffff:127.0.0.1 is loopback too, in another spelling.
        if self.listen.ip().to_canonical().is_loopback() || self.insecure {
            return Ok(());
        }
        let without = match (self.has_tls(), self.token_file.is_some()) {
            (true, true) => return Ok(()),
            (true, false) => "authentication",
            (false, true) => "encryption",
            (false, false) => "encryption or authentication",
        };
        Err(ConfigError::NotLoopback { listen: self.listen, without })
    }

    /// Whether connections are encrypted.
    pub fn has_tls(&self) -> bool {
        self.tls_cert.is_some() || self.dev_tls
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_printed_can_be_read_again() {
        let given: Given = toml::from_str(
            "data = \"/d\"\nlisten = \"127.0.0.1:1\"\nlog_level = \"debug\"\nallow_hosts = [\"a\"]\nleases_max = 7",
        )
        .unwrap();
        let settings = given.settle().unwrap();
        assert_eq!((settings.leases_max, settings.log_level), (7, LogLevel::Debug));
        let again: Given = toml::from_str(&settings.to_toml()).unwrap();
        assert_eq!(again.settle().unwrap(), settings);
    }

    #[test]
    fn the_upper_wins() {
        let upper = Given { leases_max: Some(1), ..Given::default() };
        let lower = Given { leases_max: Some(2), waiters_max: Some(3), ..Given::default() };
        let given = upper.over(lower);
        assert_eq!((given.leases_max, given.waiters_max), (Some(1), Some(3)));
    }

    #[test]
    fn what_is_wrong_is_named() {
        let unknown = toml::from_str::<Given>("lesaes_max = 7").unwrap_err().to_string();
        assert!(unknown.contains("lesaes_max"), "{unknown}");
        let zero = Given { queue_max: Some(0), ..Given::default() }.settle().unwrap_err().to_string();
        assert!(zero.contains("queue_max"), "{zero}");
        let open = Given { listen: Some("0.0.0.0:1".parse().unwrap()), ..Given::default() };
        assert!(open.clone().settle().unwrap_err().to_string().contains("--insecure"));
        assert!(Given { insecure: Some(true), ..open }.settle().is_ok());
    }

    #[test]
    fn beyond_loopback_needs_tls_and_a_token() {
        let given = |text: &str| toml::from_str::<Given>(text).unwrap().settle();
        let (all, cert, key, token) =
            ("listen = \"[::]:1\"\n", "tls_cert = \"c\"\n", "tls_key = \"k\"\n", "token_file = \"t\"\n");
        let said = |lines: &[&str]| given(&lines.concat()).unwrap_err().to_string();
        assert!(said(&[all, cert, key]).contains("without authentication"));
        assert!(said(&[all, token]).contains("without encryption:"));
        assert!(said(&[all]).contains("without encryption or authentication"));
        assert!(said(&[cert]).contains("tls_key") && said(&[key]).contains("tls_cert"));
        assert!(said(&[cert, key, "dev_tls = true"]).contains("choose one"));
        assert!(given(&[all, cert, key, token].concat()).is_ok());
        assert!(given(&[all, token, "dev_tls = true"].concat()).is_ok());
        assert!(given(token).is_ok() && given(&[cert, key].concat()).is_ok());
        assert!(given("listen = \"[::ffff:127.0.0.1]:1\"").is_ok());
    }
}
