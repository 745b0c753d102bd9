//! What is wrong with an argument: which field, and what it should have been. Nothing is ever silently repaired.

use alloc::borrow::Cow;
use core::fmt;

/// A malformed argument; becomes `invalid_argument` at the door.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Invalid {
    /// The field as it is called on the wire.
    pub field: Cow<'static, str>,
    /// What is wrong with it and what would be right.
    pub problem: Cow<'static, str>,
}

impl Invalid {
    /// An argument `field` that is wrong for the reason `problem`.
    pub fn new(field: impl Into<Cow<'static, str>>, problem: impl Into<Cow<'static, str>>) -> Self {
        Invalid { field: field.into(), problem: problem.into() }
    }
}

impl fmt::Display for Invalid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.field, self.problem)
    }
}

impl core::error::Error for Invalid {}
