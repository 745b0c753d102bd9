//! Secrets and keys: lease and session ids as their holders know them, and the keyed hashes that stand for request ids
//! and payloads in memory. Draws nothing itself: random bits come in with each request.

use alloc::format;
use alloc::string::String;
use core::fmt;
use core::hash::{Hash, Hasher};

use siphasher::sip::SipHasher13;
use siphasher::sip128::{Hasher128, SipHasher13 as SipHasher13x128};

use crate::invalid::Invalid;
use crate::limits::ID_TEXT_BYTES_MAX;
use crate::words::{ClientId, Metadata, Owner, RequestId};

/// 128 random bits. Never shown: its `Debug` keeps quiet.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Secret(pub [u64; 2]);

impl Hash for Secret {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.0[0]);
        state.write_u64(self.0[1]);
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("…")
    }
}

/// Names a lease to the server: where it stands, and the secret that shows it is the holder who asks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LeaseId {
    /// The lease's slot in the table of leases.
    pub slot: u32,
    /// Drawn with the request that became the lease.
    pub secret: Secret,
}

/// Names a session to the server.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SessionId {
    /// One that was opened by name.
    Opened {
        /// Its slot in the table of sessions.
        slot: u32,
        /// Drawn with the request that opened it.
        secret: Secret,
    },
    /// The session that a single lease got for itself; it is a field of that lease and shares its secret.
    Own(LeaseId),
}

/// The text of an id, where no string is wanted for it.
#[derive(Clone, Copy)]
pub struct IdText {
    /// The text ends where these do, so that all but its first letter stands at a fixed place.
    bytes: [u8; ID_BYTES_MAX],
    /// Where it begins.
    start: usize,
}

/// A letter, a slot, a dash and a secret.
const ID_BYTES_MAX: usize = DASH_AT + 1 + SECRET_DIGITS;
const DASH_AT: usize = 1 + SLOT_DIGITS_MAX;
const SLOT_DIGITS_MAX: usize = 8;
const SECRET_DIGITS: usize = 32;

const NOBODY: LeaseId = LeaseId { slot: u32::MAX, secret: Secret([0, 0]) };

impl LeaseId {
    /// The text its holder gets.
    pub fn text(&self) -> String {
        self.id_text().as_str().into()
    }

    /// The same without a string.
    pub fn id_text(&self) -> IdText {
        IdText::of(b'l', self.slot, self.secret)
    }

    /// Reads a holder's text. What is not of our making is an id that nothing has.
    pub fn parse(text: &str) -> Result<LeaseId, Invalid> {
        LeaseId::parse_bytes(text.as_bytes())
    }

    /// The same of a text's bytes.
    pub fn parse_bytes(text: &[u8]) -> Result<LeaseId, Invalid> {
        check_id_text("lease_id", text)?;
        Ok(match parse_id(text) {
            Some((b'l', id)) => id,
            _ => NOBODY,
        })
    }
}

impl SessionId {
    /// The text its owner gets.
    pub fn text(&self) -> String {
        self.id_text().as_str().into()
    }

    /// The same without a string.
    pub fn id_text(&self) -> IdText {
        match self {
            SessionId::Opened { slot, secret } => IdText::of(b's', *slot, *secret),
            SessionId::Own(id) => IdText::of(b'o', id.slot, id.secret),
        }
    }

    /// Reads an owner's text. What is not of our making is an id that nothing has.
    pub fn parse(text: &str) -> Result<SessionId, Invalid> {
        check_id_text("session_id", text.as_bytes())?;
        Ok(match parse_id(text.as_bytes()) {
            Some((b's', LeaseId { slot, secret })) => SessionId::Opened { slot, secret },
            Some((b'o', id)) => SessionId::Own(id),
            _ => SessionId::Own(NOBODY),
        })
    }

    /// The secret part.
    pub fn secret(&self) -> Secret {
        match self {
            SessionId::Opened { secret, .. } => *secret,
            SessionId::Own(id) => id.secret,
        }
    }
}

impl IdText {
    fn of(kind: u8, slot: u32, secret: Secret) -> IdText {
        let mut bytes = [0; ID_BYTES_MAX];
        bytes[1..DASH_AT].copy_from_slice(&digits(slot));
        bytes[DASH_AT] = b'-';
        let [high, low] = secret.0;
        let words = [(high >> 32) as u32, high as u32, (low >> 32) as u32, low as u32];
        for (place, word) in bytes[DASH_AT + 1..].chunks_exact_mut(8).zip(words) {
            place.copy_from_slice(&digits(word));
        }
        // Without leading zeros.
        let start = (slot.leading_zeros() / 4).min(7) as usize;
        bytes[start] = kind;
        IdText { bytes, start }
    }

    /// Of a lease's text, that of the session which the lease got for itself: only the letter is another.
    pub fn of_own_session(mut self) -> IdText {
        self.bytes[self.start] = b'o';
        self
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        let text = core::str::from_utf8(self.as_bytes());
        assert!(text.is_ok(), "ids are ASCII");
        text.unwrap_or_default()
    }

    /// The text's bytes, for whoever needs no proof that they are one.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[self.start..]
    }
}

/// Keeps quiet, as what is in it does.
impl fmt::Debug for IdText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("…")
    }
}

fn check_id_text(field: &'static str, text: &[u8]) -> Result<(), Invalid> {
    if text.is_empty() || text.len() > ID_TEXT_BYTES_MAX {
        return Err(Invalid::new(
            field,
            format!("an id is 1 to {ID_TEXT_BYTES_MAX} characters, as it was given out"),
        ));
    }
    Ok(())
}

/// Only the very text that was given out: no upper case, no signs, no leading zeros.
fn parse_id(text: &[u8]) -> Option<(u8, LeaseId)> {
    let (kind, rest) = text.split_first()?;
    let (slot, secret) = rest.split_at_checked(rest.len().checked_sub(1 + SECRET_DIGITS)?)?;
    let mut padded = [b'0'; SLOT_DIGITS_MAX];
    padded[SLOT_DIGITS_MAX.checked_sub(slot.len())?..].copy_from_slice(slot);
    let (words, []) = secret[1..].as_chunks() else { return None };
    let [a, b, c, d] = *words else { return None };
    let pair = |high, low| u64::from(read_digits(high)) << 32 | u64::from(read_digits(low));
    let (slot, secret) = (read_digits(padded), Secret([pair(a, b), pair(c, d)]));
    // Whatever was no digit was read as some digit, and is written as that one.
    let same = IdText::of(*kind, slot, secret).as_bytes() == text;
    same.then_some((*kind, LeaseId { slot, secret }))
}

// Digits in base 16, eight at a time in the eight bytes of a number: those of a secret are random, so that a branch for each
// would be guessed wrong every other time.

/// A one in each byte.
const EACH: u64 = 0x0101_0101_0101_0101;

/// A number as eight digits, in lower case.
fn digits(number: u32) -> [u8; 8] {
    let mut digits = u64::from(number);
    digits = (digits | digits << 16) & 0x0000_ffff_0000_ffff;
    digits = (digits | digits << 8) & 0x00ff_00ff_00ff_00ff;
    digits = (digits | digits << 4) & (EACH * 15);
    // Six more than a letter's value is 16 or more.
    let letters = ((digits + EACH * 6) >> 4) & EACH;
    (digits + EACH * u64::from(b'0') + letters * u64::from(b'a' - b'9' - 1)).to_be_bytes()
}

/// The number that eight digits are. Of what is no digit it makes something.
fn read_digits(digits: [u8; 8]) -> u32 {
    let text = u64::from_be_bytes(digits);
    // The low half of a digit is its value, and of a letter its place from 1.
    let letters = (text >> 6) & EACH;
    let mut number = ((text & (EACH * 15)) + letters * 9) & (EACH * 15);
    number = (number | number >> 4) & 0x00ff_00ff_00ff_00ff;
    number = (number | number >> 8) & 0x0000_ffff_0000_ffff;
    (number | number >> 16) as u32
}

/// The journal's own random key, so that nobody outside can make two request ids collide.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct HashKey(pub [u64; 2]);

/// An owner's request id as memory knows it: a keyed 128-bit hash.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct RequestKey(pub [u64; 2]);

/// A stream's client as memory knows it: a keyed 128-bit hash.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ClientKey(pub [u64; 2]);

/// A request id of either kind as memory knows it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum RequestName {
    /// An id that its owner chose.
    Chosen(RequestKey),
    /// A number that a client of a stream counted.
    Numbered(ClientKey, u64),
}

/// What a request asked for, wait apart, as a keyed hash: the same id with another payload is told so.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Payload(pub u64);

impl HashKey {
    /// The name under which this owner's request id is remembered.
    pub fn request(&self, owner: &Owner, id: &RequestId) -> RequestName {
        match id {
            RequestId::Chosen(text) => RequestName::Chosen(RequestKey(self.pair([owner.text(), text]))),
            RequestId::Numbered(client, number) => RequestName::Numbered(self.client(client), *number),
        }
    }

    /// The name of a request that has no owner, such as a break. No owner is empty, so it cannot meet anybody's id.
    pub fn ownerless_request(&self, id: &RequestId) -> RequestName {
        match id {
            RequestId::Chosen(text) => RequestName::Chosen(RequestKey(self.pair(["", text]))),
            RequestId::Numbered(client, number) => RequestName::Numbered(self.client(client), *number),
        }
    }

    /// The key under which a stream's client is remembered.
    pub fn client(&self, client: &ClientId) -> ClientKey {
        ClientKey(self.pair(["client", client.text()]))
    }

    /// The key under which those beneath a path are found.
    pub(crate) fn path(&self, text: &str) -> [u64; 2] {
        self.pair(["path", text])
    }

    fn pair(&self, parts: [&str; 2]) -> [u64; 2] {
        let mut hasher = SipHasher13x128::new_with_keys(self.0[0], self.0[1]);
        for part in parts {
            put(&mut hasher, part.as_bytes());
        }
        let hash = hasher.finish128();
        [hash.h1, hash.h2]
    }

    /// A fingerprint of the parts, each kept apart from the next.
    pub fn payload<'a>(&self, parts: impl IntoIterator<Item = &'a [u8]>) -> Payload {
        let mut payload = self.begin_payload();
        parts.into_iter().for_each(|part| payload.add(part));
        payload.finish()
    }

    /// The same, to be added part by part.
    pub(crate) fn begin_payload(&self) -> PayloadHasher {
        PayloadHasher(SipHasher13::new_with_keys(self.0[0], self.0[1]))
    }
}

/// A fingerprint in the making.
pub(crate) struct PayloadHasher(SipHasher13);

impl PayloadHasher {
    /// One more part, kept apart from the one before.
    pub(crate) fn add(&mut self, part: &[u8]) {
        put(&mut self.0, part);
    }

    /// Keys and values, each a part.
    pub(crate) fn add_metadata(&mut self, metadata: &Metadata) {
        for (key, value) in metadata.entries() {
            self.add(key.as_bytes());
            self.add(value.as_bytes());
        }
    }

    pub(crate) fn finish(self) -> Payload {
        Payload(self.0.finish())
    }
}

fn put(hasher: &mut impl Hasher, part: &[u8]) {
    hasher.write_u64(part.len() as u64);
    hasher.write(part);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_come_back_only_as_they_were_given_out() {
        let id = LeaseId { slot: 0xab, secret: Secret([1, u64::MAX]) };
        assert_eq!(LeaseId::parse(&id.text()).unwrap(), id);
        assert!(id.text().len() <= ID_TEXT_BYTES_MAX);
        let session = SessionId::Opened { slot: 7, secret: id.secret };
        assert_eq!(SessionId::parse(&session.text()).unwrap(), session);
        assert_eq!(SessionId::parse(&id.text()).unwrap(), SessionId::Own(NOBODY));
        for text in [id.text().to_uppercase(), id.text().replace("lab", "l0ab"), "lß-".into(), "l".into()] {
            assert_eq!(LeaseId::parse(&text).unwrap(), NOBODY);
        }
        assert!(LeaseId::parse("").is_err());
        assert!(LeaseId::parse(&"x".repeat(65)).is_err());
    }

    #[test]
    fn ids_are_written_in_full() {
        for (slot, digits) in [(0, "0"), (0xa, "a"), (0x1f0, "1f0"), (u32::MAX, "ffffffff")] {
            let id = LeaseId { slot, secret: Secret([0x12, 0xdead_beef_0000_0001]) };
            let text = format!("l{digits}-0000000000000012deadbeef00000001");
            assert_eq!(id.text(), text);
            assert_eq!(LeaseId::parse(&text).unwrap(), id);
            assert_eq!(SessionId::Own(id).text(), text.replacen('l', "o", 1));
            assert_eq!(id.id_text().of_own_session().as_str(), SessionId::Own(id).text());
            for (at, byte) in text.bytes().enumerate().skip(1) {
                for wrong in [byte.to_ascii_uppercase(), b'g', b'+', b' ', b'/', b':', b'`'] {
                    let mut changed = text.clone().into_bytes();
                    changed[at] = wrong;
                    let changed = String::from_utf8(changed).unwrap();
                    if changed != text {
                        assert_eq!(LeaseId::parse(&changed).unwrap(), NOBODY, "{changed}");
                    }
                }
            }
            for changed in [format!("{text}0"), text.replacen('l', "l0", 1), text.replacen('-', "0-", 1)] {
                let read = LeaseId::parse(&changed).unwrap();
                assert!(read == NOBODY || read.text() == changed, "{changed}");
            }
        }
        for text in ["l-00000000000000120000000000000001", "-", "l0-", "ß0-00000000000000120000000000000001"]
        {
            assert_eq!(LeaseId::parse(text).unwrap(), NOBODY);
        }
    }

    #[test]
    fn digits_are_those_of_everybody_else() {
        let mut number: u32 = 1;
        for _ in 0..10_000 {
            number = number.wrapping_mul(0x915f_77f5).wrapping_add(1);
            let text = format!("{number:08x}");
            assert_eq!(digits(number), text.as_bytes());
            assert_eq!(read_digits(digits(number)), number);
            let id = LeaseId { slot: number >> (number % 32), secret: Secret([number.into(), 7]) };
            assert_eq!(id.text(), format!("l{:x}-{:016x}{:016x}", id.slot, id.secret.0[0], 7));
        }
    }

    /// Journals hold such values: a server of another version must come to the same.
    #[test]
    fn hashes_never_change() {
        let key = HashKey([0x0123_4567_89ab_cdef, 42]);
        let parts: [&[u8]; 5] = [b"acquire", b"", b"12345678", b"a longer part of odd length", &[255; 17]];
        assert_eq!(key.payload(parts), Payload(PINNED_PAYLOAD));
        let mut metadata = key.begin_payload();
        let map = [("a".into(), "b".into()), ("c".into(), String::new())].into();
        metadata.add_metadata(&Metadata::new(map).unwrap());
        assert_eq!(metadata.finish(), key.payload([&b"a"[..], b"b", b"c", b""]));
        let client = ClientId::parse("0190d9b2-client").unwrap();
        assert_eq!(key.client(&client), ClientKey(PINNED_CLIENT));
        let name = key.request(&Owner::parse("w1").unwrap(), &RequestId::parse("r-1").unwrap());
        assert_eq!(name, RequestName::Chosen(RequestKey(PINNED_REQUEST)));
    }

    const PINNED_PAYLOAD: u64 = 0x83b7_0fe2_6809_5ee9;
    const PINNED_CLIENT: [u64; 2] = [0x64af_cb15_7c7b_f201, 0xa3f0_c70d_8b2f_73ce];
    const PINNED_REQUEST: [u64; 2] = [0xc97c_a357_1f7e_c185, 0x3bcf_33b9_801f_8d79];

    #[test]
    fn owner_and_id_are_kept_apart() {
        let key = HashKey([1, 2]);
        let of = |owner: &str, id: &str| {
            key.request(&Owner::parse(owner).unwrap(), &RequestId::parse(id).unwrap())
        };
        assert_ne!(of("a", "bc"), of("ab", "c"));
        assert_eq!(of("a", "bc"), of("a", "bc"));
    }
}
