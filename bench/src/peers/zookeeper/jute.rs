//! ZooKeeper's wire format, as far as its lock recipe needs it: frames with a length before them, numbers big end first,
//! text and bytes with their length. Knows nothing of sockets and of locks.

use bytes::{Buf, BufMut, Bytes, BytesMut};

/// The number that stands in for a request's own in a notification of a watch.
pub const XID_NOTIFICATION: i32 = -1;
/// The number that every ping has.
pub const XID_PING: i32 = -2;
/// The node that was named does not exist.
pub const NO_NODE: i32 = -101;
/// The node that should be created exists.
pub const NODE_EXISTS: i32 = -110;

/// What is asked of the server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Request {
    /// Creates a node without data that everybody may do anything with.
    Create { path: String, lives: Lives },
    /// Deletes a node, whatever its version.
    Delete { path: String },
    /// Reads a node and leaves a watch on it, which is not left where the node does not exist.
    GetDataAndWatch { path: String },
    /// The names of a node's children.
    GetChildren { path: String },
    /// Says that the session lives.
    Ping,
    /// Ends the session, and its ephemeral nodes with it.
    Close,
}

/// How long a created node lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lives {
    /// Until it is deleted.
    ForEver,
    /// As long as the session, under its parent's next number.
    WithSessionNumbered,
}

impl Request {
    fn kind(&self) -> i32 {
        match self {
            Request::Create { .. } => 1,
            Request::Delete { .. } => 2,
            Request::GetDataAndWatch { .. } => 4,
            Request::GetChildren { .. } => 8,
            Request::Ping => 11,
            Request::Close => -11,
        }
    }

    /// The request as a frame under this number.
    pub fn frame(&self, xid: i32) -> Bytes {
        frame(|out| {
            out.put_i32(xid);
            out.put_i32(self.kind());
            match self {
                Request::Create { path, lives } => {
                    put_text(out, path);
                    out.put_i32(0);
                    out.put_i32(1);
                    out.put_i32(0x1f);
                    put_text(out, "world");
                    put_text(out, "anyone");
                    out.put_i32(match lives {
                        Lives::ForEver => 0,
                        Lives::WithSessionNumbered => 3,
                    });
                }
                Request::Delete { path } => {
                    put_text(out, path);
                    out.put_i32(-1);
                }
                Request::GetDataAndWatch { path } => {
                    put_text(out, path);
                    out.put_u8(1);
                }
                Request::GetChildren { path } => {
                    put_text(out, path);
                    out.put_u8(0);
                }
                Request::Ping | Request::Close => {}
            }
        })
    }
}

/// The first frame of a connection: asks for a new session.
pub fn connect_frame(timeout_ms: i32) -> Bytes {
    frame(|out| {
        out.put_i32(0);
        out.put_i64(0);
        out.put_i32(timeout_ms);
        out.put_i64(0);
        out.put_i32(16);
        out.put_bytes(0, 16);
        out.put_u8(0);
    })
}

/// What the server answered to [`connect_frame`].
#[derive(Debug, PartialEq, Eq)]
pub struct Connected {
    /// The timeout that it settled for; 0 says that there is no session.
    pub timeout_ms: i32,
}

impl Connected {
    /// Reads the frame without its length.
    pub fn read(mut frame: Bytes) -> Result<Connected, String> {
        let _version = take_i32(&mut frame)?;
        Ok(Connected { timeout_ms: take_i32(&mut frame)? })
    }
}

/// A frame of the server after the first.
#[derive(Debug, PartialEq, Eq)]
pub enum Incoming {
    /// A watch fired on this path.
    Notification { path: String },
    /// A ping was answered.
    Pong,
    /// A request was answered, with an error code (0 for none) and what only this kind of request understands.
    Reply { xid: i32, error: i32, body: Bytes },
}

impl Incoming {
    /// Reads a frame without its length.
    pub fn read(mut frame: Bytes) -> Result<Incoming, String> {
        let xid = take_i32(&mut frame)?;
        let _zxid = take_i64(&mut frame)?;
        let error = take_i32(&mut frame)?;
        match xid {
            XID_PING => Ok(Incoming::Pong),
            XID_NOTIFICATION => {
                let _kind = take_i32(&mut frame)?;
                let _state = take_i32(&mut frame)?;
                Ok(Incoming::Notification { path: take_text(&mut frame)? })
            }
            _ => Ok(Incoming::Reply { xid, error, body: frame }),
        }
    }
}

/// Cuts the first whole frame off what was read, without its length.
pub fn cut_frame(read: &mut BytesMut) -> Result<Option<Bytes>, String> {
    let Some(length) = read.first_chunk::<4>().map(|length| i32::from_be_bytes(*length)) else {
        return Ok(None);
    };
    let length = usize::try_from(length).map_err(|_| format!("a frame of {length} bytes"))?;
    if read.len() < 4 + length {
        return Ok(None);
    }
    read.advance(4);
    Ok(Some(read.split_to(length).freeze()))
}

/// Reads the path that a creation answers with.
pub fn take_text(from: &mut Bytes) -> Result<String, String> {
    let length = take_i32(from)?;
    let length = usize::try_from(length).map_err(|_| format!("a text of {length} bytes"))?;
    if from.len() < length {
        return Err("a text ends before its end".into());
    }
    String::from_utf8(from.split_to(length).to_vec()).map_err(|_| "a text that is not UTF-8".into())
}

/// Reads the names that a question for children is answered with.
pub fn take_texts(from: &mut Bytes) -> Result<Vec<String>, String> {
    (0..take_i32(from)?).map(|_| take_text(from)).collect()
}

fn frame(fill: impl FnOnce(&mut BytesMut)) -> Bytes {
    let mut out = BytesMut::with_capacity(128);
    out.put_i32(0);
    fill(&mut out);
    let length = (out.len() - 4) as i32;
    out[..4].copy_from_slice(&length.to_be_bytes());
    out.freeze()
}

fn put_text(out: &mut BytesMut, text: &str) {
    out.put_i32(text.len() as i32);
    out.put_slice(text.as_bytes());
}

fn take_i32(from: &mut Bytes) -> Result<i32, String> {
    from.try_get_i32().map_err(|_| "a frame that is too short".into())
}

fn take_i64(from: &mut Bytes) -> Result<i64, String> {
    from.try_get_i64().map_err(|_| "a frame that is too short".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_framed_with_its_length_number_and_kind() {
        let frame = Request::Delete { path: "/a".into() }.frame(7);
        assert_eq!(
            frame[..],
            [0, 0, 0, 18, 0, 0, 0, 7, 0, 0, 0, 2, 0, 0, 0, 2, b'/', b'a', 255, 255, 255, 255]
        );
        assert_eq!(Request::Ping.frame(XID_PING)[..], [0, 0, 0, 8, 255, 255, 255, 254, 0, 0, 0, 11]);
    }

    #[test]
    fn a_numbered_node_is_created_open_to_all_and_ends_with_its_session() {
        let frame = Request::Create { path: "/l/".into(), lives: Lives::WithSessionNumbered }.frame(1);
        let mut rest = frame.slice(12..);
        assert_eq!(take_text(&mut rest), Ok("/l/".into()));
        assert_eq!(take_i32(&mut rest), Ok(0), "no data");
        assert_eq!((take_i32(&mut rest), take_i32(&mut rest)), (Ok(1), Ok(31)), "one rule, all rights");
        assert_eq!(take_text(&mut rest), Ok("world".into()));
        assert_eq!(take_text(&mut rest), Ok("anyone".into()));
        assert_eq!(rest[..], [0, 0, 0, 3]);
    }

    #[test]
    fn the_first_frame_has_the_length_that_servers_expect() {
        assert_eq!(connect_frame(30_000).len(), 4 + 45);
    }

    #[test]
    fn frames_are_cut_where_they_end_and_not_before() {
        let mut read = BytesMut::from(&[0, 0, 0, 2, 9, 8, 0, 0, 0][..]);
        assert_eq!(cut_frame(&mut read).unwrap().unwrap()[..], [9, 8]);
        assert_eq!(cut_frame(&mut read), Ok(None));
        read.put_u8(1);
        assert_eq!(cut_frame(&mut read), Ok(None), "the length is there, its byte is not");
        read.put_u8(5);
        assert_eq!(cut_frame(&mut read).unwrap().unwrap()[..], [5]);
        assert!(cut_frame(&mut BytesMut::from(&[255; 4][..])).is_err());
    }

    #[test]
    fn what_the_server_says_is_told_apart_by_its_number() {
        let said = |xid: i32, error: i32, rest: &[u8]| {
            let mut frame = BytesMut::new();
            frame.put_i32(xid);
            frame.put_i64(5);
            frame.put_i32(error);
            frame.put_slice(rest);
            Incoming::read(frame.freeze())
        };
        assert_eq!(said(-2, 0, &[]), Ok(Incoming::Pong));
        assert_eq!(
            said(3, NO_NODE, &[1]),
            Ok(Incoming::Reply { xid: 3, error: -101, body: Bytes::from_static(&[1]) })
        );
        let fired = [0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0, 2, b'/', b'x'];
        assert_eq!(said(-1, 0, &fired), Ok(Incoming::Notification { path: "/x".into() }));
        assert!(Incoming::read(Bytes::from_static(&[0, 0])).is_err());
    }

    #[test]
    fn children_are_read_as_a_counted_list() {
        let mut body = Bytes::from_static(&[0, 0, 0, 2, 0, 0, 0, 1, b'a', 0, 0, 0, 2, b'b', b'c']);
        assert_eq!(take_texts(&mut body), Ok(vec!["a".into(), "bc".into()]));
        assert!(take_texts(&mut Bytes::from_static(&[0, 0, 0, 1, 0, 0, 0, 9])).is_err());
    }
}
