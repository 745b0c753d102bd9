//! Whole sectors that go to the disk and come from it past the system's cache: a batch is synced right away and not read again
//! while it is new, and then once, so that keeping a copy of it costs time and gains nothing. Where a file does not take them so, nothing is different
//! but the time. Knows nothing of records.

use std::fs::{File, OpenOptions};
use std::io;
#[cfg(target_os = "linux")]
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

#[cfg(target_os = "linux")]
use rustix::fs::{AtFlags, OFlags, StatxFlags, statx};

use crate::limits::DIRECT_ALIGN_BYTES;

/// Opens a file to be read and written past the cache, if that is how it takes whole sectors.
pub(crate) fn open(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true);
    let file = options.open(path)?;
    #[cfg(target_os = "linux")]
    if takes_sectors(&file) {
        let direct = i32::try_from(OFlags::DIRECT.bits());
        // One that will not after all is as good without.
        if let Ok(Ok(file)) = direct.map(|direct| options.custom_flags(direct).open(path)) {
            return Ok(file);
        }
    }
    Ok(file)
}

/// Whether it says that it does. A kernel or file system that does not say so is not tried out: that would take a write which
/// may fail, and nothing is written again after one that did.
#[cfg(target_os = "linux")]
fn takes_sectors(file: &File) -> bool {
    let Ok(about) = statx(file, "", AtFlags::EMPTY_PATH, StatxFlags::DIOALIGN) else { return false };
    let fits = |align: u32, bytes: usize| {
        usize::try_from(align).is_ok_and(|align| align > 0 && bytes.is_multiple_of(align))
    };
    StatxFlags::from_bits_retain(about.stx_mask).contains(StatxFlags::DIOALIGN)
        && fits(about.stx_dio_mem_align, DIRECT_ALIGN_BYTES)
        && fits(about.stx_dio_offset_align, crate::limits::SECTOR_BYTES)
}

/// Bytes that begin where such memory must. Keeps its memory from one use to the next.
#[derive(Debug, Default)]
pub(crate) struct Aligned {
    memory: Vec<u8>,
}

impl Aligned {
    /// So many bytes, all of them zero.
    pub fn zeros(&mut self, length: usize) -> &mut [u8] {
        let bytes = self.room(length);
        bytes.fill(0);
        bytes
    }

    /// So many bytes: those of the last time, unless there were fewer.
    pub fn room(&mut self, length: usize) -> &mut [u8] {
        let enough = length + DIRECT_ALIGN_BYTES;
        if self.memory.len() < enough {
            self.memory = vec![0; enough];
        }
        let from = self.memory.as_ptr().align_offset(DIRECT_ALIGN_BYTES);
        assert!(from < DIRECT_ALIGN_BYTES, "there is such a place in every page");
        &mut self.memory[from..from + length]
    }

    /// Gives its memory back if it is more than this.
    pub fn shrink(&mut self, bytes_max: usize) {
        if self.memory.len() > bytes_max {
            self.memory = Vec::new();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::SECTOR_BYTES;

    #[test]
    fn bytes_begin_at_a_page_and_are_zero_however_often_they_are_used() {
        let mut aligned = Aligned::default();
        for length in [SECTOR_BYTES, 5 * SECTOR_BYTES, SECTOR_BYTES, 1 << 20, 0] {
            let bytes = aligned.zeros(length);
            assert_eq!(bytes.len(), length);
            assert!(bytes.as_ptr().addr().is_multiple_of(DIRECT_ALIGN_BYTES));
            assert!(bytes.iter().all(|byte| *byte == 0));
            bytes.fill(7);
        }
        assert!(aligned.room(SECTOR_BYTES).iter().all(|byte| *byte == 7), "what was there before");
        aligned.shrink(1 << 20);
        assert!(aligned.memory.is_empty(), "a page more than what was asked for");
    }

    #[test]
    fn a_file_takes_whole_sectors_and_is_read_as_any_other() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("sectors");
        std::fs::write(&path, vec![0; 8 * SECTOR_BYTES]).unwrap();
        let mut file = open(&path).unwrap();
        #[cfg(target_os = "linux")]
        assert_eq!(rustix::fs::fcntl_getfl(&file).unwrap().contains(OFlags::DIRECT), takes_sectors(&file));
        let mut aligned = Aligned::default();
        for (at, length) in [(1, 1), (2, 5), (7, 1)] {
            let bytes = aligned.zeros(length * SECTOR_BYTES);
            bytes.fill(at);
            let offset = u64::from(at) * SECTOR_BYTES as u64;
            crate::disk::DiskFile::write_at(&mut file, offset, bytes).unwrap();
            crate::disk::DiskFile::sync(&mut file).unwrap();
        }
        let read = std::fs::read(&path).unwrap();
        let sectors: Vec<u8> = read.chunks(SECTOR_BYTES).map(|sector| sector[SECTOR_BYTES - 1]).collect();
        assert_eq!(sectors, [0, 1, 2, 2, 2, 2, 2, 7]);
        assert!(open(&folder.path().join("none")).is_err());
    }
}
