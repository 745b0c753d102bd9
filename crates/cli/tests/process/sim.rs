//! `leasehold sim`: the same seed gives the same bytes.

use crate::program::{run, stderr, stdout};

#[test]
fn seeds_hold_and_end_with_one_line_of_totals() {
    let output = run(&["sim", "--seeds", "2", "--first", "1"]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert_eq!(stdout(&output).lines().count(), 5);
    assert!(stdout(&output).starts_with("2 seeds, 0 failed"), "{}", stdout(&output));
}

#[test]
fn a_seed_tells_the_same_story_each_time() {
    let story = run(&["sim", "--seed", "1", "--trace"]);
    assert_eq!(story.status.code(), Some(0));
    assert!(!story.stdout.is_empty());
    assert!(run(&["sim", "--seed", "1", "--trace"]).stdout == story.stdout);
    assert_eq!(run(&["sim", "--trace"]).status.code(), Some(64), "a story needs a seed");
}

/// What is shipped has no bugs to plant, and says how to build what has.
#[cfg(not(feature = "planted-bugs"))]
#[test]
fn an_ordinary_program_has_no_bug_to_plant() {
    for bug in ["list", "shared-overtakes"] {
        let output = run(&["sim", "--bug", bug]);
        assert_eq!(output.status.code(), Some(64), "{output:?}");
        assert!(stderr(&output).contains("--features planted-bugs"), "{}", stderr(&output));
    }
    let program = std::fs::read(env!("CARGO_BIN_EXE_leasehold")).unwrap();
    let is_in = |name: &str| program.windows(name.len()).any(|bytes| bytes == name.as_bytes());
    assert!(is_in("--features planted-bugs"), "the program can be searched");
    assert!(!is_in("shared-overtakes") && !is_in("client-counts-from-reply"));
}
