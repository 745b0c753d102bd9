//! Secrets and keys: lease and session ids as their holders know them, and the keyed hashes that stand for request ids
//! and payloads in memory. Draws nothing itself: random bits come in with each request.

use alloc::format;
use alloc::string::String;
use core::fmt;
use core::hash::Hasher;

use siphasher::sip::SipHasher13;
use siphasher::sip128::{Hasher128, SipHasher13 as SipHasher13x128};

use crate::invalid::Invalid;
use crate::limits::ID_TEXT_BYTES_MAX;
use crate::words::{ClientId, Owner, RequestId};

/// 128 random bits. Never shown: its `Debug` keeps quiet.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Secret(pub [u64; 2]);

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

const NOBODY: LeaseId = LeaseId { slot: u32::MAX, secret: Secret([0, 0]) };

impl LeaseId {
    /// The text its holder gets.
    pub fn text(&self) -> String {
        id_text('l', self.slot, self.secret)
    }

    /// Reads a holder's text. What is not of our making is an id that nothing has.
    pub fn parse(text: &str) -> Result<LeaseId, Invalid> {
        check_id_text("lease_id", text)?;
        Ok(match parse_id(text) {
            Some(('l', id)) => id,
            _ => NOBODY,
        })
    }
}

impl SessionId {
    /// The text its owner gets.
    pub fn text(&self) -> String {
        match self {
            SessionId::Opened { slot, secret } => id_text('s', *slot, *secret),
            SessionId::Own(id) => id_text('o', id.slot, id.secret),
        }
    }

    /// Reads an owner's text. What is not of our making is an id that nothing has.
    pub fn parse(text: &str) -> Result<SessionId, Invalid> {
        check_id_text("session_id", text)?;
        Ok(match parse_id(text) {
            Some(('s', LeaseId { slot, secret })) => SessionId::Opened { slot, secret },
            Some(('o', id)) => SessionId::Own(id),
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

fn id_text(kind: char, slot: u32, secret: Secret) -> String {
    format!("{kind}{slot:x}-{:016x}{:016x}", secret.0[0], secret.0[1])
}

fn check_id_text(field: &'static str, text: &str) -> Result<(), Invalid> {
    if text.is_empty() || text.len() > ID_TEXT_BYTES_MAX {
        return Err(Invalid::new(
            field,
            format!("an id is 1 to {ID_TEXT_BYTES_MAX} characters, as it was given out"),
        ));
    }
    Ok(())
}

fn parse_id(text: &str) -> Option<(char, LeaseId)> {
    let kind = text.chars().next()?;
    let (slot, secret) = text.get(1..)?.split_once('-')?;
    if secret.len() != 32 || !secret.is_ascii() {
        return None;
    }
    let high = u64::from_str_radix(&secret[..16], 16).ok()?;
    let low = u64::from_str_radix(&secret[16..], 16).ok()?;
    let slot = u32::from_str_radix(slot, 16).ok()?;
    let id = LeaseId { slot, secret: Secret([high, low]) };
    // Only the very text that was given out: no upper case, no signs, no leading zeros.
    (id_text(kind, slot, id.secret) == text).then_some((kind, id))
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
        let mut hasher = SipHasher13::new_with_keys(self.0[0], self.0[1]);
        for part in parts {
            put(&mut hasher, part);
        }
        Payload(hasher.finish())
    }
}

fn put(hasher: &mut impl Hasher, part: &[u8]) {
    hasher.write(&(part.len() as u64).to_le_bytes());
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
    fn owner_and_id_are_kept_apart() {
        let key = HashKey([1, 2]);
        let of = |owner: &str, id: &str| {
            key.request(&Owner::parse(owner).unwrap(), &RequestId::parse(id).unwrap())
        };
        assert_ne!(of("a", "bc"), of("ab", "c"));
        assert_eq!(of("a", "bc"), of("a", "bc"));
    }
}
