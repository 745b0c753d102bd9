//! Everything that can happen to one lock and two clients, to a fixed depth: not drawn by a seed but tried one by one. What is
//! tried is the real thing: the engine with the real state machine in it, its batches as the journal keeps them, the real
//! replay after a crash, and the SDK's own keeper.
//!
//! A state is the way that leads to it; it is walked anew for each step, because an engine cannot be copied. Two ways that end
//! in the same world are followed once.

#![allow(clippy::unwrap_used)]

mod client;
mod judge;
mod world;

use std::fmt::{self, Write};
use std::hash::{DefaultHasher, Hash, Hasher};

use stateright::{Checker, Model, Property};

use crate::judge::Judge;
use crate::world::{Action, World};

/// One lock, two clients, and what may happen to them.
struct OneLock {
    may: fn(&Action) -> bool,
}

/// A world, known by the way to it.
#[derive(Clone, Debug)]
struct Reached {
    way: Vec<Action>,
    open: Vec<Action>,
    digest: u64,
    judge: Judge,
}

impl PartialEq for Reached {
    fn eq(&self, other: &Reached) -> bool {
        self.digest == other.digest
    }
}

impl Hash for Reached {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        self.digest.hash(hasher);
    }
}

/// Hashes what is printed into it.
struct Digest(DefaultHasher);

impl Write for Digest {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0.write(text.as_bytes());
        Ok(())
    }
}

impl Reached {
    fn by(way: Vec<Action>) -> Reached {
        let mut world = World::new();
        way.iter().for_each(|action| world.happen(*action));
        let mut digest = Digest(DefaultHasher::new());
        write!(digest, "{world:?}").unwrap();
        Reached { way, open: world.open(), digest: digest.0.finish(), judge: world.judge }
    }
}

impl Model for OneLock {
    type State = Reached;
    type Action = Action;

    fn init_states(&self) -> Vec<Reached> {
        vec![Reached::by(Vec::new())]
    }

    fn actions(&self, state: &Reached, actions: &mut Vec<Action>) {
        actions.extend(state.open.iter().filter(|action| (self.may)(action)));
    }

    fn next_state(&self, last: &Reached, action: Action) -> Option<Reached> {
        let mut way = last.way.clone();
        way.push(action);
        Some(Reached::by(way))
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("exclusion", |_, state: &Reached| !state.judge.two_hold),
            Property::always("exclusion of belief", |_, state: &Reached| !state.judge.two_believe),
            Property::always("token growth", |_, state: &Reached| !state.judge.token_fell),
            Property::always("never_early", |_, state: &Reached| !state.judge.ended_early),
            Property::always("one_effect", |_, state: &Reached| !state.judge.granted_twice),
            Property::sometimes("a lease ran out", |_, state: &Reached| state.judge.ran_out),
            Property::sometimes("a client noticed its loss", |_, state: &Reached| state.judge.lost),
            Property::sometimes("a lease was renewed", |_, state: &Reached| state.judge.renewed),
            Property::sometimes("the lock was handed on", |_, state: &Reached| state.judge.handed_on),
            Property::sometimes("a lease outlived a crash", |_, state: &Reached| state.judge.outlived_crash),
            Property::sometimes("a decision was lost in a crash", |_, state: &Reached| {
                state.judge.decision_lost
            }),
            Property::sometimes("a repeat was answered with the first grant", |_, state: &Reached| {
                state.judge.repeated
            }),
        ]
    }
}

/// Tries everything that may happen, to this depth.
fn explore(depth: usize, may: fn(&Action) -> bool) -> impl Checker<OneLock> {
    OneLock { may }.checker().target_max_depth(depth).threads(1).spawn_bfs().join()
}

#[cfg(not(feature = "planted-bugs"))]
#[test]
fn everything_to_a_fixed_depth() {
    // The first state counts as one: so many steps less one.
    let depth = std::env::var("LEASEHOLD_MODEL_DEPTH").map_or(10, |text| text.parse().unwrap());
    let explored = explore(depth, |_| true);
    let (states, ways) = (explored.unique_state_count(), explored.state_count());
    println!("depth {depth}: {states} states, reached in {ways} ways");
    explored.assert_properties();
}

/// The proof that the model can see. What takes many steps is looked for among fewer kinds of them.
#[cfg(feature = "planted-bugs")]
mod planted {
    use super::*;
    use crate::client::Wish;
    use leasehold_planted::{Bug, plant};

    fn caught(bug: Bug, property: &'static str, depth: usize, may: fn(&Action) -> bool) {
        let _planted = plant(Some(bug));
        let explored = explore(depth, may);
        let states = explored.unique_state_count();
        let Some(way) = explored.discovery(property) else {
            panic!("{} is not seen by {property} in {states} states", bug.name());
        };
        println!("{}: {property} among {states} states, by {:?}", bug.name(), way.into_actions());
    }

    #[test]
    fn a_reply_before_the_sync() {
        caught(Bug::ReplyBeforeSync, "exclusion of belief", 10, |action| {
            !matches!(action, Action::LoseRequest(_) | Action::LoseAnswer(_) | Action::StandStill)
        });
    }

    #[test]
    fn request_ids_that_nobody_looks_up() {
        caught(Bug::RequestIdsIgnored, "one_effect", 10, |action| {
            !matches!(action, Action::Crash { .. } | Action::StandStill | Action::Send(0, _))
        });
    }

    #[test]
    fn a_client_that_counts_from_the_reply() {
        caught(Bug::ClientCountsFromReply, "exclusion of belief", 12, |action| {
            matches!(
                action,
                Action::Send(_, Wish::Acquire) | Action::Arrive(_) | Action::Hear(_) | Action::Pass
            )
        });
    }

    #[test]
    fn an_early_end_after_a_restart() {
        caught(Bug::ExpiresEarlyAfterRestart, "never_early", 13, |action| match action {
            Action::Send(client, wish) => *client == 0 && *wish != Wish::Release,
            Action::LoseRequest(_) | Action::LoseAnswer(_) | Action::StandStill => false,
            _ => true,
        });
    }
}
