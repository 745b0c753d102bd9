//! Watching over gRPC: the same events as over HTTP, the same refusals.

use leasehold_protocol::v1;
use leasehold_protocol::v1::watch_request::What;
use leasehold_server::config::Given;
use tonic::{Code, Streaming};

use crate::caller::{Caller, detail, release};
use crate::server::Server;

fn begin(caller: &Caller, what: What, from: Option<u64>) -> Result<Streaming<v1::Event>, tonic::Status> {
    caller.call(caller.locks().watch(v1::WatchRequest { what: Some(what), from }))
}

fn next(caller: &Caller, stream: &mut Streaming<v1::Event>) -> v1::Event {
    caller.wait(stream.message()).unwrap().expect("another event")
}

#[test]
fn by_lock_and_by_prefix_from_a_number_and_from_now() {
    let server = Server::start();
    let caller = Caller::to(server.address);
    let before = caller.acquire("job", "w1");
    let mut one = begin(&caller, What::Lock("name:job".into()), None).unwrap();
    let mut past = begin(&caller, What::Prefix("jo".into()), Some(0)).unwrap();
    caller.acquire("other", "w1");
    caller.acquire("jot", "w2");
    caller.call(caller.locks().release(release(&before))).unwrap();

    let released = next(&caller, &mut one);
    assert_eq!((released.r#type.as_str(), released.lock.as_str()), ("released", "job"));
    assert_eq!(released.fencing_token, Some(before.fencing_token));
    assert_eq!(released.mode, v1::Mode::Exclusive as i32);
    assert_eq!(released.reason.as_deref(), Some("released"));
    assert!(released.time.is_some_and(|time| time.seconds > 0));
    let heard = [(); 3].map(|()| next(&caller, &mut past));
    let told = heard.each_ref().map(|event| (event.r#type.as_str(), event.lock.as_str(), &*event.owner_id));
    assert_eq!(told, [("granted", "job", "w1"), ("granted", "jot", "w2"), ("released", "job", "w1")]);
    assert_eq!(heard[2], released);
    assert_eq!(heard[0].reason, None);

    let mut resumed = begin(&caller, What::Prefix(String::new()), Some(heard[1].seq)).unwrap();
    assert_eq!(next(&caller, &mut resumed), released);
}

#[test]
fn what_is_refused_over_http_is_refused_here() {
    let server = Server::start_with(Given { watchers_max: Some(1), ..Given::default() });
    let caller = Caller::to(server.address);
    let invalid = |what: Option<What>, from: Option<u64>, field: &str| {
        let status = caller.call(caller.locks().watch(v1::WatchRequest { what, from })).unwrap_err();
        assert_eq!(status.code(), Code::InvalidArgument, "{status}");
        assert_eq!(detail(&status).field, field);
    };
    invalid(None, None, "lock");
    invalid(Some(What::Lock("path:a".into())), None, "lock");
    invalid(Some(What::Prefix("a".repeat(600))), None, "prefix");
    invalid(Some(What::Prefix(String::new())), Some(1 << 40), "from");
    let first = begin(&caller, What::Prefix(String::new()), None).unwrap();
    let full = begin(&caller, What::Lock("a".into()), None).unwrap_err();
    assert_eq!((full.code(), detail(&full).code.as_str()), (Code::Unavailable, "busy"));
    drop(first);
}

#[test]
fn a_stopping_server_says_so_and_ends_the_stream() {
    let server = Server::start();
    let caller = Caller::to(server.address);
    let mut stream = begin(&caller, What::Prefix(String::new()), None).unwrap();
    let stopping = std::thread::spawn(move || drop(server));
    let status = caller.wait(stream.message()).unwrap_err();
    assert_eq!((status.code(), detail(&status).code.as_str()), (Code::Unavailable, "unavailable"));
    stopping.join().unwrap();
}
