//! The journaled state as one run of bytes, in a canonical order: equal states give equal bytes. What is not journaled
//! (deadlines, attachments, ages) is not in it.

use alloc::vec::Vec;

use hashbrown::HashSet;

use crate::answer::Written;
use crate::codec::*;
use crate::event::{Seq, Under};
use crate::files::File;
use crate::ids::{ClientKey, HashKey, RequestName};
use crate::keyed::Keyed;
use crate::lease::Lease;
use crate::limits::{FILE_INODE_END, FILE_INODE_FIRST, Limits, NUMBER_END, PICTURE_RECORDS_MAX};
use crate::machine::{Horizon, Machine};
use crate::records::{EndedLease, EndedWhy, Presence, Session, Waiter};
use crate::remembered::RememberedPicture;
use crate::requests::{Client, Fate, Known};
use crate::resource::{Kind, Resource};
use crate::tombstones::Tombstone;

/// The layout. Raised when it changes; older ones stay readable.
const VERSION: u8 = 2;
/// The one before fenced files; still read.
const VERSION_WITHOUT_FILES: u8 = 1;

impl Machine {
    /// Appends the journaled state.
    pub fn write_snapshot(&self, out: &mut Vec<u8>) {
        self.write_snapshot_in_pieces(out, &mut |_| {});
    }

    /// The same, but `hand_on` is given what there is so far again and again, and may take it out.
    pub fn write_snapshot_in_pieces(&self, out: &mut Vec<u8>, hand_on: &mut dyn FnMut(&mut Vec<u8>)) {
        self.put_all_but_stones(out, hand_on);
        let stones = &self.tombstones.set;
        put_stones(out, stones.first(), stones.len(), stones.iter(), hand_on);
    }

    /// The journaled state as it is now, to be written out later and elsewhere. Taken at once if there is little to be taken:
    /// the ended are many, but change no more, and are shared. None if that would keep others waiting.
    pub fn picture(&self) -> Option<Picture> {
        let records = self.leases.end() as usize
            + self.sessions.end() as usize
            + self.waiters.len()
            + self.requests.len()
            + self.requests.clients.len()
            + self.requests.break_tokens()
            + self.files.len();
        if records > PICTURE_RECORDS_MAX {
            return None;
        }
        let ended: usize = self.sessions.iter().map(|(_, session)| session.ended.len()).sum();
        let open: usize = self.requests.clients.values().map(|client| client.open.len()).sum();
        if records + ended + open > PICTURE_RECORDS_MAX {
            return None;
        }
        let mut bytes = Vec::new();
        self.put_all_but_stones(&mut bytes, &mut |_| {});
        Some(Picture { seq: self.seq, bytes, stones: self.tombstones.set.picture() })
    }

    fn put_all_but_stones(&self, out: &mut Vec<u8>, hand_on: &mut dyn FnMut(&mut Vec<u8>)) {
        out.push(VERSION);
        put_option(out, self.key, |out, key| put_pair(out, key.0));
        for number in [self.seq, self.next_ticket, self.last_token, self.largest_ttl_ms] {
            put_number(out, number);
        }
        put_option(out, self.horizon, |out, horizon| {
            put_number(out, horizon.until_raw_us);
            put_number(out, horizon.length_us);
        });
        put_option(out, self.grants_held_ms, put_number);
        self.put_files(out);

        put_number(out, self.requests.clients.len() as u64);
        for (key, client) in &self.requests.clients {
            put_pair(out, key.0);
            put_client(out, client);
        }
        put_number(out, self.sessions.len() as u64);
        for (slot, session) in self.sessions.iter() {
            put_number(out, u64::from(slot));
            put_session(out, session);
        }
        put_number(out, self.leases.len() as u64);
        for (slot, lease) in self.leases.iter() {
            put_number(out, u64::from(slot));
            self.put_lease(out, lease);
            hand_on(out);
        }
        put_number(out, self.waiters.len() as u64);
        for (ticket, waiter) in &self.waiters {
            put_number(out, *ticket);
            put_number(out, waiter.wait.ms());
            put_ask(out, &waiter.ask);
            hand_on(out);
        }
        put_number(out, self.space.places().len() as u64);
        for place in self.space.places().iter_from("", &self.leases) {
            put_text(out, place.resource.text());
            put_number(out, place.version);
            put_number(out, place.crowd.last_token().unwrap_or(0));
            hand_on(out);
        }
        put_number(out, self.requests.retired.first());
        put_number(out, self.requests.retired.len() as u64);
        for key in self.requests.retired.iter() {
            put_pair(out, key.0);
            if let Some(known) = self.requests.get(&RequestName::Chosen(*key)) {
                put_known(out, known);
            }
            hand_on(out);
        }
    }

    /// Reads the journaled state back. Call `recover` before anything else is done with it.
    pub fn read_snapshot(bytes: &[u8], limits: Limits) -> Result<Machine, CodecError> {
        let mut from = Reader::new(bytes);
        let version = from.byte()?;
        if ![VERSION_WITHOUT_FILES, VERSION].contains(&version) {
            return Err(CodecError::NewerVersion(version));
        }
        let mut machine = Machine::new(limits);
        if let Some(key) = from.option(|from| from.pair().map(HashKey))? {
            machine.found(key);
        }
        machine.seq = from.number()?;
        machine.next_ticket = from.number()?;
        machine.last_token = from.number()?;
        machine.largest_ttl_ms = from.number()?;
        machine.horizon =
            from.option(|from| Ok(Horizon { until_raw_us: from.number()?, length_us: from.number()? }))?;
        machine.grants_held_ms = from.option(Reader::number)?;
        if version >= VERSION {
            // Before anybody stands anywhere: whoever stands on a file's number also stands at its path.
            machine.restore_files(&mut from)?;
        }
        for _ in 0..from.count()? {
            let key = from.client_key()?;
            machine.restore_client(key, &mut from)?;
        }
        for _ in 0..from.count()? {
            let slot = from.number_u32()?;
            let session = get_session(&mut from)?;
            machine.restore_session(slot, session)?;
        }
        let mut tokens = Tokens {
            with_others: HashSet::with_hasher(Keyed(machine.hash_key())),
            all: Vec::new(),
            newest: 0,
        };
        for _ in 0..from.count()? {
            let slot = from.number_u32()?;
            machine.restore_lease(slot, &mut from, &mut tokens)?;
        }
        tokens.check()?;
        for _ in 0..from.count()? {
            let ticket = from.number()?;
            let wait = get_wait(&mut from)?;
            let ask = get_ask(&mut from)?;
            machine.session_is_there(ask.under)?;
            machine.can_be_stood_on(&ask.resource)?;
            if let Some(mark) = &ask.request {
                machine.is_new(&mark.name)?;
            }
            let waiter = Waiter {
                ask: machine.interned(&ask),
                wait,
                presence: Presence::Absent { until_us: u64::MAX },
                since_us: 0,
                wait_until_us: u64::MAX,
                armed_us: None,
                parked_on: None,
            };
            if machine.waiters.contains_key(&ticket) || ticket >= machine.next_ticket {
                return Err(CodecError::OutOfBounds("a ticket"));
            }
            machine.enqueue(ticket, waiter);
        }
        for _ in 0..from.count()? {
            let text = from.text()?;
            let (version, last_token) = (from.number()?, from.number()?);
            let Machine { space, leases, .. } = &mut machine;
            if !space.places_mut().restore(text, version, last_token, leases) {
                Resource::parse(text).map_err(|_| CodecError::OutOfBounds("a resource"))?;
            }
        }
        machine.requests.retired.start_at(from.number_in("a number", NUMBER_END)?);
        for _ in 0..from.count()? {
            let key = from.request_key()?;
            let known = get_known(&mut from)?;
            machine.is_new(&RequestName::Chosen(key))?;
            machine.requests.retire(RequestName::Chosen(key), known.payload, known.fate, 0);
        }
        machine.tombstones.set.start_at(from.number_in("a number", NUMBER_END)?);
        for _ in 0..from.count()? {
            let stone =
                Tombstone { secret: from.secret()?, check: from.payload()?, how: get_ending(&mut from)? };
            machine.tombstones.set(stone, 0);
        }
        from.finish()?;
        if machine.space.deleted_files().any(|(number, _)| !machine.space.is_stood_on(number)) {
            return Err(CodecError::OutOfBounds("a deleted file's number"));
        }
        Ok(machine)
    }

    fn put_files(&self, out: &mut Vec<u8>) {
        put_number(out, self.files.next_number);
        put_number(out, self.files.len() as u64);
        for (name, file) in self.files.from("") {
            put_text(out, name.text());
            let File { number, size, token, created_wall_ms, written_wall_ms, changed } = *file;
            for number in [number, size, token, created_wall_ms, written_wall_ms, changed] {
                put_number(out, number);
            }
        }
        put_number(out, self.space.deleted_files().count() as u64);
        for (number, path) in self.space.deleted_files() {
            put_number(out, number);
            put_text(out, path.text());
        }
    }

    fn restore_files(&mut self, from: &mut Reader<'_>) -> Result<(), CodecError> {
        let next_number = from.number()?;
        if !(FILE_INODE_FIRST..=FILE_INODE_END).contains(&next_number) {
            return Err(CodecError::OutOfBounds("a file's number"));
        }
        self.files.next_number = next_number;
        for _ in 0..from.count()? {
            let name = from.file_name()?;
            let file = File {
                number: from.file_number()?,
                size: from.number()?,
                token: from.number()?,
                created_wall_ms: from.number()?,
                written_wall_ms: from.number()?,
                changed: from.number()?,
            };
            if self.space.is_joined(file.number) || !self.files.restore(name.clone(), file) {
                return Err(CodecError::OutOfBounds("a file"));
            }
            self.space.join_file(file.number, name.path().clone());
        }
        for _ in 0..from.count()? {
            let number = from.file_number()?;
            let path = from.resource()?;
            let is_path = matches!(path.kind(), Kind::Path(_));
            if number >= next_number || !is_path || !self.space.restore_deleted(number, path) {
                return Err(CodecError::OutOfBounds("a deleted file"));
            }
        }
        Ok(())
    }

    fn can_be_stood_on(&self, resource: &Resource) -> Result<(), CodecError> {
        if self.space.is_known(resource) { Ok(()) } else { Err(CodecError::OutOfBounds("a file's number")) }
    }

    fn restore_client(&mut self, key: ClientKey, from: &mut Reader<'_>) -> Result<(), CodecError> {
        let answered_through = from.number()?;
        let open = get_numbers(from)?;
        if self.requests.clients.contains_key(&key) {
            return Err(CodecError::OutOfBounds("a client"));
        }
        self.requests.mark(key, answered_through, &open, 0);
        for _ in 0..from.count()? {
            let number = from.number()?;
            let name = RequestName::Numbered(key, number);
            let known = get_known(from)?;
            self.is_new(&name)?;
            self.requests.retire(name, known.payload, known.fate, 0);
        }
        Ok(())
    }

    fn restore_session(&mut self, slot: u32, session: Session) -> Result<(), CodecError> {
        if self.sessions.get(slot).is_some() || slot as usize >= self.limits.slots_max {
            return Err(CodecError::OutOfBounds("a slot"));
        }
        // The id of a session that is over stands among the retired.
        if session.over.is_none()
            && let Some(mark) = &session.request
        {
            self.is_new(&mark.name)?;
            self.requests.live(mark, Fate::Session(slot), 0);
        }
        let owner = self.intern(&session.owner);
        self.sessions.insert(slot, Session { owner, ..session });
        Ok(())
    }

    fn put_lease(&self, out: &mut Vec<u8>, lease: &Lease) {
        put_ask(out, &lease.ask(&self.owners));
        put_number(out, lease.ticket);
        put_number(out, lease.token);
        put_number(out, self.ttl_longest(lease).ms());
        put_number(out, lease.acquired_wall_ms);
        put_number(out, lease.changed);
        put_flag(out, lease.broken());
    }

    fn restore_lease(
        &mut self,
        slot: u32,
        from: &mut Reader<'_>,
        tokens: &mut Tokens,
    ) -> Result<(), CodecError> {
        let ask = get_ask(from)?;
        let (ticket, token) = (from.number()?, from.number()?);
        let ttl_longest = from.ttl()?;
        let (acquired_wall_ms, changed) = (from.number()?, from.number()?);
        let broken = from.flag()?;
        self.session_is_there(ask.under)?;
        self.can_be_stood_on(&ask.resource)?;
        if self.leases.get(slot).is_some() || slot as usize >= self.limits.slots_max {
            return Err(CodecError::OutOfBounds("a slot"));
        }
        let twice = || {
            let place = self.space.places().get(ask.resource.text(), &self.leases);
            place.is_some_and(|place| place.crowd.lease_with_token(token).is_some())
        };
        if token <= tokens.newest && twice() || !tokens.insert(token, &ask.resource) {
            return Err(CodecError::OutOfBounds("a token"));
        }
        let owner = self.owners.intern(&ask.owner);
        let mut lease = Lease::new(ask, owner, ticket, token, acquired_wall_ms, changed);
        lease.set_ttl_longest(Some(ttl_longest).filter(|ttl| *ttl != self.usual_ttl_longest(lease.under())));
        if broken {
            lease.set_broken();
        }
        match lease.under() {
            Under::Own(_) => self.own_sessions += 1,
            Under::Session(session) => {
                if let Some(session) = self.sessions.get_mut(session) {
                    session.leases.insert(slot);
                }
            }
        }
        if let Some(mark) = &lease.request() {
            self.is_new(&mark.name)?;
            self.requests.live(mark, Fate::Lease(slot), 0);
        }
        let (resource, standing) = (lease.resource.clone(), lease.standing(slot));
        self.leases.insert(slot, lease);
        self.space.insert(&resource, standing, changed, &self.leases);
        Ok(())
    }

    /// A request has one fate, and none once its client has let it go.
    fn is_new(&self, name: &RequestName) -> Result<(), CodecError> {
        if self.requests.has_forgotten(name) || self.requests.get(name).is_some() {
            return Err(CodecError::OutOfBounds("a request's id"));
        }
        Ok(())
    }

    fn session_is_there(&self, under: Under) -> Result<(), CodecError> {
        match under {
            Under::Session(slot) if self.sessions.get(slot).is_none() => {
                Err(CodecError::OutOfBounds("a session's slot"))
            }
            _ => Ok(()),
        }
    }
}

/// The journaled state as it was after one event.
#[derive(Debug)]
pub struct Picture {
    seq: Seq,
    /// Everything but the stones.
    bytes: Vec<u8>,
    stones: RememberedPicture<Tombstone>,
}

impl Picture {
    /// The last event that is in it.
    pub fn seq(&self) -> Seq {
        self.seq
    }

    /// Writes what the state itself would have written, in pieces.
    pub fn write_in_pieces(&self, out: &mut Vec<u8>, hand_on: &mut dyn FnMut(&mut Vec<u8>)) {
        out.extend_from_slice(&self.bytes);
        hand_on(out);
        put_stones(out, self.stones.first, self.stones.len(), self.stones.iter(), hand_on);
    }
}

fn put_stones<'a>(
    out: &mut Vec<u8>,
    first: u64,
    len: usize,
    stones: impl Iterator<Item = &'a Tombstone>,
    hand_on: &mut dyn FnMut(&mut Vec<u8>),
) {
    put_number(out, first);
    put_number(out, len as u64);
    for stone in stones {
        put_pair(out, stone.secret.0);
        put_payload(out, stone.check);
        put_ending(out, stone.how);
        hand_on(out);
    }
}

/// The tokens of the leases read so far; each is one lease's.
struct Tokens {
    /// Of leases that can stand together with leases on other resources: known before they do.
    with_others: HashSet<u64, Keyed>,
    all: Vec<u64>,
    newest: u64,
}

impl Tokens {
    fn insert(&mut self, token: u64, resource: &Resource) -> bool {
        self.all.push(token);
        self.newest = self.newest.max(token);
        matches!(resource.kind(), Kind::Name(_)) || self.with_others.insert(token)
    }

    fn check(mut self) -> Result<(), CodecError> {
        self.all.sort_unstable();
        let twice = self.all.windows(2).any(|pair| pair[0] == pair[1]);
        if twice { Err(CodecError::OutOfBounds("a token")) } else { Ok(()) }
    }
}

/// A client's mark and what became of those of its numbers that are over; the living are found elsewhere.
fn put_client(out: &mut Vec<u8>, client: &Client) {
    put_number(out, client.answered_through);
    let open: Vec<u64> = client.open.iter().copied().collect();
    put_numbers(out, &open);
    let over = || client.known.iter().filter(|(_, known)| !known.fate.is_live());
    put_number(out, over().count() as u64);
    for (number, known) in over() {
        put_number(out, number);
        put_known(out, known);
    }
}

fn put_session(out: &mut Vec<u8>, session: &Session) {
    put_pair(out, session.secret.0);
    put_text(out, session.owner.text());
    put_number(out, session.ttl.ms());
    put_metadata(out, &session.metadata);
    put_option(out, session.request, put_mark);
    put_number(out, session.changed);
    put_option(out, session.over, put_ending);
    put_number(out, session.ended.len() as u64);
    for ended in &session.ended {
        put_text(out, ended.resource.text());
        put_number(out, ended.token);
        out.push(match ended.why {
            EndedWhy::Broken => 0,
            EndedWhy::Cancelled => 1,
            EndedWhy::Gone => 2,
        });
        put_number(out, ended.seq);
    }
}

fn get_session(from: &mut Reader<'_>) -> Result<Session, CodecError> {
    let mut session = Session {
        secret: from.secret()?,
        owner: from.owner()?,
        ttl: from.ttl()?,
        metadata: from.metadata()?,
        request: from.option(get_mark)?,
        leases: Default::default(),
        waiters: Default::default(),
        ended: Vec::new(),
        changed: from.number()?,
        over: from.option(get_ending)?,
        deadline_us: 0,
        armed_us: None,
    };
    for _ in 0..from.count()? {
        session.ended.push(EndedLease {
            resource: from.resource()?,
            token: from.number()?,
            why: match from.byte()? {
                0 => EndedWhy::Broken,
                1 => EndedWhy::Cancelled,
                2 => EndedWhy::Gone,
                tag => return Err(CodecError::UnknownTag("an ended lease", tag)),
            },
            seq: from.number()?,
        });
    }
    Ok(session)
}

fn put_known(out: &mut Vec<u8>, known: &Known) {
    put_option(out, known.payload, put_payload);
    match &known.fate {
        Fate::Ended(how) => {
            out.push(0);
            put_ending(out, *how);
        }
        Fate::Cancelled(found) => {
            out.push(1);
            put_found(out, *found);
        }
        Fate::Broke(told) => {
            out.push(2);
            put_numbers(out, &told.0);
            put_number(out, told.1);
        }
        Fate::Wrote(written) => {
            out.push(3);
            for number in [written.offset, written.length, written.size] {
                put_number(out, number);
            }
        }
        Fate::Deleted => out.push(4),
        Fate::Waiting(_) | Fate::Lease(_) | Fate::Session(_) => {
            unreachable!("the living are not among the retired")
        }
    }
}

fn get_known(from: &mut Reader<'_>) -> Result<Known, CodecError> {
    let payload = from.option(Reader::payload)?;
    let fate = match from.byte()? {
        0 => Fate::Ended(get_ending(from)?),
        1 => Fate::Cancelled(get_found(from)?),
        2 => Fate::Broke((get_numbers(from)?, from.number()?).into()),
        3 => Fate::Wrote(
            Written { offset: from.number()?, length: from.number()?, size: from.number()? }.into(),
        ),
        4 => Fate::Deleted,
        tag => return Err(CodecError::UnknownTag("a known request", tag)),
    };
    Ok(Known { payload, fate })
}
