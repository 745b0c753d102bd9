//! Colour for people: only on a terminal, and only when nobody has said that they want none. Decides no words.

use std::ffi::OsStr;
use std::fmt::Display;
use std::io::{self, IsTerminal};

/// What something is shown as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tone {
    /// As everything else.
    Plain,
    /// What heads a column.
    Head,
    /// What matters less.
    Quiet,
    /// As it should be.
    Good,
    /// Worth a look.
    Notable,
    /// Gone, or going.
    Bad,
}

/// Gives tones to text, or does not.
#[derive(Clone, Copy, Debug)]
pub struct Paint {
    on: bool,
}

impl Paint {
    /// As standard output wants it.
    pub fn for_stdout() -> Paint {
        let variable = |name| std::env::var_os(name);
        Paint {
            on: wanted(
                io::stdout().is_terminal(),
                variable("NO_COLOR").as_deref(),
                variable("TERM").as_deref(),
            ),
        }
    }

    /// Nothing is painted.
    #[cfg(test)]
    pub fn none() -> Paint {
        Paint { on: false }
    }

    /// A lock's name, among other words.
    pub fn name(self, lock: &str) -> String {
        self.tone(Tone::Head, visible(lock))
    }

    /// The text in its tone.
    pub fn tone(self, tone: Tone, text: impl Display) -> String {
        let code = match tone {
            Tone::Plain => return text.to_string(),
            Tone::Head => "1",
            Tone::Quiet => "2",
            Tone::Good => "32",
            Tone::Notable => "33",
            Tone::Bad => "31",
        };
        if self.on { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_string() }
    }
}

/// Whether to paint. `NO_COLOR` counts when it is not empty (<https://no-color.org>).
fn wanted(terminal: bool, no_color: Option<&OsStr>, term: Option<&OsStr>) -> bool {
    terminal && no_color.is_none_or(OsStr::is_empty) && term.is_some_and(|term| term != "dumb")
}

/// The text, with everything in it that a terminal would act on made visible.
pub fn visible(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for char in text.chars() {
        match char.is_control() {
            true => shown.extend(char.escape_default()),
            false => shown.push(char),
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_terminal_that_wants_colour_gets_it() {
        let on = |terminal, no_color: Option<&str>, term: Option<&str>| {
            wanted(terminal, no_color.map(OsStr::new), term.map(OsStr::new))
        };
        assert!(on(true, None, Some("xterm")));
        assert!(on(true, Some(""), Some("xterm")));
        assert!(!on(false, None, Some("xterm")), "a pipe or a file");
        assert!(!on(true, Some("1"), Some("xterm")));
        assert!(!on(true, None, Some("dumb")));
        assert!(!on(true, None, None), "nobody knows what it would make of it");
        assert_eq!(Paint { on: true }.tone(Tone::Good, "free"), "\x1b[32mfree\x1b[0m");
        assert_eq!(Paint::none().tone(Tone::Good, "free"), "free");
    }

    #[test]
    fn what_a_terminal_would_act_on_is_shown_instead() {
        assert_eq!(visible("a\x1b[2Jb\nc"), "a\\u{1b}[2Jb\\nc");
        assert_eq!(visible("größer 鍵"), "größer 鍵");
    }
}
