//! What is decided and waits for the journal: encoded batches, in order. Cuts them so that none is larger than the
//! journal takes, whatever one turn decides. A cut may fall inside a turn: every prefix of the events is a true history,
//! and a reply waits for the last event it depends on. Of an event only its length matters here, and what it does to a
//! file, which goes along with its batch.

use std::collections::VecDeque;
use std::sync::Arc;

use leasehold_state_machine::codec::{BatchWriter, BootId, Stamp};
use leasehold_state_machine::event::{Event, Seq};

use crate::chapter::{Chapter, Contents};
use crate::file_change::FileChange;
use crate::limits::{BACKLOG_BYTES, EVENT_BYTES_MAX, NUMBER_BYTES_MAX, WRITE_EVENT_BYTES_MAX};

/// One record for the journal.
#[derive(Debug)]
pub struct Batch {
    /// The bytes. Whoever is told of the events is given the same.
    pub payload: Arc<[u8]>,
    /// The last event in it.
    pub last_seq: Seq,
    /// What is in it.
    pub contents: Contents,
    /// Answers that were packed and leave once it is durable.
    pub packed: usize,
    /// What they do to files once they are durable, in order; to be made known with [`crate::Engine::applied`].
    pub changes: Vec<(Seq, FileChange)>,
}

impl Batch {
    /// Its events, to be told once they are durable.
    pub(crate) fn chapter(&self) -> Chapter {
        let payload = Arc::clone(&self.payload);
        if self.changes.is_empty() {
            return Chapter::new(payload, self.last_seq, self.contents);
        }
        let file_bytes = self.changes.iter().map(|(_, change)| change.len()).sum();
        Chapter::with_files(payload, file_bytes, self.last_seq, self.contents)
    }
}

/// Batches in the making.
#[derive(Debug)]
pub struct Backlog {
    writer: BatchWriter,
    written: Written,
    sealed: VecDeque<Batch>,
    sealed_bytes: usize,
    batch_bytes_max: usize,
    batch_bytes_preferred: usize,
    /// Bytes that may be added before the batch is measured again.
    piece_bytes: usize,
}

/// What is in the writer.
#[derive(Debug, Default)]
struct Written {
    last_seq: Seq,
    contents: Contents,
    changes: Vec<(Seq, FileChange)>,
}

impl Backlog {
    /// An empty one, for a journal that takes batches of this size.
    pub fn new(boot_id: BootId, batch_bytes_max: usize) -> Backlog {
        let batch_bytes_preferred = BACKLOG_BYTES.min(batch_bytes_max / 2);
        Backlog {
            writer: BatchWriter::new(boot_id),
            written: Written::default(),
            sealed: VecDeque::new(),
            sealed_bytes: 0,
            batch_bytes_max,
            batch_bytes_preferred,
            // What goes around the events of a turn takes a few bytes too.
            piece_bytes: (batch_bytes_max - batch_bytes_preferred).saturating_sub(EVENT_BYTES_MAX),
        }
    }

    /// Bytes that one write to a file may have.
    pub fn write_bytes_max(&self) -> usize {
        // It may be added to a batch that is almost as long as is preferred; what goes around it takes a few bytes too.
        (self.batch_bytes_max - self.batch_bytes_preferred).saturating_sub(2 * WRITE_EVENT_BYTES_MAX)
    }

    /// Adds events of one turn.
    pub fn add(&mut self, stamp: &Stamp, events: &[(Seq, Event)]) {
        let mut rest = events;
        while !rest.is_empty() {
            let piece;
            (piece, rest) = rest.split_at(self.piece(rest));
            let (first, last) = (piece[0].0, piece[piece.len() - 1].0);
            self.writer.turn(stamp, first, piece);
            self.written.last_seq = last;
            for (seq, event) in piece {
                self.written.contents.count(event);
                self.written.changes.extend(FileChange::of(event).map(|change| (*seq, change)));
            }
            if self.writer.len() >= self.batch_bytes_preferred {
                self.seal();
            }
        }
    }

    /// How many events may be added before the batch is measured again; at least one.
    fn piece(&self, events: &[(Seq, Event)]) -> usize {
        let mut bytes = 0;
        let fits = |(_, event): &&(Seq, Event)| {
            bytes += event_bytes_max(event);
            bytes <= self.piece_bytes
        };
        events.iter().take_while(fits).count().max(1)
    }

    /// Whether what adds more should wait.
    pub fn is_full(&self) -> bool {
        self.sealed_bytes + self.writer.len() >= self.batch_bytes_preferred
    }

    /// Whether everything that waits goes with the next batch, as far as it is known.
    pub fn is_one_batch(&self) -> bool {
        self.sealed.is_empty()
    }

    /// Whether nothing waits.
    pub fn is_empty(&self) -> bool {
        self.sealed.is_empty() && self.writer.is_empty()
    }

    /// The next batch for the journal.
    pub fn take(&mut self) -> Option<Batch> {
        if self.sealed.is_empty() && !self.writer.is_empty() {
            self.seal();
        }
        let batch = self.sealed.pop_front()?;
        self.sealed_bytes -= batch.payload.len();
        Some(batch)
    }

    fn seal(&mut self) {
        let payload = self.writer.take();
        assert!(payload.len() <= self.batch_bytes_max, "a batch is never larger than the journal takes");
        let Written { last_seq, contents, changes } = std::mem::take(&mut self.written);
        self.sealed_bytes += payload.len();
        self.sealed.push_back(Batch { payload, last_seq, contents, packed: 0, changes });
    }
}

/// How long an event can be at most.
fn event_bytes_max(event: &Event) -> usize {
    let list = match event {
        Event::BreakAnswered { tokens, .. } => tokens.len() * NUMBER_BYTES_MAX,
        Event::Marked { open, .. } => open.len() * NUMBER_BYTES_MAX,
        Event::FileWritten { bytes, .. } => usize::try_from(bytes.len()).unwrap_or(usize::MAX / 2),
        _ => 0,
    };
    EVENT_BYTES_MAX + list
}

#[cfg(test)]
mod tests {
    use super::*;
    use leasehold_state_machine::codec::read_batch;

    fn held(range: std::ops::RangeInclusive<Seq>) -> Vec<(Seq, Event)> {
        range.map(|seq| (seq, Event::GrantsHeld { for_ms: u64::MAX })).collect()
    }

    #[test]
    fn long_events_are_cut_apart_too() {
        use leasehold_state_machine::event::RequestMark;
        use leasehold_state_machine::ids::{Payload, RequestKey, RequestName};
        let request = RequestMark { name: RequestName::Chosen(RequestKey([1, 2])), payload: Payload(3) };
        let long =
            |seq| (seq, Event::BreakAnswered { request, tokens: vec![1 << 52; 10_000], free_in_ms: 0 });
        for batch_bytes_max in [1 << 19, 1 << 20, 16 << 20] {
            let mut backlog = Backlog::new([7; 16], batch_bytes_max);
            let events: Vec<_> = (1..=300).map(long).collect();
            backlog.add(&Stamp { raw_us: 1, wall_ms: 2, wall_trusted: true }, &events);
            let mut last_seq = 0;
            while let Some(batch) = backlog.take() {
                assert!(batch.payload.len() <= batch_bytes_max);
                last_seq = batch.last_seq;
            }
            assert_eq!(last_seq, 300);
        }
    }

    #[test]
    fn turns_gather_in_one_batch() {
        let mut backlog = Backlog::new([7; 16], 1 << 20);
        let stamp = |raw_us| Stamp { raw_us, wall_ms: 2, wall_trusted: true };
        assert!(backlog.is_empty() && backlog.take().is_none());
        backlog.add(&stamp(1), &held(1..=2));
        backlog.add(&stamp(2), &[]);
        backlog.add(&stamp(3), &held(3..=3));
        let batch = backlog.take().expect("a batch");
        assert_eq!((batch.last_seq, batch.contents.events), (3, 3));
        let mut read = Vec::new();
        read_batch(&batch.payload, &mut |boot, stamp, seq, _| read.push((boot[0], stamp.raw_us, seq)))
            .unwrap();
        assert_eq!(read, [(7, 1, 1), (7, 1, 2), (7, 3, 3)]);
        assert!(backlog.is_empty());
    }

    #[test]
    fn a_huge_turn_is_cut_to_what_the_journal_takes() {
        let batch_bytes_max = 64 << 10;
        let mut backlog = Backlog::new([7; 16], batch_bytes_max);
        let stamp = Stamp { raw_us: 1, wall_ms: 2, wall_trusted: true };
        backlog.add(&stamp, &held(1..=20_000));
        assert!(backlog.is_full());
        let mut next = 1;
        while let Some(batch) = backlog.take() {
            assert!(batch.payload.len() <= batch_bytes_max);
            read_batch(&batch.payload, &mut |_, _, seq, _| {
                assert_eq!(seq, next);
                next += 1;
            })
            .unwrap();
            assert_eq!(batch.last_seq, next - 1);
        }
        assert_eq!(next, 20_001);
        assert!(!backlog.is_full());
    }
}
