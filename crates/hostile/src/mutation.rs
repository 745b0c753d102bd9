//! Makes inputs worse, by a seed: flips, cuts, repeats, exchanges, and numbers at the edge of what fits. Knows no format.

/// A source of mutated inputs.
#[derive(Clone, Debug)]
pub struct Mutator {
    state: u64,
}

/// Bytes and runs that decoders stumble over.
const EDGES: [&[u8]; 14] = [
    &[0x00],
    &[0xff],
    &[0x7f],
    &[0x80],
    &[0x80, 0x00],
    &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01],
    &[0xff; 8],
    b"9223372036854775808",
    b"18446744073709551616",
    b"-1",
    b"\"\\ud800\"",
    b"[[[[[[[[[[",
    b"%00",
    "\u{202e}\u{85}".as_bytes(),
];

impl Mutator {
    /// The same seed gives the same inputs.
    pub fn new(seed: u64) -> Mutator {
        Mutator { state: seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1 }
    }

    /// A number below the bound.
    pub fn below(&mut self, bound: usize) -> usize {
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        let bound = u64::try_from(bound.max(1)).unwrap_or(u64::MAX);
        usize::try_from((self.state >> 11) % bound).unwrap_or(0)
    }

    /// One of the samples with a few things changed, or bytes out of nowhere.
    pub fn input(&mut self, samples: &[Vec<u8>]) -> Vec<u8> {
        if samples.is_empty() || self.below(50) == 0 {
            return (0..self.below(200)).map(|_| self.byte()).collect();
        }
        let mut bytes = samples[self.below(samples.len())].clone();
        for _ in 0..=self.below(4) {
            let other = &samples[self.below(samples.len())];
            self.change(&mut bytes, other);
        }
        bytes
    }

    fn byte(&mut self) -> u8 {
        u8::try_from(self.below(256)).unwrap_or(0)
    }

    fn change(&mut self, bytes: &mut Vec<u8>, other: &[u8]) {
        let at = self.below(bytes.len() + 1);
        let to = (at + 1 + self.below(8)).min(bytes.len());
        match self.below(9) {
            0 if at < bytes.len() => bytes[at] ^= 1 << self.below(8),
            1 if at < bytes.len() => bytes[at] = self.byte(),
            2 => bytes.truncate(at),
            3 if at < to => drop(bytes.drain(at..to)),
            4 => {
                let edge = EDGES[self.below(EDGES.len())];
                drop(bytes.splice(at..at, edge.iter().copied()));
            }
            5 if at < to => {
                let edge = EDGES[self.below(EDGES.len())];
                drop(bytes.splice(at..to, edge.iter().copied()));
            }
            6 if at < to => {
                let run = bytes[at..to].repeat(1 + self.below(40));
                drop(bytes.splice(at..at, run));
            }
            7 if !other.is_empty() => {
                let from = self.below(other.len());
                bytes.truncate(at);
                bytes.extend_from_slice(&other[from..]);
            }
            _ => bytes.insert(at, self.byte()),
        }
    }
}
