//! libFuzzer on `crates/hostile/src/targets/event.rs`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    (leasehold_hostile::targets::event::TARGET.run)(bytes);
});
