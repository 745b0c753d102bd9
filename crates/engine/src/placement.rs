//! On which processor the thread at the engine and the one at the disk sit, while batches are handed from one to the other: both
//! on the same, and if it shows which one that is, on the one that hears the disk. There the first keeps the processor awake
//! that the second is woken on, and handing over changes threads without waking anybody elsewhere. Nobody is held there for
//! longer than it takes: the thread at the engine may always be moved by the system, and the other follows it.

/// Every so many errands one is run without a bond, to see where the disk's word arrives.
const TRY_EVERY: u32 = 64;
/// So many of those in a row must have come back on the same processor before the first thread goes there.
const TRIES: u32 = 2;

/// Where the thread at the engine sits, and whether the other one shows it a better place.
#[derive(Debug, Default)]
pub(crate) struct Placement {
    errands: u32,
    /// Where those without a bond came back lately, if not here, and how many in a row.
    elsewhere: Option<(usize, u32)>,
}

impl Placement {
    /// Where the next errand is to be run; none: anywhere.
    pub fn next(&mut self) -> Option<usize> {
        self.errands = self.errands.wrapping_add(1);
        if self.errands.is_multiple_of(TRY_EVERY) { None } else { here() }
    }

    /// An errand without a bond came back there.
    pub fn came_back(&mut self, there: usize) {
        if let Some(better) = self.judge(here(), there) {
            processors::go_to(better);
        }
    }

    /// Where to go, if it is time to.
    fn judge(&mut self, here: Option<usize>, there: usize) -> Option<usize> {
        if here.is_none_or(|here| here == there) {
            self.elsewhere = None;
            return None;
        }
        let before = self.elsewhere.take().filter(|(at, _)| *at == there).map_or(0, |(_, times)| times);
        if before + 1 == TRIES {
            return Some(there);
        }
        self.elsewhere = Some((there, before + 1));
        None
    }
}

/// A thread's bond to a processor, and the processor that a thread runs on, where they can be told apart.
pub(crate) use processors::{Bond, here};

#[cfg(all(target_os = "linux", not(feature = "shuttle")))]
mod processors {
    use rustix::thread::{CpuSet, sched_getaffinity, sched_getcpu, sched_setaffinity};

    /// The processor that this thread runs on.
    pub fn here() -> Option<usize> {
        Some(sched_getcpu())
    }

    /// Goes to that processor, and may be moved from there again.
    pub fn go_to(processor: usize) {
        // Where it cannot be had nothing is lost but time.
        if let Ok(all) = sched_getaffinity(None)
            && sched_setaffinity(None, &only(processor)).is_ok()
        {
            let _ = sched_setaffinity(None, &all);
        }
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

        /// To this processor from now on, or to none.
        pub fn change(&mut self, to: Option<usize>) {
            if self.to == to {
                return;
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

    pub fn go_to(_: usize) {}

    #[derive(Debug)]
    pub struct Bond;

    impl Bond {
        pub fn none() -> Bond {
            Bond
        }

        pub fn change(&mut self, _: Option<usize>) {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_moves_to_where_the_word_arrives_again_and_again() {
        let mut placement = Placement::default();
        assert_eq!([0, 1, 0, 1, 2, 1].map(|there| placement.judge(Some(0), there)), [None; 6]);
        assert_eq!(placement.judge(Some(0), 1), Some(1));
        assert_eq!(placement.judge(Some(1), 1), None);
        assert_eq!(placement.judge(None, 5), None, "where processors cannot be told apart");
    }

    #[test]
    fn one_errand_in_many_is_run_without_a_bond() {
        let mut placement = Placement::default();
        let unbound = (0..3 * TRY_EVERY).filter(|_| placement.next().is_none()).count();
        assert!(unbound == 3 || here().is_none());
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_bond_holds_until_it_is_let_go_and_going_somewhere_is_none() {
        let all = rustix::thread::sched_getaffinity(None).unwrap();
        let mut bond = Bond::none();
        for processor in (0..rustix::thread::CpuSet::MAX_CPU).filter(|processor| all.is_set(*processor)) {
            bond.change(Some(processor));
            assert_eq!(here(), Some(processor));
            bond.change(None);
            processors::go_to(processor);
            assert_eq!(rustix::thread::sched_getaffinity(None).unwrap(), all);
        }
        bond.change(Some(usize::MAX));
        assert_eq!(rustix::thread::sched_getaffinity(None).unwrap(), all, "there is no such processor");
    }
}
