//! Requests drawn by chance: a few locks that overlap, a few owners, what earlier answers told, and now and then a word
//! that is wrong. The same seed draws the same script, as long as it hears the same answers.

use serde_json::{Value, json};

use super::asked::{Asked, Call};

pub struct Script {
    state: u64,
    /// Answers that told of a lease: their places, locks and owners.
    leases: Vec<(usize, String, String)>,
    /// Answers that told of a session.
    sessions: Vec<usize>,
}

const LOCKS: [&str; 9] =
    ["a", "name:a", "path:/", "path:/a", "path:/a/b", "inode:7", "range:7:0-10", "range:7:5-15", "path:/a/"];
const FILES: [&str; 5] = ["a", "a/b", "a/b/c", "z", "a/../b"];
const OWNERS: [&str; 4] = ["w1", "w2", "w3", "x\u{0}"];

impl Script {
    pub fn new(seed: u64) -> Script {
        Script { state: seed, leases: Vec::new(), sessions: Vec::new() }
    }

    pub fn next(&mut self) -> Asked {
        match self.below(26) {
            0..=6 => self.acquire(),
            7..=11 => self.with_a_lease(),
            12 => self.with(Call::Verify, |script| {
                let token = script.token();
                json!({"lock": script.lock(), "fencing_token": token})
            }),
            13 => self.with(Call::Get, |script| json!({"lock": script.lock()})),
            14 => self.with(Call::List, |script| {
                let mut fields = json!({"prefix": (["", "p", "path:/a", "zzz"][script.below(4)])});
                if script.chance(3) {
                    fields["owner_id"] = json!(OWNERS[script.below(3)]);
                }
                if script.chance(2) {
                    fields["limit"] = json!([1, 2, 1000, 1001][script.below(4)]);
                }
                fields
            }),
            15 => self.with(Call::Break, |script| {
                let reason = ["stuck", "stuck", ""][script.below(3)];
                let mut fields = json!({"lock": script.lock(), "reason": reason, "force": script.chance(2)});
                if script.chance(3) {
                    fields["token"] = script.token();
                }
                script.maybe_id(&mut fields);
                fields
            }),
            16 => self.with(Call::Cancel, |script| {
                json!({"lock": script.lock(), "owner_id": script.owner(), "request_id": format!("r{}", script.below(6))})
            }),
            17 => self.with(Call::OpenSession, |script| {
                let mut fields = json!({"owner_id": script.owner(), "ttl_ms": ([60_000, 70_000, 5][script.below(3)])});
                script.maybe_id(&mut fields);
                fields
            }),
            18 => match self.session() {
                Some(session) if self.chance(3) => Asked { call: Call::CloseSession, fields: json!({"session_id": session}) },
                Some(session) => {
                    let mut fields = json!({"session_id": session});
                    if self.chance(3) {
                        fields["seen"] = json!([0, 1_000_000][self.below(2)]);
                    }
                    Asked { call: Call::KeepAlive, fields }
                }
                None => Asked { call: Call::CloseSession, fields: json!({"session_id": "nobody's"}) },
            },
            19 => Asked { call: Call::ListSessions, fields: json!({}) },
            _ => self.about_a_file(),
        }
    }

    /// Takes in what was told, for later requests to speak of.
    pub fn heard(&mut self, place: usize, asked: &Asked, told: &Value) {
        if told.get("lease_id").is_some() && asked.call == Call::Acquire {
            let text = |name: &str| told[name].as_str().unwrap().to_owned();
            self.leases.push((place, text("lock"), text("owner_id")));
        } else if told.get("session_id").is_some() && asked.call == Call::OpenSession {
            self.sessions.push(place);
        }
    }

    fn acquire(&mut self) -> Asked {
        let mut fields = json!({"lock": self.lock(), "owner_id": self.owner()});
        if self.chance(3) {
            fields["ttl_ms"] = json!([60_000, 90_000, 99][self.below(3)]);
        }
        if self.chance(2) {
            fields["mode"] = json!(["shared", "exclusive"][self.below(2)]);
        }
        if self.chance(8) {
            fields["wait_ms"] = json!([1, 3_600_001][self.below(2)]);
        }
        if self.chance(4)
            && let Some(session) = self.session()
        {
            fields["session_id"] = session;
        }
        if self.chance(4) {
            fields["metadata"] = json!({"k": "v"});
        }
        self.maybe_id(&mut fields);
        Asked { call: Call::Acquire, fields }
    }

    fn with_a_lease(&mut self) -> Asked {
        if self.leases.is_empty() {
            return self.acquire();
        }
        // The newest are the ones that most likely live.
        let back = self.below(6).min(self.leases.len() - 1);
        let (place, lock, owner) = self.leases[self.leases.len() - 1 - back].clone();
        let id = format!("#{place}");
        let mut fields = json!({"lock": lock, "owner_id": owner, "lease_id": id, "fencing_token": id});
        match self.below(12) {
            0 => fields["lock"] = json!(self.lock()),
            1 => fields["owner_id"] = json!(self.owner()),
            2 => fields["fencing_token"] = json!(1),
            _ => {}
        }
        if self.chance(2) {
            return Asked { call: Call::Release, fields };
        }
        if self.chance(4) {
            fields["ttl_ms"] = json!([80_000, 1][self.below(2)]);
        }
        if self.chance(4) {
            fields["metadata"] = json!({"n": "m"});
        }
        Asked { call: Call::Renew, fields }
    }

    /// Most often under the newest lease that could cover it.
    fn about_a_file(&mut self) -> Asked {
        let name = FILES[self.below(FILES.len())];
        match self.below(12) {
            0 => return Asked { call: Call::StatFile, fields: json!({"name": name}) },
            1 => return Asked { call: Call::ReadFile, fields: json!({"name": name}) },
            2 => {
                let mut fields = json!({"prefix": (["", "a", "a/b"][self.below(3)])});
                if self.chance(2) {
                    fields["limit"] = json!([1, 2, 1001][self.below(3)]);
                }
                return Asked { call: Call::ListFiles, fields };
            }
            _ => {}
        }
        let paths = self.leases.iter().rev().filter(|(_, lock, _)| lock.starts_with("path:")).take(3);
        let candidates: Vec<_> = paths.cloned().chain(self.leases.last().cloned()).collect();
        if candidates.is_empty() {
            return self.acquire();
        }
        let (place, lock, owner) = candidates[self.below(candidates.len())].clone();
        let id = format!("#{place}");
        let mut fields =
            json!({"name": name, "lock": lock, "owner_id": owner, "lease_id": id, "fencing_token": id});
        if self.chance(12) {
            fields["fencing_token"] = json!(1);
        }
        self.maybe_id(&mut fields);
        if self.chance(6) {
            return Asked { call: Call::DeleteFile, fields };
        }
        fields["data"] = json!(["", "x", "hello"][self.below(3)]);
        if self.chance(2) {
            return Asked { call: Call::AppendFile, fields };
        }
        fields["offset"] = json!([0, 1, 5, 99][self.below(4)]);
        Asked { call: Call::WriteFile, fields }
    }

    fn with(&mut self, call: Call, fields: impl FnOnce(&mut Script) -> Value) -> Asked {
        Asked { call, fields: fields(self) }
    }

    fn maybe_id(&mut self, fields: &mut Value) {
        if self.chance(5) {
            fields["request_id"] = json!(format!("r{}", self.below(6)));
        }
    }

    fn lock(&mut self) -> &'static str {
        LOCKS[self.below(LOCKS.len())]
    }

    fn owner(&mut self) -> &'static str {
        // The wrong one rarely.
        if self.chance(20) { OWNERS[3] } else { OWNERS[self.below(3)] }
    }

    fn token(&mut self) -> Value {
        let place = self.below(self.leases.len() + 1);
        self.leases.get(place).map_or(json!(5), |(place, _, _)| json!(format!("#{place}")))
    }

    fn session(&mut self) -> Option<Value> {
        let place = self.below(self.sessions.len().max(1));
        self.sessions.get(place).map(|place| json!(format!("#{place}")))
    }

    fn chance(&mut self, one_in: usize) -> bool {
        self.below(one_in) == 0
    }

    /// Splitmix64.
    fn below(&mut self, end: usize) -> usize {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.state ^ (self.state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) % end as u64) as usize
    }
}
