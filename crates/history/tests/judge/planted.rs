//! Histories with one thing wrong. Each must be refused by its rule, in a sentence that names the operations; beside the
//! subtle ones stands what looks alike and is right.

use crate::story::judged;

/// Refused by this rule, which names these operations.
fn refused(rule: &str, named: &[&str], story: &str) {
    let report = judged(story);
    let found = report.violations.iter().find(|violation| violation.rule == rule);
    let Some(violation) = found else { panic!("{rule} did not see it:\n{story}\n{report}") };
    for name in named {
        assert!(violation.sentence.contains(name), "{name} is not named: {violation}");
    }
}

fn accepted(story: &str) {
    let report = judged(story);
    assert!(report.is_clean(), "{report}");
}

#[test]
fn two_hold_one_lock() {
    refused(
        "exclusion",
        &["w1#1", "w2#1"],
        "w1 acquire a 10..20 done token=1
         w2 acquire a 30..40 done token=2
         w1 release a 50..60 done token=1
         w2 release a 70..80 done token=2",
    );
    accepted(
        "w1 acquire a 10..20 done token=1
         w1 release a 35..60 done token=1
         w2 acquire a 30..40 done token=2",
    );
}

#[test]
fn a_lease_is_granted_anew_before_its_time_has_run() {
    let story = |ttl: u64| {
        format!(
            "w1 acquire a 10..20 done token=1 ttl={ttl}
             w2 acquire a 100..111 done token=2 ttl=50"
        )
    };
    refused("exclusion", &["w1#1", "w2#1"], &story(102));
    refused("linearizable", &["w2#1"], &story(102));
    accepted(&story(101));
}

#[test]
fn a_renewal_that_was_confirmed_counts_from_its_sending() {
    let story = |renewed: &str| {
        format!(
            "w1 acquire a 0..10 done token=1 ttl=100
             w1 renew a 90..95 {renewed} token=1 ttl=100
             w2 acquire a 100..150 done token=2"
        )
    };
    refused("exclusion", &["w1#1", "w2#1"], &story("done"));
    accepted(&story("unknown"));
}

#[test]
fn a_repeated_acquire_renews_nothing() {
    accepted(
        "w1 acquire a 0..10 done token=1 ttl=100 id=r
         w1 acquire a 90..95 done token=1 ttl=100 id=r
         w2 acquire a 100..101 done token=2",
    );
}

#[test]
fn a_client_that_believes_for_too_long() {
    // It counts from the reply: the answer was under way for long.
    refused(
        "exclusion",
        &["w1#1", "w2#1"],
        "w1 acquire a 0..90 done token=1 ttl=100 until=140
         w2 acquire a 100..130 done token=2 ttl=100 until=150",
    );
}

#[test]
fn readers_share_and_writers_do_not() {
    accepted(
        "w1 acquire a 0..10 done token=1 shared
         w2 acquire a 0..11 done token=2 shared",
    );
    refused(
        "exclusion",
        &["w2#1", "w3#1"],
        "w1 acquire a 0..10 done token=1 shared
         w2 acquire a 0..11 done token=2 shared
         w1 release a 12..13 done token=1
         w3 acquire a 14..20 done token=3",
    );
}

#[test]
fn what_overlaps_without_being_equal() {
    for (one, other) in [
        ("range:7:0-100", "range:7:99-200"),
        ("inode:7", "range:7:5-6"),
        ("path:/a", "path:/a/b/c"),
        ("path:/", "path:/a"),
        ("name:x", "x"),
    ] {
        let story = format!("w1 acquire {one} 0..10 done token=1\nw2 acquire {other} 20..30 done token=2");
        refused("exclusion", &["w1#1", "w2#1"], &story);
        refused("linearizable", &["w2#1"], &story);
    }
    for (one, other) in
        [("range:7:0-100", "range:7:100-200"), ("path:/a", "path:/ab"), ("range:7:0-9", "range:8:0-9")]
    {
        let story = format!("w1 acquire {one} 0..10 done token=1\nw2 acquire {other} 20..30 done token=2");
        accepted(&story);
    }
}

#[test]
fn a_holder_that_is_hidden_behind_many_others() {
    // The one in the way began long before, and many came and went between.
    let mut story = String::from("old acquire range:1:500-501 0..1 done token=1 ttl=100000\n");
    for n in 1..50 {
        let (at, token) = (n * 100, n + 1);
        story += &format!("w acquire range:1:{n}-{} {at}..{} done token={token}\n", n + 400, at + 1);
        story += &format!("w release range:1:{n}-{} {}..{} done token={token}\n", n + 400, at + 2, at + 3);
    }
    accepted(&story);
    story += "late acquire range:1:450-900 6000..6001 done token=90";
    refused("exclusion", &["old#1", "late#1"], &story);
}

#[test]
fn a_broken_lease_is_over_when_the_break_may_have_come() {
    accepted(
        "w1 acquire path:/a/b 0..10 done token=1 ttl=1000
         op break path:/a 20..30 done
         w2 acquire path:/a/b 21..25 done token=2",
    );
    accepted(
        "w1 acquire path:/a/b 0..10 done token=1 ttl=1000
         op break path:/a 5..unknown unknown
         w2 acquire path:/a/b 21..25 done token=2"
            .replace("5..unknown", "5..")
            .as_str(),
    );
    for story in [
        // Too late, too early, elsewhere, refused.
        "op break path:/a 26..30 done",
        "op break path:/a 0..1 done",
        "op break path:/b 20..30 done",
        "op break path:/a 20..30 refused",
    ] {
        let story = format!(
            "w1 acquire path:/a/b 2..10 done token=1 ttl=1000
             {story}
             w2 acquire path:/a/b 21..25 done token=2"
        );
        refused("exclusion", &["w1#1", "w2#1"], &story);
    }
}

#[test]
fn a_token_is_given_twice() {
    refused(
        "token_order",
        &["w1#1", "w2#1"],
        "w1 acquire a 0..10 done token=5
         w2 acquire b 1..11 done token=5",
    );
    accepted(
        "w1 acquire a 0..10 done token=5 id=r
         w1 acquire a 1..11 done token=5 id=r",
    );
}

#[test]
fn tokens_go_back() {
    refused(
        "token_order",
        &["w1#1", "w2#1", "token 9", "8"],
        "w1 acquire a 0..10 done token=9
         w2 acquire b 11..20 done token=8",
    );
    // Under way together: either may have been first.
    accepted(
        "w1 acquire a 0..10 done token=9
         w2 acquire b 9..20 done token=8",
    );
    // The first attempt was under way together with it.
    accepted(
        "w1 acquire a 0..10 done token=9
         w2 acquire b 9..12 unknown id=r
         w2 acquire b 13..20 done token=8 id=r",
    );
    // After a restart tokens begin anew: seen over any distance.
    refused(
        "token_order",
        &["w1#1", "w9#1"],
        "w1 acquire a 0..10 done token=100
         w1 release a 11..12 done token=100
         w3 acquire x 40..90000 done token=102
         w9 acquire b 80000..80001 done token=3",
    );
}

#[test]
fn a_lease_ends_before_its_time() {
    refused(
        "never_early",
        &["w1#1", "w1#2"],
        "w1 acquire a 0..10 done token=1 ttl=100
         w1 renew a 50..99 lost token=1",
    );
    accepted(
        "w1 acquire a 0..10 done token=1 ttl=100
         w1 renew a 50..100 lost token=1",
    );
    refused(
        "never_early",
        &["w1#1", "w1#2"],
        "w1 acquire a 0..10 done token=1 ttl=100
         w1 release a 50..60 lost token=1",
    );
    accepted(
        "w1 acquire a 0..10 done token=1 ttl=100
         w1 release a 40.. unknown token=1
         w1 release a 50..60 lost token=1",
    );
    refused(
        "never_early",
        &["w1#1", "w1#2"],
        "w1 acquire a 0..10 done token=1 ttl=100
         w1 ended a 70..70 done token=1",
    );
    accepted(
        "w1 acquire a 0..10 done token=1 ttl=100 id=r
         w1 cancel a 20..30 done id=r
         w1 ended a 70..70 done token=1",
    );
}

#[test]
fn a_later_one_overtakes() {
    let story = |late_asks: u64| {
        format!(
            "w1 acquire a 0..5 done token=1
             w2 acquire a 6..60 done token=3 queued=10 wait=1000
             w3 acquire a {late_asks}..50 done token=2
             w1 release a 30..31 done token=1
             w3 release a 51..52 done token=2"
        )
    };
    refused("fifo", &["w2#1", "w3#1"], &story(11));
    accepted(&story(9));
}

#[test]
fn a_reader_overtakes_a_waiting_writer() {
    refused(
        "fifo",
        &["w2#1", "r2#1"],
        "r1 acquire a 0..5 done token=1 shared
         w2 acquire a 6..60 done token=3 queued=10 wait=1000
         r2 acquire a 11..20 done token=2 shared
         r1 release a 30..31 done token=1
         r2 release a 32..33 done token=2",
    );
    accepted(
        "w0 acquire a 0..5 done token=1
         r1 acquire a 6..60 done token=3 shared queued=10 wait=1000
         r2 acquire a 11..50 done token=2 shared
         w0 release a 30..31 done token=1",
    );
}

#[test]
fn one_in_line_for_something_that_overlaps_is_overtaken() {
    refused(
        "fifo",
        &["w2#1", "w3#1"],
        "w1 acquire path:/a/b 0..5 done token=1
         w2 acquire path:/a 6..60 done token=3 queued=10 wait=1000
         w3 acquire path:/a/c 11..20 done token=2
         w3 release path:/a/c 21..22 done token=2
         w1 release path:/a/b 30..31 done token=1",
    );
}

#[test]
fn one_that_stood_there_to_the_end_is_passed_by() {
    let story = |wait: u64| {
        format!(
            "w1 acquire a 0..5 done token=1
             w2 acquire a 6..90 refused queued=10 wait={wait}
             w3 acquire a 11..50 done token=2
             w1 release a 30..31 done token=1"
        )
    };
    refused("fifo", &["w2#1", "w3#1"], &story(80));
    accepted(&story(40));
}

#[test]
fn one_request_is_granted_twice() {
    refused(
        "one_effect",
        &["w1#1", "w1#2"],
        "w1 acquire a 0..10 done token=1 id=r
         w1 acquire a 20..30 done token=2 id=r",
    );
    refused(
        "one_effect",
        &["w1#1", "w1#2"],
        "w1 acquire a 0..10 done token=1 id=r lease=x
         w1 acquire a 20..30 done token=1 id=r lease=y",
    );
    accepted(
        "w1 acquire a 0..10 done token=1 id=r ttl=5
         w2 acquire a 20..30 done token=2 id=r ttl=5",
    );
}

#[test]
fn one_id_for_two_requests() {
    refused(
        "one_effect",
        &["w1#1", "w1#2"],
        "w1 acquire a 0..10 done token=1 id=r
         w1 acquire b 20..30 done token=2 id=r",
    );
    refused(
        "one_effect",
        &["w1#1", "w1#2"],
        "w1 acquire a 0..10 done token=1 id=r
         w1 append f 20..30 done token=1 id=r value=x",
    );
}

#[test]
fn a_stale_writer_is_let_in() {
    refused(
        "stale_writes",
        &["w2#1", "w1#1"],
        "w2 write f 0..10 done token=2 value=x
         w1 write f 11..20 done token=1 value=y",
    );
    accepted(
        "w2 write f 0..10 done token=2 value=x
         w1 write f 9..20 done token=1 value=y
         w1 write g 11..20 done token=1 value=y
         w1 write f 11..20 lost token=1 value=z",
    );
    // Made at the first attempt, whose answer was lost; the repeat is told so.
    accepted(
        "w1 append f 0.. unknown token=1 id=1 value=y
         w2 append f 5..10 done token=2 id=1 value=x
         w1 append f 11..20 done token=1 id=1 value=y",
    );
    refused(
        "stale_writes",
        &["w2#1", "w1#2"],
        "w1 append f 0..4 done token=1 id=1 value=y
         w2 append f 5..10 done token=2 id=1 value=x
         w1 append f 11..20 done token=1 id=2 value=z",
    );
}

#[test]
fn what_was_appended_is_lost_or_doubled_or_moved() {
    let story = |list: &str| {
        format!(
            "w1 append f 0..10 done token=1 id=1 value=a
             w1 append f 11..20 done token=1 id=2 value=b
             w2 append f 12..25 done token=2 id=1 value=c
             w3 append f 13..26 lost token=1 value=d
             w4 append f 14.. unknown token=2 value=e
             w9 read f 30..40 done list={list}"
        )
    };
    for (list, named) in [
        ("a,b", "w2#1"),
        ("a,b,c,a", "`a`"),
        ("b,a,c", "w1#1"),
        ("a,b,c,d", "w3#1"),
        ("a,b,c,x", "`x`"),
        ("", "w1#1"),
    ] {
        refused("appends", &[named, "w9#1"], &story(list));
    }
    for list in ["a,b,c", "a,c,b", "a,b,e,c", "a,b,c,e"] {
        accepted(&story(list));
    }
}

#[test]
fn reads_of_a_file_contradict_each_other() {
    let story = |first: &str, second: &str| {
        format!(
            "w1 append f 0..100 done token=1 value=a
             w2 append f 0..100 done token=1 value=b
             r1 read f 10..20 done list={first}
             r2 read f 30..40 done list={second}"
        )
    };
    refused("appends", &["r1#1", "r2#1"], &story("a", "b,a"));
    refused("appends", &["r1#1", "r2#1"], &story("a,b", "a"));
    accepted(&story("b", "b,a"));
    accepted(&story("", "b"));
    refused(
        "appends",
        &["w1#1", "r1#1"],
        "r1 read f 0..5 done list=a
         w1 append f 6..10 done token=1 value=a",
    );
}

#[test]
fn a_register_goes_back() {
    refused(
        "linearizable",
        &["r#2"],
        "w1 write x 0..100 done value=a
         r read x 10..20 done value=a
         r read x 30..40 done",
    );
    accepted(
        "w1 write x 0..100 done value=a
         r read x 10..20 done
         r read x 30..40 done value=a",
    );
}

#[test]
fn a_write_that_nobody_confirmed_may_come_at_any_time_but_only_once() {
    let begin = "w1 write x 0.. unknown value=a
                 w2 write x 10..20 done value=b
                 r read x 30..40 done value=b
                 r read x 50..60 done value=a";
    accepted(begin);
    refused("linearizable", &["r#3"], &format!("{begin}\nr read x 70..80 done value=b"));
}

#[test]
fn a_stale_write_shows_in_the_register() {
    // The write was refused as stale although nothing newer can have been there yet.
    refused(
        "linearizable",
        &["w1#1"],
        "w1 write x 0..10 lost token=1 value=a
         w2 write x 11..20 done token=2 value=b",
    );
    // An unconfirmed write under an old token cannot come after a newer one.
    refused(
        "linearizable",
        &["r#2"],
        "w1 write x 0.. unknown token=1 value=a
         w2 write x 11..20 done token=2 value=b
         r read x 21..22 done value=b
         r read x 23..24 done value=a",
    );
}

#[test]
fn a_lease_comes_back_from_the_dead() {
    // Each pair by itself could be; all three together cannot.
    refused(
        "linearizable",
        &["w1#3"],
        "w1 acquire a 0..10 done token=1 ttl=20
         w1 renew a 30..40 lost token=1
         w1 renew a 50..60 done token=1",
    );
    refused(
        "linearizable",
        &["w1#3"],
        "w1 acquire a 0..10 done token=1
         w1 release a 20..30 done token=1
         w1 renew a 31..40 done token=1",
    );
}

#[test]
fn a_release_of_which_nobody_knows_explains_a_grant_but_not_two_holders() {
    accepted(
        "w1 acquire a 0..10 done token=1 ttl=1000
         w1 release a 20.. unknown token=1
         w2 acquire a 30..40 done token=2",
    );
    refused(
        "linearizable",
        &["w1#3", "w1#2"],
        "w1 acquire a 0..10 done token=1 ttl=1000
         w1 release a 20.. unknown token=1
         w2 acquire a 30..40 done token=2 ttl=1000
         w1 renew a 50..60 done token=1",
    );
}

#[test]
fn a_release_of_what_was_taken_back_is_told_the_same() {
    accepted(
        "w1 acquire a 0..10 done token=1 ttl=1000 id=r
         w1 cancel a 20..30 done id=r
         w2 acquire a 40..50 done token=2
         w1 release a 60..70 done token=1",
    );
    refused(
        "linearizable",
        &["w1#2"],
        "w1 acquire a 0..10 done token=1 ttl=20
         w2 acquire a 40..50 done token=2
         w1 release a 60..70 done token=1",
    );
}

#[test]
fn too_many_orders_are_admitted_and_not_called_clean() {
    let mut story = String::new();
    for n in 0..40 {
        story += &format!("w{n} write x 0..100 done value=v{n}\n");
    }
    assert!(judged(&story).is_clean(), "one is enough");
    story += "r read x 50..60 done value=z";
    let report = judged(&story);
    assert!(!report.is_clean() && report.violations.is_empty() && report.undecided.len() == 1, "{report}");
}
