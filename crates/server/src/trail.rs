//! Where durable events go: to the audit file, all of them; to the log, those worth a line; to the watch feed, those
//! that concern somebody. Has threads of its own, so that neither a slow file or terminal nor a crowd of watchers stops
//! the engine; only an audit file that falls far behind makes it wait, because an audit trail is complete or it is none.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread::{Builder, JoinHandle};

use leasehold_engine::{Chapter, OnEvents, Told};
use tracing::{error, warn};

use crate::audit::AuditLog;
use crate::logs;
use crate::watch::Feed;

/// Chapters that may be on their way to the thread.
const CHAPTERS_MAX: usize = 1024;

/// Starts the threads. They end when what is returned for the engine has been dropped and everything is written.
pub fn start(audit: Option<AuditLog>, feed: Arc<Feed>) -> io::Result<(OnEvents, Vec<JoinHandle<()>>)> {
    let (chapters, events) = sync_channel(CHAPTERS_MAX);
    let audited = audit.is_some();
    let trail = Builder::new().name("trail".into()).spawn(move || follow(&events, audit))?;
    let watch = {
        let feed = Arc::clone(&feed);
        Builder::new().name("watch".into()).spawn(move || feed.follow())?
    };
    let (feeding, mut lines) = (Feeding(feed), Lines { chapters, left_out: 0 });
    let on_events: OnEvents = Box::new(move |chapter: Chapter| {
        feeding.0.intake().put(chapter.clone());
        match audited {
            true => lines.send(chapter),
            false => lines.offer(chapter),
        }
    });
    Ok((on_events, vec![trail, watch]))
}

fn follow(chapters: &Receiver<Chapter>, mut audit: Option<AuditLog>) {
    let mut failing = false;
    for chapter in chapters {
        let events = chapter.read();
        for (seq, _, event) in &events {
            if logs::is_worth(event) {
                logs::event(*seq, event);
            }
        }
        let Some(audit) = &mut audit else { continue };
        match write(audit, &events) {
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

fn write(audit: &mut AuditLog, events: &[Told]) -> io::Result<()> {
    for (seq, wall_ms, event) in events {
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
    chapters: SyncSender<Chapter>,
    left_out: u64,
}

impl Lines {
    /// Passes everything on, and waits if it must.
    fn send(&self, chapter: Chapter) {
        // The thread only ends after this sender.
        let _ = self.chapters.send(chapter);
    }

    /// Passes on what is worth a line in the log, and rather leaves something out than wait.
    fn offer(&mut self, chapter: Chapter) {
        let worth = logs::worth(chapter.contents());
        if worth == 0 {
            return;
        }
        match self.chapters.try_send(chapter) {
            Ok(()) if self.left_out > 0 => {
                warn!(events = self.left_out, "the log could not keep up, and some events are not in it");
                self.left_out = 0;
            }
            Err(TrySendError::Full(_)) => self.left_out += worth,
            Ok(()) | Err(TrySendError::Disconnected(_)) => {}
        }
    }
}
