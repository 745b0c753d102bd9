//! The words of the description: what each route is for, an example of what is sent to it, what comes back, and what
//! it can refuse.

use serde_json::{Value, json};

use super::samples::sample;
use crate::http::route::{Page, To};
use crate::wire::commands::Call;
use crate::wire::problem::Code;

/// The groups that operations are shown in.
pub const TAGS: [(&str, &str); 5] = [
    ("locks", "Take, keep, give back and look at locks."),
    ("sessions", "Keep many leases alive with one heartbeat."),
    ("files", "Files that can only be written under a live lease that covers what is written."),
    ("watch", "Hear of what happens, without gaps or repeats."),
    ("server", "What the server says of itself."),
];

/// What is said of one route.
pub struct Said {
    /// Its name for programs.
    pub id: &'static str,
    /// Its group.
    pub tag: &'static str,
    /// In a few words.
    pub summary: &'static str,
    /// In a few sentences.
    pub description: &'static str,
    /// The body that is sent, in the example.
    pub body: Value,
    /// The query that is sent, in the example.
    pub query: &'static [(&'static str, &'static str)],
    /// What comes back when all is well.
    pub answer: Answered,
    /// What it can refuse besides what any route can.
    pub codes: &'static [Code],
}

/// What comes back when all is well.
pub enum Answered {
    /// JSON of this shape.
    Shape(&'static str),
    /// Something else: its media type, and an example.
    Text(&'static str, &'static str),
    /// Server-sent events.
    Events,
    /// The bytes of a file.
    Bytes,
    /// What is known of a file, in headers.
    FileHead,
    /// This document.
    Document,
}

/// What is said of the route to there.
pub fn said(to: To) -> Said {
    match to {
        To::Call(call) => of_call(call),
        To::WatchLock => Said {
            id: "watchLock",
            tag: "watch",
            summary: "Watch one lock",
            description: "What happens to exactly this lock, from now on or after the event `from`, in order, without gaps or repeats, also across restarts of the server.",
            body: Value::Null,
            query: &[],
            answer: Answered::Events,
            codes: &[Code::Gone, Code::Unavailable],
        },
        To::WatchPrefix => Said {
            id: "watch",
            tag: "watch",
            summary: "Watch all locks with a prefix",
            description: "What happens to all locks whose text begins with `prefix`; without one, to all.",
            body: Value::Null,
            query: &[("prefix", "deploy")],
            answer: Answered::Events,
            codes: &[Code::Gone, Code::Unavailable],
        },
        To::Page(page) => of_page(page),
    }
}

fn of_page(page: Page) -> Said {
    let said = |id, summary, description, answer| Said {
        id,
        tag: "server",
        summary,
        description,
        body: Value::Null,
        query: &[],
        answer,
        codes: &[],
    };
    match page {
        Page::Index => said(
            "index",
            "A page with links",
            "For somebody who opened the server's address in a browser.",
            Answered::Text("text/html", "<!doctype html>"),
        ),
        Page::Health => said(
            "health",
            "Whether the process lives",
            "200 as long as the process can answer at all.",
            Answered::Shape("Health"),
        ),
        Page::Ready => Said {
            codes: &[Code::Unavailable],
            ..said(
                "ready",
                "Whether the server takes requests",
                "200 from the end of recovery to the beginning of the stop.",
                Answered::Shape("Ready"),
            )
        },
        Page::Version => said(
            "version",
            "Which version this is",
            "The program's name and version.",
            Answered::Shape("Version"),
        ),
        Page::Metrics => said(
            "metrics",
            "Metrics",
            "Prometheus text. No label ever holds a lock's name or an owner.",
            Answered::Text(
                "text/plain",
                "# HELP locks_held Leases that live.\n# TYPE locks_held gauge\nlocks_held 3\n",
            ),
        ),
        Page::OpenApi => said("openapi", "This document", "The description of this API.", Answered::Document),
    }
}

fn of_call(call: Call) -> Said {
    let proof = || {
        let lease = sample("Lease");
        json!({"owner_id": lease["owner_id"], "lease_id": lease["lease_id"], "fencing_token": lease["fencing_token"]})
    };
    let session_id = || sample("Session")["session_id"].clone();
    let (tag, query): (_, &[_]) = ("locks", &[]);
    match call {
        Call::Acquire => Said {
            id: "acquire",
            tag,
            query,
            summary: "Acquire a lock",
            description: "Granted at once, or after standing in line for at most `wait_ms`; otherwise `held`, with who is in the way. The lease lives by its own TTL, or by `session_id`'s (then without `ttl_ms`). An acquire that waits keeps its place for 5 s when its connection closes, if it has a `request_id`.",
            body: json!({
                "owner_id": "worker-1@host7", "ttl_ms": 30_000, "mode": "exclusive", "wait_ms": 10_000,
                "request_id": "deploy-1234", "metadata": {"build": "1234"},
            }),
            answer: Answered::Shape("Lease"),
            codes: &[
                Code::NotFound,
                Code::Held,
                Code::LeaseExpired,
                Code::Released,
                Code::StaleToken,
                Code::Cancelled,
            ],
        },
        Call::Renew => Said {
            id: "renew",
            tag,
            query,
            summary: "Renew a lease",
            description: "Moves the deadline to a TTL from now; renews the lease's whole session. Succeeds only when lock, owner, lease and token belong together and the lease is live.",
            body: proof(),
            answer: Answered::Shape("Lease"),
            codes: &[Code::NotFound, Code::LeaseExpired, Code::Released, Code::StaleToken],
        },
        Call::Release => Said {
            id: "release",
            tag,
            query,
            summary: "Release a lease",
            description: "The next in line has the lock at once. Repeating it is harmless.",
            body: proof(),
            answer: Answered::Shape("Released"),
            codes: &[Code::NotFound, Code::LeaseExpired, Code::StaleToken],
        },
        Call::Cancel => Said {
            id: "cancel",
            tag,
            query,
            summary: "Take an acquire back",
            description: "By its `request_id`, wherever it has got to: out of the line, or released if it was granted. If it has not arrived yet, it is refused when it does.",
            body: json!({"owner_id": "worker-1@host7", "request_id": "deploy-1234"}),
            answer: Answered::Shape("Cancelled"),
            codes: &[],
        },
        Call::Verify => Said {
            id: "verify",
            tag,
            query,
            summary: "Look whether a token is live",
            description: "Whether a live lease with that token covered the lock a moment ago. For diagnosis: only the comparison at the protected resource fences.",
            body: json!({"fencing_token": proof()["fencing_token"]}),
            answer: Answered::Shape("Valid"),
            codes: &[Code::StaleToken],
        },
        Call::Get => Said {
            id: "getLock",
            tag,
            query,
            summary: "Look at one lock",
            description: "Who holds it and who waits for it, and for everything that overlaps it. A lock that nobody holds or waits for is `free`.",
            body: Value::Null,
            answer: Answered::Shape("Snapshot"),
            codes: &[Code::NotFound],
        },
        Call::List => Said {
            id: "listLocks",
            tag,
            summary: "Look at many locks",
            description: "Locks that are held or waited for, in order of their text, a page at a time.",
            body: Value::Null,
            query: &[("prefix", "deploy"), ("owner", "worker-1@host7"), ("limit", "100")],
            answer: Answered::Shape("Locks"),
            codes: &[],
        },
        Call::Break => Said {
            id: "breakLock",
            tag,
            summary: "Break a lock",
            description: "For operators. The leases on exactly this lock cannot be renewed or verified from now on; the lock is granted on at their deadline, by which a holder has stopped. With `force` at once: then only the token protects.",
            body: Value::Null,
            query: &[("reason", "host7 is gone"), ("force", "false")],
            answer: Answered::Shape("Broke"),
            codes: &[Code::NotFound],
        },
        Call::OpenSession => Said {
            id: "openSession",
            tag: "sessions",
            query,
            summary: "Open a session",
            description: "Leases that are acquired under it live by it: one heartbeat for all of them.",
            body: json!({"owner_id": "worker-1@host7", "ttl_ms": 30_000, "request_id": "start-7", "metadata": {"build": "1234"}}),
            answer: Answered::Shape("Session"),
            codes: &[Code::LeaseExpired, Code::Released, Code::Cancelled],
        },
        Call::KeepAlive => Said {
            id: "keepAlive",
            tag: "sessions",
            query,
            summary: "Keep a session alive",
            description: "Renews it and all its leases. `ended` names leases of it that were broken or ended otherwise than by their own release; `seen` confirms that it was read.",
            body: json!({"session_id": session_id(), "seen": 42}),
            answer: Answered::Shape("Session"),
            codes: &[Code::NotFound, Code::LeaseExpired, Code::Released],
        },
        Call::CloseSession => Said {
            id: "closeSession",
            tag: "sessions",
            query,
            summary: "Close a session",
            description: "Its leases end with it, and its waiters leave the line. Repeating it is harmless.",
            body: json!({"session_id": session_id()}),
            answer: Answered::Shape("Closed"),
            codes: &[Code::NotFound, Code::LeaseExpired],
        },
        Call::AppendFile
        | Call::WriteFile
        | Call::DeleteFile
        | Call::ReadFile
        | Call::StatFile
        | Call::ListFiles => super::said_of_files::of_call(call),
        Call::ListSessions => Said {
            id: "listSessions",
            tag: "sessions",
            summary: "Look at the sessions",
            description: "Sessions that were opened by name: owners, lease counts, time left. No secrets.",
            body: Value::Null,
            query: &[("limit", "100")],
            answer: Answered::Shape("Sessions"),
            codes: &[],
        },
    }
}
