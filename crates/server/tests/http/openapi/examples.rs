//! Every documented request, sent as documented but for secrets and tokens, is answered as documented; and everything
//! that an answer is said to have does occur.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;

use leasehold_server::http::openapi::document;
use serde_json::{Value, json};

use super::Operation;
use crate::client::conform::{Seen, look, validate};
use crate::server::{PATIENCE, Server, request};

/// Which header shows which field of a lease that is known only now.
const LEASE_HEADERS: [(&str, &str); 2] =
    [("Leasehold-Lease", "lease_id"), ("Leasehold-Token", "fencing_token")];

/// Asks as the examples do, and keeps account.
struct Asker {
    server: Server,
    /// Operations whose example was answered 200.
    done: BTreeSet<String>,
    seen: Seen,
}

impl Asker {
    /// Sends an operation's example, with what is known only now in place of its stand-ins.
    fn example(&mut self, id: &str, known: &Value) -> Value {
        let operation = Operation::named(id);
        let mut body = operation.body.clone().unwrap_or_default();
        for name in ["lease_id", "fencing_token", "session_id", "seen"] {
            if let (Some(place), Some(value)) = (body.get_mut(name), known.get(name)) {
                *place = value.clone();
            }
        }
        let mut headers = operation.headers.clone();
        for (header, name) in LEASE_HEADERS {
            let known = known.get(name).map(|value| value.as_str().map_or(value.to_string(), str::to_owned));
            if let (Some(place), Some(value)) = (headers.iter_mut().find(|(name, _)| name == header), known) {
                place.1 = value;
            }
        }
        self.done.insert(operation.id);
        let body = match operation.bytes {
            Some(bytes) => bytes.to_owned(),
            None if body.is_null() => String::new(),
            None => body.to_string(),
        };
        self.ask_with(&operation.method, &operation.target, &headers, body.as_bytes(), 200)
    }

    /// Anything else on the way.
    fn ask(&mut self, method: &str, target: &str, body: &[u8]) -> Value {
        self.ask_with(method, target, &[], body, 200)
    }

    fn ask_with(
        &mut self,
        method: &str,
        target: &str,
        headers: &[(String, String)],
        body: &[u8],
        status: u16,
    ) -> Value {
        let headers: Vec<_> = headers.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        let answer = self.server.request(method, target, &headers, body);
        assert_eq!(answer.status, status, "{method} {target}: {}", answer.text());
        look(method, target, &answer, &mut self.seen).unwrap();
        let is_json =
            answer.header("content-type").is_some_and(|media| media.starts_with("application/json"));
        if is_json { answer.json() } else { Value::Null }
    }

    fn post(&mut self, target: &str, body: Value) -> Value {
        self.ask("POST", target, body.to_string().as_bytes())
    }

    /// Reads a stream of events until one of this type, and holds each to the document.
    fn hear(&mut self, id: &str, from: u64, kind: &str) {
        let operation = Operation::named(id);
        let joint = if operation.target.contains('?') { '&' } else { '?' };
        let target = format!("{}{joint}from={from}", operation.target);
        let mut stream = TcpStream::connect(self.server.address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.write_all(&request("GET", &target, &[], b"")).unwrap();
        let mut lines = BufReader::new(stream).lines().map(Result::unwrap);
        assert_eq!(lines.next().unwrap(), "HTTP/1.1 200 OK");
        assert!(lines.any(|line| line.eq_ignore_ascii_case("content-type: text/event-stream")));
        let schema = &document()["components"]["schemas"]["Event"];
        loop {
            let line = lines.next().unwrap();
            let Some(data) = line.strip_prefix("data: ") else { continue };
            let event: Value = serde_json::from_str(data).unwrap();
            validate(schema, &event, "Event", &mut self.seen).unwrap();
            if event["type"] == kind {
                break;
            }
        }
        self.done.insert(operation.id);
    }
}

#[test]
fn every_documented_request_gets_its_documented_answer() {
    let mut asker = Asker { server: Server::start(), done: BTreeSet::new(), seen: Seen::new() };

    let lease = asker.example("acquire", &Value::Null);
    let lease = asker.example("renew", &lease);
    asker.example("verify", &lease);
    let second = json!({"owner_id": "worker-2@host9", "wait_ms": 60_000});
    let waiting = asker.server.begin("/v1/locks/deploy/acquire", second);
    asker.server.until_waiting("deploy", 1);
    asker.example("getLock", &Value::Null);
    asker.post("/v1/locks/deploy-2/acquire", json!({"owner_id": "worker-1@host7"}));
    let page = asker.example("listLocks", &Value::Null);
    assert_eq!(page["locks"].as_array().unwrap().len(), 2, "{page}");
    asker.ask("GET", "/v1/locks?limit=1", b"");
    asker.example("breakLock", &Value::Null);
    asker.example("getLock", &Value::Null);
    asker.example("release", &lease);
    waiting.answer().expect(200);
    asker.hear("watchLock", 0, "broken");
    asker.hear("watch", 0, "broken");
    asker.example("cancel", &Value::Null);

    let session = asker.example("openSession", &Value::Null);
    asker.post("/v1/sessions", json!({"owner_id": "worker-2@host9"}));
    asker.example("listSessions", &Value::Null);
    asker.ask("GET", "/v1/sessions?limit=1", b"");
    let under = json!({"owner_id": session["owner_id"], "session_id": session["session_id"]});
    asker.post("/v1/locks/third/acquire", under);
    asker.ask("DELETE", "/v1/locks/third?reason=x", b"");
    let mut known = asker.post("/v1/sessions/keepalive", json!({"session_id": session["session_id"]}));
    known["seen"] = known["ended"][0]["seq"].clone();
    let after = asker.example("keepAlive", &known);
    assert_eq!(after["ended"], json!([]));
    asker.example("closeSession", &session);

    let file = asker.post("/v1/locks/path:%2Freports%2Fa.log/acquire", json!({"owner_id": "worker-1@host7"}));
    asker.example("appendFile", &file);
    asker.example("writeFile", &file);
    asker.example("statFile", &Value::Null);
    asker.example("readFile", &Value::Null);
    let range = [("Range".to_owned(), "bytes=1-2".to_owned())];
    asker.ask_with("GET", "/v1/files/reports%2Fa.log", &range, b"", 206);
    asker.example("listFiles", &Value::Null);
    let other = asker.post("/v1/locks/path:%2Fb/acquire", json!({"owner_id": "worker-1@host7"}));
    let mut headers = Operation::named("appendFile").headers;
    headers[0].1 = "path:/b".into();
    headers[2].1 = other["lease_id"].as_str().unwrap().into();
    headers[3].1 = other["fencing_token"].to_string();
    asker.ask_with("POST", "/v1/files/b/append", &headers, b"", 200);
    asker.ask("GET", "/v1/files?limit=1", b"");
    asker.example("deleteFile", &file);

    for page in ["health", "ready", "version", "metrics", "openapi", "index"] {
        asker.example(page, &Value::Null);
    }

    let all: BTreeSet<String> = Operation::all().into_iter().map(|operation| operation.id).collect();
    assert_eq!(asker.done, all);
    for (name, schema) in document()["components"]["schemas"].as_object().unwrap() {
        // Refusals have a test of their own, and requests are sent, not answered.
        if name.starts_with("Problem") || name.ends_with("Request") {
            continue;
        }
        for property in schema["properties"].as_object().unwrap().keys() {
            assert!(asker.seen.contains(&format!("{name}.{property}")), "{name}.{property} never occurred");
        }
    }
}

#[test]
fn what_is_required_is_required_and_nothing_else() {
    let server = Server::start();
    let mut left_out = 0;
    for operation in Operation::all() {
        let Some(body) = operation.body.as_ref() else { continue };
        let schema = crate::client::conform::resolve(
            &operation.said["requestBody"]["content"]["application/json"]["schema"],
        );
        for name in body.as_object().unwrap().keys() {
            let mut without = body.clone();
            without.as_object_mut().unwrap().remove(name);
            // Each on a lock of its own, so that no acquire stands in line for the one before.
            let target = operation.target.replace("/deploy/", &format!("/deploy-{left_out}/"));
            let answer = server.post(&target, without);
            let required = schema["required"].as_array().unwrap().iter().any(|required| required == name);
            let missed = answer.status == 400 && answer.json()["field"] == name.as_str();
            assert_eq!(missed, required, "{} without {name}: {}", operation.id, answer.text());
            left_out += 1;
        }
    }
    server.delete("/v1/locks/deploy?force=false").expect_invalid("reason");
    assert!(left_out > 15, "{left_out}");
}
