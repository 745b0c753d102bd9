//! `leasehold files`: which files there are.

use clap::Args;
use leasehold_client::FileRow;

use crate::asking::Asking;
use crate::ls::PAGE_ROWS;
use crate::paint::{Paint, Tone};
use crate::printing::print;
use crate::shapes;
use crate::status::Failure;
use crate::table::{Cell, Side, Table};

/// List the files that the server keeps, by their names
///
/// TOKEN is the highest fencing token that wrote the file, INODE its number for locks on inode: and range:.
#[derive(Args)]
#[command(after_help = "\
Examples:
  leasehold files
  leasehold files reports/
  leasehold files --json | jq -r '.files[].name'")]
pub struct Files {
    /// Only files whose names begin with this
    #[arg(value_name = "PREFIX", default_value = "", hide_default_value = true)]
    prefix: String,
    #[command(flatten)]
    asking: Asking,
}

impl Files {
    pub fn run(self) -> Result<(), Failure> {
        let files = self.asking.gather("could not list the files", async |client, cursor| {
            client.list_files(&self.prefix, Some(PAGE_ROWS), cursor).await
        })?;
        print(&match self.asking.json {
            true => shapes::files(&files),
            false if files.is_empty() => match self.prefix.is_empty() {
                true => "there are no files\n".to_owned(),
                false => "there are no files like that\n".to_owned(),
            },
            false => table(&files).render(Paint::for_stdout()),
        })
        .map(drop)
    }
}

fn table(files: &[FileRow]) -> Table<5> {
    let mut table = Table::new([
        ("FILE", Side::Left),
        ("SIZE", Side::Right),
        ("TOKEN", Side::Right),
        ("INODE", Side::Right),
        ("WRITTEN", Side::Left),
    ]);
    for file in files {
        table.row([
            (&file.name).into(),
            file.size.to_string().into(),
            file.fencing_token.to_string().into(),
            file.inode.to_string().into(),
            Cell::toned(Tone::Quiet, shapes::time(file.written_at).to_string()),
        ]);
    }
    table
}
