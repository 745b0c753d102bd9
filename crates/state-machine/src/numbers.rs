//! Things by numbers that count up, as a client of a stream counts its requests. Those of late lie in a row, in which each is
//! found at once; what stays for long moves to a map, and so does what lies behind when somebody leaps ahead. So no row is
//! much longer than what is in it, whatever numbers somebody chooses.

use alloc::collections::{BTreeMap, VecDeque};

/// A row of so many places is never too long.
const ROW_MIN: usize = 64;

/// Things in the order of their numbers.
#[derive(Debug)]
pub struct Numbers<T> {
    /// Every number of these is below those of the row.
    old: BTreeMap<u64, T>,
    /// The number of the row's first place.
    first: u64,
    row: VecDeque<Option<T>>,
    /// How many places of the row are taken.
    taken: usize,
}

impl<T> Default for Numbers<T> {
    fn default() -> Self {
        Numbers { old: BTreeMap::new(), first: 0, row: VecDeque::new(), taken: 0 }
    }
}

impl<T> Numbers<T> {
    /// What has this number.
    pub fn get(&self, number: u64) -> Option<&T> {
        match self.place(number) {
            Some(place) => self.row.get(place)?.as_ref(),
            None => self.old.get(&number),
        }
    }

    /// The same, to be changed.
    pub fn get_mut(&mut self, number: u64) -> Option<&mut T> {
        match self.place(number) {
            Some(place) => self.row.get_mut(place)?.as_mut(),
            None => self.old.get_mut(&number),
        }
    }

    /// Puts one in. Gives what had this number before.
    pub fn insert(&mut self, number: u64, thing: T) -> Option<T> {
        let Some(place) = self.place(number) else { return self.old.insert(number, thing) };
        if place >= room_for(self.taken + 1) {
            self.begin_anew(number);
            self.row.push_back(Some(thing));
            self.taken = 1;
            return None;
        }
        while self.row.len() <= place {
            self.row.push_back(None);
        }
        let before = self.row[place].replace(thing);
        self.taken += usize::from(before.is_none());
        before
    }

    /// Takes one out.
    pub fn remove(&mut self, number: u64) -> Option<T> {
        let Some(place) = self.place(number) else { return self.old.remove(&number) };
        let thing = self.row.get_mut(place)?.take()?;
        self.taken -= 1;
        self.shorten();
        Some(thing)
    }

    /// Takes out everything up to a number that `stays` does not name.
    pub fn take_through(&mut self, last: u64, stays: impl Fn(u64) -> bool, mut out: impl FnMut(T)) {
        self.old.extract_if(..=last, |number, _| !stays(*number)).for_each(|(_, thing)| out(thing));
        let places = self.place(last).map_or(0, |place| self.row.len().min(place.saturating_add(1)));
        for (place, thing) in self.row.range_mut(..places).enumerate() {
            if thing.is_some() && !stays(self.first + place as u64) {
                self.taken -= 1;
                thing.take().into_iter().for_each(&mut out);
            }
        }
        self.shorten();
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.old.len() + self.taken
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// All of them, in order.
    pub fn iter(&self) -> impl Iterator<Item = (u64, &T)> {
        let row = self.row.iter().enumerate();
        let row = row.filter_map(|(place, thing)| Some((self.first + place as u64, thing.as_ref()?)));
        self.old.iter().map(|(number, thing)| (*number, thing)).chain(row)
    }

    /// Where in the row a number stands, or would stand; none for one that lies before it.
    fn place(&self, number: u64) -> Option<usize> {
        number.checked_sub(self.first).map(|place| usize::try_from(place).unwrap_or(usize::MAX))
    }

    /// Begins the row without empty places, and without those that stand far before the others.
    fn shorten(&mut self) {
        while let Some(front) = self.row.front()
            && (front.is_none() || self.row.len() > room_for(self.taken))
        {
            if let Some(thing) = self.row.pop_front().flatten() {
                self.old.insert(self.first, thing);
                self.taken -= 1;
            }
            // Behind the largest number there is none that could come.
            self.first = self.first.saturating_add(1);
        }
    }

    /// Begins the row at this number, which lies behind all others.
    fn begin_anew(&mut self, first: u64) {
        let row = self.row.drain(..).enumerate();
        self.old.extend(row.filter_map(|(place, thing)| Some((self.first + place as u64, thing?))));
        self.first = first;
    }
}

/// How long a row may be that has so many in it.
fn room_for(taken: usize) -> usize {
    taken.saturating_mul(2).saturating_add(ROW_MIN)
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    /// Against the plainest way to do it, with numbers in order, in disorder, and leaping ahead.
    #[test]
    fn is_as_a_map_would_be() {
        let (mut numbers, mut map) = (Numbers::default(), BTreeMap::new());
        let (mut drawn, mut next): (u64, u64) = (7, 1);
        for step in 0..60_000_u64 {
            drawn = drawn.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let (kind, draw) = (drawn >> 59, (drawn >> 20) % 200);
            match kind {
                0..16 => {
                    next += 1;
                    assert_eq!(numbers.insert(next, step), map.insert(next, step));
                }
                16..22 => {
                    let number = next.saturating_sub(draw);
                    assert_eq!(numbers.insert(number, step), map.insert(number, step));
                }
                22..28 => {
                    let number = next.saturating_sub(draw);
                    assert_eq!(numbers.remove(number), map.remove(&number));
                }
                28 if draw == 0 => next += 1 << 40,
                28 => next += draw,
                29..31 => {
                    let last = next.saturating_sub(draw);
                    let stays = |number: u64| number.is_multiple_of(17);
                    let mut out = Vec::new();
                    numbers.take_through(last, stays, |thing| out.push(thing));
                    let gone = map.extract_if(..=last, |number, _| !stays(*number));
                    assert!(gone.map(|(_, thing)| thing).eq(out));
                }
                _ => {
                    assert_eq!((numbers.len(), numbers.is_empty()), (map.len(), map.is_empty()));
                    let number = next.saturating_sub(draw);
                    if let Some(thing) = map.get_mut(&number) {
                        *thing += 1;
                        numbers.get_mut(number).into_iter().for_each(|thing| *thing += 1);
                    }
                    assert_eq!(numbers.get_mut(number), map.get_mut(&number));
                    assert!(numbers.iter().eq(map.iter().map(|(number, thing)| (*number, thing))));
                    let about = next.saturating_sub(300)..next + 3;
                    assert!(about.clone().all(|number| numbers.get(number) == map.get(&number)));
                }
            }
            assert!(
                numbers.row.len() <= room_for(numbers.taken).max(ROW_MIN),
                "no longer than what is in it"
            );
        }
        assert!(numbers.old.len() > 100 && map.len() > numbers.taken, "both parts had something to do");
    }

    #[test]
    fn the_largest_number_is_one_too() {
        let mut numbers = Numbers::default();
        assert_eq!((numbers.insert(u64::MAX, 'z'), numbers.insert(0, 'a')), (None, None));
        assert!(numbers.iter().eq([(0, &'a'), (u64::MAX, &'z')]));
        let mut out = Vec::new();
        numbers.take_through(u64::MAX, |_| false, |thing| out.push(thing));
        assert_eq!((out, numbers.len(), numbers.get(u64::MAX)), (alloc::vec!['a', 'z'], 0, None));
        assert_eq!((numbers.insert(5, 'b'), numbers.remove(5), numbers.remove(5)), (None, Some('b'), None));
    }
}
