//! What `leasehold` and its watchdog say to each other: lines of text over two pipes. Both are the same program, so that there
//! is one version of it.

use rustix::process::{Pid, RawPid};

use super::group::Group;
use super::timetable::Times;

/// What the watchdog is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// This group must be dead in time.
    Guard {
        /// The group.
        group: Group,
        /// How soon after our own death at the latest, in microseconds.
        survives_us: u64,
    },
    /// That time, from now on.
    By(Times),
    /// The group is empty: nothing is left to guard.
    Done,
}

/// What the watchdog says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Notice {
    /// It is out of reach of the terminal, and listens.
    Ready,
    /// It knows a group and a time.
    Guarding,
    /// It sends SIGTERM: there is no way back.
    Terminated,
    /// It sends SIGKILL.
    Killed,
}

impl Order {
    /// As it is written. Short enough for a pipe to take it as a whole or not at all.
    pub fn line(self) -> String {
        match self {
            Order::Guard { group, survives_us } => {
                format!("guard {} {survives_us}\n", group.leader().as_raw_nonzero())
            }
            Order::By(Times { term_us, kill_us }) => format!("by {term_us} {kill_us}\n"),
            Order::Done => "done\n".into(),
        }
    }

    /// As it is read.
    pub fn read(line: &str) -> Option<Order> {
        let mut words = line.split(' ');
        let order = match words.next()? {
            "guard" => {
                let number = words.next()?.parse::<RawPid>().ok().filter(|number| *number > 1)?;
                let survives_us = words.next()?.parse().ok()?;
                Order::Guard { group: Group::led_by(Pid::from_raw(number)?), survives_us }
            }
            "by" => {
                let (term_us, kill_us) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
                Order::By(Times { term_us, kill_us })
            }
            "done" => Order::Done,
            _ => return None,
        };
        words.next().is_none().then_some(order)
    }
}

impl Notice {
    /// As it is written.
    pub fn byte(self) -> u8 {
        match self {
            Notice::Ready => b'r',
            Notice::Guarding => b'g',
            Notice::Terminated => b't',
            Notice::Killed => b'k',
        }
    }

    /// As it is read.
    pub fn read(byte: u8) -> Option<Notice> {
        [Notice::Ready, Notice::Guarding, Notice::Terminated, Notice::Killed]
            .into_iter()
            .find(|notice| notice.byte() == byte)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let group = Group::led_by(Pid::from_raw(4711).unwrap());
        let by = Order::By(Times { term_us: 1, kill_us: u64::MAX });
        for order in [Order::Guard { group, survives_us: 7 }, by, Order::Done] {
            assert_eq!(Order::read(order.line().strip_suffix('\n').unwrap()), Some(order));
        }
        for notice in [Notice::Ready, Notice::Guarding, Notice::Terminated, Notice::Killed] {
            assert_eq!(Notice::read(notice.byte()), Some(notice));
        }
    }

    #[test]
    fn what_makes_no_sense_is_not_guessed() {
        for line in [
            "",
            "guard",
            "guard 8",
            "guard 0 8",
            "guard 1 8",
            "guard -1 8",
            "guard x 8",
            "by 1",
            "by 1 2 3",
            "done now",
            "go",
        ] {
            assert_eq!(Order::read(line), None, "{line}");
        }
    }
}
