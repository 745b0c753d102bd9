//! Resources as the contract's section 2 draws them, read again from their text: nothing here is shared with the
//! crate's own overlap rule, so that a mistake there is seen.

/// Where things lie: a kind, and the run of it that is covered.
#[derive(Debug, PartialEq)]
enum Ground {
    Name(String),
    Path(Vec<String>),
    Bytes { inode: u64, start: u64, end: u64 },
}

fn ground(text: &str) -> Ground {
    if let Some(path) = text.strip_prefix("path:") {
        Ground::Path(path.split('/').filter(|segment| !segment.is_empty()).map(String::from).collect())
    } else if let Some(number) = text.strip_prefix("inode:") {
        Ground::Bytes { inode: number.parse().unwrap(), start: 0, end: 1 << 63 }
    } else if let Some(range) = text.strip_prefix("range:") {
        let (inode, ends) = range.split_once(':').unwrap();
        let (start, end) = ends.split_once('-').unwrap();
        Ground::Bytes {
            inode: inode.parse().unwrap(),
            start: start.parse().unwrap(),
            end: end.parse().unwrap(),
        }
    } else {
        Ground::Name(text.into())
    }
}

/// Whether one byte, path or name is covered by both.
pub fn overlap(a: &str, b: &str) -> bool {
    match (ground(a), ground(b)) {
        (Ground::Name(a), Ground::Name(b)) => a == b,
        (Ground::Path(a), Ground::Path(b)) => a.starts_with(&b) || b.starts_with(&a),
        (Ground::Bytes { inode: i, start: s, end: e }, Ground::Bytes { inode: j, start: t, end: f }) => {
            i == j && s.max(t) < e.min(f)
        }
        _ => false,
    }
}

/// Whether everything that `lower` covers is covered by `upper`.
pub fn cover(upper: &str, lower: &str) -> bool {
    match (ground(upper), ground(lower)) {
        (Ground::Name(a), Ground::Name(b)) => a == b,
        (Ground::Path(a), Ground::Path(b)) => b.starts_with(&a),
        (Ground::Bytes { inode: i, start: s, end: e }, Ground::Bytes { inode: j, start: t, end: f }) => {
            i == j && s <= t && f <= e
        }
        _ => false,
    }
}

/// Where a lock's text begins to point.
#[derive(Debug, PartialEq)]
pub enum Spot {
    Inode(u64),
    Elsewhere,
}

pub fn spot(text: &str) -> Spot {
    match ground(text) {
        Ground::Bytes { inode, .. } => Spot::Inode(inode),
        _ => Spot::Elsewhere,
    }
}
