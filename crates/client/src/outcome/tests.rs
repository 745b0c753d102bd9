//! What is read where it lies is held to what the generated messages read of the same bytes: whole, cut off, and changed.

use leasehold_protocol::v1::outcome::What;

use super::*;

fn granted() -> v1::Lease {
    v1::Lease {
        lock: "orders/ü".into(),
        owner_id: "worker-1".into(),
        session_id: "s0-1".into(),
        lease_id: "secret".into(),
        fencing_token: 1 << 40,
        mode: v1::Mode::Shared.into(),
        ttl_ms: 30_000,
        expires_in_ms: 29_999,
        renew_after_ms: 10_000,
        stop_after_ms: 100,
        acquired_at: Some(Timestamp { seconds: 1_790_000_000, nanos: 123_000_000 }),
        expires_at: Some(Timestamp { seconds: -1, nanos: 7 }),
        version: 300,
        seq: u64::MAX,
        metadata: Metadata::new(),
    }
}

fn with_metadata() -> v1::Lease {
    v1::Lease { metadata: [("pid".to_owned(), "7".to_owned())].into(), ..granted() }
}

fn leases() -> Vec<v1::Lease> {
    vec![
        granted(),
        with_metadata(),
        v1::Lease::default(),
        v1::Lease { fencing_token: -1, ..granted() },
        v1::Lease { mode: 7, ..granted() },
        v1::Lease { lock: "long/".repeat(100), acquired_at: Some(Timestamp::default()), ..granted() },
    ]
}

fn group() -> v1::OutcomeGroup {
    let mut all = vec![
        What::Welcome(v1::Welcome { in_flight_max: 9 }),
        What::Queued(v1::Queued { position: 3 }),
        What::Ended(Box::new(v1::Ended { session_id: "s".into(), ended: Vec::new() })),
        What::Released(v1::ReleaseResponse { released: true }),
        What::Released(v1::ReleaseResponse::default()),
        What::Cancelled(v1::CancelResponse { cancelled: "waiting".into() }),
        What::Verified(v1::VerifyResponse::default()),
        What::Snapshot(Box::new(v1::Snapshot { lock: "orders".into(), ..v1::Snapshot::default() })),
        What::Session(Box::new(v1::Session { session_id: "s".into(), ..v1::Session::default() })),
        What::Closed(v1::CloseSessionResponse::default()),
        What::Error(Box::new(v1::Error { code: "held".into(), ..v1::Error::default() })),
    ];
    all.extend(leases().into_iter().map(|lease| What::Lease(Box::new(lease))));
    let outcomes = (0..).zip(all).map(|(place, what)| v1::Outcome { number: 50 * place, what: Some(what) });
    v1::OutcomeGroup { outcomes: outcomes.collect() }
}

/// Each with every prefix of it, with every byte of it changed in a few ways, and in two parts the wrong way round.
fn disturbed(bytes: &[u8]) -> Vec<Vec<u8>> {
    let mut all: Vec<Vec<u8>> = (0..=bytes.len()).map(|length| bytes[..length].to_vec()).collect();
    for at in 0..bytes.len() {
        for change in [1, 2, 4, 8, 0x10, 0x20, 0x40, 0x80, 0xff] {
            let mut changed = bytes.to_vec();
            changed[at] ^= change;
            all.push(changed);
        }
        all.push([&bytes[at..], &bytes[..at]].concat());
    }
    all.push([bytes, bytes].concat());
    all
}

/// Bytes in which keys and short lengths are likely.
fn random() -> impl Iterator<Item = Vec<u8>> {
    let mut chance: u64 = 7;
    let mut next = move || {
        chance = chance.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
        (chance >> 33) as u8
    };
    (0..20_000).map(move |_| {
        let length = next() % 24;
        (0..length)
            .map(|_| match next() % 4 {
                0 => next(),
                1 => next() % 4,
                _ => (next() % 16) << 3 | [0, 2][usize::from(next() % 2)],
            })
            .collect()
    })
}

fn is_read_as_the_message_is(bytes: Vec<u8>) {
    let bytes = Bytes::from(bytes);
    assert_eq!(OutcomeGroup::read(&bytes), OutcomeGroup::decode(&*bytes), "{bytes:?}");
}

fn is_granted_as_the_message_is(told: &[u8], lock: &str, owner: &str) {
    let read = grant(told, lock.to_owned(), owner.to_owned(), 7);
    assert_eq!(read, lease(told).and_then(|lease| Grant::told(lease, 7)), "{told:?}");
}

#[test]
fn is_the_message_of_the_protocol() {
    let read = OutcomeGroup::from(group());
    assert_eq!(read.encode_to_vec(), group().encode_to_vec());
    assert!(read.outcomes.iter().all(|outcome| outcome.told.is_some()));
    let Some(Told::Lease(bytes)) = &read.outcomes[11].told else { panic!("{read:?}") };
    assert_eq!(lease(bytes).unwrap(), granted());
}

#[test]
fn a_group_is_read_as_the_message_is() {
    for outcome in group().outcomes {
        let bytes = v1::OutcomeGroup { outcomes: vec![outcome] }.encode_to_vec();
        disturbed(&bytes).into_iter().for_each(is_read_as_the_message_is);
    }
    is_read_as_the_message_is(group().encode_to_vec());
    random().for_each(is_read_as_the_message_is);
}

#[test]
fn the_usual_is_read_where_it_lies() {
    let lease = |lease| v1::Outcome { number: 7, what: Some(What::Lease(Box::new(lease))) };
    let released = What::Released(v1::ReleaseResponse { released: true });
    let outcomes = vec![lease(granted()), v1::Outcome { number: 8, what: Some(released) }];
    for outcome in outcomes {
        let bytes = Bytes::from(outcome.encode_to_vec());
        let usual = usual_outcome(&bytes, &bytes).expect("this is as usual");
        assert_eq!(Outcome::decode(&*bytes), Ok(usual));
    }
    assert!(usual_lease(&granted().encode_to_vec(), "orders/ü", "worker-1").is_some());
    assert!(usual_lease(&with_metadata().encode_to_vec(), "orders/ü", "worker-1").is_none());
}

#[test]
fn a_lease_is_granted_as_the_message_is_whoever_asked() {
    for lease in leases() {
        let bytes = lease.encode_to_vec();
        for told in disturbed(&bytes) {
            is_granted_as_the_message_is(&told, "orders/ü", "worker-1");
        }
        for (lock, owner) in [("", ""), ("worker-1", "orders/ü"), ("path:/another/much/longer", "x")] {
            is_granted_as_the_message_is(&bytes, lock, owner);
        }
    }
    for told in random() {
        is_granted_as_the_message_is(&told, "", "x");
    }
}

#[test]
fn what_cannot_be_read_is_said_to_be_so() {
    let bytes = granted().encode_to_vec();
    let error = grant(&bytes[..bytes.len() - 1], "orders/ü".into(), "worker-1".into(), 7).unwrap_err();
    assert!(error.to_string().contains("cannot be read"), "{error}");
}
