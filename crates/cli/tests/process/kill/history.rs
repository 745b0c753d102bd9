//! What clients were told, and whether it is still so.

use std::collections::BTreeMap;
use std::time::Instant;

use serde_json::{Value, json};

use crate::client::{Client, proof};

/// The last step that a client took with a lock of its own.
#[derive(Clone, Debug)]
pub enum Fate {
    /// Asked for, and nobody knows what came of it.
    Asked { body: Value },
    /// Told that it holds it; the request was sent then.
    Held { body: Value, lease: Value, sent: Instant },
    /// Was about to change the metadata to this.
    Changing { body: Value, lease: Value, metadata: Value },
    /// Was about to release it.
    Releasing { body: Value, lease: Value },
    /// Told that it is released.
    Released { body: Value, lease: Value },
}

/// A session and the locks acquired under it.
#[derive(Clone, Debug)]
pub struct SessionFate {
    pub body: Value,
    pub session: Option<Value>,
    /// Each lock with its lease, if its grant was told.
    pub locks: Vec<(String, Option<Value>)>,
    pub ending: SessionEnding,
}

#[derive(Clone, Debug, PartialEq)]
pub enum SessionEnding {
    Open,
    /// Was about to close it.
    Closing,
    /// Told that it is closed.
    Closed,
}

/// Everything from all rounds that must stay as it is.
#[derive(Default)]
pub struct History {
    /// Locks that are held, with their leases.
    held: BTreeMap<String, Value>,
    /// Locks that are free, with the leases that ended.
    free: BTreeMap<String, Value>,
    /// The largest token that anybody was told.
    token_max: u64,
}

impl History {
    pub fn len(&self) -> usize {
        self.held.len() + self.free.len()
    }

    /// Compares a round with what the server says after it; how many steps the kill had left open.
    pub fn judge_round(
        &mut self,
        client: &mut Client,
        told: BTreeMap<String, Fate>,
        sessions: Vec<SessionFate>,
    ) -> usize {
        let mut open_steps = 0;
        for (lock, fate) in told {
            open_steps += usize::from(!matches!(fate, Fate::Held { .. } | Fate::Released { .. }));
            self.judge_lock(client, &lock, fate);
        }
        for session in sessions {
            open_steps += usize::from(session.session.is_none() || session.ending == SessionEnding::Closing);
            self.judge_session(client, session);
        }
        let after = client.acquire("after", &json!({"owner_id": "judge", "ttl_ms": 600_000}));
        assert!(token(&after) > self.token_max, "a token that was given before, or a smaller one");
        client.expect(200, "POST", "/v1/locks/after/release", Some(&proof(&after)));
        open_steps
    }

    /// Looks at everything from all rounds once more.
    pub fn judge_all(&self, client: &mut Client) {
        for (lock, lease) in &self.held {
            check_held(client, lock, lease);
        }
        for (lock, lease) in &self.free {
            check_ended(client, lock, lease);
        }
    }

    fn judge_lock(&mut self, client: &mut Client, lock: &str, fate: Fate) {
        let path = |call: &str| format!("/v1/locks/{lock}/{call}");
        match fate {
            Fate::Asked { body } => {
                // Granted before the kill or only now: the same id gets one lease, however often it asks.
                let lease = client.acquire(lock, &body);
                self.keep(client, lock, &body, lease);
            }
            Fate::Held { body, lease, sent } => {
                let holder = check_held(client, lock, &lease);
                let left_ms = holder["expires_in_ms"].as_u64().unwrap();
                let passed_ms = u64::try_from(sent.elapsed().as_millis()).unwrap();
                let ttl_ms = lease["ttl_ms"].as_u64().unwrap();
                assert!(
                    left_ms + passed_ms + 1 >= ttl_ms,
                    "{lock} was shortened: {left_ms} left of {ttl_ms}"
                );
                self.keep(client, lock, &body, lease);
            }
            Fate::Changing { body, mut lease, metadata } => {
                let holder = client.get_lock(lock)["holders"][0].clone();
                let found = &holder["metadata"];
                assert!(*found == lease["metadata"] || *found == metadata, "{lock}: {found}");
                lease["metadata"] = found.clone();
                check_held(client, lock, &lease);
                self.keep(client, lock, &body, lease);
            }
            Fate::Releasing { body, lease } => {
                client.expect(200, "POST", &path("release"), Some(&proof(&lease)));
                self.ended(client, lock, &body, lease);
            }
            Fate::Released { body, lease } => self.ended(client, lock, &body, lease),
        }
    }

    /// A lease that lives: its id brings it again, and it can be renewed.
    fn keep(&mut self, client: &mut Client, lock: &str, body: &Value, lease: Value) {
        let again = client.acquire(lock, body);
        for same in ["lease_id", "fencing_token", "acquired_at"] {
            assert_eq!(again[same], lease[same], "{lock}: a repeat brings another {same}");
        }
        client.expect(200, "POST", &format!("/v1/locks/{lock}/renew"), Some(&proof(&lease)));
        check_held(client, lock, &lease);
        self.token_max = self.token_max.max(token(&lease));
        self.held.insert(lock.to_owned(), lease);
    }

    /// A lease that ended: its id is told so, and grants nothing.
    fn ended(&mut self, client: &mut Client, lock: &str, body: &Value, lease: Value) {
        let problem = client.expect(410, "POST", &format!("/v1/locks/{lock}/acquire"), Some(body));
        assert_eq!(problem["code"], "released", "{lock}");
        check_ended(client, lock, &lease);
        client.expect(200, "POST", &format!("/v1/locks/{lock}/release"), Some(&proof(&lease)));
        self.token_max = self.token_max.max(token(&lease));
        self.free.insert(lock.to_owned(), lease);
    }

    fn judge_session(&mut self, client: &mut Client, fate: SessionFate) {
        let SessionFate { body, session, locks, ending } = fate;
        if ending == SessionEnding::Open {
            let again = client.expect(200, "POST", "/v1/sessions", Some(&body));
            if let Some(session) = &session {
                assert_eq!(again["session_id"], session["session_id"], "a repeat opens nothing new");
            }
            let alive = json!({"session_id": again["session_id"]});
            let alive = client.expect(200, "POST", "/v1/sessions/keepalive", Some(&alive));
            assert_eq!(alive["ended"], json!([]));
            for (lock, lease) in locks {
                let mut ask = json!({"owner_id": body["owner_id"], "session_id": again["session_id"]});
                ask["request_id"] = json!(format!("{lock}-id"));
                match lease {
                    Some(lease) => self.keep(client, &lock, &ask, lease),
                    None => {
                        let lease = client.acquire(&lock, &ask);
                        self.keep(client, &lock, &ask, lease);
                    }
                }
            }
            return;
        }
        let id = json!({"session_id": session.unwrap()["session_id"]});
        if ending == SessionEnding::Closing {
            let (status, answer) = client.post("/v1/sessions/close", &id).unwrap();
            assert!(status == 200 || answer["code"] == "released", "{status} {answer}");
        }
        let problem = client.expect(410, "POST", "/v1/sessions/keepalive", Some(&id));
        assert_eq!(problem["code"], "released");
        for (lock, lease) in locks {
            match lease {
                Some(lease) => {
                    check_ended(client, &lock, &lease);
                    self.token_max = self.token_max.max(token(&lease));
                    self.free.insert(lock, lease);
                }
                None => assert_eq!(client.get_lock(&lock)["state"], "free"),
            }
        }
    }
}

/// The one holder of a lock is the one of this lease.
fn check_held(client: &mut Client, lock: &str, lease: &Value) -> Value {
    let snapshot = client.get_lock(lock);
    let holders = snapshot["holders"].as_array().unwrap();
    assert_eq!(holders.len(), 1, "{lock}: {snapshot}");
    for same in ["owner_id", "fencing_token", "mode", "metadata", "acquired_at"] {
        assert_eq!(holders[0][same], lease[same], "{lock}: {same} in {snapshot}");
    }
    holders[0].clone()
}

/// A lease that ended is over, and nobody holds its lock.
fn check_ended(client: &mut Client, lock: &str, lease: &Value) {
    assert_eq!(client.get_lock(lock)["state"], "free", "{lock}");
    let problem = client.expect(410, "POST", &format!("/v1/locks/{lock}/renew"), Some(&proof(lease)));
    assert_eq!(problem["code"], "released", "{lock}");
}

fn token(lease: &Value) -> u64 {
    lease["fencing_token"].as_u64().unwrap()
}
