//! One file of the load as it must be: who appended what, which of it the server acknowledged and where, and whether the bytes
//! that are read back are those. Sees only what writers were told and what readers read; asks no server.

use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The shortest append: what a record says of itself fits in.
pub const RECORD_BYTES_MIN: usize = 64;

/// One append: who made it, as which of its own, and under which token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Entry {
    pub client: usize,
    pub number: u64,
    pub token: u64,
}

impl Entry {
    /// The bytes that are appended: no two appends of a run have the same, and each says whose it is.
    pub fn record(self, bytes: usize) -> Vec<u8> {
        let Entry { client, number, token } = self;
        let mut record = format!("{client} {number} {token} ").into_bytes();
        let mut state = (client as u64).rotate_left(40) ^ number ^ token.rotate_left(20);
        while record.len() < bytes {
            // Steps of SplitMix64: cheap, and nowhere the same.
            state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            record.extend_from_slice(&(mixed ^ (mixed >> 27)).to_le_bytes());
        }
        record.truncate(bytes);
        record
    }

    /// Whose bytes these are, by their own word.
    fn said_by(record: &[u8]) -> Option<Entry> {
        let mut words =
            record.split(|byte| *byte == b' ').map(|word| std::str::from_utf8(word).ok()?.parse().ok());
        let mut word = || -> Option<u64> { words.next().flatten() };
        Some(Entry { client: usize::try_from(word()?).ok()?, number: word()?, token: word()? })
    }
}

/// What the server answered to an append.
#[derive(Clone, Copy, Debug)]
pub struct Answered {
    pub offset: u64,
    pub length: u64,
    pub size: u64,
}

/// What is known of one file.
#[derive(Debug)]
pub struct Ledger {
    pub name: String,
    record_bytes: usize,
    known: Mutex<Known>,
}

#[derive(Debug, Default)]
struct Known {
    /// Acknowledged appends, by the record of the file that they are.
    acknowledged: HashMap<u64, Entry>,
    /// Appends of which nobody knows whether they were made.
    unsure: HashSet<Entry>,
    /// The end of the last acknowledged append.
    end: u64,
}

/// A read of the file from its beginning, record by record.
#[derive(Debug)]
pub struct Reading<'l> {
    ledger: &'l Ledger,
    /// Bytes of a record that is not whole yet.
    begun: Vec<u8>,
    records: u64,
    acknowledged: u64,
    highest_token: u64,
    wrong: Vec<String>,
}

/// What a read of the whole file showed.
#[derive(Debug)]
pub struct Shown {
    /// Acknowledged appends that were found where they belong.
    pub found: u64,
    /// What is not as it must be, in words.
    pub wrong: Vec<String>,
}

impl Ledger {
    /// Nothing was appended yet to this file, whose records have so many bytes.
    pub fn new(name: String, record_bytes: usize) -> Ledger {
        Ledger { name, record_bytes, known: Mutex::default() }
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Call it before an append is sent: whatever was acknowledged by now lies before it.
    pub fn end(&self) -> u64 {
        self.known().end
    }

    /// An append was acknowledged that was sent when the file had this end. Says what is wrong with the answer.
    pub fn acknowledge(&self, entry: Entry, sent_at_end: u64, answered: Answered) -> Option<String> {
        let bytes = self.record_bytes as u64;
        let Answered { offset, length, size } = answered;
        let mut known = self.known();
        known.end = known.end.max(offset.saturating_add(bytes));
        let before = known.acknowledged.insert(offset / bytes, entry);
        let Entry { client, number, .. } = entry;
        let wrong = if length != bytes
            || !offset.is_multiple_of(bytes)
            || size != offset.saturating_add(length)
        {
            format!("it was answered as {length} bytes at {offset}, after which the file has {size}")
        } else if offset < sent_at_end {
            format!(
                "it was put at {offset}, before what was acknowledged when it was sent: that ends at {sent_at_end}"
            )
        } else if let Some(Entry { client, number, .. }) = before {
            format!("it was put at {offset}, where append {number} of client {client} is")
        } else {
            return None;
        };
        Some(format!("append {number} of client {client} to {}, {bytes} bytes: {wrong}", self.name))
    }

    /// An append may have been made, or be made yet.
    pub fn unsure(&self, entry: Entry) {
        self.known().unsure.insert(entry);
    }

    /// Whether any append was acknowledged, so that the file must be there.
    pub fn has_any(&self) -> bool {
        !self.known().acknowledged.is_empty()
    }

    /// Whether any append was acknowledged or may have been made, so that the file can be there.
    pub fn may_have_any(&self) -> bool {
        let known = self.known();
        !known.acknowledged.is_empty() || !known.unsure.is_empty()
    }

    /// The beginning of a read.
    pub fn reading(&self) -> Reading<'_> {
        let (begun, wrong) = (Vec::new(), Vec::new());
        Reading { ledger: self, begun, records: 0, acknowledged: 0, highest_token: 0, wrong }
    }
}

impl Reading<'_> {
    /// The next bytes of the file.
    pub fn read(&mut self, mut piece: &[u8]) {
        let bytes = self.ledger.record_bytes;
        while !piece.is_empty() {
            let (now, later) = piece.split_at(piece.len().min(bytes - self.begun.len()));
            piece = later;
            self.begun.extend_from_slice(now);
            if self.begun.len() == bytes {
                let record = std::mem::take(&mut self.begun);
                self.judge(&record);
                self.begun = record;
                self.begun.clear();
            }
        }
    }

    fn judge(&mut self, record: &[u8]) {
        let at = self.records;
        self.records += 1;
        let mut known = self.ledger.known();
        let acknowledged = known.acknowledged.get(&at).copied();
        // Whatever nobody was told of was sent by somebody all the same, and is there once.
        let expected = match acknowledged {
            None => Entry::said_by(record).filter(|entry| known.unsure.remove(entry)),
            acknowledged => acknowledged,
        };
        drop(known);
        let name = &self.ledger.name;
        match expected {
            Some(entry) if entry.record(record.len()) == record => {
                self.acknowledged += u64::from(acknowledged.is_some());
                if entry.token < self.highest_token {
                    self.wrong.push(format!(
                        "record {at} of {name} was written under the token {} after one under {}",
                        entry.token, self.highest_token
                    ));
                }
                self.highest_token = self.highest_token.max(entry.token);
            }
            Some(Entry { client, number, .. }) => {
                self.wrong.push(format!(
                    "record {at} of {name} is not append {number} of client {client}, as it must be"
                ));
            }
            None => self.wrong.push(format!("record {at} of {name} was sent by nobody, or is there twice")),
        }
    }

    /// The end of the read. The file says of itself that it has this size and highest token.
    pub fn end(mut self, size: u64, token: u64) -> Shown {
        let name = &self.ledger.name;
        let read = self.records * self.ledger.record_bytes as u64 + self.begun.len() as u64;
        if !self.begun.is_empty() {
            self.wrong.push(format!("{name} ends with {} bytes that are no whole append", self.begun.len()));
        }
        if size != read {
            self.wrong.push(format!("{name} is said to have {size} bytes, and {read} were read"));
        }
        // Records that are not what they must be have told no token.
        if self.wrong.is_empty() && token != self.highest_token {
            self.wrong.push(format!(
                "{name} is said to be written under {token} at last, not {}",
                self.highest_token
            ));
        }
        let known = self.ledger.known();
        let beyond = known.acknowledged.keys().filter(|at| **at >= self.records).count();
        if beyond > 0 {
            self.wrong.push(format!("{name} ends before {beyond} acknowledged appends"));
        }
        Shown { found: self.acknowledged, wrong: self.wrong }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BYTES: usize = 100;

    fn entry(client: usize, number: u64, token: u64) -> Entry {
        Entry { client, number, token }
    }

    fn answered(record: u64) -> Answered {
        let offset = record * BYTES as u64;
        Answered { offset, length: BYTES as u64, size: offset + BYTES as u64 }
    }

    /// A file with these acknowledged appends, in this order.
    fn ledger(entries: &[Entry]) -> Ledger {
        let ledger = Ledger::new("a".into(), BYTES);
        for (at, entry) in entries.iter().enumerate() {
            assert_eq!(ledger.acknowledge(*entry, ledger.end(), answered(at as u64)), None);
        }
        ledger
    }

    fn bytes(entries: &[Entry]) -> Vec<u8> {
        entries.iter().flat_map(|entry| entry.record(BYTES)).collect()
    }

    /// What a read of these bytes shows.
    fn shown(ledger: &Ledger, bytes: &[u8], token: u64) -> Shown {
        let mut reading = ledger.reading();
        bytes.chunks(33).for_each(|piece| reading.read(piece));
        reading.end(bytes.len() as u64, token)
    }

    /// The one thing that is wrong.
    fn wrong(shown: Shown) -> String {
        let [sentence] = &shown.wrong[..] else { panic!("{:?}", shown.wrong) };
        sentence.clone()
    }

    const THREE: [Entry; 3] = [
        Entry { client: 0, number: 0, token: 5 },
        Entry { client: 1, number: 0, token: 7 },
        Entry { client: 0, number: 1, token: 7 },
    ];

    #[test]
    fn acknowledged_appends_in_their_order_are_as_it_should_be() {
        let shown = shown(&ledger(&THREE), &bytes(&THREE), 7);
        assert_eq!((shown.found, shown.wrong), (3, vec![]));
    }

    #[test]
    fn records_say_whose_they_are_and_are_all_different() {
        for bytes in [RECORD_BYTES_MIN, 1024] {
            let entry = entry(99_999, 1 << 40, (1 << 53) - 1);
            let record = entry.record(bytes);
            assert_eq!((record.len(), Entry::said_by(&record)), (bytes, Some(entry)));
        }
        assert_ne!(THREE[1].record(BYTES)[10..], THREE[2].record(BYTES)[10..]);
        assert_eq!(Entry::said_by(b"anything else"), None);
    }

    #[test]
    fn a_lost_a_doubled_and_a_changed_append_are_seen() {
        assert!(wrong(shown(&ledger(&THREE), &bytes(&THREE[..2]), 7)).contains("before 1 acknowledged"));
        let doubled = [&THREE[..], &THREE[2..]].concat();
        assert!(wrong(shown(&ledger(&THREE), &bytes(&doubled), 7)).contains("by nobody, or is there twice"));
        for at in [0, BYTES, 3 * BYTES - 1] {
            let mut changed = bytes(&THREE);
            changed[at] ^= 1;
            assert!(wrong(shown(&ledger(&THREE), &changed, 7)).contains("is not append"), "{at}");
        }
        let exchanged = [THREE[0], THREE[2], THREE[1]];
        assert_eq!(shown(&ledger(&THREE), &bytes(&exchanged), 7).wrong.len(), 2);
    }

    #[test]
    fn half_an_append_a_wrong_size_and_a_wrong_token_are_seen() {
        let mut torn = bytes(&THREE);
        torn.extend_from_slice(b"0 2");
        assert!(wrong(shown(&ledger(&THREE), &torn, 7)).contains("3 bytes that are no whole append"));
        let ledger = ledger(&THREE);
        let mut reading = ledger.reading();
        reading.read(&bytes(&THREE));
        assert!(wrong(reading.end(299, 7)).contains("said to have 299 bytes"));
        assert!(wrong(shown(&ledger, &bytes(&THREE), 5)).contains("under 5 at last, not 7"));
    }

    #[test]
    fn a_write_of_a_former_holder_after_that_of_a_later_one_is_seen() {
        let stale = [THREE[1], THREE[0]];
        assert!(
            wrong(shown(&ledger(&stale), &bytes(&stale), 7)).contains("under the token 5 after one under 7")
        );
    }

    #[test]
    fn what_nobody_was_told_of_is_there_once_or_not_at_all() {
        let unsure = entry(3, 8, 7);
        for (there, wrongs) in [(0, 0), (1, 0), (2, 1)] {
            let ledger = ledger(&THREE[..2]);
            ledger.unsure(unsure);
            let all = [&THREE[..2], &vec![unsure; there]].concat();
            let shown = shown(&ledger, &bytes(&all), 7);
            assert_eq!((shown.found, shown.wrong.len()), (2, wrongs), "{there}: {:?}", shown.wrong);
        }
        let ledger = Ledger::new("a".into(), BYTES);
        assert!(!ledger.may_have_any());
        ledger.unsure(unsure);
        assert!(ledger.may_have_any() && !ledger.has_any());
    }

    #[test]
    fn answers_that_cannot_be_are_seen() {
        let say = |at_end, answered| ledger(&THREE[..2]).acknowledge(THREE[2], at_end, answered).unwrap();
        assert!(say(0, Answered { length: 99, ..answered(2) }).contains("answered as 99 bytes"));
        assert!(say(0, Answered { offset: 201, length: 100, size: 301 }).contains("at 201"));
        assert!(say(0, Answered { size: 400, ..answered(2) }).contains("has 400"));
        assert!(say(0, answered(1)).contains("where append 0 of client 1 is"));
        assert!(say(200, answered(1)).contains("that ends at 200"));
        assert!(
            say(0, Answered { offset: u64::MAX, length: 100, size: 99 }).contains("append 1 of client 0")
        );
    }
}
