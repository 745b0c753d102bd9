//! A client: it asks, asks again when it hears nothing, renews when its keeper says so, gives back, and begins anew when it has
//! lost. What it believes is the keeper's to say.

use leasehold_client::keeper::{Confirmation, Keeper, Renewal, Standing, Step};
use leasehold_state_machine::answer::LeaseView;
use leasehold_state_machine::command::{Acquire, Command, Proof, Renew};
use leasehold_state_machine::ids::LeaseId;
use leasehold_state_machine::resource::Resource;
use leasehold_state_machine::words::{Metadata, Mode, Owner, RequestId, Ttl, Wait};

use crate::world::TTL_MS;

/// How many requests it makes at most, repeats apart.
const REQUESTS_MAX: u64 = 2;

/// What is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wish {
    Acquire,
    Renew,
    Release,
}

#[derive(Clone, Debug)]
pub struct Client {
    number: usize,
    /// The request that it is about.
    pub request: u64,
    /// Whether it waits for an answer.
    pub waits: bool,
    lease: Option<(LeaseId, u64)>,
    keeper: Option<Keeper>,
    /// Whether its request ended, and the next one may be made.
    over: bool,
}

impl Client {
    pub fn new(number: usize) -> Client {
        Client { number, request: 1, waits: false, lease: None, keeper: None, over: false }
    }

    /// Its clock: the second client's is slow by a hundredth.
    pub fn clock_us(&self, now_us: u64) -> u64 {
        if self.number == 0 { now_us } else { now_us - now_us / 100 }
    }

    pub fn believes(&self, now_us: u64) -> bool {
        let standing = self.keeper.clone().map(|mut keeper| keeper.look(self.clock_us(now_us)));
        matches!(standing, Some(Standing::Safe { .. } | Standing::InJeopardy { .. }))
    }

    pub fn has_lost(&self, now_us: u64) -> bool {
        self.keeper.clone().is_some_and(|mut keeper| keeper.look(self.clock_us(now_us)) == Standing::Lost)
    }

    /// What it may do now.
    pub fn wishes(&self, now_us: u64) -> Vec<Wish> {
        if self.waits {
            return Vec::new();
        }
        if self.keeper.is_none() || self.has_lost(now_us) {
            let anew = self.over || self.keeper.is_some();
            let may = !anew || self.request < REQUESTS_MAX;
            return if may { vec![Wish::Acquire] } else { Vec::new() };
        }
        let mut keeper = self.keeper.clone();
        let due = keeper.as_mut().map(|keeper| keeper.step(self.clock_us(now_us))) == Some(Step::Renew);
        if due { vec![Wish::Renew, Wish::Release] } else { vec![Wish::Release] }
    }

    /// What it sends. Who gives back stops believing first.
    pub fn send(&mut self, wish: Wish, now_us: u64) -> Command {
        self.waits = true;
        let resource = Resource::parse("lock").unwrap();
        let owner = Owner::parse(&format!("client-{}", self.number)).unwrap();
        let proof = |held: Option<(LeaseId, u64)>| {
            let (lease, token) = held.unwrap();
            Proof { resource: resource.clone(), owner: owner.clone(), lease, token }
        };
        match wish {
            Wish::Acquire => {
                if self.over || self.keeper.is_some() {
                    *self = Client { request: self.request + 1, waits: true, ..Client::new(self.number) };
                }
                Command::Acquire(Acquire {
                    resource,
                    owner,
                    ttl: Some(Ttl::from_ms(TTL_MS).unwrap()),
                    mode: Mode::Exclusive,
                    wait: Wait::from_ms(60_000).unwrap(),
                    session: None,
                    request_id: Some(RequestId::parse(&format!("r{}", self.request)).unwrap()),
                    metadata: Metadata::default(),
                })
            }
            Wish::Renew => {
                let clock_us = self.clock_us(now_us);
                self.keeper.iter_mut().for_each(|keeper| keeper.renewal_sent(clock_us));
                Command::Renew(Renew { proof: proof(self.lease), ttl: None, metadata: None })
            }
            Wish::Release => {
                self.keeper = None;
                self.over = true;
                Command::Release(proof(self.lease))
            }
        }
    }

    /// A lease was granted or renewed by an attempt that was sent then.
    pub fn hear(&mut self, wish: Wish, sent_us: u64, now_us: u64, view: &LeaseView) {
        let answer = Confirmation {
            sent_us: self.clock_us(sent_us),
            heard_us: self.clock_us(now_us),
            ttl_us: view.ttl.us(),
            renew_after_us: view.renew_after_ms * 1000,
            stop_after_us: view.stop_after_ms * 1000,
        };
        if wish == Wish::Acquire {
            self.lease = Some((view.lease, view.token));
            self.keeper = Some(Keeper::new(Renewal::Timetable));
        }
        // What comes too late to believe is confirmed by a renewal first: the keeper's next step says so.
        let _ = self.keeper.as_mut().map(|keeper| keeper.confirm(answer));
    }

    /// The server said that there is no such lease.
    pub fn hear_no(&mut self) {
        match &mut self.keeper {
            Some(keeper) => keeper.lose(),
            None => self.over = true,
        }
    }
}
