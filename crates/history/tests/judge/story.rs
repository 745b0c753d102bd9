//! Histories as text, one operation a line: `w1 acquire deploy 10..20 done token=1 ttl=100`. `10..` is never answered. Numbers
//! count a client's lines from 1, so that a refusal can be compared with the story.

use leasehold_history::{History, Kind, Mode, Operation, Outcome, Report, Settings, check};
use std::collections::HashMap;

pub fn history(story: &str) -> History {
    let mut numbers: HashMap<&str, u64> = HashMap::new();
    let lines = story.lines().map(str::trim).filter(|line| !line.is_empty());
    History::new(lines.map(|line| {
        let number = numbers.entry(line.split(' ').next().unwrap()).or_default();
        *number += 1;
        operation(line, *number)
    }))
}

pub fn judged(story: &str) -> Report {
    check(&history(story), &Settings::default())
}

fn operation(line: &str, number: u64) -> Operation {
    let mut words = line.split(' ');
    let mut word = || words.next().unwrap_or_else(|| panic!("{line}"));
    let client = word();
    let kind = match word() {
        "acquire" => Kind::Acquire,
        "renew" => Kind::Renew,
        "release" => Kind::Release,
        "cancel" => Kind::Cancel,
        "break" => Kind::Break,
        "ended" => Kind::Ended,
        "append" => Kind::Append,
        "write" => Kind::Write,
        "read" => Kind::Read,
        other => panic!("{other}: {line}"),
    };
    let lock = word();
    let (invoked_us, answered_us) = word().split_once("..").unwrap();
    let mut op = Operation::new(client, number, kind, lock, invoked_us.parse().unwrap());
    let outcome = match word() {
        "done" => Outcome::Done,
        "refused" => Outcome::Refused,
        "lost" => Outcome::Lost,
        "unknown" => Outcome::Unknown,
        other => panic!("{other}: {line}"),
    };
    if !answered_us.is_empty() {
        op.answer(answered_us.parse().unwrap(), outcome);
    }
    for word in words {
        let (name, value) = word.split_once('=').unwrap_or((word, ""));
        let number = || Some(value.parse().unwrap_or_else(|_| panic!("{word}: {line}")));
        match name {
            "shared" => op.mode = Mode::Shared,
            "token" => op.token = number(),
            "ttl" => op.ttl_us = number(),
            "wait" => op.wait_us = number(),
            "until" => op.until_us = number(),
            "queued" => op.queued_us = number(),
            "id" => op.request_id = Some(value.into()),
            "lease" => op.lease = Some(value.into()),
            "value" => op.value = Some(value.into()),
            "list" => op.list = Some(value.split(',').filter(|v| !v.is_empty()).map(String::from).collect()),
            other => panic!("{other}: {line}"),
        }
    }
    op
}
