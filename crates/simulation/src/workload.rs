//! What clients want: which resources, for how long, in which mode. All kinds and both modes, few enough resources that
//! clients are in each other's way. Draws; sends nothing.

use std::collections::BTreeMap;

use leasehold_client::keeper::Renewal;
use leasehold_state_machine::limits::TTL_MS_MAX;
use leasehold_state_machine::resource::Resource;
use leasehold_state_machine::words::{Metadata, Mode, Reason, Ttl};

use crate::random::Random;
use crate::world::World;

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
const TTLS_MS: [u64; 12] = [100, 300, 500, 600, 800, 1000, 2000, 3000, 5000, 10_000, 30_000, 60_000];
/// Those of a quiet run beside them, rarer the longer they are: a holder that goes away without a word keeps the server awake
/// for that long.
const LONG_TTLS_MS: [(u64, u64); 3] = [(300_000, 100), (3_600_000, 20), (TTL_MS_MAX, 3)];
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
pub fn ttl(world: &mut World) -> Ttl {
    let mut ttl_ms = *world.random.pick(&TTLS_MS);
    if world.is_quiet() {
        let long = LONG_TTLS_MS.iter().find(|(_, per_mille)| world.more_random.chance(*per_mille));
        ttl_ms = long.map_or(ttl_ms, |(long_ms, _)| *long_ms);
    }
    Ttl::from_ms(ttl_ms).unwrap_or_default()
}

/// The longest TTL there is in a run.
pub fn ttl_us_max(quiet: bool) -> u64 {
    if quiet { TTL_MS_MAX * 1000 } else { 60_000_000 }
}

/// Something that lasts so long; in a quiet run now and then for minutes or hours.
pub fn lasting_us(world: &mut World, us: u64) -> u64 {
    if !world.is_quiet() || world.healing {
        return us;
    }
    match world.more_random.below(1000) {
        0 => world.more_random.between(3_600_000_000, 6 * 3_600_000_000),
        1..=20 => world.more_random.between(60_000_000, 600_000_000),
        _ => us,
    }
}

/// Draws a wish.
pub fn wish(world: &mut World) -> Wish {
    let ttl = ttl(world);
    let most_us = 3 * ttl.us().min(6_000_000);
    let random = &mut world.random;
    let mut wish = Wish {
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
    };
    wish.hold_us = lasting_us(world, wish.hold_us);
    wish
}

/// An operator's words.
pub fn reason() -> Reason {
    match Reason::parse("the simulation wants it") {
        Ok(reason) => reason,
        Err(_) => unreachable!("a plain sentence is a reason"),
    }
}
