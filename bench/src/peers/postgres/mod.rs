//! PostgreSQL, made in an empty folder with its defaults but for the number of connections. As two systems: its advisory
//! locks, which no disk keeps, and a leased row in a table, which is durable.

mod advisory;
mod connection;
mod leased_row;
mod pool;
mod wire;

use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::process::Signal;

use self::connection::Connection;
use super::process::{Process, find, free_port, version};
use super::{Offered, Peer, Running, Skipped};
use crate::drive::Workload;

/// Who may do everything in a new database.
const SUPERUSER: &str = "postgres";
/// Enough for a connection each where most clients are measured.
const CONNECTIONS_MAX: usize = 1040;
/// Connections of the pool: more than two cores can use, so that commits share their syncs.
const POOL: usize = 32;

/// PostgreSQL, in one of two uses.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Postgres {
    /// `pg_advisory_lock`.
    Advisory,
    /// A row with an expiry.
    LeasedRow,
}

impl Peer for Postgres {
    fn name(&self) -> &'static str {
        match self {
            Postgres::Advisory => "postgres-advisory",
            Postgres::LeasedRow => "postgres-row",
        }
    }

    fn title(&self) -> &'static str {
        match self {
            Postgres::Advisory => "PostgreSQL, advisory locks",
            Postgres::LeasedRow => "PostgreSQL, a leased row",
        }
    }

    fn start(&self, folder: &Path) -> Result<Running, Skipped> {
        let program = program()
            .ok_or_else(|| Skipped("PostgreSQL is not installed (Debian's package postgresql)".into()))?;
        start(*self, &program, folder).map_err(Skipped)
    }
}

/// The newest that is installed. Debian keeps it off the path.
fn program() -> Option<PathBuf> {
    let versions = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let mut versions: Vec<(u32, String)> = versions
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .map(|version| (version, format!("/usr/lib/postgresql/{version}/bin")))
        .collect();
    versions.sort_by_key(|(version, _)| std::cmp::Reverse(*version));
    let folders: Vec<&str> = versions.iter().map(|(_, folder)| folder.as_str()).collect();
    // A link on the path leads to where its sister programs are.
    find("postgres", &folders)?.canonicalize().ok()
}

fn start(postgres: Postgres, program: &Path, folder: &Path) -> Result<Running, String> {
    let identity = identity()?;
    if let Some((user, group)) = identity {
        hand_over(folder, user, group).map_err(|error| format!("cannot hand over a folder: {error}"))?;
    }
    let command = |program: &Path| {
        let mut command = Command::new(program);
        if let Some((user, group)) = identity {
            command.uid(user).gid(group);
        }
        // Not the folder of whoever started this, which it may not be allowed to enter.
        command.current_dir("/").env_remove("PGDATA");
        command
    };
    let data = folder.join("data");
    let made = command(&program.with_file_name("initdb"))
        .args(["--username", SUPERUSER, "--auth", "trust", "--encoding", "UTF8", "--locale", "C", "--pgdata"])
        .arg(&data)
        .output()
        .map_err(|error| format!("cannot start initdb: {error}"))?;
    if !made.status.success() {
        return Err(format!("initdb failed: {}", String::from_utf8_lossy(&made.stderr).trim()));
    }
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, free_port()?));
    let connections = format!("max_connections={CONNECTIONS_MAX}");
    let mut serve = command(program);
    serve.arg("-D").arg(&data).args(["-p", &address.port().to_string(), "-h", "127.0.0.1", "-k", ""]);
    // It keeps a little shared memory, which outlives a killed server.
    let mut process = Process::start(serve.args(["-c", &connections]))?.ending_on(Signal::QUIT);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| format!("cannot start a runtime: {error}"))?;
    let open = || runtime.block_on(Connection::open(address, SUPERUSER)).ok();
    let mut first = process.wait_for("first answer", |_| open())?;
    let mut settings = vec![
        "initdb --locale C --auth trust".into(),
        format!("{connections}, all else default: fsync=on, synchronous_commit=on, shared_buffers=128MB"),
    ];
    let ways = match postgres {
        Postgres::Advisory => {
            settings.push("SELECT pg_advisory_lock($1), a session for each client; not durable".into());
            let way = Box::new(advisory::Sessions { address });
            vec![Offered { name: "connections", way, does: Workload::CYCLES }]
        }
        Postgres::LeasedRow => {
            runtime.block_on(first.query(leased_row::TABLE))?;
            settings.push(leased_row::ACQUIRE.into());
            settings
                .push("who waits asks again after 1 to 16 ms, each pause twice the one before, and reads before it writes".into());
            let way = |connections_max| Box::new(leased_row::Pooled { address, connections_max });
            vec![
                Offered { name: "connections", way: way(usize::MAX), does: Workload::ALL },
                Offered { name: "pool", way: way(POOL), does: Workload::ALL },
            ]
        }
    };
    Ok(Running { process, version: version(program, "--version")?, settings, ways })
}

/// As whom the server runs: PostgreSQL refuses to run as root.
fn identity() -> Result<Option<(u32, u32)>, String> {
    if !rustix::process::geteuid().is_root() {
        return Ok(None);
    }
    let accounts = std::fs::read_to_string("/etc/passwd").map_err(|error| format!("/etc/passwd: {error}"))?;
    let found = ["postgres", "nobody"].iter().find_map(|name| account(&accounts, name));
    found.map(Some).ok_or_else(|| "PostgreSQL refuses to run as root, and no other account is there".into())
}

/// The numbers of an account and of its group.
fn account(accounts: &str, name: &str) -> Option<(u32, u32)> {
    let line = accounts.lines().find(|line| line.split(':').next() == Some(name))?;
    let mut numbers = line.split(':').skip(2);
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

/// Gives a folder to an account, which may also pass through the folder that it is in.
fn hand_over(folder: &Path, user: u32, group: u32) -> std::io::Result<()> {
    chown(folder, Some(user), Some(group))?;
    if let Some(parent) = folder.parent() {
        let mode = std::fs::metadata(parent)?.permissions().mode();
        std::fs::set_permissions(parent, std::fs::Permissions::from_mode(mode | 0o011))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::account;

    #[test]
    fn an_account_is_found_by_its_whole_name() {
        let accounts =
            "root:x:0:0:root:/root:/bin/sh\npostgresql:x:5:6::/:\npostgres:x:101:104:,,,:/var:/bin/sh\n";
        assert_eq!(account(accounts, "postgres"), Some((101, 104)));
        assert_eq!(account(accounts, "nobody"), None);
    }
}
