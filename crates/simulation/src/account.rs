//! What many seeds came to, as text: how much time was simulated, how much was checked, what went wrong on purpose, and what
//! failed. Runs nothing.

use std::collections::BTreeMap;
use std::fmt;

use crate::faults::{FaultKind, Tally};
use crate::invariants::Violation;

/// The sum of many runs.
#[derive(Debug, Default)]
pub struct Account {
    /// How many seeds were run.
    pub seeds: u64,
    /// What took effect in them.
    pub tally: Tally,
    /// Those that failed, and what they violated.
    pub failed: BTreeMap<u64, Violation>,
}

impl fmt::Display for Account {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Account { seeds, tally, failed } = self;
        writeln!(f, "{} seeds, {} failed", grouped(*seeds), failed.len())?;
        writeln!(
            f,
            "{} simulated, {} of it with sessions alive",
            span(tally.simulated_us),
            span(tally.live_us)
        )?;
        writeln!(
            f,
            "{} operations checked: {} grants, {} writes to files, {} updates of the register",
            grouped(tally.operations),
            grouped(tally.grants),
            grouped(tally.writes),
            grouped(tally.updates)
        )?;
        let list = |injected: bool| {
            let kinds = FaultKind::ALL.iter().filter(|kind| kind.is_injected() == injected);
            let counted = kinds.filter(|kind| tally.of(**kind) > 0);
            let words = counted.map(|kind| format!("{} {}", grouped(tally.of(*kind)), kind.text()));
            words.collect::<Vec<_>>().join(", ")
        };
        writeln!(f, "{} faults injected: {}", grouped(tally.faults()), list(true))?;
        write!(f, "met by them: {}", list(false))
    }
}

/// A number as people read it: 1,234,567.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A time as people read it, in the largest unit of which there are at least two.
pub fn span(us: u64) -> String {
    const UNITS: [(&str, u64); 4] = [("years", 31_557_600), ("days", 86_400), ("h", 3_600), ("min", 60)];
    let seconds = us / 1_000_000;
    match UNITS.iter().find(|(_, unit)| seconds >= 2 * unit) {
        Some((name, unit)) => {
            let tenths = u128::from(seconds) * 10 / u128::from(*unit);
            format!("{}.{} {name}", grouped(u64::try_from(tenths / 10).unwrap_or(u64::MAX)), tenths % 10)
        }
        None => format!("{seconds} s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_times_are_for_people() {
        assert_eq!(
            [grouped(0), grouped(999), grouped(1000), grouped(1_234_567)],
            ["0", "999", "1,000", "1,234,567"]
        );
        let seconds = |seconds: u64| span(seconds * 1_000_000);
        assert_eq!(seconds(119), "119 s");
        assert_eq!(seconds(150), "2.5 min");
        assert_eq!(seconds(3 * 86_400), "3.0 days");
        assert_eq!(seconds(1_000 * 31_557_600), "1,000.0 years");
    }

    #[test]
    fn an_account_names_what_took_effect() {
        let mut account = Account { seeds: 2, ..Account::default() };
        account.tally.count(FaultKind::Kill);
        let text = account.to_string();
        assert!(
            text.starts_with("2 seeds, 0 failed\n") && text.contains("1 faults injected: 1 kills\n"),
            "{text}"
        );
    }
}
