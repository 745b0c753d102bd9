//! libFuzzer on `crates/hostile/src/targets/journal_files.rs`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    (leasehold_hostile::targets::journal_files::TARGET.run)(bytes);
});
