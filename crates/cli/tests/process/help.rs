//! Help, completions and the manual: there for every command, and fit for what reads them.

use std::fs;
use std::io::Write;
use std::process::{Command, Stdio};

use crate::program::{Place, run, stderr, stdout};

/// Every command, and what stands under it.
fn commands() -> Vec<Vec<String>> {
    let help = stdout(&run(&["--help"]));
    let mut found = Vec::new();
    for line in help.lines().skip_while(|line| !line.starts_with("Usage")) {
        if line.starts_with("Options:") {
            break;
        }
        if let Some(name) = line.strip_prefix("  ").and_then(|line| line.split_whitespace().next()) {
            found.push(vec![name.to_owned()]);
        }
    }
    found.extend([
        vec!["journal".to_owned(), "check".to_owned()],
        vec!["journal".to_owned(), "dump".to_owned()],
    ]);
    found.retain(|name| name[0] != "help");
    found
}

#[test]
fn every_command_can_be_asked_for_help() {
    let commands = commands();
    assert!(commands.len() > 15, "{commands:?}");
    for command in &commands {
        let arguments: Vec<&str> = command.iter().map(String::as_str).collect();
        let output = run(&[&arguments[..], &["--help"]].concat());
        assert_eq!((output.status.code(), stderr(&output)), (Some(0), String::new()), "{command:?}");
        let help = stdout(&output);
        assert!(help.contains(&format!("Usage: leasehold {}", command.join(" "))), "{help}");
        assert_eq!(stdout(&run(&[&["help"], &arguments[..]].concat())), help);
    }
    for asking in [
        "acquire", "renew", "release", "cancel", "verify", "get", "ls", "watch", "break", "sessions",
        "append", "write", "cat", "files", "rm",
    ] {
        let help = stdout(&run(&[asking, "--help"]));
        for part in ["Example", "LEASEHOLD_SERVER", "--token-file", "--ca-file", "--json", "--timeout"] {
            assert!(help.contains(part), "{asking} does not speak of {part}: {help}");
        }
    }
}

#[test]
fn the_first_page_names_every_command_and_status() {
    let output = run(&["--help"]);
    let help = stdout(&output);
    for status in ["0", "64", "69", "70", "75", "76", "77"] {
        assert!(help.lines().any(|line| line.trim_start().starts_with(&format!("{status}  "))), "{help}");
    }
    assert!(help.lines().all(|line| line.chars().count() <= 100), "{help}");
    assert_eq!(run(&[]).status.code(), Some(64));
    assert!(stderr(&run(&[])).contains("Usage: leasehold"));
    assert!(stdout(&run(&["--version"])).starts_with("leasehold "));
}

#[test]
fn secrets_in_the_environment_do_not_show_in_help() {
    for command in ["renew", "release", "acquire", "append", "write", "rm"] {
        let output = crate::program::leasehold()
            .args([command, "--help"])
            .env("LEASEHOLD_LEASE_ID", "l0-very-secret")
            .env("LEASEHOLD_SESSION_ID", "s0-very-secret")
            .output()
            .unwrap();
        assert!(!stdout(&output).contains("very-secret"), "{}", stdout(&output));
    }
}

#[test]
fn completions_are_scripts_that_know_every_command() {
    for shell in ["bash", "zsh", "fish"] {
        let script = stdout(&run(&["completions", shell]));
        for command in commands() {
            assert!(script.contains(&command[0]), "{shell} does not know {command:?}");
        }
        // Others are only checked where they are installed; a bash is wherever these tests are.
        let installed = Command::new(shell).args(["-c", "exit 0"]).output().is_ok();
        assert!(installed || shell != "bash");
        if installed {
            let mut check = Command::new(shell).arg("-n").stdin(Stdio::piped()).spawn().unwrap();
            check.stdin.take().unwrap().write_all(script.as_bytes()).unwrap();
            assert!(check.wait().unwrap().success(), "{shell} cannot read its completions");
        }
    }
    assert_eq!(run(&["completions", "csh"]).status.code(), Some(64));

    let script = stdout(&run(&["completions", "bash"]));
    let ask = format!(
        "{script}\nCOMP_WORDS=(leasehold acq); COMP_CWORD=1; _leasehold leasehold acq leasehold; echo \"${{COMPREPLY[@]}}\""
    );
    let output = Command::new("bash").args(["-c", &ask]).output().unwrap();
    assert_eq!(stdout(&output).trim(), "acquire", "{}", stderr(&output));
}

#[test]
fn the_manual_has_a_page_for_every_command() {
    let place = Place::new();
    let output = run(&["man", &place.text("pages")]);
    assert_eq!((output.status.code(), stderr(&output)), (Some(0), String::new()));
    for command in commands() {
        let page =
            fs::read_to_string(place.path(&format!("pages/leasehold-{}.1", command.join("-")))).unwrap();
        assert!(
            page.contains(".SH NAME") && page.contains(".SH SYNOPSIS") && !page.contains(".SH EXTRA"),
            "{page}"
        );
    }
    let first = fs::read_to_string(place.path("pages/leasehold.1")).unwrap();
    assert!(first.contains(".SH \"EXIT STATUS\"") && first.contains(".SH EXAMPLES"), "{first}");
    assert_eq!(first, stdout(&run(&["man"])));
    let one = fs::read_to_string(place.path("pages/leasehold-acquire.1")).unwrap();
    assert!(one.contains("LEASEHOLD_SERVER") && one.contains("leasehold(1)"), "{one}");
    fs::write(place.path("file"), "").unwrap();
    let output = run(&["man", &place.text("file")]);
    assert_eq!(output.status.code(), Some(70), "{}", stderr(&output));
}

#[test]
fn what_is_printed_whole_ends_quietly_when_nobody_reads() {
    let program = env!("CARGO_BIN_EXE_leasehold");
    for arguments in ["man", "completions zsh", "--help"] {
        let script = format!("{program} {arguments} | true; echo ${{PIPESTATUS[0]}}");
        let output = Command::new("bash").args(["-c", &script]).output().unwrap();
        assert_eq!((stdout(&output), stderr(&output)), ("0\n".to_owned(), String::new()), "{arguments}");
    }
}
