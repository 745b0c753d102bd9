//! What lies in a journal's directory, by name alone. Opens nothing and removes nothing.

use crate::disk::Disk;
use crate::error::{Damage, DamageKind, OpenError, StorageError};

/// Files under these names are unfinished work of an earlier run: no record is ever in one alone.
pub(crate) const TEMPORARY: &str = ".tmp";

/// The journal's files, sorted.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct Inventory {
    /// Segments as (index of the first record, name), oldest first.
    pub segments: Vec<(u64, String)>,
    /// Snapshots as (index through which it holds, name), oldest first.
    pub snapshots: Vec<(u64, String)>,
    /// Unfinished work of an earlier run.
    pub temporary: Vec<String>,
}

impl Inventory {
    /// Reads the directory. Names that are none of ours are passed over; names that almost are, refused.
    pub fn take<D: Disk>(disk: &D) -> Result<Self, OpenError> {
        let mut found = Self::default();
        let mut names = disk.list().map_err(StorageError::io("list", disk.path("")))?;
        names.sort_unstable();
        for name in names {
            let (digits, kind) = if name.ends_with(TEMPORARY) {
                found.temporary.push(name);
                continue;
            } else if let Some(digits) = name.strip_prefix("segment-") {
                (digits, &mut found.segments)
            } else if let Some(digits) = name.strip_prefix("snapshot-") {
                (digits, &mut found.snapshots)
            } else {
                continue;
            };
            match digits.parse() {
                Ok(index) if digits.len() == 20 && digits.bytes().all(|byte| byte.is_ascii_digit()) => {
                    kind.push((index, name));
                }
                _ => {
                    let damage = Damage { path: disk.path(&name), offset: 0, kind: DamageKind::Name };
                    return Err(OpenError::Damaged(damage));
                }
            }
        }
        Ok(found)
    }

    /// Whether no journal was ever begun here.
    pub fn is_fresh(&self) -> bool {
        self.segments.is_empty() && self.snapshots.is_empty()
    }

    /// The snapshot that counts.
    pub fn newest_snapshot(&self) -> Option<&(u64, String)> {
        self.snapshots.last()
    }

    /// The segments after the newest snapshot, oldest first.
    pub fn live_segments(&self) -> &[(u64, String)] {
        let through = self.newest_snapshot().map_or(0, |(index, _)| *index);
        let from = self.segments.partition_point(|(first, _)| *first <= through);
        &self.segments[from..]
    }

    /// What the newest snapshot has made superfluous, and unfinished work: all that a start clears away.
    pub fn leftovers(&self) -> impl Iterator<Item = &String> {
        let old_segments = self.segments.len() - self.live_segments().len();
        let old_snapshots = self.snapshots.len().saturating_sub(1);
        let segments = self.segments[..old_segments].iter().map(|(_, name)| name);
        let snapshots = self.snapshots[..old_snapshots].iter().map(|(_, name)| name);
        self.temporary.iter().chain(segments).chain(snapshots)
    }
}
