//! ZooKeeper's lock recipe: a numbered ephemeral node each, the lowest holds, each other watches the one before it.
//! Never wakes more than one client for a release.

use std::sync::Arc;

use super::jute::{Lives, NODE_EXISTS, Request, take_text, take_texts};
use super::session::{Answer, Session};
use crate::peers::LockClient;

/// Under which all locks stand.
const ROOT: &str = "/locks";
/// What the numbered nodes of a lock begin with.
const PLACE: &str = "place-";

/// A client of the recipe.
pub struct Recipe {
    session: Arc<Session>,
}

impl Recipe {
    /// A client on a session of its own, or on one that others use as well.
    pub fn new(session: Arc<Session>) -> Recipe {
        Recipe { session }
    }
}

/// Makes the nodes under which locks have their lines. They stay, as those of a lock that is used again do.
pub async fn make_room(session: &Session, locks: impl Iterator<Item = String>) -> Result<(), String> {
    let rooms = std::iter::once(ROOT.to_owned()).chain(locks.map(|lock| format!("{ROOT}/{lock}")));
    let make = |path| Request::Create { path, lives: Lives::ForEver };
    let asked: Vec<Answer> = rooms.map(|path| session.send(&make(path))).collect();
    for answer in asked {
        let reply = answer.wait().await?;
        if reply.error != NODE_EXISTS {
            reply.body("make room for a lock")?;
        }
    }
    Ok(())
}

impl LockClient for Recipe {
    /// The path of a place in the line.
    type Held = String;

    async fn acquire(&mut self, lock: &str) -> Result<String, String> {
        let parent = format!("{ROOT}/{lock}");
        // Both at once: a session's requests are done in order, so the children include the new one.
        let create = Request::Create { path: format!("{parent}/{PLACE}"), lives: Lives::WithSessionNumbered };
        let created = self.session.send(&create);
        let list = Request::GetChildren { path: parent.clone() };
        let mut children = self.session.send(&list);
        let place = take_text(&mut created.wait().await?.body("create a place in the line")?)?;
        let mine = place.rsplit('/').next().unwrap_or_default();
        loop {
            let others = take_texts(&mut children.wait().await?.body("list a lock's places")?)?;
            let Some(before) = before(&others, mine) else { return Ok(place) };
            if let Some(gone) = self.session.watch(&format!("{parent}/{before}")).await? {
                gone.await.map_err(|_| "ZooKeeper's session ended while a client waited")?;
            }
            // The one before may have given up its place without ever holding: only the list tells.
            children = self.session.send(&list);
        }
    }

    /// Keeps all that the session holds: ZooKeeper knows no other renewal.
    async fn renew(&mut self, _held: &mut String) -> Result<(), String> {
        self.session.call(&Request::Ping).await?.body("ping").map(drop)
    }

    async fn release(&mut self, held: String) -> Result<(), String> {
        let reply = self.session.call(&Request::Delete { path: held }).await?;
        reply.body("delete a place in the line").map(drop)
    }

    fn token(held: &String) -> Option<u64> {
        number(held)
    }
}

/// The place just before mine, if any.
fn before<'a>(places: &'a [String], mine: &str) -> Option<&'a str> {
    places.iter().map(String::as_str).filter(|place| *place < mine).max()
}

/// The number of a place, counted from 1: it grows with every place that is taken at a lock.
fn number(place: &str) -> Option<u64> {
    Some(place.rsplit(PLACE).next()?.parse::<u64>().ok()? + 1)
}

#[cfg(test)]
mod tests {
    use super::{before, number};

    #[test]
    fn the_lowest_place_holds_and_the_others_watch_the_one_before() {
        let places = ["place-0000000012", "place-0000000009", "place-0000000010"].map(str::to_owned);
        assert_eq!(before(&places, "place-0000000009"), None);
        assert_eq!(before(&places, "place-0000000010"), Some("place-0000000009"));
        assert_eq!(before(&places, "place-0000000012"), Some("place-0000000010"));
    }

    #[test]
    fn a_place_is_numbered_from_one() {
        assert_eq!(number("/locks/a/place-0000000000"), Some(1));
        assert_eq!(number("/locks/a/place-0000000041"), Some(42));
        assert_eq!(number("/locks/a"), None);
    }
}
