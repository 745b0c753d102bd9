//! What a crew wrote down is judged by the checks of `crates/history`; and what is in the files at the end is compared with
//! what was acknowledged.

use std::collections::HashSet;
use std::fs::File;
use std::io::BufWriter;

use leasehold_history::{History, Kind, Operation, Outcome, Settings, check, write_line};

use super::crew::{BOOKS, book, read_book};
use crate::client::Client;
use crate::lock::stage::now_us;

/// What a history came to.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tally {
    pub operations: u64,
    pub open_ended: u64,
    pub grants: u64,
    pub writes: u64,
    pub token_max: u64,
}

/// Judges what a crew of this word did, with a server that is well again.
pub fn judge(word: &str, mut operations: Vec<Operation>, client: &mut Client) -> Tally {
    for n in 0..BOOKS {
        let name = book(word, n);
        let mut read = Operation::new("judge", n, Kind::Read, &name, now_us());
        let list = read_book(client, &name).unwrap();
        let there: HashSet<&str> = list.iter().map(String::as_str).collect();
        assert_eq!(there.len(), list.len(), "something is in {name} twice");
        for op in operations.iter().filter(|op| op.kind == Kind::Append && op.lock == name) {
            let value = op.value.as_deref().unwrap();
            assert!(op.outcome != Outcome::Done || there.contains(value), "lost from {name}: {op}");
        }
        read.list = Some(list);
        read.answer(now_us(), Outcome::Done);
        operations.push(read);
    }
    let token_max = operations.iter().filter_map(|op| op.token).max().unwrap_or(0);
    let history = History::new(operations);
    let report = check(&history, &Settings::default());
    if !report.is_clean() {
        let path =
            std::env::temp_dir().join(format!("leasehold-history-{word}-{}.jsonl", std::process::id()));
        let mut out = BufWriter::new(File::create(&path).unwrap());
        history.operations().iter().for_each(|op| write_line(&mut out, op).unwrap());
        panic!("{} has a history that cannot be: {report}", path.display());
    }
    Tally {
        operations: report.operations as u64,
        open_ended: report.open_ended as u64,
        grants: report.grants as u64,
        writes: report.writes as u64,
        token_max,
    }
}

impl Tally {
    /// Both together.
    pub fn and(self, other: Tally) -> Tally {
        assert!(other.token_max > self.token_max, "tokens went back from one crew to the next");
        Tally {
            operations: self.operations + other.operations,
            open_ended: self.open_ended + other.open_ended,
            grants: self.grants + other.grants,
            writes: self.writes + other.writes,
            token_max: other.token_max,
        }
    }
}
