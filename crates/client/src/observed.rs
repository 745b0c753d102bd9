//! Who holds a lock, now and after each change. It looks once, then watches from the event after which the look was true, so
//! that nothing is missed between the two. While nothing happens it sends nothing.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::stream::{self, BoxStream};
use futures_util::{Stream, StreamExt};

use crate::client::Client;
use crate::error::Error;
use crate::observe::Observer;
use crate::retry::RetryPolicy;
use crate::view::{Event, EventKind, Holder, Metadata, Mode, Snapshot, Watched, us};

/// How long to wait before looking again at a server that does not answer, at most.
const LOOK_AGAIN: RetryPolicy = RetryPolicy {
    attempt_timeout: Duration::ZERO,
    attempts: u32::MAX,
    backoff: Duration::from_millis(250),
    backoff_max: Duration::from_secs(5),
};

/// Who holds a lock at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Observed {
    /// After which event this is so.
    pub seq: u64,
    /// What has just happened; none for the first look, and after a gap that could not be helped because the server keeps
    /// the events in it no longer.
    pub event: Option<Event>,
    /// Who holds it, in the order of their tokens: none, one, or many that share it.
    pub holders: Vec<Holding>,
}

/// One who holds a lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holding {
    /// Who.
    pub owner_id: String,
    /// With which token.
    pub token: u64,
    /// Whom it keeps out.
    pub mode: Mode,
    /// What the holder wants to be read; empty when it was over before it could be read.
    pub metadata: Metadata,
    /// Whether it was broken, and only stands until its deadline.
    pub broken: bool,
}

/// The changes of a lock's holders: a stream that does not end, but for an error that trying again would not mend.
pub struct Changes {
    stream: BoxStream<'static, Result<Observed, Error>>,
}

impl Changes {
    pub(crate) fn of(client: &Client, lock: &str) -> Changes {
        let lookout =
            Lookout { client: client.clone(), lock: lock.to_owned(), holders: Vec::new(), events: None };
        let stream = stream::unfold(Some(lookout), |state| async {
            let mut lookout = state?;
            match lookout.next().await {
                Ok(observed) => Some((Ok(observed), Some(lookout))),
                Err(error) => Some((Err(error), None)),
            }
        });
        Changes { stream: stream.boxed() }
    }
}

impl Stream for Changes {
    type Item = Result<Observed, Error>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.stream.poll_next_unpin(context)
    }
}

impl fmt::Debug for Changes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Changes").finish_non_exhaustive()
    }
}

struct Lookout {
    client: Client,
    lock: String,
    holders: Vec<Holding>,
    /// None before the first look, and after a gap.
    events: Option<Observer>,
}

impl Lookout {
    async fn next(&mut self) -> Result<Observed, Error> {
        loop {
            let Some(events) = &mut self.events else {
                let snapshot = look(&self.client, &self.lock).await?;
                let from = Some(snapshot.seq);
                self.events = Some(self.client.watch(Watched::Lock(self.lock.clone()), from));
                self.holders = holdings(&snapshot);
                return Ok(Observed { seq: snapshot.seq, event: None, holders: self.holders.clone() });
            };
            match events.next().await {
                Some(Ok(event)) => {
                    if self.take_in(&event).await? {
                        let holders = self.holders.clone();
                        return Ok(Observed { seq: event.seq, event: Some(event), holders });
                    }
                }
                Some(Err(Error::Gone)) | None => self.events = None,
                Some(Err(error)) => return Err(error),
            }
        }
    }

    /// Whether the event is about a holder.
    async fn take_in(&mut self, event: &Event) -> Result<bool, Error> {
        let Some(token) = event.fencing_token else { return Ok(false) };
        match event.kind {
            EventKind::Released | EventKind::Expired => self.holders.retain(|held| held.token != token),
            EventKind::Granted | EventKind::Updated | EventKind::Broken => {
                // An event does not say what the holder wants to be read, nor whether a broken lease still stands.
                let snapshot = look(&self.client, &self.lock).await?;
                let now = holdings(&snapshot).into_iter().find(|held| held.token == token);
                self.holders.retain(|held| held.token != token);
                match now {
                    Some(now) => self.holders.push(Holding { broken: event.is_broken(), ..now }),
                    None if event.is_broken() => {}
                    None => self.holders.push(Holding {
                        owner_id: event.owner_id.clone(),
                        token,
                        mode: event.mode,
                        metadata: Metadata::new(),
                        broken: false,
                    }),
                }
                self.holders.sort_by_key(|held| held.token);
            }
            _ => return Ok(false),
        }
        Ok(true)
    }
}

/// Looks until there is an answer, or an error that trying again would not mend.
async fn look(client: &Client, lock: &str) -> Result<Snapshot, Error> {
    let mut tries = 0;
    loop {
        let recommended = match client.get(lock).await {
            Err(Error::Busy { retry_after, .. }) => Some(retry_after),
            Err(Error::ServerUnavailable(_)) => None,
            outcome => return outcome,
        };
        tries += 1;
        let pause = LOOK_AGAIN.pause(tries, recommended, client.random().number());
        let clock = client.clock();
        clock.sleep_until(clock.now_us().saturating_add(us(pause))).await;
    }
}

impl Event {
    fn is_broken(&self) -> bool {
        self.kind == EventKind::Broken
    }
}

/// Those who hold exactly this lock.
fn holdings(snapshot: &Snapshot) -> Vec<Holding> {
    let mine = snapshot.holders.iter().filter(|holder| holder.lock == snapshot.lock);
    mine.map(holding).collect()
}

fn holding(holder: &Holder) -> Holding {
    Holding {
        owner_id: holder.owner_id.clone(),
        token: holder.fencing_token,
        mode: holder.mode,
        metadata: holder.metadata.clone(),
        broken: holder.broken,
    }
}
