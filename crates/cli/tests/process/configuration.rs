//! Flags over environment over file over defaults, and what is wrong is named.

use std::fs;

use crate::program::{Place, leasehold, run, stderr, stdout};

#[test]
fn the_nearer_setting_wins() {
    let place = Place::new();
    let file = place.text("leasehold.toml");
    fs::write(&file, "leases_max = 1\nwaiters_max = 2\nsessions_max = 3\nlog_format = \"json\"\n").unwrap();
    let output = leasehold()
        .args(["serve", "--print-config", "--config", &file, "--leases-max", "100"])
        .env("LEASEHOLD_LEASES_MAX", "10")
        .env("LEASEHOLD_WAITERS_MAX", "20")
        .env("LEASEHOLD_IN_MEMORY", "true")
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let printed = stdout(&output);
    for line in [
        "leases_max = 100",
        "waiters_max = 20",
        "sessions_max = 3",
        "waiters_per_lock_max = 100000",
        "log_format = \"json\"",
        "in_memory = true",
        "listen = \"127.0.0.1:7420\"",
        "data = \"./leasehold-data\"",
    ] {
        assert!(printed.lines().any(|found| found == line), "{line} is not in\n{printed}");
    }

    let again = place.text("again.toml");
    fs::write(&again, &printed).unwrap();
    let output = run(&["serve", "--print-config", "--config", &again]);
    assert_eq!(stdout(&output), printed, "what is printed can be read again");
}

#[test]
fn what_is_wrong_is_named() {
    let place = Place::new();
    let file = place.text("leasehold.toml");
    for (text, named) in [
        ("lesaes_max = 1", "lesaes_max"),
        ("leases_max = 0", "leases_max"),
        ("leases_max = \"many\"", "leases_max"),
        ("leases_max = -1", "leases_max"),
        ("[server]\nleases_max = 1", "server"),
        ("leases_max", "leasehold.toml"),
        ("listen = \"0.0.0.0:1\"", "--insecure"),
    ] {
        fs::write(&file, text).unwrap();
        let output = run(&["serve", "--print-config", "--config", &file]);
        assert_eq!(output.status.code(), Some(64), "{text}");
        assert!(stderr(&output).contains(named), "{text}: {}", stderr(&output));
    }
    let output = run(&["serve", "--print-config", "--config", &place.text("missing.toml")]);
    assert_eq!(output.status.code(), Some(64));
    assert!(stderr(&output).contains("missing.toml"));
    let output =
        leasehold().args(["serve", "--print-config"]).env("LEASEHOLD_LEASES_MAX", "x").output().unwrap();
    assert_eq!(output.status.code(), Some(64));
}
