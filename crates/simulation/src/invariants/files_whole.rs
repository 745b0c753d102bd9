//! files_whole: after any crash the files hold what the journal adds up to, byte for byte: every acknowledged write whole
//! and once, no byte of one that never committed, no file that was deleted. So too in service, for what has settled.
//!
//! Catches: bytes that enter a file before their batch is durable, a snapshot that is published before the files are on
//! the disk, a recovery that leaves out writes, makes them in another order, does not cut or does not clear away.

use std::collections::BTreeMap;

use super::file_model::FileModel;
use super::{Verdict, Violation};

/// Compares the files on the disk, by number, with what they must be. `settled` says which are compared.
pub fn judge(
    model: &FileModel,
    found: &BTreeMap<u64, Vec<u8>>,
    mut settled: impl FnMut(u64) -> bool,
) -> Verdict {
    let expected = model.contents();
    if let Some(number) = found.keys().find(|number| !expected.contains_key(number) && settled(**number)) {
        return Err(violation(format!("there is a file {number}, and the journal knows none")));
    }
    for (number, content) in expected.iter().filter(|(number, _)| settled(**number)) {
        // An empty file need not be on the disk.
        let held = found.get(number).map_or(&[][..], Vec::as_slice);
        if held == content {
            continue;
        }
        let at = held.iter().zip(content).take_while(|(a, b)| a == b).count();
        return Err(violation(format!(
            "file {number} holds {} bytes and should hold {}; they differ from byte {at} on",
            held.len(),
            content.len()
        )));
    }
    Ok(())
}

/// The server refuses to start on what a crash left of its files.
pub fn refused(why: &str) -> Violation {
    violation(format!("the server does not start on what its crash left of the files: {why}"))
}

fn violation(sentence: String) -> Violation {
    Violation::new("files_whole", sentence)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::invariants::samples::{FILE, deleted, written};

    fn found(bytes: &[u8]) -> BTreeMap<u64, Vec<u8>> {
        BTreeMap::from([(FILE, bytes.to_vec())])
    }

    #[test]
    fn sees_what_is_lost_torn_doubled_or_left_over() {
        let mut model = FileModel::default();
        model.committed(&written(1, 10, "a", 0, b"first"));
        model.committed(&written(2, 10, "a", 5, b"second"));
        judge(&model, &found(b"firstsecond"), |_| true).unwrap();
        for wrong in [&b"first"[..], b"", b"firstsec\0\0\0", b"firstsecondsecond", b"firstsecond\0"] {
            assert!(judge(&model, &found(wrong), |_| true).is_err(), "{wrong:?}");
            judge(&model, &found(wrong), |_| false).unwrap();
        }
        assert!(judge(&model, &BTreeMap::new(), |_| true).is_err());
        model.committed(&deleted(3, 10, "a"));
        judge(&model, &BTreeMap::new(), |_| true).unwrap();
        assert!(judge(&model, &found(b"firstsecond"), |_| true).is_err());
    }
}
