//! A way to the server on which connections are cut, stand still or dribble, and answers are lost. Each fault counts only if
//! it met somebody.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::sleep;
use std::time::Duration;

use tokio::runtime::{Builder, Runtime};

#[allow(dead_code, clippy::expect_used, reason = "the client's tests use more of it, and in their way")]
#[path = "../../../../client/tests/client/proxy.rs"]
mod proxy;

use proxy::{Proxy, Way};

/// What can go wrong on the way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Trouble {
    /// All connections end at once.
    Cut,
    /// Nothing goes on for a while, and then everything does.
    Stall,
    /// Bytes to the server go on one at a time.
    DribbleToServer,
    /// Bytes to the clients do.
    DribbleToClients,
    /// Requests arrive and their answers are lost, with the connections.
    LoseAnswers,
    /// Old connections stand still and end late; new ones are well. Whoever asks again does so beside its old request.
    EndLate,
}

impl Trouble {
    pub const ALL: [Trouble; 6] = [
        Trouble::Cut,
        Trouble::Stall,
        Trouble::DribbleToServer,
        Trouble::DribbleToClients,
        Trouble::LoseAnswers,
        Trouble::EndLate,
    ];
}

/// The way.
pub struct Weather {
    proxy: Proxy,
    runtime: Runtime,
}

impl Weather {
    pub fn before(server: SocketAddr) -> Weather {
        let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        Weather { proxy: runtime.block_on(Proxy::to(server)), runtime }
    }

    pub fn address(&self) -> SocketAddr {
        self.proxy.address
    }

    /// One fault, for a while. How many connections or bytes it met.
    pub fn trouble(&self, trouble: Trouble, time: Duration) -> u64 {
        // Under the runtime, for what the proxy starts.
        let _inside = self.runtime.enter();
        let counts = &self.proxy.counts;
        let open = counts.open.load(Ordering::SeqCst);
        let met = |count: &AtomicU64, fault: &dyn Fn(Way)| {
            let before = count.load(Ordering::SeqCst);
            fault(if trouble == Trouble::LoseAnswers { Way::Drop } else { Way::Dribble });
            sleep(time);
            if trouble == Trouble::LoseAnswers {
                // A connection that has lost bytes is of no use to anybody.
                self.proxy.cut();
            }
            fault(Way::Forward);
            count.load(Ordering::SeqCst) - before
        };
        match trouble {
            Trouble::Cut => {
                self.proxy.cut();
                open
            }
            Trouble::Stall => {
                self.proxy.to_server(Way::Stall);
                self.proxy.to_client(Way::Stall);
                sleep(time);
                self.proxy.to_server(Way::Forward);
                self.proxy.to_client(Way::Forward);
                open
            }
            Trouble::DribbleToServer => met(&counts.dribbled_bytes, &|way| self.proxy.to_server(way)),
            Trouble::DribbleToClients => met(&counts.dribbled_bytes, &|way| self.proxy.to_client(way)),
            Trouble::LoseAnswers => met(&counts.dropped_bytes, &|way| self.proxy.to_client(way)),
            Trouble::EndLate => {
                let last = self.proxy.connections();
                self.proxy.freeze();
                sleep(time);
                // Somebody has asked again meanwhile; only the old ones end now.
                self.proxy.cut_through(last);
                open
            }
        }
    }
}
