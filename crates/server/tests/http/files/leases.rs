//! Which leases cover which bytes, and that no two that are exclusive ever cover the same.

use serde_json::json;

use super::{Holder, head, number, read};
use crate::server::{Server, escaped};

/// A server with one file of ten bytes, and the file's number.
fn with_a_file() -> (Server, u64) {
    let server = Server::start();
    let holder = Holder::of(&server, "path:/reports/a.log");
    holder.append("reports/a.log", b"0123456789").expect(200);
    holder.release();
    let inode = number(&head(&server, "reports/a.log"), "leasehold-inode");
    (server, inode)
}

#[test]
fn a_path_covers_its_file_and_what_is_below() {
    let (server, _) = with_a_file();
    for lock in ["path:/reports/a.log", "path:/reports", "path:/"] {
        let holder = Holder::of(&server, lock);
        holder.append("reports/a.log", b"!").expect(200);
        holder.write("reports/a.log", 0, b"x").expect(200);
        holder.release();
    }
    assert_eq!(read(&server, "reports/a.log"), b"x123456789!!!");
    for lock in ["path:/reports/a", "path:/reports/a.log/b", "path:/reports/b", "path:/report", "name"] {
        let holder = Holder::of(&server, lock);
        holder.append("reports/a.log", b"!").expect_code(422, "scope_mismatch");
        holder.write("reports/a.log", 0, b"!").expect_code(422, "scope_mismatch");
        holder.delete("reports/a.log").expect_code(422, "scope_mismatch");
        holder.release();
    }
    assert_eq!(read(&server, "reports/a.log"), b"x123456789!!!");
}

#[test]
fn an_inode_covers_all_its_bytes() {
    let (server, inode) = with_a_file();
    let holder = Holder::of(&server, &format!("inode:{inode}"));
    holder.append("reports/a.log", b"!").expect(200);
    holder.write("reports/a.log", 3, b"xyz").expect(200);
    holder.append("other", b"!").expect_code(422, "scope_mismatch");
    assert_eq!(read(&server, "reports/a.log"), b"012xyz6789!");
    holder.delete("reports/a.log").expect(200);
    // There is no number yet, so that only a path covers what is to be.
    holder.append("reports/a.log", b"!").expect_code(422, "scope_mismatch");
}

#[test]
fn a_range_covers_exactly_its_bytes() {
    let (server, inode) = with_a_file();
    let holder = Holder::of(&server, &format!("range:{inode}:3-7"));
    holder.write("reports/a.log", 3, b"abcd").expect(200);
    holder.write("reports/a.log", 4, b"x").expect(200);
    holder.write("reports/a.log", 7, b"").expect(200);
    for (offset, bytes) in [(2, &b"??"[..]), (3, b"?????"), (6, b"??"), (7, b"?"), (0, b"?"), (10, b"?")] {
        holder.write("reports/a.log", offset, bytes).expect_code(422, "scope_mismatch");
    }
    holder.append("reports/a.log", b"?").expect_code(422, "scope_mismatch");
    holder.delete("reports/a.log").expect_code(422, "scope_mismatch");
    assert_eq!(read(&server, "reports/a.log"), b"012axcd789");
}

#[test]
fn a_range_beyond_the_end_covers_appends_as_far_as_it_goes() {
    let (server, inode) = with_a_file();
    let holder = Holder::of(&server, &format!("range:{inode}:10-14"));
    holder.append("reports/a.log", b"ab").expect(200);
    holder.append("reports/a.log", b"cde").expect_code(422, "scope_mismatch");
    holder.append("reports/a.log", b"cd").expect(200);
    holder.append("reports/a.log", b"e").expect_code(422, "scope_mismatch");
    assert_eq!(read(&server, "reports/a.log"), b"0123456789abcd");
}

#[test]
fn two_halves_of_a_file_are_written_side_by_side() {
    let (server, inode) = with_a_file();
    let left = Holder::of(&server, &format!("range:{inode}:0-5"));
    let right = Holder::of(&server, &format!("range:{inode}:5-10"));
    left.write("reports/a.log", 0, b"aaaaa").expect(200);
    right.write("reports/a.log", 5, b"bbbbb").expect(200);
    left.write("reports/a.log", 4, b"??").expect_code(422, "scope_mismatch");
    assert_eq!(read(&server, "reports/a.log"), b"aaaaabbbbb");
}

#[test]
fn a_shared_lease_writes_nothing() {
    let (server, inode) = with_a_file();
    for lock in ["path:/reports/a.log".to_owned(), format!("inode:{inode}"), format!("range:{inode}:0-10")] {
        let body = json!({"owner_id": "w1", "mode": "shared"});
        let lease = server.post(&format!("/v1/locks/{}/acquire", escaped(&lock)), body).expect(200);
        let holder = Holder::with(&server, lease);
        holder.write("reports/a.log", 0, b"?").expect_code(422, "scope_mismatch");
        holder.delete("reports/a.log").expect_code(422, "scope_mismatch");
        holder.release();
    }
    assert_eq!(read(&server, "reports/a.log"), b"0123456789");
}

#[test]
fn a_path_and_an_inode_are_never_held_at_once() {
    let (server, inode) = with_a_file();
    let inodes = [format!("inode:{inode}"), format!("range:{inode}:0-1"), format!("range:{inode}:99-100")];
    let try_for =
        |lock: &str| server.post(&format!("/v1/locks/{}/acquire", escaped(lock)), json!({"owner_id": "w2"}));
    for path in ["path:/reports/a.log", "path:/reports", "path:/"] {
        let holder = Holder::of(&server, path);
        for lock in &inodes {
            let problem = try_for(lock).expect_code(409, "held");
            assert_eq!(problem["holders"][0]["lock"], path);
        }
        holder.release();
        for lock in &inodes {
            let holder = Holder::of(&server, lock);
            try_for(path).expect_code(409, "held");
            holder.release();
        }
    }
    // One file's number is nothing to another's path.
    Holder::of(&server, "path:/reports/b.log");
    Holder::of(&server, &inodes[0]);
}
