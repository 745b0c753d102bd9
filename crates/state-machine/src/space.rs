//! Who stands where: every lease and every waiter by the place it covers, so that those in each other's way find each
//! other without a scan. Knows orders (tokens, tickets) and slots, not owners or time; of the table of leases, which is
//! an argument wherever an exact place is asked for, only what `places.rs` reads there. Fenced files join here: the inode
//! of one of the server's own files stands in the path tree, at its path.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use hashbrown::HashMap;
use hashbrown::hash_map::Entry;
use leasehold_planted::{Bug, planted};

use crate::crowd::{Class, Crowd, Standing};
use crate::event::{Seq, Ticket};
use crate::ids::HashKey;
use crate::intervals::{Interval, Intervals};
use crate::keyed::Keyed;
use crate::lease::Lease;
use crate::places::{CrowdThere, Places};
use crate::resource::{Bytes, Kind, Resource, ancestors};
use crate::slab::Slab;
use crate::words::Mode;

/// How many waiters are counted one by one to tell somebody its place.
const PLACES_COUNTED_MAX: usize = 256;

/// The ranges of one inode, by class and mode.
#[derive(Debug)]
struct Inode {
    ranges: [[Intervals; 2]; 3],
}

impl Inode {
    fn new(key: Keyed) -> Self {
        Inode { ranges: core::array::from_fn(|_| core::array::from_fn(|_| Intervals::new(key))) }
    }

    fn is_empty(&self) -> bool {
        self.ranges.iter().flatten().all(Intervals::is_empty)
    }
}

/// One of the server's own files.
#[derive(Debug)]
struct OwnFile {
    path: Resource,
    deleted: bool,
}

/// All places.
#[derive(Debug)]
pub(crate) struct Space {
    /// Exactly who stands on each resource, in the order of lists.
    places: Places,
    /// For each path, by a keyed hash of its text, who stands strictly under it, or on the inode of a file at it or
    /// under it. By hash, because a deep path has many ancestors and their texts would weigh more than all else.
    beneath: HashMap<[u64; 2], Crowd, Keyed>,
    /// Who stands on which bytes of each inode.
    inodes: BTreeMap<u64, Inode>,
    /// The server's own files: each number is one with a path. A deleted file's number stays so while somebody stands
    /// on it.
    files: BTreeMap<u64, OwnFile>,
    key: Keyed,
}

impl Space {
    pub(crate) fn new(key: HashKey) -> Self {
        Space {
            places: Places::new(),
            beneath: HashMap::with_hasher(Keyed(key)),
            inodes: BTreeMap::new(),
            files: BTreeMap::new(),
            key: Keyed(key),
        }
    }

    /// From now on this inode is one with this path. Nobody may stand on the inode yet.
    pub(crate) fn join_file(&mut self, inode: u64, path: Resource) {
        assert!(matches!(path.kind(), Kind::Path(_)), "a file lies at a path");
        assert!(!self.inodes.contains_key(&inode), "a file's number is new when the file is");
        let before = self.files.insert(inode, OwnFile { path, deleted: false });
        assert!(before.is_none(), "a file's number is its own for ever");
    }

    /// The file with this inode is deleted. Whoever stands on it goes on meeting whoever stands on its path.
    pub(crate) fn part_file(&mut self, inode: u64) {
        if self.inodes.contains_key(&inode) {
            let file = self.files.get_mut(&inode);
            assert!(file.is_some(), "a file that is deleted was there");
            if let Some(file) = file {
                file.deleted = true;
            }
        } else {
            self.files.remove(&inode);
        }
    }

    /// Puts back what a snapshot kept of a deleted file; somebody comes to stand on it.
    pub(crate) fn restore_deleted(&mut self, inode: u64, path: Resource) -> bool {
        let vacant = !self.files.contains_key(&inode);
        self.files.insert(inode, OwnFile { path, deleted: true });
        vacant
    }

    /// Deleted files on whose inodes somebody stands, with their paths.
    pub(crate) fn deleted_files(&self) -> impl Iterator<Item = (u64, &Resource)> {
        self.files.iter().filter(|(_, file)| file.deleted).map(|(inode, file)| (*inode, &file.path))
    }

    /// Whether an inode is one with a path.
    pub(crate) fn is_joined(&self, inode: u64) -> bool {
        self.files.contains_key(&inode)
    }

    /// Whether anybody stands on an inode.
    pub(crate) fn is_stood_on(&self, inode: u64) -> bool {
        self.inodes.contains_key(&inode)
    }

    /// The path that a resource is one with, if it is bytes of one of our files, deleted or not.
    pub(crate) fn path_of(&self, resource: &Resource) -> Option<&Resource> {
        match resource.kind() {
            Kind::Bytes(bytes) => self.files.get(&bytes.inode).map(|file| &file.path),
            _ => None,
        }
    }

    /// Whether a resource can be asked about: like [`Space::exists`], or somebody stands on what is left of it.
    pub(crate) fn is_known(&self, resource: &Resource) -> bool {
        self.exists(resource) || self.path_of(resource).is_some()
    }

    /// Whether a resource can exist at all: numbers of the files' block belong to files only.
    pub(crate) fn exists(&self, resource: &Resource) -> bool {
        match resource.kind() {
            Kind::Bytes(bytes) if bytes.of_a_file() => {
                self.files.get(&bytes.inode).is_some_and(|file| !file.deleted)
            }
            _ => true,
        }
    }

    /// Puts a lease or waiter in its place; `seq` is the event that did.
    pub(crate) fn insert(&mut self, resource: &Resource, standing: Standing, seq: Seq, leases: &Slab<Lease>) {
        self.places.insert(resource, &standing, seq, leases);
        let above = match resource.kind() {
            Kind::Name(_) => None,
            Kind::Path(_) => Some((resource.clone(), false)),
            Kind::Bytes(bytes) => {
                let inode = self.inodes.entry(bytes.inode).or_insert_with(|| Inode::new(self.key));
                inode.ranges[standing.class as usize][standing.mode as usize]
                    .insert(interval(&bytes, standing.order), standing.slot);
                self.files.get(&bytes.inode).map(|file| (file.path.clone(), true))
            }
        };
        if let Some((path, with_itself)) = above {
            for text in upward(&path, with_itself) {
                match self.beneath.entry(self.key.0.path(text)) {
                    Entry::Occupied(mut crowd) => crowd.get_mut().insert(&standing),
                    Entry::Vacant(place) => {
                        place.insert(Crowd::of(&standing));
                    }
                }
            }
        }
    }

    /// Takes a lease or waiter out of its place.
    pub(crate) fn remove(&mut self, resource: &Resource, standing: Standing, seq: Seq, leases: &Slab<Lease>) {
        self.places.remove(resource, &standing, seq, leases);
        let above = match resource.kind() {
            Kind::Name(_) => None,
            Kind::Path(_) => Some((resource.clone(), false)),
            Kind::Bytes(bytes) => {
                let inode = self.inodes.get_mut(&bytes.inode);
                assert!(inode.is_some(), "what leaves an inode stood there");
                if let Some(inode) = inode {
                    inode.ranges[standing.class as usize][standing.mode as usize]
                        .remove(&interval(&bytes, standing.order));
                    if inode.is_empty() {
                        self.inodes.remove(&bytes.inode);
                    }
                }
                let file = self.files.get(&bytes.inode).map(|file| (file.path.clone(), file.deleted));
                if file.as_ref().is_some_and(|(_, deleted)| *deleted) && !self.is_stood_on(bytes.inode) {
                    self.files.remove(&bytes.inode);
                }
                file.map(|(path, _)| (path, true))
            }
        };
        if let Some((path, with_itself)) = above {
            for text in upward(&path, with_itself) {
                let above = self.key.0.path(text);
                if self.beneath.get_mut(&above).is_some_and(|crowd| crowd.remove(&standing)) {
                    self.beneath.remove(&above);
                }
            }
        }
    }

    /// A waiter goes away or comes back. It stands for both for a moment, so that its place is not forgotten with the
    /// version and the token that are remembered of it.
    pub(crate) fn reclass(
        &mut self,
        resource: &Resource,
        before: Standing,
        after: Standing,
        leases: &Slab<Lease>,
    ) {
        self.insert(resource, after, 0, leases);
        self.remove(resource, before, 0, leases);
    }

    /// Notes that something about a resource's leases changed.
    pub(crate) fn touch(&mut self, resource: &Resource, seq: Seq, leases: &Slab<Lease>) {
        self.places.touch(resource, seq, leases);
    }

    /// A lease that conflicts with a request: its slot.
    pub(crate) fn lease_in_the_way(
        &self,
        resource: &Resource,
        mode: Mode,
        leases: &Slab<Lease>,
    ) -> Option<u32> {
        self.in_the_way(resource, mode, Class::Lease, u64::MAX, leases).map(|(_, slot)| slot)
    }

    /// A waiter in line before `before` that conflicts with a request; a late one, so that waiters form a chain and
    /// each departure concerns few.
    pub(crate) fn waiter_in_the_way(
        &self,
        resource: &Resource,
        mode: Mode,
        before: Ticket,
        leases: &Slab<Lease>,
    ) -> Option<Ticket> {
        self.in_the_way(resource, mode, Class::Line, before, leases).map(|(ticket, _)| ticket)
    }

    fn in_the_way(
        &self,
        resource: &Resource,
        mode: Mode,
        class: Class,
        before: u64,
        leases: &Slab<Lease>,
    ) -> Option<(u64, u32)> {
        let crowds = self
            .crowds(resource, leases)
            .filter_map(|crowd| crowd.newest_in_the_way(class, mode, before))
            .max();
        let Kind::Bytes(bytes) = resource.kind() else { return crowds };
        let inode = self.inodes.get(&bytes.inode);
        let ranges = inode.into_iter().flat_map(|inode| {
            [Mode::Exclusive, Mode::Shared].into_iter().filter(|other| mode.conflicts(*other)).filter_map(
                |other| {
                    inode.ranges[class as usize][other as usize].late_overlap(bytes.start, bytes.end, before)
                },
            )
        });
        if planted(Bug::RangesComparedByEquality) {
            let equal = self.places.get(resource.text(), leases);
            return equal.and_then(|place| place.crowd.newest_in_the_way(class, mode, before)).max(crowds);
        }
        crowds.into_iter().chain(ranges).max()
    }

    /// The crowds that overlap a resource; for bytes, only those that stand on paths.
    fn crowds<'a>(
        &'a self,
        resource: &'a Resource,
        leases: &'a Slab<Lease>,
    ) -> impl Iterator<Item = CrowdThere<'a>> {
        let (exact, path, beneath) = match resource.kind() {
            Kind::Name(_) => (Some(resource.text()), None, None),
            Kind::Path(_) => (Some(resource.text()), Some((resource, false)), Some(resource.text())),
            Kind::Bytes(_) => (None, self.path_of(resource).map(|path| (path, true)), None),
        };
        let above = path.into_iter().flat_map(|(path, with_itself)| upward(path, with_itself));
        exact
            .into_iter()
            .chain(above)
            .filter_map(|text| self.places.get(text, leases))
            .map(|place| place.crowd)
            .chain(beneath.and_then(|text| self.beneath.get(&self.key.0.path(text))).map(CrowdThere::Kept))
    }

    /// The lease with this token if it covers the resource: its slot.
    pub(crate) fn covering_lease(
        &self,
        resource: &Resource,
        token: u64,
        leases: &Slab<Lease>,
    ) -> Option<u32> {
        let stands_on = |text: &str| self.places.get(text, leases)?.crowd.lease_with_token(token);
        match resource.kind() {
            Kind::Name(_) => stands_on(resource.text()),
            Kind::Path(_) => {
                core::iter::once(resource.text()).chain(upward(resource, false)).find_map(stands_on)
            }
            Kind::Bytes(bytes) => {
                let on_a_path =
                    self.path_of(resource).and_then(|path| upward(path, true).find_map(stands_on));
                on_a_path.or_else(|| {
                    let ranges = &self.inodes.get(&bytes.inode)?.ranges[Class::Lease as usize];
                    ranges.iter().find_map(|ranges| {
                        let (found, slot) = ranges.with_order(bytes.start, bytes.end, token)?;
                        (found.start <= bytes.start && bytes.end <= found.end).then_some(slot)
                    })
                })
            }
        }
    }

    /// The newest token above `above` that was seen on what overlaps a resource.
    pub(crate) fn newer_token(&self, resource: &Resource, above: u64, leases: &Slab<Lease>) -> Option<u64> {
        let held = self.crowds(resource, leases).filter_map(|crowd| {
            crowd.newest_in_the_way(Class::Lease, Mode::Exclusive, u64::MAX).map(|(token, _)| token)
        });
        let ranges = match resource.kind() {
            Kind::Bytes(bytes) => self.inodes.get(&bytes.inode).and_then(|inode| {
                let leases = inode.ranges[Class::Lease as usize].iter();
                leases.filter_map(|ranges| ranges.highest_order(bytes.start, bytes.end, above)).max()
            }),
            _ => None,
        };
        held.chain(self.last_token(resource, leases)).chain(ranges).filter(|token| *token > above).max()
    }

    /// The newest token seen on exactly this resource while it is remembered.
    pub(crate) fn last_token(&self, resource: &Resource, leases: &Slab<Lease>) -> Option<u64> {
        self.places.get(resource.text(), leases)?.crowd.last_token()
    }

    /// The event that last changed exactly this resource.
    pub(crate) fn version(&self, resource: &Resource, leases: &Slab<Lease>) -> Option<Seq> {
        self.places.get(resource.text(), leases).map(|place| place.version)
    }

    /// Waiters on exactly this resource.
    pub(crate) fn waiters_on(&self, resource: &Resource, leases: &Slab<Lease>) -> usize {
        self.places.get(resource.text(), leases).map_or(0, |place| place.crowd.waiters())
    }

    /// The place of a waiter among those on exactly this resource, from 1: exact near both ends of the line, and in the
    /// middle of a long one the first place that it can be.
    pub(crate) fn place_in_line(&self, resource: &Resource, ticket: Ticket, leases: &Slab<Lease>) -> usize {
        let Some(place) = self.places.get(resource.text(), leases) else { return 1 };
        let Crowd::Many(sets) = &*place.crowd else { return 1 };
        let line = || sets.sets[1..].iter().flatten();
        let later: usize = line().map(|set| set.range(ticket..).take(PLACES_COUNTED_MAX).count()).sum();
        if later < PLACES_COUNTED_MAX {
            return line().map(BTreeMap::len).sum::<usize>() - later + 1;
        }
        line().map(|set| set.range(..ticket).take(PLACES_COUNTED_MAX).count()).sum::<usize>() + 1
    }

    /// Slots of the leases on exactly this resource, oldest first.
    pub(crate) fn leases_on(&self, resource: &Resource, leases: &Slab<Lease>) -> Vec<u32> {
        let mut found = Vec::new();
        if let Some(place) = self.places.get(resource.text(), leases) {
            place.crowd.collect(Class::Lease, usize::MAX, &mut found);
        }
        found.sort_unstable();
        found.into_iter().map(|(_, slot)| slot).collect()
    }

    /// Whether one of the first `most` leases, or of the first `most` waiters of each kind, on exactly this resource is
    /// as asked for.
    pub(crate) fn any_on(
        &self,
        resource: &Resource,
        most: usize,
        leases: &Slab<Lease>,
        lease: impl Fn(u32) -> bool,
        waiter: impl Fn(Ticket) -> bool,
    ) -> bool {
        let Some(place) = self.places.get(resource.text(), leases) else { return false };
        match &*place.crowd {
            Crowd::One { slot, .. } => lease(*slot),
            Crowd::Many(sets) => {
                let [held, line, skipped] = &sets.sets;
                let mut waiters = line.iter().chain(skipped).flat_map(|set| set.keys().take(most));
                held.iter().flat_map(|set| set.values().take(most)).any(|slot| lease(*slot))
                    || waiters.any(|ticket| waiter(*ticket))
            }
        }
    }

    /// Everything of some classes that overlaps a resource, in order, at most `most`, each as (order, slot).
    pub(crate) fn overlapping(
        &self,
        resource: &Resource,
        classes: &[Class],
        most: usize,
        leases: &Slab<Lease>,
    ) -> Vec<(u64, u32)> {
        let mut found = Vec::new();
        for class in classes {
            for crowd in self.crowds(resource, leases) {
                crowd.collect(*class, most, &mut found);
            }
            if let Kind::Bytes(bytes) = resource.kind()
                && let Some(inode) = self.inodes.get(&bytes.inode)
            {
                for ranges in &inode.ranges[*class as usize] {
                    ranges.overlapping(bytes.start, bytes.end, most, &mut found);
                }
            }
        }
        found.sort_unstable();
        found.truncate(most);
        found
    }

    /// Resources that somebody holds or waits for, in order, from the first that is not before `from`.
    pub(crate) fn resources_from<'a>(
        &'a self,
        from: &str,
        leases: &'a Slab<Lease>,
    ) -> impl Iterator<Item = &'a Resource> {
        self.places.iter_from(from, leases).map(|place| place.resource)
    }

    /// The places themselves.
    pub(crate) fn places(&self) -> &Places {
        &self.places
    }

    /// The same, for whoever reads a snapshot into them.
    pub(crate) fn places_mut(&mut self) -> &mut Places {
        &mut self.places
    }
}

fn interval(bytes: &Bytes, order: u64) -> Interval {
    Interval { start: bytes.start, end: bytes.end, order }
}

/// The texts of a path's ancestors up to the root, with the path itself first if asked for.
fn upward(path: &Resource, with_itself: bool) -> impl Iterator<Item = &str> {
    let text = path.text();
    let prefix = "path:".len();
    let itself = with_itself.then_some(text);
    itself.into_iter().chain(ancestors(&text[prefix..]).map(move |up| &text[..prefix + up.len()]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resource(text: &str) -> Resource {
        Resource::parse(text).unwrap()
    }

    fn lease(token: u64) -> Standing {
        Standing { class: Class::Lease, mode: Mode::Exclusive, order: token, slot: token as u32 }
    }

    /// No lease is in it, so that every place here has a record of its own.
    fn nobody() -> Slab<Lease> {
        Slab::new()
    }

    #[test]
    fn a_files_inode_is_one_with_its_path() {
        let number = crate::limits::FILE_INODE_FIRST;
        let mut space = Space::new(HashKey([1, 2]));
        let inode = Resource::parse(&alloc::format!("inode:{number}")).unwrap();
        let range = Resource::parse(&alloc::format!("range:{number}:10-20")).unwrap();
        assert!(!space.exists(&inode));
        space.join_file(number, resource("path:/reports/a.log"));
        assert!(space.exists(&inode));
        let in_the_way =
            |space: &Space, text: &Resource| space.lease_in_the_way(text, Mode::Exclusive, &nobody());

        space.insert(&range, lease(1), 1, &nobody());
        for (text, expected) in [
            ("path:/reports/a.log", Some(1)),
            ("path:/reports", Some(1)),
            ("path:/", Some(1)),
            ("path:/reports/a.log/below", None),
            ("path:/reports/b.log", None),
        ] {
            assert_eq!(in_the_way(&space, &resource(text)), expected, "{text}");
        }
        space.remove(&range, lease(1), 2, &nobody());

        for text in ["path:/reports/a.log", "path:/reports", "path:/"] {
            space.insert(&resource(text), lease(2), 3, &nobody());
            assert_eq!(in_the_way(&space, &inode), Some(2), "{text}");
            assert_eq!(in_the_way(&space, &range), Some(2), "{text}");
            assert_eq!(space.covering_lease(&range, 2, &nobody()), Some(2));
            space.remove(&resource(text), lease(2), 4, &nobody());
        }
        space.insert(&resource("path:/reports/a.log/below"), lease(3), 5, &nobody());
        assert_eq!(in_the_way(&space, &inode), None);
    }
}
