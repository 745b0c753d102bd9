//! What a random run does, step by step. A step names leases, sessions and calls by how long ago they came, so that a
//! run with steps taken out still means something: that is how a failing run is made short.

use leasehold_state_machine::limits::Limits;

use super::seed::Dice;

/// Every kind, with overlaps, neighbours that touch, and names that only look alike.
const LOCKS: [&str; 18] = [
    "a",
    "b",
    "/a",
    "path:/",
    "path:/a",
    "path:/a/b",
    "path:/a/b/c",
    "path:/ab",
    "path:/d",
    "inode:1",
    "range:1:0-10",
    "range:1:10-20",
    "range:1:5-15",
    "range:1:19-9223372036854775807",
    "inode:2",
    "range:2:0-1",
    "range:11:0-10",
    "c",
];
/// Paths of files, their numbers and ranges of them, for runs that write.
const FILE_LOCKS: [&str; 14] = [
    "path:/",
    "path:/a",
    "path:/a/b",
    "path:/d",
    "path:/a/b/c",
    "inode:4503599627370496",
    "inode:4503599627370497",
    "inode:4503599627370498",
    "range:4503599627370496:0-4",
    "range:4503599627370496:4-9",
    "range:4503599627370496:3-9223372036854775807",
    "range:4503599627370497:0-20",
    "inode:4503599627370600",
    "a",
];
pub const FILES: [&str; 5] = ["a", "a/b", "a/b/c", "d", "ab"];
const OWNERS: [&str; 4] = ["w1", "w2", "w3", "w4"];
const TTLS_MS: [u64; 5] = [100, 150, 1_000, 7_000, 30_001];
const PATIENT_TTLS_MS: [u64; 4] = [1_000, 30_001, 60_000, 600_000];
const WAITS_MS: [u64; 6] = [0, 0, 50, 3_000, 20_000, 3_600_000];

/// One thing that happens.
#[derive(Clone, Debug)]
pub enum Step {
    /// Time passes.
    Pass { us: u64 },
    /// Time passes up to the next deadline, give or take.
    PassToDue { off_us: i64 },
    /// The server stands still: raw time passes, its own does not.
    Stall { us: u64 },
    /// The wall clock is set.
    SetWall { off_ms: i64, trusted: bool },
    /// Somebody asks.
    Ask { what: What, late_us: u64 },
    /// Time passes up to the next deadline and a bit, and somebody asks before anything was swept.
    AskUnswept { off_us: u64, what: What },
    /// A crash, and a restart.
    Restart { same_boot: bool, away_us: u64, from_snapshot: bool },
    /// The grants are held after a restore, or go on again.
    HoldGrants { held: bool },
}

/// What is asked. `Back(0)` is the newest of its sort.
#[derive(Clone, Debug)]
pub enum What {
    Acquire {
        lock: &'static str,
        owner: &'static str,
        shared: bool,
        wait_ms: u64,
        ttl_ms: Option<u64>,
        session: Option<Back>,
        id: Option<u64>,
        metadata: u64,
    },
    /// The same acquire as one before, perhaps with another wait.
    Again {
        call: Back,
        wait_ms: Option<u64>,
    },
    Renew {
        lease: Back,
        lie: Lie,
        ttl_ms: Option<u64>,
        metadata: Option<u64>,
    },
    Release {
        lease: Back,
        lie: Lie,
    },
    Cancel {
        lock: &'static str,
        owner: &'static str,
        id: u64,
    },
    /// Takes back an acquire that was really sent.
    CancelCall {
        call: Back,
    },
    Verify {
        lease: Back,
        lock: Option<&'static str>,
    },
    Get {
        lock: &'static str,
    },
    List,
    /// Of a lock by its name, or of the lock of a lease; perhaps only the token of that one.
    Break {
        lock: &'static str,
        lease: Option<Back>,
        only: bool,
        force: bool,
        id: Option<u64>,
    },
    Open {
        owner: &'static str,
        ttl_ms: u64,
        id: Option<u64>,
    },
    KeepAlive {
        session: Back,
        seen: Option<u64>,
    },
    Close {
        session: Back,
    },
    KeepAliveOwn {
        lease: Back,
    },
    CloseOwn {
        lease: Back,
    },
    ListSessions,
    Detach {
        call: Back,
    },
    Abandon {
        lease: Back,
    },
    /// To a file of this name, or to the next one in the list that the lease covers.
    Write {
        name: &'static str,
        fitting: bool,
        at: Option<u64>,
        length: u64,
        lease: Back,
        lie: Lie,
        id: Option<u64>,
    },
    Delete {
        name: &'static str,
        fitting: bool,
        lease: Back,
        lie: Lie,
        id: Option<u64>,
    },
    Stat {
        name: &'static str,
    },
    ListFiles,
}

#[derive(Clone, Copy, Debug)]
pub struct Back(pub u64);

/// What is wrong with a proof.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Lie {
    None,
    Owner,
    Token,
    Lock,
    Secret,
}

/// The temper of one run: which locks it quarrels about, and what it likes to do.
struct Temper {
    locks: Vec<&'static str>,
    sessions: u64,
    ids: u64,
    shared: u64,
    waits: u64,
    /// How often it is about files.
    files: u64,
    ttls_ms: &'static [u64],
}

/// The bounds of a run: now and then so tight that they are met.
pub fn limits(seed: u64) -> Limits {
    let mut dice = Dice(!seed);
    match dice.below(5) {
        0 => Limits {
            leases_max: 4 + dice.below(4) as usize,
            waiters_max: 3 + dice.below(4) as usize,
            waiters_per_lock_max: 1 + dice.below(4) as usize,
            sessions_max: 1 + dice.below(3) as usize,
            ..Limits::default()
        },
        1 => Limits {
            files_max: 1 + dice.below(3) as usize,
            file_bytes_max: 5 + dice.below(30),
            files_bytes_max: 5 + dice.below(60),
            write_bytes_max: 3 + dice.below(15),
            ..Limits::default()
        },
        _ => Limits::default(),
    }
}

/// A whole run from its seed.
pub fn run(seed: u64) -> Vec<Step> {
    let mut dice = Dice(seed);
    let dice = &mut dice;
    let count = 2 + dice.below(6);
    let files = dice.pick(&[0, 0, 30, 60]);
    let (kinds, ttls_ms): (&[&str], &[u64]) =
        if files > 0 { (&FILE_LOCKS, &PATIENT_TTLS_MS) } else { (&LOCKS, &TTLS_MS) };
    let mut locks: Vec<&str> = (0..if files > 0 { 3 } else { count }).map(|_| dice.pick(kinds)).collect();
    if files > 0 {
        // Without a path nothing is ever made.
        locks.extend([dice.pick(&FILE_LOCKS[..5]), dice.pick(&FILE_LOCKS[..5])]);
    }
    let temper = Temper {
        locks,
        sessions: dice.pick(&[0, 30, 80]),
        ids: dice.pick(&[20, 60, 90]),
        shared: if files > 0 { dice.pick(&[0, 0, 20]) } else { dice.pick(&[0, 30, 70]) },
        waits: dice.pick(&[20, 60, 90]),
        files,
        ttls_ms,
    };
    let length = 60 + dice.below(190);
    (0..length).map(|_| step(dice, &temper)).collect()
}

fn step(dice: &mut Dice, temper: &Temper) -> Step {
    match dice.below(100) {
        0..10 => Step::Pass { us: dice.pick(&[1, 999, 1_000, 40_000, 99_999, 1_500_000, 5_000_000]) },
        // Who writes has longer leases, and lives to use them.
        13..22 if temper.files > 0 => Step::Ask { what: what(dice, temper), late_us: 0 },
        10..20 => Step::PassToDue { off_us: dice.pick(&[-1, 0, 0, 1, 700_000]) },
        20..22 => Step::AskUnswept { off_us: dice.pick(&[0, 1, 3_000_000]), what: what(dice, temper) },
        22 => Step::Stall { us: dice.pick(&[1, 250_000, 4_000_000]) },
        23 => match dice.below(8) {
            0 => Step::Pass { us: dice.pick(&[599_999_999, 600_000_000]) },
            1 => Step::Pass { us: 3_600_000_000 },
            2..4 => Step::HoldGrants { held: dice.percent(40) },
            _ => Step::SetWall {
                off_ms: dice.pick(&[-86_400_000, -1, 0, 5_000, 31_536_000_000]),
                trusted: dice.percent(70),
            },
        },
        24 => Step::Restart {
            same_boot: dice.percent(60),
            away_us: dice.pick(&[0, 1_000, 2_000_000, 40_000_000]),
            from_snapshot: dice.percent(50),
        },
        _ => {
            let late_us = dice.pick(&[0, 0, 1_234, 30_000]);
            Step::Ask { what: what(dice, temper), late_us }
        }
    }
}

fn back(dice: &mut Dice) -> Back {
    let reach = dice.pick(&[1, 3, 10, 40]);
    Back(dice.below(reach))
}

fn lie(dice: &mut Dice) -> Lie {
    if dice.percent(85) { Lie::None } else { dice.pick(&[Lie::Owner, Lie::Token, Lie::Lock, Lie::Secret]) }
}

fn what(dice: &mut Dice, temper: &Temper) -> What {
    let lock = dice.pick(&temper.locks);
    let owner = dice.pick(&OWNERS);
    let id = |dice: &mut Dice| dice.below(12);
    if dice.percent(temper.files) {
        return about_files(dice, temper);
    }
    match dice.below(100) {
        0..34 => {
            let session = dice.maybe(temper.sessions, back);
            What::Acquire {
                lock,
                owner,
                shared: dice.percent(temper.shared),
                wait_ms: if dice.percent(temper.waits) { dice.pick(&WAITS_MS) } else { 0 },
                ttl_ms: dice.maybe(if session.is_some() { 3 } else { 90 }, |dice| dice.pick(temper.ttls_ms)),
                session,
                id: dice.maybe(temper.ids, id),
                metadata: dice.below(3),
            }
        }
        34..44 => What::Again { call: back(dice), wait_ms: dice.maybe(40, |dice| dice.pick(&WAITS_MS)) },
        44..51 => What::Renew {
            lease: back(dice),
            lie: lie(dice),
            ttl_ms: dice.maybe(20, |dice| dice.pick(&TTLS_MS)),
            metadata: dice.maybe(20, |dice| dice.below(3)),
        },
        51..63 => What::Release { lease: back(dice), lie: lie(dice) },
        63..65 => What::Cancel { lock, owner, id: id(dice) },
        65..69 => What::CancelCall { call: back(dice) },
        69..72 => What::Verify { lease: back(dice), lock: dice.maybe(50, |_| lock) },
        72..76 => What::Get { lock },
        76 => What::List,
        77..80 => What::Break {
            lock,
            lease: dice.maybe(70, back),
            only: dice.percent(40),
            force: dice.percent(30),
            id: dice.maybe(temper.ids, |dice| dice.below(5)),
        },
        80..84 => What::Open { owner, ttl_ms: dice.pick(&TTLS_MS), id: dice.maybe(temper.ids, id) },
        84..87 => What::KeepAlive { session: back(dice), seen: dice.maybe(50, |dice| dice.below(4)) },
        87 => What::Close { session: back(dice) },
        88 => What::ListSessions,
        89 => What::KeepAliveOwn { lease: back(dice) },
        90 => What::CloseOwn { lease: back(dice) },
        91..97 => What::Detach { call: back(dice) },
        _ => What::Abandon { lease: back(dice) },
    }
}

fn about_files(dice: &mut Dice, temper: &Temper) -> What {
    let (name, fitting, lie) = (dice.pick(&FILES), dice.percent(80), lie(dice));
    let lease = if dice.percent(70) { Back(dice.below(3)) } else { back(dice) };
    let id = dice.maybe(temper.ids / 2, |dice| dice.below(12));
    match dice.below(10) {
        0..7 => {
            let at = dice.maybe(40, |dice| dice.pick(&[0, 1, 3, 4, 9, 1 << 40]));
            What::Write { name, fitting, at, length: dice.pick(&[0, 1, 3, 4, 8, 17]), lease, lie, id }
        }
        7 => What::Delete { name, fitting, lease, lie, id },
        8 => What::Stat { name },
        _ => What::ListFiles,
    }
}
