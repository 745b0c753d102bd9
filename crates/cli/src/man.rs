//! `leasehold man`: the manual, made from the commands' own definition.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use clap::builder::Resettable;
use clap::{Args, Command};
use clap_mangen::Man;
use clap_mangen::roff::{Roff, roman};

use crate::printing::print;
use crate::status::{Failure, of_io};

/// Print the manual, or write a page for each command to a directory
#[derive(Args)]
#[command(after_help = "\
Examples:
  leasehold man | man -l -
  leasehold man /usr/local/share/man/man1")]
pub struct Manual {
    /// Write leasehold.1, leasehold-lock.1 and so on here; without it, leasehold.1 is printed
    #[arg(value_name = "DIR")]
    folder: Option<PathBuf>,
}

impl Manual {
    pub fn run(self, definition: Command) -> Result<(), Failure> {
        // A page for each way to ask for a page would be too much.
        let mut definition = definition.disable_help_subcommand(true);
        definition.build();
        let Some(folder) = self.folder else {
            return print(&page(definition).1).map(drop);
        };
        let count = write_all(definition, &folder).map_err(|error| {
            Failure::new(of_io(&error), format!("cannot write to {}: {error}", folder.display()))
        })?;
        print(&format!("wrote {count} pages to {}\n", folder.display())).map(drop)
    }
}

/// Writes the pages of a command and of all below it; how many.
fn write_all(command: Command, folder: &Path) -> io::Result<usize> {
    fs::create_dir_all(folder)?;
    let mut count = 1;
    for below in command.get_subcommands().filter(|below| !below.is_hide_set()) {
        count += write_all(below.clone(), folder)?;
    }
    let (name, text) = page(command);
    fs::write(folder.join(name), text)?;
    Ok(count)
}

/// A page: the name of its file, and its text.
fn page(command: Command) -> (String, String) {
    let mut after = command.get_after_help().map(ToString::to_string).unwrap_or_default();
    if command.get_name() != "leasehold" {
        after += "\n\nSee also:\nleasehold(1), which explains the exit statuses";
    }
    // Our own end follows, because examples and statuses must keep their lines.
    let source = concat!("leasehold ", env!("CARGO_PKG_VERSION"));
    let man = Man::new(command.after_help(Resettable::Reset)).manual("Leasehold").source(source);
    let name = man.get_filename();
    let mut text = Vec::new();
    // Writing to memory does not fail.
    let _ = man.render(&mut text).and_then(|()| ending(after.trim_start()).to_writer(&mut text));
    (name, String::from_utf8_lossy(&text).into_owned())
}

/// Each paragraph that begins with a line like `Examples:` is a section of its own.
fn ending(after: &str) -> Roff {
    let mut roff = Roff::new();
    for paragraph in after.split("\n\n") {
        let (first, rest) = paragraph.split_once('\n').unwrap_or((paragraph, ""));
        let lines = match first.strip_suffix(':') {
            Some(heading) => {
                roff.control("SH", [heading.to_uppercase().as_str()]);
                rest
            }
            None => paragraph,
        };
        roff.control("nf", []);
        for line in lines.lines() {
            roff.text([roman(line)]);
        }
        roff.control("fi", []);
    }
    roff
}
