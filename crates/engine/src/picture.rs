//! The state as it is in service, for a snapshot that need not be added up from the journal: taken between two turns, when
//! everything decided is durable, and written out later on another thread. Only of states that are small; whoever cannot have
//! one adds up.

use std::io;

use leasehold_journal::Fold;
use leasehold_state_machine::Picture as MachinePicture;
use leasehold_state_machine::event::Seq;

use crate::history::History;
use crate::replay::{Traces, write_snapshot};

/// What all durable batches add up to at one moment, but for the history, which somebody else keeps.
#[derive(Debug)]
pub struct Picture {
    pub(crate) traces: Traces,
    pub(crate) machine: MachinePicture,
}

impl Picture {
    /// The last event that is in it.
    pub fn seq(&self) -> Seq {
        self.machine.seq()
    }

    /// The same with the history up to the same event.
    pub fn with(self, history: History) -> Pictured {
        assert!(history.through() == self.seq(), "state and history are of the same moment");
        Pictured { picture: self, history }
    }
}

/// A picture as the journal sees it: there already, and only to be written out.
#[derive(Debug)]
pub struct Pictured {
    picture: Picture,
    history: History,
}

impl Fold for Pictured {
    fn restore(&mut self, _: &mut dyn io::Read) -> Result<(), String> {
        Err("a picture is whole, and nothing is read into it".into())
    }

    fn replay(&mut self, _: &[u8]) -> Result<(), String> {
        Err("a picture is whole, and nothing is added to it".into())
    }

    fn write_snapshot(&mut self, out: &mut dyn io::Write) -> io::Result<()> {
        let Pictured { picture: Picture { traces, machine }, history } = self;
        write_snapshot(traces, history, out, |bytes, hand_on| machine.write_in_pieces(bytes, hand_on))
    }
}
