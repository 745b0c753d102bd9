//! files_read: who reads a file sees durable bytes only. What is told of it is what the journal says, and what one call
//! reads is the file as it was after some durable write, no older than what was told: each write whole or not at all.
//!
//! Catches: bytes shown before their batch is durable, a size that is told before its bytes are there, a torn read, the
//! bytes of another file under the same name.

use leasehold_state_machine::answer::FileView;
use leasehold_state_machine::event::Seq;

use super::file_model::{File, FileModel};
use super::{Verdict, Violation};

/// What one call read.
#[derive(Clone, Copy, Debug)]
pub struct Read<'a> {
    /// The file.
    pub number: u64,
    /// The event that the reader knows of.
    pub since: Seq,
    /// Where the first byte is.
    pub offset: usize,
    /// The bytes; none if the file was not there.
    pub bytes: Option<&'a [u8]>,
}

/// Judges what is told of a file.
pub fn told(model: &FileModel, view: &FileView) -> Verdict {
    let Some(file) = model.file(view.number).filter(|file| file.path == *view.name.path()) else {
        return Err(violation(format!("{} was told to be file {}, and is not", view.name, view.number)));
    };
    if !file.writes.iter().any(|write| write.seq == view.version) {
        return Err(violation(format!("{} was told before event {} was durable", view.name, view.version)));
    }
    let size = file.content(view.version).len() as u64;
    let token = file.writes.iter().filter(|write| write.seq <= view.version).map(|write| write.token).max();
    if (size, token) == (view.size, Some(view.token)) {
        return Ok(());
    }
    Err(violation(format!(
        "{} was told to have {} bytes and token {}; at event {} it has {size} and {}",
        view.name,
        view.size,
        view.token,
        view.version,
        token.unwrap_or(0)
    )))
}

/// Judges what was read.
pub fn judge(model: &FileModel, read: &Read<'_>) -> Verdict {
    let Read { number, since, offset, bytes } = *read;
    let Some(file) = model.file(number) else {
        return Err(violation(format!("file {number} was read, and the journal knows none")));
    };
    match bytes {
        None if file.deleted.is_some() || since == 0 => Ok(()),
        None => Err(violation(format!("file {number} was not there to be read"))),
        Some(bytes) if shows(file, since, offset, bytes) => Ok(()),
        Some(bytes) => Err(violation(format!(
            "{} bytes at {offset} of file {number} were read that it did not hold after any durable event from {since} on",
            bytes.len()
        ))),
    }
}

fn shows(file: &File, since: Seq, offset: usize, bytes: &[u8]) -> bool {
    let mut content = file.content(since);
    let holds = |content: &[u8]| content.get(offset..offset + bytes.len()) == Some(bytes);
    if holds(&content) {
        return true;
    }
    file.writes.iter().filter(|write| write.seq > since).any(|write| {
        write.put(&mut content);
        holds(&content)
    })
}

fn violation(sentence: String) -> Violation {
    Violation::new("files_read", sentence)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::invariants::samples::{FILE, deleted, written};
    use leasehold_state_machine::file::FileName;

    fn model() -> FileModel {
        let mut model = FileModel::default();
        model.committed(&written(1, 10, "a", 0, b"aaaa"));
        model.committed(&written(2, 11, "a", 0, b"bb"));
        model.committed(&written(3, 11, "a", 2, b"cccc"));
        model
    }

    #[test]
    fn sees_bytes_that_were_never_durable_or_torn_or_too_old() {
        let read = |since, bytes| judge(&model(), &Read { number: FILE, since, offset: 0, bytes });
        for (since, bytes) in [(1, "aaaa"), (1, "bbaa"), (2, "bbcc"), (1, "bbcccc"), (3, "bbcccc")] {
            read(since, Some(bytes.as_bytes())).unwrap();
        }
        for (since, bytes) in [(2, "aaaa"), (1, "baaa"), (1, "aacc"), (1, "bbccccc"), (1, "zzzz")] {
            assert!(read(since, Some(bytes.as_bytes())).is_err(), "{since} {bytes}");
        }
        assert!(read(1, None).is_err());
        let mut model = model();
        model.committed(&deleted(4, 11, "a"));
        judge(&model, &Read { number: FILE, since: 1, offset: 0, bytes: None }).unwrap();
    }

    #[test]
    fn sees_a_file_that_is_told_otherwise() {
        let view = FileView {
            name: FileName::parse("a").unwrap(),
            number: FILE,
            size: 4,
            token: 11,
            created_wall_ms: 0,
            written_wall_ms: 0,
            version: 2,
        };
        told(&model(), &view).unwrap();
        assert!(told(&model(), &FileView { size: 6, ..view.clone() }).is_err());
        assert!(told(&model(), &FileView { token: 10, ..view.clone() }).is_err());
        assert!(told(&model(), &FileView { version: 4, ..view.clone() }).is_err());
        assert!(told(&model(), &FileView { name: FileName::parse("b").unwrap(), ..view }).is_err());
    }
}
