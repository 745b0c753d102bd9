//! The machine that everything is measured on: what it is, and how long its disk takes to make a write durable.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use crate::disk;
use crate::samples::Percentiles;

/// What is known of the machine, by name, for the report.
pub fn facts(folder: &Path) -> Result<Vec<(String, String)>, String> {
    let read = |file: &str| std::fs::read_to_string(file).unwrap_or_default();
    let field = |text: &str, name: &str, split: char| {
        let mut pairs = text.lines().filter_map(|line| line.split_once(split));
        let found = pairs.find(|(key, _)| key.trim() == name).map(|(_, value)| value.trim().to_owned());
        found.unwrap_or_else(|| "unknown".to_owned())
    };
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let memory_kib = field(&read("/proc/meminfo"), "MemTotal", ':');
    let memory_kib: f64 =
        memory_kib.split(' ').next().and_then(|number| number.parse().ok()).unwrap_or_default();
    let (device, system) = filesystem(&read("/proc/mounts"), folder);
    if system == "tmpfs" {
        return Err(format!(
            "{} is kept in memory, where nothing is durable: set TMPDIR to a folder on a disk",
            folder.display()
        ));
    }
    let disk = Percentiles::of(disk::commits(folder, disk::RECORD_BYTES, Duration::from_secs(1))?);
    let distribution = field(&read("/etc/os-release"), "PRETTY_NAME", '=');
    let processors = read("/proc/cpuinfo");
    let processor = ["model name", "cpu family", "model"].map(|name| field(&processors, name, ':'));
    Ok([
        (crate::report::TAKEN, date()),
        ("system", distribution.trim_matches('"').to_owned()),
        ("kernel", read("/proc/sys/kernel/osrelease").trim().to_owned()),
        ("revision of Leasehold", revision()),
        ("processor", format!("{}, family {}, model {}", processor[0], processor[1], processor[2])),
        ("cores", format!("{cores}, shared by servers and clients")),
        ("memory", format!("{:.0} GiB", memory_kib / 1048576.0)),
        ("file system", format!("{system} on {device}")),
        (
            "a write of 256 bytes and its sync, alone, in a file whose room was written before",
            format!("{:.0} µs (p50), {:.0} µs (p99)", disk.p50, disk.p99),
        ),
    ]
    .map(|(name, value)| (name.to_owned(), value))
    .to_vec())
}

fn date() -> String {
    said_by(Command::new("date").args(["-u", "+%Y-%m-%d %H:%M UTC"])).unwrap_or_default()
}

/// Of the sources that lie here; `-dirty` where they are not all committed.
fn revision() -> String {
    let described = said_by(Command::new("git").args(["describe", "--always", "--dirty", "--match="]));
    described.unwrap_or_else(|| "unknown: not a checkout".to_owned())
}

/// What a program says, if all goes well.
fn said_by(program: &mut Command) -> Option<String> {
    let said = program.output().ok().filter(|said| said.status.success())?;
    Some(String::from_utf8_lossy(&said.stdout).trim().to_owned())
}

/// The device and the kind of file system that a folder is on: of all mounts above it, the nearest, and of those the last.
fn filesystem(mounts: &str, folder: &Path) -> (String, String) {
    let mounts = mounts.lines().filter_map(|line| {
        let mut words = line.split(' ');
        let (device, point, kind) = (words.next()?, words.next()?, words.next()?);
        folder.starts_with(point).then(|| (point.len(), device.to_owned(), kind.to_owned()))
    });
    let nearest = mounts.max_by_key(|(depth, ..)| *depth);
    nearest.map_or_else(|| ("unknown".into(), "unknown".into()), |(_, device, kind)| (device, kind))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_on_the_nearest_mount() {
        let mounts =
            "/dev/a / ext4 rw 0 0\nproc /proc proc rw 0 0\n/dev/b /var xfs rw 0 0\n/dev/c /var xfs2 rw 0 0\n";
        let on = |folder: &str| filesystem(mounts, Path::new(folder));
        assert_eq!(on("/var/lib/x"), ("/dev/c".to_owned(), "xfs2".to_owned()));
        assert_eq!(on("/various"), ("/dev/a".to_owned(), "ext4".to_owned()));
        assert_eq!(filesystem("", Path::new("/")).1, "unknown");
    }
}
