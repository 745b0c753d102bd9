//! One event as bytes: a tag, then its fields in order.

use alloc::vec::Vec;

use super::primitive::*;
use crate::event::{Ask, CancelFound, Departure, Ending, Event, LeaseName, Release, RequestMark, Under};
use crate::file::FileBytes;
use crate::ids::{HashKey, RequestName};
use crate::limits::NUMBER_END;
use crate::words::{Reason, Wait};

/// Appends the event's bytes.
pub fn encode_event(event: &Event, out: &mut Vec<u8>) {
    match event {
        Event::Founded { key } => {
            out.push(1);
            put_pair(out, key.0);
        }
        Event::Granted { ticket, slot, token, ask } => {
            out.push(2);
            put_number(out, *ticket);
            put_number(out, u64::from(*slot));
            put_number(out, *token);
            put_ask(out, ask);
        }
        Event::Queued { ticket, wait, ask } => {
            out.push(3);
            put_number(out, *ticket);
            put_number(out, wait.ms());
            put_ask(out, ask);
        }
        Event::Dequeued { ticket, resource, owner, mode, why } => {
            out.push(4);
            put_number(out, *ticket);
            put_text(out, resource.text());
            put_text(out, owner.text());
            put_mode(out, *mode);
            out.push(match why {
                Departure::Timeout => 0,
                Departure::Cancelled => 1,
                Departure::Session => 2,
                Departure::Gone => 3,
            });
        }
        Event::Updated { lease, ttl, metadata } => {
            out.push(5);
            put_lease(out, lease);
            put_option(out, *ttl, |out, ttl| put_number(out, ttl.ms()));
            put_option(out, metadata.as_ref(), put_metadata);
        }
        Event::Released { lease, why } => {
            out.push(6);
            put_lease(out, lease);
            out.push(match why {
                Release::Holder => 0,
                Release::Cancelled => 1,
                Release::Closed => 2,
                Release::Gone => 3,
                Release::Broken => 4,
            });
        }
        Event::Expired { lease } => {
            out.push(7);
            put_lease(out, lease);
        }
        Event::Broken { lease, reason, force } => {
            out.push(8);
            put_lease(out, lease);
            put_text(out, reason.text());
            put_flag(out, *force);
        }
        Event::SessionOpened { slot, secret, owner, ttl, metadata, request } => {
            out.push(9);
            put_number(out, u64::from(*slot));
            put_pair(out, secret.0);
            put_text(out, owner.text());
            put_number(out, ttl.ms());
            put_metadata(out, metadata);
            put_option(out, *request, put_mark);
        }
        Event::SessionEnded { slot, owner, how } => {
            out.push(10);
            put_number(out, u64::from(*slot));
            put_text(out, owner.text());
            put_ending(out, *how);
        }
        Event::Seen { slot, through } => {
            out.push(11);
            put_number(out, u64::from(*slot));
            put_number(out, *through);
        }
        Event::Cancelled { request, found } => {
            out.push(12);
            put_name(out, *request);
            put_found(out, *found);
        }
        Event::BreakAnswered { request, tokens, free_in_ms } => {
            out.push(13);
            put_mark(out, *request);
            put_numbers(out, tokens);
            put_number(out, *free_in_ms);
        }
        Event::Forgotten { requests_before, tombstones_before } => {
            out.push(14);
            put_number(out, *requests_before);
            put_number(out, *tombstones_before);
        }
        Event::Horizon { until_raw_us, length_us } => {
            out.push(15);
            put_number(out, *until_raw_us);
            put_number(out, *length_us);
        }
        Event::GrantsHeld { for_ms } => {
            out.push(16);
            put_number(out, *for_ms);
        }
        Event::GrantsResumed => out.push(17),
        Event::TokensRaised { to } => {
            out.push(22);
            put_number(out, *to);
        }
        Event::Marked { client, answered_through, open } => {
            out.push(18);
            put_pair(out, client.0);
            put_number(out, *answered_through);
            put_numbers(out, open);
        }
        Event::ClientForgotten { client } => {
            out.push(19);
            put_pair(out, client.0);
        }
        Event::FileWritten { number, name, lease, offset, bytes, request } => {
            out.push(20);
            put_number(out, *number);
            put_text(out, name.text());
            put_lease(out, lease);
            put_number(out, *offset);
            put_option(out, *request, put_mark);
            put_number(out, bytes.len());
            out.extend_from_slice(&bytes.whole());
        }
        Event::FileDeleted { number, name, lease, request } => {
            out.push(21);
            put_number(out, *number);
            put_text(out, name.text());
            put_lease(out, lease);
            put_option(out, *request, put_mark);
        }
    }
}

/// Reads one event off the front.
pub fn decode_event(from: &mut Reader<'_>) -> Result<Event, CodecError> {
    Ok(match from.byte()? {
        1 => Event::Founded { key: HashKey(from.pair()?) },
        2 => Event::Granted {
            ticket: from.number()?,
            slot: from.number_u32()?,
            token: from.number()?,
            ask: get_ask(from)?,
        },
        3 => Event::Queued { ticket: from.number()?, wait: get_wait(from)?, ask: get_ask(from)? },
        4 => Event::Dequeued {
            ticket: from.number()?,
            resource: from.resource()?,
            owner: from.owner()?,
            mode: from.mode()?,
            why: match from.byte()? {
                0 => Departure::Timeout,
                1 => Departure::Cancelled,
                2 => Departure::Session,
                3 => Departure::Gone,
                tag => return Err(CodecError::UnknownTag("a departure", tag)),
            },
        },
        5 => Event::Updated {
            lease: get_lease(from)?,
            ttl: from.option(Reader::ttl)?,
            metadata: from.option(Reader::metadata)?,
        },
        6 => Event::Released {
            lease: get_lease(from)?,
            why: match from.byte()? {
                0 => Release::Holder,
                1 => Release::Cancelled,
                2 => Release::Closed,
                3 => Release::Gone,
                4 => Release::Broken,
                tag => return Err(CodecError::UnknownTag("a release", tag)),
            },
        },
        7 => Event::Expired { lease: get_lease(from)? },
        8 => Event::Broken {
            lease: get_lease(from)?,
            reason: Reason::parse(from.text()?).map_err(|_| CodecError::OutOfBounds("a reason"))?,
            force: from.flag()?,
        },
        9 => Event::SessionOpened {
            slot: from.number_u32()?,
            secret: from.secret()?,
            owner: from.owner()?,
            ttl: from.ttl()?,
            metadata: from.metadata()?,
            request: from.option(get_mark)?,
        },
        10 => Event::SessionEnded { slot: from.number_u32()?, owner: from.owner()?, how: get_ending(from)? },
        11 => Event::Seen { slot: from.number_u32()?, through: from.number()? },
        12 => Event::Cancelled { request: get_name(from)?, found: get_found(from)? },
        13 => Event::BreakAnswered {
            request: get_mark(from)?,
            tokens: get_numbers(from)?,
            free_in_ms: from.number()?,
        },
        14 => Event::Forgotten { requests_before: from.number()?, tombstones_before: from.number()? },
        15 => Event::Horizon { until_raw_us: from.number()?, length_us: from.number()? },
        16 => Event::GrantsHeld { for_ms: from.number()? },
        17 => Event::GrantsResumed,
        18 => Event::Marked {
            client: from.client_key()?,
            answered_through: from.number()?,
            open: get_numbers(from)?,
        },
        19 => Event::ClientForgotten { client: from.client_key()? },
        20 => Event::FileWritten {
            number: from.file_number()?,
            name: from.file_name()?,
            lease: get_lease(from)?,
            offset: from.number().and_then(|offset| below_number_end(offset, "an offset"))?,
            request: from.option(get_mark)?,
            bytes: {
                let count = from.count()?;
                FileBytes::new(from.bytes(count)?)
            },
        },
        21 => Event::FileDeleted {
            number: from.file_number()?,
            name: from.file_name()?,
            lease: get_lease(from)?,
            request: from.option(get_mark)?,
        },
        22 => Event::TokensRaised { to: from.number().and_then(|to| below_number_end(to, "a token"))? },
        tag => return Err(CodecError::UnknownTag("an event", tag)),
    })
}

pub(crate) fn put_ask(out: &mut Vec<u8>, ask: &Ask) {
    put_pair(out, ask.secret.0);
    put_text(out, ask.resource.text());
    put_text(out, ask.owner.text());
    put_mode(out, ask.mode);
    match ask.under {
        Under::Own(ttl) => {
            out.push(0);
            put_number(out, ttl.ms());
        }
        Under::Session(slot) => {
            out.push(1);
            put_number(out, u64::from(slot));
        }
    }
    put_option(out, ask.request, put_mark);
    put_metadata(out, &ask.metadata);
}

pub(crate) fn get_ask(from: &mut Reader<'_>) -> Result<Ask, CodecError> {
    Ok(Ask {
        secret: from.secret()?,
        resource: from.resource()?,
        owner: from.owner()?,
        mode: from.mode()?,
        under: match from.byte()? {
            0 => Under::Own(from.ttl()?),
            1 => Under::Session(from.number_u32()?),
            tag => return Err(CodecError::UnknownTag("a session", tag)),
        },
        request: from.option(get_mark)?,
        metadata: from.metadata()?,
    })
}

pub(crate) fn put_mark(out: &mut Vec<u8>, mark: RequestMark) {
    put_name(out, mark.name);
    put_payload(out, mark.payload);
}

pub(crate) fn get_mark(from: &mut Reader<'_>) -> Result<RequestMark, CodecError> {
    Ok(RequestMark { name: get_name(from)?, payload: from.payload()? })
}

fn put_name(out: &mut Vec<u8>, name: RequestName) {
    match name {
        RequestName::Chosen(key) => {
            out.push(0);
            put_pair(out, key.0);
        }
        RequestName::Numbered(client, number) => {
            out.push(1);
            put_pair(out, client.0);
            put_number(out, number);
        }
    }
}

fn get_name(from: &mut Reader<'_>) -> Result<RequestName, CodecError> {
    match from.byte()? {
        0 => Ok(RequestName::Chosen(from.request_key()?)),
        1 => Ok(RequestName::Numbered(from.client_key()?, from.number()?)),
        tag => Err(CodecError::UnknownTag("a request id", tag)),
    }
}

pub(crate) fn put_ending(out: &mut Vec<u8>, how: Ending) {
    out.push(match how {
        Ending::Expired => 0,
        Ending::Released => 1,
    });
}

pub(crate) fn get_ending(from: &mut Reader<'_>) -> Result<Ending, CodecError> {
    match from.byte()? {
        0 => Ok(Ending::Expired),
        1 => Ok(Ending::Released),
        tag => Err(CodecError::UnknownTag("an ending", tag)),
    }
}

pub(crate) fn put_found(out: &mut Vec<u8>, found: CancelFound) {
    out.push(match found {
        CancelFound::Waiting => 0,
        CancelFound::Released => 1,
        CancelFound::Unknown => 2,
    });
}

pub(crate) fn get_found(from: &mut Reader<'_>) -> Result<CancelFound, CodecError> {
    match from.byte()? {
        0 => Ok(CancelFound::Waiting),
        1 => Ok(CancelFound::Released),
        2 => Ok(CancelFound::Unknown),
        tag => Err(CodecError::UnknownTag("a cancel's finding", tag)),
    }
}

pub(crate) fn put_numbers(out: &mut Vec<u8>, numbers: &[u64]) {
    put_number(out, numbers.len() as u64);
    for number in numbers {
        put_number(out, *number);
    }
}

pub(crate) fn get_numbers(from: &mut Reader<'_>) -> Result<Vec<u64>, CodecError> {
    let count = from.count()?;
    (0..count).map(|_| from.number()).collect()
}

pub(crate) fn get_wait(from: &mut Reader<'_>) -> Result<Wait, CodecError> {
    Wait::from_ms(from.number()?).map_err(|_| CodecError::OutOfBounds("a wait"))
}

fn put_lease(out: &mut Vec<u8>, lease: &LeaseName) {
    put_number(out, u64::from(lease.slot));
    put_number(out, lease.token);
    put_text(out, lease.resource.text());
    put_text(out, lease.owner.text());
    put_mode(out, lease.mode);
}

fn get_lease(from: &mut Reader<'_>) -> Result<LeaseName, CodecError> {
    Ok(LeaseName {
        slot: from.number_u32()?,
        token: from.number()?,
        resource: from.resource()?,
        owner: from.owner()?,
        mode: from.mode()?,
    })
}

fn below_number_end(number: u64, what: &'static str) -> Result<u64, CodecError> {
    if number < NUMBER_END { Ok(number) } else { Err(CodecError::OutOfBounds(what)) }
}
