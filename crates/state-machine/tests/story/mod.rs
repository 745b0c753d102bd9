//! Reads and plays stories.

pub mod line;
pub mod stage;
pub mod words;
