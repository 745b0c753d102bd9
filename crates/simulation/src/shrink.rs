//! Makes a failing run small: leaves out what it can while the same invariant still does not hold. Greedy and bounded; the
//! smallest run it finds need not be the smallest there is.

use crate::cuts::Cuts;
use crate::plan::Plan;
use crate::random::Sources;
use crate::run::{Order, Outcome, carry_out};

/// A failing run, made small.
#[derive(Debug)]
pub struct Shrunk {
    /// What is left out.
    pub cuts: Cuts,
    /// What is left: clients, large things, small ones.
    pub clients: usize,
    /// Large things that still happen.
    pub disasters: usize,
    /// The run.
    pub outcome: Outcome,
    /// How many runs it took.
    pub tries: u32,
}

/// Shrinks a run that violates something; none if it does not. `go_on` is asked before each try.
pub fn shrink(order: &Order, mut go_on: impl FnMut() -> bool) -> Option<Shrunk> {
    shrink_by(order, &mut carry_out, &mut go_on)
}

fn shrink_by(
    order: &Order,
    run: &mut dyn FnMut(&Order) -> Outcome,
    go_on: &mut dyn FnMut() -> bool,
) -> Option<Shrunk> {
    let first = run(order);
    let invariant = first.violation.as_ref()?.invariant;
    let order = Order { trace: false, ..order.clone() };
    let mut search = Search { order, invariant, best: first, tries: 0, run, go_on };
    search.end_early();
    loop {
        let before = search.order.cuts.clone();
        search.fewer_disasters();
        search.fewer_bursts();
        search.without_the_rest();
        search.fewer_clients();
        search.end_early();
        if search.order.cuts == before {
            break;
        }
    }
    let plan = search.plan();
    let Search { order, best, tries, .. } = search;
    Some(Shrunk {
        cuts: order.cuts,
        clients: plan.clients,
        disasters: plan.disasters.len(),
        outcome: best,
        tries,
    })
}

struct Search<'a> {
    order: Order,
    invariant: &'static str,
    best: Outcome,
    tries: u32,
    run: &'a mut dyn FnMut(&Order) -> Outcome,
    go_on: &'a mut dyn FnMut() -> bool,
}

impl Search<'_> {
    fn plan(&self) -> Plan {
        let mut plan = Plan::draw(&mut Sources::new(self.order.seed));
        self.order.cuts.apply(&mut plan);
        plan
    }

    /// Takes these cuts if the run still fails with them.
    fn offer(&mut self, cuts: Cuts) -> bool {
        if !(self.go_on)() {
            return false;
        }
        self.tries += 1;
        let order = Order { cuts, ..self.order.clone() };
        let outcome = (self.run)(&order);
        let fails = outcome.violation.as_ref().is_some_and(|found| found.invariant == self.invariant);
        if fails {
            (self.order, self.best) = (order, outcome);
        }
        fails
    }

    fn with(&self, change: impl FnOnce(&mut Cuts)) -> Cuts {
        let mut cuts = self.order.cuts.clone();
        change(&mut cuts);
        cuts
    }

    /// The faults stop when it has failed; where what failed is the end itself, earlier and earlier.
    fn end_early(&mut self) {
        let mut until_us = self.plan().heal_at_us.min(self.best.ended_us + 1);
        while until_us > 100_000 && until_us < self.plan().heal_at_us {
            let cuts = self.with(|cuts| cuts.until_us = Some(until_us));
            if !self.offer(cuts) {
                break;
            }
            until_us = (self.best.ended_us + 1).min(until_us / 2);
        }
    }

    /// Without large things: many at once, then fewer, then each.
    fn fewer_disasters(&mut self) {
        let all = Plan::draw(&mut Sources::new(self.order.seed)).disasters.len();
        let mut at_once = all.max(1);
        while at_once > 0 {
            let kept: Vec<usize> =
                (0..all).filter(|place| !self.order.cuts.disasters.contains(place)).collect();
            for some in kept.chunks(at_once) {
                let cuts = self.with(|cuts| cuts.disasters.extend(some));
                self.offer(cuts);
            }
            at_once /= 2;
        }
    }

    /// A quiet run with fewer bursts.
    fn fewer_bursts(&mut self) {
        let all = Plan::draw(&mut Sources::new(self.order.seed)).bursts.len();
        for place in 0..all {
            if !self.order.cuts.bursts.contains(&place) && self.plan().bursts.len() > 1 {
                let cuts = self.with(|cuts| cuts.bursts.extend([place]));
                self.offer(cuts);
            }
        }
    }

    fn without_the_rest(&mut self) {
        for name in Cuts::names() {
            if !self.order.cuts.without.contains(name) {
                let cuts = self.with(|cuts| cuts.without.extend([name]));
                self.offer(cuts);
            }
        }
    }

    fn fewer_clients(&mut self) {
        for clients in 1..self.plan().clients {
            let cuts = self.with(|cuts| cuts.clients = Some(clients));
            if self.offer(cuts) {
                break;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::faults::Tally;
    use crate::invariants::Violation;

    /// A world in which nothing fails unless the third large thing of the plan happens to at least two clients while replies
    /// are lost; then it does so after five seconds.
    fn run(order: &Order) -> Outcome {
        let Cuts { clients, until_us, disasters, without, .. } = &order.cuts;
        let fails = clients.is_none_or(|clients| clients >= 2)
            && until_us.is_none_or(|until_us| until_us > 5_000_000)
            && !disasters.contains(&2)
            && !without.contains("lost_reply");
        let violation = fails.then(|| Violation::new("progress", "it fails"));
        Outcome {
            tally: Tally::default(),
            violation,
            ended_us: 5_000_000,
            trace: String::new(),
            history: Default::default(),
        }
    }

    #[test]
    fn a_failing_run_is_told_with_as_little_as_it_takes() {
        let order = Order { seed: 2, ..Order::default() };
        let all = Plan::draw(&mut Sources::new(2)).disasters.len();
        assert!(all > 3);
        let shrunk = shrink_by(&order, &mut run, &mut || true).unwrap();
        assert_eq!((shrunk.cuts.clients, shrunk.cuts.until_us), (Some(2), Some(5_000_001)));
        assert_eq!(shrunk.cuts.disasters.len(), all - 1);
        assert_eq!(shrunk.cuts.without.len(), Cuts::names().len() - 1);
        assert!(run(&Order { cuts: shrunk.cuts.to_string().parse().unwrap(), ..order }).violation.is_some());
    }

    #[test]
    fn nothing_is_tried_when_time_is_over() {
        let order = Order { seed: 2, ..Order::default() };
        let shrunk = shrink_by(&order, &mut run, &mut || false).unwrap();
        assert_eq!((shrunk.cuts, shrunk.tries), (Cuts::default(), 0));
    }

    #[test]
    fn a_sound_run_has_nothing_to_shrink() {
        assert!(shrink(&Order { seed: 2, ..Order::default() }, || true).is_none());
    }
}
