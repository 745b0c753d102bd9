//! `leasehold backup`: a copy of a server's data, running or not.

use std::path::PathBuf;

use clap::Args;
use leasehold_journal::Folder;
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
        let report = leasehold_journal::backup(&source, &target)?;
        let text = match self.json {
            true => line(&json!({
                "copied": self.data.display().to_string(),
                "to": self.target.display().to_string(),
                "through_record": report.copy.last_index,
                "bytes": report.bytes,
            })),
            false => format!(
                "copied {} to {}: through record {}, {} bytes, verified\n\
                 to serve from it: leasehold serve --restored --data {}\n",
                self.data.display(),
                self.target.display(),
                report.copy.last_index,
                report.bytes,
                quoted(&self.target.display().to_string()),
            ),
        };
        print(&text).map(drop)
    }
}
