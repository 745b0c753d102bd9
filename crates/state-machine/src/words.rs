//! The checked words of a request: owners, modes, metadata, durations, reasons. A value of these types is always
//! within its bounds, so nothing behind the door checks again.

use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use core::fmt;

use crate::invalid::Invalid;
use crate::limits::{
    METADATA_BYTES_MAX, METADATA_ENTRIES_MAX, OWNER_BYTES_MAX, REASON_BYTES_MAX, REQUEST_ID_BYTES_MAX,
    TTL_MS_DEFAULT, TTL_MS_MAX, TTL_MS_MIN, WAIT_MS_MAX,
};
use crate::resource::has_control;

/// Who asks: a caller-chosen text such as `worker-1@host7`. Cheap to clone.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Owner(Arc<str>);

impl Owner {
    /// Checks an `owner_id`.
    pub fn parse(text: &str) -> Result<Owner, Invalid> {
        if text.is_empty() || text.len() > OWNER_BYTES_MAX {
            let problem = format!("an owner has 1 to {OWNER_BYTES_MAX} bytes, this one has {}", text.len());
            return Err(Invalid::new("owner_id", problem));
        }
        if has_control(text) {
            return Err(Invalid::new("owner_id", "an owner has no control characters"));
        }
        Ok(Owner(Arc::from(text)))
    }

    /// The text as it was given.
    pub fn text(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// How a resource is wanted or held.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum Mode {
    /// Conflicts with everything that overlaps.
    #[default]
    Exclusive,
    /// Conflicts only with what is exclusive.
    Shared,
}

impl Mode {
    /// The word on the wire.
    pub fn text(self) -> &'static str {
        match self {
            Mode::Exclusive => "exclusive",
            Mode::Shared => "shared",
        }
    }

    /// Reads the word on the wire.
    pub fn parse(text: &str) -> Result<Mode, Invalid> {
        match text {
            "exclusive" => Ok(Mode::Exclusive),
            "shared" => Ok(Mode::Shared),
            _ => Err(Invalid::new("mode", "a mode is `exclusive` or `shared`")),
        }
    }

    /// Whether two overlapping requests of these modes conflict.
    pub fn conflicts(self, other: Mode) -> bool {
        self == Mode::Exclusive || other == Mode::Exclusive
    }
}

/// A TTL within its bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ttl(u32);

impl Ttl {
    /// Checks a `ttl_ms`.
    pub fn from_ms(ttl_ms: u64) -> Result<Ttl, Invalid> {
        match u32::try_from(ttl_ms) {
            Ok(ms) if (TTL_MS_MIN..=TTL_MS_MAX).contains(&ttl_ms) => Ok(Ttl(ms)),
            _ => Err(Invalid::new("ttl_ms", format!("a TTL is {TTL_MS_MIN} to {TTL_MS_MAX} ms"))),
        }
    }

    /// In milliseconds.
    pub fn ms(self) -> u64 {
        u64::from(self.0)
    }

    /// In microseconds.
    pub fn us(self) -> u64 {
        self.ms() * 1000
    }

    /// As a small number, for records that hold little else.
    pub(crate) fn packed(self) -> u32 {
        self.0
    }

    /// Of a number that was packed.
    pub(crate) fn unpacked(packed: u32) -> Ttl {
        Ttl(packed)
    }
}

impl Default for Ttl {
    fn default() -> Self {
        Ttl(TTL_MS_DEFAULT as u32)
    }
}

/// A wait within its bounds; zero is a single attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Wait(u32);

impl Wait {
    /// Checks a `wait_ms`.
    pub fn from_ms(wait_ms: u64) -> Result<Wait, Invalid> {
        match u32::try_from(wait_ms) {
            Ok(ms) if wait_ms <= WAIT_MS_MAX => Ok(Wait(ms)),
            _ => Err(Invalid::new("wait_ms", format!("a wait is at most {WAIT_MS_MAX} ms; then ask again"))),
        }
    }

    /// In milliseconds.
    pub fn ms(self) -> u64 {
        u64::from(self.0)
    }

    /// In microseconds.
    pub fn us(self) -> u64 {
        self.ms() * 1000
    }
}

/// A caller's id for one request, so that a retry has no second effect.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum RequestId {
    /// Chosen by its owner, and its owner's own.
    Chosen(Box<str>),
    /// The number of an operation on a stream, which counts up for each client.
    Numbered(ClientId, u64),
}

impl RequestId {
    /// Checks a `request_id`.
    pub fn parse(text: &str) -> Result<RequestId, Invalid> {
        check_visible("request_id", text)?;
        Ok(RequestId::Chosen(text.into()))
    }

    /// The text as it was given; a number follows its client's.
    pub fn text(&self) -> Cow<'_, str> {
        match self {
            RequestId::Chosen(text) => Cow::Borrowed(text),
            RequestId::Numbered(client, number) => format!("{} {number}", client.text()).into(),
        }
    }
}

/// Who counts the numbers of operations on a stream: random, new for each process of a client. Cheap to clone.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ClientId(Arc<str>);

impl ClientId {
    /// Checks a `client_id`.
    pub fn parse(text: &str) -> Result<ClientId, Invalid> {
        check_visible("client_id", text)?;
        Ok(ClientId(text.into()))
    }

    /// The text as it was given.
    pub fn text(&self) -> &str {
        &self.0
    }
}

fn check_visible(field: &'static str, text: &str) -> Result<(), Invalid> {
    let visible = text.bytes().all(|b| b.is_ascii_graphic());
    if text.is_empty() || text.len() > REQUEST_ID_BYTES_MAX || !visible {
        let problem = format!("an id is 1 to {REQUEST_ID_BYTES_MAX} visible ASCII characters");
        return Err(Invalid::new(field, problem));
    }
    Ok(())
}

/// Why an operator broke a lock. Required, and kept.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Reason(Arc<str>);

impl Reason {
    /// Checks a `reason`.
    pub fn parse(text: &str) -> Result<Reason, Invalid> {
        if text.trim().is_empty() || text.len() > REASON_BYTES_MAX || text.chars().any(char::is_control) {
            let problem =
                format!("a break needs a reason of 1 to {REASON_BYTES_MAX} bytes without control characters");
            return Err(Invalid::new("reason", problem));
        }
        Ok(Reason(Arc::from(text)))
    }

    /// The text as it was given.
    pub fn text(&self) -> &str {
        &self.0
    }
}

/// What a holder says about itself, in order of its keys. Cheap to clone; empty costs nothing.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Metadata(Option<Arc<BTreeMap<String, String>>>);

impl Metadata {
    /// Nothing.
    pub(crate) const NONE: Metadata = Metadata(None);

    /// Checks a `metadata` map.
    pub fn new(map: BTreeMap<String, String>) -> Result<Metadata, Invalid> {
        if map.is_empty() {
            return Ok(Metadata(None));
        }
        let bytes: usize = map.iter().map(|(key, value)| key.len() + value.len()).sum();
        if map.len() > METADATA_ENTRIES_MAX || bytes > METADATA_BYTES_MAX {
            let problem = format!(
                "metadata has at most {METADATA_ENTRIES_MAX} entries and {METADATA_BYTES_MAX} bytes in all"
            );
            return Err(Invalid::new("metadata", problem));
        }
        Ok(Metadata(Some(Arc::new(map))))
    }

    /// The entries in order of their keys.
    pub fn entries(&self) -> impl ExactSizeIterator<Item = (&str, &str)> {
        static NONE: BTreeMap<String, String> = BTreeMap::new();
        let map = self.0.as_deref().unwrap_or(&NONE);
        map.iter().map(|(key, value)| (key.as_str(), value.as_str()))
    }
}
