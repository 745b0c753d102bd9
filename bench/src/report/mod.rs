//! What is written of a run: the figures as JSON, and made of nothing but those, the goals, a page of tables, and plots. A page
//! can so be made again without measuring anything.

mod goals;
mod json;
mod page;
mod plots;
mod svg;
mod units;

use std::path::Path;

pub use self::units::show;

use crate::book::Book;
use crate::compare::Met;

/// Where the figures are, in the folder of a report.
pub const FIGURES: &str = "latest.json";

/// What says of a run when it was, among what is known of the machine.
pub const TAKEN: &str = "taken";
/// What says there which workloads are of a run before.
const KEPT: &str = "kept from before";
/// What stands there between workloads and their run.
const AS_OF: &str = ": as of ";

/// A run.
#[derive(Debug)]
pub struct Taken {
    /// Only a look.
    pub quick: bool,
    /// What is known of the machine.
    pub machine: Vec<(String, String)>,
    /// The systems.
    pub met: Vec<Met>,
    /// What was measured.
    pub book: Book,
}

impl Taken {
    /// Reads what was written before.
    pub fn read(file: &Path) -> Result<Taken, String> {
        let text = std::fs::read_to_string(file).map_err(|error| format!("{}: {error}", file.display()))?;
        json::read(&text).map_err(|error| format!("{}: {error}", file.display()))
    }

    /// Keeps what was measured before, of workloads and systems that were not measured now.
    pub fn keep(&mut self, before: Taken) {
        // Each is of the run in which it was measured, however often it was kept since.
        let mut by_run: Vec<(&str, Vec<&str>)> = Vec::new();
        for workload in self.book.keep(&before.book) {
            let Some(when) = before.measured(workload) else { continue };
            match by_run.iter_mut().find(|(run, _)| *run == when) {
                Some((_, workloads)) => workloads.push(workload),
                None => by_run.push((when, vec![workload])),
            }
        }
        let rows =
            by_run.into_iter().map(|(when, workloads)| format!("{}{AS_OF}{when}", workloads.join(", ")));
        let rows: Vec<_> = rows.map(|what| (KEPT.to_owned(), what)).collect();
        self.machine.extend(rows);
        let known: Vec<&str> = self.met.iter().map(|met| met.name).collect();
        let others: Vec<Met> = before.met.into_iter().filter(|met| !known.contains(&met.name)).collect();
        self.met.extend(others);
    }

    /// When this workload was measured, if that is known.
    fn measured(&self, workload: &str) -> Option<&str> {
        let known_of = |name: &'static str| {
            self.machine.iter().filter(move |(known, _)| known == name).map(|(_, what)| what.as_str())
        };
        let mut kept = known_of(KEPT).filter_map(|what| what.split_once(AS_OF));
        let before = kept.find(|(workloads, _)| workloads.split(", ").any(|kept| kept == workload));
        before.map(|(_, when)| when).or_else(|| known_of(TAKEN).next())
    }

    /// Writes everything into this folder, which is made if need be.
    pub fn write(&self, folder: &Path) -> Result<(), String> {
        let put = |name: &str, text: String| {
            let file = folder.join(name);
            std::fs::write(&file, text).map_err(|error| format!("{}: {error}", file.display()))
        };
        std::fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        let plots = plots::all(self);
        put(FIGURES, json::write(self))?;
        put("README.md", page::markdown(self, &plots))?;
        plots.into_iter().try_for_each(|plot| put(plot.file, plot.svg))
    }

    /// How the goals stand, as a table.
    pub fn goals(&self) -> String {
        goals::table(&self.book)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::book::Key;
    use crate::drive::Values;

    fn taken(when: &str, workloads: &[&'static str]) -> Taken {
        let mut book = Book::default();
        for workload in workloads {
            let key = Key { workload, system: "leasehold", way: "stream", size: 1 };
            book.record(key, Values::from([("per_second", 1.0)]));
        }
        Taken { quick: false, machine: vec![(TAKEN.to_owned(), when.to_owned())], met: Vec::new(), book }
    }

    #[test]
    fn what_is_kept_says_so_and_from_when() {
        let said = |taken: &Taken| -> Vec<String> {
            let kept = taken.machine.iter().filter(|(name, _)| name == KEPT);
            kept.map(|(_, what)| what.clone()).collect()
        };
        let mut second = taken("noon", &["contended"]);
        second.keep(taken("morning", &["contended", "renewals", "held"]));
        assert_eq!(said(&second), ["renewals, held: as of morning"]);
        assert_eq!(second.book.figures().count(), 3);
        let mut third = taken("evening", &["contended", "renewals"]);
        third.keep(second);
        assert_eq!(said(&third), ["held: as of morning"]);
        let mut fourth = taken("dusk", &["held"]);
        fourth.keep(third);
        assert_eq!(said(&fourth), ["contended, renewals: as of evening"]);
        let mut third = taken("evening", &["renewals"]);
        third.keep(taken("noon", &["contended"]));
        third.keep(taken("morning", &["contended", "held"]));
        let mut fifth = taken("dusk", &["renewals"]);
        fifth.keep(third);
        let mut both = said(&fifth);
        both.sort();
        assert_eq!(both, ["contended: as of noon", "held: as of morning"]);
        let mut whole = taken("night", &["contended", "renewals", "held"]);
        whole.keep(fifth);
        assert!(said(&whole).is_empty());
    }
}
