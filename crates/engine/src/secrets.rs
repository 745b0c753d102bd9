//! Random bits for the ids of leases and sessions: a userspace generator with a seed from the operating system, because
//! a system call for each request would cost more than deciding it.

use std::io;

use chacha20::ChaCha20Rng;
use chacha20::rand_core::{Rng, SeedableRng};
use leasehold_state_machine::ids::{HashKey, Secret};

/// Draws secrets.
pub struct Secrets(ChaCha20Rng);

impl Secrets {
    /// Seeds the generator from the operating system.
    pub fn from_system() -> io::Result<Secrets> {
        let mut seed = [0; 32];
        getrandom::fill(&mut seed).map_err(io::Error::from)?;
        Ok(Secrets(ChaCha20Rng::from_seed(seed)))
    }

    /// The same secrets for the same seed: for tests, where there is nobody to keep them from.
    pub fn from_seed(seed: u64) -> Secrets {
        Secrets(ChaCha20Rng::seed_from_u64(seed))
    }

    /// 128 bits that nobody can guess.
    pub fn draw(&mut self) -> Secret {
        Secret([self.0.next_u64(), self.0.next_u64()])
    }
}

/// A random key for a journal that begins.
pub fn founding_key() -> io::Result<HashKey> {
    Secrets::from_system().map(|mut secrets| HashKey(secrets.draw().0))
}
