//! The comparison: every system in turn, size by size, and all of that again for each repetition. All systems of a repetition
//! run at once, but those that are not measured are stopped, so that they take nothing from the one that is.

use std::path::Path;
use std::time::Duration;

use crate::book::{Book, Key, Progress};
use crate::disk;
use crate::drive::{Plan, Workload};
use crate::peers::{Peer, Running, Skipped};
use crate::report::show;

/// About how long a server takes to start and to be warmed up.
const START: Duration = Duration::from_secs(1);

/// How long and how often everything is measured.
#[derive(Clone, Copy, Debug)]
pub struct Scale {
    /// Only a look.
    pub quick: bool,
    /// Repetitions.
    pub rounds: usize,
    /// What of each measurement does not count.
    pub warm: Duration,
    /// What counts.
    pub time: Duration,
    /// The most locks that are held at once, where that is what is measured.
    pub most: usize,
    /// Minutes of churn; none of it if 0.
    pub minutes: u64,
}

impl Scale {
    /// A look of two minutes.
    pub const QUICK: Scale = Scale {
        quick: true,
        rounds: 1,
        warm: Duration::from_millis(100),
        time: Duration::from_millis(350),
        most: 10_000,
        minutes: 0,
    };
    /// What is published.
    pub const FULL: Scale = Scale {
        quick: false,
        rounds: 5,
        warm: Duration::from_millis(700),
        time: Duration::from_secs(2),
        most: 1_000_000,
        minutes: 60,
    };

    /// One of two times: in full, or of a look.
    pub fn seconds(self, full: u64, quick: u64) -> Duration {
        Duration::from_secs(if self.quick { quick } else { full })
    }

    /// What is measured of a workload: each number of clients.
    fn plans(self, workload: Workload) -> impl Iterator<Item = Plan> {
        let sizes: &[usize] = match (workload, self.quick) {
            (Workload::Uncontended, true) => &[1, 64, 256, 1024],
            (Workload::Uncontended, false) => &[1, 16, 64, 256, 1024],
            (Workload::Contended, true) => &[64],
            (Workload::Contended, false) => &[16, 64],
            (Workload::Renewals, true) => &[256],
            (Workload::Renewals, false) => &[1, 64, 256, 1024],
        };
        // With so many clients one cycle of a slow system takes longer than a look does.
        let times = move |clients| if self.quick && clients > 256 { 4 } else { 1 };
        let plan =
            move |clients| Plan { workload, clients, warm: self.warm, time: self.time * times(clients) };
        sizes.iter().map(move |&clients| plan(clients))
    }
}

/// A system as it was measured.
#[derive(Clone, Debug)]
pub struct Met {
    /// Its key.
    pub name: &'static str,
    /// What it is.
    pub title: &'static str,
    /// Its version and settings, or why it was skipped.
    pub what: Result<(String, Vec<String>), Skipped>,
}

/// What of the comparison is wanted.
pub struct Wish<'a> {
    /// Whether to measure this workload.
    pub workload: &'a dyn Fn(&str) -> bool,
    /// Whether to drive systems in this way.
    pub way: &'a dyn Fn(&str) -> bool,
    /// Whether to measure with so many clients.
    pub clients: &'a dyn Fn(usize) -> bool,
}

/// Measures all of these peers. What fails to start is skipped by name; what fails while it is measured is told, and the
/// rest goes on.
pub fn run(
    scale: Scale,
    peers: &[Box<dyn Peer>],
    wish: &Wish<'_>,
    book: &mut Book,
    progress: &mut Progress,
) -> Result<Vec<Met>, String> {
    let plans: Vec<Plan> = Workload::ALL
        .iter()
        .filter(|workload| (wish.workload)(workload.name()))
        .flat_map(|&workload| scale.plans(workload))
        .filter(|plan| (wish.clients)(plan.clients))
        .collect();
    let mut met = Vec::new();
    if plans.is_empty() {
        return Ok(met);
    }
    progress.expect(START * u32::try_from(peers.len() * scale.rounds).unwrap_or(u32::MAX));
    for round in 0..scale.rounds {
        let folder = tempfile::tempdir().map_err(|error| format!("no temporary folder: {error}"))?;
        let mut running: Vec<(&'static str, Running)> = Vec::new();
        for peer in peers {
            let place = folder.path().join(peer.name());
            std::fs::create_dir(&place).map_err(|error| format!("{}: {error}", place.display()))?;
            let started = peer.start(&place);
            if round == 0 {
                let what = started.as_ref().map(|it| (it.version.clone(), it.settings.clone()));
                met.push(Met { name: peer.name(), title: peer.title(), what: what.map_err(Skipped::clone) });
            }
            let told = match started {
                Ok(mut started) => {
                    started.ways.retain(|offered| (wish.way)(offered.name));
                    started.process.pause();
                    running.push((peer.name(), started));
                    "started".to_owned()
                }
                Err(Skipped(why)) => format!("skipped: {why}"),
            };
            progress.done(START, &format!("{} is {told}", peer.title()));
        }
        if round == 0 {
            let ways = running.iter().flat_map(|(_, running)| &running.ways);
            let does: usize =
                ways.map(|way| plans.iter().filter(|plan| way.does.contains(&plan.workload)).count()).sum();
            let times = u32::try_from(does * scale.rounds).unwrap_or(u32::MAX);
            progress.expect((scale.warm + scale.time).saturating_mul(times));
        }
        for (system, running) in &running {
            if let Err(error) = warm_up(scale, running) {
                book.fail(&format!("{system}, warming up"), &error);
            }
        }
        for (number, &plan) in plans.iter().enumerate() {
            // Nobody is always the first, nor always after the same one.
            let first = (round + number) % running.len().max(1);
            let mut order: Vec<_> = running[first..].iter().chain(&running[..first]).collect();
            if round % 2 == 1 {
                order.reverse();
            }
            for (system, running) in order {
                one_system(plan, system, running, book, progress);
            }
            if plan.workload == Workload::Contended {
                the_disk(plan, folder.path(), book);
            }
        }
    }
    if plans.iter().any(|plan| plan.workload == Workload::Contended) {
        let what = Ok((format!("{} bytes each", disk::RECORD_BYTES), Vec::new()));
        met.push(Met { name: disk::NAME, title: disk::TITLE, what });
    }
    Ok(met)
}

/// What the disk leaves to anybody who waits in line for each change to be durable.
fn the_disk(plan: Plan, folder: &Path, book: &mut Book) {
    rustix::fs::sync();
    let key = Key { workload: plan.workload.name(), system: disk::NAME, way: "", size: plan.clients };
    match disk::commits(folder, disk::RECORD_BYTES, plan.time) {
        Ok(commits_us) => book.record(key, disk::line(&commits_us, plan.clients)),
        Err(error) => book.fail("the disk alone", &error),
    }
}

/// Nobody is measured cold: compilers compile while they run, caches fill, files get their room.
fn warm_up(scale: Scale, running: &Running) -> Result<(), String> {
    let Some(first) = running.ways.first() else { return Ok(()) };
    let plan = Plan { workload: Workload::Uncontended, clients: 64, warm: scale.warm, time: scale.time };
    running.process.resume();
    let driven = first.way.drive(plan, &running.process);
    running.process.pause();
    driven.map(drop)
}

/// Every way of one system at one size.
fn one_system(plan: Plan, system: &'static str, running: &Running, book: &mut Book, progress: &mut Progress) {
    for offered in running.ways.iter().filter(|offered| offered.does.contains(&plan.workload)) {
        // What another has left in the system's cache is written now, and not while this one is measured.
        rustix::fs::sync();
        running.process.resume();
        let measured = offered.way.drive(plan, &running.process);
        running.process.pause();
        let (workload, clients) = (plan.workload.name(), plan.clients);
        let what = format!("{workload}, {clients} clients, {system} {}", offered.name);
        let values = match measured {
            Ok(values) => values,
            Err(error) => {
                book.fail(&what, &error);
                continue;
            }
        };
        let told = |name: &str| values.get(name).map(|value| show(name, *value));
        let rate = told("changes_per_second").or_else(|| told("per_second")).unwrap_or_default();
        let p50 = told("p50_us").map(|p50| format!(", p50 {p50}")).unwrap_or_default();
        progress.done(plan.warm + plan.time, &format!("{what}: {rate}/s{p50}"));
        book.record(Key { workload, system, way: offered.name, size: clients }, values);
    }
}
