//! Network namespaces with one wire each to the server's, and rules that drop packets on them. Gone when dropped. Nothing
//! outside the namespaces is changed.

use std::fs::File;
use std::io::Write;
use std::net::Ipv4Addr;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use super::needs::missing;
use crate::program::clear;

/// The server's namespace and one for each of its clients.
pub struct Network {
    server: String,
    clients: Vec<String>,
}

/// Which packets are lost, as a client sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    ToServer,
    FromServer,
    Both,
}

impl Network {
    /// So many clients, each with an address of its own and one of the server's at the other end.
    pub fn new(clients: usize) -> Network {
        static NETWORKS: AtomicU32 = AtomicU32::new(0);
        let word = format!("lh{}x{}", std::process::id(), NETWORKS.fetch_add(1, Ordering::Relaxed));
        let network = Network {
            server: format!("{word}s"),
            clients: (0..clients).map(|n| format!("{word}c{n}")).collect(),
        };
        for name in network.names() {
            ip(&["netns", "add", name]);
        }
        for (n, client) in network.clients.iter().enumerate() {
            let (near, far) = (format!("w{n}"), "wire".to_owned());
            ip(&[
                "-n",
                &network.server,
                "link",
                "add",
                &near,
                "type",
                "veth",
                "peer",
                "name",
                &far,
                "netns",
                client,
            ]);
            let address = |host: u8| format!("{}/24", Network::address(n, host));
            ip(&["-n", &network.server, "addr", "add", &address(1), "dev", &near]);
            ip(&["-n", &network.server, "link", "set", &near, "up"]);
            ip(&["-n", client, "addr", "add", &address(2), "dev", &far]);
            ip(&["-n", client, "link", "set", &far, "up"]);
        }
        network
    }

    fn names(&self) -> impl Iterator<Item = &String> {
        std::iter::once(&self.server).chain(&self.clients)
    }

    fn address(client: usize, host: u8) -> Ipv4Addr {
        Ipv4Addr::new(10, 99, u8::try_from(client).unwrap(), host)
    }

    /// The server's address on a client's wire.
    pub fn server_address(&self, client: usize) -> Ipv4Addr {
        Network::address(client, 1)
    }

    pub fn client_path(&self, client: usize) -> PathBuf {
        Path::new("/run/netns").join(&self.clients[client])
    }

    /// A command that runs this program in the server's namespace.
    pub fn command(&self, program: &str) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.server, program]);
        clear(&mut command);
        command
    }

    /// From now on a client's packets are lost.
    pub fn cut(&self, client: usize, cut: Cut) {
        let chain = |hook: &str| {
            format!(
                "chain {hook} {{\ntype filter hook {hook} priority 0\noifname != \"lo\" counter drop\n}}\n"
            )
        };
        let input = chain("input").replace("oifname", "iifname");
        let chains = match cut {
            Cut::ToServer => chain("output"),
            Cut::FromServer => input,
            Cut::Both => chain("output") + &input,
        };
        self.rules(client, &format!("table inet faults {{\n{chains}}}\n"));
    }

    /// Ends that; how many packets were lost.
    pub fn heal(&self, client: usize) -> u64 {
        let listed = Command::new("ip")
            .args(["netns", "exec", &self.clients[client], "nft", "list", "ruleset"])
            .output()
            .unwrap();
        let text = String::from_utf8(listed.stdout).unwrap();
        let words: Vec<&str> = text.split_whitespace().collect();
        let counts = words.windows(2).filter(|pair| pair[0] == "packets");
        let lost = counts.map(|pair| pair[1].parse::<u64>().unwrap()).sum();
        self.rules(client, "flush ruleset");
        lost
    }

    fn rules(&self, client: usize, text: &str) {
        let mut nft = Command::new("ip")
            .args(["netns", "exec", &self.clients[client], "nft", "-f", "-"])
            .stdin(Stdio::piped())
            .spawn()
            .unwrap();
        nft.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
        assert!(nft.wait().unwrap().success(), "{}", missing(&format!("nft refuses {text}")));
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        for name in self.names() {
            let _ = Command::new("ip").args(["netns", "del", name]).status();
        }
    }
}

fn ip(arguments: &[&str]) {
    let done = Command::new("ip").args(arguments).output().unwrap();
    let said = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "{}", missing(&format!("ip {arguments:?} says {said}")));
}

/// The calling thread lives there from now on: what it connects to, it finds there.
pub fn enter(path: &Path) {
    let namespace = File::open(path).unwrap();
    move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network)).unwrap();
}
