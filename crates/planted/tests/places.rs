//! The list is true: each bug is asked for at the place it names. And in an ordinary build none can be in.

#[cfg(feature = "planted-bugs")]
mod with_bugs {
    use leasehold_planted::{Bug, plant, planted};

    #[test]
    fn each_bug_is_where_the_list_says() {
        for bug in Bug::ALL {
            let path = format!("{}/../../{}", env!("CARGO_MANIFEST_DIR"), bug.file());
            let code = std::fs::read_to_string(&path).unwrap();
            assert!(code.contains(&format!("planted(Bug::{bug:?})")), "{bug:?} is not in {path}");
            assert_eq!(Bug::named(bug.name()), Some(*bug));
        }
    }

    #[test]
    fn one_bug_is_in_at_a_time_and_goes_with_its_guard() {
        let first = plant(Some(Bug::SharedOvertakes));
        assert!(planted(Bug::SharedOvertakes) && !planted(Bug::DeafToTime));
        drop(first);
        assert!(Bug::ALL.iter().all(|bug| !planted(*bug)));
    }
}

#[cfg(not(feature = "planted-bugs"))]
mod without_bugs {
    use leasehold_planted::{Bug, planted};

    /// Known when the program is built: whatever is behind the question is not in it.
    const IN: bool = planted(Bug::SharedOvertakes) || planted(Bug::ClientCountsFromReply);

    #[test]
    fn an_ordinary_build_has_no_bug_and_no_way_to_choose_one() {
        const { assert!(!IN) };
    }
}
