//! Requests about files at both doors. Over HTTP a lease is shown in headers and a file is described by them; here both are
//! told in the words that all doors share.

use leasehold_protocol::v1;
use serde_json::{Value, json};
use tonic::Status;

use super::asked::{Asked, Call};
use super::doors::{Fields, problem_or_answer};
use super::plain;
use crate::caller::Caller;
use crate::client::Answer;
use crate::server::{Server, escaped};

/// The words of HTTP for what a message has fields for.
const HEADERS: [(&str, &str); 5] = [
    ("lock", "Leasehold-Lock"),
    ("owner_id", "Leasehold-Owner"),
    ("lease_id", "Leasehold-Lease"),
    ("fencing_token", "Leasehold-Token"),
    ("request_id", "Idempotency-Key"),
];

pub fn over_http(server: &Server, asked: &Asked) -> Value {
    let fields = asked.fields.as_object().unwrap();
    let text = |name: &str| {
        let value = &asked.fields[name];
        value.as_str().map_or_else(|| value.to_string(), str::to_owned)
    };
    let present: Vec<_> = HEADERS.into_iter().filter(|(field, _)| fields.contains_key(*field)).collect();
    let values: Vec<String> = present
        .iter()
        .map(|(field, _)| match *field {
            "lock" | "owner_id" => escaped(&text(field)),
            _ => text(field),
        })
        .collect();
    let headers: Vec<_> =
        present.iter().zip(&values).map(|((_, header), value)| (*header, value.as_str())).collect();
    let query = |names: &[&str]| {
        let given = names.iter().filter(|name| fields.contains_key(**name));
        given.map(|name| format!("{name}={}", escaped(&text(name)))).collect::<Vec<_>>().join("&")
    };
    let name = fields.get("name").map(|name| escaped(name.as_str().unwrap())).unwrap_or_default();
    let data = asked.fields["data"].as_str().unwrap_or_default().as_bytes();
    let file = format!("/v1/files/{name}");
    let answer = match asked.call {
        Call::AppendFile => server.request("POST", &format!("{file}/append"), &headers, data),
        Call::WriteFile => server.request("PUT", &format!("{file}?{}", query(&["offset"])), &headers, data),
        Call::DeleteFile => server.request("DELETE", &file, &headers, b""),
        Call::StatFile => return stat(server, &file),
        Call::ListFiles => server.get(&format!("/v1/files?{}", query(&["prefix", "limit", "cursor"]))),
        Call::ReadFile => server.get(&file),
        other => panic!("{other:?} is not about files"),
    };
    if answer.status == 200 && asked.call == Call::ReadFile {
        return described(&answer, Some(answer.text()));
    }
    in_shared_words(problem_or_answer(&answer))
}

/// HEAD does not say why it is refused; GET says the same, and does.
fn stat(server: &Server, file: &str) -> Value {
    let answer = server.request("HEAD", file, &[], b"");
    if answer.status == 200 {
        return described(&answer, None);
    }
    let refused = server.get(file);
    assert_eq!(refused.status, answer.status);
    problem_or_answer(&refused)
}

fn described(answer: &Answer, data: Option<String>) -> Value {
    let number = |header: &str| answer.header(header).unwrap().parse::<u64>().unwrap();
    let mut told = json!({
        "size": number("content-length"),
        "inode": number("leasehold-inode"),
        "fencing_token": number("leasehold-token"),
    });
    if let Some(data) = data {
        told["data"] = data.into();
    }
    told
}

/// A refusal that names a header names the field that it is.
fn in_shared_words(mut told: Value) -> Value {
    let field = told["field"].as_str().map(str::to_owned);
    if let Some((field, header)) = HEADERS.into_iter().find(|(_, header)| Some(*header) == field.as_deref()) {
        told["field"] = field.into();
        let detail = told["detail"].as_str().unwrap().replace(&format!("`{header}`"), &format!("`{field}`"));
        told["detail"] = detail.into();
    }
    told
}

pub fn over_grpc(caller: &Caller, call: Call, f: &Fields<'_>) -> Result<Value, Status> {
    let mut files = caller.files();
    let (name, lock, owner_id, lease_id) =
        (f.text("name"), f.text("lock"), f.text("owner_id"), f.text("lease_id"));
    let (request_id, data) = (f.some_text("request_id"), f.text("data").into_bytes());
    let wrote = |told: v1::WriteFileResponse| json!({"offset": told.offset, "length": told.length, "size": told.size});
    match call {
        Call::AppendFile => {
            let fencing_token = f.token();
            let request =
                v1::AppendFileRequest { name, lock, owner_id, lease_id, fencing_token, request_id, data };
            caller.call(files.append(request)).map(wrote)
        }
        Call::WriteFile => {
            let (fencing_token, offset) = (f.token(), f.number("offset"));
            let request = v1::WriteFileRequest {
                name,
                lock,
                owner_id,
                lease_id,
                fencing_token,
                request_id,
                data,
                offset,
            };
            caller.call(files.write(request)).map(wrote)
        }
        Call::DeleteFile => {
            let fencing_token = f.token();
            let request = v1::DeleteFileRequest { name, lock, owner_id, lease_id, fencing_token, request_id };
            caller.call(files.delete(request)).map(|told| json!({"deleted": told.deleted}))
        }
        Call::StatFile => {
            caller.call(files.stat(v1::StatFileRequest { name })).map(|file| briefly(&file, None))
        }
        Call::ListFiles => {
            let request = v1::ListFilesRequest {
                prefix: f.text("prefix"),
                limit: u32::try_from(f.number("limit").unwrap_or(0)).unwrap(),
                cursor: f.some_text("cursor"),
            };
            caller.call(files.list(request)).map(|told| plain::files(told.files, told.next_cursor))
        }
        Call::ReadFile => caller.wait(async {
            let request = v1::ReadFileRequest { name, offset: 0, length: None };
            let mut told = files.read(request).await?.into_inner();
            let first = told.message().await?.unwrap();
            let mut data = first.data;
            while let Some(more) = told.message().await? {
                data.extend(more.data);
            }
            Ok(briefly(&first.file.unwrap(), Some(String::from_utf8(data).unwrap())))
        }),
        other => panic!("{other:?} is not about files"),
    }
}

/// As much as the headers of HTTP tell.
fn briefly(file: &v1::File, data: Option<String>) -> Value {
    let mut told = json!({"size": file.size, "inode": file.inode, "fencing_token": file.fencing_token});
    if let Some(data) = data {
        told["data"] = data.into();
    }
    told
}
