//! Heartbeats over one stream.

use leasehold_protocol::v1;
use tokio::sync::mpsc;
use tokio_stream::wrappers::UnboundedReceiverStream;
use tonic::Code;

use crate::caller::{Caller, detail};
use crate::server::Server;

fn open(caller: &Caller, owner: &str) -> String {
    let request = v1::OpenSessionRequest { owner_id: owner.into(), ..Default::default() };
    caller.call(caller.sessions().open(request)).unwrap().session_id
}

fn beat(session_id: &str, request: u64) -> v1::KeepAliveRequest {
    v1::KeepAliveRequest { session_id: session_id.into(), seen: None, request }
}

#[test]
fn each_answer_names_its_request() {
    let server = Server::start();
    let caller = Caller::to(server.address);
    let [first, second] = ["w1", "w2"].map(|owner| open(&caller, owner));
    let (beats, sent) = mpsc::unbounded_channel();
    let mut told = caller.call(caller.sessions().keep_alive(UnboundedReceiverStream::new(sent))).unwrap();
    for request in [9, 7, 8] {
        beats.send(beat(&first, request)).unwrap();
        beats.send(beat(&second, request + 100)).unwrap();
    }
    for (request, owner) in [(9, "w1"), (109, "w2"), (7, "w1"), (107, "w2"), (8, "w1"), (108, "w2")] {
        let response = caller.wait(told.message()).unwrap().unwrap();
        assert_eq!((response.request, response.session.unwrap().owner_id.as_str()), (request, owner));
    }
    drop(beats);
    assert_eq!(caller.wait(told.message()).unwrap(), None);
}

#[test]
fn a_refusal_ends_the_stream() {
    let server = Server::start();
    let caller = Caller::to(server.address);
    let session = open(&caller, "w1");
    let (beats, sent) = mpsc::unbounded_channel();
    let mut told = caller.call(caller.sessions().keep_alive(UnboundedReceiverStream::new(sent))).unwrap();
    beats.send(beat(&session, 1)).unwrap();
    caller.wait(told.message()).unwrap().unwrap();
    let close = v1::CloseSessionRequest { session_id: session.clone() };
    caller.call(caller.sessions().close(close)).unwrap();
    beats.send(beat(&session, 2)).unwrap();
    let status = caller.wait(told.message()).unwrap_err();
    assert_eq!(detail(&status).code, "released");
}

#[test]
fn a_server_that_stops_ends_the_stream() {
    let server = Server::start();
    let caller = Caller::to(server.address);
    let (_beats, sent) = mpsc::unbounded_channel::<v1::KeepAliveRequest>();
    let mut told = caller.call(caller.sessions().keep_alive(UnboundedReceiverStream::new(sent))).unwrap();
    let stopped = std::thread::spawn(move || drop(server));
    assert_eq!(caller.wait(told.message()).unwrap_err().code(), Code::Unavailable);
    stopped.join().unwrap();
}
