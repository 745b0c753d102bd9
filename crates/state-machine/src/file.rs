//! The words of fenced files: what one may be called, where a write goes, and the bytes themselves. Knows no table and no
//! disk.

use alloc::format;
use alloc::sync::Arc;
use core::borrow::Borrow;
use core::fmt;
use core::hash::Hasher;

use siphasher::sip128::{Hasher128, SipHasher13};

use crate::invalid::Invalid;
use crate::limits::NAME_BYTES_MAX;
use crate::resource::{Resource, ancestors};

/// Before the name in the text of its path.
const ROOT: &str = "path:/";

/// A file's name: a relative path such as `reports/a.log`. Cheap to clone; in the order of its text.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct FileName(Resource);

impl FileName {
    /// Checks a `name`.
    pub fn parse(text: &str) -> Result<FileName, Invalid> {
        let wrong = |problem| Invalid::new("name", problem);
        if text.is_empty() || text.len() > NAME_BYTES_MAX {
            return Err(wrong(format!(
                "a file's name has 1 to {NAME_BYTES_MAX} bytes, this one has {}",
                text.len()
            )));
        }
        match Resource::parse(&format!("{ROOT}{text}")) {
            Ok(path) => Ok(FileName(path)),
            Err(invalid) => {
                Err(wrong(format!("a file's name is a path without its first `/`: {}", invalid.problem)))
            }
        }
    }

    /// The text as it was given.
    pub fn text(&self) -> &str {
        &self.0.text()[ROOT.len()..]
    }

    /// The path that the file lies at, as a resource.
    pub fn path(&self) -> &Resource {
        &self.0
    }

    /// The names of what would be folders above it, nearest first.
    pub(crate) fn above(&self) -> impl Iterator<Item = &str> {
        ancestors(&self.0.text()[ROOT.len() - 1..]).map(|path| &path[1..]).filter(|name| !name.is_empty())
    }
}

impl Borrow<str> for FileName {
    fn borrow(&self) -> &str {
        self.text()
    }
}

impl fmt::Display for FileName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text())
    }
}

impl fmt::Debug for FileName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text())
    }
}

/// Where a write goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Offset {
    /// To the end of the file, wherever that is by then.
    End,
    /// To this byte.
    At(u64),
}

/// The bytes of a write. Whole on their way to the journal and into the file; who is told of the write afterwards hears
/// only how many they were. Cheap to clone; equal when as many and, where both are whole, the same.
#[derive(Clone)]
pub struct FileBytes {
    length: u64,
    whole: Option<Arc<[u8]>>,
}

impl FileBytes {
    /// These bytes.
    pub fn new(bytes: impl Into<Arc<[u8]>>) -> FileBytes {
        let bytes = bytes.into();
        FileBytes { length: bytes.len() as u64, whole: Some(bytes) }
    }

    /// How many they are.
    pub fn len(&self) -> u64 {
        self.length
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// The bytes themselves.
    pub fn whole(&self) -> Arc<[u8]> {
        assert!(self.whole.is_some(), "bytes that have been let go are not asked for again");
        self.whole.clone().unwrap_or_default()
    }

    /// Only how many they are.
    pub fn let_go(&self) -> FileBytes {
        FileBytes { length: self.length, whole: None }
    }

    /// A fingerprint. Unkeyed, so that it can be taken before the state machine has a say: who makes two equal ones
    /// deceives only itself, for a request id is its owner's own.
    pub fn digest(&self) -> [u64; 2] {
        let mut hasher = SipHasher13::new();
        hasher.write(&self.whole());
        let hash = hasher.finish128();
        [hash.h1, hash.h2]
    }
}

impl PartialEq for FileBytes {
    fn eq(&self, other: &Self) -> bool {
        let same = || self.whole.is_none() || other.whole.is_none() || self.whole == other.whole;
        self.length == other.length && same()
    }
}

impl fmt::Debug for FileBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes", self.length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    #[test]
    fn names_are_relative_normal_paths() {
        let name = FileName::parse("reports/ß/a b.log").unwrap();
        assert_eq!((name.text(), name.path().text()), ("reports/ß/a b.log", "path:/reports/ß/a b.log"));
        assert_eq!(name.above().collect::<Vec<_>>(), ["reports/ß", "reports"]);
        assert_eq!(FileName::parse("a").unwrap().above().count(), 0);
        assert!(FileName::parse(&"x".repeat(512)).is_ok());
        for text in ["", "/", "/a", "a/", "a//b", ".", "a/..", "./a", "a\nb", "a\0", &"x".repeat(513)] {
            assert_eq!(FileName::parse(text).unwrap_err().field, "name", "{text:?}");
        }
    }

    #[test]
    fn bytes_that_are_let_go_leave_their_number() {
        let bytes = FileBytes::new(*b"hello");
        assert_eq!((bytes.let_go().len(), &bytes.whole()[..]), (5, &b"hello"[..]));
        assert_eq!(bytes.let_go(), bytes);
        assert_ne!(FileBytes::new(*b"hallo"), bytes);
        assert_ne!(FileBytes::new(*b"hallo").digest(), bytes.digest());
    }
}
