//! What the operating system says of this process. Where it says nothing, the metric is left out.

use std::fs;
use std::sync::LazyLock;
use std::time::{SystemTime, UNIX_EPOCH};

use rustix::time::{ClockId, clock_gettime};

static STARTED: LazyLock<SystemTime> = LazyLock::new(SystemTime::now);

/// Remembers when the process started; called first thing.
pub fn started() {
    LazyLock::force(&STARTED);
}

/// When the process started, in Unix seconds.
pub fn start_time_seconds() -> f64 {
    STARTED.duration_since(UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64())
}

/// When the process started, in Unix milliseconds.
pub fn started_wall_ms() -> u64 {
    STARTED.duration_since(UNIX_EPOCH).map_or(0, |since| u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}

/// Processor time used so far by all threads.
pub fn cpu_seconds() -> f64 {
    let used = clock_gettime(ClockId::ProcessCPUTime);
    used.tv_sec as f64 + used.tv_nsec as f64 / 1e9
}

/// Memory that is in use.
pub fn resident_bytes() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kib: u64 = line.trim().strip_suffix(" kB")?.trim().parse().ok()?;
    Some(kib * 1024)
}

/// Files and sockets that are open.
pub fn open_fds() -> Option<u64> {
    fs::read_dir("/proc/self/fd").ok().map(|entries| entries.count() as u64)
}

/// Files and sockets that may be open.
pub fn max_fds() -> Option<u64> {
    rustix::process::getrlimit(rustix::process::Resource::Nofile).current
}

/// Takes as many files and sockets as the operating system lets this user have: ten thousand connections need them.
pub fn raise_fd_limit() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    // Where it is refused, the accept loop lives with what there is.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
}
