//! Files that hold secrets: read whole within a bound, and looked at for who else may read them. Never keeps a path
//! and its contents together, and never shows the contents.

use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use crate::limits::SECRET_FILE_BYTES_MAX;

/// Bits of a file's mode by which somebody who is neither its owner nor of its group may read or change it.
const FOR_EVERYBODY: u32 = 0o006;

/// Why a file of secrets is of no use.
#[derive(Debug)]
pub enum SecretFileError {
    /// It cannot be read.
    Unreadable {
        /// Which file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// It is far longer than what it should hold.
    TooLong(PathBuf),
}

impl fmt::Display for SecretFileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SecretFileError::Unreadable { path, source } => {
                write!(f, "cannot read {}: {source}", path.display())
            }
            SecretFileError::TooLong(path) => {
                write!(f, "{} has more than {SECRET_FILE_BYTES_MAX} bytes", path.display())
            }
        }
    }
}

impl std::error::Error for SecretFileError {}

/// Reads a file of secrets; also says whether everybody on this machine may read or change it.
pub fn read(path: &Path) -> Result<(Vec<u8>, Exposed), SecretFileError> {
    let unreadable = |source| SecretFileError::Unreadable { path: path.to_owned(), source };
    let file = File::open(path).map_err(unreadable)?;
    let mode = file.metadata().map_err(unreadable)?.permissions().mode();
    let mut bytes = Vec::new();
    file.take(SECRET_FILE_BYTES_MAX + 1).read_to_end(&mut bytes).map_err(unreadable)?;
    if bytes.len() as u64 > SECRET_FILE_BYTES_MAX {
        return Err(SecretFileError::TooLong(path.to_owned()));
    }
    Ok((bytes, Exposed(mode & FOR_EVERYBODY != 0)))
}

/// Whether everybody on this machine may read or change a file of secrets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exposed(pub bool);

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};

    use super::*;

    #[test]
    fn says_who_else_may_read_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("secret");
        fs::write(&path, "s").unwrap();
        for (mode, exposed) in [(0o600, false), (0o640, false), (0o644, true), (0o602, true)] {
            fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
            assert_eq!(read(&path).unwrap(), (b"s".to_vec(), Exposed(exposed)), "{mode:o}");
        }
        fs::write(&path, vec![b'x'; usize::try_from(SECRET_FILE_BYTES_MAX).unwrap() + 1]).unwrap();
        assert!(matches!(read(&path), Err(SecretFileError::TooLong(_))));
        assert!(matches!(read(folder.path()), Err(SecretFileError::Unreadable { .. })));
        assert!(read(Path::new("/dev/zero")).is_err(), "what has no end is not read to its end");
    }
}
