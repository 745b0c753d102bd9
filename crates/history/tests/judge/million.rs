//! A million operations. The work is compared with that for a tenth of them: what took a hundred times as long would be
//! quadratic. It is counted in time on the processor, so that whatever else the machine does is left out.

use std::fs;

use leasehold_history::{Settings, check};

use crate::service::{Climate, Service};

/// Nanoseconds that this thread has spent on a processor.
fn on_processor_ns() -> u64 {
    let text = fs::read_to_string("/proc/thread-self/schedstat").expect("Linux tells a thread's time");
    text.split(' ').next().unwrap().parse().unwrap()
}

fn judged_in_ms(operations: usize) -> u64 {
    let climate = Climate { clients: 60, locks: 120, operations, lost_answers: 1, varied: true };
    let history = Service::history(climate, 11);
    let begun_ns = on_processor_ns();
    let report = check(&history, &Settings::default());
    let took_ns = on_processor_ns() - begun_ns;
    assert!(report.is_clean(), "{report}");
    assert!(report.operations >= operations && report.grants > operations / 10, "{report}");
    took_ns / 1_000_000
}

#[test]
fn ten_times_as_many_take_about_ten_times_as_long() {
    let tenth_ms = judged_in_ms(100_000);
    let whole_ms = judged_in_ms(1_000_000);
    println!("100,000 operations: {tenth_ms} ms; 1,000,000: {whole_ms} ms");
    assert!(whole_ms < 50 * tenth_ms, "{tenth_ms} ms for a tenth, {whole_ms} ms for the whole");
}
