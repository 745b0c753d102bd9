//! What is asked. A request carries everything its decision may need, the random bits included.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;

use crate::file::{FileBytes, FileName, Offset};
use crate::ids::{LeaseId, Secret, SessionId};
use crate::resource::Resource;
use crate::words::{ClientId, Metadata, Mode, Owner, Reason, RequestId, Ttl, Wait};

/// Who hears the answer: one attempt of one call on one connection. Never used twice in a process's life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Attachment(pub u64);

/// One thing that is asked, with what was read and drawn for it on arrival.
#[derive(Clone, Debug)]
pub struct Request {
    /// Who hears the answer.
    pub attachment: Attachment,
    /// The raw boot time at which this attempt arrived.
    pub arrived_raw_us: u64,
    /// Random bits for the id of whatever this makes.
    pub secret: Secret,
    /// What is asked.
    pub command: Command,
}

/// What can be asked. It passes through many hands, so what is large and rare is boxed.
#[derive(Clone, Debug)]
pub enum Command {
    /// Grant me this resource, or a place in line.
    Acquire(Acquire),
    /// Keep my lease alive.
    Renew(Renew),
    /// I am done.
    Release(Proof),
    /// Take this request back.
    Cancel {
        /// The lock it was for.
        resource: Resource,
        /// Whose request it was.
        owner: Owner,
        /// Which one.
        request_id: RequestId,
    },
    /// Is a live lease with this token covering the resource?
    Verify {
        /// What is to be covered.
        resource: Resource,
        /// The token.
        token: u64,
    },
    /// Who holds and who waits for this?
    Get {
        /// The resource.
        resource: Resource,
    },
    /// Which locks are held or waited for?
    List(List),
    /// Take this resource from its holders.
    Break(Box<Break>),
    /// Open a session.
    OpenSession {
        /// Whose it is.
        owner: Owner,
        /// How long it lives without a heartbeat.
        ttl: Ttl,
        /// The caller's request id.
        request_id: Option<RequestId>,
        /// What its owner says of it.
        metadata: Metadata,
    },
    /// Keep my session alive, and tell me which of its leases ended.
    KeepAlive {
        /// Which session.
        session: SessionId,
        /// The highest `seq` of `ended[]` that the caller has taken in.
        seen: Option<u64>,
    },
    /// I am done with this session and everything under it.
    CloseSession {
        /// Which session.
        session: SessionId,
    },
    /// Which sessions live?
    ListSessions {
        /// Rows at most.
        limit: usize,
        /// Where the page before ended.
        cursor: Option<String>,
    },
    /// Write to a file, which is made if there is none of that name.
    WriteFile(Box<WriteFile>),
    /// Delete a file.
    DeleteFile {
        /// Which one.
        name: FileName,
        /// The lease it is done under.
        proof: Proof,
        /// The caller's request id.
        request_id: Option<RequestId>,
    },
    /// What is known of this file?
    StatFile {
        /// Which one.
        name: FileName,
    },
    /// Which files are there?
    ListFiles {
        /// Only files whose names begin with this.
        prefix: String,
        /// Rows at most.
        limit: usize,
        /// Where the page before ended.
        cursor: Option<String>,
    },
    /// Take this operation of a stream back.
    CancelNumber {
        /// Whose it was.
        client: ClientId,
        /// Its number.
        number: u64,
    },
    /// A stream's client has the answers of these numbers; the server may forget them. Has no answer.
    Mark {
        /// Whose numbers they are.
        client: ClientId,
        /// Every number up to this one has been answered...
        answered_through: u64,
        /// ...but for these.
        open: Vec<u64>,
    },
    /// The connection of an attempt has closed. Has no answer.
    Detach {
        /// The attempt.
        gone: Attachment,
    },
    /// A grant could not be delivered because its connection had closed. Has no answer.
    Abandon {
        /// The lease that was granted.
        lease: LeaseId,
    },
}

/// An acquire as its caller wrote it.
#[derive(Clone, Debug)]
pub struct Acquire {
    /// What is wanted.
    pub resource: Resource,
    /// Who wants it.
    pub owner: Owner,
    /// For how long; a lease under a session lives by the session's.
    pub ttl: Option<Ttl>,
    /// In which mode.
    pub mode: Mode,
    /// How long to stand in line; zero is a single attempt.
    pub wait: Wait,
    /// The session to live by.
    pub session: Option<SessionId>,
    /// The caller's request id.
    pub request_id: Option<RequestId>,
    /// What the caller says of itself.
    pub metadata: Metadata,
}

/// What a holder shows to act on its lease: all four must belong together.
#[derive(Clone, Debug)]
pub struct Proof {
    /// What is held.
    pub resource: Resource,
    /// Who holds it.
    pub owner: Owner,
    /// The secret id.
    pub lease: LeaseId,
    /// The fencing token.
    pub token: u64,
}

/// A renewal.
#[derive(Clone, Debug)]
pub struct Renew {
    /// Which lease, and the proof that it is the caller's.
    pub proof: Proof,
    /// A new TTL, for a lease with a session of its own.
    pub ttl: Option<Ttl>,
    /// New metadata.
    pub metadata: Option<Metadata>,
}

/// A break.
#[derive(Clone, Debug)]
pub struct Break {
    /// Leases on exactly this resource.
    pub resource: Resource,
    /// The operator's words.
    pub reason: Reason,
    /// Grant on at once instead of at the deadline.
    pub force: bool,
    /// Only the lease with this token.
    pub token: Option<u64>,
    /// The caller's request id.
    pub request_id: Option<RequestId>,
    /// What earlier slices of this same break have done; nothing on arrival.
    pub broken: BrokenSoFar,
}

/// How far a break has come that takes more than one slice.
#[derive(Clone, Debug, Default)]
pub struct BrokenSoFar {
    /// The newest token there was when it began: who is granted meanwhile is not meant.
    pub through: Option<u64>,
    /// The tokens broken, oldest first.
    pub tokens: Vec<u64>,
}

/// A page of locks.
#[derive(Clone, Debug, Default)]
pub struct List {
    /// Only locks whose canonical text begins with this.
    pub prefix: String,
    /// Only locks that this owner holds or waits for.
    pub owner: Option<Owner>,
    /// Rows at most.
    pub limit: usize,
    /// Where the page before ended.
    pub cursor: Option<String>,
}

/// A write to a file.
#[derive(Clone, Debug)]
pub struct WriteFile {
    /// Which file.
    pub name: FileName,
    /// Where the bytes go.
    pub offset: Offset,
    /// The bytes.
    pub bytes: FileBytes,
    /// The lease it is done under.
    pub proof: Proof,
    /// The caller's request id.
    pub request_id: Option<RequestId>,
    /// A fingerprint of the bytes, if there is an id to keep it under.
    digest: Option<[u64; 2]>,
}

impl WriteFile {
    /// A write. Looks at every byte if there is a request id: call it where that is nobody else's time.
    pub fn new(
        name: FileName,
        offset: Offset,
        bytes: FileBytes,
        proof: Proof,
        request_id: Option<RequestId>,
    ) -> WriteFile {
        let digest = request_id.is_some().then(|| bytes.digest());
        WriteFile { name, offset, bytes, proof, request_id, digest }
    }

    /// A fingerprint of the bytes.
    pub(crate) fn digest(&self) -> [u64; 2] {
        self.digest.unwrap_or_else(|| self.bytes.digest())
    }
}
