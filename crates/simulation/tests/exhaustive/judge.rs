//! What must never be, and what must have been: seen from the journal's durable events, from what left the server, and from
//! what clients believe.

use std::collections::BTreeMap;

use leasehold_state_machine::event::Event;

/// Follows one world.
#[derive(Clone, Debug, Default)]
pub struct Judge {
    /// The lease that lives, by the journal.
    live: Option<u64>,
    last_token: u64,
    /// Until when a lease was promised at least, in raw time, by its token.
    promised: BTreeMap<u64, u64>,
    /// When leases ran out, in raw time.
    ended: BTreeMap<u64, u64>,
    /// What each request was answered with.
    granted: BTreeMap<(usize, u64), u64>,

    pub two_hold: bool,
    pub two_believe: bool,
    pub token_fell: bool,
    pub ended_early: bool,
    pub granted_twice: bool,

    pub ran_out: bool,
    pub lost: bool,
    pub renewed: bool,
    pub handed_on: bool,
    pub outlived_crash: bool,
    pub decision_lost: bool,
    pub repeated: bool,
}

impl Judge {
    /// This event is durable; it was decided then.
    pub fn durable(&mut self, raw_us: u64, event: &Event) {
        match event {
            Event::Granted { token, .. } => {
                self.two_hold |= self.live.is_some();
                self.token_fell |= *token <= self.last_token;
                self.handed_on |= self.last_token > 0;
                self.last_token = *token;
                self.live = Some(*token);
            }
            Event::Released { lease, .. } => self.gone(lease.token),
            Event::Expired { lease } => {
                self.gone(lease.token);
                self.ran_out = true;
                self.ended.insert(lease.token, raw_us);
                self.compare(lease.token);
            }
            _ => {}
        }
    }

    fn gone(&mut self, token: u64) {
        self.live = self.live.filter(|live| *live != token);
    }

    /// An answer left the server that lets its lease live at least until then.
    pub fn promised(&mut self, token: u64, until_raw_us: u64) {
        let known = self.promised.entry(token).or_default();
        *known = (*known).max(until_raw_us);
        self.compare(token);
    }

    fn compare(&mut self, token: u64) {
        let (promised, ended) = (self.promised.get(&token), self.ended.get(&token));
        self.ended_early |= promised.zip(ended).is_some_and(|(promised_us, ended_us)| ended_us < promised_us);
    }

    /// An answer left the server that says with which token this request was granted.
    pub fn told(&mut self, client: usize, request: u64, token: u64) {
        match self.granted.insert((client, request), token) {
            Some(before) if before != token => self.granted_twice = true,
            Some(_) => self.repeated = true,
            None => {}
        }
    }

    /// The server has started again; who held goes on holding.
    pub fn restarted(&mut self, leases: usize) {
        self.outlived_crash |= leases > 0 && self.live.is_some();
    }
}
