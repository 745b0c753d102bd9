//! Many at once: appends to one file are ordered, and writers of different files do not wait for each other.

use std::collections::BTreeSet;

use leasehold_server::config::Given;

use super::{Holder, read};
use crate::server::Server;

#[test]
fn writers_of_different_files_write_side_by_side() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start_with(Given {
        data: Some(folder.path().to_owned()),
        in_memory: Some(false),
        ..Given::default()
    });
    let names = ["a", "b", "c/d", "c/e"];
    std::thread::scope(|scope| {
        for name in names {
            let server = &server;
            scope.spawn(move || {
                let holder = Holder::of(server, &format!("path:/{name}"));
                for line in 0..50 {
                    holder.append(name, format!("{name} {line}\n").as_bytes()).expect(200);
                }
            });
        }
    });
    for name in names {
        let expected: String = (0..50).map(|line| format!("{name} {line}\n")).collect();
        assert_eq!(String::from_utf8(read(&server, name)).unwrap(), expected);
    }
}

#[test]
fn appends_to_one_file_have_a_place_each() {
    let server = Server::start();
    let holder = Holder::of(&server, "path:/a");
    let told: Vec<(u64, String)> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..8)
            .map(|thread| {
                let holder = &holder;
                scope.spawn(move || {
                    let append = |line: usize| {
                        let text = format!("<{thread}:{line}>");
                        let told = holder.append("a", text.as_bytes()).expect(200);
                        assert_eq!(told["length"], text.len());
                        assert_eq!(
                            told["size"].as_u64(),
                            told["offset"].as_u64().map(|at| at + text.len() as u64)
                        );
                        (told["offset"].as_u64().unwrap(), text)
                    };
                    (0..25).map(append).collect::<Vec<_>>()
                })
            })
            .collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    let bytes = read(&server, "a");
    let mut end = 0;
    for (offset, text) in told.iter().collect::<BTreeSet<_>>() {
        assert_eq!(*offset, end, "no gap and no overlap");
        end += text.len() as u64;
        assert_eq!(&bytes[*offset as usize..end as usize], text.as_bytes());
    }
    assert_eq!(end, bytes.len() as u64);
}
