//! The messages of etcd's lock and lease services, as far as locking needs them. Numbers of fields are etcd's.

/// Said with every answer.
#[derive(Clone, PartialEq, prost::Message)]
pub struct ResponseHeader {
    /// Grows with every change of anything.
    #[prost(int64, tag = "3")]
    pub revision: i64,
}

/// Asks for a lease, on which locks will hang.
#[derive(Clone, PartialEq, prost::Message)]
pub struct LeaseGrantRequest {
    /// In seconds.
    #[prost(int64, tag = "1")]
    pub ttl: i64,
    /// 0 leaves the choice to the server.
    #[prost(int64, tag = "2")]
    pub id: i64,
}

/// A lease.
#[derive(Clone, PartialEq, prost::Message)]
pub struct LeaseGrantResponse {
    /// Its name.
    #[prost(int64, tag = "2")]
    pub id: i64,
    /// What the server settled for, in seconds.
    #[prost(int64, tag = "3")]
    pub ttl: i64,
    /// Empty if all is well.
    #[prost(string, tag = "4")]
    pub error: String,
}

/// Renews a lease, on a stream for all.
#[derive(Clone, PartialEq, prost::Message)]
pub struct LeaseKeepAliveRequest {
    /// Which.
    #[prost(int64, tag = "1")]
    pub id: i64,
}

/// A lease was renewed, or was not there.
#[derive(Clone, PartialEq, prost::Message)]
pub struct LeaseKeepAliveResponse {
    /// Which.
    #[prost(int64, tag = "2")]
    pub id: i64,
    /// In seconds; 0 if there is no such lease.
    #[prost(int64, tag = "3")]
    pub ttl: i64,
}

/// Asks for a lock; answered when it is held.
#[derive(Clone, PartialEq, prost::Message)]
pub struct LockRequest {
    /// The lock.
    #[prost(bytes = "vec", tag = "1")]
    pub name: Vec<u8>,
    /// The lease it hangs on.
    #[prost(int64, tag = "2")]
    pub lease: i64,
}

/// A lock is held.
#[derive(Clone, PartialEq, prost::Message)]
pub struct LockResponse {
    /// As with every answer.
    #[prost(message, optional, tag = "1")]
    pub header: Option<ResponseHeader>,
    /// Stands for the lock as long as it is held.
    #[prost(bytes = "vec", tag = "2")]
    pub key: Vec<u8>,
}

/// Gives a lock back.
#[derive(Clone, PartialEq, prost::Message)]
pub struct UnlockRequest {
    /// As it was given with the lock.
    #[prost(bytes = "vec", tag = "1")]
    pub key: Vec<u8>,
}

/// A lock was given back.
#[derive(Clone, PartialEq, prost::Message)]
pub struct UnlockResponse {}

#[cfg(test)]
mod tests {
    use prost::Message;

    use super::*;

    #[test]
    fn a_request_for_a_lock_has_etcds_bytes() {
        let request = LockRequest { name: b"ab".to_vec(), lease: 300 };
        assert_eq!(request.encode_to_vec(), [0x0a, 2, b'a', b'b', 0x10, 0xac, 0x02]);
    }

    #[test]
    fn an_answer_is_read_past_fields_that_nobody_asked_for() {
        let bytes = [0x0a, 6, 0x08, 1, 0x10, 2, 0x18, 9, 0x12, 1, b'k'];
        let response = LockResponse::decode(&bytes[..]).unwrap();
        assert_eq!(response.header.unwrap().revision, 9);
        assert_eq!(response.key, b"k");
    }
}
