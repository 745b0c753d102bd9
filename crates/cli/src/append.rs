//! `leasehold append`: more at the end of a file.

use std::ffi::OsString;

use clap::Args;

use crate::asking::Asking;
use crate::file_lease::FileLease;
use crate::file_writing::{Source, Writing};
use crate::status::Failure;

/// Append to a file that the server keeps, under its lock
///
/// Appends TEXT and a line end, as `echo` prints it, or standard input as it is. The file is made if there is none. What
/// was appended is on disk when the command ends.
///
/// Takes the lock on the file's path, waiting in line for it, and gives it back. If the environment names a lease, as it
/// does under `leasehold lock path:/… --`, it writes under that one, or says that it does not cover the file.
///
/// Standard input goes in pieces of 1 MiB at most, in order and under one lock, each of them whole or not at all. It goes
/// on as it comes, so that others can read meanwhile.
#[derive(Args)]
#[command(after_help = "\
Examples:
  leasehold append reports/a.log 'run 17 is done'
  leasehold append reports/a.log -- '-17 degrees'
  ./job.sh 2>&1 | leasehold append jobs/17.log
  leasehold lock path:/reports -- sh -c 'leasehold append reports/a.log one && ./more.sh'")]
pub struct Append {
    /// The file: a relative path, such as reports/a.log
    #[arg(value_name = "FILE")]
    file: String,
    /// What to append; standard input unless given
    #[arg(value_name = "TEXT")]
    text: Option<OsString>,
    /// No line end after TEXT
    #[arg(short = 'n', long)]
    no_newline: bool,
    /// Make it safe to repeat: the same owner, id and bytes are appended once; a random one unless given
    #[arg(long, value_name = "ID")]
    request_id: Option<String>,
    #[command(flatten)]
    lease: FileLease,
    #[command(flatten)]
    asking: Asking,
}

impl Append {
    pub fn run(self) -> Result<(), Failure> {
        let source = match self.text {
            Some(mut text) => {
                text.push(if self.no_newline { "" } else { "\n" });
                Source::Text(text)
            }
            None => Source::Input,
        };
        Writing { file: &self.file, offset: None, source, request_id: self.request_id.as_deref() }
            .run(&self.lease, &self.asking)
    }
}
