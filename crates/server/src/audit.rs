//! The audit trail: every event as one line of JSON, in the journal's order, appended to a file that only its owner
//! may read. Numbers have no gaps, so a reader sees that nothing is missing. Shows no secrets.

use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use leasehold_state_machine::event::{Event, Seq};

use crate::wire::event_line::event_line;

/// A file that events are appended to.
#[derive(Debug)]
pub struct AuditLog {
    file: BufWriter<File>,
}

impl AuditLog {
    /// Opens the file for appending, and creates it with mode 0600 if it is not there.
    pub fn open(path: &Path) -> io::Result<AuditLog> {
        let file = OpenOptions::new().append(true).create(true).mode(0o600).open(path)?;
        Ok(AuditLog { file: BufWriter::with_capacity(64 * 1024, file) })
    }

    /// Adds one event. It is in the file after the next [`AuditLog::flush`].
    pub fn add(&mut self, seq: Seq, wall_ms: u64, event: &Event) -> io::Result<()> {
        self.file.write_all(&event_line(seq, wall_ms, event))?;
        self.file.write_all(b"\n")
    }

    /// Hands what was added to the operating system.
    pub fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn appends_lines_to_a_private_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("audit.jsonl");
        for seq in 1..=2 {
            let mut log = AuditLog::open(&path).unwrap();
            log.add(seq, 0, &Event::GrantsResumed).unwrap();
            log.flush().unwrap();
        }
        let text = std::fs::read_to_string(&path).unwrap();
        assert_eq!(text.lines().count(), 2);
        assert!(text.lines().all(|line| line.contains("grants_resumed")));
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    }
}
