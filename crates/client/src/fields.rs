//! The fields of a message where they lie in bytes, in order and each at most once: as servers write the few messages that are
//! read all the time. Whatever lies otherwise is nothing for this, and is left to the generated messages, so that everything
//! is read, and refused, as they read it.

use prost::encoding::{WireType, decode_varint};

/// What is left of a message. Of every answer in here, none at all means that it is not as usual.
pub(crate) struct Fields<'m> {
    rest: &'m [u8],
}

impl<'m> Fields<'m> {
    /// All of a message.
    pub fn new(message: &'m [u8]) -> Fields<'m> {
        Fields { rest: message }
    }

    /// Whether all of it was read. Else there is more in it than was asked for, or in another order.
    pub fn are_over(&self) -> bool {
        self.rest.is_empty()
    }

    /// The number in this field, which is one below 16; 0 if it is not the next one.
    #[inline(always)]
    pub fn number(&mut self, field: u8) -> Option<u64> {
        let key = field << 3 | WireType::Varint as u8;
        let Some(next) = self.rest.first_chunk::<8>() else { return self.last_number(key) };
        if next[0] != key {
            return Some(0);
        }
        // Most are of one to three bytes, which are looked at together.
        let word = u64::from_le_bytes(*next) >> 8;
        let (number, length) = if word & 0x80 == 0 {
            (word & 0x7f, 1)
        } else if word & 0x8000 == 0 {
            (word & 0x7f | word >> 1 & 0x3f80, 2)
        } else if word & 0x80_0000 == 0 {
            (word & 0x7f | word >> 1 & 0x3f80 | word >> 2 & 0x1f_c000, 3)
        } else {
            self.rest = &self.rest[1..];
            return self.long_varint();
        };
        self.rest = &self.rest[1 + length..];
        Some(number)
    }

    /// The same near the end of a message.
    #[inline(never)]
    fn last_number(&mut self, key: u8) -> Option<u64> {
        match self.rest {
            [first, rest @ ..] if *first == key => {
                self.rest = rest;
                self.last_varint()
            }
            _ => Some(0),
        }
    }

    /// The bytes in this field; none inside if it is not the next one.
    #[inline(always)]
    pub fn bytes(&mut self, field: u8) -> Option<Option<&'m [u8]>> {
        let key = field << 3 | WireType::LengthDelimited as u8;
        let length = match self.rest {
            [first, length, rest @ ..] if *first == key && *length < 0x80 => {
                self.rest = rest;
                usize::from(*length)
            }
            [first, rest @ ..] if *first == key => {
                self.rest = rest;
                usize::try_from(self.long_varint()?).ok()?
            }
            _ => return Some(None),
        };
        let (bytes, rest) = self.rest.split_at_checked(length)?;
        self.rest = rest;
        Some(Some(bytes))
    }

    /// A number of any length.
    #[inline(never)]
    fn long_varint(&mut self) -> Option<u64> {
        let Some(bytes) = self.rest.first_chunk() else { return self.last_varint() };
        let word = u64::from_le_bytes(*bytes);
        // The highest bit of the first byte that no other follows.
        let lasts = !word & FOLLOWED;
        let last = lasts & lasts.wrapping_neg();
        if last == 0 {
            return decode_varint(&mut self.rest).ok();
        }
        self.rest = &self.rest[last.trailing_zeros() as usize / 8 + 1..];
        // Seven bits of each byte up to that one, put together in pairs, in fours, and in eights.
        let sevens = word & !FOLLOWED & (last - 1);
        let pairs = sevens & 0x007f_007f_007f_007f | (sevens & 0x7f00_7f00_7f00_7f00) >> 1;
        let fours = pairs & 0x0000_3fff_0000_3fff | (pairs & 0x3fff_0000_3fff_0000) >> 2;
        Some(fours & 0x0fff_ffff | (fours & 0x0fff_ffff_0000_0000) >> 4)
    }

    /// The same near the end of a message.
    fn last_varint(&mut self) -> Option<u64> {
        let (mut number, mut shift) = (0, 0);
        for (at, byte) in self.rest.iter().enumerate() {
            number |= u64::from(byte & 0x7f) << shift;
            if *byte < 0x80 {
                self.rest = &self.rest[at + 1..];
                return Some(number);
            }
            // There are fewer than eight.
            shift = (shift + 7) & 63;
        }
        None
    }
}

/// The bit of each byte of a number that says that another follows.
const FOLLOWED: u64 = 0x8080_8080_8080_8080;

#[cfg(test)]
mod tests {
    use prost::encoding::{encode_varint, uint64};

    use super::*;

    #[test]
    fn numbers_of_every_length() {
        for bits in 0..64 {
            for number in [1 << bits, (1 << bits) - 1, u64::MAX >> bits] {
                let mut message = Vec::new();
                uint64::encode(1, &number, &mut message);
                let cut_off = &message[..message.len() - 1];
                assert_eq!(Fields::new(cut_off).number(1), None);
                // Whatever follows.
                for rest in [&[][..], &[2 << 3, 1], &[0xff; 9], &[0; 9]] {
                    let whole = [&message, rest].concat();
                    let mut fields = Fields::new(&whole);
                    assert_eq!((fields.number(1), fields.rest), (Some(number), rest));
                }
            }
        }
        assert_eq!(Fields::new(&[8, 0x80, 0x80, 0]).number(1), Some(0), "as long as it likes");
        assert_eq!(Fields::new(&[8, 0x81, 0x80, 0, 1, 2, 3, 4, 5, 6]).number(1), Some(1));
        assert_eq!(Fields::new(&[[8].as_slice(), &[0xff; 10]].concat()).number(1), None, "too long");
    }

    #[test]
    fn what_is_not_the_next_is_left() {
        let message = [2 << 3 | 2, 1, b'a', 3 << 3, 7];
        let mut fields = Fields::new(&message);
        assert_eq!((fields.number(1), fields.bytes(1), fields.number(2)), (Some(0), Some(None), Some(0)));
        assert_eq!(fields.bytes(2), Some(Some(b"a".as_slice())));
        assert_eq!(fields.bytes(2), Some(None), "it comes once");
        assert!(!fields.are_over());
        assert_eq!((fields.number(3), fields.are_over()), (Some(7), true));
        assert_eq!((fields.number(3), fields.bytes(3)), (Some(0), Some(None)));
    }

    #[test]
    fn bytes_that_are_cut_off_are_none() {
        let mut endless = vec![1 << 3 | 2];
        encode_varint(u64::MAX, &mut endless);
        for message in [[1 << 3 | 2].as_slice(), &[1 << 3 | 2, 2, b'a'], &endless] {
            assert_eq!(Fields::new(message).bytes(1), None, "{message:?}");
        }
    }
}
