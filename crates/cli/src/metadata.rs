//! Metadata on the command line: `KEY=VALUE`, as often as there are entries.

use std::collections::BTreeMap;

/// One entry.
pub fn parse(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        _ => Err(format!("`{text}` is not an entry: write KEY=VALUE")),
    }
}

/// All of them; a key that comes twice is refused rather than chosen between.
pub fn gather(entries: Vec<(String, String)>) -> Result<BTreeMap<String, String>, String> {
    let mut gathered = BTreeMap::new();
    for (key, value) in entries {
        if gathered.contains_key(&key) {
            return Err(format!("the metadata `{key}` is given twice"));
        }
        gathered.insert(key, value);
    }
    Ok(gathered)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn takes_keys_with_values() {
        assert_eq!(parse("run=17"), Ok(("run".into(), "17".into())));
        assert_eq!(parse("url=a=b"), Ok(("url".into(), "a=b".into())));
        assert_eq!(parse("empty="), Ok(("empty".into(), String::new())));
        assert!(parse("run").is_err() && parse("=17").is_err());
        let twice = vec![("a".into(), "1".into()), ("a".into(), "1".into())];
        assert!(gather(twice).unwrap_err().contains("`a`"));
    }
}
