//! Where durable events go: to the audit file, all of them; to the log, those worth a line; to the watch feed, those
//! that concern somebody. Has threads of its own, so that neither a slow file or terminal nor a crowd of watchers stops
//! the engine; only an audit file that falls far behind makes it wait, because an audit trail is complete or it is none.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread::{Builder, JoinHandle};

use leasehold_engine::OnEvents;
use tracing::{error, warn};

use crate::audit::AuditLog;
use crate::logs;
use crate::watch::Feed;
use crate::watch::intake::Batch;

/// Batches of events that may be on their way to the thread.
const BATCHES_MAX: usize = 1024;

/// Starts the threads. They end when what is returned for the engine has been dropped and everything is written.
pub fn start(audit: Option<AuditLog>, feed: Arc<Feed>) -> io::Result<(OnEvents, Vec<JoinHandle<()>>)> {
    let (batches, events) = sync_channel(BATCHES_MAX);
    let audited = audit.is_some();
    let trail = Builder::new().name("trail".into()).spawn(move || follow(&events, audit))?;
    let watch = {
        let feed = Arc::clone(&feed);
        Builder::new().name("watch".into()).spawn(move || feed.follow())?
    };
    let (feeding, mut lines) = (Feeding(feed), Lines { batches, left_out: 0 });
    let on_events: OnEvents = Box::new(move |events| {
        let batch = Batch::new(events);
        feeding.0.intake().put(Arc::clone(&batch));
        match audited {
            true => lines.send(batch),
            false => lines.offer(batch),
        }
    });
    Ok((on_events, vec![trail, watch]))
}

fn follow(events: &Receiver<Batch>, mut audit: Option<AuditLog>) {
    let mut failing = false;
    for batch in events {
        for (seq, _, event) in batch.iter() {
            if logs::is_worth(event) {
                logs::event(*seq, event);
            }
        }
        let Some(audit) = &mut audit else { continue };
        match write(audit, &batch) {
            Ok(()) => failing = false,
            // Once for each time that it begins. The numbers in the file show what is missing.
            Err(error) if !failing => {
                failing = true;
                error!(%error, "events are missing from the audit log: it cannot be written");
            }
            Err(_) => {}
        }
    }
}

fn write(audit: &mut AuditLog, batch: &Batch) -> io::Result<()> {
    for (seq, wall_ms, event) in batch.iter() {
        audit.add(*seq, *wall_ms, event)?;
    }
    audit.flush()
}

/// Ends the feed's thread when the engine has ended.
struct Feeding(Arc<Feed>);

impl Drop for Feeding {
    fn drop(&mut self) {
        self.0.intake().end();
    }
}

/// The way to the audit file and the log.
struct Lines {
    batches: SyncSender<Batch>,
    left_out: usize,
}

impl Lines {
    /// Passes everything on, and waits if it must.
    fn send(&self, batch: Batch) {
        // The thread only ends after this sender.
        let _ = self.batches.send(batch);
    }

    /// Passes on what is worth a line in the log, and rather leaves something out than wait.
    fn offer(&mut self, batch: Batch) {
        let worth = batch.iter().filter(|(_, _, event)| logs::is_worth(event)).count();
        if worth == 0 {
            return;
        }
        match self.batches.try_send(batch) {
            Ok(()) if self.left_out > 0 => {
                warn!(events = self.left_out, "the log could not keep up, and some events are not in it");
                self.left_out = 0;
            }
            Err(TrySendError::Full(_)) => self.left_out += worth,
            Ok(()) | Err(TrySendError::Disconnected(_)) => {}
        }
    }
}
