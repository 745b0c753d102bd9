//! Who asks, when nobody has said: user, host and process, so that people can find the holder of a lock.

/// `user@host:pid`.
pub(crate) fn default_owner() -> String {
    let user =
        ["USER", "LOGNAME"].iter().find_map(|name| std::env::var(name).ok().filter(|user| !user.is_empty()));
    let user = user.unwrap_or_else(|| {
        let uid = rustix::process::getuid().as_raw().to_string();
        let users = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
        name_of(&uid, &users).map_or(uid, str::to_owned)
    });
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    fit(format!("{user}@{host}:{}", std::process::id()))
}

/// The user with this number in the system's list, as services and containers have it that set no environment.
fn name_of<'u>(uid: &str, users: &'u str) -> Option<&'u str> {
    users.lines().find_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        (fields.nth(1)? == uid && !name.is_empty()).then_some(name)
    })
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
    fn finds_the_name_of_a_user() {
        let users = "root:x:0:0:root:/root:/bin/bash\n\nwww-data:x:33:33::/var/www:/usr/sbin/nologin\n";
        assert_eq!(name_of("33", users), Some("www-data"));
        assert_eq!(name_of("0", users), Some("root"));
        assert_eq!(name_of("1", users), None);
        assert_eq!(name_of("x", users), None);
    }

    #[test]
    fn names_this_process() {
        let owner = default_owner();
        assert!(owner.contains('@') && owner.ends_with(&format!(":{}", std::process::id())), "{owner}");
        assert_eq!(fit("a\nb".into()), "ab");
        assert!(fit("ä".repeat(200) + ":1").len() <= OWNER_BYTES_MAX);
    }
}
