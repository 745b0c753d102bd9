//! Who wants to hear which session's leases have ended. Passes on what streams are told; remembers nothing.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use leasehold_protocol::v1;
use tokio::sync::mpsc;

type Listener = mpsc::UnboundedSender<v1::EndedLease>;

/// Who listens.
#[derive(Default)]
pub(super) struct Notices {
    listeners: Mutex<Listeners>,
}

#[derive(Default)]
struct Listeners {
    by_session: HashMap<String, Vec<Listener>>,
    /// So many sessions are worth tidying up.
    tidy_at: usize,
}

impl Listeners {
    /// Takes out who has gone, each time there are twice as many as were left: whoever comes pays for a few, not for all.
    fn tidy(&mut self) {
        if self.by_session.len() < self.tidy_at {
            return;
        }
        self.by_session.retain(|_, listeners| {
            listeners.retain(|listener| !listener.is_closed());
            !listeners.is_empty()
        });
        self.tidy_at = 2 * self.by_session.len() + TIDY_MIN;
    }
}

const TIDY_MIN: usize = 16;

impl Notices {
    /// Hears of this session's ended leases from now on.
    pub fn listen(&self, session_id: &str) -> mpsc::UnboundedReceiver<v1::EndedLease> {
        let (tell, told) = mpsc::unbounded_channel();
        let mut listeners = self.listeners.lock().unwrap_or_else(PoisonError::into_inner);
        listeners.tidy();
        listeners.by_session.entry(session_id.to_owned()).or_default().push(tell);
        told
    }

    /// Passes a notice on.
    pub fn tell(&self, notice: v1::Ended) {
        let listeners = self.listeners.lock().unwrap_or_else(PoisonError::into_inner);
        for listener in listeners.by_session.get(&notice.session_id).into_iter().flatten() {
            for ended in &notice.ended {
                // Who has gone is tidied up later.
                let _ = listener.send(ended.clone());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passes_on_and_keeps_nobody_who_has_gone() {
        let notices = Notices::default();
        let mut told = notices.listen("mine");
        for number in 0..1_000 {
            drop(notices.listen(&number.to_string()));
        }
        assert!(notices.listeners.lock().unwrap().by_session.len() <= 2 * (TIDY_MIN + 2));
        let ended = v1::EndedLease { fencing_token: 7, ..Default::default() };
        for session_id in ["mine", "another"] {
            notices.tell(v1::Ended { session_id: session_id.into(), ended: Vec::from([ended.clone()]) });
        }
        assert_eq!(told.try_recv(), Ok(ended));
        assert!(told.try_recv().is_err());
    }
}
