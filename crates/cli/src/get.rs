//! `leasehold get`: who holds a lock, and who stands in line for it.

use clap::Args;
use leasehold_client::{Holder, Mode, Snapshot, Waiter};

use crate::asking::Asking;
use crate::duration;
use crate::paint::{Paint, Tone};
use crate::printing::print;
use crate::shapes;
use crate::status::Failure;
use crate::table::{Cell, Side, Table};

/// Show who holds a lock, and who stands in line for it
///
/// Shows everything that overlaps: for a path also what is locked above and below it.
#[derive(Args)]
#[command(after_help = "\
Examples:
  leasehold get deploy
  leasehold get path:/srv/data --json")]
pub struct Get {
    /// The lock: a NAME, path:/A/B, inode:N or range:N:FROM-TO
    #[arg(value_name = "LOCK")]
    lock: String,
    #[command(flatten)]
    asking: Asking,
}

impl Get {
    pub fn run(self) -> Result<(), Failure> {
        let failed = format!("could not look at {}", self.lock);
        let snapshot = self.asking.ask(&failed, async |client| client.get(&self.lock).await)?;
        print(&match self.asking.json {
            true => shapes::snapshot(&snapshot),
            false => describe(&snapshot, Paint::for_stdout()),
        })
        .map(drop)
    }
}

fn describe(snapshot: &Snapshot, paint: Paint) -> String {
    let state = match snapshot.holders.len() {
        0 => paint.tone(Tone::Good, "free"),
        1 => paint.tone(Tone::Notable, "held"),
        count => paint.tone(Tone::Notable, format!("held by {count}")),
    };
    let mut text = format!("{} is {state}\n", paint.name(&snapshot.lock));
    for part in [holders(&snapshot.holders).render(paint), waiters(&snapshot.waiters).render(paint)] {
        if !part.is_empty() {
            text += "\n";
            text += &part;
        }
    }
    text
}

fn holders(holders: &[Holder]) -> Table<7> {
    let mut table = Table::new([
        ("HOLDER", Side::Left),
        ("LOCK", Side::Left),
        ("MODE", Side::Left),
        ("TOKEN", Side::Right),
        ("LEFT", Side::Right),
        ("SINCE", Side::Left),
        ("METADATA", Side::Left),
    ]);
    for holder in holders {
        let left = duration::show(holder.expires_in);
        table.row([
            (&holder.owner_id).into(),
            (&holder.lock).into(),
            mode(holder.mode),
            holder.fencing_token.to_string().into(),
            if holder.broken { Cell::toned(Tone::Bad, format!("broken, {left}")) } else { left.into() },
            Cell::toned(Tone::Quiet, shapes::time(holder.acquired_at).to_string()),
            pairs(&holder.metadata).into(),
        ]);
    }
    table
}

fn waiters(waiters: &[Waiter]) -> Table<5> {
    let mut table = Table::new([
        ("PLACE", Side::Right),
        ("WAITER", Side::Left),
        ("LOCK", Side::Left),
        ("MODE", Side::Left),
        ("WAITING", Side::Right),
    ]);
    for waiter in waiters {
        let waiting = duration::show(waiter.waiting);
        table.row([
            waiter.position.to_string().into(),
            (&waiter.owner_id).into(),
            (&waiter.lock).into(),
            mode(waiter.mode),
            if waiter.attached {
                waiting.into()
            } else {
                Cell::toned(Tone::Quiet, format!("{waiting}, away"))
            },
        ]);
    }
    table
}

/// A mode's word.
pub fn mode(mode: Mode) -> Cell {
    match mode {
        Mode::Exclusive => "exclusive".into(),
        Mode::Shared => Cell::toned(Tone::Good, "shared"),
    }
}

/// Metadata in one line.
pub fn pairs(metadata: &std::collections::BTreeMap<String, String>) -> String {
    metadata.iter().map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>().join(" ")
}
