//! Which call a path means, and its way through the door: gate, intake, form, engine, answer, in this order.

use std::sync::Arc;
use std::time::Duration;

use hyper::body::Incoming;
use hyper::header::CONTENT_TYPE;
use hyper::{Method, Request, Version};
use leasehold_state_machine::answer::Answer;
use leasehold_state_machine::command::Command;
use leasehold_state_machine::invalid::Invalid;
use leasehold_state_machine::limits::WRITE_BYTES_MAX;
use prost::Message;

use super::frame::{self, GrpcReply};
use super::{files, health, keep_alive, operations, reflection, refused, requests, shapes, watch};
use crate::http::door::Door;
use crate::limits::WRITE_MESSAGE_EXTRA_BYTES;
use crate::wire::commands::Call;
use crate::wire::problem::Denial;

/// The longest message of a write to a file.
const WRITE_MESSAGE_BYTES_MAX: usize = WRITE_BYTES_MAX as usize + WRITE_MESSAGE_EXTRA_BYTES;

/// Whether a request is for this door.
pub fn is_grpc(request: &Request<Incoming>) -> bool {
    let media_type = request.headers().get(CONTENT_TYPE).map(|value| value.as_bytes());
    request.version() == Version::HTTP_2
        && matches!(media_type, Some(b"application/grpc" | b"application/grpc+proto"))
}

/// Answers one call. Dropped when the client takes it back or closes its connection.
pub async fn answer(door: &Arc<Door>, request: Request<Incoming>, within: Duration) -> GrpcReply {
    match carry_out(door, request, within).await {
        Ok(reply) => reply,
        Err(denial) => refused::status(&denial).into_http(),
    }
}

async fn carry_out(
    door: &Arc<Door>,
    request: Request<Incoming>,
    within: Duration,
) -> Result<GrpcReply, Denial> {
    let (head, body) = request.into_parts();
    door.admit(&head)?;
    if head.method != Method::POST {
        return Err(Denial::WrongMethod { allow: "POST".into() });
    }
    let unary = Unary { door, body, within };
    match head.uri.path() {
        "/leasehold.v1.Locks/Acquire" => unary.call(Call::Acquire, requests::acquire, shapes::lease).await,
        "/leasehold.v1.Locks/Renew" => unary.call(Call::Renew, requests::renew, shapes::lease).await,
        "/leasehold.v1.Locks/Release" => unary.call(Call::Release, requests::release, shapes::released).await,
        "/leasehold.v1.Locks/Cancel" => unary.call(Call::Cancel, requests::cancel, shapes::cancelled).await,
        "/leasehold.v1.Locks/Verify" => unary.call(Call::Verify, requests::verify, shapes::verified).await,
        "/leasehold.v1.Locks/Get" => unary.call(Call::Get, requests::get, shapes::snapshot).await,
        "/leasehold.v1.Locks/List" => unary.call(Call::List, requests::list, shapes::locks).await,
        "/leasehold.v1.Locks/Break" => unary.call(Call::Break, requests::break_lock, shapes::broke).await,
        "/leasehold.v1.Locks/Watch" => watch::answer(door, unary.message().await?).await,
        "/leasehold.v1.Sessions/Open" => {
            unary.call(Call::OpenSession, requests::open_session, shapes::session).await
        }
        "/leasehold.v1.Sessions/KeepAlive" => Ok(keep_alive::answer(door, unary.body, within)),
        "/leasehold.v1.Sessions/Close" => {
            unary.call(Call::CloseSession, requests::close_session, shapes::closed).await
        }
        "/leasehold.v1.Sessions/List" => {
            unary.call(Call::ListSessions, requests::list_sessions, shapes::sessions).await
        }
        "/leasehold.v1.Files/Append" => unary.write(Call::AppendFile, files::append).await,
        "/leasehold.v1.Files/Write" => unary.write(Call::WriteFile, files::write).await,
        "/leasehold.v1.Files/Delete" => unary.call(Call::DeleteFile, files::delete, files::deleted).await,
        "/leasehold.v1.Files/Stat" => unary.call(Call::StatFile, files::stat, files::file).await,
        "/leasehold.v1.Files/List" => unary.call(Call::ListFiles, files::list, files::files).await,
        "/leasehold.v1.Files/Read" => files::read(door, unary.message().await?).await,
        "/leasehold.v1.Operations/Stream" => operations::answer(door, unary.body, within),
        "/grpc.health.v1.Health/Check" => Ok(health::check(door, unary.message().await?)),
        "/grpc.health.v1.Health/Watch" => Ok(health::watch(door, unary.message().await?)),
        "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo" => {
            Ok(reflection::answer(Request::from_parts(head, unary.body)).await)
        }
        _ => Err(Denial::NoRoute),
    }
}

/// A call with one message each way.
struct Unary<'d> {
    door: &'d Door,
    body: Incoming,
    within: Duration,
}

impl Unary<'_> {
    async fn call<Asked: Message + Default, Told: Message>(
        self,
        call: Call,
        command: fn(Asked) -> Result<Command, Invalid>,
        answer: fn(Answer) -> Told,
    ) -> Result<GrpcReply, Denial> {
        let door = self.door;
        let asked = self.message().await?;
        let outcome = door.call(call, command(asked)).await;
        Ok(frame::one(&answer(outcome?)))
    }

    /// A write to a file, whose message is longer than others.
    async fn write<Asked: Message + Default>(
        self,
        call: Call,
        command: fn(Asked) -> Result<Command, Invalid>,
    ) -> Result<GrpcReply, Denial> {
        let body = self.door.take_write(self.body, WRITE_MESSAGE_BYTES_MAX, self.within).await?;
        let asked = frame::only_message(body)?;
        let outcome = self.door.call(call, command(asked)).await;
        Ok(frame::one(&files::wrote(outcome?)))
    }

    async fn message<Asked: Message + Default>(self) -> Result<Asked, Denial> {
        frame::only_message(self.door.take(self.body, self.within).await?)
    }
}
