//! What a held request costs: nothing on the disk.

use crate::alone::SYSTEM;
use crate::book::{Book, Key};
use crate::compare::Scale;
use crate::drive::Values;
use crate::http::Connection;
use crate::served::Served;

/// Refuses many attempts on a held lock and counts commits and journaled events meanwhile.
pub fn measure(scale: Scale, book: &mut Book) -> Result<(), String> {
    let attempts = if scale.quick { 2_000 } else { 20_000 };
    let data = tempfile::tempdir().map_err(|error| error.to_string())?;
    let served = Served::start(Some(&data.path().join("data")))?;
    let mut connection = Connection::open(served.address)?;
    connection.call("POST", "/v1/locks/held/acquire", r#"{"owner_id":"holder","ttl_ms":600000}"#)?;
    let (commits, events) =
        (served.metric("lock_journal_batch_count")?, served.metric("lock_journal_batch_sum")?);
    let began = std::time::Instant::now();
    for _ in 0..attempts {
        let (status, body) =
            connection.call("POST", "/v1/locks/held/acquire", r#"{"owner_id":"other","ttl_ms":600000}"#)?;
        if status != 409 {
            return Err(format!("an attempt on a held lock was answered {status}: {body}"));
        }
    }
    let seconds = began.elapsed().as_secs_f64();
    let values = Values::from([
        ("per_second", attempts as f64 / seconds),
        ("commits", served.metric("lock_journal_batch_count")? - commits),
        ("events", served.metric("lock_journal_batch_sum")? - events),
    ]);
    book.record(Key { workload: "refusals", system: SYSTEM, way: "http", size: attempts }, values);
    Ok(())
}
