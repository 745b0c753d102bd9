//! The first page of help: every command under what it is for. Takes each command's line from its own definition.

use std::fmt::Write;

use clap::Command;

use crate::status;

/// What commands are for, and which ones, in the order of the page.
const GROUPS: [(&str, &[&str]); 6] = [
    ("Run something under a lock", &["lock", "elect"]),
    (
        "Ask a server",
        &["acquire", "renew", "release", "cancel", "verify", "get", "ls", "watch", "break", "sessions"],
    ),
    ("Files that are written under a lock", &["append", "write", "cat", "files", "rm"]),
    ("Run a server", &["serve", "backup", "journal"]),
    ("Try it hard", &["load", "sim"]),
    ("This program", &["completions", "man", "help"]),
];

const EXAMPLES: &str = "\
Examples:
  leasehold serve                         start a server on this machine
  leasehold lock nightly -- ./backup.sh   a job that must not run twice at once
  leasehold ls                            who holds what, and for how long
  leasehold help COMMAND                  more about one of them";

/// The definition with its commands in groups.
pub fn grouped(definition: Command) -> Command {
    let mut built = definition.clone();
    built.build();
    let mut groups = String::new();
    for (title, commands) in GROUPS {
        if commands.iter().all(|name| built.find_subcommand(name).is_none()) {
            continue;
        }
        let _ = writeln!(groups, "\n\x1b[1;4m{title}:\x1b[0m");
        for command in commands.iter().filter_map(|name| built.find_subcommand(name)) {
            let about = command.get_about().map(ToString::to_string).unwrap_or_default();
            let _ = writeln!(groups, "  \x1b[1m{:<11}\x1b[0m  {about}", command.get_name());
        }
    }
    definition
        .help_template(format!(
            "{{about-with-newline}}\n{{usage-heading}} {{usage}}\n{groups}\n\x1b[1;4mOptions:\x1b[0m\n{{options}}{{after-help}}"
        ))
        .after_help(format!("{EXAMPLES}\n\n{}", status::HELP))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_has_its_place_and_says_what_it_does() {
        let mut definition = crate::definition();
        definition.build();
        let mut placed: Vec<&str> =
            GROUPS.iter().flat_map(|(_, commands)| commands.iter().copied()).collect();
        for command in definition.get_subcommands().filter(|command| !command.is_hide_set()) {
            let name = command.get_name();
            assert!(command.get_about().is_some(), "{name} does not say what it does");
            let at = placed.iter().position(|placed| *placed == name);
            placed.swap_remove(at.unwrap_or_else(|| panic!("{name} is in no group")));
        }
    }
}
