//! Keeps one lease alive that has a session of its own: one task, which renews by the keeper's timetable and repeats without
//! waiting for answers. It never blocks the holder, and it ends with the lease.

use std::sync::Arc;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use leasehold_protocol::v1;
use leasehold_protocol::v1::operation::What as Asked;

use crate::calls;
use crate::error::Error;
use crate::hold::{Hold, Promise, ended_by};
use crate::keeper::Step;
use crate::operations::Answered;
use crate::outcome::{self, Told};

/// Keeps a lease until it is over.
pub(crate) async fn keep(hold: Arc<Hold>) {
    let (clock, operations) = (hold.clock(), hold.operations());
    let mut under_way = FuturesUnordered::new();
    // The last renewal, while none since the last confirmation has been answered.
    let mut unanswered_us = None;
    loop {
        let now_us = clock.now_us();
        let wake_us = match hold.step(now_us) {
            Step::Lost => return,
            Step::Renew => {
                if let Some(since_us) = unanswered_us.replace(now_us) {
                    operations.doubt(since_us);
                }
                under_way.push(operations.send(Asked::Renew(renewal(&hold))));
                hold.renewal_sent(now_us);
                continue;
            }
            Step::WaitUntil(wake_us) => wake_us,
        };
        tokio::select! {
            biased;
            () = hold.over().cancelled() => return,
            Some(answer) = under_way.next() => {
                if take_in(&hold, answer) {
                    unanswered_us = None;
                }
            }
            () = hold.nudged() => {}
            () = clock.sleep_until(wake_us) => {}
        }
    }
}

/// Takes in an answer, counted from its own sending; several may be under way. Gives whether the server has answered.
fn take_in(hold: &Hold, answer: Result<Answered, Error>) -> bool {
    match answer {
        Ok(Answered { told: Told::Lease(lease), sent_us }) => {
            let Ok(lease) = outcome::lease(&lease) else { return false };
            hold.confirm(Promise::from(&lease), sent_us);
            true
        }
        // Nothing that answers a renewal: as good as none.
        Ok(_) => false,
        Err(refusal) => {
            if let Some(how) = ended_by(&refusal) {
                hold.end(how);
            }
            matches!(refusal, Error::Busy { .. })
        }
    }
}

fn renewal(hold: &Hold) -> v1::RenewRequest {
    let claim = hold.claim().clone();
    v1::RenewRequest {
        lock: claim.lock,
        owner_id: claim.owner_id,
        lease_id: claim.lease_id,
        fencing_token: calls::token(claim.fencing_token),
        ttl_ms: None,
        metadata: None,
    }
}
