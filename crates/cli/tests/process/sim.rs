//! `leasehold sim`: the same seed gives the same bytes.

use crate::program::{run, stdout};

#[test]
fn seeds_hold_and_end_with_one_line_of_totals() {
    let output = run(&["sim", "--seeds", "2", "--first", "1"]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert_eq!(stdout(&output).lines().count(), 1);
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
