//! The watchdog: a small process beside `leasehold lock` and `leasehold elect` that ends the command in time, also when they
//! were killed or stopped. It has a session of its own, hears no signal that can be blocked, has none of the command's files
//! open, and waits on the boot-time clock. It starts no thread and asks no server.

use std::io::Write;
use std::os::fd::{AsFd, OwnedFd};
use std::process::ExitCode;

use nix::sys::signal::SigSet;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{Errno, retry_on_intr};
use rustix::process::{PidfdFlags, pidfd_open, setsid};
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, timerfd_create, timerfd_settime,
};

use super::group::Group;
use super::orders::{Notice, Order};
use super::timetable::now_us;
use super::watch::{Act, Watch};

/// An order is a short line; nobody sends more than this at once.
const ORDERS_BYTES: usize = 4096;

/// The whole life of the process. Orders come in by standard input, notices leave by standard output.
pub fn run() -> ExitCode {
    match live() {
        Ok(()) => ExitCode::SUCCESS,
        // Nobody would read a sentence. Whoever started it sees that it has gone, and starts another.
        Err(_) => ExitCode::FAILURE,
    }
}

fn live() -> rustix::io::Result<()> {
    // What is blocked for ever is never heard; SIGKILL and SIGSTOP cannot be.
    SigSet::all().thread_block().map_err(|error| Errno::from_raw_os_error(error as i32))?;
    setsid()?;
    // So that it does not keep a file system busy, and is found by its own name.
    let _ = rustix::process::chdir("/");
    let _ = rustix::thread::set_name(c"lease-watchdog");
    let mut senses = Senses {
        orders: Some(Vec::new()),
        timer: timerfd_create(TimerfdClockId::Boottime, TimerfdFlags::CLOEXEC)?,
        leader: None,
    };
    say(Notice::Ready);
    let mut watch = Watch::default();
    loop {
        match watch.next(now_us(), Group::is_empty) {
            Act::Leave => return Ok(()),
            Act::Terminate(group) => {
                // Said first: whoever sees the group end can see why.
                say(Notice::Terminated);
                group.terminate();
            }
            Act::Kill(group) => {
                say(Notice::Killed);
                group.kill();
            }
            Act::WaitUntil(at_us) => senses.wait(&mut watch, at_us)?,
        }
    }
}

/// What it hears by.
struct Senses {
    /// The beginning of an order; none once nobody gives any.
    orders: Option<Vec<u8>>,
    timer: OwnedFd,
    /// Tells when the group's leader has ended.
    leader: Option<Leader>,
}

enum Leader {
    /// By a handle on the process, which is never another's.
    Handle(OwnedFd),
    /// The system has no such handles: it may have ended at any moment.
    Unseen,
    Ended,
}

impl Senses {
    /// Waits for a time, an order or the leader's end, and takes in all that is there.
    fn wait(&mut self, watch: &mut Watch, at_us: Option<u64>) -> rustix::io::Result<()> {
        self.set(at_us)?;
        let (mut heard, mut ended) = (false, false);
        let stdin = std::io::stdin();
        let mut fds = vec![PollFd::new(&self.timer, PollFlags::IN)];
        let mut meanings = vec![None];
        if self.orders.is_some() {
            fds.push(PollFd::from_borrowed_fd(stdin.as_fd(), PollFlags::IN));
            meanings.push(Some(&mut heard));
        }
        if let Some(Leader::Handle(handle)) = &self.leader {
            fds.push(PollFd::new(handle, PollFlags::IN));
            meanings.push(Some(&mut ended));
        }
        retry_on_intr(|| poll(&mut fds, None))?;
        for (fd, meaning) in fds.iter().zip(meanings) {
            if let Some(meaning) = meaning {
                *meaning = !fd.revents().is_empty();
            }
        }
        drop(fds);
        if ended {
            self.leader = Some(Leader::Ended);
            watch.leader_ended();
        }
        if heard && !self.listen(watch)? {
            self.orders = None;
            watch.left_alone(now_us());
        }
        Ok(())
    }

    /// Takes in everything that was written. Gives whether there is still somebody to be relied on.
    fn listen(&mut self, watch: &mut Watch) -> rustix::io::Result<bool> {
        let stdin = std::io::stdin();
        let mut bytes = [0; ORDERS_BYTES];
        loop {
            let count = retry_on_intr(|| rustix::io::read(stdin.as_fd(), &mut bytes))?;
            if count == 0 || !self.take_orders(&bytes[..count], watch) {
                return Ok(false);
            }
            let mut more = [PollFd::from_borrowed_fd(stdin.as_fd(), PollFlags::IN)];
            let now = Timespec { tv_sec: 0, tv_nsec: 0 };
            if retry_on_intr(|| poll(&mut more, Some(&now)))? == 0 {
                return Ok(true);
            }
        }
    }

    /// Gives whether these were orders.
    fn take_orders(&mut self, bytes: &[u8], watch: &mut Watch) -> bool {
        let mut orders = self.orders.take().unwrap_or_default();
        orders.extend_from_slice(bytes);
        while let Some(end) = orders.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = orders.drain(..=end).take(end).collect();
            let Some(order) = std::str::from_utf8(&line).ok().and_then(Order::read) else { return false };
            let before = watch.guarded();
            watch.told(order);
            if before.is_none()
                && let Some((group, _)) = watch.guarded()
            {
                self.look_after(group, watch);
                say(Notice::Guarding);
            }
        }
        let sensible = orders.len() < ORDERS_BYTES;
        self.orders = Some(orders);
        sensible
    }

    /// The leader waits for the word that starts the command, and nobody has reaped it: it is the right process.
    fn look_after(&mut self, group: Group, watch: &mut Watch) {
        self.leader = Some(match pidfd_open(group.leader(), PidfdFlags::empty()) {
            Ok(handle) => Leader::Handle(handle),
            Err(_) => {
                watch.leader_ended();
                Leader::Unseen
            }
        });
    }

    fn set(&self, at_us: Option<u64>) -> rustix::io::Result<()> {
        // All zeros would switch it off; so does none.
        let at_us = at_us.map_or(0, |at_us| at_us.max(1));
        let it_value = Timespec {
            tv_sec: i64::try_from(at_us / 1_000_000).unwrap_or(i64::MAX),
            tv_nsec: i64::try_from(at_us % 1_000_000 * 1_000).unwrap_or(0),
        };
        let it_interval = Timespec { tv_sec: 0, tv_nsec: 0 };
        let at = Itimerspec { it_interval, it_value };
        timerfd_settime(&self.timer, TimerfdTimerFlags::ABSTIME, &at).map(drop)
    }
}

/// If nobody listens any more, the pipe of orders says so too.
fn say(notice: Notice) {
    let mut stdout = std::io::stdout();
    let _ = stdout.write_all(&[notice.byte()]).and_then(|()| stdout.flush());
}
