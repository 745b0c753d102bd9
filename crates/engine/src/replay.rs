//! The state machine as the journal sees it: read in from a snapshot, moved on by batches, written out again. Used once
//! at recovery and by every background snapshot that has no picture of the state. Decides nothing, and compares no time with a
//! clock.

use std::io;

use leasehold_journal::Fold;
use leasehold_state_machine::Machine;
use leasehold_state_machine::codec::{BootId, CodecError, Stamp, read_batch};
use leasehold_state_machine::event::Event;
use leasehold_state_machine::limits::Limits;

use crate::clock::Reading;
use crate::history::History;
use crate::wall::Anchor;

/// The layout of what stands before the machine's own snapshot.
const VERSION: u8 = 2;
/// The one before it, without a history; still read.
const VERSION_WITHOUT_HISTORY: u8 = 1;
/// A snapshot is handed on in pieces of about this size, so that it is never in memory beside the state it is of.
const PIECE_BYTES: usize = 64 << 10;

/// What the journal adds up to.
#[derive(Debug)]
pub struct Replay {
    limits: Limits,
    machine: Machine,
    traces: Traces,
    history: History,
    files: FileTraces,
}

/// What the journal says of the files since the snapshot that it begins with.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FileTraces {
    /// Number and size of each file as of the snapshot: so many of its bytes were on the disk before that.
    pub sizes: Vec<(u64, u64)>,
    /// Writes since.
    pub writes: u64,
}

/// What the batches say beside their events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traces {
    /// The boot and the clocks of the newest turn.
    pub last: Option<Anchor>,
    /// The wall reading to trust.
    pub anchor: Option<Anchor>,
    /// The boot in whose raw time the newest horizon is given.
    pub horizon_boot: Option<BootId>,
}

impl Replay {
    /// An empty state under these limits.
    pub fn new(limits: Limits) -> Replay {
        Replay {
            limits,
            machine: Machine::new(limits),
            traces: Traces::default(),
            history: History::new(),
            files: FileTraces::default(),
        }
    }

    /// The state so far.
    pub fn machine(&self) -> &Machine {
        &self.machine
    }

    /// What the batches said beside their events.
    pub fn traces(&self) -> &Traces {
        &self.traces
    }

    /// What the journal says of the files since the snapshot that it begins with.
    pub fn file_traces(&self) -> &FileTraces {
        &self.files
    }

    /// What watchers may still hear of.
    pub fn history(&self) -> &History {
        &self.history
    }

    /// Takes the history out, for whoever goes on with it after the recovery.
    pub fn take_history(&mut self) -> History {
        std::mem::replace(&mut self.history, History::from(self.machine.seq()))
    }

    /// Takes it apart: limits, state, traces.
    pub fn into_parts(self) -> (Limits, Machine, Traces) {
        (self.limits, self.machine, self.traces)
    }
}

impl Traces {
    /// A turn in which something happened. Following it twice is following it once.
    pub(crate) fn follow(&mut self, boot_id: BootId, stamp: &Stamp) {
        let reading = Reading { raw_us: stamp.raw_us, wall_ms: stamp.wall_ms };
        self.last = Some(Anchor { boot_id, reading });
        if stamp.wall_trusted {
            self.anchor = Some(Anchor::after(self.anchor, boot_id, reading));
        }
    }

    /// An event of such a turn.
    pub(crate) fn note(&mut self, boot_id: BootId, event: &Event) {
        if matches!(event, Event::Horizon { .. }) {
            self.horizon_boot = Some(boot_id);
        }
    }

    fn write(&self, out: &mut Vec<u8>) {
        for anchor in [self.last, self.anchor] {
            out.push(u8::from(anchor.is_some()));
            if let Some(Anchor { boot_id, reading }) = anchor {
                out.extend_from_slice(&boot_id);
                out.extend_from_slice(&reading.raw_us.to_le_bytes());
                out.extend_from_slice(&reading.wall_ms.to_le_bytes());
            }
        }
        out.push(u8::from(self.horizon_boot.is_some()));
        out.extend_from_slice(self.horizon_boot.as_ref().map_or(&[], |id| &id[..]));
    }

    fn read(from: &mut &[u8]) -> Result<Traces, CodecError> {
        Ok(Traces {
            last: read_option(from, read_anchor)?,
            anchor: read_option(from, read_anchor)?,
            horizon_boot: read_option(from, read_array)?,
        })
    }
}

impl Fold for Replay {
    fn restore(&mut self, snapshot: &mut dyn io::Read) -> Result<(), String> {
        let mut bytes = Vec::new();
        snapshot.read_to_end(&mut bytes).map_err(|error| error.to_string())?;
        let mut from = bytes.as_slice();
        let read = |from: &mut &[u8]| match read_array::<1>(from)? {
            [VERSION] => Ok((Traces::read(from)?, Some(History::read(from)?))),
            [VERSION_WITHOUT_HISTORY] => Ok((Traces::read(from)?, None)),
            [version] => Err(CodecError::NewerVersion(version)),
        };
        let (traces, history) = read(&mut from).map_err(|error| error.to_string())?;
        self.traces = traces;
        self.machine = Machine::read_snapshot(from, self.limits).map_err(|error| error.to_string())?;
        self.files = FileTraces { sizes: self.machine.file_sizes().collect(), writes: 0 };
        let seq = self.machine.seq();
        self.history = history.unwrap_or_else(|| History::from(seq));
        match self.history.through() {
            through if through == seq => Ok(()),
            through => Err(format!("the history ends with event {through}, the state with event {seq}")),
        }
    }

    fn replay(&mut self, payload: &[u8]) -> Result<(), String> {
        let Replay { machine, traces, history, files, .. } = self;
        let mut gap = None;
        read_batch(payload, &mut |boot_id, stamp, seq, event| {
            if gap.is_some() || seq != machine.seq() + 1 {
                gap = gap.or(Some((machine.seq(), seq)));
                return;
            }
            machine.apply(stamp.wall_ms, &event);
            traces.follow(*boot_id, stamp);
            traces.note(*boot_id, &event);
            history.note(seq, stamp.wall_ms, &event);
            files.writes += u64::from(matches!(event, Event::FileWritten { .. }));
        })
        .map_err(|error| error.to_string())?;
        match gap {
            None => Ok(()),
            Some((last, next)) => Err(format!("event {next} follows event {last}")),
        }
    }

    fn write_snapshot(&mut self, out: &mut dyn io::Write) -> io::Result<()> {
        write_snapshot(&self.traces, &self.history, out, |bytes, hand_on| {
            self.machine.write_snapshot_in_pieces(bytes, hand_on);
        })
    }
}

/// Writes what a snapshot is: the traces, the history, and then the state, which writes itself in pieces.
pub(crate) fn write_snapshot(
    traces: &Traces,
    history: &History,
    out: &mut dyn io::Write,
    state: impl FnOnce(&mut Vec<u8>, &mut dyn FnMut(&mut Vec<u8>)),
) -> io::Result<()> {
    let mut bytes = vec![VERSION];
    traces.write(&mut bytes);
    history.write(&mut bytes);
    let mut written = Ok(());
    state(&mut bytes, &mut |bytes| {
        if bytes.len() >= PIECE_BYTES {
            if written.is_ok() {
                written = out.write_all(bytes);
            }
            bytes.clear();
        }
    });
    written?;
    out.write_all(&bytes)
}

fn read_array<const N: usize>(from: &mut &[u8]) -> Result<[u8; N], CodecError> {
    let (head, tail) = from.split_first_chunk().ok_or(CodecError::Truncated)?;
    *from = tail;
    Ok(*head)
}

fn read_anchor(from: &mut &[u8]) -> Result<Anchor, CodecError> {
    Ok(Anchor {
        boot_id: read_array(from)?,
        reading: Reading {
            raw_us: u64::from_le_bytes(read_array(from)?),
            wall_ms: u64::from_le_bytes(read_array(from)?),
        },
    })
}

fn read_option<T>(
    from: &mut &[u8],
    read: impl FnOnce(&mut &[u8]) -> Result<T, CodecError>,
) -> Result<Option<T>, CodecError> {
    match read_array(from)? {
        [0] => Ok(None),
        [1] => read(from).map(Some),
        [tag] => Err(CodecError::UnknownTag("a trace", tag)),
    }
}

#[cfg(test)]
mod tests {
    use leasehold_state_machine::codec::BatchWriter;
    use leasehold_state_machine::ids::HashKey;

    use super::*;

    #[test]
    fn traces_come_back_as_they_were_written() {
        let anchor = |n: u8| Anchor {
            boot_id: [n; 16],
            reading: Reading { raw_us: u64::from(n) << 40, wall_ms: u64::MAX - u64::from(n) },
        };
        let full = Traces { last: Some(anchor(1)), anchor: Some(anchor(2)), horizon_boot: Some([3; 16]) };
        for traces in [Traces::default(), full, Traces { anchor: None, ..full }] {
            let mut bytes = Vec::new();
            traces.write(&mut bytes);
            let mut from = bytes.as_slice();
            assert_eq!(Traces::read(&mut from), Ok(traces));
            assert!(from.is_empty());
            assert!(bytes.len() < 2 || Traces::read(&mut &bytes[..bytes.len() - 1]).is_err());
        }
    }

    #[test]
    fn a_snapshot_without_a_history_is_read_and_begins_one() {
        let mut replay = Replay::new(Limits::default());
        let mut batch = BatchWriter::new([1; 16]);
        let stamp = Stamp { raw_us: 1, wall_ms: 2, wall_trusted: true };
        batch.turn(&stamp, 1, &[(1, Event::Founded { key: HashKey([1, 2]) })]);
        replay.replay(&batch.take()).unwrap();
        let mut old = vec![VERSION_WITHOUT_HISTORY];
        replay.traces.write(&mut old);
        replay.machine.write_snapshot(&mut old);

        let mut read = Replay::new(Limits::default());
        read.restore(&mut old.as_slice()).unwrap();
        assert_eq!((read.machine().seq(), read.traces()), (1, replay.traces()));
        assert_eq!(*read.history(), History::from(1));
        let mut newer = old;
        newer[0] = VERSION + 1;
        assert!(Replay::new(Limits::default()).restore(&mut newer.as_slice()).unwrap_err().contains("newer"));
    }
}
