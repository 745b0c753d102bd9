//! `leasehold sim --bug`: which bug is put in on purpose, and which ones there are. Only a build with the feature
//! `planted-bugs` has any (`crates/planted`); an ordinary one says how to make that.

#[cfg(feature = "planted-bugs")]
pub use with_bugs::{choose, list};
#[cfg(not(feature = "planted-bugs"))]
pub use without_bugs::{choose, list};

#[cfg(feature = "planted-bugs")]
mod with_bugs {
    use leasehold_planted::{Bug, Planted, plant};

    /// All bugs, a line each.
    pub fn list() -> Result<String, String> {
        Ok(Bug::ALL.iter().map(|bug| format!("{:30} {}\n", bug.name(), bug.text())).collect())
    }

    /// Puts in the bug with this name, until what this gives is dropped.
    pub fn choose(name: &str) -> Result<Planted, String> {
        let bug = Bug::named(name);
        let bug =
            bug.ok_or_else(|| format!("there is no planted bug {name:?}; --bug list names them all"))?;
        Ok(plant(Some(bug)))
    }
}

#[cfg(not(feature = "planted-bugs"))]
mod without_bugs {
    use std::convert::Infallible;

    const NONE: &str = "this program was built without bugs to plant; build one that has them with: \
                        cargo build --release --features planted-bugs";

    /// There are none.
    pub fn list() -> Result<String, String> {
        Err(NONE.to_owned())
    }

    /// There are none.
    pub fn choose(_name: &str) -> Result<Infallible, String> {
        Err(NONE.to_owned())
    }
}
