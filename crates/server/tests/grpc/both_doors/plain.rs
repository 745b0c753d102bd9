//! Messages as JSON with the names and kinds of the HTTP door, and answers without what differs from run to run.

use std::collections::BTreeMap;

use leasehold_protocol::v1;
use serde_json::{Map, Value, json};

pub fn lease(lease: v1::Lease) -> Value {
    json!({
        "lock": lease.lock, "owner_id": lease.owner_id, "session_id": lease.session_id, "lease_id": lease.lease_id,
        "fencing_token": lease.fencing_token, "mode": mode(lease.mode), "ttl_ms": lease.ttl_ms,
        "expires_in_ms": lease.expires_in_ms, "renew_after_ms": lease.renew_after_ms, "stop_after_ms": lease.stop_after_ms,
        "acquired_at": moment(lease.acquired_at), "expires_at": moment(lease.expires_at),
        "version": lease.version, "seq": lease.seq, "metadata": lease.metadata,
    })
}

pub fn snapshot(snapshot: v1::Snapshot) -> Value {
    let mut plain = json!({
        "lock": snapshot.lock, "state": snapshot.state, "holders": holders(snapshot.holders),
        "waiters": waiters(snapshot.waiters), "version": snapshot.version, "seq": snapshot.seq,
    });
    put(&mut plain, "last_token", snapshot.last_token);
    plain
}

pub fn page(locks: Vec<v1::Snapshot>, next_cursor: Option<String>) -> Value {
    let mut plain = json!({"locks": locks.into_iter().map(snapshot).collect::<Vec<_>>()});
    put(&mut plain, "next_cursor", next_cursor);
    plain
}

pub fn session(session: v1::Session) -> Value {
    let ended = session.ended.into_iter().map(|ended| {
        json!({"lock": ended.lock, "fencing_token": ended.fencing_token, "reason": ended.reason, "seq": ended.seq})
    });
    json!({
        "session_id": session.session_id, "owner_id": session.owner_id, "ttl_ms": session.ttl_ms,
        "expires_in_ms": session.expires_in_ms, "renew_after_ms": session.renew_after_ms,
        "stop_after_ms": session.stop_after_ms, "ended": ended.collect::<Vec<_>>(), "seq": session.seq,
        "metadata": session.metadata,
    })
}

pub fn sessions(rows: Vec<v1::SessionRow>, next_cursor: Option<String>) -> Value {
    let rows = rows.into_iter().map(|row| {
        json!({
            "owner_id": row.owner_id, "ttl_ms": row.ttl_ms, "expires_in_ms": row.expires_in_ms, "leases": row.leases,
            "waiters": row.waiters, "metadata": row.metadata,
        })
    });
    let mut plain = json!({"sessions": rows.collect::<Vec<_>>()});
    put(&mut plain, "next_cursor", next_cursor);
    plain
}

pub fn files(files: Vec<v1::File>, next_cursor: Option<String>) -> Value {
    let files = files.into_iter().map(|file| {
        json!({
            "name": file.name, "size": file.size, "inode": file.inode, "fencing_token": file.fencing_token,
            "created_at": moment(file.created_at), "written_at": moment(file.written_at), "version": file.version,
        })
    });
    let mut plain = json!({"files": files.collect::<Vec<_>>()});
    put(&mut plain, "next_cursor", next_cursor);
    plain
}

pub fn error(error: v1::Error) -> Value {
    let mut plain = json!({"code": error.code, "title": error.title, "detail": error.detail});
    if error.code == "invalid_argument" {
        plain["field"] = json!(error.field);
    }
    if error.code == "held" {
        plain["holders"] = holders(error.holders);
        plain["waiters"] = waiters(error.waiters);
    }
    if error.recommended_retry_ms > 0 {
        plain["recommended_retry_ms"] = json!(error.recommended_retry_ms);
    }
    put(&mut plain, "highest_token", error.highest_token);
    plain
}

fn holders(holders: Vec<v1::Holder>) -> Value {
    let plain = holders.into_iter().map(|holder| {
        let mut plain = json!({
            "lock": holder.lock, "owner_id": holder.owner_id, "mode": mode(holder.mode),
            "fencing_token": holder.fencing_token, "acquired_at": moment(holder.acquired_at),
            "expires_at": moment(holder.expires_at), "expires_in_ms": holder.expires_in_ms, "metadata": holder.metadata,
        });
        put(&mut plain, "broken", holder.broken.then_some(true));
        plain
    });
    plain.collect()
}

fn waiters(waiters: Vec<v1::Waiter>) -> Value {
    let plain = waiters.into_iter().map(|waiter| {
        json!({
            "lock": waiter.lock, "owner_id": waiter.owner_id, "mode": mode(waiter.mode), "position": waiter.position,
            "waiting_ms": waiter.waiting_ms, "attached": waiter.attached,
        })
    });
    plain.collect()
}

fn mode(number: i32) -> &'static str {
    match v1::Mode::try_from(number).unwrap() {
        v1::Mode::Exclusive => "exclusive",
        v1::Mode::Shared => "shared",
        v1::Mode::Unspecified => panic!("answers name their mode"),
    }
}

fn moment(moment: Option<prost_types::Timestamp>) -> String {
    let moment = moment.unwrap();
    assert!(moment.seconds > 1_700_000_000 && (0..1_000_000_000).contains(&moment.nanos), "{moment:?}");
    moment.to_string()
}

fn put(plain: &mut Value, name: &str, value: Option<impl Into<Value>>) {
    if let Some(value) = value {
        plain[name] = value.into();
    }
}

/// What was told, with everything that differs from run to run replaced by how often it has been seen before.
#[derive(Default)]
pub struct Normal {
    tokens: Seen,
    secrets: Seen,
}

#[derive(Default)]
struct Seen(BTreeMap<String, usize>);

impl Seen {
    fn place(&mut self, value: &Value) -> Value {
        let next = self.0.len();
        json!(format!("#{}", self.0.entry(value.to_string()).or_insert(next)))
    }
}

impl Normal {
    pub fn of(&mut self, told: &Value) -> Value {
        match told {
            Value::Array(items) => items.iter().map(|item| self.of(item)).collect(),
            Value::Object(members) => {
                let plain = members.iter().map(|(name, value)| (name.clone(), self.member(name, value)));
                plain.collect::<Map<_, _>>().into()
            }
            other => other.clone(),
        }
    }

    fn member(&mut self, name: &str, value: &Value) -> Value {
        match name {
            "fencing_token" | "last_token" | "highest_token" => self.tokens.place(value),
            "tokens" => value.as_array().unwrap().iter().map(|token| self.tokens.place(token)).collect(),
            "lease_id" | "session_id" => self.secrets.place(value),
            // How much time has passed, how often the horizon was moved, and chance.
            "expires_in_ms"
            | "renew_after_ms"
            | "stop_after_ms"
            | "waiting_ms"
            | "free_in_ms"
            | "version"
            | "seq"
            | "recommended_retry_ms" => json!(value.as_u64().unwrap() > 0),
            "acquired_at" | "expires_at" | "created_at" | "written_at" => {
                assert!(value.as_str().unwrap().ends_with('Z'), "{value}");
                json!("a moment")
            }
            _ => self.of(value),
        }
    }
}
