//! What happens to locks, as a stream without gaps or repeats: resumed where it stood whenever the connection breaks, for as
//! long as somebody listens. Asks for nothing while nothing happens.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::stream::{BoxStream, Stream, StreamExt};
use leasehold_protocol::v1;
use leasehold_protocol::v1::watch_request::What;

use crate::client::Client;
use crate::error::Error;
use crate::refusal;
use crate::view::{Event, Snapshot, Watched, us};
use crate::wire::Failed;

/// Events as they happen. Ends after its first error, of which [`Error::Gone`] means that events were missed that are no longer
/// kept: look at the lock, and watch on from there.
pub struct Observer {
    events: BoxStream<'static, Result<Event, Error>>,
}

impl fmt::Debug for Observer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Observer")
    }
}

impl Observer {
    pub(crate) fn new(client: Client, what: Watched, from: Option<u64>) -> Observer {
        let watch = Watch { client, what, from, told: None, opened_us: 0, misses: 0 };
        let events = futures_util::stream::unfold(Some(watch), |state| async {
            let mut watch = state?;
            match watch.next().await {
                Ok(event) => Some((Ok(event), Some(watch))),
                Err(error) => Some((Err(error), None)),
            }
        });
        Observer { events: events.boxed() }
    }

    /// The next event.
    pub async fn next(&mut self) -> Option<Result<Event, Error>> {
        self.events.next().await
    }
}

impl Stream for Observer {
    type Item = Result<Event, Error>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.events.poll_next_unpin(cx)
    }
}

impl Client {
    /// How a lock stands, and everything that happens to it from there on.
    pub(crate) async fn look_and_watch(&self, lock: &str) -> Result<(Snapshot, Observer), Error> {
        let snapshot = self.get(lock).await?;
        let observer = self.watch(Watched::Lock(lock.to_owned()), Some(snapshot.seq));
        Ok((snapshot, observer))
    }
}

/// A watch that was good for so long is resumed at once when it breaks.
const GOOD_US: u64 = 1_000_000;

type Told = BoxStream<'static, Result<v1::Event, Failed>>;

struct Watch {
    client: Client,
    what: Watched,
    /// The last event that was seen; none before the server was first asked where it stands.
    from: Option<u64>,
    told: Option<Told>,
    /// When the watch that is there began.
    opened_us: u64,
    /// Attempts in vain since one was good for a while.
    misses: u32,
}

impl Watch {
    async fn next(&mut self) -> Result<Event, Error> {
        loop {
            let failed = match (&mut self.told, self.from) {
                (Some(told), _) => match told.next().await {
                    Some(Ok(event)) => {
                        self.from = Some(event.seq);
                        return Event::told(event);
                    }
                    Some(Err(failed)) => Some(failed),
                    None => None,
                },
                (None, Some(from)) => match self.client.wire().watch(self.request(from)).await {
                    Ok(told) => {
                        self.told = Some(told);
                        self.opened_us = self.client.clock().now_us();
                        continue;
                    }
                    Err(failed) => Some(failed),
                },
                (None, None) => match self.now().await {
                    Ok(seq) => {
                        self.from = Some(seq);
                        continue;
                    }
                    // Retried already, and retried on for as long as somebody listens.
                    Err(Error::ServerUnavailable(_) | Error::Busy { .. }) => None,
                    Err(error) => return Err(error),
                },
            };
            if self.told.take().is_some() && self.client.clock().now_us() >= self.opened_us + GOOD_US {
                self.misses = 0;
            }
            self.rest(failed).await?;
        }
    }

    fn request(&self, from: u64) -> v1::WatchRequest {
        let what = match &self.what {
            Watched::Lock(lock) => What::Lock(lock.clone()),
            Watched::Prefix(prefix) => What::Prefix(prefix.clone()),
        };
        v1::WatchRequest { what: Some(what), from: Some(from) }
    }

    /// Where the server stands: what happens after this is to be heard, also if the connection breaks before the first event.
    async fn now(&mut self) -> Result<u64, Error> {
        let lock = match &self.what {
            Watched::Lock(lock) => lock,
            // Any lock will do.
            Watched::Prefix(_) => "leasehold",
        };
        Ok(self.client.get(lock).await?.seq)
    }

    /// Waits a little before the next attempt, at first not at all; fails with what no other attempt would change.
    async fn rest(&mut self, failed: Option<Failed>) -> Result<(), Error> {
        let mut after = Duration::ZERO;
        if let Some(Failed::Refused(refusal)) = failed {
            match refusal::again(&refusal) {
                None => return Err(refusal::error(*refusal, "")),
                Some(refusal::Again::Busy(recommended) | refusal::Again::NotServing(recommended)) => {
                    after = recommended;
                }
            }
        }
        let client = &self.client;
        let jitter = match self.misses {
            0 => Duration::ZERO,
            _ => Duration::from_millis(250 + client.random().up_to(750)),
        };
        self.misses += 1;
        let pause = after.max(jitter);
        if !pause.is_zero() {
            client.clock().sleep_until(client.clock().now_us().saturating_add(us(pause))).await;
        }
        Ok(())
    }
}
