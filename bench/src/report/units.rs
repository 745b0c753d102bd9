//! How a value is shown, by the unit that stands last in its name, and what a column of it is called. Pure.

/// A value for a person: `512 µs`, `1.4 ms`, `93,100`, `463 bytes`.
pub fn show(name: &str, value: f64) -> String {
    let unit = name.rsplit('_').next().unwrap_or_default();
    match unit {
        "us" => time(value / 1e6),
        "ms" => time(value / 1e3),
        "s" => time(value),
        "bytes" if value.abs() < 10_000.0 => format!("{value:.0} bytes"),
        "bytes" => format!("{} MiB", number(value / 1048576.0)),
        _ => number(value),
    }
}

/// A column's heading: the name without its unit.
pub fn heading(name: &str) -> String {
    let bare = ["_us", "_ms", "_s", "_bytes"].iter().find_map(|unit| name.strip_suffix(unit));
    bare.unwrap_or(name).replace('_', " ").replace("cpu", "CPU")
}

/// Three digits that matter, thousands apart.
pub fn number(value: f64) -> String {
    let size = value.abs();
    match size {
        _ if size >= 10_000.0 => whole((value / 100.0).round() * 100.0),
        _ if size >= 1_000.0 => whole((value / 10.0).round() * 10.0),
        _ if size >= 100.0 || value == value.round() => format!("{value:.0}"),
        _ if size >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

/// All digits of a whole number, thousands apart.
pub fn whole(value: f64) -> String {
    let digits = format!("{:.0}", value.abs());
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    if value < 0.0 { format!("-{text}") } else { text }
}

fn time(seconds: f64) -> String {
    match seconds.abs() {
        size if size >= 1.0 => format!("{} s", number(seconds)),
        size if size >= 1e-3 => format!("{} ms", number(seconds * 1e3)),
        _ => format!("{} µs", number(seconds * 1e6)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_shown_by_the_unit_in_their_name() {
        for (name, value, shown) in [
            ("per_second", 93_123.4, "93,100"),
            ("per_second", 1_234_567.0, "1,234,600"),
            ("per_second", 1_239.0, "1,240"),
            ("p50_us", 512.0, "512 µs"),
            ("p50_us", 1_412.0, "1.41 ms"),
            ("recover_s", 2.6412, "2.64 s"),
            ("recover_s", 0.5, "500 ms"),
            ("memory_each_bytes", 463.2, "463 bytes"),
            ("disk_bytes", 146_171_494.0, "139 MiB"),
            ("disk_growth_per_hour_bytes", -8_678_517.0, "-8.28 MiB"),
            ("least_to_most", 0.973, "0.97"),
            ("commits", 1.0, "1"),
        ] {
            assert_eq!(show(name, value), shown);
        }
        assert_eq!(heading("server_cpu_us"), "server CPU");
        assert_eq!(heading("per_second"), "per second");
    }
}
