//! `leasehold sessions`: who is alive, and with how many leases.

use clap::Args;
use leasehold_client::SessionRow;

use crate::asking::Asking;
use crate::duration;
use crate::get::pairs;
use crate::ls::PAGE_ROWS;
use crate::paint::Paint;
use crate::printing::print;
use crate::shapes;
use crate::status::Failure;
use crate::table::{Side, Table};

/// List the sessions that are alive, the next to end first
#[derive(Args)]
#[command(after_help = "\
Examples:
  leasehold sessions
  leasehold sessions --json | jq '.sessions[] | select(.leases > 100)'")]
pub struct Sessions {
    #[command(flatten)]
    asking: Asking,
}

impl Sessions {
    pub fn run(self) -> Result<(), Failure> {
        let mut rows = self.asking.gather("could not list the sessions", async |client, cursor| {
            client.sessions(Some(PAGE_ROWS), cursor).await
        })?;
        rows.sort_by(|a: &SessionRow, b| (a.expires_in, &a.owner_id).cmp(&(b.expires_in, &b.owner_id)));
        print(&match self.asking.json {
            true => shapes::sessions(&rows),
            false if rows.is_empty() => "no sessions\n".to_owned(),
            false => table(&rows).render(Paint::for_stdout()),
        })
        .map(drop)
    }
}

fn table(rows: &[SessionRow]) -> Table<6> {
    let mut table = Table::new([
        ("OWNER", Side::Left),
        ("LEASES", Side::Right),
        ("WAITING", Side::Right),
        ("TTL", Side::Right),
        ("LEFT", Side::Right),
        ("METADATA", Side::Left),
    ]);
    for row in rows {
        table.row([
            (&row.owner_id).into(),
            row.leases.to_string().into(),
            row.waiters.to_string().into(),
            duration::show(row.ttl).into(),
            duration::show(row.expires_in).into(),
            pairs(&row.metadata).into(),
        ]);
    }
    table
}
