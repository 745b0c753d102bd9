//! The locks, channels and threads by which the threads around the engine hand things over: the standard
//! library's. With the feature `shuttle` they are others that do the same, and let a test choose every order in which
//! the threads could have run.

pub(crate) use std::thread::panicking;

#[cfg(not(feature = "shuttle"))]
pub(crate) use std::{
    sync::{Condvar, Mutex, MutexGuard, mpsc},
    thread,
};

#[cfg(feature = "shuttle")]
pub(crate) use shuttle::{
    sync::{Condvar, Mutex, MutexGuard, mpsc},
    thread,
};
