//! Which call a method and a path mean: one table, which the description of the API reads too. Works on the path as it
//! was sent: nothing is decoded, joined or normalised before it is split, so that `%2F` in a name stays inside its
//! segment.

use hyper::Method;

use crate::wire::commands::Call;
use crate::wire::problem::Denial;

/// Where a request goes, and the path segment that names its lock or file, as sent; empty where a route has none.
pub type Found<'p> = (To, &'p str);

/// Where requests go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum To {
    /// To the engine.
    Call(Call),
    /// To the feed, for one lock.
    WatchLock,
    /// To the feed, for all locks with a prefix.
    WatchPrefix,
    /// To a page that the server makes by itself.
    Page(Page),
}

/// What the server answers by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Page {
    /// A page with links.
    Index,
    /// Whether the process lives.
    Health,
    /// Whether it serves.
    Ready,
    /// Which version this is.
    Version,
    /// The metrics.
    Metrics,
    /// The description of the API.
    OpenApi,
}

/// One row of the table.
#[derive(Debug)]
pub struct Route {
    /// The methods that mean this.
    pub methods: &'static [Method],
    /// The segments of its path, of which [`LOCK`] and [`FILE`] stand for any.
    pub path: &'static [&'static str],
    /// What is meant.
    pub to: To,
}

/// The segment that names a lock.
pub const LOCK: &str = "{lock}";
/// The segment that names a file.
pub const FILE: &str = "{name}";

/// Segments of the longest path.
const SEGMENTS_MAX: usize = 4;

const GET: &[Method] = &[Method::GET, Method::HEAD];
/// Not HEAD: a stream of events has no end to tell the length of, and a file has a HEAD of its own.
const STREAM: &[Method] = &[Method::GET];
/// A file is looked at without being read.
const HEAD: &[Method] = &[Method::HEAD];
const PUT: &[Method] = &[Method::PUT];
const POST: &[Method] = &[Method::POST];
const DELETE: &[Method] = &[Method::DELETE];

/// Every route there is.
pub static ROUTES: &[Route] = &[
    Route { methods: POST, path: &["v1", "locks", LOCK, "acquire"], to: To::Call(Call::Acquire) },
    Route { methods: POST, path: &["v1", "locks", LOCK, "renew"], to: To::Call(Call::Renew) },
    Route { methods: POST, path: &["v1", "locks", LOCK, "release"], to: To::Call(Call::Release) },
    Route { methods: POST, path: &["v1", "locks", LOCK, "cancel"], to: To::Call(Call::Cancel) },
    Route { methods: POST, path: &["v1", "locks", LOCK, "verify"], to: To::Call(Call::Verify) },
    Route { methods: GET, path: &["v1", "locks", LOCK], to: To::Call(Call::Get) },
    Route { methods: DELETE, path: &["v1", "locks", LOCK], to: To::Call(Call::Break) },
    Route { methods: STREAM, path: &["v1", "locks", LOCK, "watch"], to: To::WatchLock },
    Route { methods: GET, path: &["v1", "locks"], to: To::Call(Call::List) },
    Route { methods: STREAM, path: &["v1", "watch"], to: To::WatchPrefix },
    Route { methods: GET, path: &["v1", "sessions"], to: To::Call(Call::ListSessions) },
    Route { methods: POST, path: &["v1", "sessions"], to: To::Call(Call::OpenSession) },
    Route { methods: POST, path: &["v1", "sessions", "keepalive"], to: To::Call(Call::KeepAlive) },
    Route { methods: POST, path: &["v1", "sessions", "close"], to: To::Call(Call::CloseSession) },
    Route { methods: GET, path: &["v1", "files"], to: To::Call(Call::ListFiles) },
    Route { methods: STREAM, path: &["v1", "files", FILE], to: To::Call(Call::ReadFile) },
    Route { methods: HEAD, path: &["v1", "files", FILE], to: To::Call(Call::StatFile) },
    Route { methods: PUT, path: &["v1", "files", FILE], to: To::Call(Call::WriteFile) },
    Route { methods: DELETE, path: &["v1", "files", FILE], to: To::Call(Call::DeleteFile) },
    Route { methods: POST, path: &["v1", "files", FILE, "append"], to: To::Call(Call::AppendFile) },
    Route { methods: GET, path: &["healthz"], to: To::Page(Page::Health) },
    Route { methods: GET, path: &["readyz"], to: To::Page(Page::Ready) },
    Route { methods: GET, path: &["version"], to: To::Page(Page::Version) },
    Route { methods: GET, path: &["metrics"], to: To::Page(Page::Metrics) },
    Route { methods: GET, path: &["openapi.json"], to: To::Page(Page::OpenApi) },
    Route { methods: GET, path: &[""], to: To::Page(Page::Index) },
];

/// Finds the route, or says what is wrong: no such path, or another method.
pub fn find<'p>(method: &Method, path: &'p str) -> Result<Found<'p>, Denial> {
    let mut segments = [""; SEGMENTS_MAX];
    let mut count = 0;
    for segment in path.strip_prefix('/').ok_or(Denial::NoRoute)?.split('/') {
        *segments.get_mut(count).ok_or(Denial::NoRoute)? = segment;
        count += 1;
    }
    let segments = &segments[..count];
    let here = || ROUTES.iter().filter(|route| route.fits(segments));
    if let Some(route) = here().find(|route| route.methods.contains(method)) {
        let named = route.path.iter().position(|segment| is_any(segment));
        return Ok((route.to, named.map_or("", |place| segments[place])));
    }
    let allowed: Vec<&str> = here().flat_map(|route| route.methods).map(Method::as_str).collect();
    match allowed.is_empty() {
        true => Err(Denial::NoRoute),
        false => Err(Denial::WrongMethod { allow: allowed.join(", ") }),
    }
}

impl Route {
    fn fits(&self, segments: &[&str]) -> bool {
        self.path.len() == segments.len()
            && self.path.iter().zip(segments).all(|(ours, sent)| ours == sent || is_any(ours))
    }
}

fn is_any(segment: &str) -> bool {
    [LOCK, FILE].contains(&segment)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_is_one_segment_as_sent() {
        let acquire = |path| find(&Method::POST, path);
        assert_eq!(acquire("/v1/locks/a/acquire"), Ok((To::Call(Call::Acquire), "a")));
        assert_eq!(
            acquire("/v1/locks/path:%2Fa%2Fb/acquire"),
            Ok((To::Call(Call::Acquire), "path:%2Fa%2Fb"))
        );
        assert_eq!(acquire("/v1/locks/../acquire"), Ok((To::Call(Call::Acquire), "..")));
        assert_eq!(acquire("/v1/locks//acquire"), Ok((To::Call(Call::Acquire), "")));
        assert_eq!(acquire("/v1/locks/path:/a/acquire"), Err(Denial::NoRoute));
        assert_eq!(acquire("/v1/locks/a/acquire/"), Err(Denial::NoRoute));
        assert_eq!(find(&Method::GET, "/v1/locks/"), Ok((To::Call(Call::Get), "")));
        assert_eq!(acquire("/v1/files/a%2Fb/append"), Ok((To::Call(Call::AppendFile), "a%2Fb")));
        assert_eq!(acquire("/v1/files/append/append"), Ok((To::Call(Call::AppendFile), "append")));
        assert_eq!(find(&Method::PUT, "/v1/files/append"), Ok((To::Call(Call::WriteFile), "append")));
        assert_eq!(find(&Method::GET, "/v1/files/a/b/c"), Err(Denial::NoRoute));
        assert_eq!(find(&Method::GET, "/"), Ok((To::Page(Page::Index), "")));
    }

    #[test]
    fn unknown_paths_and_wrong_methods_are_told_apart() {
        for path in
            ["", "*", "/nope", "/v1", "/v1/", "/v2/locks", "//", "/healthz/", "/V1/locks", "/v1/locks/a/b"]
        {
            assert_eq!(find(&Method::GET, path), Err(Denial::NoRoute), "{path}");
        }
        let allow = |method: Method, path| match find(&method, path) {
            Err(Denial::WrongMethod { allow }) => allow,
            other => panic!("{other:?}"),
        };
        assert_eq!(allow(Method::GET, "/v1/locks/a/acquire"), "POST");
        assert_eq!(allow(Method::PUT, "/v1/locks/a"), "GET, HEAD, DELETE");
        assert_eq!(allow(Method::DELETE, "/v1/locks"), "GET, HEAD");
        assert_eq!(allow(Method::DELETE, "/v1/sessions"), "GET, HEAD, POST");
        assert_eq!(allow(Method::HEAD, "/v1/locks/a/watch"), "GET");
        assert_eq!(allow(Method::POST, "/v1/watch"), "GET");
        assert_eq!(allow(Method::POST, "/metrics"), "GET, HEAD");
        assert_eq!(allow(Method::POST, "/v1/files/a"), "GET, HEAD, PUT, DELETE");
        assert_eq!(allow(Method::GET, "/v1/files/a/append"), "POST");
    }

    #[test]
    fn no_route_hides_another() {
        for (index, route) in ROUTES.iter().enumerate() {
            assert!(route.path.len() <= SEGMENTS_MAX, "{route:?}");
            for method in route.methods {
                let path = format!("/{}", route.path.join("/"));
                assert_eq!(find(method, &path).map(|(to, _)| to), Ok(route.to), "{route:?}");
            }
            assert!(ROUTES[..index].iter().all(|other| other.to != route.to), "{route:?}");
        }
        for call in Call::ALL {
            assert!(ROUTES.iter().any(|route| route.to == To::Call(call)), "{call:?}");
        }
    }
}
