//! `leasehold watch`: what happens, as it happens. Ends by itself only when nobody reads any more, or when events that
//! were asked for are not kept.

use std::pin::pin;

use clap::Args;
use futures_util::StreamExt;
use leasehold_client::{Event, EventKind, Mode, Watched};

use crate::asking::{Asking, runtime};
use crate::paint::{Paint, Tone, visible};
use crate::printing::{Reader, print, reader_gone};
use crate::shapes;
use crate::status::Failure;

/// Print what happens to locks, as it happens
///
/// A broken connection is taken up again where it broke, without gap or repeat. Ctrl-C ends it.
#[derive(Args)]
#[command(after_help = "\
Examples:
  leasehold watch deploy
  leasehold watch --prefix path:/srv/ --json
  leasehold watch --from 4711 --json >> events.jsonl")]
pub struct Watch {
    /// Only this lock; without it, all of them
    #[arg(value_name = "LOCK", conflicts_with = "prefix")]
    lock: Option<String>,
    /// Only locks whose text begins with this
    #[arg(long, value_name = "PREFIX")]
    prefix: Option<String>,
    /// Begin after the event with this number, instead of with what happens next
    #[arg(long, value_name = "SEQ")]
    from: Option<u64>,
    #[command(flatten)]
    asking: Asking,
}

impl Watch {
    pub fn run(self) -> Result<(), Failure> {
        let asking = &self.asking;
        let (what, failed) = match (self.lock, self.prefix) {
            (Some(lock), _) => (Watched::Lock(lock.clone()), format!("could not watch {lock}")),
            (None, prefix) => (Watched::Prefix(prefix.unwrap_or_default()), "could not watch".to_owned()),
        };
        let paint = Paint::for_stdout();
        let runtime = runtime()?;
        let done = runtime.block_on(async {
            let client = asking.connect(None, &failed).await?;
            let mut events = pin!(client.watch(what, self.from));
            let mut gone = pin!(reader_gone());
            loop {
                let event = tokio::select! {
                    event = events.next() => event,
                    () = &mut gone => return Ok(()),
                };
                let Some(event) = event else { return Ok(()) };
                let event = event.map_err(|error| asking.failure(&failed, &error))?;
                let line = if asking.json { shapes::event(&event) } else { line(&event, paint) };
                if print(&line)? == Reader::Gone {
                    return Ok(());
                }
            }
        });
        runtime.shutdown_background();
        done
    }
}

fn line(event: &Event, paint: Paint) -> String {
    let tone = match event.kind {
        EventKind::Granted => Tone::Good,
        EventKind::Queued | EventKind::Updated => Tone::Notable,
        EventKind::Expired | EventKind::Broken => Tone::Bad,
        _ => Tone::Plain,
    };
    let mut line = format!(
        "{}  {}  {}  {}",
        paint.tone(Tone::Quiet, shapes::time(event.time)),
        paint.tone(tone, format!("{:<8}", visible(event.kind.text()))),
        paint.name(&event.lock),
        visible(&event.owner_id),
    );
    if let Some(token) = event.fencing_token {
        line += &format!("  token {token}");
    }
    if event.mode == Mode::Shared {
        line += "  shared";
    }
    if let Some(reason) = &event.reason {
        line += &format!("  ({})", visible(reason));
    }
    line + "\n"
}
