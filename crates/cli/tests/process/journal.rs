//! `leasehold journal` looks at a stopped server's data.

use serde_json::{Value, json};

use crate::client::proof;
use crate::program::{Place, run, stderr, stdout};

#[test]
fn check_and_dump_tell_what_happened() {
    let place = Place::new();
    let server = place.serve();
    let mut client = server.client();
    let lease = client.acquire("path:%2Fa%2Fb", &json!({"owner_id": "w1"}));
    client.expect(200, "POST", "/v1/locks/path:%2Fa%2Fb/release", Some(&proof(&lease)));
    let running = run(&["journal", "check", "--data", &place.data()]);
    assert_eq!(running.status.code(), Some(75), "a running server's data is not looked at");
    assert!(stderr(&running).contains("in use"));
    server.stop();

    let check = run(&["journal", "check", "--data", &place.data()]);
    assert_eq!(check.status.code(), Some(0), "{}", stderr(&check));
    assert!(stdout(&check).starts_with("sound\n"), "{}", stdout(&check));
    let report = stdout(&run(&["journal", "check", "--json", "--data", &place.data()]));
    let report: Value = serde_json::from_str(&report).unwrap();
    assert_eq!((&report["sound"], &report["torn"]), (&json!(true), &Value::Null));
    assert!(report["segments"][0]["records"].as_u64().unwrap() > 0, "{report}");
    let dump = stdout(&run(&["journal", "dump", "--data", &place.data()]));
    let token = lease["fencing_token"].to_string();
    for words in
        ["granted lock=path:/a/b owner=w1", "released lock=path:/a/b owner=w1", &format!("token={token}")]
    {
        assert!(dump.contains(words), "{words} is not in\n{dump}");
    }
    let json = stdout(&run(&["journal", "dump", "--json", "--data", &place.data()]));
    let lines: Vec<Value> = json.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let seqs: Vec<u64> = lines.iter().filter_map(|line| line["seq"].as_u64()).collect();
    assert_eq!(seqs, (1..=seqs.len() as u64).collect::<Vec<_>>(), "every event, in order");
    assert!(
        lines.iter().any(|line| line["type"] == "granted" && line["fencing_token"] == lease["fencing_token"])
    );
}

#[test]
fn no_journal_is_said_to_be_none() {
    let place = Place::new();
    std::fs::create_dir(place.path("data")).unwrap();
    for command in ["check", "dump"] {
        let output = run(&["journal", command, "--data", &place.data()]);
        assert_eq!(output.status.code(), Some(64));
        assert!(stderr(&output).contains("no journal"), "{}", stderr(&output));
    }
    assert_ne!(run(&["journal", "check", "--data", &place.text("nowhere")]).status.code(), Some(0));
}
