//! Ten thousand watchers are ordinary. They live in a process of their own, because one process may not have as many
//! sockets as both ends need.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::SocketAddr;
use std::process::{Command, Stdio};
use std::time::Duration;

use leasehold_server::config::Given;
use leasehold_server::metrics::process::{max_fds, raise_fd_limit, resident_bytes};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::load::Caller;
use crate::server::{Server, request};

const WATCHERS: usize = 10_000;
/// Files and sockets beside those of the watchers.
const OTHERS: u64 = 200;
/// So many watch each lock of their own name, the rest the lock that everybody watches.
const OWN: usize = 5_000;

/// Tells the process that it is the crowd, and where the server is.
const CROWD: &str = "LEASEHOLD_TEST_CROWD";

fn enough_sockets() {
    raise_fd_limit();
    let wanted = WATCHERS as u64 + OTHERS;
    let allowed = max_fds().unwrap_or(u64::MAX);
    assert!(allowed >= wanted, "{WATCHERS} watchers need {wanted} open files, and {allowed} are allowed");
}

fn path(number: usize) -> String {
    if number < OWN { format!("/v1/locks/own-{number}/watch") } else { "/v1/locks/shared/watch".into() }
}

#[test]
fn ten_thousand_watchers_are_held_and_each_hears_its_own() {
    if std::env::var(CROWD).is_ok() {
        return;
    }
    enough_sockets();
    let server = Server::start_with(Given {
        connections_max: Some(WATCHERS + 100),
        // Comments are tested elsewhere.
        watch_comment_ms: Some(600_000),
        ..Given::default()
    });
    let before = resident_bytes().unwrap();
    let mut crowd = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "crowd::the_crowd_itself", "--nocapture"])
        .env(CROWD, server.address.to_string())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = BufReader::new(crowd.stdout.take().unwrap());
    let mut until = |word: &str| {
        let mut line = String::new();
        while !line.contains(word) {
            line.clear();
            assert!(said.read_line(&mut line).unwrap() > 0, "the crowd ended before it said {word}");
        }
    };
    until("all watch");
    let metrics = server.get("/metrics").text();
    assert!(metrics.contains(&format!("\nlock_watchers {WATCHERS}\n")), "{metrics}");
    println!("{} bytes for each watcher", (resident_bytes().unwrap() - before) / WATCHERS as u64);

    // They cost nothing to those whom they do not concern; here it is only shown that these go on.
    let mut caller = Caller::new(server.address);
    for _ in 0..1000 {
        caller.cycle("elsewhere", "w").unwrap();
    }
    caller.cycle("own-0", "w").unwrap();
    caller.cycle(&format!("own-{}", OWN - 1), "w").unwrap();
    caller.cycle("shared", "w").unwrap();
    // Whoever would hear of something else would hear it before this.
    for number in 1..OWN - 1 {
        caller.cycle(&format!("own-{number}"), "w").unwrap();
    }
    until("all heard");
    crowd.stdin.take().unwrap().write_all(b"go\n").unwrap();
    assert!(crowd.wait().unwrap().success());
}

/// Not a test by itself: what the process with the watchers does.
#[test]
fn the_crowd_itself() {
    let Ok(address) = std::env::var(CROWD) else { return };
    let address: SocketAddr = address.parse().unwrap();
    enough_sockets();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let mut watchers = Vec::new();
        for number in 0..WATCHERS {
            let mut stream = TcpStream::connect(address).await.unwrap();
            stream.write_all(&request("GET", &path(number), &[], b"")).await.unwrap();
            watchers.push(tokio::spawn(async move {
                let mut reader = tokio::io::BufReader::with_capacity(1024, stream);
                until(&mut reader, ": watching from").await;
                (number, reader)
            }));
        }
        let mut listening = Vec::new();
        for watcher in watchers {
            listening.push(watcher.await.unwrap());
        }
        println!("all watch");
        let hearing: Vec<_> = listening
            .into_iter()
            .map(|(number, mut reader)| {
                tokio::spawn(async move {
                    for kind in ["granted", "released"] {
                        let data = until(&mut reader, "data: ").await;
                        assert!(data.contains(kind), "{data}");
                        let lock = if number < OWN { format!("own-{number}") } else { "shared".into() };
                        assert!(data.contains(&format!("\"lock\":\"{lock}\"")), "{data}");
                    }
                    reader
                })
            })
            .collect();
        let mut heard = Vec::new();
        for hearing in hearing {
            heard.push(hearing.await.unwrap());
        }
        println!("all heard");
        // The connections stay until the test has seen enough.
        std::io::stdin().read_exact(&mut [0]).unwrap();
    });
    runtime.shutdown_timeout(Duration::ZERO);
}

/// The next line that begins so.
async fn until(reader: &mut tokio::io::BufReader<TcpStream>, begin: &str) -> String {
    let mut line = String::new();
    loop {
        line.clear();
        assert!(reader.read_line(&mut line).await.unwrap() > 0, "the stream ended");
        if line.starts_with(begin) {
            return line;
        }
    }
}
