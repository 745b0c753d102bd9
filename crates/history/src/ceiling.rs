//! Remembers a number for each stretch of the line and mode, and tells the greatest among those that conflict with another
//! stretch: both in O(log n). Only ever filled; the checks put things in by time and so never need to take any out.

use crate::ground::Stretch;
use crate::operation::Mode;

/// A number and whose it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Mark {
    /// The number.
    pub value: u64,
    /// Whose.
    pub of: usize,
}

/// A tree over the cells of the line.
#[derive(Debug)]
pub struct Ceiling {
    leaves: usize,
    exclusive: Tree,
    shared: Tree,
}

#[derive(Debug)]
struct Tree {
    /// The greatest that was put on all of a node's cells.
    whole: Vec<Option<Mark>>,
    /// The greatest that was put on some of them.
    some: Vec<Option<Mark>>,
}

impl Ceiling {
    /// Over so many cells.
    pub fn over(cells: usize) -> Ceiling {
        let leaves = cells.next_power_of_two();
        let tree = || Tree { whole: vec![None; 2 * leaves], some: vec![None; 2 * leaves] };
        Ceiling { leaves, exclusive: tree(), shared: tree() }
    }

    /// Puts a number on a stretch.
    pub fn put(&mut self, at: Stretch, mode: Mode, mark: Mark) {
        let tree = if mode == Mode::Exclusive { &mut self.exclusive } else { &mut self.shared };
        let raise = |place: &mut Option<Mark>| *place = (*place).max(Some(mark));
        pieces(self.leaves, at, |node| raise(&mut tree.whole[node]));
        edges(self.leaves, at, |node| raise(&mut tree.some[node]));
    }

    /// The greatest number on any stretch that overlaps this one in a mode that conflicts with this one.
    pub fn above(&self, at: Stretch, mode: Mode) -> Option<Mark> {
        let mut greatest = None;
        let mut look = |tree: &Tree| {
            pieces(self.leaves, at, |node| {
                greatest = greatest.max(tree.whole[node]).max(tree.some[node]);
            });
            edges(self.leaves, at, |node| greatest = greatest.max(tree.whole[node]));
        };
        look(&self.exclusive);
        if mode == Mode::Exclusive {
            look(&self.shared);
        }
        greatest
    }
}

/// The few nodes that make up a stretch together.
fn pieces(leaves: usize, at: Stretch, mut visit: impl FnMut(usize)) {
    let (mut from, mut to) = (at.from + leaves, at.to + leaves);
    while from < to {
        if from % 2 == 1 {
            visit(from);
            from += 1;
        }
        if to % 2 == 1 {
            to -= 1;
            visit(to);
        }
        (from, to) = (from / 2, to / 2);
    }
}

/// The nodes above both ends of a stretch: among them all that it covers in part.
fn edges(leaves: usize, at: Stretch, mut visit: impl FnMut(usize)) {
    for end in [at.from, at.to.saturating_sub(1)] {
        let mut node = end + leaves;
        while node > 0 {
            visit(node);
            node /= 2;
        }
        if at.to - at.from == 1 {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Against the plain way, on stretches and modes drawn from a small line.
    #[test]
    fn tells_what_a_list_would_tell() {
        let mut seed = 7_u64;
        let mut draw = move |below: u64| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (seed >> 33) % below
        };
        for cells in [1, 2, 3, 8, 13] {
            let mut ceiling = Ceiling::over(cells);
            let mut list: Vec<(Stretch, Mode, Mark)> = Vec::new();
            for of in 0..300 {
                let from = usize::try_from(draw(cells as u64)).unwrap();
                let to = from + 1 + usize::try_from(draw((cells - from) as u64)).unwrap();
                let (at, mode) =
                    (Stretch { from, to }, if draw(2) == 0 { Mode::Exclusive } else { Mode::Shared });
                let expected = list.iter().filter(|(other, m, _)| other.overlaps(&at) && m.conflicts(mode));
                assert_eq!(ceiling.above(at, mode), expected.map(|(_, _, mark)| *mark).max());
                let mark = Mark { value: draw(1000), of };
                ceiling.put(at, mode, mark);
                list.push((at, mode, mark));
            }
        }
    }
}
