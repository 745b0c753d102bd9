//! The ways in, one a file. Each says what must hold for any bytes at all.

pub mod batch;
pub mod event;
pub mod grpc;
pub mod http;
pub mod journal_files;
pub mod resource;
pub mod snapshot;

/// Bytes written as hex digits over any number of lines; `#` begins a comment.
fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text
        .lines()
        .flat_map(|line| line.split('#').next().unwrap_or("").bytes())
        .filter_map(|digit| char::from(digit).to_digit(16))
        .filter_map(|digit| u8::try_from(digit).ok())
        .collect();
    digits.chunks_exact(2).map(|pair| pair[0] << 4 | pair[1]).collect()
}
