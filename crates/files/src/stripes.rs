//! Lets a read see each write whole or not at all, without making writers wait: a reader looks whether a write came
//! between and reads again if one did. Only a reader that has tried often takes its turn among the writers. Never looks at
//! a byte.

use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::limits::{READ_TRIES, STRIPES};

/// One for each group of files.
#[derive(Debug)]
pub(crate) struct Stripes(Box<[Stripe]>);

#[derive(Debug, Default)]
struct Stripe {
    /// Odd while a write is under way.
    version: AtomicU64,
    turn: Mutex<()>,
}

/// A write is under way until this is dropped.
pub(crate) struct Writing<'a> {
    version: &'a AtomicU64,
    _turn: MutexGuard<'a, ()>,
}

impl Drop for Writing<'_> {
    fn drop(&mut self) {
        self.version.fetch_add(1, SeqCst);
    }
}

impl Stripes {
    pub fn new() -> Stripes {
        Stripes((0..STRIPES).map(|_| Stripe::default()).collect())
    }

    fn of(&self, number: u64) -> &Stripe {
        &self.0[(number % STRIPES as u64) as usize]
    }

    /// A write to this file begins.
    pub fn write(&self, number: u64) -> Writing<'_> {
        let stripe = self.of(number);
        let turn = stripe.turn.lock().unwrap_or_else(PoisonError::into_inner);
        stripe.version.fetch_add(1, SeqCst);
        Writing { version: &stripe.version, _turn: turn }
    }

    /// Reads, again and again, until no write to this file came between.
    pub fn read<T>(&self, number: u64, mut read: impl FnMut() -> T) -> T {
        let stripe = self.of(number);
        for _ in 0..READ_TRIES {
            let before = stripe.version.load(SeqCst);
            if before.is_multiple_of(2) {
                let found = read();
                if stripe.version.load(SeqCst) == before {
                    return found;
                }
            }
            std::thread::yield_now();
        }
        let _turn = stripe.turn.lock().unwrap_or_else(PoisonError::into_inner);
        read()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicBool;

    #[test]
    fn a_read_sees_whole_writes_only() {
        let (stripes, left, right) = (Stripes::new(), AtomicU64::new(0), AtomicU64::new(0));
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for n in 0..20_000 {
                    let _writing = stripes.write(7);
                    left.store(n, SeqCst);
                    right.store(n, SeqCst);
                }
                done.store(true, SeqCst);
            });
            while !done.load(SeqCst) {
                let (left, right) = stripes.read(7, || (left.load(SeqCst), right.load(SeqCst)));
                assert_eq!(left, right);
            }
        });
    }

    #[test]
    fn a_read_during_a_write_is_done_again() {
        let stripes = Stripes::new();
        let mut reads = 0;
        stripes.read(1, || {
            reads += 1;
            if reads < 3 {
                drop(stripes.write(1));
            }
        });
        assert_eq!(reads, 3);
    }
}
