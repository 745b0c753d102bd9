//! The lock recipe itself, over anything that carries commands: what is sent, what the replies mean, and the pause before another
//! attempt.

use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

use super::resp::Reply;
use crate::drive::TTL;
use crate::peers::LockClient;

/// Deletes the key if its value is still ours.
pub const RELEASE: &str =
    "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) else return 0 end";
/// Prolongs it if its value is still ours.
const RENEW: &str = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('pexpire', KEYS[1], ARGV[2]) else return 0 end";
/// Between two attempts at a held lock a client pauses for a random time of up to this, as usual with Redis; short, because the
/// locks of a benchmark are held for moments.
const PAUSE_MAX: Duration = Duration::from_millis(10);

/// Carries commands to Redis and replies back.
pub trait Carrier: Send + 'static {
    /// Sends a command, and waits for its one reply.
    fn ask(&mut self, words: &[&[u8]]) -> impl Future<Output = Result<Reply, String>> + Send;
}

/// The names of the scripts in the server.
#[derive(Clone, Debug)]
pub struct Scripts {
    release: Vec<u8>,
    renew: Vec<u8>,
}

impl Scripts {
    /// Loads them.
    pub async fn load(carrier: &mut impl Carrier) -> Result<Scripts, String> {
        let (mut names, scripts) = (Vec::new(), [RELEASE, RENEW]);
        for script in scripts {
            match carrier.ask(&[b"SCRIPT", b"LOAD", script.as_bytes()]).await? {
                Reply::Bytes(name) => names.push(name),
                other => return Err(format!("a script was answered {other:?}")),
            }
        }
        let renew = names.pop().unwrap_or_default();
        Ok(Scripts { release: names.pop().unwrap_or_default(), renew })
    }
}

/// One client.
pub struct Locker<C> {
    carrier: C,
    scripts: Scripts,
    random: Random,
    ttl_ms: String,
}

impl<C: Carrier> Locker<C> {
    /// A client that sends over this.
    pub fn new(carrier: C, scripts: Scripts) -> Locker<C> {
        Locker { carrier, scripts, random: Random::new(), ttl_ms: TTL.as_millis().to_string() }
    }
}

/// What shows that a lock is one's own: its key and the random value.
pub struct Held {
    key: String,
    value: [u8; 32],
}

impl<C: Carrier> LockClient for Locker<C> {
    type Held = Held;

    async fn acquire(&mut self, lock: &str) -> Result<Held, String> {
        let value = self.random.value();
        loop {
            let ttl_ms = self.ttl_ms.as_bytes();
            match self.carrier.ask(&[b"SET", lock.as_bytes(), &value, b"NX", b"PX", ttl_ms]).await? {
                Reply::Word => return Ok(Held { key: lock.to_owned(), value }),
                Reply::Nil => tokio::time::sleep(self.random.pause()).await,
                other => return Err(format!("SET was answered {other:?}")),
            }
        }
    }

    async fn renew(&mut self, held: &mut Held) -> Result<(), String> {
        let (name, ttl_ms) = (&self.scripts.renew, self.ttl_ms.as_bytes());
        let words: &[&[u8]] = &[b"EVALSHA", name, b"1", held.key.as_bytes(), &held.value, ttl_ms];
        one(self.carrier.ask(words).await?, "a renewal")
    }

    async fn release(&mut self, held: Held) -> Result<(), String> {
        let name = &self.scripts.release;
        let words: &[&[u8]] = &[b"EVALSHA", name, b"1", held.key.as_bytes(), &held.value];
        one(self.carrier.ask(words).await?, "a release")
    }
}

/// The script did what it was asked to.
fn one(reply: Reply, what: &str) -> Result<(), String> {
    match reply {
        Reply::Number(1) => Ok(()),
        other => Err(format!("{what} was answered {other:?}")),
    }
}

/// A small generator of random numbers, seeded by the system: as cheap as it can be, so that the client is not what is measured.
struct Random(u64);

impl Random {
    fn new() -> Random {
        Random(RandomState::new().hash_one(0))
    }

    fn number(&mut self) -> u64 {
        // SplitMix64.
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut number = self.0;
        number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        number ^ (number >> 31)
    }

    fn value(&mut self) -> [u8; 32] {
        let mut value = [0; 32];
        for part in value.chunks_exact_mut(16) {
            let number = self.number();
            for (at, digit) in part.iter_mut().enumerate() {
                *digit = b"0123456789abcdef"[(number >> (at * 4) & 15) as usize];
            }
        }
        value
    }

    fn pause(&mut self) -> Duration {
        let longest_us = u64::try_from(PAUSE_MAX.as_micros()).unwrap_or(u64::MAX);
        Duration::from_micros(self.number() % longest_us)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_differ_and_are_text() {
        let mut random = Random::new();
        let (one, other) = (random.value(), random.value());
        assert_ne!(one, other);
        assert!(one.iter().all(u8::is_ascii_hexdigit));
        assert!((0..1000).all(|_| random.pause() < PAUSE_MAX));
    }
}
