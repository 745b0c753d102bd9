//! Numbers and marks: the same number has the same outcome over any connection and after a restart, and what its client
//! has marked as answered is refused from then on, never carried out.

use leasehold_protocol::v1;
use leasehold_protocol::v1::operation::What;
use leasehold_protocol::v1::outcome::What as Told;
use leasehold_server::config::Given;

use crate::caller::{acquire, detail};
use crate::conversation::{Conversation, operation};
use crate::server::Server;

fn take(number: u64, lock: &str) -> v1::Operation {
    operation(number, What::Acquire(acquire(lock, "w")))
}

fn group(operations: Vec<v1::Operation>, answered_through: u64, open: &[u64]) -> v1::OperationGroup {
    v1::OperationGroup { operations, answered_through, open: open.to_vec() }
}

fn durable(folder: &tempfile::TempDir) -> Server {
    let data = Some(folder.path().to_owned());
    Server::start_with(Given { data, in_memory: Some(false), ..Given::default() })
}

fn is_free(server: &Server, lock: &str) -> bool {
    server.get(&format!("/v1/locks/{lock}")).expect(200)["state"] == "free"
}

#[test]
fn a_repeated_number_has_the_same_outcome_over_another_connection() {
    let server = Server::start();
    let mut first = Conversation::with(server.address, "c");
    first.send([take(1, "a")]);
    let lease = first.lease(1);
    let mut second = Conversation::with(server.address, "c");
    second.send([take(1, "a"), take(2, "b")]);
    let again = second.lease(1);
    assert_eq!((again.fencing_token, again.lease_id), (lease.fencing_token, lease.lease_id));
    second.lease(2);
    second.send([take(1, "other")]);
    assert_eq!(second.error(1).code, "invalid_argument", "another payload under the same number");
    let mut stranger = Conversation::with(server.address, "d");
    stranger.send([take(1, "a")]);
    assert_eq!(stranger.error(1).code, "held", "another client's number is another request");
}

#[test]
fn a_repeated_number_has_the_same_outcome_after_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let server = durable(&folder);
    let mut conversation = Conversation::with(server.address, "c");
    conversation.send([take(1, "a")]);
    let lease = conversation.lease(1);
    let open = v1::OpenSessionRequest { owner_id: "w".into(), ..Default::default() };
    conversation.send([operation(2, What::OpenSession(open.clone()))]);
    let session = conversation.session(2);
    drop((conversation, server));

    let server = durable(&folder);
    let mut conversation = Conversation::with(server.address, "c");
    conversation.send([take(1, "a"), operation(2, What::OpenSession(open))]);
    let again = conversation.lease(1);
    assert_eq!((again.fencing_token, again.lease_id), (lease.fencing_token, lease.lease_id));
    assert_eq!(conversation.session(2).session_id, session.session_id);
}

#[test]
fn what_is_marked_as_answered_is_refused_and_never_carried_out() {
    let folder = tempfile::tempdir().unwrap();
    let server = durable(&folder);
    let mut conversation = Conversation::with(server.address, "c");
    conversation.send([take(1, "a"), take(2, "b")]);
    conversation.lease(1);
    conversation.lease(2);
    // 3 never arrived, as far as the server knows; 4 is open; 5 and 6 were answered.
    conversation.send_group(group(vec![take(7, "d")], 6, &[4]));
    conversation.lease(7);
    let refused = |conversation: &mut Conversation, server: &Server| {
        conversation.send([take(3, "never"), take(5, "never"), take(1, "a"), take(2, "never")]);
        for number in [3, 5, 1, 2] {
            assert_eq!(conversation.error(number).code, "not_found", "{number}");
        }
        assert!(is_free(server, "never"));
    };
    refused(&mut conversation, &server);
    // Over another connection, which has said nothing of the sort, and after a restart.
    let mut conversation = Conversation::with(server.address, "c");
    refused(&mut conversation, &server);
    drop((conversation, server));
    let server = durable(&folder);
    let mut conversation = Conversation::with(server.address, "c");
    refused(&mut conversation, &server);
    conversation.send([take(4, "e"), take(8, "f")]);
    conversation.lease(4);
    conversation.lease(8);
    // A mark never goes back.
    conversation.send_group(group(vec![take(9, "g")], 2, &[1, 2]));
    conversation.lease(9);
    refused(&mut conversation, &server);
}

#[test]
fn a_mark_counts_for_its_own_group() {
    let server = Server::start();
    let mut conversation = Conversation::with(server.address, "c");
    let get = operation(5, What::Get(v1::GetRequest { lock: "a".into() }));
    conversation.send_group(group(vec![take(3, "a"), take(4, "b"), get.clone(), take(6, "c")], 5, &[4]));
    assert_eq!(conversation.error(3).code, "not_found");
    conversation.lease(4);
    assert_eq!(conversation.error(5).code, "not_found", "reads too");
    conversation.lease(6);
    assert!(is_free(&server, "a"));
    conversation.send([v1::Operation { number: 7, ..get }]);
    assert!(matches!(conversation.outcome_of(7), Told::Snapshot(_)));
}

#[test]
fn few_numbers_may_be_open() {
    let server = Server::start();
    let mut conversation = Conversation::with(server.address, "c");
    let open: Vec<u64> = (1..=1025).collect();
    conversation.send_group(group(vec![take(3000, "a")], 2000, &open[..1024]));
    conversation.lease(3000);
    conversation.send_group(group(vec![], 2001, &open));
    assert_eq!(detail(&conversation.end()).field, "open");
}
