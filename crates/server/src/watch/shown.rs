//! An event as it is shown to many watchers: rendered once for each wire, by whoever needs it first.

use std::sync::OnceLock;

use bytes::Bytes;
use leasehold_engine::Moment;
use leasehold_state_machine::event::Seq;

use crate::wire::event_line::moment_line;

/// A public event that is being shown.
#[derive(Debug)]
pub struct Shown {
    moment: Moment,
    server_sent: OnceLock<Bytes>,
}

impl Shown {
    /// Shows this event.
    pub fn new(moment: Moment) -> Shown {
        Shown { moment, server_sent: OnceLock::new() }
    }

    /// The event's number.
    pub fn seq(&self) -> Seq {
        self.moment.seq()
    }

    /// The event.
    pub fn moment(&self) -> &Moment {
        &self.moment
    }

    /// The event as a server-sent event, with the empty line that ends it.
    pub fn server_sent(&self) -> &Bytes {
        self.server_sent.get_or_init(|| {
            let mut text =
                format!("id: {}\nevent: {}\ndata: ", self.seq(), self.moment.kind().text()).into_bytes();
            text.extend_from_slice(&moment_line(&self.moment));
            text.extend_from_slice(b"\n\n");
            text.into()
        })
    }
}
