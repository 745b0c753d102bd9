//! What the operating system tells `leasehold`, in one line: signals to pass on to the command, and news of children. What was
//! ignored when it was started stays ignored, for the command too: `nohup` and background jobs of scripts rely on it.

use std::io;

use rustix::process::Signal;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;

/// Passed on to the command. While there is none, the first four end the wait for it, and SIGTSTP and SIGCONT stop it.
const PASSED_ON: [Signal; 10] = [
    Signal::TERM,
    Signal::INT,
    Signal::HUP,
    Signal::QUIT,
    Signal::USR1,
    Signal::USR2,
    Signal::ALARM,
    Signal::WINCH,
    Signal::TSTP,
    Signal::CONT,
];

/// Signals as they arrive.
pub struct Signals {
    heard: mpsc::UnboundedReceiver<Signal>,
}

impl Signals {
    /// From here on none of these has its default effect on us. Needs a runtime.
    pub fn listen() -> io::Result<Signals> {
        let (hear, heard) = mpsc::unbounded_channel();
        let ignored = ignored();
        for kind in PASSED_ON.into_iter().chain([Signal::CHILD]) {
            if ignored & mask(kind) != 0 && kind != Signal::CHILD {
                continue;
            }
            let mut stream = signal(SignalKind::from_raw(kind.as_raw()))?;
            let hear = hear.clone();
            tokio::spawn(async move { while stream.recv().await.is_some() && hear.send(kind).is_ok() {} });
        }
        Ok(Signals { heard })
    }

    /// The next one.
    pub async fn next(&mut self) -> Signal {
        match self.heard.recv().await {
            Some(signal) => signal,
            None => std::future::pending().await,
        }
    }

    /// The next one, if it has come already.
    pub fn come(&mut self) -> Option<Signal> {
        self.heard.try_recv().ok()
    }

    /// Resolves with a signal that means "go away" to somebody who only waits. Stops for who says stop.
    pub async fn end(&mut self) -> Signal {
        loop {
            match self.next().await {
                Signal::TSTP => stop(),
                signal if ends(signal) => return signal,
                _ => {}
            }
        }
    }
}

/// Whether it ends somebody who only waits.
pub fn ends(signal: Signal) -> bool {
    [Signal::TERM, Signal::INT, Signal::HUP, Signal::QUIT].contains(&signal)
}

/// Whether it asks a command to end for good. The others may mean anything to it.
pub fn stops(signal: Signal) -> bool {
    [Signal::TERM, Signal::INT].contains(&signal)
}

/// Stops this process, as Ctrl-Z stops others; returns when it was continued. SIGTSTP itself is passed on, so another of the
/// terminal's signals does it. Where nobody could ever continue it (no shell stands above), the system does not stop it.
pub fn stop() {
    let _ = nix::sys::signal::raise(nix::sys::signal::Signal::SIGTTIN);
}

/// Signals that are ignored, a bit each. What cannot be read is taken for none.
fn ignored() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let bits = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    bits.and_then(|bits| u64::from_str_radix(bits.trim(), 16).ok()).unwrap_or(0)
}

fn mask(signal: Signal) -> u64 {
    1 << (signal.as_raw() - 1)
}
