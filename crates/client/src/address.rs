//! Where a server is, as people write it: `http://host:port`, `https://host:port`, or just `host:port`. Looks nothing up.

use std::fmt;

use crate::error::Error;

/// The port that is meant when none is named.
const PORT: u16 = 7420;

/// The address of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Address {
    pub secure: bool,
    /// A name or a number, without brackets.
    pub host: String,
    pub port: u16,
}

impl Address {
    /// Reads an address. One that does not say whether it is encrypted is, if `secure` says so.
    pub fn parse(text: &str, secure: bool) -> Result<Address, Error> {
        let wrong = |problem: &str| {
            let detail = format!("{text:?} {problem}; write it like http://127.0.0.1:{PORT}");
            Error::Invalid { field: "server".into(), detail }
        };
        let (secure, rest) = match text.split_once("://") {
            Some((scheme, rest)) if scheme.eq_ignore_ascii_case("http") => (false, rest),
            Some((scheme, rest)) if scheme.eq_ignore_ascii_case("https") => (true, rest),
            Some((scheme, _)) => return Err(wrong(&format!("begins with {scheme}, not http or https"))),
            None => (secure, text),
        };
        let rest = rest.strip_suffix('/').unwrap_or(rest);
        if rest.contains('@') {
            return Err(wrong("has a name or password in it, which belongs nowhere but in a token"));
        }
        if rest.contains(['/', '?', '#']) {
            return Err(wrong("has a path, but a server is a host and a port"));
        }
        let (host, port) = match rest.strip_prefix('[') {
            Some(rest) => {
                let (host, after) = rest.split_once(']').ok_or_else(|| wrong("has a bracket too many"))?;
                if host.parse::<std::net::Ipv6Addr>().is_err() {
                    return Err(wrong("has something in brackets that is not an IPv6 address"));
                }
                match after.strip_prefix(':') {
                    Some(port) => (host, Some(port)),
                    None if after.is_empty() => (host, None),
                    None => return Err(wrong("goes on after its bracket")),
                }
            }
            None => match rest.rsplit_once(':') {
                Some((host, _)) if host.contains(':') => {
                    return Err(wrong("is an IPv6 address without brackets"));
                }
                Some((host, port)) => (host, Some(port)),
                None => (rest, None),
            },
        };
        if host.is_empty() || host.contains(|c: char| c.is_whitespace() || c.is_control()) {
            return Err(wrong("names no host"));
        }
        let port = match port {
            None => PORT,
            Some(port) => match port.parse() {
                Ok(number) if number > 0 && !port.starts_with('+') => number,
                _ => return Err(wrong("has no port from 1 to 65535")),
            },
        };
        Ok(Address { secure, host: host.to_owned(), port })
    }

    /// Host and port, as they stand in requests.
    pub fn authority(&self) -> String {
        match self.host.contains(':') {
            true => format!("[{}]:{}", self.host, self.port),
            false => format!("{}:{}", self.host, self.port),
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.secure { "https" } else { "http" };
        write!(f, "{scheme}://{}", self.authority())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_people_write() {
        for (text, shown) in [
            ("http://127.0.0.1:7420", "http://127.0.0.1:7420"),
            ("HTTPS://locks.example:443/", "https://locks.example:443"),
            ("locks.example:80", "http://locks.example:80"),
            ("locks.example", "http://locks.example:7420"),
            ("https://locks.example", "https://locks.example:7420"),
            ("[::1]:9000", "http://[::1]:9000"),
            ("http://[fe80::1]", "http://[fe80::1]:7420"),
        ] {
            assert_eq!(Address::parse(text, false).unwrap().to_string(), shown);
        }
        assert!(Address::parse("locks.example:80", true).unwrap().secure);
        assert!(!Address::parse("http://locks.example:80", true).unwrap().secure);
    }

    #[test]
    fn refuses_the_rest_and_says_why() {
        for (text, why) in [
            ("", "names no host"),
            ("http://", "names no host"),
            (":7420", "names no host"),
            ("a b:1", "names no host"),
            ("ftp://a:1", "begins with ftp"),
            ("a:0", "port"),
            ("a:65536", "port"),
            ("a:+1", "port"),
            ("a:", "port"),
            ("a:1/v1", "path"),
            ("a:1?x", "path"),
            ("me:secret@a:1", "token"),
            ("::1", "brackets"),
            ("[::1", "bracket"),
            ("[a]:1", "IPv6"),
            ("[::1]7", "goes on"),
        ] {
            let error = Address::parse(text, false).unwrap_err();
            assert!(error.to_string().contains(why), "{text}: {error}");
        }
    }
}
