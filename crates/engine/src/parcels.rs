//! Answers that are ready, and have not been handed over: those for one conversation lie together, written as they will leave, and
//! are said in one breath. So they can be packed while what they rest on is on its way to the disk, and nobody waits for the
//! writing once it is there. Does not know when that is: whoever packs hands over when the engine says so.

use leasehold_state_machine::answer::Outcome;
use leasehold_state_machine::command::Attachment;
use leasehold_state_machine::ids::LeaseId;
use tokio::sync::oneshot;

use crate::admission::Permit;
use crate::handle::STOPPING;
use crate::limits::PARCELS_KEPT;
use crate::scribe::Scribe;
use crate::stream::{News, Said, Way};
use crate::voice::{Earful, Sleepers, Voice};

/// A grant that nobody could ask for again if it is not heard of.
pub(crate) type Grant = (Attachment, LeaseId);

/// An answer, and everything that goes with it.
pub(crate) struct Answered {
    pub to: Attachment,
    pub way: Way,
    pub permit: Option<Permit>,
    pub outcome: Outcome,
    /// What to give back if nobody hears of it.
    pub grant: Option<LeaseId>,
}

/// Packed answers. Dropped, they belong to a server that stops: a call finds that out by itself, a conversation is told.
#[derive(Default)]
pub(crate) struct Parcels {
    /// Those of conversations: so many are in use, the others are kept for their room.
    parcels: Vec<Parcel>,
    in_use: usize,
    calls: Vec<(oneshot::Sender<Outcome>, Outcome, Option<Grant>)>,
    /// One for each lane; given back when everybody is answered.
    permits: Vec<Permit>,
    count: usize,
}

/// Answers of one conversation.
#[derive(Default)]
struct Parcel {
    to: Option<Voice<Said>>,
    answers: Earful<Said>,
    grants: Vec<Grant>,
}

impl Parcels {
    /// How many answers there are.
    pub fn count(&self) -> usize {
        self.count
    }

    /// Takes the place of others, which were all handed over and leave their room behind.
    pub fn go_over_to(&mut self, others: &mut Parcels) {
        assert_eq!(others.count, 0, "one batch is handed out at a time, and what left before is gone");
        std::mem::swap(self, others);
    }

    /// Puts an answer to the others, written if the scribe can.
    pub fn pack(&mut self, answered: Answered, scribe: &mut dyn Scribe) {
        let Answered { to, way, permit, outcome, grant } = answered;
        self.count += 1;
        self.keep(permit);
        let grant = grant.map(|lease| (to, lease));
        match way {
            Way::Once(answer) => self.calls.push((answer, outcome, grant)),
            Way::Stream(request) => {
                let parcel = self.parcel_for(request.voice());
                let Earful { said, written } = &mut parcel.answers;
                let (number, before) = (request.into_number(), written.len());
                let news = match outcome {
                    Ok(answer) if scribe.write(number, &answer, written) => {
                        News::Written(written.len() - before)
                    }
                    told_as_it_is => News::Outcome(told_as_it_is),
                };
                said.push_back(Said::To(to, number, news));
                parcel.grants.extend(grant);
            }
        }
    }

    /// The parcel for a conversation: the last one, or another. Those who asked together are answered together, so that it is hardly
    /// ever worth looking further.
    fn parcel_for(&mut self, voice: &Voice<Said>) -> &mut Parcel {
        let last = self.in_use.checked_sub(1).and_then(|at| self.parcels[at].to.as_ref());
        if !last.is_some_and(|last| last.is_same(voice)) {
            if self.in_use == self.parcels.len() {
                self.parcels.push(Parcel::default());
            }
            self.parcels[self.in_use].to = Some(voice.clone());
            self.in_use += 1;
        }
        &mut self.parcels[self.in_use - 1]
    }

    fn keep(&mut self, mut permit: Option<Permit>) {
        for kept in &mut self.permits {
            permit = permit.and_then(|permit| kept.join(permit));
        }
        self.permits.extend(permit);
    }

    /// Hands everything over, and leaves to the caller to wake whoever listens. Gives those grants that nobody hears of.
    pub fn hand_over(&mut self, sleepers: &mut Sleepers) -> Vec<Grant> {
        let mut unheard = Vec::new();
        self.count = 0;
        // Whoever hears the answer may ask again at once.
        self.permits.clear();
        for parcel in &mut self.parcels[..self.in_use] {
            let heard = parcel.to.take().is_some_and(|to| to.say_all(&mut parcel.answers, sleepers));
            if !heard {
                unheard.append(&mut parcel.grants);
                parcel.answers = Earful::default();
            }
            parcel.grants.clear();
        }
        self.in_use = 0;
        self.parcels.truncate(PARCELS_KEPT);
        for (answer, outcome, grant) in self.calls.drain(..) {
            if answer.send(outcome).is_err() {
                unheard.extend(grant);
            }
        }
        unheard
    }
}

impl Drop for Parcel {
    fn drop(&mut self) {
        let Some(to) = self.to.take() else { return };
        let mut sleepers = Sleepers::default();
        for said in self.answers.said.drain(..) {
            if let Said::To(attachment, number, _) = said {
                let _ = to.say(Said::To(attachment, number, News::Outcome(Err(STOPPING))), &mut sleepers);
            }
        }
        sleepers.wake();
    }
}
