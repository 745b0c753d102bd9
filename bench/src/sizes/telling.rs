//! A line on standard error that says how far a long measurement is. Measures nothing.

use std::io::{IsTerminal, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// Counts up to a whole, and says so now and then. Clones count together.
#[derive(Clone)]
pub struct Counted(Arc<Count>);

struct Count {
    doing: &'static str,
    whole: usize,
    what: &'static str,
    step: usize,
    done: AtomicUsize,
}

impl Counted {
    /// Begins at nothing.
    pub fn of(doing: &'static str, whole: usize, what: &'static str) -> Counted {
        let step = (whole / if std::io::stderr().is_terminal() { 100 } else { 4 }).max(1);
        Counted(Arc::new(Count { doing, whole, what, step, done: AtomicUsize::new(0) }))
    }

    /// So many more are done.
    pub fn add(&self, more: usize) {
        let Count { doing, whole, what, step, done } = &*self.0;
        let before = done.fetch_add(more, Relaxed);
        let now = before + more;
        if before / step != now / step || now == *whole {
            say(&format!("{doing} {now} of {whole} {what}"), now >= *whole);
        }
    }
}

/// Says where a measurement is; on a terminal the next line takes the place of this one, unless it is the last.
pub fn say(line: &str, last: bool) {
    let mut out = std::io::stderr().lock();
    // Nobody who does not read it is kept from the figures.
    let _ = match (out.is_terminal(), last) {
        (true, false) => write!(out, "\r\x1b[K  {line}"),
        (true, true) => writeln!(out, "\r\x1b[K  {line}"),
        (false, _) => writeln!(out, "  {line}"),
    };
}
