//! A release under way: one operation, written by hand for the same reasons as an acquire. Nothing is asked before somebody
//! looks.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use crate::calls::odd;
use crate::client::Client;
use crate::error::Error;
use crate::operations::Question;
use crate::outcome::Told;
use crate::view::Claim;

/// A release under way.
pub(crate) enum Releasing<'c, 'l> {
    /// Nobody has looked yet.
    Begun {
        client: &'c Client,
        claim: &'l Claim,
    },
    Asked(Question<'c>),
    Over,
}

impl<'c, 'l> Releasing<'c, 'l> {
    /// Has not asked yet.
    pub fn new(client: &'c Client, claim: &'l Claim) -> Releasing<'c, 'l> {
        Releasing::Begun { client, claim }
    }
}

impl Future for Releasing<'_, '_> {
    type Output = Result<(), Error>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let released = match &mut *self {
            Releasing::Begun { client, claim } => {
                match client.operations().begin_for(&claim.usual(), cx.waker()) {
                    Ok(question) => {
                        *self = Releasing::Asked(question);
                        return Poll::Pending;
                    }
                    Err(error) => Err(error),
                }
            }
            Releasing::Asked(question) => match ready!(Pin::new(question).poll(cx)) {
                Ok(answered) => match answered.told {
                    Told::Released(_) => Ok(()),
                    other => Err(odd(&other)),
                },
                Err(error) => Err(error),
            },
            Releasing::Over => panic!("a release ends once"),
        };
        *self = Releasing::Over;
        Poll::Ready(released)
    }
}
