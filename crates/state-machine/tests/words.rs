//! The bounds of what may be said, each at its edge and one beyond, with the numbers of the contract and not those of the
//! code; and what whoever goes beyond is told.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;

use leasehold_state_machine::event::{CancelFound, Departure, Release};
use leasehold_state_machine::file::{FileBytes, FileName};
use leasehold_state_machine::ids::{LeaseId, Secret, SessionId};
use leasehold_state_machine::invalid::Invalid;
use leasehold_state_machine::limits::Limits;
use leasehold_state_machine::resource::Resource;
use leasehold_state_machine::words::{ClientId, Metadata, Mode, Owner, Reason, RequestId, Ttl, Wait};

/// Refused, and the field is named.
#[track_caller]
fn refused<T: core::fmt::Debug>(outcome: Result<T, Invalid>, field: &str) -> String {
    let invalid = outcome.unwrap_err();
    assert_eq!(invalid.field, field);
    assert_eq!(invalid.to_string(), format!("{field}: {}", invalid.problem));
    invalid.problem.into_owned()
}

fn long(bytes: usize) -> String {
    "x".repeat(bytes)
}

#[test]
fn owners_have_1_to_256_bytes_and_no_control_characters() {
    for text in ["a", "worker-1@host7", "ü ü", &long(256)] {
        let owner = Owner::parse(text).unwrap();
        assert_eq!((owner.text(), owner.to_string(), format!("{owner:?}")), (text, text.into(), text.into()));
    }
    assert!(refused(Owner::parse(&long(257)), "owner_id").contains("1 to 256 bytes, this one has 257"));
    assert!(refused(Owner::parse(&long(1000)), "owner_id").contains("1000"));
    assert!(refused(Owner::parse(""), "owner_id").contains("has 0"));
    assert!(refused(Owner::parse("a\nb"), "owner_id").contains("control"));
    assert!(refused(Owner::parse(&"ü".repeat(129)), "owner_id").contains("258"), "bytes are counted");
}

#[test]
fn names_and_paths_have_up_to_512_bytes() {
    for text in [long(512), format!("path:/{}", long(512))] {
        let resource = Resource::parse(&text).unwrap();
        assert_eq!(
            (resource.text(), resource.to_string(), format!("{resource:?}")),
            (&*text, text.clone(), text.clone())
        );
    }
    assert!(refused(Resource::parse(&long(513)), "lock").contains("1 to 512 bytes, this one has 513"));
    assert!(refused(Resource::parse(&format!("path:/{}", long(513))), "lock").contains("has 514"));
}

#[test]
fn numbers_are_below_2_to_the_63() {
    for text in ["inode:9223372036854775807", "range:9223372036854775807:0-9223372036854775807"] {
        assert_eq!(Resource::parse(text).unwrap().text(), text);
    }
    assert!(refused(Resource::parse("inode:9223372036854775808"), "lock").contains("below 2^63"));
    assert!(refused(Resource::parse("inode:00"), "lock").contains("leading zeros"));
    assert!(refused(Resource::parse("range:1:7-7"), "lock").contains("start < end"));
    // What somebody sent is told back, and no more of it than is of use.
    let told = refused(Resource::parse(&format!("inode:4\u{7}2{}", long(100))), "lock");
    assert!(told.starts_with("`42x") && told.contains("x` is not") && told.len() < 80, "{told}");
}

#[test]
fn files_have_names_of_1_to_512_bytes_with_the_rules_of_paths() {
    for text in ["a", "reports/a.log", &long(512)] {
        let name = FileName::parse(text).unwrap();
        assert_eq!((name.text(), name.to_string(), format!("{name:?}")), (text, text.into(), text.into()));
        assert_eq!(name.path().text(), format!("path:/{text}"));
    }
    assert!(refused(FileName::parse(&long(513)), "name").contains("1 to 512 bytes, this one has 513"));
    assert!(refused(FileName::parse(""), "name").contains("has 0"));
    for text in ["/a", "a/", "a//b", "./a", "a/..", "a\0"] {
        assert!(refused(FileName::parse(text), "name").contains("without its first `/`"), "{text:?}");
    }
}

#[test]
fn modes_conflict_unless_both_share() {
    use Mode::{Exclusive, Shared};
    for mode in [Exclusive, Shared] {
        assert_eq!(Mode::parse(mode.text()), Ok(mode));
    }
    assert_eq!((Exclusive.text(), Shared.text()), ("exclusive", "shared"));
    refused(Mode::parse("Shared"), "mode");
    let conflicts = [(Exclusive, Exclusive), (Exclusive, Shared), (Shared, Exclusive), (Shared, Shared)];
    assert_eq!(conflicts.map(|(a, b)| a.conflicts(b)), [true, true, true, false]);
}

#[test]
fn a_ttl_is_100_ms_to_a_day_and_a_wait_at_most_an_hour() {
    for ms in [100, 30_000, 86_400_000] {
        let ttl = Ttl::from_ms(ms).unwrap();
        assert_eq!((ttl.ms(), ttl.us()), (ms, ms * 1000));
    }
    for ms in [0, 99, 86_400_001, 1 << 32, (1 << 32) + 1000, u64::MAX] {
        assert!(refused(Ttl::from_ms(ms), "ttl_ms").contains("100 to 86400000 ms"), "{ms}");
    }
    assert_eq!(Ttl::default().ms(), 30_000);
    for ms in [0, 1, 3_600_000] {
        let wait = Wait::from_ms(ms).unwrap();
        assert_eq!((wait.ms(), wait.us()), (ms, ms * 1000));
    }
    for ms in [3_600_001, (1 << 32) + 5, u64::MAX] {
        assert!(refused(Wait::from_ms(ms), "wait_ms").contains("3600000"), "{ms}");
    }
}

#[test]
fn ids_are_1_to_128_visible_ascii_characters() {
    for text in ["a", "!~", &long(128)] {
        assert_eq!(RequestId::parse(text).unwrap().text(), text);
        assert_eq!(ClientId::parse(text).unwrap().text(), text);
    }
    for text in ["", " ", "a b", "ü", "a\n", &long(129)] {
        assert!(refused(RequestId::parse(text), "request_id").contains("1 to 128 visible"), "{text:?}");
        refused(ClientId::parse(text), "client_id");
    }
    assert_eq!(RequestId::Numbered(ClientId::parse("c").unwrap(), 17).text(), "c 17");
}

#[test]
fn lease_and_session_ids_come_back_as_they_were_given_out() {
    let secret = Secret([1, u64::MAX]);
    let lease = LeaseId { slot: 17, secret };
    let sessions = [SessionId::Opened { slot: 3, secret }, SessionId::Own(lease)];
    assert_eq!(LeaseId::parse(&lease.text()), Ok(lease));
    for session in sessions {
        assert_eq!(SessionId::parse(&session.text()), Ok(session));
        assert_eq!(format!("{session:?}").matches('…').count(), 1, "secrets are not shown");
    }
    // What is not of our making is nobody's, if it is not longer than ours can be.
    for text in ["x", &lease.text()[1..], &long(64)] {
        assert_ne!(LeaseId::parse(text).unwrap().slot, 17);
        assert!(!sessions.contains(&SessionId::parse(text).unwrap()));
    }
    for text in ["", &long(65)] {
        assert!(refused(LeaseId::parse(text), "lease_id").contains("1 to 64"));
        refused(SessionId::parse(text), "session_id");
    }
}

#[test]
fn what_is_told_of_an_end_are_words_of_the_contract() {
    let departures = [Departure::Timeout, Departure::Cancelled, Departure::Session, Departure::Gone];
    assert_eq!(departures.map(Departure::text), ["timeout", "cancelled", "session", "gone"]);
    let releases = [Release::Holder, Release::Cancelled, Release::Closed, Release::Gone, Release::Broken]
        .map(Release::text);
    assert_eq!(releases, ["released", "cancelled", "closed", "gone", "broken"]);
    let found = [CancelFound::Waiting, CancelFound::Released, CancelFound::Unknown].map(CancelFound::text);
    assert_eq!(found, ["waiting", "released", "unknown"]);
}

#[test]
fn bytes_know_their_number_and_keep_quiet() {
    for length in [0, 3] {
        let bytes = FileBytes::new(vec![65; length]);
        assert_eq!((bytes.len(), bytes.is_empty()), (length as u64, length == 0));
        let shown = format!("{bytes:?}");
        assert!(shown.contains(&length.to_string()) && !shown.contains("65"), "{shown}");
    }
}

#[test]
fn a_reason_has_something_to_say() {
    for text in ["x", " stuck since noon ", &long(1024)] {
        assert_eq!(Reason::parse(text).unwrap().text(), text);
    }
    for text in ["", "  ", "a\nb", &long(1025)] {
        assert!(refused(Reason::parse(text), "reason").contains("1 to 1024 bytes"), "{text:?}");
    }
}

#[test]
fn metadata_has_up_to_16_entries_and_4_kib() {
    let entries = |count: usize, bytes: usize| -> BTreeMap<String, String> {
        (0..count).map(|at| (format!("{at:04}"), long(bytes))).collect()
    };
    for (count, bytes) in [(16, 0), (1, 4092), (16, 252)] {
        assert_eq!(Metadata::new(entries(count, bytes)).unwrap().entries().count(), count);
    }
    for (count, bytes) in [(17, 0), (1, 4093), (16, 253)] {
        assert!(
            refused(Metadata::new(entries(count, bytes)), "metadata").contains("16 entries and 4096 bytes")
        );
    }
    let map = BTreeMap::from([("b".to_owned(), "2".to_owned()), ("a".to_owned(), "1".to_owned())]);
    assert_eq!(Metadata::new(map).unwrap().entries().collect::<Vec<_>>(), [("a", "1"), ("b", "2")]);
    assert_eq!(Metadata::new(BTreeMap::new()).unwrap(), Metadata::default());
    assert_eq!(Metadata::default().entries().count(), 0);
}

#[test]
fn bounds_are_those_of_the_contract_unless_they_are_set() {
    let limits = Limits {
        slots_max: 67_108_864,
        leases_max: 10_000_000,
        waiters_max: 1_000_000,
        waiters_per_lock_max: 100_000,
        sessions_max: 1_000_000,
        request_ids_max: 8_000_000,
        files_max: 1_000_000,
        file_bytes_max: 1_073_741_824,
        files_bytes_max: 10_737_418_240,
        write_bytes_max: 1_048_576,
    };
    assert_eq!(Limits::default(), limits);
}
