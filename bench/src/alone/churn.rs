//! Endless acquire and release pairs on the engine and the file journal, without the network: does the data directory
//! stay bounded, and what does a pair cost?

use std::sync::Arc;
use std::time::Instant;

use leasehold_engine::{Clock, Engine, EngineOptions, MachineClock, Metrics, Replay, founding_key};
use leasehold_journal::{FileJournal, Folder, Journal, Options};
use leasehold_state_machine::answer::{Answer, LeaseView};
use leasehold_state_machine::command::{Acquire, Attachment, Command, Proof, Request};
use leasehold_state_machine::ids::Secret;
use leasehold_state_machine::limits::Limits;
use leasehold_state_machine::resource::Resource;
use leasehold_state_machine::words::{Owner, Ttl};

use crate::alone::SYSTEM;
use crate::book::{Book, Key};
use crate::compare::Scale;
use crate::drive::Values;
use crate::served::folder_bytes;

/// Requests decided in one turn, as a server with that many clients would.
const BATCH: usize = 1024;

/// Runs the pairs and watches the folder.
pub fn measure(scale: Scale, book: &mut Book) -> Result<(), String> {
    let pairs = if scale.quick { 200_000 } else { 2_000_000 };
    let text = |error: &dyn std::fmt::Display| error.to_string();
    let temporary = tempfile::tempdir().map_err(|error| text(&error))?;
    let path = temporary.path().join("data");
    let folder = Folder::open(&path).map_err(|error| text(&error))?;
    let mut replay = Replay::new(Limits::default());
    let (mut journal, _) =
        FileJournal::open(folder, Options::new([7; 16]), &mut replay).map_err(|error| text(&error))?;
    let clock = MachineClock::new().map_err(|error| text(&error))?;
    let options = EngineOptions {
        founding_key: founding_key().map_err(|error| text(&error))?,
        restored: None,
        accept_clock: false,
        batch_bytes_max: journal.batch_bytes_max(),
        metrics: Arc::new(Metrics::default()),
    };
    let (mut engine, _) = Engine::recover(replay, clock.boot_id(), clock.read(), options);
    let resources: Vec<Resource> =
        (0..BATCH).filter_map(|lock| Resource::parse(&format!("job-{lock}")).ok()).collect();
    let owner = Owner::parse("worker-1@host7").map_err(|error| text(&error))?;
    let ttl = Ttl::from_ms(30_000).map_err(|error| text(&error))?;

    let mut arrivals = Vec::new();
    let mut held: Vec<LeaseView> = Vec::new();
    let (mut attachment, mut done, mut largest_bytes, mut snapshots) = (0u64, 0, 0, 0);
    let began = Instant::now();
    while done < pairs {
        let commands: Vec<Command> = if held.is_empty() {
            resources.iter().map(|resource| acquire(resource, &owner, ttl)).collect()
        } else {
            done += held.len();
            held.drain(..).map(release).collect()
        };
        for command in commands {
            attachment += 1;
            let secret = Secret([attachment, 1]);
            arrivals.push(Request { attachment: Attachment(attachment), arrived_raw_us: 0, secret, command });
        }
        engine.turn(clock.read(), &mut arrivals);
        while let Some(batch) = engine.take_batch() {
            let began = Instant::now();
            journal.append(&batch.payload).map_err(|error| text(&error))?;
            engine.durable(batch.last_seq, began.elapsed().as_micros() as u64);
        }
        for reply in engine.released().replies {
            match reply.outcome {
                Ok(Answer::Lease(lease)) => held.push(lease),
                Ok(_) => {}
                Err(refusal) => return Err(format!("an uncontended request was refused: {refusal:?}")),
            }
        }
        for chore in journal.chores() {
            snapshots += u32::from(chore.kind() == leasehold_journal::ChoreKind::Snapshot);
            let finished = chore.run(&mut Replay::new(Limits::default()));
            journal.chore_done(finished).map_err(|error| text(&error))?;
            largest_bytes = largest_bytes.max(folder_bytes(&path));
        }
    }
    let seconds = began.elapsed().as_secs_f64();
    let values = Values::from([
        ("per_second", done as f64 / seconds),
        ("snapshots", f64::from(snapshots)),
        ("disk_largest_bytes", largest_bytes as f64),
        ("disk_bytes", folder_bytes(&path) as f64),
    ]);
    book.record(Key { workload: "churn", system: SYSTEM, way: "engine", size: pairs }, values);
    Ok(())
}

fn acquire(resource: &Resource, owner: &Owner, ttl: Ttl) -> Command {
    Command::Acquire(Acquire {
        resource: resource.clone(),
        owner: owner.clone(),
        ttl: Some(ttl),
        mode: Default::default(),
        wait: Default::default(),
        session: None,
        request_id: None,
        metadata: Default::default(),
    })
}

fn release(lease: LeaseView) -> Command {
    let LeaseView { resource, owner, lease, token, .. } = lease;
    Command::Release(Proof { resource, owner, lease, token })
}
