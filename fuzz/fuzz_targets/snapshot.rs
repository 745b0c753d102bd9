//! libFuzzer on `crates/hostile/src/targets/snapshot.rs`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    (leasehold_hostile::targets::snapshot::TARGET.run)(bytes);
});
