//! On which processor small batches are made durable. A disk's word arrives on one processor, and whoever waits for it there hears of
//! it sooner than elsewhere. While small batches follow each other the first thread sits on one processor, and the stand-in goes
//! to the disk from the same one: there the first keeps the processor awake that the second is woken on, and handing over changes
//! threads without waking anybody elsewhere. Which one is best is found out by trying another now and then. The first thread is not
//! kept there while it has nothing to do, nor where batches are large, the disk is slow, or somebody else wants that processor.

/// Small batches that must have followed each other before the first thread sits down.
const RUN: u32 = 8;
/// Commits by which two processors are compared, of each the middle one.
const COMPARED: usize = 25;
/// Commits after moving that do not count: others have to find another place first.
const SETTLING: u32 = 8;
/// Commits from one trial to the next, at first; twice as many after each trial in vain...
const TRY_EVERY_MIN: u32 = 256;
/// ...up to so many.
const TRY_EVERY_MAX: u32 = 16_384;

/// A commit that takes so many times what commits take at the moment has waited for somebody else, for the processor or the disk: who is
/// bound cannot get out of the way, and is not bound for a while.
const DISTURBED_TIMES: u64 = 8;
/// So many small batches at first, twice as many each time that it happens again soon...
const FREE_MIN: u32 = 256;
/// ...up to so many.
const FREE_MAX: u32 = 16_384;

/// Where the first thread sits. Used by that thread only.
#[derive(Debug)]
pub(crate) struct Placement {
    bond: Bond,
    /// Small batches since it last slept, or one was large.
    run: u32,
    /// Small batches before it may sit down again.
    free: u32,
    /// How many there are after the next disturbance, and for how many it has sat since the last one.
    free_next: u32,
    sat: u32,
    /// None until it first sits down.
    spots: Option<Spots>,
}

impl Placement {
    /// Anywhere.
    pub fn free() -> Placement {
        Placement { bond: Bond::none(), run: 0, free: 0, free_next: FREE_MIN, sat: 0, spots: None }
    }

    /// Before a small batch is taken to the disk. Says from which processor; none: any.
    pub fn sit(&mut self) -> Option<usize> {
        if self.free > 0 {
            self.free -= 1;
            return here();
        }
        self.run = self.run.saturating_add(1);
        if self.run <= RUN {
            return here();
        }
        if self.run == RUN + 1 {
            // Somebody may have changed meanwhile where this thread may run.
            let all = self.bond.processors();
            if self.spots.as_ref().is_none_or(|spots| spots.all != all) {
                self.spots = Spots::new(all, here()?);
            }
        }
        let spot = self.spots.as_ref()?.spot();
        self.bond.change(Some(spot));
        Some(spot)
    }

    /// That took so long, where commits usually take so long at the moment.
    pub fn took(&mut self, commit_us: u64, usual_us: u64) {
        if self.run <= RUN {
            return;
        }
        let Some(spots) = &mut self.spots else { return };
        self.sat = self.sat.saturating_add(1);
        if commit_us <= usual_us.saturating_mul(DISTURBED_TIMES) {
            return spots.took(commit_us);
        }
        if spots.trying {
            spots.was_in_vain();
        }
        if self.sat > self.free_next {
            self.free_next = FREE_MIN;
        }
        self.free = self.free_next;
        self.free_next = (self.free_next * 2).min(FREE_MAX);
        self.sat = 0;
        self.rise();
    }

    /// Before it sleeps, or takes a large batch to the disk.
    pub fn rise(&mut self) {
        if self.run > RUN
            && let Some(spots) = &mut self.spots
            && spots.trying
        {
            spots.begin(false);
        }
        self.run = 0;
        self.bond.change(None);
    }

    /// Commits take so long that it is all the same where they are made, or this spot is to blame: somebody else may be on that
    /// processor and stay there.
    pub fn leave_slow_spot(&mut self) {
        if self.run > RUN {
            match &mut self.spots {
                Some(spots) if spots.trying => spots.was_in_vain(),
                // It begins anew from where the system puts it.
                spots => *spots = None,
            }
        }
        self.rise();
    }
}

/// Which processor to sit on. Knows how long commits took, and nothing of threads.
#[derive(Debug)]
struct Spots {
    /// All that there are; at least two.
    all: Vec<usize>,
    /// The best so far, among them.
    best: usize,
    /// The one that was tried last, or is being tried.
    other: usize,
    /// Whether it is being tried.
    trying: bool,
    /// Commits since it was last decided where to sit.
    commits: u32,
    /// Those from one trial to the next.
    try_every: u32,
    /// How long the last ones took that count.
    lately: Vec<u64>,
    /// The middle one of those before the trial.
    best_us: u64,
}

impl Spots {
    /// None where there is no choice.
    fn new(all: Vec<usize>, here: usize) -> Option<Spots> {
        let best = all.iter().position(|processor| *processor == here)?;
        let lately = Vec::with_capacity(COMPARED);
        let spots = Spots {
            best,
            other: best,
            trying: false,
            commits: 0,
            try_every: TRY_EVERY_MIN,
            lately,
            best_us: 0,
            all,
        };
        (spots.all.len() > 1).then_some(spots)
    }

    fn spot(&self) -> usize {
        self.all[if self.trying { self.other } else { self.best }]
    }

    fn took(&mut self, commit_us: u64) {
        self.commits = self.commits.saturating_add(1);
        let counted_from = if self.trying { SETTLING } else { self.try_every - COMPARED as u32 };
        if self.commits <= counted_from {
            return;
        }
        self.lately.push(commit_us);
        if self.lately.len() < COMPARED {
            return;
        }
        self.lately.sort_unstable();
        let middle_us = self.lately[COMPARED / 2];
        if !self.trying {
            self.best_us = middle_us;
            self.other = (self.other + 1) % self.all.len();
            if self.other == self.best {
                self.other = (self.other + 1) % self.all.len();
            }
            self.begin(true);
        } else if middle_us < self.best_us - self.best_us / 16 {
            (self.best, self.other) = (self.other, self.best);
            self.try_every = TRY_EVERY_MIN;
            self.begin(false);
        } else {
            self.was_in_vain();
        }
    }

    fn was_in_vain(&mut self) {
        self.try_every = (self.try_every * 2).min(TRY_EVERY_MAX);
        self.begin(false);
    }

    fn begin(&mut self, trying: bool) {
        self.trying = trying;
        self.commits = 0;
        self.lately.clear();
    }
}

pub(crate) use processors::Bond;
use processors::here;

#[cfg(all(target_os = "linux", not(feature = "shuttle")))]
mod processors {
    use rustix::thread::{CpuSet, sched_getaffinity, sched_getcpu, sched_setaffinity};

    /// The processor that this thread runs on.
    pub fn here() -> Option<usize> {
        Some(sched_getcpu())
    }

    fn only(processor: usize) -> CpuSet {
        let mut set = CpuSet::new();
        if processor < CpuSet::MAX_CPU {
            set.set(processor);
        }
        set
    }

    /// Keeps this thread on one processor, and lets it go again.
    #[derive(Debug)]
    pub struct Bond {
        /// What it may run on at all; none when that could not be found out, and nothing is bound then.
        all: Option<CpuSet>,
        to: Option<usize>,
    }

    impl Bond {
        pub fn none() -> Bond {
            Bond { all: sched_getaffinity(None).ok(), to: None }
        }

        /// Those that it may be bound to. Looks again if it is not bound.
        pub fn processors(&mut self) -> Vec<usize> {
            if self.to.is_none() {
                self.all = sched_getaffinity(None).ok();
            }
            let Some(all) = &self.all else { return Vec::new() };
            (0..CpuSet::MAX_CPU).filter(|processor| all.is_set(*processor)).collect()
        }

        /// To this processor from now on, or to none.
        pub fn change(&mut self, to: Option<usize>) {
            if self.to == to {
                return;
            }
            if self.to.is_none() {
                self.all = sched_getaffinity(None).ok();
            }
            let Some(all) = &self.all else { return };
            let set = to.map_or(*all, only);
            self.to = to;
            if sched_setaffinity(None, &set).is_err() {
                // A processor that was taken away, for instance: on whichever the system likes.
                let _ = sched_setaffinity(None, all);
            }
        }
    }
}

#[cfg(not(all(target_os = "linux", not(feature = "shuttle"))))]
mod processors {
    //! Where processors cannot be told apart.

    pub fn here() -> Option<usize> {
        None
    }

    #[derive(Debug)]
    pub struct Bond;

    impl Bond {
        pub fn none() -> Bond {
            Bond
        }

        pub fn processors(&mut self) -> Vec<usize> {
            Vec::new()
        }

        pub fn change(&mut self, _: Option<usize>) {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Where it sits after so many commits that take as long as is said of each processor.
    fn sits_after(spots: &mut Spots, commits: u32, takes_us: impl Fn(usize) -> u64) -> usize {
        for _ in 0..commits {
            spots.took(takes_us(spots.spot()));
        }
        spots.spot()
    }

    #[test]
    fn it_finds_the_best_processor_and_stays_there() {
        let takes_us = |processor| if processor == 7 { 80 } else { 100 };
        let mut spots = Spots::new(vec![1, 3, 5, 7], 3).unwrap();
        let around = 3 * (TRY_EVERY_MIN + TRY_EVERY_MAX);
        assert_eq!(sits_after(&mut spots, around, takes_us), 7);
        let (mut elsewhere, many) = (0, 40 * TRY_EVERY_MAX);
        for _ in 0..many {
            elsewhere += u32::from(spots.spot() != 7);
            spots.took(takes_us(spots.spot()));
        }
        assert!(
            (40..many / 200).contains(&elsewhere),
            "it looks now and then, and not for long: {elsewhere}"
        );
        assert_eq!(sits_after(&mut spots, around, |processor| if processor == 1 { 60 } else { 100 }), 1);
    }

    #[test]
    fn a_difference_that_says_nothing_moves_nobody() {
        let mut spots = Spots::new(vec![0, 1], 0).unwrap();
        for commits in 0..4 * TRY_EVERY_MAX {
            let best = spots.best;
            // One commit in ten waits for somebody else, and the other processor is a little quicker.
            let us = if commits.is_multiple_of(10) { 5_000 } else { 100 };
            spots.took(if spots.spot() == 1 { us - 5 } else { us });
            assert_eq!(best, 0);
        }
    }

    #[test]
    fn a_trial_ends_when_it_is_disturbed() {
        let mut spots = Spots::new(vec![0, 1], 0).unwrap();
        assert_eq!(sits_after(&mut spots, TRY_EVERY_MIN, |_| 100), 1);
        let mut placement = Placement { run: RUN + 1, spots: Some(spots), ..Placement::free() };
        let how = |placement: &Placement| {
            let spots = placement.spots.as_ref();
            spots.map(|spots| (spots.trying, spots.all[spots.best], spots.try_every))
        };
        placement.took(1, 1);
        placement.rise();
        assert_eq!(how(&placement), Some((false, 0, TRY_EVERY_MIN)), "something came in between");
        placement.run = RUN + 1;
        (0..TRY_EVERY_MIN).for_each(|_| placement.took(100, 100));
        assert_eq!(how(&placement), Some((true, 0, TRY_EVERY_MIN)));
        placement.leave_slow_spot();
        assert_eq!(how(&placement), Some((false, 0, 2 * TRY_EVERY_MIN)), "it was very slow there");
        placement.leave_slow_spot();
        assert_eq!(how(&placement), Some((false, 0, 2 * TRY_EVERY_MIN)), "nobody sat");
        placement.run = RUN + 1;
        placement.leave_slow_spot();
        assert_eq!(how(&placement), None, "this spot has become very slow");
        assert!(Spots::new(vec![0], 0).is_none() && Spots::new(vec![0, 1], 2).is_none());
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_thread_sits_while_small_batches_follow_each_other() {
        let all = || rustix::thread::sched_getaffinity(None).unwrap();
        let free = all();
        let mut placement = Placement::free();
        let sit = |placement: &mut Placement| {
            let at = placement.sit();
            placement.took(100, 100);
            at
        };
        for _ in 0..RUN {
            assert!(sit(&mut placement).is_some());
            assert_eq!(all(), free);
        }
        for _ in 0..2 * TRY_EVERY_MIN {
            let at = sit(&mut placement);
            assert!(
                at.is_none_or(|at| at == here().unwrap() && all().count() == 1),
                "with one processor: none"
            );
        }
        placement.rise();
        assert_eq!(all(), free);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn who_is_disturbed_gets_up_for_longer_and_longer() {
        let mut placement = Placement::free();
        let free_for = |placement: &mut Placement, sits_for: u32| {
            for _ in 0..RUN + sits_for {
                placement.sit();
                placement.took(100, 100);
            }
            placement.sit();
            placement.took(100 * DISTURBED_TIMES + 1, 100);
            assert_eq!(placement.run, 0);
            placement.free
        };
        if placement.bond.processors().len() < 2 {
            return;
        }
        assert_eq!(free_for(&mut placement, 10), FREE_MIN);
        assert_eq!(free_for(&mut placement, FREE_MIN + 10), 2 * FREE_MIN);
        for _ in 0..10 {
            let free = placement.free;
            free_for(&mut placement, free + 10);
        }
        assert_eq!(placement.free, FREE_MAX);
        assert_eq!(free_for(&mut placement, 2 * FREE_MAX + 10), FREE_MIN, "it has sat there for long");
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_bond_holds_until_it_is_let_go() {
        let all = rustix::thread::sched_getaffinity(None).unwrap();
        let mut bond = Bond::none();
        for processor in bond.processors() {
            bond.change(Some(processor));
            assert_eq!(here(), Some(processor));
            bond.change(None);
            assert_eq!(rustix::thread::sched_getaffinity(None).unwrap(), all);
        }
        bond.change(Some(usize::MAX));
        assert_eq!(rustix::thread::sched_getaffinity(None).unwrap(), all, "there is no such processor");
    }
}
