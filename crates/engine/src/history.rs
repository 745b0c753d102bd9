//! What happened lately, for watchers that come back: the last public events, without secrets, in as few bytes as will
//! do. Written into every snapshot, so that a restart forgets none of them. Never decides who is told; the server's
//! watch feed and the journal's replay keep the same thing by the same steps.

use std::collections::VecDeque;
use std::sync::Arc;

use leasehold_state_machine::codec::CodecError;
use leasehold_state_machine::event::{Ask, Event, LeaseName, Seq};
use leasehold_state_machine::words::Mode;

use crate::limits::HISTORY_EVENTS_MAX;

/// The last public events, and which number they reach back to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct History {
    events_max: usize,
    /// Every public event with a greater number, up to `through`, is here.
    after: Seq,
    /// The newest event that was noted, public or not.
    through: Seq,
    moments: VecDeque<Moment>,
}

/// One public event in compact form. Clones are cheap and share their bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Moment(Arc<[u8]>);

/// The types of events that everybody may hear of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "they are the events of the same names")]
pub enum MomentKind {
    Granted = 1,
    Queued = 2,
    Dequeued = 3,
    Updated = 4,
    Released = 5,
    Expired = 6,
    Broken = 7,
}

impl History {
    /// Nothing has happened yet.
    pub fn new() -> History {
        History::from(0)
    }

    /// Nothing is known of what happened up to here.
    pub fn from(seq: Seq) -> History {
        History { events_max: HISTORY_EVENTS_MAX, after: seq, through: seq, moments: VecDeque::new() }
    }

    /// The same, but keeps at most this many from now on.
    pub fn keeping(mut self, events_max: usize) -> History {
        self.events_max = events_max;
        self.shed();
        self
    }

    /// One that keeps as many, and knows nothing of what happened up to this event.
    pub fn emptied(&self, seq: Seq) -> History {
        History::from(seq).keeping(self.events_max)
    }

    /// Takes note of the next event. Returns it in compact form if everybody may hear of it. Events that were left out
    /// before it leave a hole that nothing can fill: then the history begins anew with this one.
    pub fn note(&mut self, seq: Seq, wall_ms: u64, event: &Event) -> Option<&Moment> {
        assert!(seq > self.through, "events are noted in order");
        if seq != self.through + 1 {
            *self = self.emptied(seq - 1);
        }
        self.through = seq;
        self.moments.push_back(Moment::of(seq, wall_ms, event)?);
        self.shed();
        self.moments.back()
    }

    /// Every public event with a number greater than this is here.
    pub fn after(&self) -> Seq {
        self.after
    }

    /// The newest event that was noted, public or not.
    pub fn through(&self) -> Seq {
        self.through
    }

    /// How many public events are here.
    pub fn len(&self) -> usize {
        self.moments.len()
    }

    /// Whether no public event is here.
    pub fn is_empty(&self) -> bool {
        self.moments.is_empty()
    }

    /// How many of them are newer than this number.
    pub fn count_since(&self, seq: Seq) -> usize {
        self.moments.len() - self.moments.partition_point(|moment| moment.seq() <= seq)
    }

    /// Those newer than this number, in order. What is no longer kept is left out: compare [`History::after`].
    pub fn since(&self, seq: Seq) -> impl Iterator<Item = &Moment> {
        self.moments.range(self.moments.partition_point(|moment| moment.seq() <= seq)..)
    }

    /// What it was when this event was the newest, but for what was shed since; none if it does not reach that far, or has begun
    /// anew after a hole and is not yet as long as it should be: then there are older events that it does not know.
    pub fn up_to(&self, seq: Seq) -> Option<History> {
        let is_whole = self.after == 0 || self.moments.len() >= self.events_max;
        if seq > self.through || !is_whole {
            return None;
        }
        let until = self.moments.partition_point(|moment| moment.seq() <= seq);
        Some(History {
            events_max: self.events_max,
            after: self.after.min(seq),
            through: seq,
            moments: self.moments.range(..until).cloned().collect(),
        })
    }

    fn shed(&mut self) {
        while self.moments.len() > self.events_max {
            if let Some(oldest) = self.moments.pop_front() {
                self.after = oldest.seq();
            }
        }
    }

    /// Appends its bytes.
    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.after.to_le_bytes());
        out.extend_from_slice(&self.through.to_le_bytes());
        out.extend_from_slice(&(self.moments.len() as u64).to_le_bytes());
        for Moment(bytes) in &self.moments {
            out.extend_from_slice(bytes);
        }
    }

    /// Reads back what was written.
    pub(crate) fn read(from: &mut &[u8]) -> Result<History, CodecError> {
        let mut number = || take(from, 8).map(|bytes| number_at(bytes, 0));
        let (after, through, count) = (number()?, number()?, number()?);
        let mut history = History { through, ..History::from(after) };
        let mut last = after;
        for _ in 0..count {
            let moment = Moment::read(from)?;
            if moment.seq() <= last || moment.seq() > through {
                return Err(CodecError::OutOfBounds("an event's number"));
            }
            last = moment.seq();
            history.moments.push_back(moment);
            history.shed();
        }
        Ok(history)
    }
}

impl Default for History {
    fn default() -> Self {
        History::new()
    }
}

// A moment's bytes: seq, wall_ms, token (0: none), each eight; kind, mode; the lengths of lock, owner and reason, each
// two; then the texts. An empty reason is none: reasons have at least one byte.
const WALL_AT: usize = 8;
const TOKEN_AT: usize = 16;
const KIND_AT: usize = 24;
const MODE_AT: usize = 25;
const LENGTHS_AT: usize = 26;
const TEXTS_AT: usize = 32;

impl Moment {
    /// The event in compact form, if everybody may hear of it.
    pub fn of(seq: Seq, wall_ms: u64, event: &Event) -> Option<Moment> {
        let write = |kind, token, lock: &str, owner: &str, mode, reason: &str| {
            Some(Moment::write(seq, wall_ms, kind, token, mode, [lock, owner, reason]))
        };
        let asked =
            |kind, token, ask: &Ask| write(kind, token, ask.resource.text(), ask.owner.text(), ask.mode, "");
        let of_lease = |kind, lease: &LeaseName, reason: &str| {
            write(kind, lease.token, lease.resource.text(), lease.owner.text(), lease.mode, reason)
        };
        match event {
            Event::Granted { token, ask, .. } => asked(MomentKind::Granted, *token, ask),
            Event::Queued { ask, .. } => asked(MomentKind::Queued, 0, ask),
            Event::Dequeued { resource, owner, mode, why, .. } => {
                write(MomentKind::Dequeued, 0, resource.text(), owner.text(), *mode, why.text())
            }
            Event::Updated { lease, .. } => of_lease(MomentKind::Updated, lease, ""),
            Event::Released { lease, why } => of_lease(MomentKind::Released, lease, why.text()),
            Event::Expired { lease } => of_lease(MomentKind::Expired, lease, ""),
            Event::Broken { lease, reason, .. } => of_lease(MomentKind::Broken, lease, reason.text()),
            // The engine's own, and those of sessions, which have no lock to be watched by.
            _ => None,
        }
    }

    /// The event's number.
    pub fn seq(&self) -> Seq {
        number_at(&self.0, 0)
    }

    /// The wall time of its turn in Unix milliseconds.
    pub fn wall_ms(&self) -> u64 {
        number_at(&self.0, WALL_AT)
    }

    /// Its type.
    pub fn kind(&self) -> MomentKind {
        let kind = MomentKind::of(self.0[KIND_AT]);
        assert!(kind.is_some(), "checked when it was made");
        kind.unwrap_or(MomentKind::Granted)
    }

    /// The lock's canonical text.
    pub fn lock(&self) -> &str {
        self.text(0)
    }

    /// Whose lease or place it is.
    pub fn owner(&self) -> &str {
        self.text(1)
    }

    /// The lease's token; a place in line has none.
    pub fn token(&self) -> Option<u64> {
        Some(number_at(&self.0, TOKEN_AT)).filter(|token| *token > 0)
    }

    /// In which mode.
    pub fn mode(&self) -> Mode {
        if self.0[MODE_AT] == 0 { Mode::Exclusive } else { Mode::Shared }
    }

    /// Why, where that is told.
    pub fn reason(&self) -> Option<&str> {
        Some(self.text(2)).filter(|reason| !reason.is_empty())
    }

    fn text(&self, place: usize) -> &str {
        let [lock, owner, reason] = lengths(&self.0);
        let (begin, length) = match place {
            0 => (0, lock),
            1 => (lock, owner),
            _ => (lock + owner, reason),
        };
        let text = std::str::from_utf8(&self.0[TEXTS_AT + begin..][..length]);
        assert!(text.is_ok(), "checked when it was made");
        text.unwrap_or_default()
    }

    fn write(seq: Seq, wall_ms: u64, kind: MomentKind, token: u64, mode: Mode, texts: [&str; 3]) -> Moment {
        let length = texts.iter().map(|text| text.len()).sum::<usize>();
        // Written where it stays: there are as many of these as events.
        let mut bytes: Arc<[u8]> = std::iter::repeat_n(0, TEXTS_AT + length).collect();
        let into = Arc::get_mut(&mut bytes).unwrap_or_default();
        assert!(!into.is_empty(), "nobody else has it yet");
        for (at, number) in [(0, seq), (WALL_AT, wall_ms), (TOKEN_AT, token)] {
            into[at..at + 8].copy_from_slice(&number.to_le_bytes());
        }
        into[KIND_AT] = kind as u8;
        into[MODE_AT] = match mode {
            Mode::Exclusive => 0,
            Mode::Shared => 1,
        };
        let mut text_at = TEXTS_AT;
        for (place, text) in texts.into_iter().enumerate() {
            let length = u16::try_from(text.len());
            assert!(length.is_ok(), "names, owners and reasons are bounded far below this");
            into[LENGTHS_AT + 2 * place..][..2].copy_from_slice(&length.unwrap_or(0).to_le_bytes());
            into[text_at..][..text.len()].copy_from_slice(text.as_bytes());
            text_at += text.len();
        }
        Moment(bytes)
    }

    fn read(from: &mut &[u8]) -> Result<Moment, CodecError> {
        let head = from.get(..TEXTS_AT).ok_or(CodecError::Truncated)?;
        if MomentKind::of(head[KIND_AT]).is_none() {
            return Err(CodecError::UnknownTag("a kept event", head[KIND_AT]));
        }
        if head[MODE_AT] > 1 {
            return Err(CodecError::UnknownTag("a mode", head[MODE_AT]));
        }
        let lengths = lengths(head);
        let whole = take(from, TEXTS_AT + lengths.iter().sum::<usize>())?;
        let mut texts = &whole[TEXTS_AT..];
        for length in lengths {
            let text = take(&mut texts, length)?;
            std::str::from_utf8(text).map_err(|_| CodecError::OutOfBounds("a text"))?;
        }
        Ok(Moment(whole.into()))
    }
}

impl MomentKind {
    /// All of them.
    pub const ALL: [MomentKind; 7] = [
        MomentKind::Granted,
        MomentKind::Queued,
        MomentKind::Dequeued,
        MomentKind::Updated,
        MomentKind::Released,
        MomentKind::Expired,
        MomentKind::Broken,
    ];

    fn of(tag: u8) -> Option<MomentKind> {
        MomentKind::ALL.into_iter().find(|kind| *kind as u8 == tag)
    }

    /// The word on the wire.
    pub fn text(self) -> &'static str {
        match self {
            MomentKind::Granted => "granted",
            MomentKind::Queued => "queued",
            MomentKind::Dequeued => "dequeued",
            MomentKind::Updated => "updated",
            MomentKind::Released => "released",
            MomentKind::Expired => "expired",
            MomentKind::Broken => "broken",
        }
    }
}

fn take<'a>(from: &mut &'a [u8], count: usize) -> Result<&'a [u8], CodecError> {
    let (head, tail) = from.split_at_checked(count).ok_or(CodecError::Truncated)?;
    *from = tail;
    Ok(head)
}

fn number_at(bytes: &[u8], at: usize) -> u64 {
    let mut number = [0; 8];
    number.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(number)
}

fn lengths(bytes: &[u8]) -> [usize; 3] {
    [0, 2, 4].map(|at| usize::from(u16::from_le_bytes([bytes[LENGTHS_AT + at], bytes[LENGTHS_AT + at + 1]])))
}

#[cfg(test)]
mod tests {
    use leasehold_state_machine::event::Release;
    use leasehold_state_machine::resource::Resource;
    use leasehold_state_machine::words::{Owner, Reason};

    use super::*;
    use crate::chapter::is_public;

    fn lease(token: u64) -> LeaseName {
        LeaseName {
            slot: 7,
            token,
            resource: Resource::parse("path:/ä/b").unwrap(),
            owner: Owner::parse("w1").unwrap(),
            mode: Mode::Shared,
        }
    }

    fn released(token: u64) -> Event {
        Event::Released { lease: lease(token), why: Release::Holder }
    }

    fn seqs(history: &History, since: Seq) -> Vec<Seq> {
        history.since(since).map(Moment::seq).collect()
    }

    fn note_all(history: &mut History, seqs: std::ops::RangeInclusive<Seq>) {
        for seq in seqs {
            history.note(seq, 0, &released(seq));
        }
    }

    #[test]
    fn a_moment_says_what_the_event_said() {
        let reason = Reason::parse("stuck").unwrap();
        let event = Event::Broken { lease: lease(9), reason, force: true };
        let moment = Moment::of(3, 4, &event).unwrap();
        assert_eq!((moment.seq(), moment.wall_ms(), moment.kind()), (3, 4, MomentKind::Broken));
        assert_eq!((moment.lock(), moment.owner(), moment.mode()), ("path:/ä/b", "w1", Mode::Shared));
        assert_eq!((moment.token(), moment.reason()), (Some(9), Some("stuck")));
        let expired = Moment::of(1, 2, &Event::Expired { lease: lease(5) }).unwrap();
        assert_eq!((expired.reason(), expired.kind().text()), (None, "expired"));
        assert_eq!(Moment::of(1, 2, &Event::GrantsResumed), None);
        for event in [event, released(1), Event::GrantsResumed, Event::TokensRaised { to: 1 }] {
            assert_eq!(is_public(&event), Moment::of(1, 2, &event).is_some(), "{event:?}");
        }
    }

    #[test]
    fn keeps_the_last_and_says_from_where() {
        let mut history = History::new().keeping(3);
        for seq in 1..=10 {
            let event = if seq % 2 == 0 { released(seq) } else { Event::GrantsResumed };
            assert_eq!(history.note(seq, seq, &event).is_some(), seq % 2 == 0);
        }
        assert_eq!((history.after(), history.through(), history.len()), (4, 10, 3));
        assert_eq!(seqs(&history, 4), [6, 8, 10]);
        assert_eq!(seqs(&history, 7), [8, 10]);
        assert_eq!((history.count_since(8), history.count_since(10)), (1, 0));
    }

    #[test]
    fn is_what_it_was_up_to_an_event_unless_something_is_missing() {
        let mut history = History::new().keeping(3);
        note_all(&mut history, 1..=3);
        let then = history.clone();
        assert_eq!(history.up_to(3), Some(then.clone()));
        history.note(4, 0, &Event::GrantsResumed);
        assert_eq!(history.up_to(3), Some(then), "what came after it is not in it");
        assert_eq!(history.up_to(5), None, "it has not happened");
        history.note(5, 0, &released(5));
        let shed = history.up_to(3).unwrap();
        assert_eq!((shed.after(), shed.through(), seqs(&shed, 0)), (1, 3, vec![2, 3]));
        note_all(&mut history, 6..=9);
        let nothing = history.up_to(3).unwrap();
        assert_eq!((nothing.after(), nothing.through(), nothing.len()), (3, 3, 0));
        history.note(11, 0, &released(11));
        assert_eq!(history.up_to(11), None, "there is a hole before it");
        note_all(&mut history, 12..=13);
        assert_eq!(history.up_to(12).map(|history| history.len()), Some(2), "as long as it should be");
    }

    #[test]
    fn a_hole_makes_it_begin_anew() {
        let mut history = History::from(4);
        history.note(5, 0, &released(1));
        history.note(8, 0, &released(2));
        assert_eq!((history.after(), seqs(&history, 0)), (7, vec![8]));
    }

    #[test]
    fn comes_back_as_it_was_written_and_refuses_what_it_never_writes() {
        let mut history = History::from(2);
        for seq in 3..9 {
            history.note(seq, seq << 40, &released(seq));
        }
        history.note(9, 0, &Event::GrantsResumed);
        let mut bytes = Vec::new();
        history.write(&mut bytes);
        let mut from = bytes.as_slice();
        assert_eq!(History::read(&mut from), Ok(history));
        assert!(from.is_empty());
        for length in 0..bytes.len() {
            assert!(History::read(&mut &bytes[..length]).is_err(), "{length}");
        }
        for (place, byte) in [(24 + KIND_AT, 0), (24 + KIND_AT, 8), (24 + MODE_AT, 2), (24, 2), (24, 200)] {
            let mut wrong = bytes.clone();
            wrong[place] = byte;
            assert!(History::read(&mut wrong.as_slice()).is_err(), "{place}");
        }
    }
}
