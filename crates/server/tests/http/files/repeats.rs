//! A request with an id is done once, however often it is sent, and whatever has become of its lease since.

use serde_json::json;

use super::{Holder, read};
use crate::server::Server;

#[test]
fn a_repeated_append_appends_nothing() {
    let server = Server::start();
    let holder = Holder::of(&server, "path:/a");
    let first = holder.as_request("r1").append("a", b"one").expect(200);
    holder.append("a", b"two").expect(200);
    for _ in 0..3 {
        assert_eq!(holder.as_request("r1").append("a", b"one").expect(200), first);
    }
    assert_eq!(first, json!({"offset": 0, "length": 3, "size": 3}));
    assert_eq!(read(&server, "a"), b"onetwo");
    // Without an id each is one of its own.
    holder.append("a", b"!").expect(200);
    holder.append("a", b"!").expect(200);
    assert_eq!(read(&server, "a"), b"onetwo!!");
}

#[test]
fn a_repeated_write_does_not_undo_a_later_one() {
    let server = Server::start();
    let holder = Holder::of(&server, "path:/a");
    let first = holder.as_request("r1").write("a", 0, b"old").expect(200);
    holder.write("a", 0, b"new").expect(200);
    assert_eq!(holder.as_request("r1").write("a", 0, b"old").expect(200), first);
    assert_eq!(read(&server, "a"), b"new");
}

#[test]
fn a_repeat_is_answered_also_when_its_lease_has_ended() {
    let server = Server::start();
    let holder = Holder::of(&server, "path:/a");
    let wrote = holder.as_request("r1").append("a", b"one").expect(200);
    holder.release();
    assert_eq!(holder.as_request("r1").append("a", b"one").expect(200), wrote);
    holder.as_request("r2").append("a", b"two").expect_code(410, "released");
    let next = Holder::of(&server, "path:/a");
    next.as_request("r3").delete("a").expect(200);
    // What was written may be gone by now; that it was written stays true.
    assert_eq!(holder.as_request("r1").append("a", b"one").expect(200), wrote);
    assert_eq!(next.as_request("r3").delete("a").expect(200), json!({"deleted": true}));
    server.get("/v1/files/a").expect_code(404, "not_found");
}

#[test]
fn the_same_id_for_something_else_is_refused() {
    let server = Server::start();
    let holder = Holder::of(&server, "path:/");
    let keyed = holder.as_request("r1");
    keyed.append("a", b"one").expect(200);
    keyed.append("a", b"two").expect_invalid("request_id");
    keyed.append("a", b"").expect_invalid("request_id");
    keyed.append("b", b"one").expect_invalid("request_id");
    keyed.write("a", 0, b"one").expect_invalid("request_id");
    keyed.delete("a").expect_invalid("request_id");
    let body = json!({"owner_id": "w1", "request_id": "r1"});
    server.post("/v1/locks/x/acquire", body).expect_invalid("request_id");
    holder.as_request("r2").write("a", 0, b"x").expect(200);
    holder.as_request("r2").write("a", 1, b"x").expect_invalid("request_id");
    assert_eq!(read(&server, "a"), b"xne");
    server.get("/v1/files/b").expect_code(404, "not_found");
}

#[test]
fn an_id_belongs_to_its_owner() {
    let server = Server::start();
    let first = Holder::of(&server, "path:/a").as_request("r1");
    first.append("a", b"one").expect(200);
    let lease = server.acquire("path:%2Fb", "w2");
    let second = Holder::with(&server, lease).as_request("r1");
    second.append("b", b"two").expect(200);
    assert_eq!((read(&server, "a"), read(&server, "b")), (b"one".to_vec(), b"two".to_vec()));
}

#[test]
fn a_refused_request_is_judged_anew() {
    let server = Server::start();
    let holder = Holder::of(&server, "path:/a").as_request("r1");
    holder.write("a", 5, b"x").expect_invalid("offset");
    holder.as_request("").append("a", b"01234").expect(200);
    holder.write("a", 5, b"x").expect(200);
    assert_eq!(read(&server, "a"), b"01234x");
}
