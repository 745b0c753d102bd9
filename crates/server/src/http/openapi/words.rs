//! The dictionary: what each name on the wire means, and what its value may be. A name means the same wherever it
//! stands; the few that do not are named together with the shape they stand in. Bounds are those that are enforced.

use leasehold_engine::MomentKind;
use leasehold_state_machine::event::{CancelFound, Departure, Release};
use leasehold_state_machine::limits::{
    FILE_INODE_END, FILE_INODE_FIRST, ID_TEXT_BYTES_MAX, METADATA_ENTRIES_MAX, NAME_BYTES_MAX,
    OWNER_BYTES_MAX, PAGE_ROWS_DEFAULT, PAGE_ROWS_MAX, REASON_BYTES_MAX, REQUEST_ID_BYTES_MAX,
    TTL_MS_DEFAULT, TTL_MS_MAX, TTL_MS_MIN, WAIT_MS_MAX,
};
use leasehold_state_machine::token::TOKEN_END;
use leasehold_state_machine::words::Mode;
use serde_json::{Value, json};

/// The schema of `name` in the shape `of`; none if the dictionary does not know it.
pub fn schema(of: &str, name: &str) -> Option<Value> {
    if let Some(special) = special(of, name) {
        return Some(special);
    }
    Some(match name {
        "lock" => described(
            json!({"type": "string", "minLength": 1}),
            "What is locked: `deploy` (a name), `path:/a/b` (that path and everything under it), `inode:42`, or \
             `range:42:0-4096` (bytes 0 up to, not including, 4096).",
        ),
        "owner_id" | "owner" => described(
            json!({"type": "string", "minLength": 1, "maxLength": OWNER_BYTES_MAX}),
            "Who asks: a text of the caller's choice, such as `worker-1@host7`. Counted in bytes of UTF-8.",
        ),
        "session_id" => {
            secret("Names the session to the server. A secret: keep it, show it to nobody, do not log it.")
        }
        "lease_id" => {
            secret("Names the lease to the server. A secret: keep it, show it to nobody, do not log it.")
        }
        "fencing_token" | "token" | "last_token" | "highest_token" => token(match name {
            "fencing_token" => {
                "The lease's number. Only ever grows; give it to the resource that the lock protects."
            }
            "token" => "Only the lease with this fencing token.",
            "last_token" => "The newest fencing token on this lock, while the lock is remembered.",
            _ => "A newer fencing token that was seen on the lock.",
        }),
        "tokens" => described(
            json!({"type": "array", "items": token("A fencing token.")}),
            "The fencing tokens of the leases that were broken.",
        ),
        "mode" => described(
            json!({"type": "string", "enum": [Mode::Exclusive.text(), Mode::Shared.text()], "default": Mode::default().text()}),
            "Two requests conflict when they overlap and at least one is exclusive.",
        ),
        "ttl_ms" => described(
            json!({"type": "integer", "minimum": TTL_MS_MIN, "maximum": TTL_MS_MAX, "default": TTL_MS_DEFAULT}),
            "How long a lease or session lives without being renewed.",
        ),
        "wait_ms" => described(
            json!({"type": "integer", "minimum": 0, "maximum": WAIT_MS_MAX, "default": 0}),
            "How long to stand in line. 0 is a single attempt.",
        ),
        "request_id" => described(
            json!({"type": "string", "minLength": 1, "maxLength": REQUEST_ID_BYTES_MAX, "pattern": "^[!-~]+$"}),
            "Makes the request safe to repeat: a repeat with the same id gets the first one's outcome and changes \
             nothing. Belongs to its owner. The header `Idempotency-Key` says the same.",
        ),
        "metadata" => described(
            json!({"type": "object", "additionalProperties": {"type": "string"}, "maxProperties": METADATA_ENTRIES_MAX}),
            "What a holder says of itself, for people to read. Everybody may see it.",
        ),
        "expires_in_ms" => milliseconds("What is left to the deadline."),
        "renew_after_ms" => milliseconds("Renew this long after you *sent* the request that is answered."),
        "stop_after_ms" => milliseconds(
            "Unless renewed before, stop believing in the lease this long after you *sent* the request that is \
             answered.",
        ),
        "waiting_ms" => milliseconds("How long it has stood in line."),
        "free_in_ms" => milliseconds("When the last of the broken leases ends and the lock is granted on."),
        "recommended_retry_ms" => described(
            json!({"type": "integer", "minimum": 1}),
            "When to try again. Differs from request to request, so that not everybody comes back at once.",
        ),
        "acquired_at" => moment("When it was granted. For people: programs never compute with it."),
        "expires_at" => moment("When it ends unless renewed. For people: programs never compute with it."),
        "time" => moment("When it happened. For people: programs never compute with it."),
        "version" => number("The `seq` of the lock's last change."),
        "seq" => number(
            "The number of an event. In an answer: after which event this holds, so that a watch from it has no gap.",
        ),
        "seen" => number("The highest `seq` in `ended` that was read: those up to it are not told again."),
        "from" => number("Resume after the event with this `seq`. Without it: what happens from now on."),
        "state" => described(
            json!({"type": "string", "enum": ["free", "held"]}),
            "Whether anybody holds anything that overlaps.",
        ),
        "holders" => list("Holder", "Who holds something that overlaps."),
        "waiters" => list("Waiter", "Who stands in line for something that overlaps, in order."),
        "ended" => list(
            "Ended",
            "Leases of the session that were broken, or ended otherwise than by their own release. Repeated until \
             `seen` confirms them.",
        ),
        "locks" => list("Snapshot", "Locks that are held or waited for, in order of their text."),
        "sessions" => list("SessionRow", "Sessions that were opened by name and live."),
        "position" => described(json!({"type": "integer", "minimum": 1}), "The place in line, from 1."),
        "attached" => flag("Whether somebody is there to be answered; a place is kept for 5 s without."),
        "broken" => always("Broken by an operator: it cannot be renewed, and stands until its deadline."),
        "valid" => always("A live lease with this token covered the lock a moment ago."),
        "released" => always("It is released, now or before."),
        "closed" => always("It is closed, now or before."),
        "ready" => always("The server takes requests."),
        "cancelled" => described(
            json!({"type": "string", "enum": [CancelFound::Waiting.text(), CancelFound::Released.text(), CancelFound::Unknown.text()]}),
            "What was found: it stood in line; it had been granted, and is released; or it has not arrived, and is \
             refused if it does.",
        ),
        "type" => described(
            json!({"type": "string", "enum": MomentKind::ALL.map(MomentKind::text)}),
            "What happened.",
        ),
        "prefix" => described(json!({"type": "string"}), "Only those whose text begins with this."),
        "limit" => described(
            json!({"type": "integer", "minimum": 1, "maximum": PAGE_ROWS_MAX, "default": PAGE_ROWS_DEFAULT}),
            "Rows of one page.",
        ),
        "cursor" | "next_cursor" => described(
            json!({"type": "string"}),
            match name {
                "cursor" => "The `next_cursor` of the page before.",
                _ => "Where the next page begins. Absent on the last one.",
            },
        ),
        "force" => described(
            json!({"type": "boolean", "default": false}),
            "Grant on at once instead of at the holder's deadline. Then only the fencing token protects.",
        ),
        "leases" => number("How many leases live by it."),
        "name" => described(
            json!({"type": "string", "minLength": 1, "maxLength": NAME_BYTES_MAX}),
            "A file's name: a relative path such as `reports/a.log`. Counted in bytes of UTF-8.",
        ),
        "inode" => described(
            json!({"type": "integer", "minimum": FILE_INODE_FIRST, "maximum": FILE_INODE_END - 1}),
            "The file's number, for locks on `inode:` and `range:`. Never another file's.",
        ),
        "size" => number("How many bytes the file has."),
        "offset" => number("The byte at which what is written begins."),
        "length" => number("How many bytes were written."),
        "created_at" => moment("When it was first written. For people: programs never compute with it."),
        "written_at" => moment("When it was last written. For people: programs never compute with it."),
        "files" => list("File", "Files, in order of their names."),
        "deleted" => always("It is deleted."),
        "title" => text("The code in words."),
        "detail" => text("What is wrong and what to do. For people: programs read `code`."),
        "field" => {
            text("The field, parameter or header that is wrong; `body` and `query` for the whole of them.")
        }
        _ => return None,
    })
}

/// Names that mean something else in this shape.
fn special(of: &str, name: &str) -> Option<Value> {
    Some(match (of, name) {
        ("Version", "name") => described(json!({"type": "string", "const": "leasehold"}), "The program."),
        ("File", "fencing_token") => token("The highest fencing token that wrote the file."),
        ("File", "version") => number("The `seq` of the file's last write."),
        ("Version", "version") => text("The version of the server."),
        ("Health", "status") => described(json!({"type": "string", "const": "ok"}), "The process lives."),
        ("SessionRow", "waiters") => number("How many requests stand in line for it."),
        ("Ended", "reason") => described(
            json!({"type": "string", "enum": [Release::Broken.text(), Release::Cancelled.text(), Release::Gone.text()]}),
            "Why it ended.",
        ),
        ("Event", "reason") => {
            let dequeued = [Departure::Timeout, Departure::Cancelled, Departure::Session, Departure::Gone];
            text(&format!(
                "Why. For `dequeued`: {}. For `broken`: the operator's words.",
                dequeued.map(Departure::text).join(", ")
            ))
        }
        (_, "reason") => described(
            json!({"type": "string", "minLength": 1, "maxLength": REASON_BYTES_MAX}),
            "Why it is broken. Recorded, and told to watchers.",
        ),
        _ => return None,
    })
}

/// The schema with words for people.
pub fn described(mut schema: Value, description: &str) -> Value {
    schema["description"] = description.into();
    schema
}

fn text(description: &str) -> Value {
    described(json!({"type": "string"}), description)
}

fn secret(description: &str) -> Value {
    described(json!({"type": "string", "minLength": 1, "maxLength": ID_TEXT_BYTES_MAX}), description)
}

fn token(description: &str) -> Value {
    described(json!({"type": "integer", "minimum": 0, "maximum": TOKEN_END - 1}), description)
}

fn number(description: &str) -> Value {
    described(json!({"type": "integer", "minimum": 0}), description)
}

fn milliseconds(description: &str) -> Value {
    number(description)
}

fn moment(description: &str) -> Value {
    described(json!({"type": "string", "format": "date-time"}), description)
}

fn flag(description: &str) -> Value {
    described(json!({"type": "boolean"}), description)
}

fn always(description: &str) -> Value {
    described(json!({"type": "boolean", "const": true}), description)
}

fn list(of: &str, description: &str) -> Value {
    described(json!({"type": "array", "items": super::reference("schemas", of)}), description)
}
