//! A watch as server-sent events: several events in one piece when there are several, a comment now and then when there
//! are none. Each event has its number as `id`, so that a reader that was interrupted resumes by itself.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use hyper::body::{Body, Frame};
use leasehold_state_machine::event::Seq;
use tokio::time::{Interval, MissedTickBehavior, interval_at};

use crate::limits::{WATCH_NUMBERS_QUIET, WATCH_PIECE_BYTES};
use crate::watch::Watching;

/// The body of an answer that goes on until the watcher leaves, falls behind, or the server stops.
#[derive(Debug)]
pub struct EventStream {
    watching: Watching,
    comments: Interval,
    /// The first words, until they are said.
    greeting: Option<Bytes>,
    /// The last number that the reader was told, and would resume from.
    told: Seq,
}

impl EventStream {
    /// The stream of this watcher, with a comment each `comment_every`. `resumed` says whether the reader named the
    /// number it wants to hear from.
    pub fn new(watching: Watching, resumed: bool, comment_every: Duration) -> EventStream {
        let begin = tokio::time::Instant::now() + comment_every;
        let mut comments = interval_at(begin, comment_every);
        comments.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let told = watching.heard_through();
        // Who began without a number is given one, or an interruption before the first event would lose something.
        let greeting = match resumed {
            true => format!(": watching from {told}\n\n"),
            false => format!(": watching from {told}\nid: {told}\n\n"),
        };
        EventStream { watching, comments, greeting: Some(greeting.into()), told }
    }

    /// The comment that keeps the connection open. Says where a reader stands to whom nothing has been said for long.
    fn comment(&mut self) -> Bytes {
        let heard = self.watching.heard_through();
        if heard - self.told < WATCH_NUMBERS_QUIET {
            return Bytes::from_static(b": still here\n\n");
        }
        self.told = heard;
        format!(": still here\nid: {heard}\n\n").into()
    }
}

impl Body for EventStream {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let stream = self.get_mut();
        if let Some(greeting) = stream.greeting.take() {
            return Poll::Ready(Some(Ok(Frame::data(greeting))));
        }
        let mut piece = Bytes::new();
        let mut more = BytesMut::new();
        let ended = loop {
            match stream.watching.poll_next(cx) {
                Poll::Ready(Some(event)) => {
                    stream.told = event.seq();
                    // A single event is shared with everybody who hears it.
                    match piece.is_empty() {
                        true => piece = event.server_sent().clone(),
                        false => {
                            if more.is_empty() {
                                more.extend_from_slice(&piece);
                            }
                            more.extend_from_slice(event.server_sent());
                        }
                    }
                    if more.len() >= WATCH_PIECE_BYTES {
                        break false;
                    }
                }
                Poll::Ready(None) => break true,
                Poll::Pending => break false,
            }
        };
        if !piece.is_empty() {
            let piece = if more.is_empty() { piece } else { more.freeze() };
            return Poll::Ready(Some(Ok(Frame::data(piece))));
        }
        if ended {
            return Poll::Ready(None);
        }
        if stream.comments.poll_tick(cx).is_ready() {
            let comment = stream.comment();
            return Poll::Ready(Some(Ok(Frame::data(comment))));
        }
        Poll::Pending
    }
}
