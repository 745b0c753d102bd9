//! Decided, but not yet durable: replies and events that nobody may hear of until the disk has what they rest on. Who is
//! told of bytes in a file also waits until they are there. Never lets anything out early, and lets nothing out twice.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use leasehold_planted::{Bug, planted};
use leasehold_state_machine::answer::Reply;
use leasehold_state_machine::event::{Event, Seq};
use leasehold_state_machine::{EndedNotice, QueuedNotice};

use crate::chapter::Chapter;

/// Something that somebody should hear before they ask.
#[derive(Clone, Debug)]
pub enum Unasked {
    /// An attempt stands in line.
    Queued(QueuedNotice),
    /// A lease of a session ended.
    Ended(EndedNotice),
}

/// What waits for the disk.
#[derive(Debug)]
pub struct Withheld {
    /// Everything up to here is durable.
    durable: Seq,
    /// Replies that wait for nothing more, in order.
    ready: Vec<Reply>,
    /// Replies and the event that each waits for, in its order: nearly all come in that order...
    in_order: VecDeque<(Seq, Reply)>,
    /// ...and these did not.
    out_of_order: BTreeMap<Seq, Vec<Reply>>,
    /// Replies that were given away to be packed and wait for a batch that is not handed out yet...
    gathered: Packed,
    /// ...or for the one in flight...
    handed_out: Packed,
    /// ...or for nothing more.
    ready_packed: usize,
    /// What nobody asked for, by the event it waits for, in order.
    unasked: VecDeque<(Seq, Unasked)>,
    /// The newest event of all that were decided.
    decided: Seq,
    /// The newest of them that somebody may wait to hear of.
    newsworthy: Seq,
    /// What was handed to the journal, in order.
    chapters: VecDeque<Chapter>,
    /// Events that change files and have not done so yet.
    unapplied: BTreeSet<Seq>,
    /// Replies that wait for nothing but one of those.
    applying: BTreeMap<Seq, Vec<Reply>>,
}

/// Replies that were given away: how many, and for which event the last of them waits.
#[derive(Debug, Default)]
struct Packed {
    count: usize,
    latest: Seq,
}

impl Withheld {
    /// Nothing waits, and everything up to `durable` is on disk.
    pub fn after(durable: Seq) -> Withheld {
        Withheld {
            durable,
            ready: Vec::new(),
            in_order: VecDeque::new(),
            out_of_order: BTreeMap::new(),
            gathered: Packed::default(),
            handed_out: Packed::default(),
            ready_packed: 0,
            unasked: VecDeque::new(),
            decided: durable,
            newsworthy: durable,
            chapters: VecDeque::new(),
            unapplied: BTreeSet::new(),
            applying: BTreeMap::new(),
        }
    }

    /// Keeps a reply until this event is durable.
    pub fn reply(&mut self, reply: Reply, after: Seq) {
        if after <= self.durable {
            self.rests_on_the_disk(reply);
        } else if self.in_order.back().is_none_or(|(last, _)| *last <= after) {
            self.in_order.push_back((after, reply));
        } else {
            self.out_of_order.entry(after).or_default().push(reply);
        }
    }

    /// Gives away the replies that wait for a batch which is not handed out yet, to be packed. They may be told when as many are
    /// ready. Those stay that wait for bytes in a file too, or are not wanted before their time.
    pub fn take_to_pack(&mut self, wanted: impl Fn(&Reply) -> bool, into: &mut Vec<Reply>) {
        let handed_out = self.last_handed_out();
        let from = self.in_order.partition_point(|(after, _)| *after <= handed_out);
        for (after, reply) in self.in_order.drain(from..) {
            if reply.applied.is_none() && wanted(&reply) {
                self.gathered.count += 1;
                self.gathered.latest = self.gathered.latest.max(after);
                into.push(reply);
            } else {
                self.out_of_order.entry(after).or_default().push(reply);
            }
        }
    }

    /// How many of those given away may be told by now, each counted once.
    pub fn take_ready_packed(&mut self) -> usize {
        std::mem::take(&mut self.ready_packed)
    }

    /// Keeps what nobody asked for until this event is durable.
    pub fn unasked(&mut self, news: Unasked, after: Seq) {
        // They come in the order of what they rest on, but for the order of their kinds within a turn.
        let at = self.unasked.partition_point(|(seq, _)| *seq <= after);
        self.unasked.insert(at, (after, news));
    }

    /// Takes note of an event that was decided.
    pub fn event(&mut self, seq: Seq, event: &Event) {
        assert_eq!(seq, self.decided + 1, "events are decided in order, without a gap");
        self.decided = seq;
        match event {
            // Nobody who stands in line, or has only said which answers it has, waits for the disk.
            Event::Queued { .. } | Event::Marked { .. } => {}
            Event::FileWritten { .. } | Event::FileDeleted { .. } => {
                self.unapplied.insert(seq);
                self.newsworthy = seq;
            }
            _ => self.newsworthy = seq,
        }
    }

    /// Keeps what was handed to the journal until it is durable. Says how many of the replies that were given away leave then: all or
    /// none.
    pub fn chapter(&mut self, chapter: Chapter) -> usize {
        let last_seq = chapter.last_seq();
        assert!(self.last_handed_out() < last_seq, "batches are handed to the journal in order");
        self.chapters.push_back(chapter);
        assert_eq!(self.handed_out.count, 0, "one batch is with the journal at a time");
        if self.gathered.latest <= last_seq {
            self.handed_out = std::mem::take(&mut self.gathered);
        }
        self.handed_out.count
    }

    fn last_handed_out(&self) -> Seq {
        self.chapters.back().map_or(0, Chapter::last_seq).max(self.durable)
    }

    /// Takes note that everything up to `seq` is durable.
    pub fn durable(&mut self, seq: Seq) {
        assert!(seq >= self.durable, "what was durable stays so");
        self.durable = seq;
        let packed = std::mem::take(&mut self.handed_out);
        assert!(packed.latest <= seq, "what was packed waits for the batch that was handed out");
        self.ready_packed += packed.count;
        loop {
            let first = self.in_order.front().map_or(Seq::MAX, |(after, _)| *after);
            // Of those that wait for the same event, the ones out of order came later, or were left when others were packed.
            if let Some(entry) = self.out_of_order.first_entry()
                && *entry.key() < first
                && *entry.key() <= seq
            {
                entry.remove().into_iter().for_each(|reply| self.rests_on_the_disk(reply));
            } else if first <= seq
                && let Some((_, reply)) = self.in_order.pop_front()
            {
                self.rests_on_the_disk(reply);
            } else {
                break;
            }
        }
    }

    /// Takes note that what an event changes in a file is there.
    pub fn applied(&mut self, seq: Seq) {
        assert!(self.unapplied.remove(&seq), "what is applied was handed out, once");
        self.ready.extend(self.applying.remove(&seq).unwrap_or_default());
    }

    /// A reply whose events are durable leaves, unless it speaks of bytes that are not in their file.
    fn rests_on_the_disk(&mut self, reply: Reply) {
        match reply.applied {
            Some(seq) if self.unapplied.contains(&seq) && !planted(Bug::WriteToldEarly) => {
                self.applying.entry(seq).or_default().push(reply);
            }
            _ => self.ready.push(reply),
        }
    }

    /// Replies that may leave now, in order, into an empty list.
    pub fn take_replies(&mut self, into: &mut Vec<Reply>) {
        assert!(into.is_empty(), "the list is exchanged for that of the replies");
        std::mem::swap(into, &mut self.ready);
    }

    /// What nobody asked for and may be said now, in order.
    pub fn take_unasked(&mut self, into: &mut Vec<Unasked>) {
        let count = self.unasked.partition_point(|(seq, _)| *seq <= self.durable);
        into.extend(self.unasked.drain(..count).map(|(_, news)| news));
    }

    /// What may be told now, in order.
    pub fn take_chapters(&mut self, into: &mut Vec<Chapter>) {
        let count = self.chapters.partition_point(|chapter| chapter.last_seq() <= self.durable);
        into.extend(self.chapters.drain(..count));
    }

    /// Whether somebody waits for the disk: for an answer, or to hear of anything but a place in line.
    pub fn is_awaited(&self) -> bool {
        let answers = !(self.in_order.is_empty() && self.out_of_order.is_empty());
        let packed = self.gathered.count + self.handed_out.count > 0;
        answers || packed || self.newsworthy > self.durable
    }

    /// Whether anything still waits.
    pub fn is_empty(&self) -> bool {
        let replies = self.ready.is_empty() && self.in_order.is_empty() && self.out_of_order.is_empty();
        let packed = self.gathered.count + self.handed_out.count + self.ready_packed == 0;
        replies && packed && self.unasked.is_empty() && self.chapters.is_empty() && self.unapplied.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chapter::Told;
    use leasehold_state_machine::answer::Answer;
    use leasehold_state_machine::command::Attachment;
    use leasehold_state_machine::event::LeaseName;
    use leasehold_state_machine::file::{FileBytes, FileName};
    use leasehold_state_machine::ids::ClientKey;
    use leasehold_state_machine::resource::Resource;
    use leasehold_state_machine::words::{Mode, Owner};

    fn reply(to: u64, after: Seq) -> Reply {
        let outcome = Ok(Answer::Closed);
        Reply { to: Attachment(to), outcome, after, promises_time: false, applied: None }
    }

    /// Decides an event, and hands it to the journal by itself.
    fn decide(withheld: &mut Withheld, seq: Seq, event: Event) {
        withheld.event(seq, &event);
        assert_eq!(withheld.chapter(Chapter::of([(seq, 0, event)])), 0, "nothing is packed");
    }

    fn told(withheld: &mut Withheld) -> Vec<Told> {
        let mut chapters = Vec::new();
        withheld.take_chapters(&mut chapters);
        chapters.iter().flat_map(Chapter::read).collect()
    }

    fn out(withheld: &mut Withheld) -> (Vec<u64>, Vec<Seq>) {
        let mut replies = Vec::new();
        withheld.take_replies(&mut replies);
        let replies = replies.iter().map(|reply| reply.to.0).collect();
        (replies, told(withheld).iter().map(|(seq, _, _)| *seq).collect())
    }

    #[test]
    fn everything_leaves_once_in_order_and_not_before_its_time() {
        let mut withheld = Withheld::after(4);
        for seq in 5..=7 {
            decide(&mut withheld, seq, Event::GrantsResumed);
        }
        for (to, after) in [(9, 5), (1, 7), (2, 5), (3, 4), (4, 5), (5, 6), (6, 7), (7, 6)] {
            withheld.reply(reply(to, after), after);
        }
        assert_eq!(out(&mut withheld), (vec![3], vec![]));
        withheld.durable(5);
        assert_eq!(out(&mut withheld), (vec![9, 2, 4], vec![5]));
        assert_eq!(out(&mut withheld), (vec![], vec![]));
        withheld.durable(7);
        assert_eq!(out(&mut withheld), (vec![5, 7, 1, 6], vec![6, 7]));
        assert!(withheld.is_empty());
    }

    #[test]
    fn a_place_in_line_is_awaited_by_nobody() {
        let marked = || Event::Marked { client: ClientKey([1, 2]), answered_through: 3, open: Vec::new() };
        let mut withheld = Withheld::after(4);
        assert!(!withheld.is_awaited());
        decide(&mut withheld, 5, marked());
        assert!(!withheld.is_awaited());
        withheld.reply(reply(1, 4), 4);
        assert!(!withheld.is_awaited(), "that one has all it needs");
        withheld.reply(reply(2, 5), 5);
        assert!(withheld.is_awaited());
        withheld.durable(5);
        assert_eq!(out(&mut withheld), (vec![1, 2], vec![5]));
        assert!(!withheld.is_awaited());
        decide(&mut withheld, 6, marked());
        decide(&mut withheld, 7, Event::GrantsResumed);
        assert!(withheld.is_awaited());
    }

    #[test]
    fn who_is_told_of_bytes_waits_until_they_are_in_the_file() {
        let mut withheld = Withheld::after(4);
        let written = |seq| file_written(seq, b"hello");
        decide(&mut withheld, 5, written(5));
        decide(&mut withheld, 6, written(6));
        decide(&mut withheld, 7, Event::GrantsResumed);
        for (to, applied) in [(1, Some(5)), (2, Some(6)), (3, None), (4, Some(6)), (5, Some(3))] {
            withheld.reply(Reply { applied, ..reply(to, 7) }, 7);
        }
        withheld.applied(6);
        assert_eq!(out(&mut withheld), (vec![], vec![]), "also what is applied is told only when durable");
        withheld.durable(7);
        let events = told(&mut withheld);
        assert!(matches!(&events[0].2, Event::FileWritten { bytes, .. } if bytes.len() == 5));
        assert_eq!(format!("{:?}", events[0].2), format!("{:?}", written(5).without_bytes()));
        assert_eq!(out(&mut withheld), (vec![2, 3, 4, 5], vec![]));
        assert!(!withheld.is_empty());
        withheld.reply(Reply { applied: Some(5), ..reply(6, 7) }, 7);
        withheld.applied(5);
        assert_eq!(out(&mut withheld), (vec![1, 6], vec![]));
        assert!(withheld.is_empty());
    }

    #[test]
    fn what_is_packed_is_counted_once_and_when_its_batch_is_durable() {
        let mut withheld = Withheld::after(4);
        let pack = |withheld: &mut Withheld, unwanted: u64| {
            let mut packed = Vec::new();
            withheld.take_to_pack(|reply| reply.to.0 != unwanted, &mut packed);
            packed.iter().map(|reply| reply.to.0).collect::<Vec<_>>()
        };
        withheld.event(5, &Event::GrantsResumed);
        withheld.reply(reply(1, 5), 5);
        assert_eq!(pack(&mut withheld, 0), [1]);
        assert!(withheld.is_awaited() && !withheld.is_empty());
        assert_eq!(withheld.chapter(Chapter::of([(5, 0, Event::GrantsResumed)])), 1);

        // While that is with the disk: what rests on it is not packed any more, nor what waits for bytes, nor what is not wanted.
        withheld.event(6, &Event::GrantsResumed);
        withheld.event(7, &Event::GrantsResumed);
        for (to, after) in [(2, 5), (3, 6), (4, 7)] {
            withheld.reply(reply(to, after), after);
        }
        withheld.reply(Reply { applied: Some(7), ..reply(5, 7) }, 7);
        assert_eq!(pack(&mut withheld, 4), [3]);
        assert_eq!(withheld.take_ready_packed(), 0);
        withheld.durable(5);
        assert_eq!((withheld.take_ready_packed(), withheld.take_ready_packed()), (1, 0));
        assert_eq!(out(&mut withheld).0, [2]);

        // A batch that is cut before what it waits for goes without it.
        withheld.event(8, &Event::GrantsResumed);
        withheld.reply(reply(6, 8), 8);
        assert_eq!(pack(&mut withheld, 0), [6]);
        let chapter =
            |seqs: std::ops::RangeInclusive<Seq>| Chapter::of(seqs.map(|seq| (seq, 0, Event::GrantsResumed)));
        assert_eq!(withheld.chapter(chapter(6..=7)), 0);
        withheld.durable(7);
        assert_eq!(withheld.take_ready_packed(), 0);
        assert_eq!(out(&mut withheld).0, [4, 5]);
        assert_eq!(withheld.chapter(chapter(8..=8)), 2);
        withheld.durable(8);
        assert_eq!(withheld.take_ready_packed(), 2);
        assert_eq!(out(&mut withheld).0, []);
        assert!(withheld.is_empty());
    }

    fn file_written(token: u64, bytes: &[u8]) -> Event {
        let resource = Resource::parse("path:/a").unwrap();
        Event::FileWritten {
            number: 1 << 52,
            name: FileName::parse("a").unwrap(),
            lease: LeaseName {
                slot: 0,
                token,
                resource,
                owner: Owner::parse("w").unwrap(),
                mode: Mode::Exclusive,
            },
            offset: 0,
            bytes: FileBytes::new(bytes),
            request: None,
        }
    }
}
