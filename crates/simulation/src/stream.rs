//! A client's stream: one connection for all its calls, on which requests have numbers that count up, and with every request
//! the client says which numbers' answers it has. When it takes the stream for dead it opens another and asks again under the
//! same numbers; what it had said before may still arrive on the old one. Sends nothing itself.

use std::collections::BTreeSet;

use leasehold_state_machine::words::{ClientId, RequestId};

use crate::random::Random;

/// How many numbers a client keeps open; it has long given up on older ones, and says so.
const OPEN_MAX: usize = 40;

/// A client's stream.
#[derive(Clone, Debug)]
pub struct Stream {
    id: ClientId,
    /// Which connection it is on.
    pub connection: u64,
    /// The first one under this id.
    first: u64,
    last: u64,
    answered_through: u64,
    open: BTreeSet<u64>,
}

/// Which answers a client has.
#[derive(Clone, Debug)]
pub struct Mark {
    /// Whose.
    pub client: ClientId,
    /// All numbers up to this one...
    pub answered_through: u64,
    /// ...but for these.
    pub open: Vec<u64>,
}

impl Stream {
    /// The stream of a program that has just begun, on this connection.
    pub fn new(random: &mut Random, connection: u64) -> Stream {
        let Ok(id) = ClientId::parse(&format!("s{:016x}", random.number())) else {
            unreachable!("a short word is an id")
        };
        Stream { id, connection, first: connection, last: 0, answered_through: 0, open: BTreeSet::new() }
    }

    /// The program ends, and another begins.
    pub fn begin_anew(&mut self, random: &mut Random) {
        *self = Stream::new(random, self.connection + 1);
    }

    /// A number that it has not used yet.
    pub fn number(&mut self) -> RequestId {
        self.last += 1;
        self.open.insert(self.last);
        RequestId::Numbered(self.id.clone(), self.last)
    }

    /// It has the answer of a number, which it was told on this connection.
    pub fn answered(&mut self, number: u64, connection: u64) {
        if connection >= self.first && self.open.remove(&number) {
            self.answered_through = self.answered_through.max(number);
        }
    }

    /// Which answers it has.
    pub fn mark(&mut self) -> Mark {
        while self.open.len() > OPEN_MAX {
            self.answered_through = self.answered_through.max(self.open.pop_first().unwrap_or(0));
        }
        Mark {
            client: self.id.clone(),
            answered_through: self.answered_through,
            open: self.open.range(..=self.answered_through).copied().collect(),
        }
    }
}

/// The number of a request, if it has one.
pub fn number_of(id: Option<&RequestId>) -> Option<u64> {
    match id {
        Some(RequestId::Numbered(_, number)) => Some(*number),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn says_which_answers_it_has() {
        let mut random = Random::new(1);
        let mut stream = Stream::new(&mut random, 1);
        let told = |stream: &mut Stream| {
            let Mark { answered_through, open, .. } = stream.mark();
            (answered_through, open)
        };
        for number in 1..=4 {
            assert_eq!(number_of(Some(&stream.number())), Some(number));
        }
        assert_eq!(told(&mut stream), (0, vec![]));
        stream.answered(3, 1);
        assert_eq!(told(&mut stream), (3, vec![1, 2]));
        stream.answered(1, 1);
        assert_eq!(told(&mut stream), (3, vec![2]));
        stream.begin_anew(&mut random);
        stream.number();
        stream.answered(1, 1);
        assert_eq!(told(&mut stream), (0, vec![]), "the program before had the same number");
        for _ in 0..OPEN_MAX + 5 {
            stream.number();
        }
        assert_eq!(told(&mut stream), (6, vec![]), "what it has given up");
    }
}
