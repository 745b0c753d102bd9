//! A way to a server on which answers are lost, from the first request on in which certain bytes are seen: that one's, or all.
//! Everything else goes through.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::spawn;

/// Which answers are lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loses {
    /// Those on the connection on which the bytes were first sent.
    One,
    /// Every one from then on.
    All,
}

pub struct Lossy {
    pub address: SocketAddr,
    lost: Arc<AtomicBool>,
}

impl Lossy {
    /// To this server, with answers lost from the moment on at which a client sends the mark.
    pub fn to(server: SocketAddr, loses: Loses, mark: &str) -> Lossy {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let lost = Arc::new(AtomicBool::new(false));
        let (mark, seen) = (mark.as_bytes().to_vec(), Arc::clone(&lost));
        // Ends with the process of the test.
        spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                // Without a server the client's connection is closed at once.
                if let Ok(server) = TcpStream::connect(server) {
                    carry(client, server, loses, mark.clone(), Arc::clone(&seen));
                }
            }
        });
        Lossy { address, lost }
    }

    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Whether the request has been seen whose answer is lost.
    pub fn has_lost(&self) -> bool {
        self.lost.load(Ordering::SeqCst)
    }
}

fn carry(client: TcpStream, server: TcpStream, loses: Loses, mark: Vec<u8>, seen: Arc<AtomicBool>) {
    let swallows = Arc::new(AtomicBool::new(false));
    let (mut from_client, mut to_server) = (client.try_clone().unwrap(), server.try_clone().unwrap());
    let (mut from_server, mut to_client) = (server, client);
    let (swallowed, marked) = (Arc::clone(&swallows), Arc::clone(&seen));
    spawn(move || {
        let mut said = Vec::new();
        pass(&mut from_client, &mut to_server, |bytes| {
            said.extend_from_slice(bytes);
            if said.windows(mark.len()).any(|part| part == mark) && !marked.swap(true, Ordering::SeqCst) {
                // Before the request is passed on: its answer cannot have come yet.
                swallowed.store(true, Ordering::SeqCst);
            }
            true
        });
    });
    let is_lost =
        move || swallows.load(Ordering::SeqCst) || (loses == Loses::All && seen.load(Ordering::SeqCst));
    spawn(move || pass(&mut from_server, &mut to_client, |_| !is_lost()));
}

/// Passes bytes on until either side ends, and then ends both.
fn pass(from: &mut TcpStream, to: &mut TcpStream, mut goes_on: impl FnMut(&[u8]) -> bool) {
    let mut buffer = [0; 16 << 10];
    while let Ok(length) = from.read(&mut buffer)
        && length > 0
    {
        if goes_on(&buffer[..length]) && to.write_all(&buffer[..length]).is_err() {
            break;
        }
    }
    let _ = (from.shutdown(Shutdown::Both), to.shutdown(Shutdown::Both));
}
