//! `leasehold rm`: deletes a file.

use clap::Args;

use crate::acquire::random_id;
use crate::asking::Asking;
use crate::file_lease::{Change, FileLease};
use crate::paint::{Paint, visible};
use crate::printing::print;
use crate::shapes;
use crate::status::Failure;

/// Delete a file that the server keeps, under its lock
///
/// Takes the lock on the file's path and gives it back, or deletes under the lease that the environment names, which must
/// cover all of the file. A file that is not there is status 76.
#[derive(Args)]
#[command(after_help = "\
Examples:
  leasehold rm reports/a.log
  leasehold files old/ --json | jq -r '.files[].name' | xargs -n1 leasehold rm")]
pub struct Rm {
    /// The file: a relative path, such as reports/a.log
    #[arg(value_name = "FILE")]
    file: String,
    /// Make it safe to repeat: the same owner and id delete once; a random one unless given
    #[arg(long, value_name = "ID")]
    request_id: Option<String>,
    #[command(flatten)]
    lease: FileLease,
    #[command(flatten)]
    asking: Asking,
}

impl Rm {
    pub fn run(self) -> Result<(), Failure> {
        let failed = format!("could not delete {}", self.file);
        let id = match &self.request_id {
            Some(id) => id.clone(),
            None => random_id()?,
        };
        let change = Change::new(&self.asking, &self.file, &failed);
        self.lease.make(&change, async |client, hold| {
            let delete = async || client.delete_file(&hold.claim, &self.file, Some(id.clone())).await;
            change.insist(delete).await.map_err(|error| change.failure(error))
        })?;
        print(&match self.asking.json {
            true => shapes::deleted(),
            false => format!("deleted {}\n", Paint::for_stdout().name(&visible(&self.file))),
        })
        .map(drop)
    }
}
