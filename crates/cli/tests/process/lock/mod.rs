//! `lock` and `elect`: a command that runs only while its lease lasts, whatever is killed or stopped meanwhile.

pub mod holder;
pub mod stage;

mod watchdog;

mod statuses;
mod surroundings;
mod waiting;

mod cut_off;
mod killed;
mod signals;
mod stopped;

mod elect;
mod terminal;
