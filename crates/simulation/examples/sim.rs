//! The command on its own, for whoever works on the simulator: `cargo run --release -p leasehold-simulation --example sim`.

use clap::Parser;

#[derive(Parser)]
struct Cli {
    #[command(flatten)]
    sim: leasehold_simulation::command::SimArgs,
}

fn main() -> std::process::ExitCode {
    leasehold_simulation::command::run(Cli::parse().sim)
}
