//! Plots as SVG, written by hand: lines over logarithmic axes, and bars. They follow the reader's light or dark scheme, and every
//! line and bar carries its own label. Knows nothing of what is plotted.

use std::fmt::Write as _;

use super::units::{number, whole};

const WIDTH: f64 = 940.0;
const HEIGHT: f64 = 480.0;
/// The room around the lines: for labels of the axes, and for those of the lines.
const LEFT: f64 = 70.0;
const RIGHT: f64 = 310.0;
const TOP: f64 = 64.0;
const BOTTOM: f64 = 56.0;
/// Of a line of text.
const LINE: f64 = 15.0;
/// Of a bar with the room around it.
const BAR: f64 = 26.0;

/// Readable on white and on black alike, and for those who do not tell red from green; the first is for what is shown first.
const COLOURS: [&str; 11] = [
    "#d9480f", "#1c7ed6", "#7048e8", "#0c8599", "#c2255c", "#868e96", "#a0761a", "#5c7cfa", "#37b24d",
    "#f08c00", "#66a80f",
];

const STYLE: &str = "<style>\n\
    text { font: 12px system-ui, -apple-system, 'Segoe UI', Helvetica, Arial, sans-serif; fill: #212529 }\n\
    .title { font-size: 16px; font-weight: 600 }\n\
    .quiet { fill: #495057 }\n\
    .paper { fill: #ffffff }\n\
    .grid { stroke: #dee2e6; stroke-width: 1 }\n\
    .line { fill: none; stroke-width: 2; stroke-linejoin: round }\n\
    .first { stroke-width: 4 }\n\
    .loud { font-weight: 600 }\n\
    @media (prefers-color-scheme: dark) {\n\
    text { fill: #e9ecef } .quiet { fill: #adb5bd } .paper { fill: #0d1117 } .grid { stroke: #30363d }\n\
    }\n\
    </style>\n";

/// One line of a plot.
pub struct Line {
    /// What it is.
    pub label: String,
    /// Its points; both greater than 0.
    pub points: Vec<(f64, f64)>,
    /// Shown before all others.
    pub first: bool,
}

/// One bar.
pub struct Bar {
    /// What it is.
    pub label: String,
    /// Its parts, one behind the other.
    pub parts: Vec<f64>,
    /// What stands at its end.
    pub value: String,
    /// Shown before all others.
    pub first: bool,
}

/// What stands around a plot.
pub struct Frame<'a> {
    /// Above it.
    pub title: &'a str,
    /// Below that, what is to be known to read it.
    pub about: &'a str,
    /// Along the axis of what was chosen.
    pub x: &'a str,
    /// Along the axis of what was measured.
    pub y: &'a str,
}

/// Lines over two logarithmic axes, with a tick at each of these places. Nothing if there is nothing to be shown.
pub fn lines(frame: &Frame<'_>, ticks: &[f64], lines: &[Line]) -> Option<String> {
    let points = || lines.iter().flat_map(|line| &line.points);
    let (low, high) = points().fold((f64::MAX, 0.0_f64), |(low, high), (_, y)| (low.min(*y), high.max(*y)));
    let (&from, &to) = (ticks.first()?, ticks.last()?);
    if !(low > 0.0 && low <= high && from > 0.0) {
        return None;
    }
    let (bottom, top) = (low.log10().floor(), high.log10().ceil().max(low.log10().floor() + 1.0));
    let (wide, tall) = (WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM);
    let across = |x: f64| LEFT + wide * (x / from).ln() / (to / from).ln().max(1e-9);
    let down = |y: f64| TOP + tall * (top - y.log10()) / (top - bottom);

    let mut svg = begin(frame, HEIGHT);
    for &tick in ticks {
        let x = across(tick);
        let _ = writeln!(
            svg,
            "<line class=\"grid\" x1=\"{x:.1}\" y1=\"{TOP}\" x2=\"{x:.1}\" y2=\"{:.1}\"/>\n\
             <text class=\"quiet\" x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
            TOP + tall,
            TOP + tall + 18.0,
            whole(tick),
        );
    }
    for exponent in bottom as i32..=top as i32 {
        let (value, y) = (10_f64.powi(exponent), down(10_f64.powi(exponent)));
        let _ = writeln!(
            svg,
            "<line class=\"grid\" x1=\"{LEFT}\" y1=\"{y:.1}\" x2=\"{:.1}\" y2=\"{y:.1}\"/>\n\
             <text class=\"quiet\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
            LEFT + wide,
            LEFT - 8.0,
            y + 4.0,
            number(value),
        );
    }
    let ends: Vec<f64> = lines.iter().map(|line| line.points.last().map_or(TOP, |(_, y)| down(*y))).collect();
    let labels = apart(&ends, TOP, TOP + tall);
    // The first is drawn last, above the others.
    for (at, line) in lines.iter().enumerate().rev() {
        let (colour, loud) = (COLOURS[at % COLOURS.len()], if line.first { " first" } else { "" });
        let path: Vec<String> =
            line.points.iter().map(|(x, y)| format!("{:.1},{:.1}", across(*x), down(*y))).collect();
        let _ = writeln!(
            svg,
            "<polyline class=\"line{loud}\" stroke=\"{colour}\" points=\"{}\"/>",
            path.join(" ")
        );
        for (x, y) in &line.points {
            let _ = writeln!(
                svg,
                "<circle cx=\"{:.1}\" cy=\"{:.1}\" r=\"3\" fill=\"{colour}\"/>",
                across(*x),
                down(*y)
            );
        }
        if let Some((x, _)) = line.points.last() {
            let (end, label) = (across(*x), labels[at]);
            let _ = writeln!(
                svg,
                "<line stroke=\"{colour}\" x1=\"{:.1}\" y1=\"{:.1}\" x2=\"{:.1}\" y2=\"{label:.1}\"/>\n\
                 <text class=\"{}\" x=\"{:.1}\" y=\"{:.1}\">{}</text>",
                end + 4.0,
                ends[at],
                LEFT + wide + 14.0,
                if line.first { "loud" } else { "" },
                LEFT + wide + 18.0,
                label + 4.0,
                escaped(&line.label),
            );
        }
    }
    let _ = writeln!(
        svg,
        "<text class=\"quiet\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>\n\
         <text class=\"quiet\" transform=\"translate(16 {:.1}) rotate(-90)\" text-anchor=\"middle\">{}</text>\n</svg>",
        LEFT + wide / 2.0,
        HEIGHT - 14.0,
        escaped(frame.x),
        TOP + tall / 2.0,
        escaped(frame.y),
    );
    Some(svg)
}

/// Bars from the left, the longest over the whole width. `legend` names the parts of each, if there are several.
pub fn bars(frame: &Frame<'_>, legend: &[&str], bars: &[Bar]) -> Option<String> {
    let longest = bars.iter().map(|bar| bar.parts.iter().sum::<f64>()).fold(0.0, f64::max);
    if longest <= 0.0 {
        return None;
    }
    let (names, values) = (300.0, 130.0);
    let wide = WIDTH - names - values;
    let top = TOP + if legend.len() > 1 { LINE } else { 0.0 };
    let mut svg = begin(frame, top + bars.len() as f64 * BAR + 36.0);
    let opacity = |part: usize| 1.0 - 0.55 * part as f64;
    if legend.len() > 1 {
        for (at, name) in legend.iter().enumerate() {
            let x = names + at as f64 * 150.0;
            let _ = writeln!(
                svg,
                "<rect x=\"{x:.1}\" y=\"{:.1}\" width=\"10\" height=\"10\" fill=\"{}\" opacity=\"{:.2}\"/>\n\
                 <text class=\"quiet\" x=\"{:.1}\" y=\"{:.1}\">{}</text>",
                TOP - 8.0,
                COLOURS[5],
                opacity(at),
                x + 16.0,
                TOP + 1.0,
                escaped(name),
            );
        }
    }
    for (at, bar) in bars.iter().enumerate() {
        let y = top + at as f64 * BAR;
        let (colour, loud) = if bar.first { (COLOURS[0], "loud") } else { (COLOURS[1], "") };
        let _ = writeln!(
            svg,
            "<text class=\"{loud}\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
            names - 8.0,
            y + BAR / 2.0 + 4.0,
            escaped(&bar.label),
        );
        let mut x = names;
        for (part, value) in bar.parts.iter().enumerate() {
            let length = wide * value / longest;
            let _ = writeln!(
                svg,
                "<rect x=\"{x:.1}\" y=\"{:.1}\" width=\"{length:.1}\" height=\"{:.1}\" fill=\"{colour}\" opacity=\"{:.2}\"/>",
                y + 4.0,
                BAR - 8.0,
                opacity(part),
            );
            x += length;
        }
        let _ = writeln!(
            svg,
            "<text class=\"{loud}\" x=\"{:.1}\" y=\"{:.1}\">{}</text>",
            x + 6.0,
            y + BAR / 2.0 + 4.0,
            escaped(&bar.value)
        );
    }
    let _ = writeln!(
        svg,
        "<text class=\"quiet\" x=\"{names}\" y=\"{:.1}\">{}</text>\n</svg>",
        top + bars.len() as f64 * BAR + 22.0,
        escaped(frame.y),
    );
    Some(svg)
}

fn begin(frame: &Frame<'_>, height: f64) -> String {
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" width=\"{WIDTH}\" height=\"{height}\" \
         role=\"img\" aria-label=\"{title}\">\n{STYLE}<rect class=\"paper\" width=\"{WIDTH}\" height=\"{height}\"/>\n\
         <text class=\"title\" x=\"20\" y=\"26\">{title}</text>\n<text class=\"quiet\" x=\"20\" y=\"44\">{}</text>\n",
        escaped(frame.about),
        title = escaped(frame.title),
    )
}

/// Moves labels so far from each other that they can be read, and not out of the plot if that can be.
fn apart(places: &[f64], top: f64, bottom: f64) -> Vec<f64> {
    let mut order: Vec<usize> = (0..places.len()).collect();
    order.sort_by(|a, b| places[*a].total_cmp(&places[*b]));
    let mut moved = places.to_vec();
    let mut least = top;
    for &at in &order {
        moved[at] = moved[at].max(least);
        least = moved[at] + LINE;
    }
    let mut most = bottom;
    for &at in order.iter().rev() {
        moved[at] = moved[at].min(most);
        most = moved[at] - LINE;
    }
    moved
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    const FRAME: Frame<'static> = Frame { title: "A & B", about: "", x: "clients", y: "per second" };

    #[test]
    fn labels_are_moved_apart_and_stay_inside() {
        let moved = apart(&[100.0, 98.0, 99.0, 20.0], 0.0, 100.0);
        assert_eq!(moved, [100.0, 70.0, 85.0, 20.0]);
    }

    #[test]
    fn lines_have_their_points_and_labels() {
        let line =
            Line { label: "<one>".to_owned(), points: vec![(1.0, 10.0), (100.0, 1000.0)], first: true };
        let svg = lines(&FRAME, &[1.0, 10.0, 100.0], &[line]).unwrap();
        let corner = format!("{LEFT:.1},{:.1} {:.1},{TOP:.1}", HEIGHT - BOTTOM, WIDTH - RIGHT);
        assert!(svg.contains(&corner), "{svg}");
        assert!(svg.contains("&lt;one&gt;") && svg.contains("A &amp; B") && svg.ends_with("</svg>\n"));
        assert_eq!(lines(&FRAME, &[1.0, 10.0], &[]), None);
    }

    #[test]
    fn the_longest_bar_is_as_wide_as_can_be_and_others_in_proportion() {
        let bar = |parts: &[f64]| Bar {
            label: "x".to_owned(),
            parts: parts.to_vec(),
            value: "y".to_owned(),
            first: false,
        };
        let svg = bars(&FRAME, &["server", "client"], &[bar(&[30.0, 10.0]), bar(&[20.0])]).unwrap();
        assert!(
            svg.contains("width=\"382.5\"")
                && svg.contains("width=\"127.5\"")
                && svg.contains("width=\"255.0\"")
        );
        assert_eq!(bars(&FRAME, &[], &[]), None);
    }
}
