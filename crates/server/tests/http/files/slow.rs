//! Readers that stand still while others need the room: they are told so, and never given anything but the file's bytes.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use leasehold_engine::{
    Clock, DriverOptions, Engine, EngineOptions, Handle, MachineClock, Metrics, OpenFile, Replay,
};
use leasehold_journal::{Journal, MemoryJournal};
use leasehold_server::files::{Readers, Reading};
use leasehold_server::limits::{
    LONG_READ_PIECE_BYTES, ON_THE_WAY_BYTES_MAX, READ_SLICE_BYTES, READ_SLICE_BYTES_MIN,
};
use leasehold_server::wire::file_forms::ChangeForm;
use leasehold_server::wire::forms::{AcquireForm, ProofForm};
use leasehold_state_machine::answer::{Answer, Refusal};
use leasehold_state_machine::file::{FileName, Offset};
use leasehold_state_machine::ids::HashKey;
use leasehold_state_machine::limits::Limits;
use leasehold_state_machine::words::Metadata;

use super::pattern;
use crate::server::PATIENCE;

/// An engine without a door.
fn engine() -> Handle {
    let clock = MachineClock::new().unwrap();
    let journal = MemoryJournal::new();
    let options = EngineOptions {
        founding_key: HashKey([1, 2]),
        restored: None,
        accept_clock: false,
        batch_bytes_max: journal.batch_bytes_max(),
        metrics: Arc::new(Metrics::default()),
    };
    let (engine, _) = Engine::recover(Replay::new(Limits::default()), clock.boot_id(), clock.read(), options);
    leasehold_engine::start(engine, Box::new(journal), Arc::new(clock), DriverOptions::default()).unwrap()
}

/// A file with these bytes.
async fn file(engine: &Handle, bytes: &[u8]) -> OpenFile {
    let acquire = AcquireForm {
        lock: "path:/a",
        owner_id: "w",
        ttl_ms: None,
        mode: None,
        wait_ms: None,
        session_id: None,
        request_id: None,
        metadata: Metadata::default(),
    };
    let Ok(Answer::Lease(lease)) = engine.ask(acquire.command().unwrap()).await else { panic!("no lease") };
    let lease_id = lease.lease.text();
    let proof = ProofForm {
        lock: "path:/a",
        owner_id: "w",
        lease_id: lease_id.as_bytes(),
        fencing_token: lease.token,
    };
    let change = ChangeForm { name: "a", proof, request_id: None }.judge().unwrap();
    engine.ask(change.write(Offset::End, bytes)).await.unwrap();
    engine.open_file(FileName::parse("a").unwrap()).await.unwrap()
}

#[test]
fn who_stands_still_makes_room_and_is_told() {
    let bytes = pattern(LONG_READ_PIECE_BYTES);
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let test = async {
        let engine = engine();
        let file = file(&engine, &bytes).await;
        // Room for two, of whom nobody is left alone.
        let readers = Arc::new(Readers::new(2 * LONG_READ_PIECE_BYTES, ON_THE_WAY_BYTES_MAX, Duration::ZERO));
        let begin = || Reading::begin(&readers, file.clone(), 0, bytes.len() as u64);
        let mut first = begin().await.unwrap();
        let mut second = begin().await.unwrap();
        assert_eq!(first.next().await.unwrap().unwrap().bytes, bytes[..READ_SLICE_BYTES]);
        // The second has not taken anything for longer.
        let mut third = begin().await.unwrap();
        assert!(matches!(second.next().await, Some(Err(Refusal::Busy { retry_ms: 1.., .. }))));
        assert!(second.next().await.is_none(), "there is no more after a refusal");
        for reading in [&mut first, &mut third] {
            let from = usize::try_from(reading.next_byte()).unwrap();
            let mut rest = Vec::new();
            while let Some(slice) = reading.next().await {
                rest.extend_from_slice(&slice.unwrap().bytes);
            }
            assert!(rest == bytes[from..]);
        }
        assert_eq!((readers.waiting(), readers.read_bytes_total()), (0, 2 * bytes.len() as u64));
        engine.stop().await;
        let after = begin().await.map(drop);
        assert!(matches!(after, Err(Refusal::Unavailable { .. })), "{after:?}");
    };
    runtime.block_on(async { tokio::time::timeout(PATIENCE, test).await.unwrap() });
}

/// A connection of HTTP/2 takes a slice for each of its streams, though it may send none of them.
#[test]
fn what_is_taken_and_not_sent_is_bounded_too() {
    const ROOM: usize = 64 * READ_SLICE_BYTES_MIN;
    let bytes = pattern(READ_SLICE_BYTES);
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let test = async {
        let engine = engine();
        let file = file(&engine, &bytes).await;
        let readers = Arc::new(Readers::new(256 * READ_SLICE_BYTES, ROOM, Duration::ZERO));
        let begin = || Reading::begin(&readers, file.clone(), 0, bytes.len() as u64);
        let mut unsent: Vec<Bytes> = Vec::new();
        let refused = loop {
            let mut reading = match begin().await {
                Ok(reading) => reading,
                Err(refusal) => break refusal,
            };
            let slice = Bytes::from(reading.next().await.unwrap().unwrap());
            assert!(slice == bytes[..slice.len()]);
            unsent.push(slice);
            assert!(unsent.iter().map(Bytes::len).sum::<usize>() <= ROOM);
        };
        assert!(matches!(refused, Refusal::Busy { retry_ms: 1.., .. }), "{refused:?}");
        assert!(unsent.len() > 32, "each got less than the ones before: {}", unsent.len());
        // Who sends on has room for the next slice in that of the last, and reads to the end.
        unsent.truncate(32);
        let (mut reading, mut read) = (begin().await.unwrap(), Vec::new());
        while let Some(slice) = reading.next().await {
            read.extend_from_slice(&Bytes::from(slice.unwrap()));
        }
        assert!(read == bytes);
        drop(unsent);
        assert!(begin().await.is_ok());
        engine.stop().await;
    };
    runtime.block_on(async { tokio::time::timeout(PATIENCE, test).await.unwrap() });
}
