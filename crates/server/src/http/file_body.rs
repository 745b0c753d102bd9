//! The bytes of a file as the body of an answer. Says how many there are before the first; one that cannot be had after all
//! ends the answer early, which a client notices by the length.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};
use tracing::debug;

use crate::files::Reading;
use crate::wire::problem::Denial;

/// The body of an answer to a read.
#[derive(Debug)]
pub struct FileBody(Reading);

impl FileBody {
    /// The body of the answer to this read.
    pub fn new(reading: Reading) -> FileBody {
        FileBody(reading)
    }

    /// What is being read.
    pub fn reading(&self) -> &Reading {
        &self.0
    }
}

impl Body for FileBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        self.0.poll_slice(cx).map(|slice| {
            Some(slice?.map(|slice| Frame::data(slice.into())).map_err(|refusal| {
                let why = Denial::from(refusal).detail().into_owned();
                debug!(why, "the answer to a read ends early");
                io::Error::other(why)
            }))
        })
    }

    fn is_end_stream(&self) -> bool {
        self.0.left() == 0
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.0.left())
    }
}
