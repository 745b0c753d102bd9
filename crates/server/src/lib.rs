//! The doors: HTTP and gRPC on one port; limits, metrics, logs, the audit trail, and how a
//! server starts and stops.
//!
//! Everything here converts and carries: who holds a lock, and when an answer may leave, is decided in the engine.
//!
//! Modules in reading order, low to high.
#![forbid(unsafe_code)]

pub mod limits;

pub mod rfc3339;
pub mod wire;

pub mod files;

pub mod watch;

pub mod metrics;

pub mod secret_file;

pub mod auth;
pub mod tls;

pub mod http;

pub mod grpc;

pub mod doors;

pub mod config;

pub mod audit;
pub mod logs;
mod look_out;
pub mod trail;

pub mod serve;
