//! What is said on the wire, and nothing of who says it or how it travels: texts to commands, answers to texts.

pub mod body;
pub mod commands;
pub mod event_line;
pub mod fields;
pub mod file_commands;
pub mod file_forms;
pub mod forms;
pub mod json;
pub mod percent;
pub mod problem;
pub mod query;
pub mod shapes;

use crate::limits::ECHO_CHARS_MAX;

/// The beginning of what somebody sent, for an error that has to name it.
fn echo(text: &str) -> String {
    text.chars().take(ECHO_CHARS_MAX).collect()
}
