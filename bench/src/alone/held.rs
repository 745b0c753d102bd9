//! A million held names: memory for each, and the time to come back after kill -9.

use crate::alone::SYSTEM;
use crate::book::{Book, Key};
use crate::compare::Scale;
use crate::drive::Values;
use crate::http::Connection;
use crate::served::{Served, folder_bytes};

/// Fills a server, kills it, starts it again.
pub fn measure(scale: Scale, book: &mut Book) -> Result<(), String> {
    let locks = if scale.quick { 100_000 } else { 1_000_000 };
    let data = tempfile::tempdir().map_err(|error| error.to_string())?;
    let folder = data.path().join("data");
    let served = Served::start(Some(&folder))?;
    let empty_bytes = served.process.resident_bytes();
    let workers = 64;
    let began = std::time::Instant::now();
    std::thread::scope(|scope| {
        let all: Vec<_> = (0..workers)
            .map(|worker| {
                let address = served.address;
                scope.spawn(move || -> Result<(), String> {
                    let mut connection = Connection::open(address)?;
                    for lock in (worker..locks).step_by(workers) {
                        let path = format!("/v1/locks/job-{lock:07}/acquire");
                        let body = format!("{{\"owner_id\":\"worker-{worker}\",\"ttl_ms\":86400000}}");
                        let (status, answer) = connection.call("POST", &path, &body)?;
                        if status != 200 {
                            return Err(format!("{path} was answered {status}: {answer}"));
                        }
                    }
                    Ok(())
                })
            })
            .collect();
        all.into_iter().try_for_each(|worker| worker.join().map_err(|_| "a worker panicked".to_string())?)
    })?;
    let filled = began.elapsed().as_secs_f64();
    let held_bytes = served.process.resident_bytes().saturating_sub(empty_bytes);
    drop(served);
    let disk_bytes = folder_bytes(&folder);
    let served = Served::start(Some(&folder))?;
    let held = served.metric("locks_held")?;
    if held as usize != locks {
        return Err(format!("{locks} locks were held before the kill, {held} after"));
    }
    let after_bytes = served.process.resident_bytes().saturating_sub(empty_bytes);
    let values = Values::from([
        ("fill_s", filled),
        ("memory_each_bytes", held_bytes as f64 / locks as f64),
        ("memory_each_recovered_bytes", after_bytes as f64 / locks as f64),
        ("disk_bytes", disk_bytes as f64),
        ("recover_s", served.ready_after.as_secs_f64()),
    ]);
    book.record(Key { workload: "held", system: SYSTEM, way: "http", size: locks }, values);
    Ok(())
}
