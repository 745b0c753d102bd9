//! An index of byte ranges that answers "which of these overlap mine?" without looking at the others.
//!
//! A treap ordered by (start, end, order), each node knowing the furthest end and the span of orders below it. `order`
//! is whatever tells two equal ranges apart and sorts them by age: the token of a lease or the ticket of a waiter.
//! The shape comes from a keyed hash of the range, not from chance, so that equal contents behave equally, and nobody
//! outside can choose ranges that make it deep.

use alloc::vec::Vec;
use core::hash::{BuildHasher, Hasher};

use crate::keyed::Keyed;

/// No node.
const NIL: u32 = u32::MAX;
/// How many more nodes a search for a *late* overlap may visit once it has found one.
const LOOKS_FOR_BETTER: usize = 64;

/// A range in the index.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Interval {
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) order: u64,
}

#[derive(Clone, Copy, Debug)]
struct Node {
    key: Interval,
    slot: u32,
    left: u32,
    right: u32,
    weight: u64,
    end_max: u64,
    order_min: u64,
    order_max: u64,
}

/// The index.
#[derive(Debug)]
pub(crate) struct Intervals {
    key: Keyed,
    nodes: Vec<Node>,
    free: Vec<u32>,
    root: u32,
}

impl Intervals {
    pub(crate) fn new(key: Keyed) -> Self {
        Intervals { key, nodes: Vec::new(), free: Vec::new(), root: NIL }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.root == NIL
    }

    pub(crate) fn insert(&mut self, key: Interval, slot: u32) {
        assert!(key.start < key.end, "a range has start < end");
        let mut weight = self.key.build_hasher();
        for number in [key.start, key.end, key.order] {
            weight.write_u64(number);
        }
        let weight = weight.finish();
        let node = Node {
            key,
            slot,
            left: NIL,
            right: NIL,
            weight,
            end_max: key.end,
            order_min: key.order,
            order_max: key.order,
        };
        let index = match self.free.pop() {
            Some(index) => {
                self.nodes[index as usize] = node;
                index
            }
            None => {
                self.nodes.push(node);
                (self.nodes.len() - 1) as u32
            }
        };
        let (left, right) = self.split(self.root, &key);
        let left = self.merge(left, index);
        self.root = self.merge(left, right);
    }

    pub(crate) fn remove(&mut self, key: &Interval) {
        let (left, rest) = self.split(self.root, key);
        // The node is the first of the rest.
        let after = Interval { order: key.order + 1, ..*key };
        let (node, right) = self.split(rest, &after);
        assert!(node != NIL && self.nodes[node as usize].key == *key, "what is removed was there");
        self.free.push(node);
        self.root = self.merge(left, right);
    }

    /// An overlapping range with an order below `before`: a late one, though not always the latest. Which one only
    /// decides how often the caller asks again, never what it is told.
    pub(crate) fn late_overlap(&self, start: u64, end: u64, before: u64) -> Option<(u64, u32)> {
        let mut best: Option<(u64, u32)> = None;
        let mut looks = usize::MAX;
        let mut stack = Vec::with_capacity(64);
        stack.push(self.root);
        while let Some(index) = stack.pop() {
            if index == NIL || looks == 0 {
                continue;
            }
            looks -= 1;
            let node = &self.nodes[index as usize];
            let beaten = best.is_some_and(|(order, _)| node.order_max <= order);
            if node.end_max <= start || node.order_min >= before || beaten {
                continue;
            }
            let key = &node.key;
            if key.start < end && start < key.end && key.order < before {
                if best.is_none_or(|(order, _)| key.order > order) {
                    best = Some((key.order, node.slot));
                }
                looks = looks.min(LOOKS_FOR_BETTER);
            }
            // Equal ranges are sorted by age: the right side, visited first, has the later ones.
            stack.push(node.left);
            if key.start < end {
                stack.push(node.right);
            }
        }
        best
    }

    /// The overlapping range with exactly this order.
    pub(crate) fn with_order(&self, start: u64, end: u64, order: u64) -> Option<(Interval, u32)> {
        let mut found = None;
        self.visit(self.root, start, end, order, order, &mut |node| {
            found = Some((node.key, node.slot));
            false
        });
        found
    }

    /// The highest order among overlapping ranges, if it is above `above`.
    pub(crate) fn highest_order(&self, start: u64, end: u64, above: u64) -> Option<u64> {
        let mut highest = None;
        let mut floor = above;
        let mut stack = Vec::from([self.root]);
        while let Some(index) = stack.pop() {
            if index == NIL {
                continue;
            }
            let node = &self.nodes[index as usize];
            if node.end_max <= start || node.order_max <= floor {
                continue;
            }
            if node.key.start < end {
                if start < node.key.end && node.key.order > floor {
                    floor = node.key.order;
                    highest = Some(floor);
                }
                stack.push(node.right);
            }
            stack.push(node.left);
        }
        highest
    }

    /// Overlapping ranges, at most `most` of them, each as (order, slot).
    pub(crate) fn overlapping(&self, start: u64, end: u64, most: usize, into: &mut Vec<(u64, u32)>) {
        let full = into.len() + most;
        if most > 0 {
            self.visit(self.root, start, end, 0, u64::MAX, &mut |node| {
                into.push((node.key.order, node.slot));
                into.len() < full
            });
        }
    }

    /// Visits overlapping nodes with an order in `low..=high` until `visit` says stop.
    fn visit(
        &self,
        index: u32,
        start: u64,
        end: u64,
        low: u64,
        high: u64,
        visit: &mut dyn FnMut(&Node) -> bool,
    ) -> bool {
        if index == NIL {
            return true;
        }
        let node = &self.nodes[index as usize];
        if node.end_max <= start || node.order_max < low || node.order_min > high {
            return true;
        }
        if !self.visit(node.left, start, end, low, high, visit) {
            return false;
        }
        if node.key.start >= end {
            return true;
        }
        let wanted = start < node.key.end && (low..=high).contains(&node.key.order);
        if wanted && !visit(node) {
            return false;
        }
        self.visit(node.right, start, end, low, high, visit)
    }

    /// Parts a tree into what sorts before `key` and the rest.
    fn split(&mut self, index: u32, key: &Interval) -> (u32, u32) {
        if index == NIL {
            return (NIL, NIL);
        }
        let node = self.nodes[index as usize];
        if node.key < *key {
            let (left, right) = self.split(node.right, key);
            self.nodes[index as usize].right = left;
            self.sum_up(index);
            (index, right)
        } else {
            let (left, right) = self.split(node.left, key);
            self.nodes[index as usize].left = right;
            self.sum_up(index);
            (left, index)
        }
    }

    /// Joins two trees of which the first sorts before the second.
    fn merge(&mut self, left: u32, right: u32) -> u32 {
        if left == NIL {
            return right;
        }
        if right == NIL {
            return left;
        }
        if self.nodes[left as usize].weight > self.nodes[right as usize].weight {
            let joined = self.merge(self.nodes[left as usize].right, right);
            self.nodes[left as usize].right = joined;
            self.sum_up(left);
            left
        } else {
            let joined = self.merge(left, self.nodes[right as usize].left);
            self.nodes[right as usize].left = joined;
            self.sum_up(right);
            right
        }
    }

    /// Makes a node's summary true again after its children changed.
    fn sum_up(&mut self, index: u32) {
        let node = self.nodes[index as usize];
        let mut end_max = node.key.end;
        let mut order_min = node.key.order;
        let mut order_max = node.key.order;
        for child in [node.left, node.right] {
            if child != NIL {
                let child = &self.nodes[child as usize];
                end_max = end_max.max(child.end_max);
                order_min = order_min.min(child.order_min);
                order_max = order_max.max(child.order_max);
            }
        }
        let node = &mut self.nodes[index as usize];
        node.end_max = end_max;
        node.order_min = order_min;
        node.order_max = order_max;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::HashKey;
    use crate::scatter::mix;

    const KEY: Keyed = Keyed(HashKey([1, 2]));

    #[test]
    fn agrees_with_a_list() {
        let mut index = Intervals::new(KEY);
        let mut list: Vec<Interval> = Vec::new();
        let mut state = 7u64;
        let mut draw = |below: u64| {
            state = state.wrapping_add(1);
            mix(state) % below
        };
        for order in 1..3000u64 {
            if !list.is_empty() && draw(3) == 0 {
                let gone = list.swap_remove(draw(list.len() as u64) as usize);
                index.remove(&gone);
            } else {
                let start = draw(100);
                let key = Interval { start, end: start + 1 + draw(20), order };
                list.push(key);
                index.insert(key, order as u32);
            }
            let (start, before) = (draw(110), draw(3100));
            let end = start + 1 + draw(10);
            let overlapping = || list.iter().filter(|key| key.start < end && start < key.end);
            let late = index.late_overlap(start, end, before);
            assert_eq!(late.is_some(), overlapping().any(|key| key.order < before));
            if let Some((order, _)) = late {
                assert!(overlapping().any(|key| key.order == order && order < before));
            }
            let mut found = Vec::new();
            index.overlapping(start, end, usize::MAX - 1_000_000, &mut found);
            assert_eq!(found.len(), overlapping().count());
            let highest = overlapping().map(|key| key.order).filter(|order| *order > before).max();
            assert_eq!(index.highest_order(start, end, before), highest);
            for key in overlapping().take(3) {
                assert_eq!(index.with_order(start, end, key.order), Some((*key, key.order as u32)));
            }
        }
    }

    #[test]
    fn the_latest_of_equal_ranges_is_found() {
        let mut index = Intervals::new(KEY);
        for order in 0..10_000 {
            index.insert(Interval { start: 0, end: 10, order }, 0);
        }
        for before in [1, 2, 77, 5000, 9999, 20_000] {
            assert_eq!(index.late_overlap(3, 4, before), Some((before.min(10_000) - 1, 0)));
        }
    }
}
