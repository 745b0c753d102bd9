//! `leasehold backup`: a copy of a server's data, running or not.

use std::path::PathBuf;

use clap::Args;
use leasehold_journal::{FILES_FOLDER, Folder, backup_beside};
use serde_json::json;

use crate::printing::print;
use crate::quote::quoted;
use crate::shapes::line;
use crate::status::Failure;

/// Copy a server's data to a new directory; the server may be running
#[derive(Args)]
pub struct Backup {
    /// The directory for the copy; it must not exist yet, or be empty
    #[arg(value_name = "DIR")]
    target: PathBuf,
    /// The server's data directory
    #[arg(long, value_name = "DIR", env = "LEASEHOLD_DATA", default_value = leasehold_server::config::DATA)]
    data: PathBuf,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl Backup {
    pub fn run(self) -> Result<(), Failure> {
        let source = Folder::open_running(&self.data)?;
        let target = Folder::create_new(&self.target)?;
        let files = source.find_inside(FILES_FOLDER)?;
        let copies = target.make_inside(FILES_FOLDER)?;
        let mut file_bytes = 0;
        // The files first, the journal after them: it has every write that came meanwhile, and puts the files right.
        let report = backup_beside(&source, &target, &mut |hold| {
            if let Some(files) = &files {
                file_bytes = leasehold_files::copy(files, &copies, hold)?;
            }
            Ok(())
        })?;
        let bytes = report.bytes + file_bytes;
        let text = match self.json {
            true => line(&json!({
                "copied": self.data.display().to_string(),
                "to": self.target.display().to_string(),
                "through_record": report.copy.last_index,
                "bytes": bytes,
            })),
            false => format!(
                "copied {} to {}: through record {}, {} bytes, verified\n\
                 to serve from it: leasehold serve --restored --data {}\n",
                self.data.display(),
                self.target.display(),
                report.copy.last_index,
                bytes,
                quoted(&self.target.display().to_string()),
            ),
        };
        print(&text).map(drop)
    }
}
