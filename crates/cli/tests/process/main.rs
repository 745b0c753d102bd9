//! The real program as a process: what it prints, how it ends, and what it still knows after it was killed.
#![expect(clippy::unwrap_used, reason = "a test that meets what it does not expect fails")]

mod client;
mod program;

mod asking;
mod backup;
mod configuration;
mod credentials;
mod faults;
mod files;
mod help;
mod hostile;
mod journal;
mod kill;
mod listing;
mod load;
mod load_files;
mod lock;
mod refusals;
mod secrets;
mod sim;
mod starting;
mod stopping;
mod stories;
mod terminal;
mod watch;
mod watching;
