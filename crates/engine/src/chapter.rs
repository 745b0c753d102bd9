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
    text: Text,
    last_seq: Seq,
    contents: Contents,
}

#[derive(Clone, Debug)]
enum Text {
    /// As it was written.
    Payload(Arc<[u8]>),
    /// Read at once, because most of what was written are the bytes of files, which nobody is told. So many are left without those.
    Read(Arc<[Told]>, usize),
}

/// What an event that was read takes beside its texts, about.
const READ_EVENT_BYTES: usize = 256;
/// A batch with changes to files is read at once if it is longer than this: nobody keeps the bytes of files for its sake.
const PAYLOAD_WITH_FILES_BYTES_MAX: usize = 64 << 10;

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
        Chapter { text: Text::Payload(payload), last_seq, contents }
    }

    /// The same, of a batch in which so many are the bytes of files.
    pub(crate) fn with_files(
        payload: Arc<[u8]>,
        file_bytes: usize,
        last_seq: Seq,
        contents: Contents,
    ) -> Chapter {
        let payload_bytes = payload.len();
        let chapter = Chapter::new(payload, last_seq, contents);
        if payload_bytes <= PAYLOAD_WITH_FILES_BYTES_MAX {
            return chapter;
        }
        let told = chapter.read();
        let left_bytes = payload_bytes.saturating_sub(file_bytes) + told.len() * READ_EVENT_BYTES;
        Chapter { text: Text::Read(told.into(), left_bytes), ..chapter }
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
        match &self.text {
            Text::Payload(payload) => payload.len(),
            Text::Read(_, left_bytes) => *left_bytes,
        }
    }

    /// Reads it. The bytes of files are left out: who is told of a write does not need them.
    pub fn read(&self) -> Vec<Told> {
        let payload = match &self.text {
            Text::Payload(payload) => payload,
            Text::Read(told, _) => return told.to_vec(),
        };
        let mut told = Vec::with_capacity(usize::try_from(self.contents.events).unwrap_or_default());
        let read = read_batch(payload, &mut |_, stamp, seq, event| {
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
    #[test]
    fn long_bytes_of_files_are_not_kept_for_its_sake() {
        let written = |bytes: usize| Event::FileWritten {
            number: 1 << 52,
            name: FileName::parse("a").unwrap(),
            lease: LeaseName {
                slot: 0,
                token: 1,
                resource: Resource::parse("path:/a").unwrap(),
                owner: Owner::parse("w").unwrap(),
                mode: Mode::Exclusive,
            },
            offset: 0,
            bytes: FileBytes::new(vec![7; bytes]),
            request: None,
        };
        for length in [5, 1 << 20] {
            let mut contents = Contents::default();
            contents.count(&written(length));
            let mut writer = BatchWriter::new([0; 16]);
            writer.turn(&Stamp { raw_us: 0, wall_ms: 9, wall_trusted: true }, 3, &[(3, written(length))]);
            let payload = writer.take();
            let chapter = Chapter::with_files(Arc::clone(&payload), length, 3, contents);
            assert!(chapter.bytes() < 1024, "{}", chapter.bytes());
            let of_metadata = Chapter::with_files(Arc::clone(&payload), 0, 3, contents);
            assert!(of_metadata.bytes() >= payload.len(), "what is kept is counted");
            let expected = [(3, 9, written(length).without_bytes())];
            assert_eq!(format!("{:?}", chapter.read()), format!("{expected:?}"));
        }
    }
}
