//! `leasehold backup` copies a running server's data, and the copy can be served from.

use serde_json::json;

use crate::client::{Client, proof};
use crate::program::{Place, run, stderr, stdout};

#[test]
fn a_running_server_is_copied_and_the_copy_serves() {
    let place = Place::new();
    let server = place.serve();
    let mut client = server.client();
    let body = json!({"owner_id": "w", "ttl_ms": 600_000});
    let leases: Vec<_> = (0..50).map(|n| client.acquire(&format!("before{n}"), &body)).collect();

    let wrote = server.ask(&["append", "reports/a.log", "kept"]);
    assert_eq!(wrote.status.code(), Some(0), "{}", stderr(&wrote));

    // Somebody goes on writing while the copy is made.
    let address = server.address;
    let (stop, stopped) = std::sync::mpsc::channel::<()>();
    let writer = std::thread::spawn(move || {
        let mut client = Client::new(address);
        let mut count = 0;
        while stopped.try_recv() == Err(std::sync::mpsc::TryRecvError::Empty) {
            client.acquire(&format!("during{count}"), &json!({"owner_id": "w"}));
            count += 1;
        }
        count
    });
    let copy = run(&["backup", &place.text("copy"), "--data", &place.data()]);
    drop(stop);
    assert!(writer.join().unwrap() > 0);
    assert_eq!(copy.status.code(), Some(0), "{}", stderr(&copy));
    let told = stdout(&run(&["backup", &place.text("another"), "--data", &place.data(), "--json"]));
    let told: serde_json::Value = serde_json::from_str(&told).unwrap();
    assert_eq!(told["to"], place.text("another"));
    assert!(told["through_record"].as_u64().unwrap() > 0, "{told}");
    assert!(stdout(&copy).contains("--restored"), "{}", stdout(&copy));
    server.stop();

    let again = run(&["backup", &place.text("copy"), "--data", &place.data()]);
    assert_eq!(again.status.code(), Some(64), "an old copy is not written over");
    assert_ne!(
        run(&["backup", &place.text("other"), "--data", &place.text("nowhere")]).status.code(),
        Some(0)
    );

    let server = place.serve_with(&["--listen", "127.0.0.1:0", "--data", &place.text("copy"), "--restored"]);
    let mut client = server.client();
    for (n, lease) in leases.iter().enumerate() {
        client.expect(200, "POST", &format!("/v1/locks/before{n}/renew"), Some(&proof(lease)));
    }
    assert_eq!(stdout(&server.ask(&["cat", "reports/a.log"])), "kept\n");
    server.stop();
}
