//! Writes the samples of every target where libFuzzer looks for its first inputs: `cargo run --example seeds -- fuzz/corpus`.

use std::path::Path;
use std::{env, fs, io};

use leasehold_hostile::TARGETS;

fn main() -> io::Result<()> {
    let Some(folder) = env::args().nth(1) else {
        return Err(io::Error::other("say where to, for instance: fuzz/corpus"));
    };
    for target in TARGETS {
        let folder = Path::new(&folder).join(target.name);
        fs::create_dir_all(&folder)?;
        for (number, sample) in (target.samples)().iter().enumerate() {
            fs::write(folder.join(format!("sample-{number}")), sample)?;
        }
    }
    Ok(())
}
