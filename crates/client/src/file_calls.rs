//! Fenced files: files that the server keeps, written only under a lease. Each change is one call under one request id, so that
//! it happens once however often it is sent; reading is a stream. Takes no lock, and splits nothing: that is for whoever knows
//! what belongs together.

use std::fmt;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::BoxStream;
use leasehold_protocol::v1;

use crate::calls::{Trying, odd};
use crate::client::Client;
use crate::error::Error;
use crate::file_view::{FileRow, FileWrite, Written};
use crate::view::{Claim, Page, us};
use crate::wire::{Call, CallAnswer, Failed, Trouble};

/// How long the next bytes of a file may take to come.
const SILENCE_MAX: Duration = Duration::from_secs(30);

impl Client {
    /// Writes to a file under a lease. All of it or nothing is written, it is on disk before this returns, and it is written
    /// once. The lease is exclusive and covers what is written: the file's path `path:/reports/a.log`, a path above it, its
    /// inode, or a range of it.
    ///
    /// ```no_run
    /// use leasehold_client::{Client, Error, FileWrite, Lock, LockOptions, Ttl};
    ///
    /// async fn log(client: &Client, line: &str) -> Result<(), Error> {
    ///     let guard = Lock::new(client, "path:/reports/a.log").lock(Ttl::SHORT, LockOptions::default()).await?;
    ///     client.write_file(&guard.lease().claim()?, FileWrite::append("reports/a.log", line)).await?;
    ///     guard.unlock().await
    /// }
    /// ```
    pub async fn write_file(&self, claim: &Claim, mut write: FileWrite) -> Result<Written, Error> {
        let request_id = write.request_id.take().unwrap_or_else(|| self.random().id());
        match self.call(write.call(claim, request_id), &claim.lock, true).await? {
            CallAnswer::WriteFile(told) => Ok(Written::told(told)),
            other => Err(odd(&other)),
        }
    }

    /// Deletes a file, under a lease that covers all of it. The request id is as in [`FileWrite::request_id`].
    pub async fn delete_file(
        &self,
        claim: &Claim,
        name: &str,
        request_id: Option<String>,
    ) -> Result<(), Error> {
        let request = v1::DeleteFileRequest {
            name: name.to_owned(),
            lock: claim.lock.clone(),
            owner_id: claim.owner_id.clone(),
            lease_id: claim.lease_id.clone(),
            fencing_token: crate::calls::token(claim.fencing_token),
            request_id: Some(request_id.unwrap_or_else(|| self.random().id())),
        };
        match self.call(Call::DeleteFile(request), &claim.lock, true).await? {
            CallAnswer::DeleteFile(told) if told.deleted => Ok(()),
            other => Err(odd(&other)),
        }
    }

    /// What is known of a file.
    pub async fn stat_file(&self, name: &str) -> Result<FileRow, Error> {
        match self.call(Call::StatFile(v1::StatFileRequest { name: name.to_owned() }), "", false).await? {
            CallAnswer::StatFile(told) => FileRow::told(told),
            other => Err(odd(&other)),
        }
    }

    /// The files whose names begin so, in order of their names, a page at a time.
    pub async fn list_files(
        &self,
        prefix: &str,
        limit: Option<u32>,
        cursor: Option<String>,
    ) -> Result<Page<FileRow>, Error> {
        let request = v1::ListFilesRequest { prefix: prefix.to_owned(), limit: limit.unwrap_or(0), cursor };
        match self.call(Call::ListFiles(request), "", false).await? {
            CallAnswer::ListFiles(told) => Ok(Page {
                rows: told.files.into_iter().map(FileRow::told).collect::<Result<_, _>>()?,
                next_cursor: told.next_cursor,
            }),
            other => Err(odd(&other)),
        }
    }

    /// Reads a file from this byte on, up to its end or for so many bytes at most. They are durable, and a read of at most
    /// 1 MiB sees every write whole or not at all. Beginning is retried by the client's policy; a read that breaks later fails,
    /// and goes on from [`FileReader::position`] if the caller begins again there.
    ///
    /// The server of `testing` does not read.
    pub async fn read_file(&self, name: &str, offset: u64, length: Option<u64>) -> Result<FileReader, Error> {
        let policy = *self.policy();
        let request = v1::ReadFileRequest { name: name.to_owned(), offset, length };
        let mut trying = Trying::new(self, "", false);
        loop {
            let first = async {
                let mut told = self.wire().read_file(request.clone()).await?;
                match told.next().await {
                    Some(first) => Ok((first?, told)),
                    None => Err(Failed::Trouble(Trouble::Broken("the server told nothing".into()))),
                }
            };
            match trying.within(policy.attempt_timeout, first).await {
                Ok((first, told)) => return FileReader::begin(self.clone(), first, told, offset, length),
                Err(failed) => trying.pause_after(failed).await?,
            }
        }
    }
}

/// The bytes of a file, piece by piece.
pub struct FileReader {
    client: Client,
    file: FileRow,
    first: Option<Vec<u8>>,
    told: BoxStream<'static, Result<v1::ReadFileResponse, Failed>>,
    position: u64,
    /// Where the read ends, if the server says all that it has promised.
    end: u64,
}

impl FileReader {
    fn begin(
        client: Client,
        first: v1::ReadFileResponse,
        told: BoxStream<'static, Result<v1::ReadFileResponse, Failed>>,
        position: u64,
        length: Option<u64>,
    ) -> Result<FileReader, Error> {
        let Some(file) = first.file else {
            return Err(Error::Unexpected { detail: "bytes of a file, and not of which".into() });
        };
        let file = FileRow::told(file)?;
        let end = position.saturating_add(length.unwrap_or(u64::MAX)).min(file.size);
        Ok(FileReader { client, file, first: Some(first.data), told, position, end })
    }

    /// The file as it was when the read began.
    pub fn file(&self) -> &FileRow {
        &self.file
    }

    /// The byte that comes next.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// The next bytes; none when all were read. Once it has failed it gives no more bytes.
    pub async fn next(&mut self) -> Result<Option<Vec<u8>>, Error> {
        loop {
            let piece = match self.first.take() {
                Some(piece) => piece,
                None => match self.told().await {
                    Some(Ok(told)) => told.data,
                    Some(Err(failed)) => return Err(self.failed(failed)),
                    None if self.position < self.end => {
                        let detail = "the server ended the file before its end";
                        return Err(self.failed(Failed::Trouble(Trouble::Broken(detail.into()))));
                    }
                    None => return Ok(None),
                },
            };
            if !piece.is_empty() {
                self.position += piece.len() as u64;
                return Ok(Some(piece));
            }
        }
    }

    async fn told(&mut self) -> Option<Result<v1::ReadFileResponse, Failed>> {
        let clock = self.client.clock();
        let late = clock.sleep_until(clock.now_us().saturating_add(us(SILENCE_MAX)));
        tokio::select! {
            told = self.told.next() => told,
            () = late => {
                let detail = format!("no more of the file within {} s", SILENCE_MAX.as_secs());
                Some(Err(Failed::Trouble(Trouble::Silence(detail))))
            }
        }
    }

    fn failed(&mut self, failed: Failed) -> Error {
        self.told = futures_util::stream::empty().boxed();
        Trying::new(&self.client, "", false).failed(failed).map_or_else(|error| error, |(_, error)| error)
    }
}

impl fmt::Debug for FileReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FileReader")
            .field("file", &self.file)
            .field("position", &self.position)
            .finish_non_exhaustive()
    }
}
