//! A message over gRPC, from its bytes to a command. It is refused with a field and a sentence of bounded length, or it is a
//! command that comes back the same when it is written as a message again.

use crate::Target;
use crate::message::{Message, input};
use crate::targets::http;

/// From a message to a command. An input is the number of a message and its bytes.
pub const TARGET: Target = Target { name: "grpc", run, samples };

fn run(bytes: &[u8]) -> bool {
    let Some((kind, bytes)) = bytes.split_first() else { return false };
    let message = Message::decode(usize::from(*kind) % Message::KINDS, bytes);
    message.is_some_and(|message| http::judge(message.command()))
}

/// What the samples over HTTP ask for, as messages.
fn samples() -> Vec<Vec<u8>> {
    http::commands().iter().filter_map(input).collect()
}
