//! An acquire under way. The usual one, which does not wait and has no id of its own, is one operation: written by hand, so that
//! nothing of it is kept twice or moved about, however many are under way. Nothing is asked before somebody looks.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use futures_util::future::BoxFuture;

use crate::calls::granted;
use crate::client::Client;
use crate::error::Error;
use crate::operations::Question;
use crate::view::{Ask, Grant};

/// An acquire under way.
pub(crate) enum Acquiring<'c> {
    /// Nobody has looked yet.
    Begun {
        client: &'c Client,
        ask: Ask,
    },
    /// It is asked for this lock and this owner.
    Asked {
        question: Question<'c>,
        lock: String,
        owner: String,
    },
    /// Any that is not as usual.
    WithCare(BoxFuture<'c, Result<Grant, Error>>),
    Over,
}

impl<'c> Acquiring<'c> {
    /// Has not asked yet.
    pub fn new(client: &'c Client, ask: Ask) -> Acquiring<'c> {
        Acquiring::Begun { client, ask }
    }
}

impl Future for Acquiring<'_> {
    type Output = Result<Grant, Error>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        if let Acquiring::Begun { client, ask } = &mut *self {
            let client = *client;
            let usual = ask.wait.is_zero() && ask.request_id.is_none();
            if usual {
                let owner = ask.owner.take().unwrap_or_else(|| client.owner().to_owned());
                let begun = client.operations().begin_for(&ask.usual(&owner), cx.waker());
                let lock = std::mem::take(&mut ask.lock);
                return match begun {
                    Ok(question) => {
                        *self = Acquiring::Asked { question, lock, owner };
                        Poll::Pending
                    }
                    Err(error) => {
                        *self = Acquiring::Over;
                        Poll::Ready(Err(error))
                    }
                };
            }
            let ask = std::mem::replace(ask, Ask::new(String::new()));
            *self = Acquiring::WithCare(Box::pin(client.acquire_with_care(ask)));
        }
        let granted = match &mut *self {
            Acquiring::Asked { question, lock, owner } => {
                let answered = ready!(Pin::new(question).poll(cx));
                let (lock, owner) = (std::mem::take(lock), std::mem::take(owner));
                *self = Acquiring::Over;
                // Read last, so that a grant, which is large, is made where the caller wants it.
                return match answered {
                    Ok(answered) => Poll::Ready(granted(answered, lock, owner)),
                    Err(error) => Poll::Ready(Err(error)),
                };
            }
            Acquiring::WithCare(acquiring) => ready!(acquiring.as_mut().poll(cx)),
            Acquiring::Begun { .. } | Acquiring::Over => panic!("an acquire ends once"),
        };
        *self = Acquiring::Over;
        Poll::Ready(granted)
    }
}
