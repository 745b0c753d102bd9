//! The fixed workload: one client that takes every kind of step, one after the other, and knows what it was told. Its
//! writes fill segments, so that the journal goes over to new ones and makes a snapshot.

use std::collections::BTreeMap;
use std::io;

use super::written::{How, Written};
use crate::client::Client;
use crate::kill::history::{Fate, History, SessionFate};
use crate::kill::workers::{own_lock, session};

/// Of these writes, six fill one of the smallest segments.
const LARGE_BYTES: usize = 200 << 10;
/// So many large writes make the journal go over to another segment.
pub const ONE_SEGMENT: u8 = 6;
/// So many make it write a snapshot.
pub const SNAPSHOT: u8 = 13;

/// Everything that the client was told, and what it was about to do.
#[derive(Clone, Default)]
pub struct Told {
    pub fates: BTreeMap<String, Fate>,
    pub sessions: Vec<SessionFate>,
    pub files: Vec<Written>,
}

/// Takes all the steps, with so many large writes among them; or as many as the server lives for.
pub fn run(client: &mut Client, told: &mut Told, large_writes: u8) -> io::Result<()> {
    for count in 0..4 {
        own_lock(client, "script", &format!("own-{count}"), count, &mut told.fates)?;
    }
    session(client, "left-open", false, &mut told.sessions)?;
    session(client, "closed", true, &mut told.sessions)?;

    let lock = "path:%2Fbooks";
    own_lock(client, "writer", lock, 1, &mut told.fates)?;
    let Some(Fate::Held { lease, .. }) = told.fates.get(lock) else { panic!("{lock} is not held") };
    let lease = lease.clone();
    let mut begin = |name: &str| {
        told.files.push(Written::new(name, lock, &lease));
        told.files.len() - 1
    };
    let (small, gone, large) = (begin("books/small"), begin("books/gone"), begin("books/large"));
    told.files[small].change(client, How::Append, b"one\ntwo\n")?;
    told.files[gone].change(client, How::Append, b"soon gone")?;
    told.files[small].change(client, How::Put(4), b"TWO and more\n")?;
    told.files[gone].change(client, How::Delete, b"")?;
    for piece in 0..large_writes {
        let bytes = vec![b'a' + piece; LARGE_BYTES];
        told.files[large].change(client, How::Append, &bytes)?;
    }
    told.files[small].change(client, How::Append, b"the end\n")?;
    own_lock(client, "script", "own-4", 4, &mut told.fates)
}

impl Told {
    /// Compares all of it with what the server says now; how many steps had been left open.
    pub fn judge(self, client: &mut Client) -> usize {
        let mut open = History::default().judge_round(client, self.fates, self.sessions);
        for file in self.files {
            open += usize::from(file.judge(client));
        }
        open
    }
}
