//! `leasehold journal`: looks into the data of a stopped server. Changes nothing, and shows no secrets.

use std::io::{self, BufWriter, Write};
use std::path::PathBuf;

use clap::{Args, Subcommand};
use leasehold_journal::{Entry, Folder, Report};
use leasehold_server::rfc3339::Timestamp;
use leasehold_server::wire::event_line::{Told, event_line};
use leasehold_state_machine::codec::{BootId, Stamp, read_batch};
use leasehold_state_machine::event::{Event, Seq};
use serde_json::{Value, json};

use crate::printing::print;
use crate::shapes::line;
use crate::status::{Failure, Status};

/// Look into the data of a stopped server
#[derive(Subcommand)]
pub enum Journal {
    /// Verify every byte; report what is there, or the damage with its file and offset (status 70)
    Check {
        #[command(flatten)]
        from: From,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Print every record's time and events, without secrets
    Dump {
        #[command(flatten)]
        from: From,
        /// One JSON object a line
        #[arg(long)]
        json: bool,
    },
}

#[derive(Args)]
pub struct From {
    /// The server's data directory
    #[arg(long, value_name = "DIR", env = "LEASEHOLD_DATA", default_value = leasehold_server::config::DATA)]
    data: PathBuf,
}

impl Journal {
    pub fn run(self) -> Result<(), Failure> {
        match self {
            Journal::Check { from, json } => check(&from, json),
            Journal::Dump { from, json } => dump(&from, json),
        }
    }
}

fn check(from: &From, json: bool) -> Result<(), Failure> {
    let folder = Folder::open_stopped(&from.data)?;
    let Some(report) = leasehold_journal::check(&folder)? else { return Err(nothing_there(from)) };
    print(&if json { line(&shape(&report)) } else { describe(&report) }).map(drop)
}

fn shape(report: &Report) -> Value {
    let segments: Vec<Value> = report
        .segments
        .iter()
        .map(|segment| {
            json!({
                "path": segment.path,
                "first_record": segment.first_index,
                "records": segment.records,
                "used_bytes": segment.used_bytes,
                "bytes": segment.bytes,
            })
        })
        .collect();
    json!({
        "sound": true,
        "snapshot": report.snapshot.as_ref().map(|snapshot| json!({
            "path": snapshot.path,
            "through_record": snapshot.index,
            "bytes": snapshot.bytes,
        })),
        "segments": segments,
        "records": report.records,
        "last_record": report.last_index,
        "torn": report.torn.as_ref().map(|torn| json!({"path": torn.path, "offset": torn.offset})),
        "leftovers": report.leftovers,
    })
}

fn describe(report: &Report) -> String {
    let mut text = String::from("sound\n");
    if let Some(snapshot) = &report.snapshot {
        text += &format!(
            "snapshot  {} through record {}, {} bytes\n",
            snapshot.path, snapshot.index, snapshot.bytes
        );
    }
    for segment in &report.segments {
        text += &format!(
            "segment   {} from record {}: {} records, {} of {} bytes used\n",
            segment.path, segment.first_index, segment.records, segment.used_bytes, segment.bytes
        );
    }
    text += &format!("records   {} after the snapshot, the last is {}\n", report.records, report.last_index);
    if let Some(torn) = &report.torn {
        text += &format!(
            "torn      {} at byte {}: an unfinished record, never acknowledged; the next start cuts it off\n",
            torn.path, torn.offset
        );
    }
    for leftover in &report.leftovers {
        text += &format!("leftover  {leftover}: the next start removes it\n");
    }
    text
}

fn dump(from: &From, json: bool) -> Result<(), Failure> {
    let folder = Folder::open_stopped(&from.data)?;
    let mut printer = Printer { out: BufWriter::new(io::stdout().lock()), json, stopped: None };
    let dumped = leasehold_journal::dump(&folder, &mut |entry| printer.entry(entry));
    let flushed = printer.out.flush();
    match printer.stopped.take().or(flushed.err()) {
        // Whoever reads has seen enough.
        Some(error) if error.kind() == io::ErrorKind::BrokenPipe => return Ok(()),
        Some(error) => return Err(Failure::new(Status::Broken, format!("cannot print: {error}"))),
        None => {}
    }
    match dumped? {
        Some(_) => Ok(()),
        None => Err(nothing_there(from)),
    }
}

fn nothing_there(from: &From) -> Failure {
    Failure::new(Status::Usage, format!("there is no journal in {}", from.data.display()))
}

struct Printer<W> {
    out: W,
    json: bool,
    /// Why nothing more can be printed.
    stopped: Option<io::Error>,
}

impl<W: Write> Printer<W> {
    fn entry(&mut self, entry: Entry<'_>) -> Result<(), String> {
        match entry {
            Entry::Snapshot { path, index, .. } => {
                let told = match self.json {
                    true => writeln!(self.out, "{}", json!({"snapshot": path, "through_record": index})),
                    false => writeln!(self.out, "snapshot {path} through record {index}"),
                };
                self.keep(told)
            }
            Entry::Record { path, offset, index, payload } => {
                let told = match self.json {
                    true => Ok(()),
                    false => writeln!(
                        self.out,
                        "record {index} in {path} at byte {offset}, {} bytes",
                        payload.len()
                    ),
                };
                self.keep(told)?;
                self.record(index, payload)
            }
        }
    }

    fn record(&mut self, index: u64, payload: &[u8]) -> Result<(), String> {
        let mut before: Option<Stamp> = None;
        let mut told = Ok(());
        let read = read_batch(payload, &mut |boot_id, stamp, seq, event| {
            if told.is_err() {
                return;
            }
            if before.as_ref() != Some(stamp) {
                told = self.stamp(index, boot_id, stamp);
                before = Some(*stamp);
            }
            if told.is_ok() {
                told = self.event(stamp, seq, &event);
            }
        });
        self.keep(told)?;
        read.map_err(|error| error.to_string())
    }

    fn stamp(&mut self, index: u64, boot_id: &BootId, stamp: &Stamp) -> io::Result<()> {
        let boot = u128::from_be_bytes(*boot_id);
        let Stamp { raw_us, wall_ms, wall_trusted } = *stamp;
        if self.json {
            let line = json!({
                "record": index,
                "boot_id": format!("{boot:032x}"),
                "raw_us": raw_us,
                "time": Timestamp(wall_ms).to_string(),
                "wall_trusted": wall_trusted,
            });
            return writeln!(self.out, "{line}");
        }
        let doubted = if wall_trusted { "" } else { ", not used for tokens" };
        writeln!(self.out, "  {}{doubted}; boot {boot:032x} at {raw_us} µs", Timestamp(wall_ms))
    }

    fn event(&mut self, stamp: &Stamp, seq: Seq, event: &Event) -> io::Result<()> {
        if self.json {
            self.out.write_all(&event_line(seq, stamp.wall_ms, event))?;
            return self.out.write_all(b"\n");
        }
        let told = Told::from(event);
        write!(self.out, "    {seq} {}", told.kind)?;
        for (name, text) in [("lock", told.lock), ("owner", told.owner_id), ("mode", told.mode)] {
            if let Some(text) = text {
                write!(self.out, " {name}={text}")?;
            }
        }
        if let Some(token) = told.fencing_token {
            write!(self.out, " token={token}")?;
        }
        if let Some(reason) = told.reason {
            write!(self.out, " reason={reason}")?;
        }
        writeln!(self.out)
    }

    /// Keeps the first error of printing, and ends the reading with it.
    fn keep(&mut self, told: io::Result<()>) -> Result<(), String> {
        told.map_err(|error| {
            let reason = error.to_string();
            self.stopped = Some(error);
            reason
        })
    }
}
