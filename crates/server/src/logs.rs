//! Logs: set up once, and what each event is worth. Text for people, JSON for machines, both on standard error. No
//! secret can appear, because events are told through [`Told`], which has none.

use std::io::IsTerminal;

use leasehold_engine::{Contents, Notice};
use leasehold_state_machine::event::{Event, Seq};
use tracing::level_filters::LevelFilter;
use tracing::{Level, debug, info, warn};

use crate::config::{LogFormat, LogLevel};
use crate::wire::event_line::Told;

/// Starts logging. Later calls in the same process change nothing.
pub fn start(level: LogLevel, format: LogFormat) {
    let level = match level {
        LogLevel::Error => LevelFilter::ERROR,
        LogLevel::Warn => LevelFilter::WARN,
        LogLevel::Info => LevelFilter::INFO,
        LogLevel::Debug => LevelFilter::DEBUG,
        LogLevel::Trace => LevelFilter::TRACE,
    };
    let logs =
        tracing_subscriber::fmt().with_max_level(level).with_target(false).with_writer(std::io::stderr);
    // A second start, as in tests, finds the first one's logs.
    let _ = match format {
        LogFormat::Text => logs.with_ansi(std::io::stderr().is_terminal()).try_init(),
        LogFormat::Json => logs.json().flatten_event(true).with_ansi(false).try_init(),
    };
}

/// How many events of a chapter are worth a line now, at most; known without reading it.
pub fn worth(contents: Contents) -> u64 {
    if tracing::enabled!(Level::DEBUG) {
        contents.events
    } else if tracing::enabled!(Level::WARN) {
        contents.remarkable
    } else {
        0
    }
}

/// Whether an event is worth a line now.
pub fn is_worth(event: &Event) -> bool {
    match event {
        Event::Expired { .. } | Event::Broken { .. } | Event::SessionEnded { .. } | Event::GrantsResumed => {
            tracing::enabled!(Level::INFO)
        }
        Event::GrantsHeld { .. } => tracing::enabled!(Level::WARN),
        Event::Granted { .. } | Event::Released { .. } => tracing::enabled!(Level::DEBUG),
        _ => false,
    }
}

/// Logs what an event is worth: endings that nobody asked for at info, ordinary life at debug, housekeeping not.
pub fn event(seq: Seq, event: &Event) {
    match event {
        Event::Expired { .. } => {
            let Told { lock, owner_id, fencing_token, .. } = Told::from(event);
            info!(seq, lock, owner_id, fencing_token, "lease expired");
        }
        Event::Broken { force, .. } => {
            let Told { lock, owner_id, fencing_token, reason, .. } = Told::from(event);
            info!(seq, lock, owner_id, fencing_token, reason, force, "lease broken");
        }
        Event::SessionEnded { .. } => {
            let Told { owner_id, reason, .. } = Told::from(event);
            info!(seq, owner_id, reason, "session ended");
        }
        Event::GrantsHeld { for_ms } => warn!(seq, for_ms, "granting nothing: an old copy was put back"),
        Event::GrantsResumed => info!(seq, "granting again"),
        Event::Granted { .. } => {
            let Told { lock, owner_id, fencing_token, mode, .. } = Told::from(event);
            debug!(seq, lock, owner_id, fencing_token, mode, "lease granted");
        }
        Event::Released { .. } => {
            let Told { lock, owner_id, fencing_token, reason, .. } = Told::from(event);
            debug!(seq, lock, owner_id, fencing_token, reason, "lease released");
        }
        _ => {}
    }
}

/// Logs what the engine wants an operator to know.
pub fn notice(notice: &Notice) {
    match notice {
        Notice::ClockDoubted { .. } | Notice::Room { short: true, .. } => warn!("{notice}"),
        Notice::SlowCommit { .. } | Notice::Stall { .. } | Notice::SweepLag { .. } | Notice::Room { .. } => {
            info!("{notice}");
        }
    }
}
