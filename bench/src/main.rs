//! Measures a real server on this machine and prints a Markdown report. Figures that are compared are taken side by side
//! in one run, interleaved, and given as ratios; nothing here is a test, and nothing fails for being slow.
//!
//! ```text
//! cargo build --release && cargo run --release -p leasehold-bench [--quick]
//! ```

mod churn;
mod cycles;
mod files;
mod http;
mod load;
mod million;
mod refusals;
mod served;

use std::process::ExitCode;

/// What a part of the report returns.
type Report = Result<String, String>;

fn main() -> ExitCode {
    let mut quick = false;
    let mut only: Option<String> = None;
    let mut pairs = 2_000_000;
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        match (arg.as_str(), arg.as_str() == "--quick") {
            (_, true) => quick = true,
            ("--only", _) => only = args.next(),
            ("--pairs", _) => pairs = args.next().and_then(|text| text.parse().ok()).unwrap_or(pairs),
            _ => {
                eprintln!(
                    "usage: leasehold-bench [--quick] [--only http|grpc|stream|files|refusals|million|churn] [--pairs N]"
                );
                return ExitCode::from(64);
            }
        }
    }
    let wanted = |name: &str| only.as_deref().is_none_or(|only| only == name);
    let parts: [(&str, &dyn Fn() -> Report); 7] = [
        ("http", &|| cycles::report("http", quick)),
        ("grpc", &|| cycles::report("grpc", quick)),
        ("stream", &|| cycles::report("stream", quick)),
        ("files", &|| files::report(quick)),
        ("refusals", &|| refusals::report(quick)),
        ("million", &|| million::report(if quick { 100_000 } else { 1_000_000 })),
        ("churn", &|| churn::report(if quick { pairs.min(200_000) } else { pairs })),
    ];
    for (name, part) in parts {
        if !wanted(name) {
            continue;
        }
        match part() {
            Ok(text) => println!("{text}"),
            Err(problem) => {
                eprintln!("{name}: {problem}");
                return ExitCode::FAILURE;
            }
        }
    }
    ExitCode::SUCCESS
}
