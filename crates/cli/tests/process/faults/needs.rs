//! What these tests need of the machine. A test that cannot run fails and says what is missing; only who sets a variable
//! that continuous integration does not set leaves them out.

use std::process::{Command, Stdio};

/// Set to anything, it leaves the tests of real faults out.
const SKIP: &str = "LEASEHOLD_SKIP_FAULTS";
/// `full`: every combination, and not only those that fit into a few seconds.
const SIZE: &str = "LEASEHOLD_FAULTS";

/// Whether a test that uses these programs is to run; ends it if it cannot.
pub fn met(programs: &[&str]) -> bool {
    if std::env::var_os(SKIP).is_some() {
        println!("left out, because {SKIP} is set");
        return false;
    }
    for program in programs {
        let found = Command::new(program)
            .arg(if *program == "ip" || *program == "strace" { "-V" } else { "--version" })
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status();
        assert!(
            found.is_ok_and(|status| status.success()),
            "{}",
            missing(&format!("{program} does not run"))
        );
    }
    true
}

/// The same for a test that makes namespaces or mounts.
pub fn met_as_root(programs: &[&str]) -> bool {
    let met = met(programs);
    if met {
        assert!(rustix::process::geteuid().is_root(), "{}", missing("this needs root"));
    }
    met
}

/// What to say about something that is not there or not allowed.
pub fn missing(what: &str) -> String {
    format!(
        "{what}. scripts/test installs strace, iproute2 and nftables on Debian as root; where faults cannot be \
         injected at all, {SKIP}=1 leaves these tests out"
    )
}

/// Whether there is time for everything.
pub fn full() -> bool {
    std::env::var(SIZE).is_ok_and(|size| size == "full")
}
