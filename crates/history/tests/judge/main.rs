//! The judge is judged: histories with one thing wrong are refused by the rule that was broken and with the operations named,
//! histories of a service that does everything right are not refused, and a million operations are no more work than they
//! should be.

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod million;
mod planted;
mod service;
mod story;
mod sunny;
