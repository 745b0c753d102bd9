//! `leasehold serve`: the server in the foreground, from its first line on the terminal to its exit status.

use std::convert::Infallible;
use std::future::Future;
use std::io::{self, Write};
use std::num::NonZero;
use std::path::PathBuf;
use std::pin::pin;
use std::time::Duration;

use clap::Args;
use leasehold_server::config::Given;
use leasehold_server::serve::{Credentials, Exceptions, Report, ServeError, start};
use leasehold_server::tls::self_signed::Introduction;
use leasehold_server::{logs, metrics};
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::duration;
use crate::status::Failure;

/// Run the server
///
/// Every setting can be given as a flag, in the environment, or in a TOML file, in this order of precedence.
#[derive(Args)]
pub struct Serve {
    #[command(flatten)]
    given: Given,
    /// Read settings from this TOML file
    #[arg(long, value_name = "FILE", env = "LEASEHOLD_CONFIG")]
    config: Option<PathBuf>,
    /// Print the settings that would be used, as TOML, and exit
    #[arg(long)]
    print_config: bool,
    /// An old copy of the data was put back: grant nothing for the longest TTL in it, or for this long
    #[arg(long, value_name = "DURATION", num_args = 0..=1, require_equals = true, value_parser = duration::parse)]
    restored: Option<Option<Duration>>,
    /// Use the wall clock for tokens although it is over a day ahead of the journal
    #[arg(long)]
    accept_clock: bool,
}

impl Serve {
    pub fn run(self) -> Result<(), Failure> {
        metrics::process::started();
        let file = self.config.as_deref().map(Given::read).transpose()?;
        let settings = self.given.over(file.unwrap_or_default()).settle()?;
        if self.print_config {
            let _ = io::stdout().write_all(settings.to_toml().as_bytes());
            return Ok(());
        }
        logs::start(settings.log_level, settings.log_format);
        metrics::process::raise_fd_limit();
        let exceptions = Exceptions { restored: self.restored, accept_clock: self.accept_clock };
        let cores = std::thread::available_parallelism().map_or(1, NonZero::get);
        let threads = door_threads(cores);
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(threads)
            .enable_all()
            .build()
            .map_err(|source| ServeError::System { doing: "start threads", source })?;
        let served = runtime.block_on(async {
            let mut stop = pin!(stop_signal()?);
            let hang_ups = hang_ups()?;
            let running = tokio::select! {
                running = start(settings, exceptions) => running?,
                // A recovery that is cut short has acknowledged nothing; the next start recovers again.
                () = &mut stop => return Ok(()),
            };
            announce(running.report());
            // Where there is one processor, looking out would keep it from those who are to bring something.
            if threads == 1 && cores > 1 {
                tokio::spawn(running.look_out());
            }
            let credentials = running.credentials();
            tokio::select! {
                served = running.until(stop) => served,
                never = reload(hang_ups, credentials) => match never {},
            }
        });
        // Connections that did not end in time are not waited for.
        runtime.shutdown_background();
        Ok(served?)
    }
}

/// Threads that read requests and write answers: a core is left to the one that turns the engine and waits for the disk. One more
/// would be woken for nothing most of the time.
fn door_threads(cores: usize) -> usize {
    (cores - 1).max(1)
}

/// Resolves when the operating system asks for an end.
fn stop_signal() -> Result<impl Future<Output = ()>, ServeError> {
    let listen =
        |kind| signal(kind).map_err(|source| ServeError::System { doing: "listen for signals", source });
    let (mut terminate, mut interrupt) = (listen(SignalKind::terminate())?, listen(SignalKind::interrupt())?);
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    })
}

/// SIGHUP no longer ends the process from here on.
fn hang_ups() -> Result<Signal, ServeError> {
    signal(SignalKind::hangup()).map_err(|source| ServeError::System { doing: "listen for signals", source })
}

/// Reads certificate and tokens again whenever the operating system passes that on.
async fn reload(mut hang_ups: Signal, credentials: Credentials) -> Infallible {
    loop {
        if hang_ups.recv().await.is_none() {
            return std::future::pending().await;
        }
        let credentials = credentials.clone();
        // Files can be slow, and a panic in there has said so itself.
        let _ = tokio::task::spawn_blocking(move || credentials.reload()).await;
    }
}

/// The first lines: everything a newcomer wants to know, at one glance.
fn announce(report: &Report) {
    let address = report.address;
    let scheme = if report.tls { "https" } else { "http" };
    let mut text =
        format!("leasehold {} listening on {scheme}://{address}\n", leasehold_server::http::pages::VERSION);
    text += &kept(report);
    let mut curl = "curl".to_owned();
    if let Some(Introduction { fingerprint, path }) = &report.self_signed {
        text += &format!("certificate: for development only, SHA-256 {fingerprint}\n");
        match path {
            Some(path) => {
                text += &format!("      trust it with --cacert {}\n", path.display());
                curl += &format!(" --cacert {}", path.display());
            }
            None => {
                text += "      it is gone when the server stops\n";
                curl += " --insecure";
            }
        }
    }
    if report.token {
        curl += " -H 'Authorization: Bearer TOKEN'";
    }
    text += &format!(
        "try: {curl} -H 'Content-Type: application/json' -d '{{\"owner_id\":\"me\"}}' {scheme}://{address}/v1/locks/deploy/acquire\n"
    );
    let mut out = io::stdout().lock();
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}

fn kept(report: &Report) -> String {
    let Some(data) = &report.data else {
        return "data: in memory only, everything is gone when the server stops\n".into();
    };
    let recovered = &report.recovered;
    let ms = report.took.as_millis();
    if recovered.founded {
        return format!("data: {} (new, ready in {ms} ms)\n", data.display());
    }
    let mut text = format!(
        "data: {}; recovered {}, {}, {} from {} in {ms} ms\n",
        data.display(),
        count(recovered.leases, "lease"),
        count(recovered.waiters, "waiter"),
        count(recovered.sessions, "session"),
        match report.journal.snapshot_index {
            0 => count(report.journal.records, "record"),
            _ => format!("a snapshot and {}", count(report.journal.records, "record")),
        },
    );
    if recovered.expired > 0 {
        text += &format!("      {} had expired meanwhile\n", count(recovered.expired, "lease"));
    }
    if let Some(torn) = &report.journal.torn {
        text += &format!(
            "      an unfinished record was cut off in {} at byte {}; it was never acknowledged\n",
            torn.path, torn.offset
        );
    }
    if let Some(for_ms) = recovered.grants_held_ms {
        text += &format!(
            "      nothing is granted for {} s: an old copy of the data was put back\n",
            for_ms.div_ceil(1000)
        );
    }
    text
}

fn count(number: impl TryInto<u64>, what: &str) -> String {
    match number.try_into().unwrap_or(u64::MAX) {
        1 => format!("1 {what}"),
        number => format!("{number} {what}s"),
    }
}
