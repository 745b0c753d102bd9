//! Histories as JSON lines: one operation a line, so that many processes can write and be killed at any moment.

use std::collections::HashMap;
use std::fmt;
use std::io::{self, BufRead, Write};

use crate::operation::Operation;

/// Operations, in the order in which they were invoked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct History {
    operations: Vec<Operation>,
}

/// A line that cannot be read.
#[derive(Debug)]
pub struct LineError {
    /// Which one, counted from 1.
    pub line: usize,
    /// What is wrong with it.
    pub problem: String,
}

impl fmt::Display for LineError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {} of the history: {}", self.line, self.problem)
    }
}

impl std::error::Error for LineError {}

impl History {
    /// Brings operations in order. Of two with one client and number the later in the list counts.
    pub fn new(operations: impl IntoIterator<Item = Operation>) -> History {
        let mut places: HashMap<(String, u64), usize> = HashMap::new();
        let mut all: Vec<Operation> = Vec::new();
        for operation in operations {
            match places.get(&(operation.client.clone(), operation.number)) {
                Some(place) => all[*place] = operation,
                None => {
                    places.insert((operation.client.clone(), operation.number), all.len());
                    all.push(operation);
                }
            }
        }
        all.sort_by(|a, b| (a.invoked_us, &a.client, a.number).cmp(&(b.invoked_us, &b.client, b.number)));
        History { operations: all }
    }

    /// Reads lines. A last line without its end is a writer that was killed, and is left out.
    pub fn read(mut lines: impl BufRead) -> Result<History, LineError> {
        let mut operations = Vec::new();
        let mut text = String::new();
        for line in 1.. {
            text.clear();
            let wrong = |problem: String| LineError { line, problem };
            let read = lines.read_line(&mut text).map_err(|error| wrong(error.to_string()))?;
            if read == 0 || !text.ends_with('\n') {
                break;
            }
            operations.push(parse(&text).map_err(wrong)?);
        }
        Ok(History::new(operations))
    }

    /// The operations.
    pub fn operations(&self) -> &[Operation] {
        &self.operations
    }

    /// This history and another of the same clock, as one.
    pub fn merged(self, other: History) -> History {
        History::new(self.operations.into_iter().chain(other.operations))
    }
}

fn parse(text: &str) -> Result<Operation, String> {
    let operation: Operation = serde_json::from_str(text).map_err(|error| error.to_string())?;
    if operation.answered_us.is_some_and(|at_us| at_us < operation.invoked_us) {
        return Err("an operation is answered after it was invoked".into());
    }
    Ok(operation)
}

/// Writes one operation as one line.
pub fn write_line(out: &mut impl Write, operation: &Operation) -> io::Result<()> {
    let mut line = serde_json::to_vec(operation)?;
    line.push(b'\n');
    // One call: who appends to one file with others must not be interrupted in the middle of a line.
    out.write_all(&line)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operation::{Kind, Outcome};

    fn acquire(client: &str, number: u64, invoked_us: u64) -> Operation {
        Operation::new(client, number, Kind::Acquire, "deploy", invoked_us)
    }

    #[test]
    fn the_later_line_of_an_operation_counts() {
        let begun = acquire("w", 1, 10);
        let mut ended = begun.clone();
        ended.token = Some(5);
        ended.answer(20, Outcome::Done);
        let mut text = Vec::new();
        for operation in [&begun, &acquire("v", 1, 5), &ended] {
            write_line(&mut text, operation).unwrap();
        }
        text.extend_from_slice(b"{\"client\":\"w\",\"num");
        let history = History::read(text.as_slice()).unwrap();
        assert_eq!(history.operations(), [acquire("v", 1, 5), ended]);
    }

    #[test]
    fn a_line_that_is_wrong_is_named() {
        let mut text = Vec::new();
        write_line(&mut text, &acquire("w", 1, 10)).unwrap();
        text.extend_from_slice(b"{}\n");
        assert_eq!(History::read(text.as_slice()).unwrap_err().line, 2);
        let mut back = acquire("w", 1, 10);
        back.answer(9, Outcome::Done);
        let mut text = Vec::new();
        write_line(&mut text, &back).unwrap();
        assert!(History::read(text.as_slice()).unwrap_err().to_string().contains("answered after"));
    }
}
