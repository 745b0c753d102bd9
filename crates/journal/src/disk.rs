//! The storage seam: the few operations that the journal, and whoever keeps files beside it, asks of a directory, so that everything hard is tested on a
//! simulated disk. Never interprets a byte.

use std::io;

/// One flat directory. Clones are handles to the same directory.
pub trait Disk: Clone + Send + 'static {
    /// An open file of this directory.
    type File: DiskFile;

    /// The names of all plain files, in any order.
    fn list(&self) -> io::Result<Vec<String>>;
    /// Opens an existing file.
    fn open(&self, name: &str) -> io::Result<Self::File>;
    /// Opens an existing file whose content goes to the disk and comes from it past the system's cache, where it can; durable
    /// after [`DiskFile::sync`] all the same. Takes and gives nothing but whole sectors, out of and into memory that begins at
    /// a multiple of [`crate::limits::DIRECT_ALIGN_BYTES`].
    fn open_direct(&self, name: &str) -> io::Result<Self::File> {
        self.open(name)
    }
    /// Creates a file; fails if the name is taken.
    fn create(&self, name: &str) -> io::Result<Self::File>;
    /// Renames a file, replacing one that has the new name. Durable after [`Disk::sync_folder`].
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;
    /// Removes a file. Durable after [`Disk::sync_folder`].
    fn remove(&self, name: &str) -> io::Result<()>;
    /// Makes creations, renamings and removals durable.
    fn sync_folder(&self) -> io::Result<()>;
    /// Bytes this user may still write to the disk; 0 when it has nearly as many files as it can have.
    fn free_bytes(&self) -> io::Result<u64>;
    /// How to name a file, or with an empty name the directory, to a person.
    fn path(&self, name: &str) -> String;
}

/// An open file with positioned reads and writes.
pub trait DiskFile: Send {
    /// Length in bytes.
    fn len(&self) -> io::Result<u64>;
    /// Whether the file has no bytes.
    fn is_empty(&self) -> io::Result<bool> {
        Ok(self.len()? == 0)
    }
    /// Fills the buffer from the offset; an end of file before that is an error.
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()>;
    /// Writes all the bytes, or fails having written any part of them.
    fn write_at(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()>;
    /// Cuts the file to a length that is not above its own. Durable after [`DiskFile::sync`].
    fn cut(&mut self, length: u64) -> io::Result<()>;
    /// Makes the content durable (`fdatasync`).
    fn sync(&mut self) -> io::Result<()>;
}
