//! Lays everything that can be locked out on one line, so that two resources overlap exactly when their stretches do: names
//! side by side, a path around all that lies under it, a range from its first byte to its last.
//!
//! This is the judge's own reading of what overlaps; it shares nothing with the service's. The inodes of the server's own
//! fenced files are judged by their numbers alone: that one of them is one with a path, only the table of files tells.

use std::collections::{BTreeMap, BTreeSet, HashMap};

/// One past the greatest byte of an inode.
const BYTES_END: u64 = 1 << 63;

/// Where a resource lies: cells from the first up to, not including, the last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stretch {
    /// The first cell.
    pub from: usize,
    /// One past the last.
    pub to: usize,
}

impl Stretch {
    /// Whether one cell lies in both.
    pub fn overlaps(&self, other: &Stretch) -> bool {
        self.from < other.to && other.from < self.to
    }
}

/// The line, with every resource of a history on it.
#[derive(Debug, Default)]
pub struct Ground {
    stretches: HashMap<String, Stretch>,
    cells: usize,
}

/// Whether two resources have a byte, path or name in common, by their texts.
pub fn overlaps(one: &str, other: &str) -> bool {
    let ground = Ground::of([one, other]);
    ground.stretch(one).overlaps(&ground.stretch(other))
}

/// A resource by its kind.
enum Place<'a> {
    Name(&'a str),
    Path(&'a str),
    Bytes { inode: u64, from: u64, to: u64 },
}

impl Ground {
    /// Lays out these resources.
    pub fn of<'a>(texts: impl IntoIterator<Item = &'a str>) -> Ground {
        let mut ground = Ground::default();
        let texts: BTreeSet<&str> = texts.into_iter().collect();
        let mut names: HashMap<&str, usize> = HashMap::new();
        let mut paths: Vec<(Vec<&str>, &str)> = Vec::new();
        let mut inodes: BTreeMap<u64, Vec<(u64, u64, &str)>> = BTreeMap::new();
        for text in texts {
            match place(text) {
                Place::Name(name) => {
                    let cell = *names.entry(name).or_insert(ground.cells);
                    ground.cells = ground.cells.max(cell + 1);
                    ground.put(text, cell, cell + 1);
                }
                Place::Path(path) => {
                    paths.push((path.split('/').filter(|part| !part.is_empty()).collect(), text))
                }
                Place::Bytes { inode, from, to } => inodes.entry(inode).or_default().push((from, to, text)),
            }
        }
        ground.lay_paths(paths);
        inodes.into_values().for_each(|ranges| ground.lay_ranges(&ranges));
        ground
    }

    /// Where a resource lies. It was among those that were laid out.
    pub fn stretch(&self, text: &str) -> Stretch {
        let stretch = self.stretches.get(text).copied();
        assert!(stretch.is_some(), "{text} was not laid out");
        stretch.unwrap_or(Stretch { from: 0, to: 0 })
    }

    /// How long the line is.
    pub fn cells(&self) -> usize {
        self.cells
    }

    fn put(&mut self, text: &str, from: usize, to: usize) {
        self.stretches.insert(text.into(), Stretch { from, to });
    }

    /// In the order of their parts everything under a path follows it at once.
    fn lay_paths(&mut self, mut paths: Vec<(Vec<&str>, &str)>) {
        paths.sort();
        let first = self.cells;
        let mut open: Vec<usize> = Vec::new();
        for (place, (parts, _)) in paths.iter().enumerate() {
            while let Some(above) = open.pop_if(|above| !parts.starts_with(&paths[*above].0)) {
                self.put(paths[above].1, first + above, first + place);
            }
            open.push(place);
        }
        for above in open {
            self.put(paths[above].1, first + above, first + paths.len());
        }
        self.cells += paths.len();
    }

    fn lay_ranges(&mut self, ranges: &[(u64, u64, &str)]) {
        let ends: BTreeSet<u64> = ranges.iter().flat_map(|(from, to, _)| [*from, *to]).collect();
        let cells: HashMap<u64, usize> =
            ends.into_iter().enumerate().map(|(place, end)| (end, self.cells + place)).collect();
        for (from, to, text) in ranges {
            self.put(text, cells[from], cells[to]);
        }
        self.cells += cells.len();
    }
}

/// What is not the text of another kind is a name.
fn place(text: &str) -> Place<'_> {
    let bytes = |inode: &str, from: &str, to: &str| {
        let (inode, from, to) = (inode.parse().ok()?, from.parse().ok()?, to.parse().ok()?);
        (from < to).then_some(Place::Bytes { inode, from, to })
    };
    let found = match text.split_once(':') {
        Some(("path", path)) if path.starts_with('/') => Some(Place::Path(path)),
        Some(("inode", inode)) => bytes(inode, "0", &BYTES_END.to_string()),
        Some(("range", rest)) => rest
            .split_once(':')
            .and_then(|(inode, ends)| ends.split_once('-').and_then(|(from, to)| bytes(inode, from, to))),
        Some(("name", name)) => Some(Place::Name(name)),
        _ => None,
    };
    found.unwrap_or(Place::Name(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overlap_is_as_the_contract_says() {
        let cases = [
            ("deploy", "name:deploy", true),
            ("deploy", "deploy2", false),
            ("path:/a", "path:/a/b", true),
            ("path:/", "path:/a/b", true),
            ("path:/a/b", "path:/a/b/c/d", true),
            ("path:/a/b", "path:/a/bc", false),
            ("path:/a/b", "path:/a/b-c", false),
            ("path:/a", "a", false),
            ("inode:42", "range:42:0-1", true),
            ("inode:42", "range:43:0-1", false),
            ("range:42:0-10", "range:42:10-20", false),
            ("range:42:0-11", "range:42:10-20", true),
            ("range:42:0-100", "range:42:10-20", true),
        ];
        let ground = Ground::of(cases.iter().flat_map(|(a, b, _)| [*a, *b]));
        for (a, b, expected) in cases {
            let (a_at, b_at) = (ground.stretch(a), ground.stretch(b));
            assert_eq!(a_at.overlaps(&b_at), expected, "{a} {b}");
            assert_eq!(b_at.overlaps(&a_at), expected, "{b} {a}");
            assert!(a_at.to <= ground.cells() && b_at.to <= ground.cells());
        }
    }
}
