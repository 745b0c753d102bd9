//! The second thread: turns the engine while the first is at the disk for longer than usual, and goes to the disk in its place when
//! it is sent on an errand.

use std::time::Duration;

use crate::driven::{Common, FailOnPanic};
use crate::inbox::{StandingIn, Wanted};
use crate::limits::STAND_IN_LOOK_EVERY_MS;
use crate::placement::Bond;
use crate::storage::{Back, Errand};

/// Runs until the engine has ended.
pub(crate) fn stand_in(common: &Common) {
    let _on_panic = FailOnPanic(common);
    let look_every = Duration::from_millis(STAND_IN_LOOK_EVERY_MS);
    let (mut standing_in, mut bond) = (StandingIn::default(), Bond::none());
    while let Some(wanted) = common.shared.inbox.stand_in(look_every, &mut standing_in) {
        if let Wanted::For(errand) = wanted {
            run(common, errand, &mut bond);
            continue;
        }
        bond.change(None);
        let Some(mut driven) = common.driven() else { return };
        // One that has come back meanwhile does it itself.
        if !common.shared.inbox.is_away() {
            continue;
        }
        match driven.turn(&common.shared, usize::MAX) {
            Ok(()) => drop(driven.desk.let_go()),
            Err(failure) => return common.fail(driven, failure),
        }
    }
}

/// Takes a batch to the disk.
fn run(common: &Common, errand: Errand, bond: &mut Bond) {
    let Errand { mut storage, batch, at } = errand;
    bond.change(at);
    let last_seq = batch.last_seq;
    let appended = storage.append(batch);
    let back = Back { storage, last_seq, appended };
    if let Err(back) = common.shared.inbox.bring(Box::new(back)) {
        // The engine has ended meanwhile, and nobody hears of it.
        back.storage.stop();
    }
}
