//! An event as one line of JSON, as the audit trail keeps it and watchers hear it. Shows no secret, because it reads
//! none.

use leasehold_engine::Moment;
use leasehold_state_machine::event::{Ask, Ending, Event, LeaseName, Seq};
use serde::Serialize;

use super::shapes::to_json;
use crate::rfc3339::Timestamp;

/// What an event tells everybody. Fields that an event does not have are left out of its line.
#[derive(Serialize, Debug, PartialEq, Default)]
pub struct Told<'a> {
    /// The lock.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lock: Option<&'a str>,
    /// The event's word.
    #[serde(rename = "type")]
    pub kind: &'static str,
    /// Whose lease, place or session it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub owner_id: Option<&'a str>,
    /// The lease's token.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fencing_token: Option<u64>,
    /// The mode.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<&'static str>,
    /// Why.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<&'a str>,
    /// The file that was written to or deleted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<&'a str>,
    /// Where the bytes of a write begin.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub offset: Option<u64>,
    /// How many they are.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub length: Option<u64>,
}

impl<'a> From<&'a Event> for Told<'a> {
    fn from(event: &'a Event) -> Self {
        let kind = event.type_text();
        match event {
            Event::Granted { token, ask, .. } => Told { fencing_token: Some(*token), ..asked(kind, ask) },
            Event::Queued { ask, .. } => asked(kind, ask),
            Event::Dequeued { resource, owner, mode, why, .. } => Told {
                lock: Some(resource.text()),
                kind,
                owner_id: Some(owner.text()),
                fencing_token: None,
                mode: Some(mode.text()),
                reason: Some(why.text()),
                ..Told::default()
            },
            Event::Updated { lease, .. } | Event::Expired { lease } => of_lease(kind, lease, None),
            Event::Released { lease, why } => of_lease(kind, lease, Some(why.text())),
            Event::Broken { lease, reason, .. } => of_lease(kind, lease, Some(reason.text())),
            Event::FileWritten { name, lease, offset, bytes, .. } => Told {
                file: Some(name.text()),
                offset: Some(*offset),
                length: Some(bytes.len()),
                ..of_lease(kind, lease, None)
            },
            Event::FileDeleted { name, lease, .. } => {
                Told { file: Some(name.text()), ..of_lease(kind, lease, None) }
            }
            Event::SessionOpened { owner, .. } => {
                Told { kind, owner_id: Some(owner.text()), ..Told::default() }
            }
            Event::SessionEnded { owner, how, .. } => {
                let reason = match how {
                    Ending::Expired => "expired",
                    Ending::Released => "closed",
                };
                Told { kind, owner_id: Some(owner.text()), reason: Some(reason), ..Told::default() }
            }
            Event::Founded { .. }
            | Event::Seen { .. }
            | Event::Cancelled { .. }
            | Event::BreakAnswered { .. }
            | Event::Forgotten { .. }
            | Event::Marked { .. }
            | Event::ClientForgotten { .. }
            | Event::Horizon { .. }
            | Event::GrantsHeld { .. }
            | Event::GrantsResumed
            | Event::TokensRaised { .. } => Told { kind, ..Told::default() },
        }
    }
}

impl<'a> From<&'a Moment> for Told<'a> {
    fn from(moment: &'a Moment) -> Self {
        Told {
            lock: Some(moment.lock()),
            kind: moment.kind().text(),
            owner_id: Some(moment.owner()),
            fencing_token: moment.token(),
            mode: Some(moment.mode().text()),
            reason: moment.reason(),
            ..Told::default()
        }
    }
}

fn asked<'a>(kind: &'static str, ask: &'a Ask) -> Told<'a> {
    Told {
        lock: Some(ask.resource.text()),
        kind,
        owner_id: Some(ask.owner.text()),
        mode: Some(ask.mode.text()),
        ..Told::default()
    }
}

fn of_lease<'a>(kind: &'static str, lease: &'a LeaseName, reason: Option<&'a str>) -> Told<'a> {
    Told {
        lock: Some(lease.resource.text()),
        kind,
        owner_id: Some(lease.owner.text()),
        fencing_token: Some(lease.token),
        mode: Some(lease.mode.text()),
        reason,
        ..Told::default()
    }
}

#[derive(Serialize)]
struct Line<'a> {
    seq: Seq,
    time: Timestamp,
    #[serde(flatten)]
    told: Told<'a>,
}

/// The event's line, without its line end.
pub fn event_line(seq: Seq, wall_ms: u64, event: &Event) -> Vec<u8> {
    to_json(&Line { seq, time: Timestamp(wall_ms), told: Told::from(event) })
}

/// The line of an event that watchers may hear of: the same as [`event_line`] gives.
pub fn moment_line(moment: &Moment) -> Vec<u8> {
    to_json(&Line { seq: moment.seq(), time: Timestamp(moment.wall_ms()), told: Told::from(moment) })
}

#[cfg(test)]
mod tests {
    use leasehold_state_machine::event::Under;
    use leasehold_state_machine::file::{FileBytes, FileName};
    use leasehold_state_machine::ids::Secret;
    use leasehold_state_machine::resource::Resource;
    use leasehold_state_machine::words::{Metadata, Mode, Owner, Ttl};

    use super::*;

    #[test]
    fn tells_what_happened_and_no_secret() {
        let ask = Ask {
            secret: Secret([0x5ec5_e700_0000_0001, 0x5ec5_e700_0000_0002]),
            resource: Resource::parse("path:/a\"b").unwrap(),
            owner: Owner::parse("w1").unwrap(),
            mode: Mode::Shared,
            under: Under::Own(Ttl::default()),
            request: None,
            metadata: Metadata::default(),
        };
        let line = event_line(7, 1_577_836_800_001, &Event::Granted { ticket: 1, slot: 2, token: 3, ask });
        assert_eq!(
            String::from_utf8(line).unwrap(),
            r#"{"seq":7,"time":"2020-01-01T00:00:00.001Z","lock":"path:/a\"b","type":"granted","owner_id":"w1","fencing_token":3,"mode":"shared"}"#
        );
        let line = event_line(
            8,
            0,
            &Event::FileWritten {
                number: 1 << 52,
                name: FileName::parse("a/b").unwrap(),
                lease: LeaseName {
                    slot: 0,
                    token: 3,
                    resource: Resource::parse("path:/a").unwrap(),
                    owner: Owner::parse("w1").unwrap(),
                    mode: Mode::Exclusive,
                },
                offset: 7,
                bytes: FileBytes::new(*b"hello").let_go(),
                request: None,
            },
        );
        assert_eq!(
            String::from_utf8(line).unwrap(),
            r#"{"seq":8,"time":"1970-01-01T00:00:00.000Z","lock":"path:/a","type":"file_written","owner_id":"w1","fencing_token":3,"mode":"exclusive","file":"a/b","offset":7,"length":5}"#
        );
        let line = event_line(8, 0, &Event::GrantsResumed);
        assert_eq!(
            String::from_utf8(line).unwrap(),
            r#"{"seq":8,"time":"1970-01-01T00:00:00.000Z","type":"grants_resumed"}"#
        );
    }
}
