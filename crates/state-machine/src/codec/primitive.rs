//! The bricks of the encoding: numbers, texts, flags, and the domain's small words.

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use crate::file::FileName;
use crate::ids::{ClientKey, Payload, RequestKey, Secret};
use crate::limits::{FILE_INODE_END, FILE_INODE_FIRST};
use crate::resource::Resource;
use crate::words::{Metadata, Mode, Owner, Ttl};

/// Why bytes are not what we write. The journal's checksums come first, so this is a newer version or our bug.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CodecError {
    /// The bytes end in the middle of something.
    Truncated,
    /// There are bytes left over.
    Trailing,
    /// A number or length is out of its bounds. Says which.
    OutOfBounds(&'static str),
    /// A tag that this version does not know. Says of what.
    UnknownTag(&'static str, u8),
    /// A format version that is newer than this program.
    NewerVersion(u8),
}

impl fmt::Display for CodecError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CodecError::Truncated => f.write_str("the bytes end too early"),
            CodecError::Trailing => f.write_str("there are bytes left over"),
            CodecError::OutOfBounds(what) => write!(f, "{what} is out of its bounds"),
            CodecError::UnknownTag(what, tag) => {
                write!(
                    f,
                    "tag {tag} of {what} is not known to this version; use the newer program that wrote it"
                )
            }
            CodecError::NewerVersion(version) => {
                write!(
                    f,
                    "format version {version} is newer than this program; use the newer program that wrote it"
                )
            }
        }
    }
}

impl core::error::Error for CodecError {}

/// Reads the bricks off the front of some bytes.
#[derive(Debug)]
pub struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    /// Reads from the beginning of `bytes`.
    pub fn new(bytes: &'a [u8]) -> Self {
        Reader { rest: bytes }
    }

    /// Whether everything has been read.
    pub fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// Everything must have been read.
    pub fn finish(self) -> Result<(), CodecError> {
        if self.rest.is_empty() { Ok(()) } else { Err(CodecError::Trailing) }
    }

    pub(crate) fn bytes(&mut self, count: usize) -> Result<&'a [u8], CodecError> {
        let (head, tail) = self.rest.split_at_checked(count).ok_or(CodecError::Truncated)?;
        self.rest = tail;
        Ok(head)
    }

    pub(crate) fn byte(&mut self) -> Result<u8, CodecError> {
        Ok(self.bytes(1)?[0])
    }

    pub(crate) fn number(&mut self) -> Result<u64, CodecError> {
        let mut number = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            let part = u64::from(byte & 0x7f);
            if shift == 63 && part > 1 {
                break;
            }
            number |= part << shift;
            if byte & 0x80 == 0 {
                return Ok(number);
            }
        }
        Err(CodecError::OutOfBounds("a number"))
    }

    /// A number below `end`.
    pub(crate) fn number_in(&mut self, what: &'static str, end: u64) -> Result<u64, CodecError> {
        self.number()
            .and_then(|number| if number < end { Ok(number) } else { Err(CodecError::OutOfBounds(what)) })
    }

    pub(crate) fn number_u32(&mut self) -> Result<u32, CodecError> {
        u32::try_from(self.number()?).map_err(|_| CodecError::OutOfBounds("a number"))
    }

    pub(crate) fn count(&mut self) -> Result<usize, CodecError> {
        let count = usize::try_from(self.number()?).map_err(|_| CodecError::OutOfBounds("a count"))?;
        // Each counted thing takes at least a byte: a wild count cannot make us reserve memory.
        if count > self.rest.len() { Err(CodecError::Truncated) } else { Ok(count) }
    }

    pub(crate) fn flag(&mut self) -> Result<bool, CodecError> {
        match self.byte()? {
            0 => Ok(false),
            1 => Ok(true),
            tag => Err(CodecError::UnknownTag("a flag", tag)),
        }
    }

    pub(crate) fn text(&mut self) -> Result<&'a str, CodecError> {
        let count = self.count()?;
        core::str::from_utf8(self.bytes(count)?).map_err(|_| CodecError::OutOfBounds("a text"))
    }

    pub(crate) fn pair(&mut self) -> Result<[u64; 2], CodecError> {
        let mut pair = [0; 2];
        for word in &mut pair {
            let mut bytes = [0; 8];
            bytes.copy_from_slice(self.bytes(8)?);
            *word = u64::from_le_bytes(bytes);
        }
        Ok(pair)
    }

    pub(crate) fn secret(&mut self) -> Result<Secret, CodecError> {
        self.pair().map(Secret)
    }

    pub(crate) fn request_key(&mut self) -> Result<RequestKey, CodecError> {
        self.pair().map(RequestKey)
    }

    pub(crate) fn client_key(&mut self) -> Result<ClientKey, CodecError> {
        self.pair().map(ClientKey)
    }

    pub(crate) fn payload(&mut self) -> Result<Payload, CodecError> {
        let mut bytes = [0; 8];
        bytes.copy_from_slice(self.bytes(8)?);
        Ok(Payload(u64::from_le_bytes(bytes)))
    }

    pub(crate) fn resource(&mut self) -> Result<Resource, CodecError> {
        Resource::parse(self.text()?).map_err(|_| CodecError::OutOfBounds("a resource"))
    }

    pub(crate) fn owner(&mut self) -> Result<Owner, CodecError> {
        Owner::parse(self.text()?).map_err(|_| CodecError::OutOfBounds("an owner"))
    }

    pub(crate) fn file_name(&mut self) -> Result<FileName, CodecError> {
        FileName::parse(self.text()?).map_err(|_| CodecError::OutOfBounds("a file's name"))
    }

    pub(crate) fn file_number(&mut self) -> Result<u64, CodecError> {
        let number = self.number()?;
        let ours = (FILE_INODE_FIRST..FILE_INODE_END).contains(&number);
        if ours { Ok(number) } else { Err(CodecError::OutOfBounds("a file's number")) }
    }

    pub(crate) fn mode(&mut self) -> Result<Mode, CodecError> {
        match self.byte()? {
            0 => Ok(Mode::Exclusive),
            1 => Ok(Mode::Shared),
            tag => Err(CodecError::UnknownTag("a mode", tag)),
        }
    }

    pub(crate) fn ttl(&mut self) -> Result<Ttl, CodecError> {
        Ttl::from_ms(self.number()?).map_err(|_| CodecError::OutOfBounds("a TTL"))
    }

    pub(crate) fn metadata(&mut self) -> Result<Metadata, CodecError> {
        let mut map = BTreeMap::new();
        for _ in 0..self.count()? {
            map.insert(String::from(self.text()?), String::from(self.text()?));
        }
        Metadata::new(map).map_err(|_| CodecError::OutOfBounds("metadata"))
    }

    pub(crate) fn option<T>(
        &mut self,
        read: impl FnOnce(&mut Self) -> Result<T, CodecError>,
    ) -> Result<Option<T>, CodecError> {
        if self.flag()? { read(self).map(Some) } else { Ok(None) }
    }
}

pub(crate) fn put_number(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

pub(crate) fn put_flag(out: &mut Vec<u8>, flag: bool) {
    out.push(u8::from(flag));
}

pub(crate) fn put_text(out: &mut Vec<u8>, text: &str) {
    put_number(out, text.len() as u64);
    out.extend_from_slice(text.as_bytes());
}

pub(crate) fn put_pair(out: &mut Vec<u8>, pair: [u64; 2]) {
    out.extend_from_slice(&pair[0].to_le_bytes());
    out.extend_from_slice(&pair[1].to_le_bytes());
}

pub(crate) fn put_payload(out: &mut Vec<u8>, payload: Payload) {
    out.extend_from_slice(&payload.0.to_le_bytes());
}

pub(crate) fn put_mode(out: &mut Vec<u8>, mode: Mode) {
    out.push(match mode {
        Mode::Exclusive => 0,
        Mode::Shared => 1,
    });
}

pub(crate) fn put_metadata(out: &mut Vec<u8>, metadata: &Metadata) {
    put_number(out, metadata.entries().len() as u64);
    for (key, value) in metadata.entries() {
        put_text(out, key);
        put_text(out, value);
    }
}

pub(crate) fn put_option<T>(out: &mut Vec<u8>, value: Option<T>, put: impl FnOnce(&mut Vec<u8>, T)) {
    put_flag(out, value.is_some());
    if let Some(value) = value {
        put(out, value);
    }
}
