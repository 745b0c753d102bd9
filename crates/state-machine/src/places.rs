//! Every resource that somebody holds or waits for: found by its text, and listed in order.
//!
//! Most are held by one lease and wanted by nobody else. Such a place has no record of its own: the lease says all there
//! is to say, and the place is its slot in the index. A place where more stand, or of which more is remembered than its
//! lease says, has a record among the crowded.

use alloc::boxed::Box;
use core::ops::Deref;

use crate::crowd::{Class, Crowd, Sets, Standing};
use crate::event::Seq;
use crate::lease::Lease;
use crate::ordered::Ordered;
use crate::resource::Resource;
use crate::slab::Slab;

/// The bit that tells a number among the crowded from a lease's slot.
const AMONG_CROWDED: u32 = 1 << 31;

/// Which place: the slot of the lease that stands there alone, or a number among the crowded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Code(u32);

impl Code {
    fn lease(slot: u32) -> Code {
        assert!(slot < AMONG_CROWDED, "slots leave room for a flag");
        Code(slot)
    }

    fn crowded(number: u32) -> Code {
        assert!(number < AMONG_CROWDED, "numbers leave room for a flag");
        Code(number | AMONG_CROWDED)
    }

    /// The slot of the lease, or else the number among the crowded.
    fn seen(self) -> Result<u32, u32> {
        if self.0 & AMONG_CROWDED == 0 { Ok(self.0) } else { Err(self.0 & !AMONG_CROWDED) }
    }
}

/// A place with a record of its own.
#[derive(Debug)]
struct Crowded {
    resource: Resource,
    crowd: Crowd,
    version: Seq,
}

/// What is known of a place.
pub(crate) struct Place<'a> {
    pub(crate) resource: &'a Resource,
    pub(crate) crowd: CrowdThere<'a>,
    /// The event that last changed it.
    pub(crate) version: Seq,
}

/// Who stands at a place, kept there or made up from a lease.
pub(crate) enum CrowdThere<'a> {
    Kept(&'a Crowd),
    MadeUp(Crowd),
}

impl Deref for CrowdThere<'_> {
    type Target = Crowd;

    fn deref(&self) -> &Crowd {
        match self {
            CrowdThere::Kept(crowd) => crowd,
            CrowdThere::MadeUp(crowd) => crowd,
        }
    }
}

/// All places. The leases are an argument of everything: a place that is a lease's own is read there, so a lease is in
/// its table for as long as it stands here.
#[derive(Debug)]
pub(crate) struct Places {
    index: Ordered<Code>,
    crowded: Slab<Crowded>,
}

impl Places {
    pub(crate) fn new() -> Self {
        Places { index: Ordered::new(), crowded: Slab::new() }
    }

    /// The place with this text.
    pub(crate) fn get<'a>(&'a self, text: &str, leases: &'a Slab<Lease>) -> Option<Place<'a>> {
        self.find(text, leases).map(|code| self.place(code, leases))
    }

    /// All places in order, from the first that is not before `from`.
    pub(crate) fn iter_from<'a>(
        &'a self,
        from: &str,
        leases: &'a Slab<Lease>,
    ) -> impl Iterator<Item = Place<'a>> {
        let codes = self.index.iter_from(from, |code| self.text(code, leases));
        codes.map(|code| self.place(code, leases))
    }

    /// How many places there are.
    pub(crate) fn len(&self) -> usize {
        self.index.len()
    }

    /// Puts a lease or waiter in its place; `seq` is the event that did.
    pub(crate) fn insert(
        &mut self,
        resource: &Resource,
        standing: &Standing,
        seq: Seq,
        leases: &Slab<Lease>,
    ) {
        let crowd = Crowd::of(standing);
        let alone = self.lease_alone(&crowd, seq, leases);
        let code = alone.unwrap_or(Code::crowded(self.crowded.vacant()));
        let crowded = &self.crowded;
        let Some(code) = self.index.insert(resource, code, |code| text_of(code, crowded, leases)) else {
            if let Err(number) = code.seen() {
                let place = Crowded { resource: resource.clone(), crowd, version: seq };
                self.crowded.insert(number, place);
            }
            return;
        };
        let place = self.unfold(code, leases);
        place.crowd.insert(standing);
        place.version = place.version.max(seq);
    }

    /// Takes a lease or waiter out of its place; `seq` is the event that did.
    pub(crate) fn remove(
        &mut self,
        resource: &Resource,
        standing: &Standing,
        seq: Seq,
        leases: &Slab<Lease>,
    ) {
        let crowded = &self.crowded;
        let text_of = |code| text_of(code, crowded, leases);
        let code = self.index.remove_if(resource.text(), text_of, |code| code.seen().is_ok());
        assert!(code.is_some(), "what leaves a place stood there");
        let number = match code.map(Code::seen) {
            Some(Ok(slot)) => {
                let stood = leases.get(slot).is_some_and(|lease| lease.token == standing.order);
                assert!(standing.class == Class::Lease && stood, "what leaves a place stood there");
                return;
            }
            Some(Err(number)) => number,
            None => return,
        };
        let Some(place) = self.crowded.get_mut(number) else { return };
        place.version = place.version.max(seq);
        if place.crowd.remove(standing) {
            self.drop_place(resource.text(), leases);
            self.crowded.remove(number);
        } else {
            self.fold(number, resource.text(), leases);
        }
    }

    /// Notes that something about a resource's leases changed; a lease that stands alone knows that itself.
    pub(crate) fn touch(&mut self, resource: &Resource, seq: Seq, leases: &Slab<Lease>) {
        match self.find(resource.text(), leases).map(Code::seen) {
            Some(Err(number)) => {
                if let Some(place) = self.crowded.get_mut(number) {
                    place.version = place.version.max(seq);
                }
            }
            Some(Ok(slot)) => {
                assert!(
                    leases.get(slot).is_some_and(|lease| lease.changed == seq),
                    "a lease knows its changes"
                );
            }
            None => {}
        }
    }

    /// Gives back what a snapshot kept of a resource beside what stands there: its version, whatever event put its
    /// crowd back, and a token that was once newer. False when nobody stands there.
    pub(crate) fn restore(
        &mut self,
        text: &str,
        version: Seq,
        last_token: u64,
        leases: &Slab<Lease>,
    ) -> bool {
        let Some(code) = self.find(text, leases) else { return false };
        let alone = code.seen().ok().and_then(|slot| leases.get(slot));
        if alone.is_some_and(|lease| lease.changed == version && last_token <= lease.token) {
            return true;
        }
        let place = self.unfold(code, leases);
        place.version = version;
        if let Crowd::One { mode, token, slot } = place.crowd
            && last_token > token
        {
            let mut sets = Sets::default();
            sets.sets[Class::Lease as usize][mode as usize].insert(token, slot);
            place.crowd = Crowd::Many(Box::new(sets));
        }
        if let Crowd::Many(sets) = &mut place.crowd {
            sets.last_token = sets.last_token.max(last_token);
        }
        true
    }

    /// Panics unless each place stands in order, is found by its text, and leads to a lease or crowd that is there.
    pub(crate) fn assert_sound(&self, leases: &Slab<Lease>) {
        let mut before: Option<&str> = None;
        let (mut places, mut crowded) = (0, 0);
        for code in self.index.iter_from("", |code| self.text(code, leases)) {
            let text = self.text(code, leases);
            assert!(before.is_none_or(|before| before < text), "{text} stands in order");
            assert!(self.find(text, leases) == Some(code), "{text} is found");
            places += 1;
            crowded += usize::from(code.seen().is_err());
            before = Some(text);
        }
        assert_eq!(places, self.len(), "all places are counted");
        assert_eq!(crowded, self.crowded.len(), "nothing is kept of other places");
    }

    fn find(&self, text: &str, leases: &Slab<Lease>) -> Option<Code> {
        self.index.get(text, |code| self.text(code, leases))
    }

    fn text<'a>(&'a self, code: Code, leases: &'a Slab<Lease>) -> &'a str {
        text_of(code, &self.crowded, leases)
    }

    fn place<'a>(&'a self, code: Code, leases: &'a Slab<Lease>) -> Place<'a> {
        let resource = resource(code, &self.crowded, leases);
        match code.seen() {
            Ok(slot) => {
                let (crowd, version) = alone(slot, leases);
                Place { resource, crowd: CrowdThere::MadeUp(crowd), version }
            }
            Err(number) => {
                let kept = self.crowded.get(number);
                assert!(kept.is_some(), "a place is somebody's");
                let kept = kept.unwrap_or_else(|| unreachable!("asserted above"));
                Place { resource, crowd: CrowdThere::Kept(&kept.crowd), version: kept.version }
            }
        }
    }

    /// The code of a place that needs no record: one lease stands there, which says the same of it.
    fn lease_alone(&self, crowd: &Crowd, version: Seq, leases: &Slab<Lease>) -> Option<Code> {
        let Crowd::One { mode, token, slot } = *crowd else { return None };
        let lease = leases.get(slot)?;
        let same = lease.changed == version && lease.token == token && lease.mode() == mode;
        same.then(|| Code::lease(slot))
    }

    /// Gives a place a record if it has none.
    fn unfold(&mut self, code: Code, leases: &Slab<Lease>) -> &mut Crowded {
        let number = code.seen().unwrap_or_else(|number| number);
        let number = if code.seen().is_ok() {
            let (crowd, version) = alone(number, leases);
            let resource = resource(code, &self.crowded, leases).clone();
            let number = self.crowded.vacant();
            self.recode(code, Code::crowded(number), resource.text(), leases);
            self.crowded.insert(number, Crowded { resource, crowd, version });
            number
        } else {
            number
        };
        let place = self.crowded.get_mut(number);
        assert!(place.is_some(), "a place is somebody's");
        place.unwrap_or_else(|| unreachable!("asserted above"))
    }

    /// Drops the record of a place that needs none any more.
    fn fold(&mut self, number: u32, text: &str, leases: &Slab<Lease>) {
        let Some(place) = self.crowded.get(number) else { return };
        if let Some(code) = self.lease_alone(&place.crowd, place.version, leases) {
            self.recode(Code::crowded(number), code, text, leases);
            self.crowded.remove(number);
        }
    }

    fn drop_place(&mut self, text: &str, leases: &Slab<Lease>) {
        let crowded = &self.crowded;
        let stood = self.index.remove_if(text, |code| text_of(code, crowded, leases), |_| true);
        assert!(stood.is_some(), "what leaves a place stood there");
    }

    /// A place is known by another code from now on.
    fn recode(&mut self, before: Code, after: Code, text: &str, leases: &Slab<Lease>) {
        let crowded = &self.crowded;
        let stood = self.index.recode(text, after, |code| text_of(code, crowded, leases));
        assert!(stood == Some(before), "a place is found by its text");
    }
}

/// The crowd of one lease and the event that last changed it.
fn alone(slot: u32, leases: &Slab<Lease>) -> (Crowd, Seq) {
    let lease = leases.get(slot);
    assert!(lease.is_some(), "a place is somebody's");
    let lease = lease.unwrap_or_else(|| unreachable!("asserted above"));
    (Crowd::One { mode: lease.mode(), token: lease.token, slot }, lease.changed)
}

fn text_of<'a>(code: Code, crowded: &'a Slab<Crowded>, leases: &'a Slab<Lease>) -> &'a str {
    resource(code, crowded, leases).text()
}

fn resource<'a>(code: Code, crowded: &'a Slab<Crowded>, leases: &'a Slab<Lease>) -> &'a Resource {
    let resource = match code.seen() {
        Ok(slot) => leases.get(slot).map(|lease| &lease.resource),
        Err(number) => crowded.get(number).map(|place| &place.resource),
    };
    assert!(resource.is_some(), "a place is somebody's");
    resource.unwrap_or_else(|| unreachable!("asserted above"))
}
