//! Which numbers a client lets the server forget: every one up to a number, but for those still open. Said rarely when much
//! is open, because naming it all costs; never includes a number that may be sent again.

/// The most open numbers that may be named.
const OPEN_MAX: usize = 1_024;
/// Numbers to be answered before it is worth a word.
const ANSWERED_MIN: u64 = 64;

/// What has been said so far.
#[derive(Debug, Default)]
pub(super) struct Marks {
    answered_highest: u64,
    /// Answered since the last word.
    answered: u64,
}

/// A word to the server.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Mark {
    pub answered_through: u64,
    pub open: Vec<u64>,
}

impl Marks {
    /// This number is answered, and will not be sent again.
    pub fn answered(&mut self, number: u64) {
        self.answered_highest = self.answered_highest.max(number);
        self.answered += 1;
    }

    /// What to say now, if it is worth it: of so many open numbers, given in order.
    pub fn say(&mut self, open_count: usize, open: impl Iterator<Item = u64>) -> Option<Mark> {
        let worth = ANSWERED_MIN.max(4 * open_count.min(OPEN_MAX) as u64);
        if self.answered < worth {
            return None;
        }
        self.answered = 0;
        let mut answered_through = self.answered_highest;
        let mut named = Vec::new();
        for number in open.take_while(|number| *number < self.answered_highest) {
            if named.len() == OPEN_MAX {
                // What is beyond is left for later.
                answered_through = number - 1;
                break;
            }
            named.push(number);
        }
        Some(Mark { answered_through, open: named })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(answered: impl IntoIterator<Item = u64>) -> Marks {
        let mut marks = Marks::default();
        answered.into_iter().for_each(|number| marks.answered(number));
        marks
    }

    #[test]
    fn names_what_is_open_below_the_highest_answer() {
        let mut marks = after((1..=100).filter(|number| ![7, 9].contains(number)));
        let mark = marks.say(3, [7, 9, 101].into_iter());
        assert_eq!(mark, Some(Mark { answered_through: 100, open: Vec::from([7, 9]) }));
        assert_eq!(marks.say(3, [7, 9, 101].into_iter()), None, "said once");
    }

    #[test]
    fn says_little_when_much_is_open() {
        assert_eq!(after(1..=63).say(0, std::iter::empty()), None);
        assert!(after(1..=64).say(16, std::iter::empty()).is_some());
        assert_eq!(after(1..=64).say(17, std::iter::empty()), None);
        let mut marks = after(3_000..=7_095);
        assert!(marks.say(100_000, 1..2).is_some(), "in the end it is always said");
    }

    #[test]
    fn never_passes_over_an_open_number() {
        let mut marks = after((1..=20_000).filter(|number| number % 4 != 0));
        let open = || (1..=5_000).map(|n| n * 4);
        let Mark { answered_through, open: named } = marks.say(5_000, open()).unwrap();
        assert_eq!(named.len(), OPEN_MAX);
        for number in open().filter(|number| *number <= answered_through) {
            assert!(named.contains(&number), "{number}");
        }
        assert_eq!(answered_through, 4 * (OPEN_MAX as u64 + 1) - 1);
    }
}
