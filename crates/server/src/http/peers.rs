//! How many connections each peer has. One machine must not take every place there is. Counts and nothing else.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};

/// Counts connections by where they come from.
#[derive(Debug)]
pub struct Peers {
    per_peer_max: usize,
    per_loopback_peer_max: usize,
    counts: HashMap<Peer, usize>,
}

/// Whom connections are counted for: an address, or the network that one machine is usually given in IPv6.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Peer(IpAddr);

impl Peer {
    /// Whom a connection from this address is counted for.
    pub fn of(address: IpAddr) -> Peer {
        match address.to_canonical() {
            IpAddr::V6(v6) if !v6.is_loopback() => {
                // Whoever has one address of a /64 has all of them.
                Peer(Ipv6Addr::from_bits(v6.to_bits() & !u128::from(u64::MAX)).into())
            }
            address => Peer(address),
        }
    }
}

impl Peers {
    /// Nobody yet. This machine has a bound of its own: a proxy on it speaks for many.
    pub fn new(per_peer_max: usize, per_loopback_peer_max: usize) -> Peers {
        Peers { per_peer_max, per_loopback_peer_max, counts: HashMap::new() }
    }

    /// Counts one more, unless it is one too many.
    pub fn enter(&mut self, peer: Peer) -> bool {
        let max = if peer.0.is_loopback() { self.per_loopback_peer_max } else { self.per_peer_max };
        let count = self.counts.entry(peer).or_default();
        if *count < max {
            *count += 1;
            return true;
        }
        // A bound of 0 must not leave an entry for everybody who ever came.
        if *count == 0 {
            self.counts.remove(&peer);
        }
        false
    }

    /// Counts one less.
    pub fn leave(&mut self, peer: Peer) {
        let Some(count) = self.counts.get_mut(&peer) else { unreachable!("who leaves was there") };
        *count -= 1;
        if *count == 0 {
            self.counts.remove(&peer);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer(text: &str) -> Peer {
        Peer::of(text.parse().unwrap())
    }

    #[test]
    fn each_peer_has_its_bound() {
        let mut peers = Peers::new(2, 3);
        let enter = |peers: &mut Peers, address: &str| peers.enter(peer(address));
        assert!(enter(&mut peers, "10.0.0.1") && enter(&mut peers, "10.0.0.1"));
        assert!(!enter(&mut peers, "10.0.0.1"));
        assert!(!enter(&mut peers, "::ffff:10.0.0.1"), "the same machine in another spelling");
        assert!(enter(&mut peers, "10.0.0.2"));
        assert!((0..3).all(|_| enter(&mut peers, "127.0.0.1")) && !enter(&mut peers, "127.0.0.1"));
        assert!(enter(&mut peers, "::1"));
        peers.leave(peer("10.0.0.1"));
        assert!(enter(&mut peers, "10.0.0.1") && !enter(&mut peers, "10.0.0.1"));
        for address in ["10.0.0.1", "10.0.0.1", "10.0.0.2", "127.0.0.1", "127.0.0.1", "127.0.0.1", "::1"] {
            peers.leave(peer(address));
        }
        assert!(peers.counts.is_empty(), "nobody is remembered");
    }

    #[test]
    fn a_network_of_ipv6_is_one_peer() {
        assert_eq!(peer("2001:db8:1:2::1"), peer("2001:db8:1:2:ffff::9"));
        assert_ne!(peer("2001:db8:1:2::1"), peer("2001:db8:1:3::1"));
        assert_ne!(peer("10.0.0.1"), peer("10.0.0.2"));
    }
}
