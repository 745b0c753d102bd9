//! Measures Leasehold and other lock services side by side on this machine, in one run, interleaved, and writes the figures,
//! tables and plots. Nothing here is a test, and nothing fails for being slow.
//!
//! ```text
//! scripts/bench [--quick]
//! ```

mod alone;
mod book;
mod compare;
mod disk;
mod drive;
mod http;
mod machine;
mod peers;
mod referee;
mod report;
mod samples;
mod served;
mod sizes;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use crate::book::{Book, Progress};
use crate::compare::{Scale, Wish};
use crate::report::{FIGURES, Taken};

const USAGE: &str = "\
usage: leasehold-bench [--quick] [--only WORKLOAD]... [--system NAME]... [--way NAME]... [--clients N]... [--rounds N]
                       [--most N] [--minutes N] [--out FOLDER [--keep]]
       leasehold-bench --render FOLDER
  --quick          a look of two minutes; written to target/benchmarks unless --out says otherwise
  --only WORKLOAD  only this: uncontended, contended, renewals, or a measurement of Leasehold alone
  --system NAME    only this system, or all whose names begin so if none is called so
  --way NAME       only these clients of the systems: stream, multiplexed
  --clients N      only so many clients at once, where systems are compared
  --rounds N       how often systems are compared, interleaved
  --most N         locks held at most, where that is measured; 1,000,000 by default
  --minutes N      minutes of churn; 60 by default, none in a quick look
  --out FOLDER     where figures, tables and plots go; docs/benchmarks by default
  --keep           keeps figures of other workloads that are there already, and says so
  --render FOLDER  measures nothing: makes tables and plots again out of the figures there";

/// What was asked for.
#[derive(Default)]
struct Asked {
    quick: bool,
    only: Vec<String>,
    systems: Vec<String>,
    ways: Vec<String>,
    clients: Vec<usize>,
    rounds: Option<usize>,
    most: Option<usize>,
    minutes: Option<u64>,
    out: Option<PathBuf>,
    keep: bool,
    render: Option<PathBuf>,
}

fn asked() -> Option<Asked> {
    let mut asked = Asked::default();
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--quick" => asked.quick = true,
            "--only" => asked.only.push(arguments.next()?),
            "--system" => asked.systems.push(arguments.next()?),
            "--way" => asked.ways.push(arguments.next()?),
            "--clients" => asked.clients.push(arguments.next()?.parse().ok()?),
            "--rounds" => asked.rounds = Some(arguments.next()?.parse().ok().filter(|rounds| *rounds > 0)?),
            "--most" => asked.most = Some(arguments.next()?.parse().ok()?),
            "--minutes" => asked.minutes = Some(arguments.next()?.parse().ok()?),
            "--out" => asked.out = Some(arguments.next()?.into()),
            "--keep" => asked.keep = true,
            "--render" => asked.render = Some(arguments.next()?.into()),
            _ => return None,
        }
    }
    Some(asked)
}

fn main() -> ExitCode {
    if std::env::args().any(|argument| argument == "--help") {
        println!("{USAGE}");
        return ExitCode::SUCCESS;
    }
    let Some(asked) = asked() else {
        eprintln!("{USAGE}");
        return ExitCode::from(64);
    };
    let done = match &asked.render {
        Some(folder) => Taken::read(&folder.join(FIGURES)).and_then(|taken| finish(&taken, folder)),
        None => {
            let usual = if asked.quick { "target/benchmarks" } else { "docs/benchmarks" };
            let folder = asked.out.as_deref().unwrap_or(Path::new(usual));
            measure(&asked, folder).and_then(|mut taken| {
                if asked.keep {
                    taken.keep(Taken::read(&folder.join(FIGURES))?);
                }
                finish(&taken, folder)
            })
        }
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            eprintln!("{problem}");
            ExitCode::FAILURE
        }
    }
}

/// Measures everything. What there is goes to the folder now and then, so that little is lost if a long run does not end.
fn measure(asked: &Asked, folder: &Path) -> Result<Taken, String> {
    peers::process::end_together()?;
    let mut scale = if asked.quick { Scale::QUICK } else { Scale::FULL };
    scale.most = asked.most.unwrap_or(scale.most);
    scale.minutes = asked.minutes.unwrap_or(scale.minutes);
    scale.rounds = asked.rounds.unwrap_or(scale.rounds);
    let wanted = |name: &str| is_among(&asked.only, name);
    let parts: Vec<_> = alone::PARTS.iter().chain(sizes::PARTS).filter(|part| wanted(part.name)).collect();
    let rounds = |part: &alone::Part| if scale.quick { 1 } else { part.rounds };
    let mut progress = Progress::new();
    for part in &parts {
        let times = u32::try_from(rounds(part)).unwrap_or(u32::MAX);
        progress.expect((part.expected)(scale) * times);
    }
    let temporary = tempfile::tempdir().map_err(|error| format!("no temporary folder: {error}"))?;
    let machine = machine::facts(temporary.path())?;
    let mut peers = peers::all();
    if !asked.systems.is_empty() {
        let names: Vec<&str> = peers.iter().map(|peer| peer.name()).collect();
        let is_meant = |name: &str, wanted: &str| match names.contains(&wanted) {
            true => name == wanted,
            false => name.starts_with(wanted),
        };
        peers.retain(|peer| asked.systems.iter().any(|wanted| is_meant(peer.name(), wanted)));
    }
    let mut book = Book::default();
    let wish = Wish {
        workload: &wanted,
        way: &|name| is_among(&asked.ways, name),
        clients: &|count| asked.clients.is_empty() || asked.clients.contains(&count),
    };
    let met = compare::run(scale, &peers, &wish, &mut book, &mut progress)?;
    if parts.is_empty() && book.figures().next().is_none() && book.failures().is_empty() {
        return Err(format!("nothing of what was asked for is measured; these are the words:\n\n{USAGE}"));
    }
    let mut taken = Taken { quick: scale.quick, machine, met, book };
    for part in parts {
        if !asked.keep {
            taken.write(folder)?;
        }
        for _ in 0..rounds(part) {
            if let Err(error) = (part.run)(scale, &mut taken.book) {
                taken.book.fail(part.name, &error);
            }
            progress.done((part.expected)(scale), part.name);
        }
    }
    Ok(taken)
}

/// Whether this was asked for, or nothing in particular was.
fn is_among(asked: &[String], name: &str) -> bool {
    asked.is_empty() || asked.iter().any(|asked| asked == name)
}

/// Writes everything down, and says how the goals stand.
fn finish(taken: &Taken, folder: &Path) -> Result<(), String> {
    taken.write(folder)?;
    println!("{}", taken.goals());
    println!("All figures are in {}.", folder.join("README.md").display());
    match taken.book.failures() {
        [] => Ok(()),
        failures => Err(format!("could not be measured:\n{}", failures.join("\n"))),
    }
}
