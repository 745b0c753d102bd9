//! What follows from a history for each lease: between which moments it was granted, and how long it was certainly alive. The
//! attempts of one request are taken together here; no rule is judged.

use std::collections::HashMap;

use crate::ceiling::{Ceiling, Mark};
use crate::ground::{Ground, Stretch};
use crate::operation::{Kind, Mode, Operation, Outcome};

/// How a history is judged.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// How much slower than the history's the server's clock may have run, in millionths. 0 on one machine.
    pub rate_error_ppm: u64,
    /// So many ways of ordering what was concurrent are followed at once, for one lock or register; beyond that the
    /// linearizability check says that it does not know.
    pub ways_max: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Settings { rate_error_ppm: 0, ways_max: 20_000 }
    }
}

/// A lock that was granted.
#[derive(Clone, Debug)]
pub struct Grant {
    /// The acquire whose answer was heard first, by its place in the history.
    pub acquire: usize,
    /// Its token.
    pub token: u64,
    /// Where it lies.
    pub at: Stretch,
    /// How it is held.
    pub mode: Mode,
    /// It was not granted before this: the first attempt of its request was invoked then.
    pub not_before_us: u64,
    /// It was granted by this: its first answer was heard then.
    pub heard_us: u64,
    /// It did not run out before this, if its time to live is known.
    pub runs_until_us: Option<u64>,
    /// It may have run out at any time from this on: what is said of its time is all that is known.
    pub may_run_out_us: u64,
    /// From its first answer up to this it was certainly alive, or believed to be by its client.
    pub alive_until_us: u64,
    /// The first moment at which its client may have given it back.
    pub released_us: u64,
    /// How many times its client may have.
    pub releases: usize,
    /// The first moment at which its request may have been taken back, or the lock broken.
    pub broken_us: u64,
}

/// Everything granted in a history, and where it lies.
#[derive(Debug)]
pub struct Grants {
    /// In the order of their first answers' places in the history.
    pub all: Vec<Grant>,
    /// The line.
    pub ground: Ground,
    by_token: HashMap<u64, usize>,
}

impl Grants {
    /// Finds them.
    pub fn of(operations: &[Operation], settings: &Settings) -> Grants {
        let on_locks = |kind| matches!(kind, Kind::Acquire | Kind::Break);
        let locks = operations.iter().filter(|operation| on_locks(operation.kind));
        let ground = Ground::of(locks.map(|operation| &*operation.lock));
        let mut grants = Grants { all: Vec::new(), ground, by_token: HashMap::new() };
        let firsts = first_attempts(operations);
        for (place, operation) in operations.iter().enumerate() {
            if let (Kind::Acquire, Outcome::Done, Some(token), Some(heard_us)) =
                (operation.kind, operation.outcome, operation.token, operation.answered_us)
            {
                grants.granted(operation, place, token, heard_us, first_of(&firsts, operation));
            }
        }
        grants.follow(operations, settings);
        grants.break_some(operations);
        grants
    }

    /// The grant with this token.
    pub fn by_token(&self, token: u64) -> Option<usize> {
        self.by_token.get(&token).copied()
    }

    fn granted(&mut self, op: &Operation, place: usize, token: u64, heard_us: u64, not_before_us: u64) {
        // Of two grants with one token the first is followed; that there are two is judged elsewhere.
        if let Some(known) = self.by_token.get(&token) {
            let grant = &mut self.all[*known];
            grant.not_before_us = grant.not_before_us.min(not_before_us);
            if heard_us < grant.heard_us {
                (grant.heard_us, grant.acquire) = (heard_us, place);
            }
            return;
        }
        self.by_token.insert(token, self.all.len());
        self.all.push(Grant {
            acquire: place,
            token,
            at: self.ground.stretch(&op.lock),
            mode: op.mode,
            not_before_us,
            heard_us,
            runs_until_us: None,
            may_run_out_us: u64::MAX,
            alive_until_us: 0,
            released_us: u64::MAX,
            releases: 0,
            broken_us: u64::MAX,
        });
    }

    /// Renewals make a lease live on, and what ends it ends it.
    fn follow(&mut self, operations: &[Operation], settings: &Settings) {
        let mut believed: Vec<Option<u64>> = vec![None; self.all.len()];
        let mut told_us = vec![u64::MAX; self.all.len()];
        let mut requests: HashMap<(&str, &str), usize> = HashMap::new();
        for (number, grant) in self.all.iter().enumerate() {
            let op = &operations[grant.acquire];
            if let Some(id) = &op.request_id {
                requests.insert((&op.client, id), number);
            }
        }
        for op in operations {
            let number = match (op.kind, &op.request_id) {
                (Kind::Cancel, Some(id)) => requests.get(&(&*op.client, &**id)).copied(),
                (Kind::Acquire | Kind::Renew | Kind::Release | Kind::Ended, _) => {
                    op.token.and_then(|token| self.by_token(token))
                }
                _ => None,
            };
            let Some(number) = number else { continue };
            let grant = &mut self.all[number];
            match (op.kind, op.outcome) {
                (Kind::Acquire | Kind::Renew, Outcome::Done) => {
                    // An acquire that is repeated keeps nothing alive: its time runs from the first attempt.
                    let from_us = if op.kind == Kind::Acquire { grant.not_before_us } else { op.invoked_us };
                    if let Some(ttl_us) = op.ttl_us {
                        let slow_us = u128::from(ttl_us) * u128::from(settings.rate_error_ppm) / 1_000_000;
                        let slow_us = u64::try_from(slow_us).unwrap_or(u64::MAX);
                        let until_us = from_us.saturating_add(ttl_us.saturating_sub(slow_us));
                        grant.runs_until_us = grant.runs_until_us.max(Some(until_us));
                    }
                    believed[number] = believed[number].max(op.until_us);
                }
                (Kind::Release, Outcome::Done | Outcome::Unknown | Outcome::Lost) => {
                    grant.released_us = grant.released_us.min(op.invoked_us);
                    grant.releases += 1;
                }
                (Kind::Cancel, Outcome::Done | Outcome::Unknown | Outcome::Lost) => {
                    grant.broken_us = grant.broken_us.min(op.invoked_us);
                }
                (Kind::Ended, _) | (Kind::Renew, Outcome::Lost) => {
                    told_us[number] = told_us[number].min(op.answered_us.unwrap_or(u64::MAX));
                }
                _ => {}
            }
        }
        for (number, grant) in self.all.iter_mut().enumerate() {
            grant.may_run_out_us = grant.runs_until_us.or(believed[number]).unwrap_or(u64::MAX);
            let alive_us = grant.runs_until_us.max(believed[number]).unwrap_or(u64::MAX);
            grant.alive_until_us = alive_us.min(told_us[number]);
        }
    }

    /// A break may end what overlaps it at any moment between its sending and its answer.
    fn break_some(&mut self, operations: &[Operation]) {
        let mut breaks: Vec<(usize, &Operation)> = operations
            .iter()
            .enumerate()
            .filter(|(_, op)| op.kind == Kind::Break && op.outcome != Outcome::Refused)
            .collect();
        let mut by_hearing: Vec<usize> = (0..self.all.len()).collect();
        by_hearing.sort_by_key(|number| self.all[*number].not_before_us);
        if !breaks.is_empty() {
            // Under way when the lease may have been granted.
            let mut earlier = Ceiling::over(self.ground.cells());
            let mut due = breaks.iter().peekable();
            for number in &by_hearing {
                let grant = &mut self.all[*number];
                while let Some((place, op)) = due.next_if(|(_, op)| op.invoked_us <= grant.not_before_us) {
                    let mark = Mark { value: op.effect_by_us(), of: *place };
                    earlier.put(self.ground.stretch(&op.lock), Mode::Exclusive, mark);
                }
                if earlier.above(grant.at, grant.mode).is_some_and(|mark| mark.value >= grant.not_before_us) {
                    grant.broken_us = grant.broken_us.min(grant.not_before_us);
                }
            }
            // The first one after that.
            let mut later = Ceiling::over(self.ground.cells());
            for number in by_hearing.iter().rev() {
                let grant = &mut self.all[*number];
                while let Some((place, op)) = breaks.pop_if(|(_, op)| op.invoked_us > grant.not_before_us) {
                    let mark = Mark { value: u64::MAX - op.invoked_us, of: place };
                    later.put(self.ground.stretch(&op.lock), Mode::Exclusive, mark);
                }
                if let Some(mark) = later.above(grant.at, grant.mode) {
                    grant.broken_us = grant.broken_us.min(u64::MAX - mark.value);
                }
            }
        }
        for grant in &mut self.all {
            grant.alive_until_us = grant.alive_until_us.min(grant.released_us).min(grant.broken_us);
        }
    }
}

/// When the first attempt of each request was invoked.
pub(crate) type Firsts<'a> = HashMap<(&'a str, &'a str), u64>;

pub(crate) fn first_attempts(operations: &[Operation]) -> Firsts<'_> {
    let mut firsts = Firsts::new();
    let repeatable = |op: &&Operation| matches!(op.kind, Kind::Acquire | Kind::Append | Kind::Write);
    for op in operations.iter().filter(repeatable) {
        if let Some(id) = &op.request_id {
            let first_us = firsts.entry((&op.client, id)).or_insert(op.invoked_us);
            *first_us = (*first_us).min(op.invoked_us);
        }
    }
    firsts
}

/// When the first attempt of this operation's request was invoked.
pub(crate) fn first_of(firsts: &Firsts<'_>, op: &Operation) -> u64 {
    let first = op.request_id.as_ref().and_then(|id| firsts.get(&(&*op.client, &**id)));
    first.copied().unwrap_or(op.invoked_us)
}
