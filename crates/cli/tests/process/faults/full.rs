//! A disk that is really full: a small file system in memory, without the reserve that a server keeps. It ends with a
//! sentence, and goes on from where it was when there is room.

use std::process::Command;

use super::needs;
use super::script::{self, Told};
use crate::program::Place;

/// Less than the script writes.
const BYTES: &str = "size=5m";
const ROOMY: &str = "remount,size=64m";

/// Mounted until it is dropped.
struct Mounted(String);

impl Mounted {
    fn new(path: String) -> Mounted {
        std::fs::create_dir(&path).unwrap();
        let mounted = Mounted(path);
        mounted.mount(BYTES);
        mounted
    }

    fn mount(&self, options: &str) {
        let done = Command::new("mount").args(["-t", "tmpfs", "-o", options, "tmpfs", &self.0]).status();
        assert!(done.is_ok_and(|status| status.success()), "{}", needs::missing("cannot mount a tmpfs"));
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = Command::new("umount").args(["-l", &self.0]).status();
    }
}

#[test]
fn a_full_disk_ends_the_server_and_room_brings_everything_back() {
    if !needs::met_as_root(&["mount"]) {
        return;
    }
    let place = Place::new();
    let disk = Mounted::new(place.text("disk"));
    let data = place.text("disk/data");
    let arguments = &[
        "--listen",
        "127.0.0.1:0",
        "--segment-bytes",
        "1048576",
        "--disk-reserve-bytes",
        "0",
        "--data",
        &data,
    ];
    let server = place.serve_with(arguments);
    let mut told = Told::default();
    assert!(
        script::run(&mut server.client(), &mut told, script::SNAPSHOT).is_err(),
        "the disk was never full"
    );
    assert_eq!(server.wait().0, Some(70));
    let said = std::fs::read_to_string(place.path("stderr")).unwrap();
    assert!(said.contains("No space left") || said.contains("is the disk full?"), "{said}");

    disk.mount(ROOMY);
    let server = place.serve_with(arguments);
    assert!(told.judge(&mut server.client()) > 0, "nothing was under way when the disk was full");
    server.stop();
}
