//! libFuzzer on `crates/hostile/src/targets/grpc.rs`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    (leasehold_hostile::targets::grpc::TARGET.run)(bytes);
});
