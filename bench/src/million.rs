//! A million held names: memory for each, and the time to come back after kill -9.

use crate::Report;
use crate::http::Connection;
use crate::served::{Served, folder_bytes};

/// Fills a server, kills it, starts it again.
pub fn report(locks: usize) -> Report {
    let data = tempfile::tempdir().map_err(|error| error.to_string())?;
    let folder = data.path().join("data");
    let served = Served::start(Some(&folder))?;
    let empty_bytes = served.resident_bytes();
    let workers = 64;
    eprintln!("million: holding {locks} locks");
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
    let held_bytes = served.resident_bytes().saturating_sub(empty_bytes);
    served.kill();
    let disk_bytes = folder_bytes(&folder);
    eprintln!("million: starting again after kill -9");
    let served = Served::start(Some(&folder))?;
    let held = served.metric("locks_held")?;
    if held as usize != locks {
        return Err(format!("{locks} locks were held before the kill, {held} after"));
    }
    Ok(format!(
        "## {locks} held names\n\n\
         | figure | value |\n| --- | ---: |\n\
         | filled by {workers} clients over HTTP in | {filled:.1} s |\n\
         | resident memory for each held lock | {:.0} bytes |\n\
         | the same after recovery | {:.0} bytes |\n\
         | data directory | {:.1} MiB |\n\
         | from start to ready after kill -9, all {locks} held again | {:.2} s |\n",
        held_bytes as f64 / locks as f64,
        served.resident_bytes().saturating_sub(empty_bytes) as f64 / locks as f64,
        disk_bytes as f64 / 1048576.0,
        served.ready_after.as_secs_f64(),
    ))
}
