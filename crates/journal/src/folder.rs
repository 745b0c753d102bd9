//! The real directory: private to its owner and locked against a second server. Never interprets a file.

use std::fmt;
use std::fs::{DirBuilder, File, OpenOptions, Permissions, TryLockError};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::direct;
use crate::disk::{Disk, DiskFile};
use crate::inventory::TEMPORARY;
use crate::limits::{FILES_LEFT_MIN, FILES_LEFT_PART};

/// The directory within a data directory in which fenced files' bytes are kept.
pub const FILES_FOLDER: &str = "files";
const LOCK: &str = "lock";
const PRIVATE: u32 = 0o700;

/// A directory on a real disk. The lock is held until the last clone is dropped.
#[derive(Debug, Clone)]
pub struct Folder {
    path: Arc<PathBuf>,
    lock: Option<Arc<File>>,
    writable: bool,
}

/// Why a directory cannot be used.
#[derive(Debug)]
pub enum FolderError {
    /// Another process has it.
    InUse(PathBuf),
    /// A new directory was asked for, and this one has something in it.
    NotEmpty(PathBuf),
    /// Other users may write to it, and it is not ours to change that.
    Shared(PathBuf),
    /// The operating system refused an operation.
    Io {
        /// What was being done, as in "cannot {doing}".
        doing: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// The refusal.
        source: io::Error,
    },
}

impl FolderError {
    fn io(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io { doing, path: path.to_owned(), source }
    }
}

impl fmt::Display for FolderError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::InUse(path) => write!(
                f,
                "the data directory {} is in use by another leasehold process; stop it or choose another directory",
                path.display()
            ),
            Self::NotEmpty(path) => {
                write!(f, "the directory {} is not empty; choose a new one", path.display())
            }
            Self::Shared(path) => write!(
                f,
                "other users may write to the directory {}; choose a new one for the data",
                path.display()
            ),
            Self::Io { doing, path, source } if source.kind() == io::ErrorKind::PermissionDenied => write!(
                f,
                "cannot {doing} {}: {source}; choose a directory that this user may write to",
                path.display()
            ),
            Self::Io { doing, path, source } => write!(f, "cannot {doing} {}: {source}", path.display()),
        }
    }
}

impl std::error::Error for FolderError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Io { source, .. } => Some(source),
            Self::InUse(_) | Self::NotEmpty(_) | Self::Shared(_) => None,
        }
    }
}

impl Folder {
    /// Opens the directory for a server: created if need be, made private, and locked.
    pub fn open(path: &Path) -> Result<Self, FolderError> {
        make_private(path)?;
        let lock_path = path.join(LOCK);
        let lock = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(&lock_path)
            .map_err(FolderError::io("create", &lock_path))?;
        match lock.try_lock() {
            Ok(()) => {
                Ok(Self { path: Arc::new(path.to_owned()), lock: Some(Arc::new(lock)), writable: true })
            }
            Err(TryLockError::WouldBlock) => Err(FolderError::InUse(path.to_owned())),
            Err(TryLockError::Error(source)) => Err(FolderError::io("lock", &lock_path)(source)),
        }
    }

    /// Opens the directory of a stopped server to look at it. Creates and changes nothing; fails while a server runs.
    pub fn open_stopped(path: &Path) -> Result<Self, FolderError> {
        let mut folder = Self::open_running(path)?;
        let lock_path = path.join(LOCK);
        let lock = match File::open(&lock_path) {
            Ok(lock) => lock,
            // Nobody has ever served from here: a copy made by hand, for instance.
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(folder),
            Err(error) => return Err(FolderError::io("open", &lock_path)(error)),
        };
        match lock.try_lock_shared() {
            Ok(()) => folder.lock = Some(Arc::new(lock)),
            Err(TryLockError::WouldBlock) => return Err(FolderError::InUse(path.to_owned())),
            Err(TryLockError::Error(source)) => return Err(FolderError::io("lock", &lock_path)(source)),
        }
        Ok(folder)
    }

    /// Opens a directory to read from it while a server may be running, as a backup does. Changes nothing.
    pub fn open_running(path: &Path) -> Result<Self, FolderError> {
        std::fs::read_dir(path).map_err(FolderError::io("read the directory", path))?;
        Ok(Self { path: Arc::new(path.to_owned()), lock: None, writable: false })
    }

    /// Makes a new directory, private and locked. One that exists must be empty.
    pub fn create_new(path: &Path) -> Result<Self, FolderError> {
        if path.exists() {
            let mut entries = std::fs::read_dir(path).map_err(FolderError::io("read the directory", path))?;
            if entries.next().is_some() {
                return Err(FolderError::NotEmpty(path.to_owned()));
            }
        }
        Self::open(path)
    }

    /// A directory within this one, made if need be, private, and under the same lock.
    pub fn make_inside(&self, name: &str) -> Result<Self, FolderError> {
        let path = self.path.join(name);
        self.check_writable().map_err(FolderError::io("create the directory", &path))?;
        match DirBuilder::new().mode(PRIVATE).create(&path) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                return Err(FolderError::io("create the directory", &path)(error));
            }
            // One that was made by a start that failed may not be durable yet.
            _ => self.sync_folder().map_err(FolderError::io("sync the directory", &self.path))?,
        }
        Ok(Self { path: Arc::new(path), ..self.clone() })
    }

    /// A directory within this one, if it is there. Changes nothing.
    pub fn find_inside(&self, name: &str) -> Result<Option<Self>, FolderError> {
        let path = self.path.join(name);
        match std::fs::read_dir(&path) {
            Ok(_) => Ok(Some(Self { path: Arc::new(path), ..self.clone() })),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(FolderError::io("read the directory", &path)(error)),
        }
    }

    /// Where it is.
    pub fn directory(&self) -> &Path {
        &self.path
    }

    fn check_writable(&self) -> io::Result<()> {
        if self.writable {
            return Ok(());
        }
        Err(io::Error::new(io::ErrorKind::ReadOnlyFilesystem, "the directory was opened to be read only"))
    }
}

/// Creates the directory if need be, durably, and takes everybody else's access away where that is ours to do.
fn make_private(path: &Path) -> Result<(), FolderError> {
    if !path.exists() {
        let parent = match path.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        };
        DirBuilder::new()
            .recursive(true)
            .create(parent)
            .map_err(FolderError::io("create the directory", parent))?;
        match DirBuilder::new().mode(PRIVATE).create(path) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                return Err(FolderError::io("create the data directory", path)(error));
            }
            _ => {}
        }
        File::open(parent)
            .and_then(|parent| parent.sync_all())
            .map_err(FolderError::io("sync the directory", parent))?;
    }
    let about = std::fs::metadata(path).map_err(FolderError::io("look at the data directory", path))?;
    if !about.is_dir() {
        let source = io::Error::from(io::ErrorKind::NotADirectory);
        return Err(FolderError::io("use as the data directory", path)(source));
    }
    if about.mode() & 0o7777 == PRIVATE {
        return Ok(());
    }
    if about.uid() == rustix::process::geteuid().as_raw() && nothing_foreign(path)? {
        return std::fs::set_permissions(path, Permissions::from_mode(PRIVATE))
            .map_err(FolderError::io("make private the data directory", path));
    }
    // Somebody's home or a temporary directory for all: nobody may be locked out of that, but files of mode 0600
    // can be renamed and removed by whoever may write to their directory.
    if about.mode() & 0o022 != 0 {
        return Err(FolderError::Shared(path.to_owned()));
    }
    Ok(())
}

/// Whether a directory holds nothing but what a data directory does, so that it can be closed to others.
fn nothing_foreign(path: &Path) -> Result<bool, FolderError> {
    let reading = "read the directory";
    for entry in std::fs::read_dir(path).map_err(FolderError::io(reading, path))? {
        let name = entry.map_err(FolderError::io(reading, path))?.file_name();
        let ours = name.to_str().is_some_and(|name| {
            name == LOCK
                || name == FILES_FOLDER
                || name == "lost+found"
                || name.ends_with(TEMPORARY)
                || name.starts_with("segment-")
                || name.starts_with("snapshot-")
        });
        if !ours {
            return Ok(false);
        }
    }
    Ok(true)
}

impl Disk for Folder {
    type File = File;

    fn list(&self) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in std::fs::read_dir(&*self.path)? {
            let entry = entry?;
            // A name that is not text is none of ours; a directory may hold what others keep here.
            let plain = match entry.file_type() {
                Ok(kind) => kind.is_file(),
                // Gone since it was listed.
                Err(error) if error.kind() == io::ErrorKind::NotFound => false,
                Err(error) => return Err(error),
            };
            if let (true, Ok(name)) = (plain, entry.file_name().into_string()) {
                names.push(name);
            }
        }
        Ok(names)
    }

    fn open(&self, name: &str) -> io::Result<File> {
        OpenOptions::new().read(true).write(self.writable).open(self.path.join(name))
    }

    fn open_direct(&self, name: &str) -> io::Result<File> {
        self.check_writable()?;
        direct::open(&self.path.join(name))
    }

    fn create(&self, name: &str) -> io::Result<File> {
        self.check_writable()?;
        OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(self.path.join(name))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.check_writable()?;
        std::fs::rename(self.path.join(from), self.path.join(to))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.check_writable()?;
        std::fs::remove_file(self.path.join(name))
    }

    fn sync_folder(&self) -> io::Result<()> {
        File::open(&*self.path)?.sync_all()
    }

    fn free_bytes(&self) -> io::Result<u64> {
        let about = rustix::fs::statvfs(&*self.path)?;
        // Some file systems have no fixed number of files; those that have are full when it is used up.
        let files_left_min = FILES_LEFT_MIN.min(about.f_files / FILES_LEFT_PART);
        Ok(if about.f_favail >= files_left_min { about.f_bavail.saturating_mul(about.f_frsize) } else { 0 })
    }

    fn path(&self, name: &str) -> String {
        if name.is_empty() {
            self.path.display().to_string()
        } else {
            self.path.join(name).display().to_string()
        }
    }
}

impl DiskFile for File {
    fn len(&self) -> io::Result<u64> {
        Ok(self.metadata()?.len())
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        self.read_exact_at(buffer, offset)
    }

    fn write_at(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        // Going on after a part of the bytes would be trying again, with a disk that has just shown it is not well.
        loop {
            match FileExt::write_at(self, bytes, offset) {
                Ok(written) if written == bytes.len() => return Ok(()),
                Ok(written) => {
                    let reason =
                        format!("only {written} of {} bytes were written; is the disk full?", bytes.len());
                    return Err(io::Error::new(io::ErrorKind::WriteZero, reason));
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    fn cut(&mut self, length: u64) -> io::Result<()> {
        self.set_len(length)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.sync_data()
    }
}
