//! Who asks, when nobody has said: user, host and process, so that people can find the holder of a lock.

/// `user@host:pid`.
pub(crate) fn default_owner() -> String {
    let user =
        ["USER", "LOGNAME"].iter().find_map(|name| std::env::var(name).ok().filter(|user| !user.is_empty()));
    let user = user.unwrap_or_else(|| rustix::process::getuid().as_raw().to_string());
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    fit(format!("{user}@{host}:{}", std::process::id()))
}

/// The longest owner that a server takes.
const OWNER_BYTES_MAX: usize = 256;

/// Takes out what no owner may have. The process, at the end, is what matters most.
fn fit(owner: String) -> String {
    let mut owner: String = owner.chars().filter(|c| !c.is_control()).collect();
    while owner.len() > OWNER_BYTES_MAX {
        owner.remove(0);
    }
    owner
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_this_process() {
        let owner = default_owner();
        assert!(owner.contains('@') && owner.ends_with(&format!(":{}", std::process::id())), "{owner}");
        assert_eq!(fit("a\nb".into()), "ab");
        assert!(fit("ä".repeat(200) + ":1").len() <= OWNER_BYTES_MAX);
    }
}
