//! What clients want: which resources, for how long, in which mode. All kinds and both modes, few enough resources that
//! clients are in each other's way. Draws; sends nothing.

use std::collections::BTreeMap;

use leasehold_client::keeper::Renewal;
use leasehold_state_machine::resource::Resource;
use leasehold_state_machine::words::{Metadata, Mode, Reason, Ttl};

use crate::random::Random;

const RESOURCES: [&str; 14] = [
    "build",
    "build",
    "deploy",
    "path:/a",
    "path:/a/b",
    "path:/a/b/c",
    "path:/a/bc",
    "path:/",
    "inode:7",
    "range:7:0-10",
    "range:7:5-15",
    "range:7:10-20",
    "range:8:0-4096",
    "inode:8",
];
const TTLS_MS: [u64; 10] = [100, 300, 500, 1000, 2000, 3000, 5000, 10_000, 30_000, 60_000];
const WAITS_MS: [u64; 8] = [0, 0, 50, 1000, 3000, 10_000, 30_000, 60_000];

/// What a client wants of one lock.
#[derive(Clone, Debug)]
pub struct Wish {
    /// What is wanted.
    pub resource: Resource,
    /// In which mode.
    pub mode: Mode,
    /// For how long, if not under a session.
    pub ttl: Ttl,
    /// How long to stand in line.
    pub wait_ms: u64,
    /// Whether the request carries an id.
    pub with_id: bool,
    /// What the client says of itself: nothing, or enough that a record takes several sectors.
    pub metadata: Metadata,
    /// How long the client means to hold it.
    pub hold_us: u64,
    /// When it renews.
    pub renewal: Renewal,
}

/// Draws a resource.
pub fn resource(random: &mut Random) -> Resource {
    let text: &&str = random.pick(&RESOURCES);
    match Resource::parse(text) {
        Ok(resource) => resource,
        Err(_) => unreachable!("the texts above are canonical"),
    }
}

/// Draws metadata: mostly none.
pub fn metadata(random: &mut Random) -> Metadata {
    if !random.chance(200) {
        return Metadata::default();
    }
    let length = usize::try_from(random.between(1, 2000)).unwrap_or(1);
    let map = BTreeMap::from([("note".to_owned(), "x".repeat(length))]);
    Metadata::new(map).unwrap_or_default()
}

/// Draws a TTL.
pub fn ttl(random: &mut Random) -> Ttl {
    Ttl::from_ms(*random.pick(&TTLS_MS)).unwrap_or_default()
}

/// Draws a wish.
pub fn wish(random: &mut Random) -> Wish {
    let ttl = ttl(random);
    let most_us = 3 * ttl.us().min(6_000_000);
    Wish {
        resource: resource(random),
        mode: if random.chance(300) { Mode::Shared } else { Mode::Exclusive },
        ttl,
        wait_ms: *random.pick(&WAITS_MS),
        with_id: random.chance(750),
        metadata: metadata(random),
        hold_us: random.between(1_000, most_us),
        renewal: match random.below(10) {
            0 => Renewal::Never,
            1 => Renewal::Every(random.between((ttl.us() / 20).max(20_000), ttl.us() / 2)),
            _ => Renewal::Timetable,
        },
    }
}

/// An operator's words.
pub fn reason() -> Reason {
    match Reason::parse("the simulation wants it") {
        Ok(reason) => reason,
        Err(_) => unreachable!("a plain sentence is a reason"),
    }
}
