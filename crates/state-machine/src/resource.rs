//! What can be locked: names, path subtrees, inodes and byte ranges; their canonical text, and when two of them overlap.
//! Knows nothing of who holds what.

use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use core::fmt;

use crate::invalid::Invalid;
use crate::limits::{FILE_INODE_END, FILE_INODE_FIRST, NAME_BYTES_MAX, NUMBER_END, PATH_BYTES_MAX};

/// Prefixes that no name may begin with: the kinds there are, and those kept free for later.
const PREFIXES: [&str; 10] =
    ["name:", "path:", "inode:", "range:", "file:", "sem:", "set:", "ns:", "key:", "any:"];

/// A resource in its canonical text, which is also its order in lists. Cheap to clone.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Resource(Arc<str>);

/// A resource seen by its kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind<'a> {
    /// Exactly that name.
    Name(&'a str),
    /// That path and everything under it.
    Path(&'a str),
    /// Bytes of an inode; the whole inode is `0..NUMBER_END`.
    Bytes(Bytes),
}

/// A run of bytes of one inode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Bytes {
    /// The inode's number.
    pub inode: u64,
    /// The first byte.
    pub start: u64,
    /// One past the last byte.
    pub end: u64,
}

impl Bytes {
    /// Whether one byte lies in both.
    pub fn overlaps(&self, other: &Bytes) -> bool {
        self.inode == other.inode && self.start < other.end && other.start < self.end
    }

    /// Whether every byte of `other` lies in this.
    pub fn covers(&self, other: &Bytes) -> bool {
        self.inode == other.inode && self.start <= other.start && other.end <= self.end
    }

    /// Whether the inode's number is one that only the server's own fenced files have.
    pub fn of_a_file(&self) -> bool {
        (FILE_INODE_FIRST..FILE_INODE_END).contains(&self.inode)
    }
}

impl Resource {
    /// Reads the text form. `name:` is taken off; everything else must already be canonical.
    pub fn parse(text: &str) -> Result<Resource, Invalid> {
        let wrong = |problem: String| Invalid::new("lock", problem);
        if let Some(path) = text.strip_prefix("path:") {
            check_path(path).map_err(wrong)?;
        } else if let Some(number) = text.strip_prefix("inode:") {
            parse_number(number).map_err(wrong)?;
        } else if let Some(range) = text.strip_prefix("range:") {
            parse_range(range).map_err(wrong)?;
        } else {
            let name = text.strip_prefix("name:").unwrap_or(text);
            check_name(name).map_err(wrong)?;
            return Ok(Resource(Arc::from(name)));
        }
        Ok(Resource(Arc::from(text)))
    }

    /// A whole inode.
    pub fn inode(number: u64) -> Resource {
        assert!(number < NUMBER_END, "a number is below 2^63");
        Resource(format!("inode:{number}").into())
    }

    /// Of a text that is known to be canonical.
    pub(crate) fn known(text: &str) -> Resource {
        Resource(Arc::from(text))
    }

    /// The canonical text.
    pub fn text(&self) -> &str {
        &self.0
    }

    /// The resource by its kind.
    pub fn kind(&self) -> Kind<'_> {
        let text: &str = &self.0;
        // Nearly all names are told from everything else by their first letter.
        if !text.starts_with(['p', 'i', 'r']) {
            Kind::Name(text)
        } else if let Some(path) = text.strip_prefix("path:") {
            Kind::Path(path)
        } else if let Some(number) = text.strip_prefix("inode:") {
            Kind::Bytes(Bytes { inode: known_number(number), start: 0, end: NUMBER_END })
        } else if let Some(range) = text.strip_prefix("range:") {
            let bytes = parse_range(range);
            assert!(bytes.is_ok(), "a resource holds canonical text");
            Kind::Bytes(bytes.unwrap_or(Bytes { inode: 0, start: 0, end: 0 }))
        } else {
            Kind::Name(text)
        }
    }

    /// Whether one byte, path or name is covered by both. Says nothing of fenced files, whose inodes are one with a
    /// path: that takes the table of files.
    pub fn overlaps(&self, other: &Resource) -> bool {
        match (self.kind(), other.kind()) {
            (Kind::Name(a), Kind::Name(b)) => a == b,
            (Kind::Path(a), Kind::Path(b)) => path_covers(a, b) || path_covers(b, a),
            (Kind::Bytes(a), Kind::Bytes(b)) => a.overlaps(&b),
            _ => false,
        }
    }

    /// Whether everything that `other` covers is covered by this.
    pub fn covers(&self, other: &Resource) -> bool {
        match (self.kind(), other.kind()) {
            (Kind::Name(a), Kind::Name(b)) => a == b,
            (Kind::Path(a), Kind::Path(b)) => path_covers(a, b),
            (Kind::Bytes(a), Kind::Bytes(b)) => a.covers(&b),
            _ => false,
        }
    }
}

impl fmt::Display for Resource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Resource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Whether `lower` is `upper` or lies under it. Both are normal absolute paths.
pub fn path_covers(upper: &str, lower: &str) -> bool {
    upper == "/" || lower.strip_prefix(upper).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// The path's proper ancestors from its parent up to the root; none for the root itself.
pub fn ancestors(path: &str) -> impl Iterator<Item = &str> {
    let mut rest = path;
    core::iter::from_fn(move || {
        if rest == "/" {
            return None;
        }
        let cut = rest.rfind('/')?;
        rest = if cut == 0 { "/" } else { &rest[..cut] };
        Some(rest)
    })
}

fn check_name(name: &str) -> Result<(), String> {
    if name.is_empty() || name.len() > NAME_BYTES_MAX {
        return Err(format!("a name has 1 to {NAME_BYTES_MAX} bytes, this one has {}", name.len()));
    }
    if name == "." || name == ".." {
        return Err("`.` and `..` are no names".into());
    }
    if has_control(name) {
        return Err("a name has no control characters".into());
    }
    // Every prefix has a colon, and few names do.
    if name.contains(':')
        && let Some(prefix) = PREFIXES.iter().find(|prefix| name.starts_with(**prefix))
    {
        return Err(format!("a name does not begin with `{prefix}`: that is a kind of resource or reserved"));
    }
    Ok(())
}

/// Whether a control character is in a text.
pub(crate) fn has_control(text: &str) -> bool {
    // Nearly every text is like this, and it takes no branch for each byte to see it.
    let plain = text.bytes().fold(true, |plain, byte| plain & (b' '..=b'~').contains(&byte));
    !plain && text.chars().any(char::is_control)
}

/// Whether `path` is absolute and normal.
fn check_path(path: &str) -> Result<(), String> {
    if path.len() > PATH_BYTES_MAX {
        return Err(format!("a path has at most {PATH_BYTES_MAX} bytes, this one has {}", path.len()));
    }
    if has_control(path) {
        return Err("a path has no control characters".into());
    }
    let Some(below) = path.strip_prefix('/') else {
        return Err("a path is absolute: it begins with `/`".into());
    };
    if below.is_empty() {
        return Ok(());
    }
    for segment in below.split('/') {
        if segment.is_empty() {
            return Err("a path has no empty segment and no trailing `/`".into());
        }
        if segment == "." || segment == ".." {
            return Err("a path is normal: it has no `.` or `..` segment".into());
        }
    }
    Ok(())
}

fn parse_number(text: &str) -> Result<u64, String> {
    let plain = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    if !plain {
        return Err(format!("`{}` is not a decimal number", shorten(text)));
    }
    if text.len() > 1 && text.starts_with('0') {
        return Err("a number has no leading zeros".into());
    }
    match text.parse::<u64>() {
        Ok(number) if number < NUMBER_END => Ok(number),
        _ => Err("a number is below 2^63".into()),
    }
}

fn known_number(text: &str) -> u64 {
    let number = parse_number(text);
    assert!(number.is_ok(), "a resource holds canonical text");
    number.unwrap_or(0)
}

fn parse_range(text: &str) -> Result<Bytes, String> {
    let form = || String::from("a range is written `range:INODE:START-END`");
    let (inode, ends) = text.split_once(':').ok_or_else(form)?;
    let (start, end) = ends.split_once('-').ok_or_else(form)?;
    let bytes = Bytes { inode: parse_number(inode)?, start: parse_number(start)?, end: parse_number(end)? };
    if bytes.start >= bytes.end {
        return Err("a range has start < end; the end is not included".into());
    }
    Ok(bytes)
}

/// Quotes at most the beginning of what somebody sent.
fn shorten(text: &str) -> String {
    text.chars().take(32).filter(|c| !c.is_control()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resource(text: &str) -> Resource {
        Resource::parse(text).unwrap()
    }

    #[test]
    fn canonical_text_writes_names_bare() {
        assert_eq!(resource("name:deploy").text(), "deploy");
        for text in ["deploy", "path:/", "path:/a/b", "inode:0", "range:42:0-4096", "a/b c", "pathx:/a", "ü"]
        {
            assert_eq!(resource(text).text(), text);
        }
    }

    #[test]
    fn everything_else_is_refused() {
        let long_name = "x".repeat(513);
        let long_path = format!("path:/{}", "x".repeat(513));
        for text in [
            "",
            "name:",
            ".",
            "..",
            "name:.",
            "a\nb",
            "a\u{7f}",
            "a\u{85}",
            "name:path:/a",
            "name:name:a",
            "file:a",
            "sem:a",
            "set:a",
            "ns:a",
            "key:a",
            "any:a",
            "path:",
            "path:a",
            "path:/a/",
            "path://",
            "path:/a//b",
            "path:/./a",
            "path:/a/..",
            "path:/a\0",
            "inode:",
            "inode:01",
            "inode:-1",
            "inode:+1",
            "inode:1 ",
            "inode:9223372036854775808",
            "inode:99999999999999999999999",
            "range:1",
            "range:1:0",
            "range:1:5-5",
            "range:1:6-5",
            "range:1:00-5",
            "range:1:0-9223372036854775808",
            "range:1:0-5-6",
            &long_name,
            &long_path,
        ] {
            assert!(Resource::parse(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn overlap_is_symmetric_and_as_the_contract_says() {
        let cases = [
            ("deploy", "deploy", true),
            ("deploy", "deploy2", false),
            ("path:/a", "path:/a/b", true),
            ("path:/", "path:/a/b", true),
            ("path:/a/b", "path:/a/bc", false),
            ("path:/a", "a", false),
            ("inode:42", "range:42:0-1", true),
            ("inode:42", "range:43:0-1", false),
            ("range:42:0-10", "range:42:10-20", false),
            ("range:42:0-11", "range:42:10-20", true),
            ("range:42:0-100", "range:42:10-20", true),
        ];
        for (a, b, expected) in cases {
            assert_eq!(resource(a).overlaps(&resource(b)), expected, "{a} {b}");
            assert_eq!(resource(b).overlaps(&resource(a)), expected, "{b} {a}");
        }
    }

    #[test]
    fn covering_has_a_direction() {
        let same = ["deploy", "path:/", "path:/a/b", "inode:42", "range:42:5-10"];
        for text in same {
            assert!(resource(text).covers(&resource(text)), "{text}");
        }
        let more = [
            ("path:/", "path:/a"),
            ("path:/a", "path:/a/b"),
            ("inode:42", "range:42:5-10"),
            ("range:42:5-10", "range:42:5-9"),
            ("range:42:5-10", "range:42:6-10"),
        ];
        for (upper, lower) in more {
            assert!(resource(upper).covers(&resource(lower)), "{upper} {lower}");
            assert!(!resource(lower).covers(&resource(upper)), "{lower} {upper}");
        }
        let apart = [
            ("deploy", "deploy2"),
            ("deploy", "path:/deploy"),
            ("path:/a", "path:/ab"),
            ("inode:42", "inode:43"),
            ("range:42:5-10", "range:43:6-9"),
            ("range:42:5-10", "range:42:8-12"),
            ("range:42:5-10", "range:42:10-12"),
        ];
        for (one, other) in apart {
            assert!(!resource(one).covers(&resource(other)), "{one} {other}");
            assert!(!resource(other).covers(&resource(one)), "{other} {one}");
        }
    }

    #[test]
    fn ancestors_go_up_to_the_root() {
        let up: alloc::vec::Vec<_> = ancestors("/a/b/c").collect();
        assert_eq!(up, ["/a/b", "/a", "/"]);
        assert_eq!(ancestors("/").count(), 0);
    }
}
