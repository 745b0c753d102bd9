//! ZooKeeper, one server by itself with its defaults but for the number of connections from one address. Driven through its
//! lock recipe.

mod jute;
mod recipe;
mod session;

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::task::JoinSet;

use self::recipe::{Recipe, make_room};
use self::session::Session;
use super::process::{Process, find, free_port};
use super::{LockClient, Offered, Peer, Running, Skipped, Way};
use crate::drive::{Workload, names};

/// Debian's, which names all that it needs.
const JAR: &str = "/usr/share/java/zookeeper.jar";
const MAIN: &str = "org.apache.zookeeper.server.quorum.QuorumPeerMain";
/// All but paths and ports.
const CONFIGURATION: [&str; 3] = ["tickTime=2000", "maxClientCnxns=0", "admin.enableServer=false"];

/// How long it is used before it is measured.
const WARM_UP: Duration = Duration::from_secs(3);

/// ZooKeeper.
pub struct ZooKeeper;

impl Peer for ZooKeeper {
    fn name(&self) -> &'static str {
        "zookeeper"
    }

    fn title(&self) -> &'static str {
        "ZooKeeper, its lock recipe"
    }

    fn start(&self, folder: &Path) -> Result<Running, Skipped> {
        let java = find("java", &["/usr/bin"])
            .ok_or_else(|| Skipped("Java is not installed (Debian's package default-jre-headless)".into()))?;
        if !Path::new(JAR).exists() {
            return Err(Skipped("ZooKeeper is not installed (Debian's package zookeeper)".into()));
        }
        start(&java, folder).map_err(Skipped)
    }
}

fn start(java: &Path, folder: &Path) -> Result<Running, String> {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, free_port()?));
    let configuration = folder.join("zoo.cfg");
    let data = folder.join("data");
    let lines = format!(
        "dataDir={}\nclientPortAddress=127.0.0.1\nclientPort={}\n{}\n",
        data.display(),
        address.port(),
        CONFIGURATION.join("\n"),
    );
    std::fs::write(&configuration, lines).map_err(|error| format!("cannot write zoo.cfg: {error}"))?;
    let mut command = Command::new(java);
    command.args(["-cp", JAR, MAIN]).arg(&configuration).current_dir(folder);
    let mut process = Process::start(&mut command)?;
    let version = process.wait_for("first answer", |_| version(address))?;
    warm_up(address)?;
    let mut settings = vec![format!("java with its defaults, warmed up for {} s", WARM_UP.as_secs())];
    settings.extend(CONFIGURATION.map(str::to_owned));
    settings.push("all else default: forceSync=yes; a renewal is a ping, which keeps a whole session".into());
    let way = |shared| Box::new(Sessions { address, shared });
    Ok(Running {
        process,
        version,
        settings,
        ways: vec![
            Offered { name: "sessions", way: way(false), does: Workload::ALL },
            Offered { name: "shared", way: way(true), does: Workload::CYCLES },
        ],
    })
}

/// Uses the server for a while, so that Java has compiled what it does before anything is measured.
fn warm_up(address: SocketAddr) -> Result<(), String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| format!("cannot start a runtime: {error}"))?;
    runtime.block_on(async {
        let until = Instant::now() + WARM_UP;
        let mut clients = JoinSet::new();
        let ways = [Sessions { address, shared: false }, Sessions { address, shared: true }];
        for way in ways {
            for (number, mut client) in way.clients(8, Workload::Uncontended).await?.into_iter().enumerate() {
                // Some in one line, some by themselves.
                let locks = names(Workload::Uncontended, number.max(4));
                let lock = locks.into_iter().next().ok_or("there is no lock")?.1;
                clients.spawn(async move {
                    while Instant::now() < until {
                        let mut held = client.acquire(&lock).await?;
                        client.renew(&mut held).await?;
                        client.release(held).await?;
                    }
                    Ok::<(), String>(())
                });
            }
        }
        while let Some(ended) = clients.join_next().await {
            ended.map_err(|error| format!("a client panicked: {error}"))??;
        }
        Ok(())
    })
}

/// What the server itself says, once it serves.
fn version(address: SocketAddr) -> Option<String> {
    let mut stream = TcpStream::connect(address).ok()?;
    stream.set_read_timeout(Some(Duration::from_secs(5))).ok()?;
    stream.write_all(b"srvr").ok()?;
    let mut said = String::new();
    stream.read_to_string(&mut said).ok()?;
    let line = said.lines().find_map(|line| line.strip_prefix("Zookeeper version: "))?;
    Some(format!("ZooKeeper {}", line.split(',').next().unwrap_or(line)))
}

/// A session for each client, or one that all share.
struct Sessions {
    address: SocketAddr,
    shared: bool,
}

impl Way for Sessions {
    type Client = Recipe;

    async fn clients(&self, count: usize, workload: Workload) -> Result<Vec<Recipe>, String> {
        let mut clients = Vec::with_capacity(count);
        let mut session = Arc::new(Session::open(self.address).await?);
        let locks = (0..count).flat_map(|client| names(workload, client)).map(|(_, name)| name);
        make_room(&session, locks).await?;
        for number in 0..count {
            if number > 0 && !self.shared {
                session = Arc::new(Session::open(self.address).await?);
            }
            clients.push(Recipe::new(Arc::clone(&session)));
        }
        Ok(clients)
    }
}
