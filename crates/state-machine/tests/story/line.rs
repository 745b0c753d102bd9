//! One line of a story: when, what is done with which words, and what is heard.

use std::collections::BTreeMap;

/// A line of a file.
#[derive(Debug)]
pub enum Line {
    /// A comment, or nothing.
    Empty,
    /// `---- what it is about`: a new server, a new story.
    Scene,
    Step(Step),
}

/// `at TIME COMMAND WORD… KEY=VALUE… -> HEARD; HEARD`
#[derive(Debug)]
pub struct Step {
    pub at_us: u64,
    pub command: String,
    pub words: Vec<String>,
    pub values: BTreeMap<String, String>,
    pub heard: Vec<Vec<String>>,
}

impl Step {
    pub fn value(&self, key: &str) -> Option<&str> {
        self.values.get(key).map(String::as_str)
    }

    pub fn need(&self, key: &str) -> Result<&str, String> {
        self.value(key).ok_or_else(|| format!("  `{}` needs {key}=", self.command))
    }

    pub fn flag(&self, word: &str) -> bool {
        self.words.iter().any(|other| other == word)
    }

    pub fn word(&self, index: usize) -> Result<&str, String> {
        self.words.get(index).map(String::as_str).ok_or_else(|| format!("  `{}` lacks a word", self.command))
    }
}

pub fn parse(raw: &str) -> Result<Line, String> {
    let text = raw.split('#').next().unwrap_or_default().trim();
    if text.is_empty() {
        return Ok(Line::Empty);
    }
    if text.starts_with("----") {
        return Ok(Line::Scene);
    }
    let (done, heard) = match text.split_once("->") {
        Some((done, heard)) => (done, heard.split(';').map(words).collect()),
        None => (text, Vec::new()),
    };
    let mut parts = words(done).into_iter();
    if parts.next().as_deref() != Some("at") {
        return Err("a line begins with `at`".into());
    }
    let at_us = duration_us(&parts.next().ok_or("when?")?)?;
    let command = parts.next().ok_or("what?")?;
    let (values, words): (Vec<String>, Vec<String>) = parts.partition(|part| part.contains('='));
    let values = values.iter().filter_map(|part| part.split_once('='));
    let values = values.map(|(key, value)| (key.to_string(), value.to_string())).collect();
    Ok(Line::Step(Step { at_us, command, words, values, heard }))
}

fn words(text: &str) -> Vec<String> {
    text.split_whitespace().map(String::from).collect()
}

/// `10s`, `1.5s`, `250ms`, `3us`, `2m`, `1h`
pub fn duration_us(text: &str) -> Result<u64, String> {
    let digits = text.find(|c: char| c.is_alphabetic()).ok_or("a duration has a unit, such as 10s")?;
    let unit_us = match &text[digits..] {
        "h" => 3_600_000_000.0,
        "m" => 60_000_000.0,
        "s" => 1_000_000.0,
        "ms" => 1_000.0,
        "us" => 1.0,
        unit => return Err(format!("{unit} is no unit of time")),
    };
    let number: f64 = text[..digits].parse().map_err(|_| format!("{text} is no duration"))?;
    Ok((number * unit_us).round() as u64)
}

/// As a person would write it.
pub fn duration_text(ms: u64) -> String {
    if ms.is_multiple_of(1000) { format!("{}s", ms / 1000) } else { format!("{ms}ms") }
}
