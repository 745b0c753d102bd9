//! The run as a picture: cycles over time, and how long they took. Writes SVG by hand, with nothing in it that is loaded from
//! elsewhere.

use std::fmt::Write;

use super::report::{Report, grouped, show_us};

const WIDTH: f64 = 860.0;
const HEIGHT: f64 = 560.0;
/// The inner edges of both panels.
const LEFT: f64 = 80.0;
const RIGHT: f64 = WIDTH - 30.0;
const RATE_TOP: f64 = 80.0;
const RATE_BOTTOM: f64 = 250.0;
const TIMES_TOP: f64 = 340.0;
const TIMES_BOTTOM: f64 = 510.0;
/// Bars for each doubling of the time.
const BARS: f64 = 4.0;

/// Where values lie between two edges.
#[derive(Clone, Copy)]
struct Axis {
    from: f64,
    to: f64,
    most: f64,
}

impl Axis {
    fn at(self, value: f64) -> f64 {
        self.from + (self.to - self.from) * (value / self.most.max(f64::MIN_POSITIVE)).clamp(0.0, 1.0)
    }
}

/// The picture.
pub fn svg(report: &Report) -> String {
    let mut text = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{HEIGHT}\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" \
         font-family=\"sans-serif\" font-size=\"12\" fill=\"#333\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n"
    );
    label(&mut text, (LEFT, 30.0), "start", 16, &report.heading);
    let summary = format!(
        "{} {}, {} a second; p50 {}, p99 {}, longest {}; {} errors, {} violations",
        grouped(report.latency.count()),
        report.done,
        grouped(report.cycles_per_second().round() as u64),
        show_us(report.latency.quantile_us(0.5)),
        show_us(report.latency.quantile_us(0.99)),
        show_us(report.latency.max_us()),
        grouped(report.errors),
        grouped(report.violations),
    );
    label(&mut text, (LEFT, 50.0), "start", 12, &summary);
    rates(&mut text, report);
    times(&mut text, report);
    text + "</svg>\n"
}

/// How many a second, over the time of the run.
fn rates(text: &mut String, report: &Report) {
    let steps: Vec<(f64, f64)> = report
        .samples
        .windows(2)
        .map(|pair| {
            let (from, to) = (pair[0].after.as_secs_f64(), pair[1].after.as_secs_f64());
            (to, (pair[1].cycles - pair[0].cycles) as f64 / (to - from).max(f64::MIN_POSITIVE))
        })
        .collect();
    let end = steps.last().map_or(0.0, |(at, _)| *at);
    let most = round_up(steps.iter().map(|(_, rate)| *rate).fold(0.0, f64::max));
    let (x, y) = (Axis { from: LEFT, to: RIGHT, most: end }, Axis { from: RATE_BOTTOM, to: RATE_TOP, most });
    label(text, (LEFT, RATE_TOP - 10.0), "start", 12, &format!("{} a second, over seconds", report.done));
    for part in [0.0, 0.25, 0.5, 0.75, 1.0] {
        let value = most * part;
        line(text, (LEFT, y.at(value)), (RIGHT, y.at(value)), "#ddd");
        label(text, (LEFT - 8.0, y.at(value) + 4.0), "end", 12, &grouped(value.round() as u64));
        label(text, (x.at(end * part), RATE_BOTTOM + 18.0), "middle", 12, &format!("{:.1}", end * part));
    }
    let mut points = String::new();
    for (at, rate) in steps {
        let _ = write!(points, "{:.1},{:.1} ", x.at(at), y.at(rate));
    }
    let _ = writeln!(
        text,
        "<polyline points=\"{}\" fill=\"none\" stroke=\"#2166ac\" stroke-width=\"1.5\"/>",
        points.trim_end()
    );
}

/// How many took how long; times grow by doubling.
fn times(text: &mut String, report: &Report) {
    let (latency, what) = (&report.latency, format!("{} by the time of {}", report.done, report.timed));
    label(text, (LEFT, TIMES_TOP - 10.0), "start", 12, &what);
    // The buckets of the histogram, gathered into bars of equal width on a scale of doublings.
    let bar_of = |us: u64| ((us.max(1) as f64).log2() * BARS).floor() as i64;
    let mut bars: Vec<(i64, u64)> = Vec::new();
    for bucket in latency.buckets() {
        let bar = bar_of(bucket.from_us);
        match bars.last_mut() {
            Some((last, count)) if *last == bar => *count += bucket.count,
            _ => bars.push((bar, bucket.count)),
        }
    }
    let (Some((first, _)), Some((last, _))) = (bars.first().copied(), bars.last().copied()) else { return };
    let most = bars.iter().map(|(_, count)| *count).max().unwrap_or(0) as f64;
    let x = Axis { from: LEFT, to: RIGHT, most: (last + 1 - first) as f64 };
    let y = Axis { from: TIMES_BOTTOM, to: TIMES_TOP, most };
    for part in [0.0, 0.5, 1.0] {
        line(text, (LEFT, y.at(most * part)), (RIGHT, y.at(most * part)), "#ddd");
        let count = grouped((most * part).round() as u64);
        label(text, (LEFT - 8.0, y.at(most * part) + 4.0), "end", 12, &count);
    }
    let width = (x.at(1.0) - x.at(0.0)).max(1.0);
    for (bar, count) in bars {
        let top = y.at(count as f64);
        let _ = writeln!(
            text,
            "<rect x=\"{:.1}\" y=\"{top:.1}\" width=\"{:.1}\" height=\"{:.1}\" fill=\"#67a9cf\"/>",
            x.at((bar - first) as f64),
            (width - 1.0).max(0.5),
            TIMES_BOTTOM - top
        );
    }
    let place = |us: u64| (us.max(1) as f64).log2() * BARS - first as f64;
    for us in round_times().filter(|us| (0.0..=x.most).contains(&place(*us))) {
        label(text, (x.at(place(us)), TIMES_BOTTOM + 18.0), "middle", 12, &show_us(us));
    }
    for (part, name, below) in [(0.5, "p50", 12.0), (0.99, "p99", 26.0)] {
        let at = x.at(place(latency.quantile_us(part)));
        line(text, (at, TIMES_TOP), (at, TIMES_BOTTOM), "#b2182b");
        let (at, anchor) = if at < RIGHT - 40.0 { (at + 4.0, "start") } else { (at - 4.0, "end") };
        label(text, (at, TIMES_TOP + below), anchor, 12, name);
    }
}

/// 1, 2, 5, 10 µs and so on, up to an hour.
fn round_times() -> impl Iterator<Item = u64> {
    (0..10).flat_map(|decade| [1, 2, 5].map(|factor| factor * 10u64.pow(decade)))
}

/// The next of 1, 2, 5, 10, 20, 50… that is not smaller.
fn round_up(value: f64) -> f64 {
    let decade = 10f64.powf(value.max(1.0).log10().floor());
    [1.0, 2.0, 5.0]
        .map(|factor| factor * decade)
        .into_iter()
        .find(|step| *step >= value)
        .unwrap_or(10.0 * decade)
}

fn line(text: &mut String, (x1, y1): (f64, f64), (x2, y2): (f64, f64), colour: &str) {
    let _ = writeln!(
        text,
        "<line x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\" stroke=\"{colour}\"/>"
    );
}

fn label(text: &mut String, (x, y): (f64, f64), anchor: &str, size: u32, words: &str) {
    let words = words.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    let _ = writeln!(
        text,
        "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\" font-size=\"{size}\">{words}</text>"
    );
}

#[cfg(test)]
mod tests {
    use super::super::histogram::Histogram;
    use super::super::report::Sample;
    use super::*;
    use std::time::Duration;

    fn report(latencies_us: &[u64], samples: &[(u64, u64)]) -> Report {
        let mut latency = Histogram::default();
        latencies_us.iter().for_each(|us| latency.record(*us));
        let sample =
            |(ms, cycles): &(u64, u64)| Sample { after: Duration::from_millis(*ms), cycles: *cycles };
        Report {
            heading: "2 clients & more".into(),
            took: Duration::from_secs(2),
            done: "cycles",
            timed: "acquire and release together",
            latency,
            files: None,
            contended: None,
            errors: 0,
            first_error: None,
            violations: 0,
            samples: samples.iter().map(sample).collect(),
        }
    }

    /// Whether every tag is closed, and every number lies on the picture.
    fn assert_sound(svg: &str) {
        let mut open = Vec::new();
        for tag in svg.split('<').skip(1) {
            let (tag, _) = tag.split_once('>').unwrap();
            let name = tag.split([' ', '/']).find(|part| !part.is_empty()).unwrap();
            match (tag.starts_with('/'), tag.ends_with('/')) {
                (true, _) => assert_eq!(open.pop(), Some(name)),
                (false, true) => {}
                (false, false) => open.push(name),
            }
        }
        assert!(open.is_empty(), "{open:?}");
        assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
        for (name, most) in [("x", WIDTH), ("y", HEIGHT), ("x1", WIDTH), ("y2", HEIGHT)] {
            for at in svg.split(&format!(" {name}=\"")).skip(1) {
                let value: f64 = at.split('"').next().unwrap().parse().unwrap();
                assert!((0.0..=most).contains(&value), "{name}={value}");
            }
        }
    }

    #[test]
    fn shows_the_rate_and_the_times() {
        let picture = svg(&report(&[100, 100, 200, 5_000], &[(0, 0), (1_000, 500), (2_000, 1_500)]));
        assert_sound(&picture);
        assert!(picture.contains("2 clients &amp; more"));
        let points = picture.split("points=\"").nth(1).unwrap().split('"').next().unwrap();
        assert_eq!(points, "455.0,165.0 830.0,80.0", "500, then 1,000 a second, which is the top");
        assert!(picture.contains("fill=\"#67a9cf\"") && picture.contains(">p99</text>"));
    }

    #[test]
    fn a_run_in_which_nothing_happened_can_be_drawn() {
        assert_sound(&svg(&report(&[], &[])));
        assert_sound(&svg(&report(&[0], &[(0, 0), (0, 0)])));
    }

    #[test]
    fn scales_end_on_round_numbers() {
        assert_eq!([0.0, 1.0, 1.5, 2.0, 499.0, 501.0].map(round_up), [1.0, 1.0, 2.0, 2.0, 500.0, 1000.0]);
    }
}
