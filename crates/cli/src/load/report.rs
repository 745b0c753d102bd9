//! What a run came to: figures, a histogram drawn with bars for people, one JSON object for programs. Measures nothing.

use std::fmt::Write;
use std::time::Duration;

use super::histogram::Histogram;
use crate::duration;
use crate::paint::{Paint, Tone, visible};

/// The longest bar of the histogram, in characters.
const BAR: u64 = 40;

/// A finished run.
#[derive(Debug)]
pub struct Report {
    /// What was done, in a line.
    pub heading: String,
    /// How long it took.
    pub took: Duration,
    /// What was done over and over: cycles of taking a lock and giving it back, or appends.
    pub done: &'static str,
    /// What was timed of each.
    pub timed: &'static str,
    /// How long it took, of each that was completed.
    pub latency: Histogram,
    /// What there is to say about appends, if that is what was done.
    pub files: Option<Files>,
    /// How clients fared in line, if they all wanted one lock.
    pub contended: Option<Contended>,
    /// Calls that failed.
    pub errors: u64,
    /// The first of them.
    pub first_error: Option<String>,
    /// How often exclusion or the order of tokens was violated.
    pub violations: u64,
    /// Cycles that were complete at these times.
    pub samples: Vec<Sample>,
}

/// What there is to say about appends to files.
#[derive(Debug)]
pub struct Files {
    /// Of each append.
    pub bytes: usize,
    /// How many syncs the server made for each write to a file, if it could be asked.
    pub syncs_per_append: Option<f64>,
    /// Acknowledged appends that were found where they belong when the files were read back.
    pub read_back: u64,
}

/// What there is to say about one lock that all want.
#[derive(Debug)]
pub struct Contended {
    /// How often it went from one client to another.
    pub holder_changes: u64,
    /// From asking to holding.
    pub wait: Histogram,
}

/// How many cycles were complete at a time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sample {
    pub after: Duration,
    pub cycles: u64,
}

impl Report {
    /// This many in the time that the run took, for each second of it.
    fn per_second(&self, count: u64) -> f64 {
        count as f64 / self.took.as_secs_f64().max(f64::MIN_POSITIVE)
    }

    /// Completed cycles for each second.
    pub fn cycles_per_second(&self) -> f64 {
        self.per_second(self.latency.count())
    }

    /// For programs: one object on one line.
    pub fn json(&self) -> String {
        let (done, quantile) = (self.done, |part| self.latency.quantile_us(part));
        let mut text = format!(
            "{{\"{done}\":{},\"seconds\":{:.3},\"{done}_per_second\":{:.1},\"latency_us\":{{\"p50\":{},\"p90\":{},\
             \"p99\":{},\"p999\":{},\"max\":{}}},\"errors\":{},\"violations\":{}",
            self.latency.count(),
            self.took.as_secs_f64(),
            self.cycles_per_second(),
            quantile(0.5),
            quantile(0.9),
            quantile(0.99),
            quantile(0.999),
            self.latency.max_us(),
            self.errors,
            self.violations,
        );
        if let Some(files) = &self.files {
            let _ = write!(text, ",\"bytes_per_append\":{},\"read_back\":{}", files.bytes, files.read_back);
            if let Some(syncs) = files.syncs_per_append {
                let _ = write!(text, ",\"syncs_per_append\":{syncs:.4}");
            }
        }
        if let Some(Contended { holder_changes, wait }) = &self.contended {
            let _ = write!(
                text,
                ",\"holder_changes_per_second\":{:.1},\"wait_us\":{{\"median\":{},\"longest\":{}}}",
                self.per_second(*holder_changes),
                wait.quantile_us(0.5),
                wait.max_us(),
            );
        }
        text + "}\n"
    }

    /// For people.
    pub fn text(&self, paint: Paint) -> String {
        let mut text = format!("{}\n\n", paint.tone(Tone::Head, &self.heading));
        let mut row = |name: &str, tone, value: String| {
            let _ = writeln!(text, "{name:<12} {}", paint.tone(tone, value));
        };
        let cycles = self.latency.count();
        row(
            self.done,
            Tone::Plain,
            format!(
                "{} in {}: {} a second",
                grouped(cycles),
                duration::show(self.took),
                grouped(self.cycles_per_second().round() as u64)
            ),
        );
        if cycles > 0 {
            let quantile = |part| show_us(self.latency.quantile_us(part));
            row(
                "latency",
                Tone::Plain,
                format!(
                    "p50 {}, p90 {}, p99 {}, p99.9 {}, longest {}",
                    quantile(0.5),
                    quantile(0.9),
                    quantile(0.99),
                    quantile(0.999),
                    show_us(self.latency.max_us())
                ),
            );
        }
        if let Some(files) = &self.files {
            let syncs = files.syncs_per_append.map_or_else(
                || "not known: the server did not tell what it counted all the time".to_owned(),
                |syncs| format!("{syncs:.2} for each append, by the server's count"),
            );
            row("syncs", Tone::Plain, syncs);
            row("read back", Tone::Plain, format!("{} acknowledged appends", grouped(files.read_back)));
        }
        if let Some(Contended { holder_changes, wait }) = &self.contended {
            let changes = grouped(self.per_second(*holder_changes).round() as u64);
            row("hand-overs", Tone::Plain, format!("{changes} a second"));
            let (median, longest) = (show_us(wait.quantile_us(0.5)), show_us(wait.max_us()));
            row("waits", Tone::Plain, format!("median {median}, longest {longest}"));
        }
        let errors = match &self.first_error {
            None => "none".to_owned(),
            Some(first) => format!("{}; the first: {}", grouped(self.errors), visible(first)),
        };
        row("errors", if self.errors == 0 { Tone::Plain } else { Tone::Notable }, errors);
        let (violations, tone) = match self.violations {
            0 if self.files.is_some() => (
                "none: files held what was acknowledged, in its order, and nothing else".to_owned(),
                Tone::Good,
            ),
            0 => ("none: one holder at a time, and tokens grew".to_owned(), Tone::Good),
            count => (grouped(count), Tone::Bad),
        };
        row("violations", tone, violations);
        if cycles > 0 {
            let _ = write!(text, "\nlatency of {}\n{}", self.timed, bars(&self.latency, paint));
        }
        text
    }
}

/// A bar for each step of the series 1, 2, 5, 10…, from the shortest time to the longest.
fn bars(histogram: &Histogram, paint: Paint) -> String {
    let mut rows: Vec<(u64, u64, u64)> = Vec::new();
    for bucket in histogram.buckets() {
        let (from_us, to_us) = step_of(bucket.from_us);
        // Steps that nobody met are shown where they lie between others.
        while let Some((_, end_us, _)) = rows.last().copied()
            && end_us <= from_us
        {
            let (from_us, to_us) = step_of(end_us);
            rows.push((from_us, to_us, 0));
        }
        match rows.last_mut() {
            Some((_, _, count)) => *count += bucket.count,
            None => rows.push((from_us, to_us, bucket.count)),
        }
    }
    let most = rows.iter().map(|(.., count)| *count).max().unwrap_or(0).max(1);
    let mut text = String::new();
    for (from_us, to_us, count) in rows {
        // Whoever was there is seen, however few.
        let length = (count * BAR).div_ceil(most);
        let bar = "█".repeat(usize::try_from(length).unwrap_or(0));
        let gap = " ".repeat(usize::try_from(BAR - length).unwrap_or(0));
        let percent = count as f64 * 100.0 / histogram.count().max(1) as f64;
        let _ = writeln!(
            text,
            "{:>7} – {:<7} {}{gap} {percent:>5.1} %  {}",
            show_us(from_us),
            show_us(to_us),
            paint.tone(Tone::Good, bar),
            grouped(count)
        );
    }
    text
}

/// The step of the series 0, 1, 2, 5, 10, 20, 50… that a time lies in.
fn step_of(us: u64) -> (u64, u64) {
    let mut from_us = 0;
    let mut decade_us = 1;
    loop {
        for factor in [1, 2, 5] {
            let next_us = decade_us * factor;
            if us < next_us {
                return (from_us, next_us);
            }
            from_us = next_us;
        }
        decade_us *= 10;
    }
}

/// A time in the unit that suits it.
pub fn show_us(us: u64) -> String {
    let in_unit = |unit_us: u64, unit: &str| {
        let (whole, tenths) = (us / unit_us, us % unit_us * 10 / unit_us);
        if whole < 10 && tenths > 0 { format!("{whole}.{tenths} {unit}") } else { format!("{whole} {unit}") }
    };
    match us {
        0..1_000 => format!("{us} µs"),
        1_000..1_000_000 => in_unit(1_000, "ms"),
        _ => in_unit(1_000_000, "s"),
    }
}

/// A number with its thousands apart.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() * 4 / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    pub fn report() -> Report {
        let mut latency = Histogram::default();
        [90, 150, 1_500, 1_600, 7_000].into_iter().for_each(|us| latency.record(us));
        Report {
            heading: "2 clients".into(),
            took: Duration::from_millis(2_500),
            done: "cycles",
            timed: "acquire and release together",
            latency,
            files: None,
            contended: None,
            errors: 0,
            first_error: None,
            violations: 0,
            samples: Vec::new(),
        }
    }

    #[test]
    fn programs_get_exactly_these_members() {
        let mut report = report();
        assert_eq!(
            report.json(),
            "{\"cycles\":5,\"seconds\":2.500,\"cycles_per_second\":2.0,\"latency_us\":{\"p50\":1503,\"p90\":7000,\
             \"p99\":7000,\"p999\":7000,\"max\":7000},\"errors\":0,\"violations\":0}\n"
        );
        let mut wait = Histogram::default();
        wait.record(40);
        report.contended = Some(Contended { holder_changes: 5, wait });
        let told: serde_json::Value = serde_json::from_str(&report.json()).unwrap();
        assert_eq!(told["holder_changes_per_second"], 2.0);
        assert_eq!(told["wait_us"], serde_json::json!({"median": 40, "longest": 40}));
    }

    #[test]
    fn appends_are_told_with_syncs_and_what_was_read_back() {
        let files = Some(Files { bytes: 1024, syncs_per_append: Some(0.375), read_back: 5 });
        let mut report = Report { done: "appends", timed: "an append", files, ..report() };
        let told: serde_json::Value = serde_json::from_str(&report.json()).unwrap();
        assert_eq!((&told["appends"], &told["appends_per_second"]), (&5.into(), &2.0.into()));
        assert_eq!((&told["bytes_per_append"], &told["read_back"]), (&1024.into(), &5.into()));
        assert_eq!(told["syncs_per_append"], 0.375);
        let text = report.text(Paint::none());
        for part in
            ["appends      5 in", "syncs        0.38 for", "read back    5 ack", "latency of an append"]
        {
            assert!(text.contains(part), "{part:?} is not in\n{text}");
        }
        report.files = Some(Files { bytes: 1024, syncs_per_append: None, read_back: 0 });
        assert!(!report.json().contains("syncs"));
        assert!(report.text(Paint::none()).contains("syncs        not known"));
    }

    #[test]
    fn people_get_figures_and_bars() {
        let mut report = report();
        report.errors = 1_234_567;
        report.first_error = Some("it broke".into());
        let text = report.text(Paint::none());
        for part in
            ["5 in 2.5s: 2 a second", "p50 1.5 ms", "1,234,567; the first: it broke", "none: one holder"]
        {
            assert!(text.contains(part), "{part:?} is not in\n{text}");
        }
        let rows: Vec<&str> = text.lines().filter(|line| line.contains('–')).collect();
        assert_eq!(rows.len(), 7, "from 50 µs to 10 ms without a gap\n{text}");
        assert!(rows[0].contains("50 µs – 100 µs") && rows[6].contains("5 ms – 10 ms"), "{text}");
        assert!(rows[4].matches('█').count() == 40 && rows[2].matches('█').count() == 0, "{text}");
    }

    #[test]
    fn times_and_numbers_are_shown_as_people_read_them() {
        let shown = [0, 999, 1_000, 1_250, 12_500, 999_999, 1_000_000, 61_000_000].map(show_us);
        assert_eq!(shown, ["0 µs", "999 µs", "1 ms", "1.2 ms", "12 ms", "999 ms", "1 s", "61 s"]);
        assert_eq!([0, 999, 1_000, 1_234_567].map(grouped), ["0", "999", "1,000", "1,234,567"]);
        assert_eq!(
            [0, 1, 3, 7, 99, 100].map(step_of),
            [(0, 1), (1, 2), (2, 5), (5, 10), (50, 100), (100, 200)]
        );
    }
}
