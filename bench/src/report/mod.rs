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
        self.book.keep(&before.book);
        let known: Vec<&str> = self.met.iter().map(|met| met.name).collect();
        let others: Vec<Met> = before.met.into_iter().filter(|met| !known.contains(&met.name)).collect();
        self.met.extend(others);
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
