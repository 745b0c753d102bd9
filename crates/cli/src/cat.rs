//! `leasehold cat`: what is in a file.

use std::time::Duration;

use clap::Args;
use leasehold_client::{Error, FileRow};

use crate::asking::{Asking, runtime};
use crate::printing::{Reader, print_bytes};
use crate::status::Failure;

/// Print a file that the server keeps
///
/// Needs no lock. Prints the file up to the end that it has when this begins. No write shows in part in up to 1 MiB; a
/// longer file may be written meanwhile. If the connection breaks it goes on where it was.
#[derive(Args)]
#[command(after_help = "\
Examples:
  leasehold cat reports/a.log
  leasehold cat reports/a.log --range 0-4096    the bytes that range:N:0-4096 locks
  leasehold cat reports/a.log --range 4096-     from there to the end")]
pub struct Cat {
    /// The file: a relative path, such as reports/a.log
    #[arg(value_name = "FILE")]
    file: String,
    /// Only the bytes from FROM up to, not including, TO; to the end without TO
    #[arg(long, value_name = "FROM-TO", value_parser = parse_range)]
    range: Option<Range>,
    #[command(flatten)]
    asking: Asking,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Range {
    from: u64,
    length: Option<u64>,
}

impl Cat {
    pub fn run(self) -> Result<(), Failure> {
        let failed = format!("could not read {}", self.file);
        let explained = |error: Error| {
            let error = match error {
                Error::Invalid { field, .. } if field == "offset" => Error::Invalid {
                    field: "--range".into(),
                    detail: "it begins within the file or at its end; `leasehold files` tells sizes".into(),
                },
                Error::NotFound { detail } => {
                    Error::NotFound { detail: detail + "; `leasehold files` lists those that there are" }
                }
                error => error,
            };
            self.asking.failure(&failed, &error)
        };
        let Range { from, length } = self.range.unwrap_or_default();
        let runtime = runtime()?;
        let done = runtime.block_on(async {
            let client = self.asking.connect(None, &failed).await?;
            let begin = async |from, length| {
                let begun = client.read_file(&self.file, from, length);
                self.asking.bounded(Duration::ZERO, begun).await.map_err(explained)
            };
            let mut reader = begin(from, length).await?;
            let FileRow { inode, size, .. } = *reader.file();
            let end = length.map_or(size, |length| from.saturating_add(length).min(size));
            let mut begun_at = from;
            loop {
                match reader.next().await {
                    Ok(None) => return Ok(()),
                    Ok(Some(piece)) => {
                        if print_bytes(&piece)? == Reader::Gone {
                            return Ok(());
                        }
                    }
                    // Servers cut off who stands still for long, such as somebody with a pager; and they are started again.
                    Err(Error::ServerUnavailable(_) | Error::Busy { .. }) if reader.position() > begun_at => {
                        begun_at = reader.position();
                        reader = begin(begun_at, Some(end.saturating_sub(begun_at))).await?;
                        if reader.file().inode != inode {
                            let detail =
                                "it was deleted while it was read, and another one made; begin again";
                            return Err(explained(Error::NotFound { detail: detail.to_owned() }));
                        }
                    }
                    Err(error) => return Err(explained(error)),
                }
            }
        });
        runtime.shutdown_background();
        done
    }
}

fn parse_range(text: &str) -> Result<Range, String> {
    let form = || format!("`{text}` is not a range: write 0-4096, or 4096- for all from there on");
    let (from, to) = text.split_once('-').ok_or_else(form)?;
    let number = |text: &str| match text.bytes().all(|byte| byte.is_ascii_digit()) {
        true => text.parse::<u64>().map_err(|_| form()),
        false => Err(form()),
    };
    let from = number(from)?;
    let length = match to {
        "" => None,
        to => Some(number(to)?.checked_sub(from).ok_or_else(|| format!("`{text}` ends before it begins"))?),
    };
    Ok(Range { from, length })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_ends_before_its_second_number() {
        assert_eq!(parse_range("0-4096"), Ok(Range { from: 0, length: Some(4096) }));
        assert_eq!(parse_range("7-7"), Ok(Range { from: 7, length: Some(0) }));
        assert_eq!(parse_range("7-"), Ok(Range { from: 7, length: None }));
        for text in ["", "-", "-7", "7", "8-7", "+1-2", "0-99999999999999999999", "a-b", "1-2-3", "0x1-"] {
            assert!(parse_range(text).is_err(), "{text}");
        }
    }
}
