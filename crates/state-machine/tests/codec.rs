//! Bytes that were once written decode for ever. The files under `golden/` are never rewritten: a new event or layout
//! gets new lines, and the old ones stay.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod samples;
#[path = "model/seed.rs"]
#[allow(dead_code, reason = "only some of its throws are needed here")]
mod seed;

use leasehold_state_machine::Machine;
use leasehold_state_machine::codec::{
    BatchWriter, CodecError, Reader, Stamp, decode_event, encode_event, read_batch,
};
use leasehold_state_machine::event::{Event, Seq};
use leasehold_state_machine::limits::Limits;

use samples::{eventful_machine, events, machine_with_files};
use seed::Dice;

const EVENTS: &str = include_str!("golden/events.txt");
const BATCH: &str = include_str!("golden/batch.txt");
const SNAPSHOT: &str = include_str!("golden/snapshot-2.txt");
const SNAPSHOT_WITHOUT_FILES: &str = include_str!("golden/snapshot.txt");
/// The events there were when the golden batch was written.
const EVENTS_IN_BATCH: usize = 35;
const BOOT_ID: [u8; 16] = [0xb0; 16];

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Reads hex text over any number of lines; `#` begins a comment.
fn bytes(text: &str) -> Vec<u8> {
    let digits: String = text.lines().map(|line| line.split('#').next().unwrap().trim()).collect();
    assert!(digits.len().is_multiple_of(2), "hex digits come in pairs");
    (0..digits.len() / 2).map(|at| u8::from_str_radix(&digits[at * 2..][..2], 16).unwrap()).collect()
}

fn encoded(event: &Event) -> Vec<u8> {
    let mut out = Vec::new();
    encode_event(event, &mut out);
    out
}

fn decoded(bytes: &[u8]) -> Result<Event, CodecError> {
    let mut from = Reader::new(bytes);
    let event = decode_event(&mut from)?;
    from.finish()?;
    Ok(event)
}

fn batch() -> Vec<u8> {
    let numbered: Vec<(Seq, Event)> = events()
        .into_iter()
        .take(EVENTS_IN_BATCH)
        .enumerate()
        .map(|(index, (_, event))| (index as Seq + 41, event))
        .collect();
    let (first, second) = numbered.split_at(5);
    let mut writer = BatchWriter::new(BOOT_ID);
    assert!(writer.is_empty());
    let stamp = Stamp { raw_us: 123_456_789, wall_ms: 1_790_000_000_000, wall_trusted: true };
    writer.turn(&stamp, 41, first);
    let stamp = Stamp { raw_us: 123_456_999, wall_ms: 0, wall_trusted: false };
    writer.turn(&stamp, 46, second);
    let len = writer.len();
    let payload = writer.take();
    assert_eq!(payload.len(), len);
    assert!(writer.is_empty());
    payload.to_vec()
}

fn written(machine: &Machine) -> Vec<u8> {
    let mut out = Vec::new();
    machine.write_snapshot(&mut out);
    out
}

fn snapshot() -> Vec<u8> {
    written(&machine_with_files())
}

#[test]
fn every_event_is_golden() {
    let mut lines = EVENTS.lines().filter(|line| !line.starts_with('#'));
    for (name, event) in events() {
        let written = format!("{name} {}", hex(&encoded(&event)));
        let line = lines.next().unwrap_or_else(|| panic!("golden/events.txt lacks a line: {written}"));
        assert_eq!(line, written, "the bytes of `{name}` have changed: journals that exist would be misread");
        let golden = bytes(line.split_once(' ').unwrap().1);
        assert_eq!(decoded(&golden).unwrap(), event);
    }
    assert_eq!(lines.next(), None, "a golden event without a sample");
    let types: std::collections::BTreeSet<_> = events().iter().map(|(_, event)| event.type_text()).collect();
    assert_eq!(types.len(), 22, "every type of event has a sample");
}

#[test]
fn the_batch_is_golden() {
    let golden = bytes(BATCH);
    assert_eq!(hex(&golden), hex(&batch()));
    let mut visited = Vec::new();
    read_batch(&golden, &mut |boot_id, stamp, seq, event| {
        assert_eq!(*boot_id, BOOT_ID);
        visited.push((stamp.raw_us, stamp.wall_ms, stamp.wall_trusted, seq, event));
    })
    .unwrap();
    assert_eq!(visited.len(), EVENTS_IN_BATCH);
    for (index, (visit, (_, event))) in visited.iter().zip(events()).enumerate() {
        let (raw_us, wall_ms, trusted) =
            if index < 5 { (123_456_789, 1_790_000_000_000, true) } else { (123_456_999, 0, false) };
        assert_eq!(*visit, (raw_us, wall_ms, trusted, 41 + index as Seq, event));
    }
}

#[test]
fn the_snapshot_is_golden() {
    let golden = bytes(SNAPSHOT);
    assert_eq!(hex(&golden), hex(&snapshot()));
    let machine = Machine::read_snapshot(&golden, Limits::default()).unwrap();
    assert_eq!(hex(&written(&machine)), hex(&golden));
    assert_eq!(machine.seq(), machine_with_files().seq());
    assert_eq!(machine.last_token(), machine_with_files().last_token());
    assert_eq!(machine.file_sizes().map(|(_, size)| size).collect::<Vec<_>>(), [5, 0, 3]);
}

#[test]
fn a_snapshot_from_before_the_files_is_read() {
    let machine = Machine::read_snapshot(&bytes(SNAPSHOT_WITHOUT_FILES), Limits::default()).unwrap();
    assert_eq!(hex(&written(&machine)), hex(&written(&eventful_machine())));
    assert_eq!(machine.counts().files, 0);
}

#[test]
fn a_cut_is_noticed_wherever_it_is() {
    for (name, event) in events() {
        let whole = encoded(&event);
        for end in 0..whole.len() {
            assert!(decoded(&whole[..end]).is_err(), "{name} cut to {end} of {} bytes decodes", whole.len());
        }
        let longer = [&whole[..], &[0]].concat();
        assert_eq!(decoded(&longer), Err(CodecError::Trailing));
    }
    let whole = batch();
    let heads = whole_turns(&whole);
    for end in 0..whole.len() {
        let cut = read_batch(&whole[..end], &mut |_, _, _, _| {});
        assert!(cut.is_err() || heads.contains(&end), "a batch cut to {end} bytes decodes");
    }
    let whole = snapshot();
    for end in 0..whole.len() {
        let cut = Machine::read_snapshot(&whole[..end], Limits::default());
        assert!(cut.is_err(), "a snapshot cut to {end} of {} bytes decodes", whole.len());
    }
}

/// Where a batch could end and still be a batch: before its first turn, and after each.
fn whole_turns(whole: &[u8]) -> Vec<usize> {
    let mut writer = BatchWriter::new(BOOT_ID);
    let stamp = Stamp { raw_us: 123_456_789, wall_ms: 1_790_000_000_000, wall_trusted: true };
    let first: Vec<(Seq, Event)> =
        events().into_iter().take(5).enumerate().map(|(at, (_, event))| (at as Seq + 41, event)).collect();
    writer.turn(&stamp, 41, &first);
    assert!(whole.starts_with(&writer.take()));
    let mut writer = BatchWriter::new(BOOT_ID);
    writer.turn(&stamp, 41, &first);
    vec![1 + BOOT_ID.len(), writer.len()]
}

/// Damage is the journal's to notice, by its checksums; here it must only never panic, nor take memory it names.
#[test]
fn damage_never_panics() {
    let mut dice = Dice(1);
    let (batch, snapshot) = (batch(), snapshot());
    for round in 0..20_000u64 {
        let whole = if round % 2 == 0 { &batch } else { &snapshot };
        let mut bytes = whole.clone();
        for _ in 0..1 + dice.below(4) {
            let at = dice.below(bytes.len() as u64) as usize;
            bytes[at] = match dice.below(3) {
                0 => bytes[at] ^ (1 << dice.below(8)),
                1 => 0xff,
                _ => dice.roll() as u8,
            };
        }
        if round % 2 == 0 {
            let _ = read_batch(&bytes, &mut |_, _, _, _| {});
        } else {
            let _ = Machine::read_snapshot(&bytes, Limits::default());
        }
    }
    for length in 0..200 {
        let noise: Vec<u8> = (0..length).map(|_| dice.roll() as u8).collect();
        let _ = decoded(&noise);
        let _ = Machine::read_snapshot(&noise, Limits::default());
        let _ = read_batch(&noise, &mut |_, _, _, _| {});
    }
}

#[test]
fn a_newer_format_is_named() {
    let mut newer = batch();
    newer[0] = 200;
    assert_eq!(read_batch(&newer, &mut |_, _, _, _| {}), Err(CodecError::NewerVersion(200)));
    assert_eq!(decoded(&[99]), Err(CodecError::UnknownTag("an event", 99)));
}
