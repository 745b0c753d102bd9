//! Turns the .proto files into Rust without protoc, and keeps their descriptors for server reflection.

use std::error::Error;
use std::path::PathBuf;
use std::{env, fs};

use prost::Message;

// Outcomes lie in lists and pass through many hands, and most of them say no more than that something was done.
fn main() -> Result<(), Box<dyn Error>> {
    let names = ["error", "locks", "sessions", "files", "operations"];
    let files = names.map(|name| format!("proto/leasehold/v1/{name}.proto"));
    println!("cargo:rerun-if-changed=proto");
    let descriptors = protox::compile(files, ["proto"])?;
    let out = PathBuf::from(env::var("OUT_DIR")?);
    fs::write(out.join("descriptors.bin"), descriptors.encode_to_vec())?;
    let mut generated = tonic_prost_build::configure().btree_map(".");
    for large in ["lease", "snapshot", "session", "ended", "error"] {
        generated = generated.boxed(format!(".leasehold.v1.Outcome.what.{large}"));
    }
    generated.compile_fds(descriptors)?;
    Ok(())
}
