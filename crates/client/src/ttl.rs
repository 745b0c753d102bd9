//! How long a lease lives without a renewal: presets, or any duration. Bounds are the server's to judge.

use std::time::Duration;

/// How long a lease lives without a renewal. [`Ttl::default`] leaves it to the server: 30 s, or the TTL of the session that
/// the lease lives by.
///
/// A lease is renewed at a third of its TTL and given up at half of it, if no renewal was confirmed; the other half is the
/// holder's time to stop. So the TTL is how long the others wait when a holder has died, and half of it how long a server or
/// a network may be away before a holder stops.
///
/// ```
/// use std::time::Duration;
/// use leasehold_client::Ttl;
///
/// assert_eq!(Ttl::SHORT, Ttl::from(Duration::from_secs(10)));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Ttl(Option<Duration>);

impl Ttl {
    /// 10 s: others go on soon after a holder has died; a server that is away for 5 s costs the lock.
    pub const SHORT: Ttl = Ttl(Some(Duration::from_secs(10)));
    /// 60 s.
    pub const LONG: Ttl = Ttl(Some(Duration::from_secs(60)));
    /// 300 s: for work that is expensive to stop.
    pub const BATCH: Ttl = Ttl(Some(Duration::from_secs(300)));

    /// The duration, if one was chosen.
    pub fn duration(self) -> Option<Duration> {
        self.0
    }

    /// As the protocol has it.
    pub(crate) fn ms(self) -> Option<u64> {
        self.0.map(|ttl| u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX))
    }
}

impl From<Duration> for Ttl {
    fn from(ttl: Duration) -> Ttl {
        Ttl(Some(ttl))
    }
}
