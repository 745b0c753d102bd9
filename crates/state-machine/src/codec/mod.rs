//! Events, batches and snapshots as bytes. Written by hand so that every byte is ours: numbers are LEB128 varints, texts
//! have their length before them, secrets are plain little-endian words. What was once written decodes for ever: a tag
//! is never given a second meaning, and a layout that changes gets a new tag or a new format version.

mod batch;
mod event;
mod primitive;

pub use batch::{BatchWriter, BootId, Stamp, read_batch};
pub use event::{decode_event, encode_event};
pub use primitive::{CodecError, Reader};

pub(crate) use event::{
    get_ask, get_ending, get_found, get_mark, get_numbers, get_wait, put_ask, put_ending, put_found,
    put_mark, put_numbers,
};
pub(crate) use primitive::*;
