//! Turns a step's words ("the third newest lease, with the wrong owner") into a command for the machine and the same
//! question for the model.

use std::collections::BTreeSet;

use leasehold_state_machine::command::{Acquire, Break, Command, List, Proof, Renew, WriteFile};
use leasehold_state_machine::file::{FileBytes, FileName, Offset};
use leasehold_state_machine::ids::{LeaseId, Secret, SessionId};
use leasehold_state_machine::resource::Resource;
use leasehold_state_machine::words::{Owner, Reason, RequestId, Ttl, Wait};

use super::drive::{Grant, Pair};
use super::judge::{self, Asked, mode};
use super::steps::{Back, FILES, Lie, What};
use super::told::metadata;
use super::{Ask, Lease, Under};

/// What the machine is asked, and what the model is asked.
pub struct Question {
    pub command: Command,
    pub asked: Asked,
}

pub fn resource(text: &str) -> Resource {
    Resource::parse(text).unwrap()
}

pub fn owner(text: &str) -> Owner {
    Owner::parse(text).unwrap()
}

fn id(text: &str) -> RequestId {
    RequestId::parse(text).unwrap()
}

fn file(text: &str) -> FileName {
    FileName::parse(text).unwrap()
}

fn ttl(ttl_ms: u64) -> Ttl {
    Ttl::from_ms(ttl_ms).unwrap()
}

fn newest<T>(list: &[T], back: Back) -> Option<&T> {
    let at = back.0 as usize;
    list.len().checked_sub(at + 1).map(|index| &list[index])
}

impl Pair {
    /// Nothing, when the step speaks of something that is not there.
    pub fn resolve(&self, what: &What) -> Option<Question> {
        let (command, asked) = match what {
            What::Acquire { .. } => return self.resolve_acquire(what),
            What::Again { call, wait_ms } => {
                let mut question = newest(&self.calls, *call)?.again();
                if let (Command::Acquire(acquire), Asked::Acquire { wait_ms: wait, .. }, Some(new_ms)) =
                    (&mut question.command, &mut question.asked, wait_ms)
                {
                    acquire.wait = Wait::from_ms(*new_ms).unwrap();
                    *wait = *new_ms;
                }
                return Some(question);
            }
            What::Renew { lease, lie, ttl_ms, metadata: number } => {
                let (proof, theirs) = self.proof(*lease, *lie)?;
                let renew = Renew { proof, ttl: ttl_ms.map(ttl), metadata: number.map(metadata) };
                (Command::Renew(renew), Asked::Renew { proof: theirs, ttl_ms: *ttl_ms, metadata: *number })
            }
            What::Release { lease, lie } => {
                let (proof, theirs) = self.proof(*lease, *lie)?;
                (Command::Release(proof), Asked::Release(theirs))
            }
            What::Cancel { lock, owner, id } => cancel(lock, owner, &format!("r{id}")),
            What::CancelCall { call } => {
                let Asked::Acquire { ask, id: Some(id), .. } = &newest(&self.calls, *call)?.asked else {
                    return None;
                };
                cancel(&ask.lock, &ask.owner, id)
            }
            What::Verify { lease, lock } => {
                let grant = newest(&self.grants, *lease)?;
                let lock = lock.map_or(grant.lock.clone(), String::from);
                let token = grant.token;
                (Command::Verify { resource: resource(&lock), token }, Asked::Verify { lock, token })
            }
            What::Get { lock } => {
                let lock = resource(lock).text().to_string();
                (Command::Get { resource: resource(&lock) }, Asked::Get { lock })
            }
            What::List => (Command::List(List { limit: 1000, ..List::default() }), Asked::List),
            What::Break { lock, lease, only, force, id: number } => {
                let lease = match lease {
                    Some(back) => Some(newest(&self.grants, *back)?),
                    None => None,
                };
                let lock =
                    lease.map_or_else(|| resource(lock).text().to_string(), |grant| grant.lock.clone());
                let token = lease.filter(|_| *only).map(|grant| grant.token);
                let text = number.map(|number| format!("b{number}"));
                let command = Break {
                    resource: resource(&lock),
                    reason: Reason::parse("stuck").unwrap(),
                    force: *force,
                    token,
                    request_id: text.as_deref().map(id),
                    broken: Default::default(),
                };
                (Command::Break(Box::new(command)), Asked::Break { lock, force: *force, token, id: text })
            }
            What::Open { owner: who, ttl_ms, id: number } => {
                let text = number.map(|number| format!("r{number}"));
                let command = Command::OpenSession {
                    owner: owner(who),
                    ttl: ttl(*ttl_ms),
                    request_id: text.as_deref().map(id),
                    metadata: metadata(0),
                };
                (command, Asked::Open { owner: who.to_string(), ttl_ms: *ttl_ms, id: text })
            }
            What::KeepAlive { session, seen } => {
                let session = *newest(&self.sessions, *session)?;
                let told = self.ended.get(&session.secret().0);
                let seen = seen.and_then(|index| Some(told?.get(index as usize)?.0));
                let known = told.into_iter().flatten().filter(|(seq, _)| Some(*seq) <= seen);
                let tokens: BTreeSet<u64> = known.map(|(_, token)| *token).collect();
                (
                    Command::KeepAlive { session, seen },
                    Asked::KeepAlive { session: session.secret(), seen: tokens },
                )
            }
            What::Close { session } => {
                let session = *newest(&self.sessions, *session)?;
                (Command::CloseSession { session }, Asked::Close { session: session.secret() })
            }
            What::KeepAliveOwn { lease } => {
                let (session, lease) = self.own_session(*lease)?;
                (Command::KeepAlive { session, seen: None }, Asked::KeepAliveOwn { lease })
            }
            What::CloseOwn { lease } => {
                let (session, lease) = self.own_session(*lease)?;
                (Command::CloseSession { session }, Asked::CloseOwn { lease })
            }
            What::ListSessions => (Command::ListSessions { limit: 1000, cursor: None }, Asked::ListSessions),
            What::Detach { call } => {
                let gone = newest(&self.calls, *call)?.attachment;
                (Command::Detach { gone }, Asked::Detach { gone })
            }
            What::Write { name, fitting, at, length, lease, lie, id: number } => {
                let lease = if *fitting { self.living(*lease) } else { *lease };
                let (proof, theirs) = self.proof(lease, *lie)?;
                let name = self.fitting(name, *fitting, &theirs.lock);
                let text = number.map(|number| format!("r{number}"));
                // Bytes that tell one write from another.
                let bytes = vec![b'a' + (self.drawn % 26) as u8; *length as usize];
                let offset = at.map_or(Offset::End, Offset::At);
                let request_id = text.as_deref().map(id);
                let write =
                    WriteFile::new(file(name), offset, FileBytes::new(bytes.clone()), proof, request_id);
                let name = name.to_string();
                (
                    Command::WriteFile(Box::new(write)),
                    Asked::Write { name, at: *at, bytes, proof: theirs, id: text },
                )
            }
            What::Delete { name, fitting, lease, lie, id: number } => {
                let lease = if *fitting { self.living(*lease) } else { *lease };
                let (proof, theirs) = self.proof(lease, *lie)?;
                let name = self.fitting(name, *fitting, &theirs.lock);
                let text = number.map(|number| format!("r{number}"));
                let request_id = text.as_deref().map(id);
                let command = Command::DeleteFile { name: file(name), proof, request_id };
                (command, Asked::Delete { name: name.to_string(), proof: theirs, id: text })
            }
            What::Stat { name } => {
                (Command::StatFile { name: file(name) }, Asked::Stat { name: name.to_string() })
            }
            What::ListFiles => {
                let command = Command::ListFiles { prefix: String::new(), limit: 1000, cursor: None };
                (command, Asked::ListFiles)
            }
            What::Abandon { lease } => {
                let lease = newest(&self.grants, *lease)?.lease;
                (Command::Abandon { lease }, Asked::Abandon { lease: lease.secret })
            }
        };
        Some(Question { command, asked })
    }

    fn resolve_acquire(&self, what: &What) -> Option<Question> {
        let What::Acquire { lock, owner: who, shared, wait_ms, ttl_ms, session, id: number, metadata: note } =
            what
        else {
            return None;
        };
        let session: Option<SessionId> = match session {
            Some(back) => Some(*newest(&self.sessions, *back)?),
            None => None,
        };
        // Mostly the session's own owner; now and then somebody else's session is tried.
        let who = match session {
            Some(session) if *note > 0 => self.session_owners[&session.secret().0].clone(),
            _ => who.to_string(),
        };
        let lock = resource(lock).text().to_string();
        let text = number.map(|number| format!("r{number}"));
        let under = match session {
            Some(session) => Under::Session(session.secret()),
            None => Under::Own { ttl_ms: ttl_ms.unwrap_or(30_000) },
        };
        let command = Command::Acquire(Acquire {
            resource: resource(&lock),
            owner: owner(&who),
            ttl: ttl_ms.map(ttl),
            mode: mode(*shared),
            wait: Wait::from_ms(*wait_ms).unwrap(),
            session,
            request_id: text.as_deref().map(id),
            metadata: metadata(*note),
        });
        let asked = Asked::Acquire {
            ask: Ask { lock, owner: who, mode: mode(*shared), under, metadata: *note },
            ttl_and_session: session.is_some() && ttl_ms.is_some(),
            wait_ms: *wait_ms,
            id: text,
        };
        Some(Question { command, asked })
    }

    /// The session that a single lease got for itself.
    fn own_session(&self, lease: Back) -> Option<(SessionId, Secret)> {
        let session = newest(&self.grants, lease)?.session;
        matches!(session, SessionId::Own(_)).then(|| (session, session.secret()))
    }

    /// Counts only leases that live.
    fn living(&self, lease: Back) -> Back {
        let lives = |grant: &Grant| self.model.lease(grant.lease.secret).is_some_and(Lease::stands);
        let mut living = self.grants.iter().rev().enumerate().filter(|(_, grant)| lives(grant));
        let far = (lease.0 as usize) % 4;
        living.nth(far).map_or(lease, |(back, _)| Back(back as u64))
    }

    /// A file's name, or the next in the list that this lock covers.
    fn fitting<'a>(&self, name: &'a str, fitting: bool, lock: &str) -> &'a str {
        let from = FILES.iter().position(|other| *other == name).unwrap();
        let mut next = FILES.iter().cycle().skip(from).take(FILES.len());
        next.find(|name| fitting && self.model.covers_file(lock, name)).unwrap_or(&name)
    }

    fn proof(&self, lease: Back, lie: Lie) -> Option<(Proof, judge::Proof)> {
        let grant = newest(&self.grants, lease)?;
        let mut theirs = judge::Proof {
            lock: grant.lock.clone(),
            owner: grant.owner.clone(),
            lease: grant.lease.secret,
            token: grant.token,
        };
        match lie {
            Lie::None => {}
            Lie::Owner => theirs.owner = "thief".into(),
            Lie::Token => theirs.token += 1,
            Lie::Lock => theirs.lock = "elsewhere".into(),
            Lie::Secret => theirs.lease = Secret([0, 1]),
        }
        let proof = Proof {
            resource: resource(&theirs.lock),
            owner: owner(&theirs.owner),
            lease: LeaseId { slot: grant.lease.slot, secret: theirs.lease },
            token: theirs.token,
        };
        Some((proof, theirs))
    }
}

fn cancel(lock: &str, who: &str, text: &str) -> (Command, Asked) {
    let lock = resource(lock);
    let asked = Asked::Cancel { lock: lock.text().into(), owner: who.into(), id: text.into() };
    (Command::Cancel { resource: lock, owner: owner(who), request_id: id(text) }, asked)
}
