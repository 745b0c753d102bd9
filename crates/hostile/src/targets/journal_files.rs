//! A journal's directory after somebody has been at it: bytes changed, cut off, zeroed or added, files gone or replaced. It is
//! refused and left as it is, or it gives a beginning of what was written: never anything else.

use std::collections::BTreeMap;
use std::io::{self, Read};
use std::sync::OnceLock;

use leasehold_journal::{FaultyDisk, FileJournal, Fold, Journal, Options};

use crate::Target;

/// The reader of segments and snapshot files.
pub const TARGET: Target = Target { name: "journal_files", run, samples };

/// Remembers every batch.
#[derive(Default)]
struct Batches(Vec<Vec<u8>>);

impl Fold for Batches {
    fn restore(&mut self, snapshot: &mut dyn Read) -> Result<(), String> {
        let mut bytes = Vec::new();
        snapshot.read_to_end(&mut bytes).map_err(|error| error.to_string())?;
        let mut rest = &*bytes;
        while let Some((length, tail)) = rest.split_first() {
            let (batch, tail) = tail.split_at_checked(usize::from(*length)).ok_or("cut off")?;
            self.0.push(batch.to_vec());
            rest = tail;
        }
        Ok(())
    }

    fn replay(&mut self, payload: &[u8]) -> Result<(), String> {
        self.0.push(payload.to_vec());
        Ok(())
    }

    fn write_snapshot(&mut self, out: &mut dyn io::Write) -> io::Result<()> {
        for batch in &self.0 {
            out.write_all(&[u8::try_from(batch.len()).unwrap_or(u8::MAX)])?;
            out.write_all(batch)?;
        }
        Ok(())
    }
}

fn options() -> Options {
    Options {
        segment_bytes: 4096,
        batch_bytes_max: 1024,
        snapshot_after_bytes: 4096,
        ..Options::new([7; 16])
    }
}

/// Sound directories, each with the batches that it holds.
type Sound = (BTreeMap<String, Vec<u8>>, Vec<Vec<u8>>);

fn directories() -> &'static [Sound] {
    static DIRECTORIES: OnceLock<Vec<Sound>> = OnceLock::new();
    DIRECTORIES.get_or_init(|| [1, 3, 9, 14].into_iter().map(directory).collect())
}

/// A journal of so many batches; with enough of them there is a snapshot, and segments were dropped.
fn directory(count: u8) -> Sound {
    let disk = FaultyDisk::new(1);
    let mut batches = Vec::new();
    let opened = FileJournal::open(disk.clone(), options(), &mut Batches::default());
    let Ok((mut journal, _)) = opened else { panic!("a new journal can be begun") };
    for number in 0..count {
        let batch = vec![number | 0x40; usize::from(number) * 17 % 250];
        assert!(journal.append(&batch).is_ok(), "a sound disk takes a batch");
        batches.push(batch);
        for chore in journal.chores() {
            let done = chore.run(&mut Batches::default());
            assert!(journal.chore_done(done).is_ok(), "a sound disk takes chores");
        }
    }
    (disk.contents(), batches)
}

fn run(bytes: &[u8]) -> bool {
    let Some((choice, edits)) = bytes.split_first() else { return false };
    let (sound, written) = &directories()[usize::from(*choice) % directories().len()];
    let mut changed = sound.clone();
    if *choice >= 0x80 {
        replace(&mut changed, edits);
    } else {
        edits.chunks_exact(5).for_each(|edit| change(&mut changed, edit));
    }
    let disk = FaultyDisk::holding(2, &changed);
    let mut found = Batches::default();
    let opened = FileJournal::open(disk.clone(), options(), &mut found).is_ok();
    if opened {
        assert!(written.starts_with(&found.0), "it gives what was never written");
    } else {
        assert!(disk.contents() == changed, "what is refused is left as it is");
    }
    opened
}

/// One file's bytes are others altogether.
fn replace(files: &mut BTreeMap<String, Vec<u8>>, edit: &[u8]) {
    let Some((which, bytes)) = edit.split_first() else { return };
    let place = usize::from(*which) % files.len();
    if let Some(file) = files.values_mut().nth(place) {
        *file = bytes.to_vec();
    }
}

fn change(files: &mut BTreeMap<String, Vec<u8>>, edit: &[u8]) {
    let &[which, high, low, how, with] = edit else { return };
    if files.is_empty() {
        return;
    }
    let place = usize::from(which) % files.len();
    let Some((name, file)) = files.iter_mut().nth(place) else { return };
    let name = name.clone();
    let at = usize::from(u16::from_be_bytes([high, low])) % (file.len() + 1);
    match how % 8 {
        0..=3 => {
            if let Some(byte) = file.get_mut(at) {
                *byte ^= with.max(1);
            }
        }
        4 => file[at..].fill(0),
        5 => file.truncate(at),
        6 => file.extend(std::iter::repeat_n(with, usize::from(with) * 2)),
        _ => drop(files.remove(&name)),
    }
}

fn samples() -> Vec<Vec<u8>> {
    let mut samples = Vec::new();
    for (number, (files, _)) in (0_u8..).zip(directories()) {
        samples.push(vec![number]);
        for (place, how) in (0_u8..).zip([0_u8, 4, 5, 6, 7]) {
            samples.push(vec![number, place, 2, 8, how, 1, place, 6, 0, 4, 0]);
        }
        for (place, file) in (0_u8..).zip(files.values()) {
            samples.push([&[0x80 | number, place], &**file].concat());
        }
    }
    samples
}
