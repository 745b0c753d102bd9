//! `leasehold write`: bytes at a place in a file.

use std::ffi::OsString;

use clap::Args;

use crate::asking::Asking;
use crate::file_lease::FileLease;
use crate::file_writing::{Source, Writing};
use crate::status::Failure;

/// Write at a place in a file that the server keeps, under its lock
///
/// Writes exactly TEXT, without a line end, or standard input as it is, over what is there and beyond the end if need be.
/// What is there and not written over stays: nothing is cut off. It cannot begin beyond the end. For everything else see
/// `leasehold help append`.
#[derive(Args)]
#[command(after_help = "\
Examples:
  leasehold write state <state
  leasehold write counters --offset 8 00000042")]
pub struct Write {
    /// The file: a relative path, such as reports/a.log
    #[arg(value_name = "FILE")]
    file: String,
    /// What to write; standard input unless given
    #[arg(value_name = "TEXT")]
    text: Option<OsString>,
    /// The byte at which it begins; 0 is the file's first
    #[arg(long, value_name = "BYTE", default_value_t = 0)]
    offset: u64,
    /// Make it safe to repeat: the same owner, id and bytes are written once; a random one unless given
    #[arg(long, value_name = "ID")]
    request_id: Option<String>,
    #[command(flatten)]
    lease: FileLease,
    #[command(flatten)]
    asking: Asking,
}

impl Write {
    pub fn run(self) -> Result<(), Failure> {
        let source = self.text.map_or(Source::Input, Source::Text);
        let (offset, request_id) = (Some(self.offset), self.request_id.as_deref());
        Writing { file: &self.file, offset, source, request_id }.run(&self.lease, &self.asking)
    }
}
