//! Refusals as they leave over gRPC: the same table as HTTP's, with the whole refusal as a typed detail. Decides nothing.

use bytes::Bytes;
use leasehold_protocol::v1;
use leasehold_state_machine::answer::{Held, Refusal};
use prost::Message;
use prost_types::Any;
use tonic::{Code, Status};

use super::shapes;
use crate::limits::STATUS_DETAIL_BYTES_MAX;
use crate::wire::problem::Denial;

/// Names the message in a status's details.
pub const ERROR_TYPE: &str = "type.googleapis.com/leasehold.v1.Error";

/// The status that ends a call. Its detail travels as a header, and headers are small: of those in the way only as many
/// are named as there is room for.
pub fn status(denial: &Denial) -> Status {
    let mut error = error(denial);
    fit(&mut error);
    // What HTTP says of a route, gRPC says of a method.
    let code = if *denial == Denial::NoRoute { Code::Unimplemented } else { denial.code().grpc() };
    let message = error.detail.clone();
    let detail = Any { type_url: ERROR_TYPE.into(), value: error.encode_to_vec() };
    let rich =
        tonic_types::Status { code: code as i32, message: message.clone(), details: Vec::from([detail]) };
    Status::with_details(code, message, Bytes::from(rich.encode_to_vec()))
}

/// The refusal as a message.
pub fn error(denial: &Denial) -> v1::Error {
    let (code, _, title) = denial.code().row();
    let mut error = v1::Error {
        code: code.into(),
        title: title.into(),
        detail: denial.detail().into_owned(),
        recommended_retry_ms: denial.retry_ms().unwrap_or(0),
        ..v1::Error::default()
    };
    match denial {
        Denial::Refusal(Refusal::Invalid(invalid)) => error.field = invalid.field.clone().into_owned(),
        Denial::Refusal(Refusal::Held(Held { holders, waiters, .. })) => {
            error.holders = holders.iter().map(shapes::holder).collect();
            error.waiters = waiters.iter().map(shapes::waiter).collect();
        }
        Denial::Refusal(Refusal::StaleToken { highest_token }) => {
            error.highest_token = highest_token.map(shapes::token);
        }
        _ => {}
    }
    error
}

/// Leaves out of the lists what does not fit in a header.
fn fit(error: &mut v1::Error) {
    let (holders, waiters) = (std::mem::take(&mut error.holders), std::mem::take(&mut error.waiters));
    let mut room = STATUS_DETAIL_BYTES_MAX.saturating_sub(error.encoded_len());
    let mut fits = |bytes: usize| {
        let left = room.checked_sub(bytes + FIELD_BYTES);
        room = left.unwrap_or(0);
        left.is_some()
    };
    for mut holder in holders {
        if holder.encoded_len() > STATUS_DETAIL_BYTES_MAX / 2 {
            holder.metadata.clear();
        }
        if !fits(holder.encoded_len()) {
            return;
        }
        error.holders.push(holder);
    }
    for waiter in waiters {
        if !fits(waiter.encoded_len()) {
            return;
        }
        error.waiters.push(waiter);
    }
}

/// Tag and length of one entry of a list.
const FIELD_BYTES: usize = 4;
