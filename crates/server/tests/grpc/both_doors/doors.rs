//! The three doors, each with a server of its own: asks all of them the same and hears that they say the same.

use leasehold_protocol::v1;
use leasehold_protocol::v1::operation::What;
use leasehold_protocol::v1::outcome::What as Told;
use serde_json::{Value, json};

use super::asked::{Asked, Call};
use super::files;
use super::plain::{self, Normal};
use crate::caller::{Caller, code_of, detail};
use crate::client::Answer;
use crate::conversation::Conversation;
use crate::server::{Server, escaped};

pub struct Doors {
    doors: [Door; 3],
    asked: usize,
}

struct Door {
    kind: Kind,
    server: Server,
    /// Everything told so far, as it was told.
    told: Vec<Value>,
    normal: Normal,
}

enum Kind {
    Http,
    Grpc(Caller),
    /// What streams do not carry goes by a call.
    Stream(Caller, Box<Conversation>),
}

impl Doors {
    pub fn open() -> Doors {
        let door = |kind: fn(&Server) -> Kind| {
            let server = Server::start();
            Door { kind: kind(&server), server, told: Vec::new(), normal: Normal::default() }
        };
        let doors = [
            door(|_| Kind::Http),
            door(|server| Kind::Grpc(Caller::to(server.address))),
            door(|server| {
                Kind::Stream(Caller::to(server.address), Box::new(Conversation::with(server.address, "c")))
            }),
        ];
        Doors { doors, asked: 0 }
    }

    /// Asks at all doors; gives what the first said, without what differs from run to run.
    pub fn ask(&mut self, asked: &Asked) -> Value {
        let [http, grpc, stream] = &mut self.doors;
        let told = http.ask(asked);
        assert_eq!(grpc.ask(asked), told, "gRPC, request {}: {asked:?}", self.asked);
        assert_eq!(stream.ask(asked), told, "the stream, request {}: {asked:?}", self.asked);
        self.asked += 1;
        told
    }

    /// Waits at all doors.
    pub fn until_free(&self, lock: &str) {
        for door in &self.doors {
            door.server.until(lock, "it is free", |snapshot| snapshot["state"] == "free");
        }
    }
}

impl Door {
    fn ask(&mut self, asked: &Asked) -> Value {
        let asked = asked.resolved(&self.told);
        let told = match &mut self.kind {
            Kind::Http => over_http(&self.server, &asked),
            Kind::Grpc(caller) => over_grpc(caller, &asked),
            Kind::Stream(caller, conversation) => {
                over_a_stream(conversation, &asked).unwrap_or_else(|| over_grpc(caller, &asked))
            }
        };
        self.told.push(told.clone());
        self.normal.of(&told)
    }
}

fn over_http(server: &Server, asked: &Asked) -> Value {
    let mut fields = asked.fields.clone();
    let lock = fields.as_object_mut().unwrap().remove("lock");
    let segment = lock.map(|lock| escaped(lock.as_str().unwrap())).unwrap_or_default();
    let post = |verb: &str| server.post(&format!("/v1/locks/{segment}/{verb}"), fields.clone());
    let query = || {
        let renamed = |name: &str| if name == "owner_id" { "owner".to_owned() } else { name.to_owned() };
        let pairs = fields.as_object().unwrap().iter().map(|(name, value)| {
            let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            format!("{}={}", renamed(name), escaped(&text))
        });
        pairs.collect::<Vec<_>>().join("&")
    };
    let answer = match asked.call {
        Call::Acquire => post("acquire"),
        Call::Renew => post("renew"),
        Call::Release => post("release"),
        Call::Cancel => post("cancel"),
        Call::Verify => post("verify"),
        Call::Get => server.get(&format!("/v1/locks/{segment}")),
        Call::List => server.get(&format!("/v1/locks?{}", query())),
        Call::Break => server.delete(&format!("/v1/locks/{segment}?{}", query())),
        Call::OpenSession => server.post("/v1/sessions", fields.clone()),
        Call::KeepAlive => server.post("/v1/sessions/keepalive", fields.clone()),
        Call::CloseSession => server.post("/v1/sessions/close", fields.clone()),
        Call::ListSessions => server.get(&format!("/v1/sessions?{}", query())),
        Call::AppendFile
        | Call::WriteFile
        | Call::DeleteFile
        | Call::StatFile
        | Call::ListFiles
        | Call::ReadFile => return files::over_http(server, asked),
    };
    problem_or_answer(&answer)
}

pub fn problem_or_answer(answer: &Answer) -> Value {
    let mut told = answer.json();
    if answer.status != 200 {
        let members = told.as_object_mut().unwrap();
        let status = members.remove("status").unwrap();
        assert_eq!(status, answer.status);
        // The column of the table that the other doors do not have.
        let http = match members["code"].as_str().unwrap() {
            "invalid_argument" => 400,
            "not_found" => 404,
            "held" => 409,
            "lease_expired" | "released" => 410,
            "stale_token" => 412,
            "scope_mismatch" => 422,
            "cancelled" => 499,
            other => panic!("{other}"),
        };
        assert_eq!(status, http);
    }
    told
}

fn over_grpc(caller: &Caller, asked: &Asked) -> Value {
    let (mut locks, mut sessions) = (caller.locks(), caller.sessions());
    let f = Fields(&asked.fields);
    let told = match asked.call {
        Call::Acquire => caller.call(locks.acquire(f.acquire())).map(plain::lease),
        Call::Renew => caller.call(locks.renew(f.renew())).map(plain::lease),
        Call::Release => {
            caller.call(locks.release(f.release())).map(|told| json!({"released": told.released}))
        }
        Call::Cancel => {
            let request = v1::CancelRequest {
                lock: f.text("lock"),
                owner_id: f.text("owner_id"),
                request_id: f.text("request_id"),
            };
            caller.call(locks.cancel(request)).map(|told| json!({"cancelled": told.cancelled}))
        }
        Call::Verify => caller.call(locks.verify(f.verify())).map(verified),
        Call::Get => caller.call(locks.get(f.get())).map(plain::snapshot),
        Call::List => {
            let request = v1::ListRequest {
                prefix: f.text("prefix"),
                owner_id: f.some_text("owner_id"),
                limit: u32::try_from(f.number("limit").unwrap_or(0)).unwrap(),
                cursor: f.some_text("cursor"),
            };
            caller.call(locks.list(request)).map(|told| plain::page(told.locks, told.next_cursor))
        }
        Call::Break => {
            let request = v1::BreakRequest {
                lock: f.text("lock"),
                reason: f.text("reason"),
                force: asked.fields["force"].as_bool().unwrap_or(false),
                token: asked.fields["token"].as_i64(),
                request_id: f.some_text("request_id"),
            };
            let told = caller.call(locks.r#break(request));
            told.map(|told| json!({"tokens": told.tokens, "free_in_ms": told.free_in_ms}))
        }
        Call::OpenSession => caller.call(sessions.open(f.open_session())).map(plain::session),
        Call::KeepAlive => {
            let request = v1::KeepAliveRequest { request: 77, ..f.keep_alive() };
            caller.wait(async {
                let mut told = sessions.keep_alive(tokio_stream::once(request)).await?.into_inner();
                let response = told.message().await?.unwrap();
                assert_eq!(response.request, 77, "an answer names its request");
                assert!(told.message().await?.is_none());
                Ok(plain::session(response.session.unwrap()))
            })
        }
        Call::CloseSession => caller.call(sessions.close(f.close_session())).map(|_| json!({"closed": true})),
        Call::ListSessions => {
            let request = v1::ListSessionsRequest {
                limit: u32::try_from(f.number("limit").unwrap_or(0)).unwrap(),
                cursor: f.some_text("cursor"),
            };
            let told = caller.call(sessions.list(request));
            told.map(|told| plain::sessions(told.sessions, told.next_cursor))
        }
        Call::AppendFile
        | Call::WriteFile
        | Call::DeleteFile
        | Call::StatFile
        | Call::ListFiles
        | Call::ReadFile => files::over_grpc(caller, asked.call, &f),
    };
    told.unwrap_or_else(|status| plain::error(detail(&status)))
}

/// None for what streams do not carry: other calls, and requests that name their id themselves.
fn over_a_stream(conversation: &mut Conversation, asked: &Asked) -> Option<Value> {
    let f = Fields(&asked.fields);
    if asked.fields.get("request_id").is_some() {
        return None;
    }
    let what = match asked.call {
        Call::Acquire => What::Acquire(f.acquire()),
        Call::Renew => What::Renew(f.renew()),
        Call::Release => What::Release(f.release()),
        Call::Verify => What::Verify(f.verify()),
        Call::Get => What::Get(f.get()),
        Call::OpenSession => What::OpenSession(f.open_session()),
        Call::KeepAlive => What::KeepAlive(f.keep_alive()),
        Call::CloseSession => What::CloseSession(f.close_session()),
        Call::Cancel | Call::List | Call::Break | Call::ListSessions => return None,
        Call::AppendFile
        | Call::WriteFile
        | Call::DeleteFile
        | Call::StatFile
        | Call::ListFiles
        | Call::ReadFile => return None,
    };
    let number = conversation.ask(what);
    Some(match conversation.outcome_of(number) {
        Told::Lease(told) => plain::lease(*told),
        Told::Released(told) => json!({"released": told.released}),
        Told::Verified(told) => verified(told),
        Told::Snapshot(told) => plain::snapshot(*told),
        Told::Session(told) => plain::session(*told),
        Told::Closed(_) => json!({"closed": true}),
        Told::Error(error) => {
            let _ = code_of(&error.code);
            plain::error(*error)
        }
        other => panic!("{other:?}"),
    })
}

fn verified(told: v1::VerifyResponse) -> Value {
    json!({"valid": told.valid, "expires_in_ms": told.expires_in_ms})
}

/// Fields by name, as messages want them.
pub struct Fields<'a>(pub &'a Value);

impl Fields<'_> {
    pub fn text(&self, name: &str) -> String {
        self.some_text(name).unwrap_or_default()
    }

    pub fn some_text(&self, name: &str) -> Option<String> {
        self.0[name].as_str().map(str::to_owned)
    }

    pub fn number(&self, name: &str) -> Option<u64> {
        self.0[name].as_u64()
    }

    pub fn token(&self) -> i64 {
        self.0["fencing_token"].as_i64().unwrap()
    }

    fn metadata(&self) -> Option<v1::Metadata> {
        let entries = self.0["metadata"].as_object()?.iter();
        let entries = entries.map(|(key, value)| (key.clone(), value.as_str().unwrap().to_owned()));
        Some(v1::Metadata { entries: entries.collect() })
    }

    fn acquire(&self) -> v1::AcquireRequest {
        let mode = match self.0["mode"].as_str() {
            None => v1::Mode::Unspecified,
            Some("exclusive") => v1::Mode::Exclusive,
            Some("shared") => v1::Mode::Shared,
            Some(other) => panic!("{other}"),
        };
        v1::AcquireRequest {
            lock: self.text("lock"),
            owner_id: self.text("owner_id"),
            ttl_ms: self.number("ttl_ms"),
            mode: mode.into(),
            wait_ms: self.number("wait_ms").unwrap_or(0),
            session_id: self.some_text("session_id"),
            request_id: self.some_text("request_id"),
            metadata: self.metadata().unwrap_or_default().entries,
        }
    }

    fn renew(&self) -> v1::RenewRequest {
        v1::RenewRequest {
            lock: self.text("lock"),
            owner_id: self.text("owner_id"),
            lease_id: self.text("lease_id"),
            fencing_token: self.token(),
            ttl_ms: self.number("ttl_ms"),
            metadata: self.metadata(),
        }
    }

    fn release(&self) -> v1::ReleaseRequest {
        v1::ReleaseRequest {
            lock: self.text("lock"),
            owner_id: self.text("owner_id"),
            lease_id: self.text("lease_id"),
            fencing_token: self.token(),
        }
    }

    fn verify(&self) -> v1::VerifyRequest {
        v1::VerifyRequest { lock: self.text("lock"), fencing_token: self.token() }
    }

    fn get(&self) -> v1::GetRequest {
        v1::GetRequest { lock: self.text("lock") }
    }

    fn open_session(&self) -> v1::OpenSessionRequest {
        v1::OpenSessionRequest {
            owner_id: self.text("owner_id"),
            ttl_ms: self.number("ttl_ms"),
            request_id: self.some_text("request_id"),
            metadata: self.metadata().unwrap_or_default().entries,
        }
    }

    fn keep_alive(&self) -> v1::KeepAliveRequest {
        v1::KeepAliveRequest { session_id: self.text("session_id"), seen: self.number("seen"), request: 0 }
    }

    fn close_session(&self) -> v1::CloseSessionRequest {
        v1::CloseSessionRequest { session_id: self.text("session_id") }
    }
}
