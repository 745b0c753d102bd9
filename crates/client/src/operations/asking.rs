//! An operation whose answer somebody waits for. Dropped before that, it is forgotten, and taken back if it may have begun
//! something.

use std::future::Future;
use std::ops::Deref;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use super::answers::{Come, Seat};
use super::begins::Begins;
use super::entry::{Entry, Stance};
use super::link::Link;
use crate::group::Usual;

/// The operation, on a link that is shared or lent.
pub(super) struct Asking<L: Deref<Target = Link> = Arc<Link>> {
    link: L,
    seat: Seat,
    begins: Begins,
    /// Whether it goes on when nobody waits any more.
    insists: bool,
    over: bool,
}

impl<L: Deref<Target = Link>> Asking<L> {
    /// Begins it, for whoever looks first.
    pub fn begin(link: L, entry: Entry) -> Asking<L> {
        let begins = entry.kind().begins();
        let seat = link.ask_for(entry);
        Asking { link, seat, begins, insists: false, over: false }
    }

    /// Begins what is asked most often, for whoever is woken like this.
    pub fn begin_for(link: L, usual: &Usual<'_>, stance: Stance, waker: &Waker) -> Asking<L> {
        let (seat, kind) = link.ask_usual(usual, stance, waker.clone());
        Asking { link, seat, begins: kind.begins(), insists: false, over: false }
    }

    /// Goes on with it also when nobody waits for the answer any more.
    pub fn insist(mut self) -> Asking<L> {
        self.insists = true;
        self
    }

    pub fn link(&self) -> &Link {
        &self.link
    }

    /// The number of the operation.
    #[cfg(test)]
    pub fn number(&self) -> u64 {
        self.seat.number()
    }
}

impl<L: Deref<Target = Link> + Unpin> Future for Asking<L> {
    type Output = Come;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Come> {
        assert!(!self.over, "an answer is taken once");
        let come = self.link.poll_answer(self.seat, cx.waker());
        self.over = come.is_ready();
        come
    }
}

impl<L: Deref<Target = Link>> Drop for Asking<L> {
    fn drop(&mut self) {
        match self.over {
            true => {}
            false if self.insists => self.link.leave_it_to_go_on(self.seat),
            false => self.link.leave(self.seat, self.begins),
        }
    }
}
