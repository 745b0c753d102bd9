//! What somebody heard, in a story's words.

use leasehold_state_machine::answer::{Answer, HolderView, LeaseView, Outcome, Refusal, WaiterView};
use leasehold_state_machine::event::CancelFound;
use leasehold_state_machine::limits::FILE_INODE_FIRST;

use super::line::duration_text;

/// Every token that was given out, so that a story can say `1st` and `2nd`.
#[derive(Default)]
pub struct Tokens(Vec<u64>);

impl Tokens {
    /// A token's place among all; new ones come last, because tokens only grow.
    pub fn text(&mut self, token: u64) -> String {
        if !self.0.contains(&token) {
            assert!(self.0.iter().all(|earlier| *earlier < token), "tokens only ever grow");
            self.0.push(token);
        }
        let place = self.0.iter().position(|known| *known == token).unwrap() + 1;
        let ending = match place {
            1 => "st",
            2 => "nd",
            3 => "rd",
            _ => "th",
        };
        format!("{place}{ending}")
    }
}

/// The word for an outcome, and everything that could be said about it.
pub fn heard(outcome: &Outcome, word_for_lease: &str, tokens: &mut Tokens) -> Vec<String> {
    match outcome {
        Ok(answer) => answered(answer, word_for_lease, tokens),
        Err(refusal) => refused(refusal, tokens),
    }
}

fn answered(answer: &Answer, word_for_lease: &str, tokens: &mut Tokens) -> Vec<String> {
    match answer {
        Answer::Lease(view) => lease(view, word_for_lease, tokens),
        Answer::Released { remaining_ms: Some(ms) } => say("done", [("left", duration_text(*ms))]),
        Answer::Released { remaining_ms: None } => vec!["done".into(), "already".into()],
        Answer::Cancelled(found) => {
            let found = match found {
                CancelFound::Waiting => "waiting",
                CancelFound::Released => "released",
                CancelFound::Unknown => "unknown",
            };
            vec!["found".into(), found.into()]
        }
        Answer::Valid { expires_in_ms } => say("valid", [("left", duration_text(*expires_in_ms))]),
        Answer::Snapshot(snapshot) => {
            let word = if snapshot.holders.is_empty() { "free" } else { "held" };
            say(word, crowd(&snapshot.holders, &snapshot.waiters))
        }
        Answer::Locks { locks, .. } => {
            let names: Vec<&str> = locks.iter().map(|row| row.resource.text()).collect();
            say("locks", [("are", list(&names))])
        }
        Answer::Broke { tokens: broken, free_in_ms } => {
            let broken: Vec<String> = broken.iter().map(|token| tokens.text(*token)).collect();
            let broken: Vec<&str> = broken.iter().map(String::as_str).collect();
            say("broke", [("tokens", list(&broken)), ("free_in", duration_text(*free_in_ms))])
        }
        Answer::Session(view) => {
            let ended: Vec<String> = view
                .ended
                .iter()
                .map(|end| format!("{}/{}/{}", end.resource, tokens.text(end.token), end.reason))
                .collect();
            let ended: Vec<&str> = ended.iter().map(String::as_str).collect();
            say(
                "alive",
                [
                    ("left", duration_text(view.expires_in_ms)),
                    ("ttl", duration_text(view.ttl.ms())),
                    ("renew_after", duration_text(view.renew_after_ms)),
                    ("stop_after", duration_text(view.stop_after_ms)),
                    ("ended", list(&ended)),
                ],
            )
        }
        Answer::Closed => vec!["closed".into()],
        Answer::Sessions { sessions, .. } => say("sessions", [("count", sessions.len().to_string())]),
        Answer::Wrote(written) => say(
            "wrote",
            [
                ("offset", written.offset.to_string()),
                ("length", written.length.to_string()),
                ("size", written.size.to_string()),
            ],
        ),
        Answer::Deleted => vec!["deleted".into()],
        Answer::File(view) => say(
            "file",
            [
                ("size", view.size.to_string()),
                ("inode", format!("file{}", view.number - FILE_INODE_FIRST + 1)),
                ("token", tokens.text(view.token)),
            ],
        ),
        Answer::Files { files, .. } => {
            let names: Vec<&str> = files.iter().map(|file| file.name.text()).collect();
            say("files", [("are", list(&names))])
        }
    }
}

fn lease(view: &LeaseView, word: &str, tokens: &mut Tokens) -> Vec<String> {
    say(
        word,
        [
            ("left", duration_text(view.expires_in_ms)),
            ("ttl", duration_text(view.ttl.ms())),
            ("renew_after", duration_text(view.renew_after_ms)),
            ("stop_after", duration_text(view.stop_after_ms)),
            ("token", tokens.text(view.token)),
        ],
    )
}

fn refused(refusal: &Refusal, tokens: &mut Tokens) -> Vec<String> {
    match refusal {
        Refusal::Invalid(invalid) => say("invalid", [("field", invalid.field.to_string())]),
        Refusal::NotFound(_) => vec!["not_found".into()],
        Refusal::Held(held) => say("held", crowd(&held.holders, &held.waiters)),
        Refusal::LeaseExpired => vec!["lease_expired".into()],
        Refusal::Released => vec!["released".into()],
        Refusal::StaleToken { highest_token: None } => vec!["stale_token".into(), "highest=none".into()],
        Refusal::StaleToken { highest_token: Some(token) } => {
            say("stale_token", [("highest", tokens.text(*token))])
        }
        Refusal::ScopeMismatch(_) => vec!["scope_mismatch".into()],
        Refusal::TooLarge { what, .. } => say("too_large", [("what", what.replace(' ', "_"))]),
        Refusal::Cancelled => vec!["cancelled".into()],
        Refusal::Busy { .. } => vec!["busy".into()],
        Refusal::Unavailable { .. } => vec!["unavailable".into()],
    }
}

/// Holders by token; whoever is broken has a `!`, and whoever is away stands in brackets.
fn crowd(holders: &[HolderView], waiters: &[WaiterView]) -> [(&'static str, String); 2] {
    let mut holders: Vec<&HolderView> = holders.iter().collect();
    holders.sort_by_key(|view| view.token);
    let by: Vec<String> =
        holders.iter().map(|view| format!("{}{}", view.owner, if view.broken { "!" } else { "" })).collect();
    let line: Vec<String> = waiters
        .iter()
        .map(|view| if view.attached { view.owner.to_string() } else { format!("({})", view.owner) })
        .collect();
    let by: Vec<&str> = by.iter().map(String::as_str).collect();
    let line: Vec<&str> = line.iter().map(String::as_str).collect();
    [("by", list(&by)), ("line", list(&line))]
}

fn list(parts: &[&str]) -> String {
    if parts.is_empty() { "nobody".into() } else { parts.join(",") }
}

fn say<const N: usize>(word: &str, values: [(&str, String); N]) -> Vec<String> {
    let values = values.into_iter().map(|(key, value)| format!("{key}={value}"));
    std::iter::once(word.to_string()).chain(values).collect()
}
