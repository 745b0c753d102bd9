//! The wish to stop: what the operating system passes on when somebody presses Ctrl-C or ends the process.

use tokio::signal::unix::{SignalKind, signal};

use crate::status::{Failure, Status, of_io};

/// From here on these signals no longer end the process by themselves; the first of them resolves the future with the status
/// to end with.
pub fn interrupted() -> Result<impl Future<Output = Status>, Failure> {
    let listen = |kind| {
        signal(kind)
            .map_err(|error| Failure::new(of_io(&error), format!("cannot listen for signals: {error}")))
    };
    let kinds = [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup()];
    let [mut interrupt, mut terminate, mut hangup] =
        [listen(kinds[0])?, listen(kinds[1])?, listen(kinds[2])?];
    Ok(async move {
        let kind = tokio::select! {
            _ = interrupt.recv() => kinds[0],
            _ = terminate.recv() => kinds[1],
            _ = hangup.recv() => kinds[2],
        };
        Status::signalled(kind.as_raw_value())
    })
}
