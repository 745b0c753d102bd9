//! What a held request costs: nothing on the disk.

use crate::Report;
use crate::http::Connection;
use crate::served::Served;

/// Refuses many attempts on a held lock and counts commits and journaled events meanwhile.
pub fn report(quick: bool) -> Report {
    let attempts = if quick { 2_000 } else { 20_000 };
    eprintln!("refusals: {attempts} attempts");
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
    Ok(format!(
        "## Attempts on a held lock\n\n{attempts} refused attempts of one client in {seconds:.2} s: {} journal commits with {} \
         events (the horizon is written about once a second while anything is held; nothing else is).\n",
        served.metric("lock_journal_batch_count")? - commits,
        served.metric("lock_journal_batch_sum")? - events,
    ))
}
