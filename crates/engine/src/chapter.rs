//! What happened, as the journal has it: the events of one batch in the very bytes that were written, which nobody reads again
//! but who wants to know. So telling of a batch costs nothing for each of its events, however many there are.

use std::sync::Arc;

use leasehold_state_machine::codec::{BatchWriter, Stamp, read_batch};
use leasehold_state_machine::event::{Event, Seq};

/// An event as it is told: its number, the wall time of its turn in Unix milliseconds, and what happened.
pub type Told = (Seq, u64, Event);

/// The events of one batch, in order. Clones are cheap and share the bytes.
#[derive(Clone, Debug)]
pub struct Chapter {
    payload: Arc<[u8]>,
    last_seq: Seq,
    contents: Contents,
}

/// What can be said of a chapter without reading it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Contents {
    /// Events.
    pub events: u64,
    /// Events that everybody may hear of.
    pub public: u64,
    /// Events that an operator may want to see: endings that their holders did not ask for, and grants that are held.
    pub remarkable: u64,
}

impl Contents {
    /// Counts one more.
    pub(crate) fn count(&mut self, event: &Event) {
        self.events += 1;
        self.public += u64::from(is_public(event));
        self.remarkable += u64::from(is_remarkable(event));
    }
}

impl Chapter {
    /// A batch that this process has put together.
    pub(crate) fn new(payload: Arc<[u8]>, last_seq: Seq, contents: Contents) -> Chapter {
        Chapter { payload, last_seq, contents }
    }

    /// These events, of which there is at least one, as if they had just become durable together: for tests of who hears of it.
    pub fn of(events: impl IntoIterator<Item = Told>) -> Chapter {
        let mut writer = BatchWriter::new([0; 16]);
        let (mut last_seq, mut contents) = (0, Contents::default());
        for (seq, wall_ms, event) in events {
            contents.count(&event);
            last_seq = seq;
            writer.turn(&Stamp { raw_us: 0, wall_ms, wall_trusted: true }, seq, &[(seq, event)]);
        }
        assert!(contents.events > 0, "a chapter has events");
        Chapter::new(writer.take(), last_seq, contents)
    }

    /// The number of its last event.
    pub fn last_seq(&self) -> Seq {
        self.last_seq
    }

    /// What is in it.
    pub fn contents(&self) -> Contents {
        self.contents
    }

    /// How many bytes it keeps.
    pub fn bytes(&self) -> usize {
        self.payload.len()
    }

    /// Reads it. The bytes of files are left out: who is told of a write does not need them.
    pub fn read(&self) -> Vec<Told> {
        let mut told = Vec::with_capacity(usize::try_from(self.contents.events).unwrap_or_default());
        let read = read_batch(&self.payload, &mut |_, stamp, seq, event| {
            told.push((seq, stamp.wall_ms, event.without_bytes()));
        });
        assert!(read.is_ok(), "what was written here is read here: {read:?}");
        let last = told.last().map_or(0, |(seq, _, _)| *seq);
        assert_eq!(
            (last, told.len() as u64),
            (self.last_seq, self.contents.events),
            "a chapter has the events it says"
        );
        told
    }
}

/// Whether everybody may hear of it: it says what happened to a lock.
pub(crate) fn is_public(event: &Event) -> bool {
    matches!(
        event,
        Event::Granted { .. }
            | Event::Queued { .. }
            | Event::Dequeued { .. }
            | Event::Updated { .. }
            | Event::Released { .. }
            | Event::Expired { .. }
            | Event::Broken { .. }
    )
}

/// Whether an operator may want to see it.
fn is_remarkable(event: &Event) -> bool {
    matches!(
        event,
        Event::Expired { .. }
            | Event::Broken { .. }
            | Event::SessionEnded { .. }
            | Event::GrantsHeld { .. }
            | Event::GrantsResumed
    )
}

#[cfg(test)]
mod tests {
    use leasehold_state_machine::event::LeaseName;
    use leasehold_state_machine::file::{FileBytes, FileName};
    use leasehold_state_machine::resource::Resource;
    use leasehold_state_machine::words::{Mode, Owner};

    use super::*;

    #[test]
    fn says_what_is_in_it_and_reads_back_without_the_bytes_of_files() {
        let lease = LeaseName {
            slot: 0,
            token: 1,
            resource: Resource::parse("path:/a").unwrap(),
            owner: Owner::parse("w").unwrap(),
            mode: Mode::Exclusive,
        };
        let written = Event::FileWritten {
            number: 1 << 52,
            name: FileName::parse("a").unwrap(),
            lease: lease.clone(),
            offset: 0,
            bytes: FileBytes::new(b"hello".as_slice()),
            request: None,
        };
        let expired = Event::Expired { lease };
        let chapter = Chapter::of([(4, 40, written.clone()), (5, 50, expired.clone())]);
        assert_eq!(chapter.last_seq(), 5);
        assert_eq!(chapter.contents(), Contents { events: 2, public: 1, remarkable: 1 });
        let expected = [(4, 40, written.without_bytes()), (5, 50, expired)];
        assert_eq!(format!("{:?}", chapter.read()), format!("{expected:?}"));
    }
}
