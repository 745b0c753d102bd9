//! A rule that a history does not keep, in a sentence that names the operations.

use std::fmt;

use crate::operation::Operation;

/// What is wrong with a history.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The rule.
    pub rule: &'static str,
    /// What was seen, with every operation that it takes to see it.
    pub sentence: String,
}

impl Violation {
    /// Says what is wrong, then names the operations.
    pub(crate) fn new<'a>(
        rule: &'static str,
        what: impl fmt::Display,
        operations: impl IntoIterator<Item = &'a Operation>,
    ) -> Violation {
        let named: Vec<String> = operations.into_iter().map(ToString::to_string).collect();
        Violation { rule, sentence: format!("{what}: {}", named.join(" | ")) }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.rule, self.sentence)
    }
}
