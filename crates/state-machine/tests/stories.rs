//! The contract told as stories: text files under `stories/`, which say what happens when and what everybody hears.
//! `stories/README.md` explains their few words.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod story;

use std::fs;
use std::path::Path;

use story::line::{Line, parse};
use story::stage::Stage;

/// Plays one file; every way in which it went differently.
fn play(name: &str, text: &str) -> Vec<String> {
    let mut stage = Stage::new();
    let mut problems = Vec::new();
    let mut steps = 0;
    for (index, raw) in text.lines().enumerate() {
        let place = format!("stories/{name}:{}", index + 1);
        match parse(raw) {
            Ok(Line::Empty) => {}
            Ok(Line::Scene) => stage = Stage::new(),
            Ok(Line::Step(step)) => {
                steps += 1;
                if let Err(problem) = stage.play(&step) {
                    problems.push(format!("{place}\n  {}\n{problem}", raw.trim()));
                }
            }
            Err(problem) => problems.push(format!("{place}\n  {}\n  cannot be read: {problem}", raw.trim())),
        }
    }
    assert!(steps > 0, "stories/{name} tells nothing");
    problems
}

#[test]
fn the_stories_are_true() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/stories");
    let mut names: Vec<String> = fs::read_dir(&folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.ends_with(".txt"))
        .collect();
    names.sort();
    assert!(!names.is_empty(), "no stories in {}", folder.display());
    let mut problems = Vec::new();
    for name in &names {
        problems.extend(play(name, &fs::read_to_string(folder.join(name)).unwrap()));
    }
    assert!(problems.is_empty(), "\n{}\n", problems.join("\n"));
}

#[test]
fn a_wrong_story_is_noticed() {
    let problems = play("none", "at 0s acquire build by=w1 -> held\nat 1s acquire build by=w2 -> granted");
    assert_eq!(problems.len(), 2);
    assert!(problems[0].contains("none:1") && problems[0].contains("expected"), "{}", problems[0]);
    let problems = play("none", "at 0s acquire build by=w1\nat 1s tick -> w1 granted");
    assert_eq!(problems.len(), 2, "an answer that nobody expects, and an expected one that does not come");
}
