//! Who does not keep up is cut off and can resume; nobody else notices.

use std::io::Write;
use std::net::{SocketAddr, TcpStream};

use leasehold_server::config::Given;

use crate::load::Caller;
use crate::reader::Reader;
use crate::server::{PATIENCE, Server, request};

const LAG_MAX: usize = 500;
/// Cycles, of two events each, between two looks of the quick watcher.
const STRIDE_CYCLES: usize = 100;

/// A connection that takes little before it has to be read.
fn narrow(address: SocketAddr) -> TcpStream {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let socket = tokio::net::TcpSocket::new_v4().unwrap();
        socket.set_recv_buffer_size(4096).unwrap();
        let stream = socket.connect(address).await.unwrap().into_std().unwrap();
        stream.set_nonblocking(false).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream
    })
}

fn metric(server: &Server, name: &str) -> u64 {
    let page = server.get("/metrics").text();
    let line = page.lines().find_map(|line| line.strip_prefix(&format!("{name} "))).unwrap();
    line.parse().unwrap()
}

#[test]
fn a_watcher_that_does_not_read_is_cut_off_and_the_others_hear_everything() {
    let server = Server::start_with(Given { watch_lag_max: Some(LAG_MAX), ..Given::default() });
    let mut slow = narrow(server.address);
    slow.write_all(&request("GET", "/v1/watch?from=0", &[], b"")).unwrap();
    let mut quick = Reader::open(server.address, "/v1/watch?from=0", None);
    let mut quiet = Reader::open(server.address, "/v1/locks/quiet/watch", None);
    let address = server.address;

    // Far more than all buffers on the way take.
    let owner = "o".repeat(256);
    let lock = "l".repeat(512);
    // The quick one reads along in strides that are far within the lag allowed, however slow the machine is.
    let mut caller = Caller::new(address);
    let mut everything = Vec::new();
    for _ in 0..60 {
        for _ in 0..STRIDE_CYCLES {
            caller.cycle(&lock, &owner).expect("the engine goes on");
        }
        everything.extend((0..2 * STRIDE_CYCLES).map(|_| quick.expect()));
    }
    server.acquire("quiet", "w");
    assert_eq!(quiet.expect().what(), ("granted", "quiet"));

    // Now the slow one reads what is on the way to it, and finds the end.
    let mut slow = Reader::over(slow, Some(0));
    let mut heard = Vec::new();
    while let Some(event) = slow.next() {
        heard.push(event);
    }
    assert!(heard.len() < everything.len(), "it was cut off");
    assert_eq!(heard, everything[..heard.len()], "and had heard everything up to there");
    assert_eq!(metric(&server, "lock_watchers_cut_off_total"), 1);
    let mut slow = Reader::open(server.address, "/v1/watch?from=0", slow.last_id);
    while heard.len() < everything.len() {
        heard.push(slow.expect());
    }
    assert_eq!(heard, everything);
}
