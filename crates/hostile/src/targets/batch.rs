//! A whole batch: turns with their clocks, and their events. What decodes comes back the same when it is written again.

use leasehold_state_machine::codec::{BatchWriter, BootId, Stamp, read_batch};
use leasehold_state_machine::event::{Event, Seq};

use crate::Target;
use crate::targets::hex;

/// The decoder of batches.
pub const TARGET: Target = Target { name: "batch", run, samples };

type Row = (BootId, Stamp, Seq, Event);

fn rows(bytes: &[u8]) -> Option<Vec<Row>> {
    let mut rows = Vec::new();
    let read = read_batch(bytes, &mut |boot_id, stamp, seq, event| rows.push((*boot_id, *stamp, seq, event)));
    read.ok().map(|()| rows)
}

fn run(bytes: &[u8]) -> bool {
    let Some(first) = rows(bytes) else { return false };
    let Some((boot_id, ..)) = first.first() else { return false };
    let mut writer = BatchWriter::new(*boot_id);
    for (_, stamp, seq, event) in &first {
        writer.turn(stamp, *seq, &[(*seq, event.clone())]);
    }
    assert_eq!(rows(&writer.take()).as_ref(), Some(&first), "what we write, we read");
    true
}

fn samples() -> Vec<Vec<u8>> {
    vec![hex(include_str!("../../../state-machine/tests/golden/batch.txt"))]
}
