//! Standard input in pieces, read by a thread of its own so that nothing else waits for it.

use std::io::{self, Read};

use tokio::sync::mpsc;

/// Read at once: what a pipe holds.
const READ_BYTES: usize = 64 << 10;
/// Read ahead of whoever takes it.
const AHEAD: usize = 16;

/// How much of the input makes a piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pieces {
    /// Whatever is there, so that it goes on at once.
    AsTheyCome,
    /// As much as fits, so that the same input always gives the same pieces.
    Full,
}

/// What comes in.
pub struct Input {
    read: mpsc::Receiver<io::Result<Vec<u8>>>,
    pieces: Pieces,
    bytes_max: usize,
    /// Read, and not handed out yet.
    gathered: Vec<u8>,
}

impl Input {
    /// Standard input, in pieces of no more than so many bytes.
    pub fn standard(pieces: Pieces, bytes_max: usize) -> Input {
        Input::of(io::stdin(), pieces, bytes_max)
    }

    fn of(mut source: impl Read + Send + 'static, pieces: Pieces, bytes_max: usize) -> Input {
        let (tell, read) = mpsc::channel(AHEAD);
        // The thread ends with the input, with whoever reads, or with the process.
        std::thread::spawn(move || {
            loop {
                let mut buffer = vec![0; READ_BYTES];
                let piece = match source.read(&mut buffer) {
                    Ok(0) => return,
                    Ok(length) => {
                        buffer.truncate(length);
                        Ok(buffer)
                    }
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                    Err(error) => Err(error),
                };
                let ends = piece.is_err();
                if tell.blocking_send(piece).is_err() || ends {
                    return;
                }
            }
        });
        Input { read, pieces, bytes_max, gathered: Vec::new() }
    }

    /// The next piece; none at the end. Nothing is lost when somebody waits for it and gives up.
    pub async fn next(&mut self) -> io::Result<Option<Vec<u8>>> {
        while self.gathered.len() < self.bytes_max {
            let more = match self.pieces {
                Pieces::AsTheyCome if !self.gathered.is_empty() => self.read.try_recv().ok(),
                _ => self.read.recv().await,
            };
            match more {
                Some(more) => self.gathered.extend(more?),
                None => break,
            }
        }
        let rest = self.gathered.split_off(self.gathered.len().min(self.bytes_max));
        let piece = std::mem::replace(&mut self.gathered, rest);
        Ok((!piece.is_empty()).then_some(piece))
    }

    /// Whether the end was seen and everything before it handed out.
    pub fn is_over(&self) -> bool {
        self.gathered.is_empty() && self.read.is_closed() && self.read.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::time::Duration;

    use super::*;

    /// Gives its bytes in reads of many sizes.
    struct Choppy {
        bytes: Vec<u8>,
        step: usize,
    }

    impl Read for Choppy {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            self.step = self.step * 7 % 31;
            let length = self.step.min(self.bytes.len()).min(buffer.len());
            buffer[..length].copy_from_slice(&self.bytes[..length]);
            self.bytes.drain(..length);
            Ok(length)
        }
    }

    #[tokio::test]
    async fn who_gives_up_waiting_loses_nothing_and_is_not_told_of_an_end() {
        let (mut write, read) = std::os::unix::net::UnixStream::pair().unwrap();
        let mut input = Input::of(read, Pieces::Full, 64);
        write.write_all(b"first").unwrap();
        // Until it has been gathered.
        while input.gathered.is_empty() {
            assert!(tokio::time::timeout(Duration::from_millis(5), input.next()).await.is_err());
        }
        assert!(!input.is_over());
        drop(write);
        assert_eq!(input.next().await.unwrap().unwrap(), b"first");
        assert!(input.is_over());
        assert_eq!(input.next().await.unwrap(), None);
    }

    #[tokio::test]
    async fn full_pieces_do_not_depend_on_how_it_was_read() {
        let bytes: Vec<u8> = (0..=255).cycle().take(1000).collect();
        for step in 1..31 {
            for pieces in [Pieces::Full, Pieces::AsTheyCome] {
                let mut input = Input::of(Choppy { bytes: bytes.clone(), step }, pieces, 64);
                let mut found = Vec::new();
                while let Some(piece) = input.next().await.unwrap() {
                    assert!(piece.len() <= 64);
                    assert!(pieces == Pieces::AsTheyCome || piece.len() == 64 || found.len() == 960);
                    found.extend(piece);
                }
                assert_eq!(found, bytes);
            }
        }
    }
}
