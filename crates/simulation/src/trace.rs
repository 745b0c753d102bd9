//! The story of a run as text: virtual time, who, what. Costs nothing when nobody listens, and decides nothing.

use std::fmt;

/// Lines of one run, in order.
#[derive(Debug, Default)]
pub struct Trace {
    text: Option<String>,
}

impl Trace {
    /// One that keeps what it is told, or none.
    pub fn new(on: bool) -> Trace {
        Trace { text: on.then(String::new) }
    }

    /// Tells one thing. The words are made only if somebody listens.
    pub fn tell(&mut self, now_us: u64, who: &str, what: impl FnOnce() -> String) {
        if let Some(text) = &mut self.text {
            let (seconds, micros) = (now_us / 1_000_000, now_us % 1_000_000);
            let line = Line { seconds, micros, who, what: what() };
            text.push_str(&line.to_string());
        }
    }

    /// Whether anybody listens.
    pub fn is_on(&self) -> bool {
        self.text.is_some()
    }

    /// Everything told.
    pub fn into_text(self) -> String {
        self.text.unwrap_or_default()
    }
}

struct Line<'a> {
    seconds: u64,
    micros: u64,
    who: &'a str,
    what: String,
}

impl fmt::Display for Line<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{:>5}.{:06}  {:<8} {}", self.seconds, self.micros, self.who, self.what)
    }
}
