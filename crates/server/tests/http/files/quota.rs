//! How much there may be in one write, in one file, and in all files together.

use leasehold_server::config::Given;
use serde_json::json;

use super::{Holder, pattern, read};
use crate::server::Server;

const MIB: usize = 1024 * 1024;

#[test]
fn one_write_has_at_most_a_mebibyte() {
    let server = Server::start();
    let holder = Holder::of(&server, "path:/a");
    let whole = pattern(MIB);
    assert_eq!(holder.append("a", &whole).expect(200), json!({"offset": 0, "length": MIB, "size": MIB}));
    assert_eq!(read(&server, "a"), whole);
    for length in [MIB + 1, 2 * MIB, 8 * MIB] {
        holder.append("a", &vec![0; length]).expect_code(413, "too_large");
        holder.write("a", 0, &vec![0; length]).expect_code(413, "too_large");
    }
    assert_eq!(read(&server, "a"), whole);
}

#[test]
fn one_file_has_its_limit() {
    let server = Server::start_with(Given { file_bytes_max: Some(10), ..Given::default() });
    let holder = Holder::of(&server, "path:/");
    holder.append("a", b"01234567").expect(200);
    holder.append("a", b"890").expect_code(413, "too_large");
    holder.write("a", 8, b"890").expect_code(413, "too_large");
    holder.append("a", b"89").expect(200);
    holder.append("a", b"!").expect_code(413, "too_large");
    holder.write("a", 0, b"9876543210").expect(200);
    holder.append("b", b"01234567").expect(200);
    assert_eq!(read(&server, "a"), b"9876543210");
}

#[test]
fn all_files_together_have_their_limit() {
    let server = Server::start_with(Given { files_bytes_max: Some(10), ..Given::default() });
    let holder = Holder::of(&server, "path:/");
    holder.append("a", b"0123456").expect(200);
    let problem = holder.append("b", b"0123").expect_code(413, "too_large");
    assert!(problem["detail"].as_str().unwrap().contains("10 bytes"), "{problem}");
    holder.append("b", b"012").expect(200);
    holder.append("c", b"").expect(200);
    holder.append("c", b"!").expect_code(413, "too_large");
    holder.write("a", 3, b"xyz").expect(200);
    holder.delete("b").expect(200);
    holder.append("c", b"012").expect(200);
    holder.append("c", b"!").expect_code(413, "too_large");
}
