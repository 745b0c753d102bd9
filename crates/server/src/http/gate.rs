//! Who may ask: whoever shows a token, where one is asked for, and never another site. A page in somebody's browser must not drive a server on loopback, so requests that carry another
//! site's marks are refused: a `Host` that is not ours (DNS rebinding), an `Origin` that is not the host asked, a
//! `Sec-Fetch-Site` from elsewhere. Programs that are not browsers send none of these but `Host`.

use std::net::IpAddr;
use std::sync::Arc;

use hyper::header::{self, HeaderMap, HeaderValue};
use hyper::{Uri, Version};
use leasehold_state_machine::invalid::Invalid;

use crate::auth::Auth;
use crate::tls::Tls;
use crate::wire::problem::Denial;

/// Knows under which names this server is addressed, and whom it serves.
#[derive(Clone, Debug)]
pub struct Gate {
    listen: IpAddr,
    allow_hosts: Vec<String>,
    auth: Arc<Auth>,
    tls: Option<Arc<Tls>>,
}

impl Gate {
    /// A gate for a server that listens on `listen` and is also known as `allow_hosts`.
    pub fn new(listen: IpAddr, allow_hosts: Vec<String>) -> Gate {
        Gate { listen, allow_hosts, auth: Arc::default(), tls: None }
    }

    /// Asks for a token, or does not.
    pub fn with_auth(self, auth: Arc<Auth>) -> Gate {
        Gate { auth, ..self }
    }

    /// Connections are encrypted, or they are not; a certificate's names are names of this server.
    pub fn with_tls(self, tls: Option<Arc<Tls>>) -> Gate {
        Gate { tls, ..self }
    }

    /// How addresses of this server begin.
    pub fn scheme(&self) -> &'static str {
        if self.tls.is_some() { "https" } else { "http" }
    }

    /// Lets a request pass, or says why not.
    pub fn judge(&self, version: Version, uri: &Uri, headers: &HeaderMap) -> Result<(), Denial> {
        let host = match (uri.authority(), single(headers, header::HOST, "Host")?) {
            (Some(authority), _) => Some(authority.as_str()),
            (None, Some(value)) => Some(readable(value, "Host")?),
            (None, None) => None,
        };
        match host {
            Some(host) if !self.is_ours(host_name(host)) => {
                return Err(foreign(
                    "this server does not go by that `Host`: use its address or localhost, or start it with --allow-host",
                ));
            }
            None if version > Version::HTTP_10 => {
                return Err(Invalid::new("Host", "HTTP/1.1 requires this header").into());
            }
            _ => {}
        }
        if let Some(origin) = single(headers, header::ORIGIN, "Origin")? {
            let origin = readable(origin, "Origin")?;
            // Without TLS of ours a proxy before us may still have some.
            let plain = origin.strip_prefix("http://").filter(|_| self.tls.is_none());
            let authority = plain.or_else(|| origin.strip_prefix("https://"));
            let same = matches!((authority, host), (Some(a), Some(b)) if a.eq_ignore_ascii_case(b));
            if !same {
                return Err(foreign("requests from pages of another origin are refused"));
            }
        }
        match headers.get("sec-fetch-site").map(HeaderValue::as_bytes) {
            None | Some(b"same-origin" | b"none") => {}
            Some(_) => return Err(foreign("requests from pages of another site are refused")),
        }
        self.auth.judge(uri.path(), headers)
    }

    fn is_ours(&self, name: &str) -> bool {
        // An address cannot be rebound to another machine: it is ours if it can reach us at all.
        let literal = name.strip_prefix('[').and_then(|name| name.strip_suffix(']')).unwrap_or(name);
        if let Ok(address) = literal.parse::<IpAddr>() {
            return address.is_loopback() || address == self.listen || self.listen.is_unspecified();
        }
        name.eq_ignore_ascii_case("localhost")
            || self.allow_hosts.iter().any(|host| host.eq_ignore_ascii_case(name))
            || self.tls.as_ref().is_some_and(|tls| tls.is_ours(name))
    }
}

/// A host without its port; ports are translated on the way by proxies and tunnels, and say nothing.
fn host_name(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port)) if !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    }
}

fn single<'h>(
    headers: &'h HeaderMap,
    header: header::HeaderName,
    name: &'static str,
) -> Result<Option<&'h HeaderValue>, Denial> {
    let mut lines = headers.get_all(header).iter();
    match (lines.next(), lines.next()) {
        (_, Some(_)) => Err(Invalid::new(name, "the header is given once").into()),
        (line, None) => Ok(line),
    }
}

fn readable<'h>(value: &'h HeaderValue, name: &'static str) -> Result<&'h str, Denial> {
    value.to_str().map_err(|_| Invalid::new(name, "the header is visible ASCII").into())
}

fn foreign(why: &str) -> Denial {
    Denial::Foreign { why: why.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judge(listen: &str, headers: &[(&'static str, &str)]) -> Result<(), Denial> {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(*name, HeaderValue::from_str(value).unwrap());
        }
        let gate = Gate::new(listen.parse().unwrap(), vec!["locks.example".into()]);
        gate.judge(Version::HTTP_11, &Uri::from_static("/"), &map)
    }

    #[test]
    fn our_own_names_pass() {
        for host in
            ["127.0.0.1:7420", "localhost", "LOCALHOST:1", "[::1]:7420", "127.9.9.9", "Locks.Example:80"]
        {
            assert_eq!(judge("127.0.0.1", &[("host", host)]), Ok(()), "{host}");
        }
        assert_eq!(judge("0.0.0.0", &[("host", "10.1.2.3:7420")]), Ok(()));
        assert_eq!(judge("10.1.2.3", &[("host", "10.1.2.3")]), Ok(()));
        let same = [
            ("host", "localhost:7420"),
            ("origin", "http://localhost:7420"),
            ("sec-fetch-site", "same-origin"),
        ];
        assert_eq!(judge("127.0.0.1", &same), Ok(()));
    }

    #[test]
    fn foreign_marks_are_refused() {
        let refused = |listen: &str, headers: &[(&'static str, &str)]| {
            assert!(matches!(judge(listen, headers), Err(Denial::Foreign { .. })), "{headers:?}");
        };
        for host in
            ["evil.example", "localhost.evil.example", "10.1.2.3", "", "127.0.0.1.evil.example:7420", ":80"]
        {
            refused("127.0.0.1", &[("host", host)]);
        }
        refused("0.0.0.0", &[("host", "evil.example")]);
        for origin in ["null", "http://evil.example", "http://localhost:3000", "localhost:7420", "file://"] {
            refused("127.0.0.1", &[("host", "localhost:7420"), ("origin", origin)]);
        }
        for site in ["cross-site", "same-site", "whatever"] {
            refused("127.0.0.1", &[("host", "localhost"), ("sec-fetch-site", site)]);
        }
    }

    #[test]
    fn a_certificate_names_its_server() {
        let names = ["locks.example".to_owned()];
        let (tls, _) = crate::tls::self_signed::tls(None, &names).unwrap();
        let gate = Gate::new("0.0.0.0".parse().unwrap(), Vec::new()).with_tls(Some(Arc::new(tls)));
        let judge = |host: &'static str, origin: Option<&'static str>| {
            let mut headers = HeaderMap::new();
            headers.insert(header::HOST, HeaderValue::from_static(host));
            origin.map(|origin| headers.insert(header::ORIGIN, HeaderValue::from_static(origin)));
            gate.judge(Version::HTTP_11, &Uri::from_static("/"), &headers)
        };
        assert_eq!(judge("locks.example:7420", None), Ok(()));
        assert_eq!(judge("locks.example", Some("https://locks.example")), Ok(()));
        for (host, origin) in [("other.example", None), ("locks.example", Some("http://locks.example"))] {
            assert!(matches!(judge(host, origin), Err(Denial::Foreign { .. })), "{host} {origin:?}");
        }
    }

    #[test]
    fn a_missing_or_doubled_host_is_malformed() {
        for headers in [&[][..], &[("host", "localhost"), ("host", "localhost")][..]] {
            let denial = judge("127.0.0.1", headers).unwrap_err();
            assert_eq!(
                denial,
                Invalid::new(
                    "Host",
                    match headers.len() {
                        0 => "HTTP/1.1 requires this header",
                        _ => "the header is given once",
                    }
                )
                .into()
            );
        }
    }
}
