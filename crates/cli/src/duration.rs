//! Durations as people write them: `500ms`, `30s`, `10m`, `2h`. Never guesses a missing unit.

use std::time::Duration;

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn takes_a_number_and_its_unit() {
        for (text, ms) in [("500ms", 500), ("30s", 30_000), ("10m", 600_000), ("2h", 7_200_000), ("0s", 0)] {
            assert_eq!(parse(text), Ok(Duration::from_millis(ms)));
        }
        for text in
            ["", "30", "s", "-1s", "1.5s", "1 s", "1S", "99999999999999999999s", "18446744073709551615h"]
        {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
