//! Files over gRPC: messages as commands, answers as messages, and the bytes of a file as a stream. Asks by the same forms
//! as HTTP, and reads from the same place.

use futures_util::stream;
use leasehold_protocol::v1;
use leasehold_state_machine::answer::{Answer, FileView, Written};
use leasehold_state_machine::command::Command;
use leasehold_state_machine::file::{FileName, Offset};
use leasehold_state_machine::invalid::Invalid;

use super::frame::{self, GrpcReply};
use super::refused;
use super::requests::{chosen, proof, rows};
use super::shapes::{moment, only, token};
use crate::files::Slice;
use crate::http::door::Door;
use crate::wire::file_forms::{self, Change, ChangeForm};
use crate::wire::problem::Denial;

/// An append.
pub fn append(asked: v1::AppendFileRequest) -> Result<Command, Invalid> {
    let proof = proof(&asked.lock, &asked.owner_id, asked.lease_id.as_bytes(), asked.fencing_token)?;
    let form = ChangeForm { name: &asked.name, proof, request_id: chosen(asked.request_id.as_deref())? };
    Ok(form.judge()?.write(Offset::End, &asked.data))
}

/// A write at an offset.
pub fn write(asked: v1::WriteFileRequest) -> Result<Command, Invalid> {
    let Some(offset) = asked.offset else {
        return Err(Invalid::new("offset", "say where the bytes go: 0 is the beginning"));
    };
    let proof = proof(&asked.lock, &asked.owner_id, asked.lease_id.as_bytes(), asked.fencing_token)?;
    let form = ChangeForm { name: &asked.name, proof, request_id: chosen(asked.request_id.as_deref())? };
    Ok(form.judge()?.write(Offset::At(offset), &asked.data))
}

/// A deletion.
pub fn delete(asked: v1::DeleteFileRequest) -> Result<Command, Invalid> {
    let proof = proof(&asked.lock, &asked.owner_id, asked.lease_id.as_bytes(), asked.fencing_token)?;
    let form = ChangeForm { name: &asked.name, proof, request_id: chosen(asked.request_id.as_deref())? };
    form.judge().map(Change::delete)
}

/// A look at one file.
pub fn stat(asked: v1::StatFileRequest) -> Result<Command, Invalid> {
    file_forms::stat_file(&asked.name)
}

/// A look at many files.
pub fn list(asked: v1::ListFilesRequest) -> Result<Command, Invalid> {
    file_forms::list_files(&asked.prefix, rows(asked.limit), asked.cursor.as_deref())
}

/// The answer to an append or a write.
pub fn wrote(answer: Answer) -> v1::WriteFileResponse {
    only!(answer, Answer::Wrote(Written { offset, length, size }) => v1::WriteFileResponse { offset, length, size })
}

/// The answer to a deletion.
pub fn deleted(answer: Answer) -> v1::DeleteFileResponse {
    only!(answer, Answer::Deleted => v1::DeleteFileResponse { deleted: true })
}

/// The answer to a look at one file.
pub fn file(answer: Answer) -> v1::File {
    only!(answer, Answer::File(view) => file_of(&view))
}

/// The answer to a look at many files.
pub fn files(answer: Answer) -> v1::ListFilesResponse {
    only!(answer, Answer::Files { files, next_cursor } => v1::ListFilesResponse {
        files: files.iter().map(file_of).collect(),
        next_cursor,
    })
}

/// Reads a file, or a part of it.
pub async fn read(door: &Door, asked: v1::ReadFileRequest) -> Result<GrpcReply, Denial> {
    let part = |size: u64| {
        if asked.offset > size {
            return Err(Invalid::new("offset", "a read begins within the file or at its end").into());
        }
        Ok((asked.offset, asked.offset.saturating_add(asked.length.unwrap_or(u64::MAX)).min(size)))
    };
    let reading = door.read(FileName::parse(&asked.name), part).await?;
    let file = Some(file_of(reading.file()));
    Ok(frame::many_encoded(stream::unfold((reading, file), |(mut reading, file)| async {
        let (data, share) = match reading.next().await {
            Some(Ok(Slice { bytes, share })) => (bytes, Some(share)),
            Some(Err(refusal)) => return Some((Err(refused::status(&refusal.into())), (reading, None))),
            // The first message tells of the file, also of an empty one.
            None if file.is_some() => (Vec::new(), None),
            None => return None,
        };
        let message = frame::encoded(&v1::ReadFileResponse { file, data });
        let message = match share {
            Some(share) => share.hold(message),
            None => message,
        };
        Some((Ok(message), (reading, None)))
    })))
}

fn file_of(view: &FileView) -> v1::File {
    v1::File {
        name: view.name.text().into(),
        size: view.size,
        inode: number(view.number),
        fencing_token: token(view.token),
        created_at: Some(moment(view.created_wall_ms)),
        written_at: Some(moment(view.written_wall_ms)),
        version: view.version,
    }
}

/// A file's number, which is below 2^53.
fn number(number: u64) -> i64 {
    let number = i64::try_from(number);
    assert!(number.is_ok(), "the numbers of files stay below 2^53");
    number.unwrap_or_default()
}
