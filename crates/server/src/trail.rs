//! Where durable events go: to the audit file, all of them, and to the log, those worth a line. Has a thread of its own,
//! so that a slow file or terminal does not stop the engine; only an audit file that falls far behind makes it wait,
//! because an audit trail is complete or it is none.

use std::io;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread::JoinHandle;

use leasehold_state_machine::event::{Event, Seq};
use tracing::{error, warn};

use crate::audit::AuditLog;
use crate::logs;

/// Batches of events that may be on their way to the thread.
const BATCHES_MAX: usize = 1024;

type Batch = Vec<(Seq, u64, Event)>;

/// What the engine calls with every batch of durable events.
pub type OnEvents = Box<dyn FnMut(&[(Seq, u64, Event)]) + Send>;

/// Starts the thread. It ends when what is returned for the engine has been dropped and everything is written.
pub fn start(audit: Option<AuditLog>) -> io::Result<(OnEvents, JoinHandle<()>)> {
    let (batches, events) = sync_channel(BATCHES_MAX);
    let audited = audit.is_some();
    let thread = std::thread::Builder::new().name("trail".into()).spawn(move || follow(&events, audit))?;
    let on_events: OnEvents = match audited {
        true => Box::new(move |events| {
            // The thread only ends after this sender.
            let _ = batches.send(events.to_vec());
        }),
        false => {
            let mut unlogged = Unlogged { batches, count: 0 };
            Box::new(move |events| unlogged.pass_on(events))
        }
    };
    Ok((on_events, thread))
}

fn follow(events: &Receiver<Batch>, mut audit: Option<AuditLog>) {
    let mut failing = false;
    for batch in events {
        for (seq, _, event) in &batch {
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
    for (seq, wall_ms, event) in batch {
        audit.add(*seq, *wall_ms, event)?;
    }
    audit.flush()
}

/// Passes on what is worth a line in the log, and rather leaves something out than wait.
struct Unlogged {
    batches: SyncSender<Batch>,
    count: usize,
}

impl Unlogged {
    fn pass_on(&mut self, events: &[(Seq, u64, Event)]) {
        let batch: Batch = events.iter().filter(|(_, _, event)| logs::is_worth(event)).cloned().collect();
        if batch.is_empty() {
            return;
        }
        match self.batches.try_send(batch) {
            Ok(()) if self.count > 0 => {
                warn!(events = self.count, "the log could not keep up, and some events are not in it");
                self.count = 0;
            }
            Err(TrySendError::Full(batch)) => self.count += batch.len(),
            Ok(()) | Err(TrySendError::Disconnected(_)) => {}
        }
    }
}
