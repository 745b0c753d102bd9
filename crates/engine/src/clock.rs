//! Reads the machine's clocks, at one place. Decides nothing; the engine itself never reads a clock.

use std::io;
use std::time::{SystemTime, UNIX_EPOCH};

use leasehold_state_machine::codec::BootId;
use rustix::time::{ClockId, clock_gettime};

/// One look at both clocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Reading {
    /// The boot clock: monotonic, and running during suspend.
    pub raw_us: u64,
    /// The wall clock in Unix milliseconds.
    pub wall_ms: u64,
}

/// Where readings come from.
pub trait Clock: Send + Sync {
    /// Reads both clocks.
    fn read(&self) -> Reading;

    /// Reads the boot clock alone.
    fn raw_us(&self) -> u64 {
        self.read().raw_us
    }

    /// Names the boot in which the boot clock counts.
    fn boot_id(&self) -> BootId;
}

/// The clocks of this machine.
#[derive(Clone, Copy, Debug)]
pub struct MachineClock {
    boot_id: BootId,
}

impl MachineClock {
    /// Finds out which boot this is.
    pub fn new() -> io::Result<MachineClock> {
        let text = std::fs::read_to_string(BOOT_ID_PATH)?;
        let boot_id = parse_boot_id(&text).ok_or_else(|| {
            io::Error::new(io::ErrorKind::InvalidData, format!("{BOOT_ID_PATH} does not hold a boot id"))
        })?;
        Ok(MachineClock { boot_id })
    }
}

const BOOT_ID_PATH: &str = "/proc/sys/kernel/random/boot_id";

impl Clock for MachineClock {
    fn read(&self) -> Reading {
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Reading { raw_us: self.raw_us(), wall_ms: u64::try_from(wall.as_millis()).unwrap_or(u64::MAX) }
    }

    fn raw_us(&self) -> u64 {
        let time = clock_gettime(ClockId::Boottime);
        let (seconds, nanoseconds) = (u64::try_from(time.tv_sec), u64::try_from(time.tv_nsec));
        seconds.unwrap_or(0) * 1_000_000 + nanoseconds.unwrap_or(0) / 1000
    }

    fn boot_id(&self) -> BootId {
        self.boot_id
    }
}

/// Reads the kernel's text: 32 hexadecimal digits with dashes between them.
fn parse_boot_id(text: &str) -> Option<BootId> {
    let digits: String = text.trim().chars().filter(|digit| *digit != '-').collect();
    if digits.len() != 32 || !digits.is_ascii() {
        return None;
    }
    u128::from_str_radix(&digits, 16).ok().map(u128::to_be_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_the_kernels_boot_id() {
        let id = parse_boot_id("01020304-0506-0708-090a-0b0c0d0e0f10\n");
        assert_eq!(id, Some([1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16]));
        assert_eq!(parse_boot_id("01020304"), None);
        assert_eq!(parse_boot_id("zz020304-0506-0708-090a-0b0c0d0e0f10"), None);
    }

    #[test]
    fn the_boot_clock_does_not_go_back() {
        let clock = MachineClock::new().unwrap();
        let first = clock.read();
        let second = clock.read();
        assert!(first.raw_us > 0 && second.raw_us >= first.raw_us);
        assert_eq!(clock.boot_id(), MachineClock::new().unwrap().boot_id());
    }
}
