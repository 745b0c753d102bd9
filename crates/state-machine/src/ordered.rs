//! An index of texts in order that does not hold the texts: each entry is a code, from which whoever asks can find the
//! text, and four bytes of that text. Eight bytes an entry, against some seventy of an ordered map with texts as keys.
//!
//! Entries stand in sorted pieces. The texts of a piece begin alike, for they are neighbours, and the four bytes are
//! those that follow: they tell nearly all of them apart, so that a search looks at one or two texts in memory and not at
//! one for each step. Never decides anything by those bytes alone: where they are equal the texts are compared.

use alloc::vec::Vec;

use crate::resource::Resource;

/// Entries of one piece: few enough to be moved aside for one more, so many that the list of pieces stays short.
const PIECE: usize = 512;

/// The index.
#[derive(Debug)]
pub(crate) struct Ordered<C> {
    /// None is empty.
    pieces: Vec<Piece<C>>,
    len: usize,
}

#[derive(Debug)]
struct Piece<C> {
    /// Not after any text of this piece, and after every text of the piece before. Need not be here itself any more.
    from: Resource,
    /// So many bytes of `from` are the beginning of every text here.
    alike: usize,
    entries: Vec<Entry<C>>,
}

#[derive(Clone, Copy, Debug)]
struct Entry<C> {
    /// The four bytes after those that are alike, the first one highest.
    key: u32,
    code: C,
}

/// Where a text stands: the piece and the place in it.
type At = (usize, usize);

impl<C: Copy> Ordered<C> {
    pub(crate) fn new() -> Self {
        Ordered { pieces: Vec::new(), len: 0 }
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// The code of a text, if it is here. `text_of` gives the text of a code.
    pub(crate) fn get<'a>(&self, text: &str, text_of: impl Fn(C) -> &'a str) -> Option<C> {
        let (piece, place) = self.find(text, &text_of).ok()?;
        Some(self.pieces[piece].entries[place].code)
    }

    /// Puts a text in. If it is here already nothing changes, and its code is given.
    pub(crate) fn insert<'a>(
        &mut self,
        resource: &Resource,
        code: C,
        text_of: impl Fn(C) -> &'a str,
    ) -> Option<C> {
        match self.find(resource.text(), &text_of) {
            Ok((piece, place)) => return Some(self.pieces[piece].entries[place].code),
            Err(at) => self.insert_at(at, resource, code, &text_of),
        }
        self.len += 1;
        None
    }

    fn insert_at<'a>(
        &mut self,
        (piece, place): At,
        resource: &Resource,
        code: C,
        text_of: &impl Fn(C) -> &'a str,
    ) {
        let Some(here) = self.pieces.get_mut(piece) else {
            return self.pieces.push(Piece::of(resource, code));
        };
        if here.entries.len() < PIECE {
            return here.insert(place, resource, code, text_of);
        }
        if place == PIECE {
            // What comes in order fills whole pieces.
            return self.pieces.insert(piece + 1, Piece::of(resource, code));
        }
        let later = here.split(text_of);
        if place <= PIECE / 2 {
            here.insert(place, resource, code, text_of);
            self.pieces.insert(piece + 1, later);
        } else {
            self.pieces.insert(piece + 1, later);
            self.pieces[piece + 1].insert(place - PIECE / 2, resource, code, text_of);
        }
    }

    /// Takes a text out if `goes` says so of its code; the code, if the text was here.
    pub(crate) fn remove_if<'a>(
        &mut self,
        text: &str,
        text_of: impl Fn(C) -> &'a str,
        goes: impl FnOnce(C) -> bool,
    ) -> Option<C> {
        let (piece, place) = self.find(text, &text_of).ok()?;
        let code = self.pieces[piece].entries[place].code;
        if goes(code) {
            self.pieces[piece].entries.remove(place);
            self.len -= 1;
            // The code may be on its way out, so nobody asks for its text from here on.
            self.tidy(piece, &text_of);
        }
        Some(code)
    }

    /// Gives a text another code; the one it had, if it is here.
    pub(crate) fn recode<'a>(&mut self, text: &str, code: C, text_of: impl Fn(C) -> &'a str) -> Option<C> {
        let (piece, place) = self.find(text, &text_of).ok()?;
        Some(core::mem::replace(&mut self.pieces[piece].entries[place].code, code))
    }

    /// All codes in order, from the first whose text is not before `from`.
    pub(crate) fn iter_from<'a>(
        &self,
        from: &str,
        text_of: impl Fn(C) -> &'a str,
    ) -> impl Iterator<Item = C> {
        let (piece, place) = self.find(from, &text_of).unwrap_or_else(|at| at);
        let rest = self.pieces.get(piece..).unwrap_or_default().iter();
        rest.flat_map(|piece| &piece.entries).skip(place).map(|entry| entry.code)
    }

    /// A piece that has become empty goes, and one that has become small goes into its neighbour.
    fn tidy<'a>(&mut self, piece: usize, text_of: &impl Fn(C) -> &'a str) {
        let len = self.pieces[piece].entries.len();
        if len == 0 {
            self.pieces.remove(piece);
        } else if len <= PIECE / 4 {
            let first = if piece + 1 < self.pieces.len() { piece } else { piece.saturating_sub(1) };
            let together =
                self.pieces.iter().skip(first).take(2).map(|piece| piece.entries.len()).sum::<usize>();
            if first + 1 < self.pieces.len() && together <= PIECE / 2 {
                let second = self.pieces.remove(first + 1);
                let into = &mut self.pieces[first];
                into.entries.extend(second.entries);
                into.entries.shrink_to(PIECE / 2);
                into.find_alike(text_of);
            }
        }
    }

    /// Where a text stands, or else would stand.
    fn find<'a>(&self, text: &str, text_of: &impl Fn(C) -> &'a str) -> Result<At, At> {
        let not_after = |piece: &Piece<C>| piece.from.text() <= text;
        // Things that come in order are looked for in the last piece.
        let after = match self.pieces.last() {
            Some(last) if not_after(last) => self.pieces.len(),
            _ => self.pieces.partition_point(not_after),
        };
        let Some(number) = after.checked_sub(1) else { return Err((0, 0)) };
        let piece = &self.pieces[number];
        if !piece.is_alike(text) {
            // Not before `from`, and does not begin like all that stand here: it is after them.
            return Err((number, piece.entries.len()));
        }
        let key = key(text, piece.alike);
        let first = piece.entries.partition_point(|entry| entry.key < key);
        let rest = &piece.entries[first..];
        // Nearly always there is one or none.
        let equal = match rest {
            [one, two, ..] if one.key == key && two.key == key => {
                rest.partition_point(|entry| entry.key == key)
            }
            [one, ..] => usize::from(one.key == key),
            [] => 0,
        };
        let found = rest[..equal].binary_search_by(|entry| text_of(entry.code).cmp(text));
        found.map(|place| (number, first + place)).map_err(|place| (number, first + place))
    }
}

impl<C: Copy> Piece<C> {
    fn of(resource: &Resource, code: C) -> Piece<C> {
        let alike = resource.text().len();
        Piece { from: resource.clone(), alike, entries: Vec::from([Entry { key: 0, code }]) }
    }

    /// Whether a text that is not before `from` begins like all that stand here.
    fn is_alike(&self, text: &str) -> bool {
        text.as_bytes().get(..self.alike) == self.from.text().as_bytes().get(..self.alike)
    }

    fn insert<'a>(&mut self, place: usize, resource: &Resource, code: C, text_of: &impl Fn(C) -> &'a str) {
        if resource.text() < self.from.text() {
            self.from = resource.clone();
            self.find_alike(text_of);
        } else if !self.is_alike(resource.text()) {
            self.alike = alike(self.from.text(), resource.text());
            self.find_keys(text_of);
        }
        let key = key(resource.text(), self.alike);
        self.entries.insert(place, Entry { key, code });
    }

    /// Takes the later half out.
    fn split<'a>(&mut self, text_of: &impl Fn(C) -> &'a str) -> Piece<C> {
        let entries = self.entries.split_off(PIECE / 2);
        let from = entries.first().map(|entry| Resource::known(text_of(entry.code)));
        let mut later = Piece { from: from.unwrap_or(self.from.clone()), alike: self.alike, entries };
        later.find_alike(text_of);
        self.find_alike(text_of);
        later
    }

    /// Looks how far the texts here begin alike: `from` and the last one tell for all between them.
    fn find_alike<'a>(&mut self, text_of: &impl Fn(C) -> &'a str) {
        let last = self.entries.last().map_or(self.from.text(), |entry| text_of(entry.code));
        self.alike = alike(self.from.text(), last);
        self.find_keys(text_of);
    }

    fn find_keys<'a>(&mut self, text_of: &impl Fn(C) -> &'a str) {
        for entry in &mut self.entries {
            entry.key = key(text_of(entry.code), self.alike);
        }
    }
}

/// How many bytes two texts begin alike with.
fn alike(one: &str, other: &str) -> usize {
    one.bytes().zip(other.bytes()).take_while(|(one, other)| one == other).count()
}

/// The four bytes after the first `alike`; a text that ends before is filled up with zeros, which sort first.
fn key(text: &str, alike: usize) -> u32 {
    let rest = text.as_bytes().get(alike..).unwrap_or_default();
    let mut bytes = [0; 4];
    for (byte, from) in bytes.iter_mut().zip(rest) {
        *byte = *from;
    }
    u32::from_be_bytes(bytes)
}

#[cfg(test)]
mod tests {
    use alloc::collections::BTreeMap;
    use alloc::format;
    use alloc::string::String;

    use super::*;
    use crate::scatter::mix;

    /// Texts that begin alike for long, for short and not at all; some are the beginning of others.
    fn text(number: u64) -> String {
        match number % 5 {
            0 => format!("orders/region-{}/{:06}", number % 3, number),
            1 => format!("{:x}", mix(number)),
            2 => "a".repeat(1 + (number % 300) as usize),
            3 => format!("ünïcode-{number}"),
            _ => format!("{number}"),
        }
    }

    fn check(index: &Ordered<u32>, expected: &BTreeMap<String, u32>, texts: &[String]) {
        let text_of = |code: u32| texts[code as usize].as_str();
        assert_eq!(index.len(), expected.len());
        assert!(index.iter_from("", text_of).eq(expected.values().copied()));
        for from in ["a", "aaaaaaa", "orders", "orders/region-1/000500", "7", "zzz"] {
            let rest = expected.range(String::from(from)..).map(|(_, code)| *code);
            assert!(index.iter_from(from, text_of).eq(rest), "from {from}");
        }
        for piece in &index.pieces {
            assert!(!piece.entries.is_empty() && piece.entries.len() <= PIECE);
            assert!(piece.entries.iter().all(|entry| piece.is_alike(text_of(entry.code))));
            assert!(piece.entries.iter().all(|entry| piece.from.text() <= text_of(entry.code)));
            assert!(piece.entries.iter().all(|entry| entry.key == key(text_of(entry.code), piece.alike)));
        }
    }

    #[test]
    fn agrees_with_a_map() {
        let texts: Vec<String> = (0..8000).map(text).collect();
        let text_of = |code: u32| texts[code as usize].as_str();
        let mut index = Ordered::new();
        let mut map: BTreeMap<String, u32> = BTreeMap::new();
        for step in 0..50_000 {
            // Grows, and then shrinks.
            let grows = if step < 25_000 { 3 } else { 1 };
            let code = (mix(step) % texts.len() as u64) as u32;
            let text = text_of(code);
            assert_eq!(index.get(text, text_of), map.get(text).copied());
            match (mix(!step) % 4 < grows, map.contains_key(text)) {
                (true, false) => {
                    assert_eq!(index.insert(&Resource::known(text), code, text_of), None);
                    map.insert(text.into(), code);
                }
                (true, true) => {
                    assert_eq!(index.insert(&Resource::known(text), code, text_of), map.get(text).copied());
                    assert_eq!(index.recode(text, code, text_of), map.insert(text.into(), code));
                }
                (false, there) => {
                    assert_eq!(index.remove_if(text, text_of, |_| false), map.get(text).copied());
                    assert_eq!(index.get(text, text_of).is_some(), there);
                    assert_eq!(index.remove_if(text, text_of, |_| true), map.remove(text));
                }
            }
            if step % 1000 == 0 {
                check(&index, &map, &texts);
            }
        }
        while let Some((text, code)) = map.pop_first() {
            assert_eq!(index.remove_if(&text, text_of, |_| true), Some(code));
            if map.len().is_multiple_of(100) {
                check(&index, &map, &texts);
            }
        }
        assert!(index.pieces.is_empty());
    }

    #[test]
    fn what_comes_in_order_leaves_no_room_unused() {
        let texts: Vec<String> = (0..10_000).map(|number| format!("job-{number:07}")).collect();
        let text_of = |code: u32| texts[code as usize].as_str();
        let mut index = Ordered::new();
        for (code, text) in (0..).zip(&texts) {
            assert_eq!(index.insert(&Resource::known(text), code, text_of), None);
        }
        assert_eq!(index.pieces.len(), texts.len().div_ceil(PIECE));
        assert!(index.iter_from("", text_of).eq(0..10_000));
    }
}
