//! The state in a snapshot, as the state machine and as the engine write it. What is read is written in one way, and that is
//! read again as the same.

use leasehold_engine::Replay;
use leasehold_journal::Fold;
use leasehold_state_machine::Machine;
use leasehold_state_machine::limits::Limits;

use crate::Target;
use crate::targets::hex;

/// The decoders of snapshots.
pub const TARGET: Target = Target { name: "snapshot", run, samples };

/// A wild slot must not take the memory of a whole machine while it is tried a million times.
fn limits() -> Limits {
    Limits { slots_max: 1 << 12, ..Limits::default() }
}

fn run(bytes: &[u8]) -> bool {
    let (machine, replay) = (machine(bytes), replay(bytes));
    machine || replay
}

fn machine(bytes: &[u8]) -> bool {
    let Ok(machine) = Machine::read_snapshot(bytes, limits()) else { return false };
    let (mut first, mut second) = (Vec::new(), Vec::new());
    machine.write_snapshot(&mut first);
    let again = Machine::read_snapshot(&first, limits());
    let Ok(again) = again else { panic!("we refuse what we wrote: {:?}", again.err()) };
    again.write_snapshot(&mut second);
    assert!(first == second, "there is one way to write a state");
    true
}

fn replay(bytes: &[u8]) -> bool {
    let mut replay = Replay::new(limits());
    if replay.restore(&mut &*bytes).is_err() {
        return false;
    }
    let (mut first, mut second) = (Vec::new(), Vec::new());
    let mut again = Replay::new(limits());
    let written = replay.write_snapshot(&mut first);
    assert!(written.is_ok(), "memory takes all");
    let restored = again.restore(&mut &*first);
    assert!(restored.is_ok(), "we refuse what we wrote: {restored:?}");
    let written = again.write_snapshot(&mut second);
    assert!(written.is_ok() && first == second, "there is one way to write a state");
    true
}

fn samples() -> Vec<Vec<u8>> {
    let goldens = [
        include_str!("../../../state-machine/tests/golden/snapshot-2.txt"),
        include_str!("../../../state-machine/tests/golden/snapshot.txt"),
    ];
    let mut samples: Vec<Vec<u8>> = goldens.into_iter().map(hex).collect();
    // The engine's own stands around the machine's.
    for machine in samples.clone() {
        let mut replay = Replay::new(limits());
        let mut empty = Vec::new();
        if replay.write_snapshot(&mut empty).is_ok() {
            let mut state = Vec::new();
            replay.machine().write_snapshot(&mut state);
            if let Some(around) = empty.strip_suffix(&*state) {
                let whole = [around, &machine].concat();
                if replay.restore(&mut &*whole).is_ok() {
                    samples.push(whole);
                }
            }
        }
        samples.push(empty);
    }
    samples
}
