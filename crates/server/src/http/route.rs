//! Which call a method and a path mean. Works on the path as it was sent: nothing is decoded, joined or normalised
//! before it is split, so that `%2F` in a lock's name stays inside its segment.

use hyper::Method;

use crate::wire::commands::Call;
use crate::wire::problem::Denial;

/// Where a request goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Route<'p> {
    /// To the engine, with the path segment that names the lock, as sent; empty where there is none.
    Call(Call, &'p str),
    /// To the feed, for one lock: the path segment that names it, as sent.
    WatchLock(&'p str),
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
}

const GET: &str = "GET, HEAD";
const POST: &str = "POST";

/// Finds the route, or says what is wrong: no such path, or another method.
pub fn find<'p>(method: &Method, path: &'p str) -> Result<Route<'p>, Denial> {
    let get = matches!(*method, Method::GET | Method::HEAD);
    let only = |fits: bool, allow: &'static str, route: Route<'p>| match fits {
        true => Ok(route),
        false => Err(Denial::WrongMethod { allow }),
    };
    let page = |page| only(get, GET, Route::Page(page));
    let post = |call, lock| only(method == Method::POST, POST, Route::Call(call, lock));

    let Some(below) = path.strip_prefix('/') else { return Err(Denial::NoRoute) };
    let mut segments = below.split('/');
    let parts = [(); 5].map(|()| segments.next());
    match parts {
        [Some(""), None, ..] => page(Page::Index),
        [Some("healthz"), None, ..] => page(Page::Health),
        [Some("readyz"), None, ..] => page(Page::Ready),
        [Some("version"), None, ..] => page(Page::Version),
        [Some("metrics"), None, ..] => page(Page::Metrics),
        [Some("v1"), Some("locks"), None, ..] => only(get, GET, Route::Call(Call::List, "")),
        [Some("v1"), Some("locks"), Some(lock), None, _] => match *method {
            Method::DELETE => Ok(Route::Call(Call::Break, lock)),
            _ => only(get, "GET, HEAD, DELETE", Route::Call(Call::Get, lock)),
        },
        [Some("v1"), Some("locks"), Some(lock), Some(verb), None] => match verb {
            "acquire" => post(Call::Acquire, lock),
            "renew" => post(Call::Renew, lock),
            "release" => post(Call::Release, lock),
            "cancel" => post(Call::Cancel, lock),
            "verify" => post(Call::Verify, lock),
            // Not HEAD: a stream of events has no end to tell the length of.
            "watch" => only(method == Method::GET, "GET", Route::WatchLock(lock)),
            _ => Err(Denial::NoRoute),
        },
        [Some("v1"), Some("watch"), None, ..] => only(method == Method::GET, "GET", Route::WatchPrefix),
        [Some("v1"), Some("sessions"), None, ..] => match *method {
            Method::POST => Ok(Route::Call(Call::OpenSession, "")),
            _ => only(get, "GET, HEAD, POST", Route::Call(Call::ListSessions, "")),
        },
        [Some("v1"), Some("sessions"), Some("keepalive"), None, _] => post(Call::KeepAlive, ""),
        [Some("v1"), Some("sessions"), Some("close"), None, _] => post(Call::CloseSession, ""),
        _ => Err(Denial::NoRoute),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_is_one_segment_as_sent() {
        let acquire = |path| find(&Method::POST, path);
        assert_eq!(acquire("/v1/locks/a/acquire"), Ok(Route::Call(Call::Acquire, "a")));
        assert_eq!(
            acquire("/v1/locks/path:%2Fa%2Fb/acquire"),
            Ok(Route::Call(Call::Acquire, "path:%2Fa%2Fb"))
        );
        assert_eq!(acquire("/v1/locks/../acquire"), Ok(Route::Call(Call::Acquire, "..")));
        assert_eq!(acquire("/v1/locks//acquire"), Ok(Route::Call(Call::Acquire, "")));
        assert_eq!(acquire("/v1/locks/path:/a/acquire"), Err(Denial::NoRoute));
        assert_eq!(acquire("/v1/locks/a/acquire/"), Err(Denial::NoRoute));
        assert_eq!(find(&Method::GET, "/v1/locks/"), Ok(Route::Call(Call::Get, "")));
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
    }
}
