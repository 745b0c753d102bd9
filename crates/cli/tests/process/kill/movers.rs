//! Clients that pass one lock around as fast as they can, until the server dies: at most one has it at any moment, and
//! afterwards everybody is accounted for.

use std::net::SocketAddr;
use std::thread::{JoinHandle, spawn};
use std::time::Instant;

use serde_json::{Value, json};

use super::Progress;
use crate::client::{Client, proof};

/// What one client knows of its turns.
pub struct Turns {
    owner: String,
    had: Vec<Turn>,
    /// The id of a request whose outcome nobody knows.
    asked: Option<String>,
}

struct Turn {
    lease: Value,
    told: Instant,
    gave_back: Instant,
}

pub fn start(address: SocketAddr, lock: &str, mover: usize, progress: Progress) -> JoinHandle<Turns> {
    let lock = lock.to_owned();
    spawn(move || {
        let mut client = Client::new(address);
        let mut turns = Turns { owner: format!("mover{mover}"), had: Vec::new(), asked: None };
        for count in 0.. {
            let id = format!("{lock}-{mover}-{count}");
            let mut body = json!({"owner_id": turns.owner, "request_id": id, "wait_ms": 600_000});
            body["ttl_ms"] = json!(3_600_000);
            turns.asked = Some(id);
            let Ok((status, lease)) = client.post(&format!("/v1/locks/{lock}/acquire"), &body) else { break };
            assert_eq!(status, 200, "{lease}");
            turns.asked = None;
            let told = Instant::now();
            turns.had.push(Turn { lease: lease.clone(), told, gave_back: Instant::now() });
            if client.post(&format!("/v1/locks/{lock}/release"), &proof(&lease)).is_err() {
                break;
            }
            progress.step();
        }
        turns
    })
}

pub fn judge(client: &mut Client, lock: &str, all: &[Turns]) {
    let mut turns: Vec<&Turn> = all.iter().flat_map(|turns| &turns.had).collect();
    turns.sort_by_key(|turn| turn.lease["fencing_token"].as_u64());
    for pair in turns.windows(2) {
        assert!(pair[0].lease["fencing_token"] != pair[1].lease["fencing_token"], "{lock}: a token twice");
        assert!(pair[0].gave_back <= pair[1].told, "{lock} had two holders at once");
    }
    for turns in all {
        if let Some(turn) = turns.had.last() {
            // Given back before the kill or only now.
            let path = format!("/v1/locks/{lock}/release");
            client.expect(200, "POST", &path, Some(&proof(&turn.lease)));
        }
        if let Some(id) = &turns.asked {
            let body = json!({"owner_id": turns.owner, "request_id": id});
            let found = client.expect(200, "POST", &format!("/v1/locks/{lock}/cancel"), Some(&body));
            assert!(
                ["waiting", "released", "unknown"].iter().any(|word| found["cancelled"] == *word),
                "{found}"
            );
        }
    }
    let snapshot = client.get_lock(lock);
    assert_eq!(
        (&snapshot["holders"], &snapshot["waiters"]),
        (&json!([]), &json!([])),
        "somebody is left: {snapshot}"
    );
}
