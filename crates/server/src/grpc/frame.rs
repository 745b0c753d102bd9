//! How messages lie in HTTP bodies: five bytes of head, then the message, and after the last one a status in the
//! trailers. Bounds what comes in, in size and in time; knows nothing of what is said.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Buf, Bytes, BytesMut};
use futures_util::{Stream, TryStreamExt};
use hyper::body::{Body, Frame, Incoming, SizeHint};
use hyper::header::{CONTENT_TYPE, HeaderMap, HeaderValue};
use leasehold_state_machine::invalid::Invalid;
use prost::{DecodeError, Message};
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::{Sleep, sleep};
use tonic::Status;

use crate::http::intake::Unfinished;
use crate::limits::UNCOUNTED_GROUP_BYTES;
use crate::wire::problem::Denial;

/// What answers are made of.
pub type GrpcReply = hyper::Response<tonic::body::Body>;

/// Whether the message is compressed, and its length.
pub const HEAD_BYTES: usize = 5;

/// Reads the only message of a body that has been taken in whole.
pub fn only_message<M: Message + Default>(mut body: Bytes) -> Result<M, Denial> {
    match head(&body)? {
        Some(length) if body.len() == HEAD_BYTES + length => {
            body.advance(HEAD_BYTES);
            decode(body)
        }
        _ => Err(malformed("exactly one whole message is expected")),
    }
}

/// An answer of one message.
pub fn one(message: &impl Message) -> GrpcReply {
    reply(Once { message: Some(encoded(message)), ended: false })
}

/// A message as it lies in a body.
pub fn encoded(message: &impl Message) -> Bytes {
    let mut bytes = BytesMut::with_capacity(HEAD_BYTES + message.encoded_len());
    put(message, &mut bytes);
    bytes.freeze()
}

/// An answer of many messages, which ends with the first error or with the stream.
pub fn many<M: Message + 'static>(
    messages: impl Stream<Item = Result<M, Status>> + Send + 'static,
) -> GrpcReply {
    many_encoded(messages.map_ok(|message| encoded(&message)))
}

/// The same of messages that are [`encoded`] already.
pub fn many_encoded(messages: impl Stream<Item = Result<Bytes, Status>> + Send + 'static) -> GrpcReply {
    reply(Many { messages: Box::pin(messages), ended: false })
}

fn reply(body: impl Body<Data = Bytes, Error = Status> + Send + 'static) -> GrpcReply {
    let mut reply = hyper::Response::new(tonic::body::Body::new(body));
    reply.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
    reply
}

/// What stands before a message of this length.
pub fn head_of(length: usize) -> [u8; HEAD_BYTES] {
    let length = u32::try_from(length);
    assert!(length.is_ok(), "answers are far below 4 GiB");
    let [a, b, c, d] = length.unwrap_or_default().to_be_bytes();
    [0, a, b, c, d]
}

fn put(message: &impl Message, into: &mut BytesMut) {
    into.extend_from_slice(&head_of(message.encoded_len()));
    let written = message.encode(into);
    assert!(written.is_ok(), "a growing buffer takes every message");
}

/// The length that a head announces; none while the head is not there.
fn head(bytes: &[u8]) -> Result<Option<usize>, Denial> {
    let Some((head, _)) = bytes.split_first_chunk::<HEAD_BYTES>() else { return Ok(None) };
    let [compressed, length @ ..] = *head;
    if compressed != 0 {
        return Err(malformed("compressed messages are not taken"));
    }
    Ok(Some(u32::from_be_bytes(length) as usize))
}

/// Reads a message.
pub fn decode<M: Message + Default>(bytes: impl Buf) -> Result<M, Denial> {
    M::decode(bytes).map_err(unreadable)
}

/// A message that is not what belongs here.
pub fn unreadable(error: DecodeError) -> Denial {
    malformed(format!("this is not the message that belongs here: {error}"))
}

fn malformed(problem: impl Into<std::borrow::Cow<'static, str>>) -> Denial {
    Invalid::new("body", problem).into()
}

fn trailers(status: &Status) -> HeaderMap {
    let mut trailers = HeaderMap::with_capacity(3);
    let added = status.add_header(&mut trailers);
    assert!(added.is_ok(), "our own words make good headers");
    trailers
}

/// The messages of a body, as they arrive, each as its bytes.
pub struct Inbound {
    body: Incoming,
    buffer: BytesMut,
    bytes_max: usize,
    /// How long a message that has begun may take to arrive.
    within: Duration,
    patience: Option<Pin<Box<Sleep>>>,
    unfinished: Unfinished,
    /// The room of a long message that has come in part.
    room: Option<OwnedSemaphorePermit>,
}

impl Inbound {
    /// Reads messages of at most `bytes_max` bytes, each within some time from its first byte.
    pub fn new(body: Incoming, bytes_max: usize, within: Duration, unfinished: &Unfinished) -> Self {
        Inbound {
            body,
            buffer: BytesMut::new(),
            bytes_max,
            within,
            patience: None,
            unfinished: unfinished.clone(),
            room: None,
        }
    }

    fn poll_message(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, Denial>>> {
        loop {
            match self.take() {
                Ok(None) => {}
                Ok(Some(message)) => return Poll::Ready(Some(Ok(message))),
                Err(denial) => return Poll::Ready(Some(Err(denial))),
            }
            let frame = match Pin::new(&mut self.body).poll_frame(cx) {
                Poll::Ready(frame) => frame,
                Poll::Pending => return self.poll_patience(cx).map(|denial| Some(Err(denial))),
            };
            match frame {
                None if self.buffer.is_empty() => return Poll::Ready(None),
                None => {
                    return Poll::Ready(Some(Err(malformed("the body ended in the middle of a message"))));
                }
                // The client has gone, or taken the call back: there is nobody to be told anything.
                Some(Err(_)) => return Poll::Ready(None),
                Some(Ok(frame)) => {
                    if let Ok(data) = frame.into_data() {
                        self.buffer.extend_from_slice(&data);
                    }
                }
            }
        }
    }

    /// Takes a whole message out of the buffer, if there is one.
    fn take(&mut self) -> Result<Option<Bytes>, Denial> {
        let Some(length) = head(&self.buffer)? else { return Ok(None) };
        if length > self.bytes_max {
            return Err(Denial::BodyTooLarge { bytes_max: self.bytes_max });
        }
        if self.buffer.len() < HEAD_BYTES + length {
            return Ok(None);
        }
        self.patience = None;
        self.room = None;
        self.buffer.advance(HEAD_BYTES);
        Ok(Some(self.buffer.split_to(length).freeze()))
    }

    /// Ready when a message that has begun takes too long, or too much room.
    fn poll_patience(&mut self, cx: &mut Context<'_>) -> Poll<Denial> {
        if self.buffer.is_empty() {
            return Poll::Pending;
        }
        if self.buffer.len() > UNCOUNTED_GROUP_BYTES && self.room.is_none() {
            match self.unfinished.hold(self.bytes_max) {
                Ok(room) => self.room = Some(room),
                Err(denial) => return Poll::Ready(denial),
            }
        }
        let patience = self.patience.get_or_insert_with(|| Box::pin(sleep(self.within)));
        ready!(patience.as_mut().poll(cx));
        Poll::Ready(malformed("the message did not arrive in time"))
    }
}

/// Ends when the client has no more. Nothing is lost when somebody waits for the next message and gives up.
impl Stream for Inbound {
    type Item = Result<Bytes, Denial>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.poll_message(cx)
    }
}

/// One message and the status after it.
struct Once {
    message: Option<Bytes>,
    ended: bool,
}

impl Body for Once {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        if let Some(message) = self.message.take() {
            return Poll::Ready(Some(Ok(Frame::data(message))));
        }
        if std::mem::replace(&mut self.ended, true) {
            return Poll::Ready(None);
        }
        Poll::Ready(Some(Ok(Frame::trailers(trailers(&Status::ok(""))))))
    }

    fn is_end_stream(&self) -> bool {
        self.ended
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.message.as_ref().map_or(0, |message| message.len() as u64))
    }
}

/// Many messages and the status after them.
struct Many<S> {
    messages: Pin<Box<S>>,
    ended: bool,
}

impl<S: Stream<Item = Result<Bytes, Status>>> Body for Many<S> {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        if self.ended {
            return Poll::Ready(None);
        }
        let end = match ready!(self.messages.as_mut().poll_next(cx)) {
            Some(Ok(message)) => return Poll::Ready(Some(Ok(Frame::data(message)))),
            Some(Err(status)) => status,
            None => Status::ok(""),
        };
        self.ended = true;
        Poll::Ready(Some(Ok(Frame::trailers(trailers(&end)))))
    }

    fn is_end_stream(&self) -> bool {
        self.ended
    }
}

#[cfg(test)]
mod tests {
    use leasehold_protocol::v1::GetRequest;

    use super::*;

    fn framed(message: &GetRequest) -> Vec<u8> {
        let mut bytes = BytesMut::new();
        put(message, &mut bytes);
        bytes.to_vec()
    }

    #[test]
    fn one_whole_message_is_read_and_nothing_else() {
        let asked = GetRequest { lock: "a".into() };
        let whole = framed(&asked);
        assert_eq!(only_message::<GetRequest>(whole.clone().into()), Ok(asked));
        let short = whole[..whole.len() - 1].to_vec();
        let long = [whole.clone(), vec![0]].concat();
        let twice = whole.repeat(2);
        let compressed = [vec![1], whole[1..].to_vec()].concat();
        let other = [&[0, 0, 0, 0, 2][..], &[0xff, 0xff]].concat();
        for bytes in [vec![], vec![0; 4], short, long, twice, compressed, other] {
            match only_message::<GetRequest>(bytes.clone().into()) {
                Err(Denial::Refusal(leasehold_state_machine::answer::Refusal::Invalid(invalid))) => {
                    assert_eq!(invalid.field, "body");
                }
                read => panic!("{bytes:?}: {read:?}"),
            }
        }
    }
}
