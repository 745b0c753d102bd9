//! files_acked: a write is told done when the journal has it and its file holds it; what is told of it is what happened.
//! A delete is told done when the journal has it.
//!
//! Catches: an answer that leaves before the batch is durable or before the bytes are in the file, an answer with the
//! offset or the size of another write, a write that is told done and never made.

use leasehold_state_machine::answer::{Answer, Outcome, Written};
use leasehold_state_machine::command::{Command, WriteFile};
use leasehold_state_machine::event::Seq;

use super::file_model::FileModel;
use super::{Verdict, Violation};

/// Judges what a change of a file was told. Gives the number of the file and the event, where its bytes must now be; none
/// if the journal has by now deleted it.
pub fn judge(model: &FileModel, asked: &Command, outcome: &Outcome) -> Result<Option<(u64, Seq)>, Violation> {
    match (asked, outcome) {
        (Command::WriteFile(wanted), Ok(Answer::Wrote(written))) => wrote(model, wanted, *written),
        (Command::DeleteFile { name, .. }, Ok(Answer::Deleted)) => {
            if model.all().any(|(_, file)| file.path == *name.path() && file.deleted.is_some()) {
                return Ok(None);
            }
            Err(violation(format!("{name} was told deleted and is not")))
        }
        _ => Ok(None),
    }
}

fn wrote(model: &FileModel, wanted: &WriteFile, told: Written) -> Result<Option<(u64, Seq)>, Violation> {
    let bytes = wanted.bytes.whole();
    for (number, file) in model.all().filter(|(_, file)| file.path == *wanted.name.path()) {
        for write in file.writes.iter().filter(|write| write.bytes == bytes) {
            let size = file.content(write.seq).len() as u64;
            let made = Written { offset: write.offset as u64, length: bytes.len() as u64, size };
            if made == told {
                return Ok(file.deleted.is_none().then_some((number, write.seq)));
            }
        }
    }
    Err(violation(format!(
        "{} bytes were told written to {} at {}, which has {} bytes then; no durable event says so",
        told.length, wanted.name, told.offset, told.size
    )))
}

/// Judges whether the bytes of a write that is told done are in their file.
pub fn held(verdict: Verdict) -> Verdict {
    verdict.map_err(|wrong| {
        violation(format!("a write was told done and is not in its file: {}", wrong.sentence))
    })
}

fn violation(sentence: String) -> Violation {
    Violation::new("files_acked", sentence)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::invariants::samples::{FILE, deleted, proof, written};
    use leasehold_state_machine::file::{FileBytes, FileName, Offset};

    #[test]
    fn sees_a_write_told_done_that_is_not_so() {
        let name = FileName::parse("a").unwrap();
        let bytes = FileBytes::new(*b"second");
        let asked = Command::WriteFile(Box::new(WriteFile::new(
            name,
            Offset::End,
            bytes,
            proof(10, "path:/a"),
            None,
        )));
        let told = |offset, size| Ok(Answer::Wrote(Written { offset, length: 6, size }));
        let mut model = FileModel::default();
        model.committed(&written(1, 10, "a", 0, b"first"));
        assert!(judge(&model, &asked, &told(5, 11)).is_err(), "before it is durable");
        model.committed(&written(2, 10, "a", 5, b"second"));
        assert_eq!(judge(&model, &asked, &told(5, 11)), Ok(Some((FILE, 2))));
        assert!(judge(&model, &asked, &told(0, 11)).is_err());
        assert!(judge(&model, &asked, &told(5, 12)).is_err());
        model.committed(&deleted(3, 10, "a"));
        assert_eq!(judge(&model, &asked, &told(5, 11)), Ok(None));
        assert!(held(Err(violation("torn".into()))).is_err());
    }

    #[test]
    fn sees_a_delete_told_done_that_is_not_so() {
        let name = FileName::parse("a").unwrap();
        let asked = Command::DeleteFile { name, proof: proof(10, "path:/a"), request_id: None };
        let mut model = FileModel::default();
        model.committed(&written(1, 10, "a", 0, b"first"));
        assert!(judge(&model, &asked, &Ok(Answer::Deleted)).is_err());
        model.committed(&deleted(2, 10, "a"));
        judge(&model, &asked, &Ok(Answer::Deleted)).unwrap();
    }
}
