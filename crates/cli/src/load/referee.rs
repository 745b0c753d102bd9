//! Checks, while clients run, that no two believe at once that they hold the same lock, and that tokens grow with every
//! grant. Sees only what clients were told and when; asks no server.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// So many violations are told in words; all are counted.
const TOLD_MAX: usize = 10;

/// Watches over a number of locks.
#[derive(Debug)]
pub struct Referee {
    locks: Vec<Mutex<Seen>>,
    changes: AtomicU64,
    violations: AtomicU64,
    told: Mutex<Vec<String>>,
}

/// A client that believes.
#[derive(Clone, Copy, Debug)]
pub struct Believer {
    pub client: usize,
    pub token: u64,
    /// When it stops by its clock, whatever it does.
    pub until_us: u64,
}

/// What was seen of one lock.
#[derive(Debug, Default)]
struct Seen {
    believer: Option<Believer>,
    /// Who believed last, and under which token.
    last: Option<(usize, u64)>,
}

impl Referee {
    /// For so many locks.
    pub fn new(locks: usize) -> Referee {
        Referee {
            locks: (0..locks).map(|_| Mutex::default()).collect(),
            changes: AtomicU64::new(0),
            violations: AtomicU64::new(0),
            told: Mutex::default(),
        }
    }

    fn seen(&self, lock: usize) -> MutexGuard<'_, Seen> {
        self.locks[lock].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A client begins to believe. Call it after its grant was heard.
    pub fn enter(&self, lock: usize, now_us: u64, believer: Believer) {
        let mut seen = self.seen(lock);
        let Believer { client, token, .. } = believer;
        // Whoever is past its time believes no more, also when it was stopped and has not said so yet.
        if let Some(other) = seen.believer.filter(|other| now_us < other.until_us) {
            self.violated(format!(
                "clients {} and {client} believed at once that they hold lock {lock}, under the tokens {} and {token}",
                other.client, other.token
            ));
        }
        if let Some((other, last)) = seen.last
            && token <= last
        {
            self.violated(format!(
                "lock {lock} was granted to client {client} under the token {token} after client {other} had it under {last}"
            ));
        }
        let handed_over = seen.last.is_some_and(|(other, _)| other != client);
        self.changes.fetch_add(u64::from(handed_over), Ordering::Relaxed);
        seen.last = Some((client, token.max(seen.last.map_or(0, |(_, last)| last))));
        seen.believer = Some(believer);
    }

    /// A client stops believing. Call it before its release is sent.
    pub fn leave(&self, lock: usize, token: u64) {
        let mut seen = self.seen(lock);
        seen.believer = seen.believer.filter(|believer| believer.token != token);
    }

    /// Something was wrong, as this sentence tells.
    pub fn violated(&self, sentence: String) {
        self.violations.fetch_add(1, Ordering::Relaxed);
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        if told.len() < TOLD_MAX {
            told.push(sentence);
        }
    }

    /// How often a lock went from one client to another.
    pub fn changes(&self) -> u64 {
        self.changes.load(Ordering::Relaxed)
    }

    /// How often something was wrong.
    pub fn violations(&self) -> u64 {
        self.violations.load(Ordering::Relaxed)
    }

    /// The first violations, in words.
    pub fn told(&self) -> Vec<String> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn enter(referee: &Referee, now_us: u64, client: usize, token: u64) {
        referee.enter(0, now_us, Believer { client, token, until_us: now_us + 100 });
    }

    #[test]
    fn one_after_the_other_is_as_it_should_be() {
        let referee = Referee::new(2);
        enter(&referee, 0, 1, 10);
        referee.leave(0, 10);
        enter(&referee, 5, 2, 11);
        referee.enter(1, 6, Believer { client: 1, token: 12, until_us: 100 });
        referee.leave(0, 11);
        enter(&referee, 9, 2, 13);
        assert_eq!((referee.violations(), referee.changes()), (0, 1));
    }

    #[test]
    fn two_at_once_are_seen() {
        let referee = Referee::new(1);
        enter(&referee, 0, 1, 10);
        enter(&referee, 99, 2, 11);
        assert_eq!(referee.violations(), 1);
        let [sentence] = &referee.told()[..] else { panic!("{:?}", referee.told()) };
        assert!(sentence.contains("clients 1 and 2") && sentence.contains("10 and 11"), "{sentence}");
    }

    #[test]
    fn whoever_is_past_its_time_is_in_nobodys_way() {
        let referee = Referee::new(1);
        enter(&referee, 0, 1, 10);
        enter(&referee, 100, 2, 11);
        // The first comes round at last, and takes nothing from the second.
        referee.leave(0, 10);
        enter(&referee, 150, 3, 12);
        assert_eq!(referee.violations(), 1, "{:?}", referee.told());
    }

    #[test]
    fn tokens_that_do_not_grow_are_seen() {
        for (first, second) in [(10, 10), (10, 9)] {
            let referee = Referee::new(1);
            enter(&referee, 0, 1, first);
            referee.leave(0, first);
            enter(&referee, 1, 2, second);
            assert_eq!(referee.violations(), 1);
            assert!(referee.told()[0].contains("token"), "{:?}", referee.told());
            referee.leave(0, second);
            enter(&referee, 2, 1, 11);
            assert_eq!(referee.violations(), 1, "the next that is higher than all is fine");
        }
    }

    #[test]
    fn all_are_counted_and_the_first_are_told() {
        let referee = Referee::new(1);
        (0..100).for_each(|n| enter(&referee, n, usize::try_from(n).unwrap(), 1000 - n));
        assert_eq!(referee.violations(), 2 * 99);
        assert_eq!(referee.told().len(), TOLD_MAX);
    }
}
