//! Everything about a run that is drawn before it begins: who is there, what goes wrong and when. Each seed leaves some
//! kinds out, so that every kind also meets a world in which the others are silent. Injects nothing itself.
//!
//! Most seeds are busy: a minute or so in which much happens at once. A few are quiet: short bursts of the same with
//! silences of minutes to weeks between them, leases of up to a day, and deaths in the silence too.

use leasehold_engine::{AdmissionLimits, LaneLimits};
use leasehold_state_machine::limits::Limits;

use crate::random::{Random, Sources};

/// How many seeds in a thousand are quiet.
const QUIET_PER_MILLE: u64 = 100;
const SECOND_US: u64 = 1_000_000;
const MINUTE_US: u64 = 60 * SECOND_US;
const DAY_US: u64 = 24 * 60 * MINUTE_US;

macro_rules! weather {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// How often small things go wrong, per thousand.
        #[derive(Clone, Debug, Default)]
        pub struct Weather { $($(#[$doc])* pub $name: u64,)* }

        impl Weather {
            /// All kinds, by name.
            pub fn kinds(&mut self) -> Vec<(&'static str, &mut u64)> {
                vec![$((stringify!($name), &mut self.$name),)*]
            }
        }
    };
}

weather! {
    /// Requests lost.
    lost_request,
    /// Replies lost.
    lost_reply,
    /// Requests late.
    delayed,
    /// Replies late.
    delayed_reply,
    /// Requests doubled.
    duplicated,
    /// Closes noticed late.
    late_close,
    /// Closes never noticed.
    lost_close,
    /// Slow syncs.
    slow_sync,
    /// Hung syncs.
    hung_sync,
    /// Deaths in chores.
    died_in_chore,
    /// Deaths at start.
    died_opening,
    /// Alarms of clients that go off late.
    late_alarm,
    /// Holders that go away without a word.
    client_death,
}

/// A large thing that goes wrong at a given time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Disaster {
    /// The process is killed.
    Kill,
    /// The machine loses power.
    PowerLoss,
    /// The next write or sync fails.
    DiskError,
    /// The process stands still.
    ProcessStop,
    /// The process stands still in the moment in which a renewal comes in that has little time left.
    StopAtRenewal,
    /// The engine stands still.
    EngineStall,
    /// The wall clock is set.
    WallJump,
    /// The data directory is copied.
    Backup,
    /// The copy is put back.
    Restore,
    /// Everybody is silent.
    Lull,
    /// One client stands still.
    ClientPause,
    /// The server's machine is suspended: it stands still, and nothing reaches it.
    Suspend,
    /// The network is cut, one way or both.
    Partition,
    /// Somebody else fills the disk for a while.
    DiskFills,
}

/// Everything about a run that is drawn before it begins.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Small things.
    pub weather: Weather,
    /// Large things, each with its time.
    pub disasters: Vec<(u64, Disaster)>,
    /// When the faults stop.
    pub heal_at_us: u64,
    /// How many clients there are.
    pub clients: usize,
    /// The state machine's bounds.
    pub limits: Limits,
    /// How many requests may be inside at once.
    pub admission: AdmissionLimits,
    /// The size of the journal's segments.
    pub segment_bytes: u64,
    /// The largest batch.
    pub batch_bytes_max: usize,
    /// How much longer than usual clients take between one thing and the next.
    pub pace: u64,
    /// How far clients' clocks may err in their rate, in millionths.
    pub drift_ppm: u64,
    /// Whether clients write files.
    pub files: bool,
    /// Whether some clients ask on streams.
    pub streams: bool,
    /// Whether clients write to a register outside of the server.
    pub register: bool,
    /// When clients begin things, from and to, in order; none: all the time. Between these they only end what they have
    /// begun.
    pub bursts: Vec<(u64, u64)>,
}

impl Plan {
    /// Draws one. What came later is drawn from streams of its own, so that the rest is drawn as it was before.
    pub fn draw(sources: &mut Sources) -> Plan {
        let Sources { random, files, more } = sources;
        let mut rate = |often: u64| {
            let rate = random.between(1, often.max(2));
            if random.chance(600) { rate } else { 0 }
        };
        let weather = Weather {
            lost_request: rate(60),
            lost_reply: rate(60),
            delayed: rate(30),
            delayed_reply: rate(30),
            duplicated: rate(60),
            late_close: rate(600),
            lost_close: rate(200),
            slow_sync: rate(20),
            hung_sync: rate(4),
            died_in_chore: rate(200),
            died_opening: rate(300),
            late_alarm: rate(20),
            client_death: rate(200),
        };
        // A few runs are long enough for old answers to be forgotten.
        let pace = if random.chance(30) { 12 } else { 1 };
        let mut heal_at_us = random.between(30, 90) * SECOND_US * pace;
        let bursts = if more.chance(QUIET_PER_MILLE) { bursts(more) } else { Vec::new() };
        if let Some((_, end_us)) = bursts.last() {
            heal_at_us = *end_us;
        }
        let disasters = disasters(random, more, &bursts, heal_at_us);
        let (segment_bytes, batch_bytes_max) =
            *random.pick(&[(16 << 10, 12 << 10), (32 << 10, 24 << 10), (128 << 10, 96 << 10)]);
        // A horizon each second fills small segments with nothing else.
        let segment_bytes = if bursts.is_empty() { segment_bytes } else { 128 << 10 };
        let limits = limits(random, more);
        Plan {
            weather,
            disasters,
            heal_at_us,
            clients: usize::try_from(random.between(2, 9)).unwrap_or(2),
            limits,
            admission: admission(more),
            segment_bytes,
            batch_bytes_max,
            pace: if bursts.is_empty() { pace } else { 1 },
            drift_ppm: if random.chance(700) { 10_000 } else { 0 },
            files: files.chance(700),
            streams: more.chance(700),
            register: more.chance(700),
            bursts,
        }
    }

    /// Whether it is a quiet one.
    pub fn is_quiet(&self) -> bool {
        !self.bursts.is_empty()
    }
}

/// Short times in which clients begin things, with silences of every length between them.
fn bursts(random: &mut Random) -> Vec<(u64, u64)> {
    let mut from_us = 0;
    let mut bursts = Vec::new();
    for _ in 0..random.between(4, 25) {
        let to_us = from_us + random.between(SECOND_US, 8 * SECOND_US);
        bursts.push((from_us, to_us));
        // Minutes and weeks are drawn alike, as powers: some of the server's rules are about ten minutes, some about a day.
        from_us = to_us + random.between_as_powers(MINUTE_US, 30 * DAY_US);
    }
    bursts
}

/// Draws what happens and when.
fn disasters(
    random: &mut Random,
    more: &mut Random,
    bursts: &[(u64, u64)],
    heal_at_us: u64,
) -> Vec<(u64, Disaster)> {
    let when = |random: &mut Random, from_us: u64| match bursts.is_empty() || random.chance(300) {
        true => random.between(from_us, heal_at_us),
        false => {
            let later: Vec<_> = bursts.iter().filter(|(_, to_us)| *to_us > from_us).collect();
            let (begin_us, end_us) = **random.pick(&later);
            random.between(begin_us.max(from_us), end_us)
        }
    };
    let mut disasters = Vec::new();
    let mut draw = |random: &mut Random, kinds: &[(Disaster, u64)]| {
        for (disaster, most) in kinds {
            if random.chance(650) {
                for _ in 0..random.between(1, most + 1) {
                    disasters.push((when(random, 500_000), *disaster));
                }
            }
        }
    };
    draw(
        random,
        &[
            (Disaster::Kill, 6),
            (Disaster::PowerLoss, 5),
            (Disaster::DiskError, 2),
            (Disaster::ProcessStop, 5),
            (Disaster::EngineStall, 4),
            (Disaster::WallJump, 3),
            (Disaster::Lull, 2),
            (Disaster::ClientPause, 5),
        ],
    );
    draw(
        more,
        &[
            (Disaster::StopAtRenewal, 4),
            (Disaster::Partition, 5),
            (Disaster::Suspend, 2),
            (Disaster::DiskFills, 1),
            (Disaster::Backup, 2),
        ],
    );
    if random.chance(100) {
        let at_us = when(random, 500_000);
        disasters.push((at_us, Disaster::Backup));
        disasters.push((when(random, at_us), Disaster::Restore));
    }
    // In bursts, too: what follows a crash closely finds what the crash left half done.
    for n in 0..disasters.len() {
        if random.chance(250) {
            let (at_us, _) = disasters[n];
            let (_, other) = *random.pick(&disasters);
            disasters.push((at_us + random.between(1_000, 3_000_000), other));
        }
    }
    disasters.retain(|(at_us, _)| *at_us < heal_at_us);
    disasters
}

/// Now and then limits that a few clients can reach.
fn limits(random: &mut Random, more: &mut Random) -> Limits {
    let small = |random: &mut Random, low, high| usize::try_from(random.between(low, high)).unwrap_or(60);
    let mut limits = Limits::default();
    if random.chance(80) {
        limits.request_ids_max = small(random, 5, 60);
    }
    if random.chance(80) {
        limits.waiters_per_lock_max = 2;
    }
    if more.chance(80) {
        limits.leases_max = small(more, 1, 6);
    }
    if more.chance(80) {
        limits.waiters_max = small(more, 1, 6);
    }
    if more.chance(80) {
        limits.sessions_max = small(more, 1, 4);
    }
    if more.chance(80) {
        limits.files_max = small(more, 1, 4);
    }
    if more.chance(80) {
        limits.file_bytes_max = more.between(200, 4_000);
        limits.files_bytes_max = more.between(400, 8_000);
    }
    limits
}

/// Now and then lanes that a few clients can fill.
fn admission(more: &mut Random) -> AdmissionLimits {
    let mut admission = AdmissionLimits::default();
    if more.chance(120) {
        let mut lane = |low, high| LaneLimits {
            requests_max: usize::try_from(more.between(low, high)).unwrap_or(1),
            bytes_max: usize::MAX,
        };
        admission.ordinary = lane(1, 5);
        admission.upkeep = lane(3, 12);
        admission.write = lane(1, 4);
        admission.read = lane(1, 3);
    }
    admission
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeds_are_busy_or_quiet_and_quiet_ones_last() {
        let plans: Vec<Plan> = (1..=400).map(|seed| Plan::draw(&mut Sources::new(seed))).collect();
        let quiet: Vec<&Plan> = plans.iter().filter(|plan| plan.is_quiet()).collect();
        assert!((10..100).contains(&quiet.len()), "{}", quiet.len());
        let days: u64 = quiet.iter().map(|plan| plan.heal_at_us / DAY_US).sum();
        assert!(days / quiet.len() as u64 > 20, "{days} days in {} quiet seeds", quiet.len());
        for plan in &plans {
            assert!(plan.disasters.iter().all(|(at_us, _)| *at_us < plan.heal_at_us));
            assert!(plan.bursts.is_sorted_by(|before, after| before.1 < after.0));
        }
    }
}
