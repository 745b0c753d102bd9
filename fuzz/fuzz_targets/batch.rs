//! libFuzzer on `crates/hostile/src/targets/batch.rs`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    (leasehold_hostile::targets::batch::TARGET.run)(bytes);
});
