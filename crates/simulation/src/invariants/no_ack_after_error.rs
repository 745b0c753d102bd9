//! no_ack_after_error: after the first write or sync that failed nothing more is acknowledged: no reply, no event, no notice,
//! not even what needs no disk.
//!
//! Catches: an answer that was decided and not durable when the disk failed, a read that still leaves, a retry of the write.

use leasehold_engine::Released;

use super::{Verdict, Violation};

/// Judges what leaves a server whose disk has failed.
pub fn judge(left: &Released) -> Verdict {
    let Released { unasked, packed, replies, chapters, .. } = left;
    if unasked.is_empty() && *packed == 0 && replies.is_empty() && chapters.is_empty() {
        return Ok(());
    }
    Err(Violation::new(
        "no_ack_after_error",
        format!(
            "{} replies, {} batches of events and {} notices left the server after its disk had failed",
            packed + replies.len(),
            chapters.len(),
            unasked.len()
        ),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use leasehold_engine::Chapter;
    use leasehold_state_machine::event::Event;

    #[test]
    fn sees_whatever_leaves() {
        judge(&Released::default()).unwrap();
        let chapters = vec![Chapter::of([(1, 0, Event::GrantsResumed)])];
        assert!(judge(&Released { chapters, ..Released::default() }).is_err());
        assert!(judge(&Released { packed: 1, ..Released::default() }).is_err());
    }
}
