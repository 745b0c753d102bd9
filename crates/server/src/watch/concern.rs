//! What a watcher wants to hear of.

use leasehold_state_machine::invalid::Invalid;
use leasehold_state_machine::limits::NAME_BYTES_MAX;
use leasehold_state_machine::resource::Resource;

/// The longest beginning of a lock's text that can fit anything: a path with its kind and its root.
const PREFIX_BYTES_MAX: usize = NAME_BYTES_MAX + 8;

/// Which locks a watcher wants to hear of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Concern {
    /// The one with exactly this canonical text.
    Lock(Box<str>),
    /// All whose canonical text begins with this.
    Prefix(Box<str>),
}

impl Concern {
    /// One lock.
    pub fn lock(resource: &Resource) -> Concern {
        Concern::Lock(resource.text().into())
    }

    /// All locks whose text begins with `prefix`; all of them when it is empty.
    pub fn prefix(prefix: &str) -> Result<Concern, Invalid> {
        if prefix.len() > PREFIX_BYTES_MAX {
            return Err(Invalid::new("prefix", "it is longer than any lock's name"));
        }
        Ok(Concern::Prefix(prefix.into()))
    }

    /// Whether a lock with this canonical text is meant.
    pub fn fits(&self, lock: &str) -> bool {
        match self {
            Concern::Lock(text) => lock == &**text,
            Concern::Prefix(prefix) => lock.starts_with(&**prefix),
        }
    }
}
