//! The Prometheus text format, as far as it is needed: families with one help and one type line, and their samples.

use std::fmt::{Display, Write};

use leasehold_engine::HistogramReading;

/// A page of metrics being written.
#[derive(Debug, Default)]
pub struct Text(String);

impl Text {
    /// A number that goes up and down.
    pub fn gauge(&mut self, name: &str, help: &str, value: impl Display) {
        self.family(name, help, "gauge");
        self.sample(name, &[], value);
    }

    /// A number that only grows.
    pub fn counter(&mut self, name: &str, help: &str, value: impl Display) {
        self.family(name, help, "counter");
        self.sample(name, &[], value);
    }

    /// A family's help and type; its samples follow.
    pub fn family(&mut self, name: &str, help: &str, kind: &str) {
        self.line(format_args!("# HELP {name} {help}"));
        self.line(format_args!("# TYPE {name} {kind}"));
    }

    /// One sample. Label values are words of this program and need no escaping.
    pub fn sample(&mut self, name: &str, labels: &[(&str, &str)], value: impl Display) {
        let mut written = String::new();
        for (label, text) in labels {
            let comma = if written.is_empty() { "" } else { "," };
            let _ = write!(written, "{comma}{label}=\"{text}\"");
        }
        match written.is_empty() {
            true => self.line(format_args!("{name} {value}")),
            false => self.line(format_args!("{name}{{{written}}} {value}")),
        }
    }

    /// The samples of one histogram: cumulative buckets, sum and count.
    pub fn histogram(&mut self, name: &str, labels: &[(&str, &str)], reading: &HistogramReading) {
        let bucket = format!("{name}_bucket");
        let mut bucket_sample = |bound: &str, count: u64| {
            let labels: Vec<_> = labels.iter().copied().chain([("le", bound)]).collect();
            self.sample(&bucket, &labels, count);
        };
        for (bound, count) in &reading.buckets {
            bucket_sample(&bound.to_string(), *count);
        }
        bucket_sample("+Inf", reading.count);
        self.sample(&format!("{name}_sum"), labels, reading.sum);
        self.sample(&format!("{name}_count"), labels, reading.count);
    }

    /// The page.
    pub fn finish(self) -> String {
        self.0
    }

    fn line(&mut self, line: std::fmt::Arguments<'_>) {
        let _ = self.0.write_fmt(line);
        self.0.push('\n');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn histograms_end_with_everything() {
        let mut text = Text::default();
        let reading =
            HistogramReading { buckets: vec![(0.1, 2), (2.5, 3), (60000.0, 3)], count: 7, sum: 1.234 };
        text.histogram("lag_ms", &[("op", "get")], &reading);
        assert_eq!(
            text.finish(),
            "lag_ms_bucket{op=\"get\",le=\"0.1\"} 2\n\
             lag_ms_bucket{op=\"get\",le=\"2.5\"} 3\n\
             lag_ms_bucket{op=\"get\",le=\"60000\"} 3\n\
             lag_ms_bucket{op=\"get\",le=\"+Inf\"} 7\n\
             lag_ms_sum{op=\"get\"} 1.234\n\
             lag_ms_count{op=\"get\"} 7\n"
        );
    }
}
