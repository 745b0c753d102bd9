//! Fenced files as section 8 has them: a list of names and contents, and every question a scan.

use super::ground::{Spot, cover, spot};
use super::judge::{Proof, ended};
use super::told::{FileTold, Told};
use super::{Effect, Life, Model, Payload, Request};
use leasehold_state_machine::limits::FILE_INODE_FIRST;
use leasehold_state_machine::words::Mode;

/// A file that is or was.
pub struct File {
    pub name: String,
    pub number: u64,
    pub content: Vec<u8>,
    pub token: u64,
    pub deleted: bool,
}

impl File {
    fn path(&self) -> String {
        format!("path:/{}", self.name)
    }
}

impl Model {
    pub fn file(&self, name: &str) -> Option<&File> {
        self.files.iter().find(|file| file.name == name && !file.deleted)
    }

    /// Whether somebody may ask for this: in the files' block, only what is there.
    pub fn exists(&self, lock: &str) -> bool {
        match spot(lock) {
            Spot::Inode(number) if (FILE_INODE_FIRST..FILE_INODE_FIRST + (1 << 32)).contains(&number) => {
                self.files.iter().any(|file| file.number == number && !file.deleted)
            }
            _ => true,
        }
    }

    /// The path that bytes are one with: a file's, or a deleted one's while anybody stands on it.
    pub fn path_of(&self, lock: &str) -> Option<String> {
        let Spot::Inode(number) = spot(lock) else { return None };
        let file = self.files.iter().find(|file| file.number == number)?;
        let on_it = |lock: &str| spot(lock) == Spot::Inode(number);
        let stood_on = self.leases.iter().any(|lease| lease.stands() && on_it(&lease.ask.lock))
            || self.waiters.iter().any(|waiter| on_it(&waiter.ask.lock));
        (!file.deleted || stood_on).then(|| file.path())
    }

    /// Whether a lock covers some of a file, or the path that it would lie at.
    pub fn covers_file(&self, lock: &str, name: &str) -> bool {
        let path = format!("path:/{name}");
        cover(lock, &path) || self.path_of(lock).is_some_and(|of| of == path) && self.exists(lock)
    }

    pub fn write(
        &mut self,
        name: String,
        at: Option<u64>,
        bytes: Vec<u8>,
        proof: &Proof,
        id: Option<String>,
    ) -> Told {
        let payload = Payload::Write { name: name.clone(), at, bytes: bytes.clone() };
        if let Some(told) = self.answered(&proof.owner, id.as_deref(), &payload) {
            return told;
        }
        let (lock, token) = match self.writer(proof) {
            Ok(found) => found,
            Err(told) => return *told,
        };
        let size = self.file(&name).map_or(0, |file| file.content.len() as u64);
        let start = at.unwrap_or(size);
        let end = start + bytes.len() as u64;
        let by_bytes = self.file(&name).is_some_and(|file| cover_bytes(&lock, file.number, start, end));
        if !(by_bytes || cover(&lock, &format!("path:/{name}"))) {
            return Told::Scope;
        }
        let live = || self.files.iter().filter(|file| !file.deleted);
        let below = |upper: &str, lower: &str| lower.starts_with(&format!("{upper}/"));
        if live().any(|file| below(&file.name, &name) || below(&name, &file.name)) {
            return Told::Invalid("name".into());
        }
        if start > size {
            return Told::Invalid("offset".into());
        }
        let all: u64 = live().map(|file| file.content.len() as u64).sum();
        if bytes.len() as u64 > self.limits.write_bytes_max {
            return Told::TooLarge("one write");
        }
        if end > size && end > self.limits.file_bytes_max {
            return Told::TooLarge("one file");
        }
        if end > size && all - size + end > self.limits.files_bytes_max {
            return Told::TooLarge("all files together");
        }
        if self.file(&name).is_none() {
            if live().count() >= self.limits.files_max {
                return Told::Busy;
            }
            let number = FILE_INODE_FIRST + self.files.len() as u64;
            self.files.push(File {
                name: name.clone(),
                number,
                content: Vec::new(),
                token: 0,
                deleted: false,
            });
        }
        let file = self.files.iter_mut().find(|file| file.name == name && !file.deleted).expect("made above");
        let (first, last) = (start as usize, end as usize);
        file.content.resize(file.content.len().max(last), 0);
        file.content[first..last].copy_from_slice(&bytes);
        file.token = file.token.max(token);
        let told = Told::Wrote { offset: start, length: bytes.len() as u64, size: size.max(end) };
        self.note_answer(proof, id, payload, &told);
        told
    }

    pub fn delete(&mut self, name: String, proof: &Proof, id: Option<String>) -> Told {
        let payload = Payload::Delete { name: name.clone() };
        if let Some(told) = self.answered(&proof.owner, id.as_deref(), &payload) {
            return told;
        }
        let (lock, _) = match self.writer(proof) {
            Ok(found) => found,
            Err(told) => return *told,
        };
        let by_inode = self.file(&name).is_some_and(|file| lock == format!("inode:{}", file.number));
        if !(by_inode || cover(&lock, &format!("path:/{name}"))) {
            return Told::Scope;
        }
        let Some(file) = self.files.iter_mut().find(|file| file.name == name && !file.deleted) else {
            return Told::NotFound;
        };
        file.deleted = true;
        self.note_answer(proof, id, payload, &Told::Deleted);
        Told::Deleted
    }

    pub fn stat(&self, name: &str) -> Told {
        self.file(name).map_or(Told::NotFound, |file| Told::File(file_told(file)))
    }

    pub fn list_files(&self) -> Told {
        let mut files: Vec<FileTold> =
            self.files.iter().filter(|file| !file.deleted).map(file_told).collect();
        files.sort();
        Told::Files(files)
    }

    fn answered(&self, owner: &str, id: Option<&str>, payload: &Payload) -> Option<Told> {
        let request = self.request(owner, id?)?;
        Some(match &request.effect {
            Effect::Cancelled(_) => Told::Cancelled,
            Effect::Answered(told) if request.payload == *payload => told.clone(),
            _ => Told::Invalid("request_id".into()),
        })
    }

    fn note_answer(&mut self, proof: &Proof, id: Option<String>, payload: Payload, told: &Told) {
        if let Some(id) = id {
            let (owner, effect) = (proof.owner.clone(), Effect::Answered(told.clone()));
            self.requests.push(Request { owner, id, payload, effect, retired_us: Some(self.now.us) });
        }
    }

    /// Lock and token of a live exclusive lease.
    fn writer(&self, proof: &Proof) -> Result<(String, u64), Box<Told>> {
        let lease = &self.leases[self.proven(proof)?];
        match lease.life {
            Life::Live if lease.ask.mode == Mode::Exclusive => Ok((lease.ask.lock.clone(), lease.token)),
            Life::Live => Err(Box::new(Told::Scope)),
            Life::Broken { .. } => Err(Box::new(Told::Released)),
            Life::Ended { how, .. } => Err(Box::new(ended(how))),
        }
    }
}

fn file_told(file: &File) -> FileTold {
    FileTold {
        name: file.name.clone(),
        number: file.number,
        size: file.content.len() as u64,
        token: file.token,
    }
}

/// Whether bytes are covered; an empty run lies wherever its place does.
fn cover_bytes(lock: &str, number: u64, start: u64, end: u64) -> bool {
    if lock == format!("inode:{number}") {
        return true;
    }
    let Some(range) = lock.strip_prefix(&format!("range:{number}:")) else { return false };
    let (first, last) = range.split_once('-').unwrap();
    first.parse::<u64>().unwrap() <= start && end <= last.parse::<u64>().unwrap()
}
