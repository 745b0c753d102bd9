//! Fenced files: writing, deleting and looking. A write is judged in one step with the lease it is done under: owner, lease
//! id, token, liveness, mode and cover, in the order of the contract. Sees sizes, never bytes.

use alloc::string::{String, ToString};
use alloc::vec::Vec;

use leasehold_planted::{Bug, planted};

use crate::answer::{Answer, FileView, Outcome, Refusal, Reply, Written};
use crate::command::{Attachment, Proof, Request, WriteFile};
use crate::event::{Event, LeaseName, RequestMark, Seq};
use crate::file::{FileName, Offset};
use crate::files::{File, Misplaced};
use crate::ids::PayloadHasher;
use crate::invalid::Invalid;
use crate::limits::{FILE_INODE_END, PAGE_ROWS_MAX};
use crate::machine::{Machine, Output};
use crate::requests::Fate;
use crate::resource::{Kind, Resource};
use crate::words::{Mode, RequestId};

use super::Judged;
use super::acquire::other_payload;

const NO_SUCH_FILE: Refusal = Refusal::NotFound("no such file");
const SHARED: Refusal = Refusal::ScopeMismatch("the lease is shared; files are written under exclusive ones");
const NOT_COVERED: Refusal = Refusal::ScopeMismatch("the lease does not cover what is written");

/// What of a file a lease must cover.
enum Scope {
    /// These bytes, from the first to one past the last.
    Bytes(u64, u64),
    /// All bytes there are and could be.
    Whole,
}

impl Machine {
    pub(crate) fn write_file(&mut self, request: &Request, wanted: &WriteFile, out: &mut Output) -> Judged {
        let WriteFile { name, proof, .. } = wanted;
        let request_id = wanted.request_id.as_ref().filter(|_| !planted(Bug::WriteIdsIgnored));
        let mark = request_id.map(|id| self.mark(&proof.owner, id, |payload| add_write(payload, wanted)));
        if let Some(judged) = mark.and_then(|mark| self.repeated_change(request, name, &mark, out)) {
            return judged;
        }
        let lease = match self.prove_writer(name, proof, out) {
            Ok(lease) => lease,
            Err(refusal) => return refusal.into(),
        };
        let file = self.files.get(name).copied();
        let size = file.map_or(0, |file| file.size);
        let offset = match wanted.offset {
            Offset::End => size,
            Offset::At(offset) => offset,
        };
        let length = wanted.bytes.len();
        let scope = Scope::Bytes(offset, offset.saturating_add(length));
        let fits = self
            .covered(&lease, name, file.as_ref(), &scope)
            .and_then(|()| self.fits(name, file.as_ref(), offset, length));
        if let Err(refusal) = fits {
            return refusal.into();
        }
        let room = self.files.len() < self.limits.files_max && self.files.next_number < FILE_INODE_END;
        if file.is_none() && !room {
            return self.busy("the limit of files is reached", request).into();
        }
        if let Some(refusal) = mark.and_then(|mark| self.no_room_for(&mark.name, request.secret, out)) {
            return refusal.into();
        }
        let number = file.map_or(self.files.next_number, |file| file.number);
        let bytes = wanted.bytes.clone();
        self.emit(
            Event::FileWritten { number, name: name.clone(), lease, offset, bytes, request: mark },
            out,
        );
        let written = Written { offset, length, size: size.max(offset + length) };
        self.tell_applied(request.attachment, Answer::Wrote(written), self.seq, out)
    }

    pub(crate) fn delete_file(
        &mut self,
        request: &Request,
        name: &FileName,
        proof: &Proof,
        request_id: Option<&RequestId>,
        out: &mut Output,
    ) -> Judged {
        let mark = request_id.map(|id| {
            self.mark(&proof.owner, id, |payload| {
                payload.add(b"delete");
                payload.add(proof.owner.text().as_bytes());
                payload.add(name.text().as_bytes());
            })
        });
        if let Some(judged) = mark.and_then(|mark| self.repeated_change(request, name, &mark, out)) {
            return judged;
        }
        let lease = match self.prove_writer(name, proof, out) {
            Ok(lease) => lease,
            Err(refusal) => return refusal.into(),
        };
        let file = self.files.get(name).copied();
        if let Err(refusal) = self.covered(&lease, name, file.as_ref(), &Scope::Whole) {
            return refusal.into();
        }
        let Some(file) = file else { return NO_SUCH_FILE.into() };
        if let Some(refusal) = mark.and_then(|mark| self.no_room_for(&mark.name, request.secret, out)) {
            return refusal.into();
        }
        let (number, name) = (file.number, name.clone());
        self.emit(Event::FileDeleted { number, name, lease, request: mark }, out);
        Ok(Answer::Deleted).into()
    }

    pub(crate) fn stat_file(&mut self, to: Attachment, name: &FileName, out: &mut Output) -> Judged {
        match self.files.get(name) {
            None => NO_SUCH_FILE.into(),
            Some(file) => {
                let (view, changed) = (file_view(name, file), file.changed);
                self.tell_applied(to, Answer::File(view.into()), changed, out)
            }
        }
    }

    pub(crate) fn list_files(&self, prefix: &str, limit: usize, cursor: Option<&str>) -> Outcome {
        let limit = limit.clamp(1, PAGE_ROWS_MAX);
        let mut files = Vec::new();
        let mut next_cursor: Option<String> = None;
        for (name, file) in self.files.from(cursor.unwrap_or_default().max(prefix)) {
            if !name.text().starts_with(prefix) {
                break;
            }
            if files.len() == limit {
                next_cursor = Some(name.text().to_string());
                break;
            }
            files.push(file_view(name, file));
        }
        Ok(Answer::Files { files, next_cursor })
    }

    /// The lease that a change of a file is done under, if it is live and exclusive.
    fn prove_writer(
        &mut self,
        name: &FileName,
        proof: &Proof,
        out: &mut Output,
    ) -> Result<LeaseName, Refusal> {
        if planted(Bug::WriteUnfenced)
            && let Some(slot) = self.space.leases_on(&proof.resource, &self.leases).first()
            && let Some(lease) = self.leases.get(*slot)
        {
            return Ok(LeaseName { token: proof.token, ..lease.name(*slot, &self.owners) });
        }
        let slot = self.prove_live(proof, out).map_err(|refusal| match refusal {
            // A newer token may also have been seen by the file itself.
            Refusal::StaleToken { highest_token } => {
                let written = self.files.get(name).map(|file| file.token);
                let newer = written.filter(|token| *token > proof.token);
                Refusal::StaleToken { highest_token: highest_token.max(newer) }
            }
            other => other,
        })?;
        match self.leases.get(slot) {
            Some(lease) if lease.mode() == Mode::Exclusive => Ok(lease.name(slot, &self.owners)),
            _ => Err(SHARED),
        }
    }

    /// Whether a lease covers what is to be changed. While there is no file there is no number, so that only a path
    /// covers it.
    fn covered(
        &self,
        lease: &LeaseName,
        name: &FileName,
        file: Option<&File>,
        scope: &Scope,
    ) -> Result<(), Refusal> {
        let covers = match (lease.resource.kind(), file, scope) {
            (Kind::Path(_), _, _) => lease.resource.covers(name.path()),
            (Kind::Bytes(held), Some(file), Scope::Bytes(start, end)) => {
                held.inode == file.number && held.start <= *start && *end <= held.end
            }
            // A range ends somewhere, and somebody else may hold what lies behind it.
            (Kind::Bytes(held), Some(file), Scope::Whole) => {
                held.inode == file.number && is_inode(&lease.resource)
            }
            (Kind::Bytes(_), None, _) | (Kind::Name(_), _, _) => false,
        };
        if covers { Ok(()) } else { Err(NOT_COVERED) }
    }

    /// Whether a write of this length can be made there.
    fn fits(&self, name: &FileName, file: Option<&File>, offset: u64, length: u64) -> Result<(), Refusal> {
        let misplaced = match self.files.misplaced(name) {
            _ if file.is_some() => None,
            Some(Misplaced::BelowAFile) => Some("what should be a folder above this name is a file"),
            Some(Misplaced::AboveFiles) => Some("there are files below this name, as if it were a folder"),
            None => None,
        };
        if let Some(problem) = misplaced {
            return Err(Refusal::Invalid(Invalid::new("name", problem)));
        }
        let size = file.map_or(0, |file| file.size);
        if offset > size {
            let problem = "a write begins within the file or at its end";
            return Err(Refusal::Invalid(Invalid::new("offset", problem)));
        }
        let growth = (offset + length).saturating_sub(size);
        let limits = &self.limits;
        let over = [
            ("one write", length, limits.write_bytes_max),
            ("one file", size + growth, limits.file_bytes_max),
            ("all files together", self.files.bytes() + growth, limits.files_bytes_max),
        ];
        // What does not grow may be written to, also when the limits were lowered since.
        let checked = if growth > 0 { &over[..] } else { &over[..1] };
        match checked.iter().find(|(_, bytes, bytes_max)| bytes > bytes_max) {
            Some((what, _, bytes_max)) => Err(Refusal::TooLarge { what, bytes_max: *bytes_max }),
            None => Ok(()),
        }
    }

    /// What a request id that is known already leads to.
    fn repeated_change(
        &mut self,
        request: &Request,
        name: &FileName,
        mark: &RequestMark,
        out: &mut Output,
    ) -> Option<Judged> {
        let fate = match self.known(mark)? {
            Ok(known) => known.fate,
            Err(refusal) => return Some(refusal.into()),
        };
        Some(match fate {
            Fate::Wrote(written) => {
                // The first one may still be on its way into the file.
                let changed = self.files.get(name).map_or(0, |file| file.changed);
                self.tell_applied(request.attachment, Answer::Wrote(*written), changed, out)
            }
            Fate::Deleted => Ok(Answer::Deleted).into(),
            Fate::Cancelled(_) => Refusal::Cancelled.into(),
            _ => other_payload().into(),
        })
    }

    /// Tells somebody something that also waits for a write to be in its file.
    fn tell_applied(&self, to: Attachment, answer: Answer, applied: Seq, out: &mut Output) -> Judged {
        let applied = Some(applied);
        out.replies.push(Reply { to, outcome: Ok(answer), after: self.seq, promises_time: false, applied });
        Judged::Done
    }
}

fn is_inode(resource: &Resource) -> bool {
    resource.text().starts_with("inode:")
}

fn file_view(name: &FileName, file: &File) -> FileView {
    FileView {
        name: name.clone(),
        number: file.number,
        size: file.size,
        token: file.token,
        created_wall_ms: file.created_wall_ms,
        written_wall_ms: file.written_wall_ms,
        version: file.changed,
    }
}

/// File, offset and bytes; and whose request it is.
fn add_write(payload: &mut PayloadHasher, wanted: &WriteFile) {
    payload.add(b"write");
    payload.add(wanted.proof.owner.text().as_bytes());
    payload.add(wanted.name.text().as_bytes());
    match wanted.offset {
        Offset::End => payload.add(b""),
        Offset::At(offset) => payload.add(&offset.to_le_bytes()),
    }
    let digest: Vec<u8> = wanted.digest().iter().flat_map(|word| word.to_le_bytes()).collect();
    payload.add(&digest);
}
