//! What a follower knows: who leads, and the value they published. It looks once, then watches; while nothing changes it
//! sends nothing.

use std::future::Future;

use futures_util::StreamExt;
use tokio::sync::watch;

use super::Leader;
use crate::lease::Lease;
use crate::observed::Observed;

/// Who leads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Led {
    /// The leader.
    pub owner_id: String,
    /// The token of its term.
    pub token: u64,
    /// What it published.
    pub value: Option<String>,
}

/// What a follower knows, kept up to date while it waits for its turn.
#[derive(Clone, Debug)]
pub struct Following {
    leader: watch::Receiver<Option<Led>>,
}

impl Following {
    /// Who leads, as far as is known.
    pub fn leader(&self) -> Option<Led> {
        self.leader.borrow().clone()
    }

    /// Waits until this has changed, and gives what it is now: none when nobody leads.
    pub async fn changed(&mut self) -> Option<Led> {
        if self.leader.changed().await.is_err() {
            // The wait is over: nothing changes any more.
            return std::future::pending().await;
        }
        self.leader.borrow_and_update().clone()
    }
}

/// Observes who leads. The future is done only when nothing more can be learnt.
pub(super) fn observe(lease: Lease) -> (impl Future<Output = ()>, Following) {
    let (know, leader) = watch::channel(None);
    let observing = async move {
        let mut changes = lease.observe();
        while let Some(Ok(observed)) = changes.next().await {
            know.send_if_modified(|known| {
                let now = led(&observed);
                let news = *known != now;
                *known = now;
                news
            });
        }
        // Keeps `know`: what was known last stays known.
        std::future::pending::<()>().await;
        drop(know);
    };
    (observing, Following { leader })
}

fn led(observed: &Observed) -> Option<Led> {
    let holding = observed.holders.iter().find(|holding| !holding.broken)?;
    Some(Led {
        owner_id: holding.owner_id.clone(),
        token: holding.token,
        value: holding.metadata.get(Leader::VALUE_KEY).cloned(),
    })
}
