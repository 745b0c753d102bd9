//! libFuzzer on `crates/hostile/src/targets/resource.rs`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    (leasehold_hostile::targets::resource::TARGET.run)(bytes);
});
