//! What is left out of a seed's plan, so that a failing run can be told with less: fewer clients, fewer faults, an earlier
//! end. As text it can be given to the command line again, and the same run follows.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use leasehold_engine::AdmissionLimits;
use leasehold_state_machine::limits::Limits;

use crate::plan::{Plan, Weather};

/// What is left out. Everything of it that a plan does not have is without effect.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cuts {
    /// Only so many clients.
    pub clients: Option<usize>,
    /// The faults stop by then.
    pub until_us: Option<u64>,
    /// Without these large things, by their place in the plan.
    pub disasters: BTreeSet<usize>,
    /// Without these bursts of a quiet run, by their place; one is always left.
    pub bursts: BTreeSet<usize>,
    /// Without these other things, by name.
    pub without: BTreeSet<&'static str>,
}

/// What can be left out beside small faults.
const PARTS: [&str; 5] = ["files", "streams", "register", "limits", "drift"];

impl Cuts {
    /// The names of what can be left out.
    pub fn names() -> Vec<&'static str> {
        let mut weather = Weather::default();
        let small = weather.kinds().into_iter().map(|(name, _)| name);
        small.chain(PARTS).collect()
    }

    /// Leaves it out of a plan.
    pub fn apply(&self, plan: &mut Plan) {
        if let Some(clients) = self.clients {
            plan.clients = plan.clients.min(clients.max(1));
        }
        if let Some(until_us) = self.until_us {
            plan.heal_at_us = plan.heal_at_us.min(until_us);
        }
        let mut place = 0;
        plan.disasters.retain(|(at_us, _)| {
            place += 1;
            !self.disasters.contains(&(place - 1)) && *at_us < plan.heal_at_us
        });
        let kept: Vec<(u64, u64)> = {
            let bursts = plan.bursts.iter().enumerate();
            bursts.filter(|(place, _)| !self.bursts.contains(place)).map(|(_, burst)| *burst).collect()
        };
        if !kept.is_empty() {
            plan.bursts = kept;
        }
        for (name, rate) in plan.weather.kinds() {
            if self.without.contains(name) {
                *rate = 0;
            }
        }
        plan.files &= !self.without.contains("files");
        plan.streams &= !self.without.contains("streams");
        plan.register &= !self.without.contains("register");
        if self.without.contains("limits") {
            (plan.limits, plan.admission) = (Limits::default(), AdmissionLimits::default());
        }
        if self.without.contains("drift") {
            plan.drift_ppm = 0;
        }
    }
}

impl fmt::Display for Cuts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut parts = Vec::new();
        parts.extend(self.clients.map(|clients| format!("clients={clients}")));
        parts.extend(self.until_us.map(|until_us| format!("until={until_us}us")));
        parts.extend(self.without.iter().map(|name| format!("no-{name}")));
        for (what, places) in [("events", &self.disasters), ("bursts", &self.bursts)] {
            if !places.is_empty() {
                let places: Vec<String> = places.iter().map(usize::to_string).collect();
                parts.push(format!("no-{what}={}", places.join("+")));
            }
        }
        f.write_str(&parts.join(","))
    }
}

impl FromStr for Cuts {
    type Err = String;

    fn from_str(text: &str) -> Result<Cuts, String> {
        let mut cuts = Cuts::default();
        for part in text.split(',').filter(|part| !part.is_empty()) {
            let wrong = || {
                format!("`{part}` is nothing that can be left out; copy the words that a failing run gave")
            };
            let number = |text: &str| text.parse::<u64>().map_err(|_| wrong());
            if let Some(count) = part.strip_prefix("clients=") {
                cuts.clients = Some(usize::try_from(number(count)?).map_err(|_| wrong())?);
            } else if let Some(until) = part.strip_prefix("until=").and_then(|text| text.strip_suffix("us")) {
                cuts.until_us = Some(number(until)?);
            } else if let Some((what @ ("no-events" | "no-bursts"), places)) = part.split_once('=') {
                let cut = if what == "no-events" { &mut cuts.disasters } else { &mut cuts.bursts };
                for place in places.split('+') {
                    cut.insert(usize::try_from(number(place)?).map_err(|_| wrong())?);
                }
            } else {
                let name = part.strip_prefix("no-").ok_or_else(wrong)?;
                let known = Cuts::names().into_iter().find(|known| *known == name);
                cuts.without.insert(known.ok_or_else(wrong)?);
            }
        }
        Ok(cuts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Sources;

    #[test]
    fn text_and_back() {
        let cuts = Cuts {
            clients: Some(2),
            until_us: Some(1_500_000),
            disasters: BTreeSet::from([0, 7]),
            bursts: BTreeSet::from([2]),
            without: BTreeSet::from(["files", "lost_reply"]),
        };
        let text = cuts.to_string();
        assert_eq!(text, "clients=2,until=1500000us,no-files,no-lost_reply,no-events=0+7,no-bursts=2");
        assert_eq!(text.parse(), Ok(cuts));
        assert_eq!("".parse(), Ok(Cuts::default()));
        for wrong in ["clients=", "until=5", "no-such", "files", "no-events=1+", "no-events=x"] {
            assert!(wrong.parse::<Cuts>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_quiet_plan_keeps_a_burst() {
        let quiet = (1..).map(|seed| Plan::draw(&mut Sources::new(seed))).find(Plan::is_quiet);
        let mut plan = quiet.unwrap();
        let bursts = plan.bursts.clone();
        Cuts { bursts: BTreeSet::from([0]), ..Cuts::default() }.apply(&mut plan);
        assert_eq!(plan.bursts, bursts[1..]);
        Cuts { bursts: (0..30).collect(), ..Cuts::default() }.apply(&mut plan);
        assert!(plan.is_quiet());
    }

    #[test]
    fn a_plan_has_less() {
        let mut plan = Plan::draw(&mut Sources::new(3));
        let (events, clients) = (plan.disasters.len(), plan.clients);
        Cuts::default().apply(&mut plan);
        assert_eq!((plan.disasters.len(), plan.clients), (events, clients));
        let cuts: Cuts = "clients=1,until=20000000us,no-streams,no-late_close,no-events=0".parse().unwrap();
        cuts.apply(&mut plan);
        assert!(plan.clients == 1 && !plan.streams && plan.weather.late_close == 0);
        assert!(plan.disasters.iter().all(|(at_us, _)| *at_us < 20_000_000));
    }
}
