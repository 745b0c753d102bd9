//! `leasehold`'s end of the watchdog: starts it, tells it what to guard and until when, hears what it did, and starts another
//! when somebody has killed it. Never blocks on it: a watchdog that does not listen keeps the time that it knows, which is
//! earlier.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe;
use tokio::time::timeout;

use super::group::Group;
use super::orders::{Notice, Order};
use super::timetable::Times;
use super::{PROGRAM, WATCHDOG};

/// For a process to start and say a word, on a machine that has much else to do.
const PATIENCE: Duration = Duration::from_secs(10);

/// A watchdog that runs.
pub struct Leash {
    child: Child,
    orders: OwnedFd,
    notices: pipe::Receiver,
}

impl Leash {
    /// Starts one, out of reach of the terminal. `lock` is for whoever looks at the list of processes.
    pub async fn start(lock: &str) -> io::Result<Leash> {
        let (its_orders, orders) = io::pipe()?;
        let (notices, its_notices) = io::pipe()?;
        let child = Command::new(PROGRAM)
            .arg0("lease-watchdog")
            .args([WATCHDOG, lock])
            .stdin(its_orders)
            .stdout(its_notices)
            .stderr(Stdio::null())
            .spawn()?;
        let orders = OwnedFd::from(orders);
        fcntl_setfl(&orders, fcntl_getfl(&orders)? | OFlags::NONBLOCK)?;
        let notices = pipe::Receiver::from_owned_fd(OwnedFd::from(notices))?;
        let mut leash = Leash { child, orders, notices };
        leash.expect(Notice::Ready).await?;
        Ok(leash)
    }

    /// From here on this group is dead in time, whatever becomes of us, and so soon after our own death.
    pub async fn guard(&mut self, group: Group, survives_us: u64, times: Times) -> io::Result<()> {
        self.write(Order::Guard { group, survives_us })?;
        self.write(Order::By(times))?;
        self.expect(Notice::Guarding).await
    }

    /// Moves the time.
    pub fn set(&mut self, times: Times) {
        // What it does not hear of it cannot rely on; that it is dead is told by its notices.
        let _ = self.write(Order::By(times));
    }

    /// What it has done; none when it is dead.
    pub async fn notice(&mut self) -> Option<Notice> {
        let byte = self.notices.read_u8().await.ok()?;
        Notice::read(byte)
    }

    /// Nothing is left to guard: it goes, and so that nothing of us is left behind it is waited for. Gives whether it was
    /// the one that ended the group.
    pub async fn dismiss(mut self) -> bool {
        // One that went by itself has seen that the group is empty.
        let _ = self.write(Order::Done);
        let mut ended_it = false;
        let gone = async {
            while let Some(notice) = self.notice().await {
                ended_it |= matches!(notice, Notice::Terminated | Notice::Killed);
            }
        };
        let _ = timeout(PATIENCE, gone).await;
        let _ = self.child.try_wait();
        ended_it
    }

    fn write(&self, order: Order) -> io::Result<()> {
        let line = order.line();
        // A pipe takes so little as a whole or not at all.
        let written = rustix::io::write(&self.orders, line.as_bytes())?;
        assert_eq!(written, line.len(), "an order is not torn");
        Ok(())
    }

    async fn expect(&mut self, expected: Notice) -> io::Result<()> {
        let told = timeout(PATIENCE, self.notices.read_u8()).await;
        match told.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))?.map(Notice::read)? {
            Some(notice) if notice == expected => Ok(()),
            told => Err(io::Error::other(format!("the watchdog says {told:?}"))),
        }
    }
}
