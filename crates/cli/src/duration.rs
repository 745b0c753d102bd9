//! Durations as people write and read them: `500ms`, `30s`, `10m`, `2h`. Never guesses a missing unit.

use std::time::Duration;

use leasehold_client::Ttl;

/// Reads a whole number and its unit.
pub fn parse(text: &str) -> Result<Duration, String> {
    let form = || format!("`{text}` is not a duration: write 500ms, 30s, 10m or 2h");
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    let unit_ms = match unit {
        "ms" => 1,
        "s" => 1000,
        "m" => 60_000,
        "h" => 3_600_000,
        _ => return Err(form()),
    };
    let number: u64 = number.parse().map_err(|_| form())?;
    number.checked_mul(unit_ms).map(Duration::from_millis).ok_or_else(form)
}

/// A TTL: a duration, or one of the presets.
pub fn parse_ttl(text: &str) -> Result<Duration, String> {
    let preset = match text {
        "short" => Ttl::SHORT,
        "long" => Ttl::LONG,
        "batch" => Ttl::BATCH,
        _ => Ttl::default(),
    };
    preset.duration().map_or_else(
        || parse(text).map_err(|wrong| wrong + ", or short (10s), long (60s) or batch (300s)"),
        Ok,
    )
}

/// Whole milliseconds, as programs count.
pub fn ms(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// For people: two units at most, and never more than there is.
pub fn show(duration: Duration) -> String {
    let ms = duration.as_millis();
    let (seconds, minutes, hours) = (ms / 1000, ms / 60_000, ms / 3_600_000);
    match ms {
        0..1000 => format!("{ms}ms"),
        _ if ms < 10_000 && ms % 1000 >= 100 => format!("{seconds}.{}s", ms % 1000 / 100),
        _ if minutes == 0 => format!("{seconds}s"),
        _ if hours == 0 && seconds % 60 == 0 => format!("{minutes}m"),
        _ if hours == 0 => format!("{minutes}m{:02}s", seconds % 60),
        _ if hours < 48 && minutes % 60 == 0 => format!("{hours}h"),
        _ if hours < 48 => format!("{hours}h{:02}m", minutes % 60),
        _ => format!("{}d{:02}h", hours / 24, hours % 24),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn takes_a_number_and_its_unit() {
        for (text, ms) in [("500ms", 500), ("30s", 30_000), ("10m", 600_000), ("2h", 7_200_000), ("0s", 0)] {
            assert_eq!(parse(text), Ok(Duration::from_millis(ms)));
            assert_eq!(parse_ttl(text), parse(text));
        }
        for text in
            ["", "30", "s", "-1s", "1.5s", "1 s", "1S", "99999999999999999999s", "18446744073709551615h"]
        {
            assert!(parse(text).is_err(), "{text}");
            assert!(parse_ttl(text).is_err(), "{text}");
        }
        for (text, s) in [("short", 10), ("long", 60), ("batch", 300)] {
            assert_eq!(parse_ttl(text), Ok(Duration::from_secs(s)));
            assert!(parse(text).is_err(), "only a TTL has presets");
        }
    }

    #[test]
    fn shows_two_units_and_rounds_down() {
        for (ms, shown) in [
            (0, "0ms"),
            (999, "999ms"),
            (1000, "1s"),
            (9_949, "9.9s"),
            (9_999, "9.9s"),
            (10_999, "10s"),
            (59_999, "59s"),
            (60_000, "1m"),
            (65_999, "1m05s"),
            (3_599_999, "59m59s"),
            (3_600_000, "1h"),
            (86_400_000, "24h"),
            (86_460_000, "24h01m"),
            (180_000_000, "2d02h"),
        ] {
            assert_eq!(show(Duration::from_millis(ms)), shown);
        }
    }
}
