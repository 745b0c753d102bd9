//! What anybody may see: locks, lists, sessions. No secrets, and nothing is changed: what is over and not yet swept is
//! passed over.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use crate::answer::{Answer, Held, HolderView, Outcome, Refusal, SessionRow, Snapshot, WaiterView};
use crate::command::List;
use crate::crowd::Class;
use crate::event::Under;
use crate::ids::Secret;
use crate::invalid::Invalid;
use crate::limits::{
    PAGE_ENTRIES_MAX, PAGE_LOOKS_MAX, PAGE_ROWS_MAX, REFUSAL_ENTRIES_MAX, SNAPSHOT_ENTRIES_MAX,
};
use crate::machine::Machine;
use crate::resource::Resource;
use crate::words::Owner;

impl Machine {
    /// A lock as everybody may see it, at the time of the newest turn.
    pub fn snapshot(&self, resource: &Resource) -> Snapshot {
        self.snapshot_of(resource, SNAPSHOT_ENTRIES_MAX)
    }

    pub(crate) fn get(&self, resource: &Resource) -> Outcome {
        if !self.space.is_known(resource) {
            return Err(Refusal::NotFound("no file of ours has this inode number"));
        }
        Ok(Answer::Snapshot(self.snapshot(resource).into()))
    }

    pub(crate) fn list(&self, page: &List) -> Outcome {
        let limit = page.limit.clamp(1, PAGE_ROWS_MAX);
        let from = match &page.cursor {
            Some(cursor) => cursor.as_str().max(&page.prefix),
            None => &page.prefix,
        };
        let mut locks: Vec<Snapshot> = Vec::new();
        let mut next_cursor = None;
        let mut entries = 0;
        for (looks, resource) in self.space.resources_from(from, &self.leases).enumerate() {
            if !resource.text().starts_with(&page.prefix) {
                break;
            }
            if locks.len() == limit || looks == PAGE_LOOKS_MAX || entries >= PAGE_ENTRIES_MAX {
                next_cursor = Some(resource.text().to_string());
                break;
            }
            if page.owner.as_ref().is_none_or(|owner| self.concerns(resource, owner)) && self.in_use(resource)
            {
                let lock = self.snapshot_of(resource, REFUSAL_ENTRIES_MAX);
                entries += lock.holders.len() + lock.waiters.len();
                locks.push(lock);
            }
        }
        Ok(Answer::Locks { locks, next_cursor })
    }

    pub(crate) fn list_sessions(&self, limit: usize, cursor: Option<&str>) -> Outcome {
        let limit = limit.clamp(1, PAGE_ROWS_MAX);
        let (opened_from, own_from) = parse_session_cursor(cursor)?;
        let mut sessions = Vec::new();
        let mut next_cursor = None;
        let mut looks = 0;
        if let Some(first) = opened_from {
            for slot in first..self.sessions.end() {
                if sessions.len() == limit || looks == PAGE_LOOKS_MAX {
                    next_cursor = Some(format!("s{slot}"));
                    break;
                }
                looks += 1;
                let Some(session) = self.sessions.get(slot) else { continue };
                if session.over.is_some() || self.now.us >= session.deadline_us {
                    continue;
                }
                sessions.push(SessionRow {
                    owner: session.owner.clone(),
                    ttl: session.ttl,
                    expires_in_ms: self.now.ms_until(session.deadline_us),
                    leases: session.leases.len() as u64,
                    waiters: session.waiters.len() as u64,
                    metadata: session.metadata.clone(),
                });
            }
        }
        if next_cursor.is_none() {
            for slot in own_from..self.leases.end() {
                if sessions.len() == limit || looks == PAGE_LOOKS_MAX {
                    next_cursor = Some(format!("o{slot}"));
                    break;
                }
                looks += 1;
                let Some(lease) = self.leases.get(slot) else { continue };
                let Under::Own(ttl) = lease.under() else { continue };
                if self.lease_over(lease).is_some() {
                    continue;
                }
                sessions.push(SessionRow {
                    owner: self.owners.name(lease.owner).clone(),
                    ttl,
                    expires_in_ms: self.now.ms_until(lease.deadline_us),
                    leases: 1,
                    waiters: 0,
                    metadata: lease.metadata().clone(),
                });
            }
        }
        Ok(Answer::Sessions { sessions, next_cursor, seq: self.seq })
    }

    /// Who is in the way of a request for this resource.
    pub(crate) fn held(&self, resource: &Resource, drawn: Secret) -> Held {
        let holders = self.holders(resource, REFUSAL_ENTRIES_MAX);
        let waiters = self.waiters(resource, REFUSAL_ENTRIES_MAX);
        let remaining_ms = holders.iter().map(|holder| holder.expires_in_ms).max().unwrap_or(0);
        let line = self.space.waiters_on(resource, &self.leases).max(waiters.len()) as u64;
        let about_ms = (remaining_ms / 8).clamp(50, 5_000) + (line * 10).min(25_000);
        Held { holders, waiters, retry_ms: self.retry_ms(about_ms, drawn) }
    }

    fn snapshot_of(&self, resource: &Resource, most: usize) -> Snapshot {
        Snapshot {
            resource: resource.clone(),
            holders: self.holders(resource, most),
            waiters: self.waiters(resource, most),
            last_token: self.space.last_token(resource, &self.leases),
            version: self.space.version(resource, &self.leases).unwrap_or(self.seq),
            seq: self.seq,
        }
    }

    fn holders(&self, resource: &Resource, most: usize) -> Vec<HolderView> {
        let found = self.space.overlapping(resource, &[Class::Lease], most, &self.leases);
        let leases = found.into_iter().filter_map(|(_, slot)| self.leases.get(slot));
        leases
            .filter(|lease| self.lease_over(lease).is_none())
            .map(|lease| {
                let expires_in_ms = self.now.ms_until(self.deadline_us(lease));
                HolderView {
                    resource: lease.resource.clone(),
                    owner: self.owners.name(lease.owner).clone(),
                    mode: lease.mode(),
                    token: lease.token,
                    acquired_wall_ms: lease.acquired_wall_ms,
                    expires_wall_ms: self.now.wall_ms + expires_in_ms,
                    expires_in_ms,
                    metadata: lease.metadata().clone(),
                    broken: lease.broken(),
                }
            })
            .collect()
    }

    fn waiters(&self, resource: &Resource, most: usize) -> Vec<WaiterView> {
        let found = self.space.overlapping(resource, &[Class::Line, Class::Skipped], most, &self.leases);
        let waiters = found.into_iter().filter_map(|(ticket, _)| self.waiters.get(&ticket));
        waiters
            .filter(|waiter| self.now.us < waiter.due_us())
            .zip(1..)
            .map(|(waiter, position)| WaiterView {
                resource: waiter.ask.resource.clone(),
                owner: waiter.ask.owner.clone(),
                mode: waiter.ask.mode,
                position,
                waiting_ms: self.now.us.saturating_sub(waiter.since_us) / 1000,
                attached: waiter.attached().is_some(),
            })
            .collect()
    }

    /// Whether anybody who is not over holds or waits for exactly this.
    fn in_use(&self, resource: &Resource) -> bool {
        self.space.any_on(
            resource,
            REFUSAL_ENTRIES_MAX,
            &self.leases,
            |slot| self.leases.get(slot).is_some_and(|lease| self.lease_over(lease).is_none()),
            |ticket| self.waiters.get(&ticket).is_some_and(|waiter| self.now.us < waiter.due_us()),
        )
    }

    /// Whether an owner holds or waits for exactly this; of a crowd, the oldest are looked at.
    fn concerns(&self, resource: &Resource, owner: &Owner) -> bool {
        self.space.any_on(
            resource,
            REFUSAL_ENTRIES_MAX,
            &self.leases,
            |slot| self.leases.get(slot).is_some_and(|lease| self.owners.name(lease.owner) == owner),
            |ticket| self.waiters.get(&ticket).is_some_and(|waiter| waiter.ask.owner == *owner),
        )
    }
}

/// Opened sessions come first, from a slot on, then leases' own.
fn parse_session_cursor(cursor: Option<&str>) -> Result<(Option<u32>, u32), Refusal> {
    let Some(cursor) = cursor else { return Ok((Some(0), 0)) };
    let wrong = || {
        let problem = String::from("a cursor is what the page before gave as next_cursor");
        Refusal::Invalid(Invalid::new("cursor", problem))
    };
    let slot = cursor.get(1..).and_then(|slot| slot.parse().ok()).ok_or_else(wrong)?;
    match cursor.as_bytes().first() {
        Some(b's') => Ok((Some(slot), 0)),
        Some(b'o') => Ok((None, slot)),
        _ => Err(wrong()),
    }
}
