//! Who wants to hear which session's leases have ended. Passes on what streams are told; remembers nothing.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use leasehold_protocol::v1;
use tokio::sync::mpsc;

type Listener = mpsc::UnboundedSender<v1::EndedLease>;

/// Listeners by session.
#[derive(Default)]
pub(super) struct Notices {
    by_session: Mutex<HashMap<String, Vec<Listener>>>,
}

impl Notices {
    /// Hears of this session's ended leases from now on.
    pub fn listen(&self, session_id: &str) -> mpsc::UnboundedReceiver<v1::EndedLease> {
        let (tell, told) = mpsc::unbounded_channel();
        let mut by_session = self.by_session.lock().unwrap_or_else(PoisonError::into_inner);
        // Sessions come and go rarely; whoever comes tidies up.
        by_session.retain(|_, listeners| {
            listeners.retain(|listener| !listener.is_closed());
            !listeners.is_empty()
        });
        by_session.entry(session_id.to_owned()).or_default().push(tell);
        told
    }

    /// Passes a notice on.
    pub fn tell(&self, notice: v1::Ended) {
        let by_session = self.by_session.lock().unwrap_or_else(PoisonError::into_inner);
        for listener in by_session.get(&notice.session_id).into_iter().flatten() {
            for ended in &notice.ended {
                // Who has gone is tidied up later.
                let _ = listener.send(ended.clone());
            }
        }
    }
}
