//! One event as the journal holds it. What decodes is written in one way, which decodes to the same event.

use leasehold_state_machine::codec::{Reader, decode_event, encode_event};

use crate::Target;
use crate::targets::hex;

/// The decoder of events.
pub const TARGET: Target = Target { name: "event", run, samples };

fn run(bytes: &[u8]) -> bool {
    let mut from = Reader::new(bytes);
    let Ok(event) = decode_event(&mut from) else { return false };
    let mut written = Vec::new();
    encode_event(&event, &mut written);
    let mut from = Reader::new(&written);
    let again = decode_event(&mut from);
    assert_eq!(again.as_ref(), Ok(&event), "what we write, we read");
    assert!(from.finish().is_ok(), "and nothing is left over");
    let mut twice = Vec::new();
    encode_event(&event, &mut twice);
    assert_eq!(twice, written, "and there is one way to write it");
    true
}

fn samples() -> Vec<Vec<u8>> {
    let golden = include_str!("../../../state-machine/tests/golden/events.txt");
    let lines = golden.lines().filter(|line| !line.starts_with('#') && !line.trim().is_empty());
    lines.map(|line| hex(line.rsplit(' ').next().unwrap_or(""))).collect()
}
