//! What is said on the wire over gRPC: the messages and services of `leasehold.v1`, generated from the files under
//! `proto/`, which are written for their readers. Holds no behaviour; what a message means is the server's business.

#![forbid(unsafe_code)]

/// The package `leasehold.v1`.
#[allow(missing_docs, clippy::all, unused_qualifications)]
pub mod v1 {
    tonic::include_proto!("leasehold.v1");
}

/// The descriptors of everything in [`v1`], for server reflection.
pub const DESCRIPTORS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/descriptors.bin"));
