//! What is asked of whoever keeps the bytes of files. Knows no kind of disk.

use leasehold_journal::StorageError;

/// Bytes by number. Calls for different files may be made at the same time. Writes to one file are made one after the
/// other, in the order that the caller wants; reads beside them are welcome, and see each write whole or not at all.
///
/// After the first failed change or sync nothing may be acknowledged any more: what is on the disk is then for a recovery
/// to say.
pub trait FileStore: Send + Sync {
    /// Puts bytes at an offset. The file is made if it is not there; without bytes there is nothing to put.
    fn write(&self, number: u64, offset: u64, bytes: &[u8]) -> Result<(), StorageError>;

    /// Takes a file away; one that is not there is as wanted.
    fn remove(&self, number: u64) -> Result<(), StorageError>;

    /// Fills the buffer from an offset. False when there is no such file, or none any more.
    fn read(&self, number: u64, offset: u64, buffer: &mut [u8]) -> Result<bool, StorageError>;

    /// Makes durable every change that was finished before the call; how many files were synced for that.
    fn sync(&self) -> Result<u64, StorageError>;

    /// How long a file is; none when it is not there.
    fn length(&self, number: u64) -> Result<Option<u64>, StorageError>;

    /// Cuts a file to a length that is not above its own.
    fn cut(&self, number: u64, length: u64) -> Result<(), StorageError>;

    /// The numbers of all files that are there, in order.
    fn numbers(&self) -> Result<Vec<u64>, StorageError>;

    /// Bytes that can still be written.
    fn room(&self) -> Result<u64, StorageError>;

    /// How to name a file to a person.
    fn path(&self, number: u64) -> String;
}
