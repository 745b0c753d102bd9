//! Runs a command under a lease, from its start to the moment when nobody is left in its group: one loop that looks at the clock
//! before anything else, each time it wakes.

use std::ffi::OsString;
use std::io;
use std::time::Duration;

use leasehold_client::{Clock, Lease};
use rustix::process::{Signal, WaitOptions, WaitStatus, getpid, set_child_subreaper, wait};

use super::group::Group;
use super::leash::Leash;
use super::orders::Notice;
use super::say;
use super::signals::{self, Signals};
use super::start::Starting;
use super::terminal::Terminal;
use super::timetable::Times;
use super::watch::LOOK_EVERY_US;

/// How long past its time a silent watchdog is waited for before we do its work; a quarter of what it has, if that is less.
const GRACE_US: u64 = 250_000;

/// What is to be run, and under what.
pub struct Task<'a> {
    /// The lease. It is asked anew at each look: what anybody else believed of it before does not count.
    pub lease: &'a Lease,
    /// The clock that it is counted on.
    pub clock: &'a dyn Clock,
    /// The command and its arguments.
    pub command: &'a [OsString],
    /// What it finds in its environment besides our own.
    pub environment: Vec<(&'static str, String)>,
    /// For how long it may go on after our own death, in microseconds, if its lease does not end that sooner.
    pub survives_us: u64,
}

/// How it ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ran {
    /// The command and all it left behind ended while the lease lasted.
    Ended {
        /// The command's status, as shells count it.
        status: u8,
    },
    /// The lease was lost before that.
    Lost {
        /// Somebody could not be ended: it belongs to another user, or hangs in the kernel.
        left_behind: bool,
        /// We had been asked to end the command anyhow.
        asked_to_end: bool,
    },
    /// It was not even started: the lease was lost before, or this signal came.
    NotStarted {
        /// Which one.
        asked_to_end: Option<Signal>,
    },
}

/// Runs it. An error means that it was not started.
pub async fn run(task: &Task<'_>, signals: &mut Signals) -> io::Result<Ran> {
    // What the command leaves behind becomes our child when its parent ends, so that it is reaped whoever is process 1.
    let _ = set_child_subreaper(Some(getpid()));
    let mut leash = Leash::start(task.lease.lock()).await?;
    let starting = Starting::spawn(task.command, &task.environment)?;
    let group = starting.group();
    let ttl_us = us(task.lease.ttl().unwrap_or_default());
    // If it is over before it began, the first look finds that, and the command is not started.
    let times = Times::of(task.lease.believed_until_us().unwrap_or(0), ttl_us);
    leash.guard(group, task.survives_us, times).await?;
    let mut running = Running {
        task,
        group,
        times,
        ttl_us,
        leash: Some(leash),
        terminal: Terminal::open(),
        status: None,
        lost: false,
        terminated: false,
        killed_us: None,
        asked_to_end: None,
    };
    while let Some(signal) = signals.come() {
        running.asked_to_end = Some(signal).filter(|signal| signals::ends(*signal)).or(running.asked_to_end);
    }
    running.look();
    if running.lost || running.asked_to_end.is_some() {
        drop(starting);
        return Ok(running.never_started().await);
    }
    if let Some(terminal) = &running.terminal {
        terminal.lend(group);
    }
    if let Err(error) = starting.go() {
        running.never_started().await;
        return Err(error);
    }
    Ok(running.until_nobody_is_left(signals).await)
}

struct Running<'a> {
    task: &'a Task<'a>,
    group: Group,
    times: Times,
    ttl_us: u64,
    /// None when there is no watchdog to be had: then we are alone in keeping the time, and keep it short.
    leash: Option<Leash>,
    terminal: Option<Terminal>,
    status: Option<u8>,
    lost: bool,
    terminated: bool,
    /// When SIGKILL was sent.
    killed_us: Option<u64>,
    asked_to_end: Option<Signal>,
}

impl Running<'_> {
    async fn until_nobody_is_left(mut self, signals: &mut Signals) -> Ran {
        let Task { lease, clock, .. } = *self.task;
        loop {
            self.look();
            self.reap();
            if self.is_over() || clock.now_us() >= self.give_up_us() {
                break;
            }
            let (alarm, known_us) = (clock.sleep_until(self.wake_us()), self.times.term_us);
            tokio::select! {
                biased;
                // A renewal, or its end: the next look takes either in.
                _ = lease.believed_beyond(known_us), if !self.lost => {}
                notice = notice(&mut self.leash) => match notice {
                    Some(notice) => self.noticed(notice),
                    // It has seen that the group is empty.
                    None if self.is_over() => self.leash = None,
                    None => self.replace_watchdog().await,
                },
                signal = signals.next() => self.hear(signal),
                () = alarm => {}
            }
        }
        let left_behind = !self.is_over();
        self.tidy_up().await;
        match self.status {
            Some(status) if !self.lost => Ran::Ended { status },
            _ => Ran::Lost { left_behind, asked_to_end: self.asked_to_end.is_some() },
        }
    }

    async fn never_started(mut self) -> Ran {
        self.group.kill();
        self.tidy_up().await;
        Ran::NotStarted { asked_to_end: self.asked_to_end }
    }

    async fn tidy_up(&mut self) {
        if let Some(terminal) = &self.terminal {
            terminal.take_back(self.group);
        }
        if let Some(leash) = self.leash.take() {
            self.lost |= leash.dismiss().await;
        }
        self.reap();
    }

    /// The clock and the lease come first, whatever woke us. If the time has come, the watchdog has most likely done all
    /// this already.
    fn look(&mut self) {
        if self.killed_us.is_some() || self.is_over() {
            return;
        }
        match self.task.lease.believed_until_us() {
            _ if self.lost => {}
            Ok(until_us) => self.set(Times::of(until_us, self.ttl_us)),
            Err(_) => self.lose(),
        }
        let now_us = self.now_us();
        if now_us >= self.times.kill_us {
            self.killed_us = Some(now_us);
            self.lost = true;
            self.group.kill();
        } else if !self.terminated && now_us >= self.own_term_us() {
            self.terminated = true;
            self.lost = true;
            self.group.terminate();
        }
    }

    fn now_us(&self) -> u64 {
        self.task.clock.now_us()
    }

    /// Whether nobody is left. Its number may be another's then, and is never signalled.
    fn is_over(&self) -> bool {
        self.status.is_some() && self.group.is_empty()
    }

    /// When we send SIGTERM ourselves, if the watchdog has not.
    fn own_term_us(&self) -> u64 {
        let Times { term_us, kill_us } = self.times;
        match self.leash {
            Some(_) => term_us.saturating_add(GRACE_US.min(kill_us.saturating_sub(term_us) / 4)),
            None => term_us,
        }
    }

    fn wake_us(&self) -> u64 {
        let due_us = match (self.killed_us, self.terminated) {
            (Some(_), _) => self.give_up_us(),
            (None, true) => self.times.kill_us,
            (None, false) => self.own_term_us(),
        };
        let look_us = match self.status {
            Some(_) => self.now_us() + LOOK_EVERY_US,
            None => u64::MAX,
        };
        due_us.min(look_us)
    }

    /// What does not die of SIGKILL is waited for until the TTL is over, and no longer: the lock is lost anyhow.
    fn give_up_us(&self) -> u64 {
        self.killed_us.map_or(u64::MAX, |killed_us| killed_us.max(self.times.kill_us) + self.ttl_us / 4)
    }

    fn lose(&mut self) {
        self.lost = true;
        let times = self.times.brought_forward(self.now_us());
        self.set(times);
    }

    fn set(&mut self, times: Times) {
        if self.terminated || self.killed_us.is_some() || times == self.times {
            return;
        }
        self.times = times;
        if let Some(leash) = &mut self.leash {
            leash.set(times);
        }
    }

    fn noticed(&mut self, notice: Notice) {
        match notice {
            Notice::Ready | Notice::Guarding => {}
            // It may have acted at the very moment when a renewal was confirmed: there is no way back.
            Notice::Terminated => (self.terminated, self.lost) = (true, true),
            Notice::Killed => {
                self.lost = true;
                self.killed_us.get_or_insert(self.now_us());
            }
        }
    }

    fn hear(&mut self, signal: Signal) {
        if signals::stops(signal) {
            self.asked_to_end = Some(signal);
        }
        match signal {
            Signal::CHILD => {}
            Signal::CONT => self.resume(),
            Signal::TERM if !self.is_over() => self.group.terminate(),
            signal if !self.is_over() => self.group.signal(signal),
            _ => {}
        }
    }

    /// Takes in what children have to say, and what the command left to us.
    fn reap(&mut self) {
        while let Ok(Some((pid, status))) = wait(WaitOptions::NOHANG | WaitOptions::UNTRACED) {
            if pid != self.group.leader() {
                continue;
            }
            match status.stopping_signal().and_then(Signal::from_named_raw) {
                Some(signal) => self.stopped(signal),
                None => {
                    self.status = Some(shell_status(status));
                    // Whether it ended before its time or because of it cannot be told any more.
                    self.lost |= self.now_us() >= self.times.term_us;
                    // Nobody else would ever continue what it left behind stopped.
                    self.group.signal(Signal::CONT);
                }
            }
        }
    }

    /// The command was stopped. If the terminal did it, so are we, as one job; otherwise we go on renewing.
    fn stopped(&mut self, signal: Signal) {
        let Some(terminal) = &mut self.terminal else { return };
        match signal {
            Signal::TTIN | Signal::TTOU => {
                terminal.wanted();
                if terminal.is_ours() {
                    self.resume();
                    return;
                }
            }
            Signal::TSTP => terminal.take_back(self.group),
            _ => return,
        }
        if !self.lost {
            let left_us = self.times.term_us.saturating_sub(self.now_us());
            say(format_args!(
                "{} is not renewed while we are stopped: its command is ended in {} s unless continued",
                self.task.lease.lock(),
                left_us / 1_000_000
            ));
        }
        signals::stop();
        self.resume();
    }

    /// Goes on with the command after a stop, unless its time has come meanwhile.
    fn resume(&mut self) {
        self.look();
        if self.killed_us.is_some() || self.is_over() {
            return;
        }
        if let Some(terminal) = &self.terminal {
            terminal.lend(self.group);
        }
        self.group.signal(Signal::CONT);
    }

    /// Somebody has killed the watchdog.
    async fn replace_watchdog(&mut self) {
        self.leash = None;
        let (task, group, times) = (self.task, self.group, self.times);
        let started = async {
            let mut leash = Leash::start(task.lease.lock()).await?;
            leash.guard(group, task.survives_us, times).await?;
            io::Result::Ok(leash)
        };
        let leash = tokio::select! {
            leash = started => leash,
            () = task.clock.sleep_until(times.term_us) => Err(io::ErrorKind::TimedOut.into()),
        };
        match leash {
            Ok(leash) => self.leash = Some(leash),
            Err(error) => {
                say(format_args!(
                    "ending the command: its watchdog was killed and cannot be replaced: {error}"
                ));
                self.lose();
            }
        }
    }
}

/// Resolves only if there is a watchdog.
async fn notice(leash: &mut Option<Leash>) -> Option<Notice> {
    match leash {
        Some(leash) => leash.notice().await,
        None => std::future::pending().await,
    }
}

/// As shells count it.
fn shell_status(status: WaitStatus) -> u8 {
    let number = match (status.exit_status(), status.terminating_signal()) {
        (Some(code), _) => code,
        (None, Some(signal)) => 128 + signal,
        (None, None) => 0,
    };
    u8::try_from(number).unwrap_or(u8::MAX)
}

/// In microseconds.
pub fn us(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}
