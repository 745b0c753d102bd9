//! Compiles only while the state machine, and everything it depends on, does without std. Does nothing else; it is
//! checked by `scripts/check` and is no member of the workspace, so that no other crate's features reach it.
//!
//! `#![no_std]` in the state machine alone would not show a dependency that has std. Here is why this does: a program has
//! one panic handler, std brings one, and the one below is another. With `extern crate std` in the state machine, or with
//! a dependency that uses std (both were tried), the check ends with
//!
//! ```text
//! error[E0152]: found duplicate lang item `panic_impl`
//!   = note: the lang item is first defined in crate `std` (which `leasehold_state_machine` depends on)
//! ```
#![no_std]
#![forbid(unsafe_code)]

use leasehold_state_machine as _;

#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    loop {}
}
