//! What is counted and how it is shown: the Prometheus text of section 9 of the contract. No label ever holds a
//! lock's name or an owner.

pub mod exposition;
pub mod process;
pub mod tallies;
pub mod text;
