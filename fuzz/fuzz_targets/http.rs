//! libFuzzer on `crates/hostile/src/targets/http.rs`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    (leasehold_hostile::targets::http::TARGET.run)(bytes);
});
