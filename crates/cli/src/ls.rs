//! `leasehold ls`: what is held and waited for, the next to end first.

use std::cmp::Ordering;

use clap::Args;
use leasehold_client::{Holder, ListFilter, Snapshot};

use crate::asking::Asking;
use crate::duration;
use crate::get::mode;
use crate::paint::{Paint, Tone};
use crate::printing::print;
use crate::shapes;
use crate::status::Failure;
use crate::table::{Cell, Side, Table};

/// As many rows as a server gives at once.
pub const PAGE_ROWS: u32 = 1000;

/// List what is held and waited for, the next to end first
///
/// Locks that are only waited for come last. What overlaps has a row of its own.
#[derive(Args)]
#[command(after_help = "\
Examples:
  leasehold ls
  leasehold ls path:/srv/ --owner worker-1@host7
  leasehold ls --json | jq -r '.locks[].lock'")]
pub struct Ls {
    /// Only locks whose text begins with this
    #[arg(value_name = "PREFIX", default_value = "", hide_default_value = true)]
    prefix: String,
    /// The same, for those who like to name things
    #[arg(long = "prefix", value_name = "PREFIX", conflicts_with = "prefix")]
    named: Option<String>,
    /// Only locks that this owner holds or waits for
    #[arg(long, value_name = "OWNER")]
    owner: Option<String>,
    #[command(flatten)]
    asking: Asking,
}

impl Ls {
    pub fn run(self) -> Result<(), Failure> {
        let prefix = self.named.unwrap_or(self.prefix);
        let mut locks = self.asking.gather("could not list the locks", async |client, cursor| {
            let (prefix, owner) = (prefix.clone(), self.owner.clone());
            client.list(ListFilter { prefix, owner, limit: Some(PAGE_ROWS), cursor }).await
        })?;
        locks.sort_by(sooner);
        print(&match self.asking.json {
            true => shapes::locks(&locks),
            false if locks.is_empty() => match prefix.is_empty() && self.owner.is_none() {
                true => "nothing is held or waited for\n".to_owned(),
                false => "nothing like that is held or waited for\n".to_owned(),
            },
            false => table(&locks).render(Paint::for_stdout()),
        })
        .map(drop)
    }
}

/// Holders of exactly this lock; a snapshot names what overlaps, too.
fn own(lock: &Snapshot) -> impl Iterator<Item = &Holder> {
    lock.holders.iter().filter(|holder| holder.lock == lock.lock)
}

fn sooner(a: &Snapshot, b: &Snapshot) -> Ordering {
    let left = |lock: &Snapshot| own(lock).map(|holder| holder.expires_in).min();
    let order = match (left(a), left(b)) {
        (Some(a), Some(b)) => a.cmp(&b),
        // What is held comes before what is only waited for.
        (a, b) => b.is_some().cmp(&a.is_some()),
    };
    order.then_with(|| a.lock.cmp(&b.lock))
}

fn table(locks: &[Snapshot]) -> Table<6> {
    let mut table = Table::new([
        ("LOCK", Side::Left),
        ("OWNER", Side::Left),
        ("MODE", Side::Left),
        ("TOKEN", Side::Right),
        ("LEFT", Side::Right),
        ("WAITING", Side::Right),
    ]);
    for lock in locks {
        let waiting = lock.waiters.iter().filter(|waiter| waiter.lock == lock.lock).count();
        let tone = if waiting > 0 { Tone::Notable } else { Tone::Quiet };
        let mut waiting = Some(Cell::toned(tone, waiting.to_string()));
        let mut holders: Vec<&Holder> = own(lock).collect();
        holders.sort_by_key(|holder| holder.expires_in);
        for holder in &holders {
            let left = duration::show(holder.expires_in);
            table.row([
                (&lock.lock).into(),
                (&holder.owner_id).into(),
                mode(holder.mode),
                holder.fencing_token.to_string().into(),
                if holder.broken { Cell::toned(Tone::Bad, format!("broken, {left}")) } else { left.into() },
                waiting.take().unwrap_or_else(|| "".into()),
            ]);
        }
        if let Some(waiting) = waiting {
            let nobody = || Cell::toned(Tone::Quiet, "-");
            table.row([(&lock.lock).into(), nobody(), nobody(), nobody(), nobody(), waiting]);
        }
    }
    table
}
