//! Redis' protocol, as much of it as locks need: commands out, replies in. Pure; reads and writes buffers.

/// A reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// `+OK`, or another word.
    Word,
    /// Nothing.
    Nil,
    /// A number.
    Number(i64),
    /// Bytes.
    Bytes(Vec<u8>),
    /// A refusal, in Redis' words.
    Refused(String),
}

/// Appends a command to what is to be sent.
pub fn command(out: &mut Vec<u8>, words: &[&[u8]]) {
    count(out, b'*', words.len());
    for word in words {
        count(out, b'$', word.len());
        out.extend_from_slice(word);
        out.extend_from_slice(b"\r\n");
    }
}

/// A line with a number; without the machinery of formatting, which would cost more than all the rest.
fn count(out: &mut Vec<u8>, kind: u8, mut number: usize) {
    let mut digits = [0; 20];
    let mut from = digits.len();
    loop {
        from -= 1;
        digits[from] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            break;
        }
    }
    out.push(kind);
    out.extend_from_slice(&digits[from..]);
    out.extend_from_slice(b"\r\n");
}

/// The first reply in what was heard, and how many bytes it took; nothing if it is not all there yet.
pub fn reply(heard: &[u8]) -> Result<Option<(Reply, usize)>, String> {
    let Some(end) = heard.windows(2).position(|pair| pair == b"\r\n") else { return Ok(None) };
    let (Some(kind), Some(line)) = (heard.first(), heard.get(1..end)) else {
        return Err("a reply without a kind".to_owned());
    };
    let line = std::str::from_utf8(line).map_err(|_| "a reply that is no text".to_owned())?;
    let number = || line.parse::<i64>().map_err(|_| format!("{line:?} is no number"));
    let after = end + 2;
    let whole = match kind {
        b'+' => Reply::Word,
        b'-' => Reply::Refused(line.to_owned()),
        b':' => Reply::Number(number()?),
        b'$' => match usize::try_from(number()?) {
            Err(_) => Reply::Nil,
            Ok(length) => match heard.get(after..after + length + 2) {
                Some(bytes) => return Ok(Some((Reply::Bytes(bytes[..length].to_vec()), after + length + 2))),
                None => return Ok(None),
            },
        },
        other => return Err(format!("a reply of the unknown kind {:?}", char::from(*other))),
    };
    Ok(Some((whole, after)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_written_with_its_lengths() {
        let mut out = Vec::new();
        command(&mut out, &[b"SET", b"a long key", b"", b"NX"]);
        assert_eq!(out, b"*4\r\n$3\r\nSET\r\n$10\r\na long key\r\n$0\r\n\r\n$2\r\nNX\r\n");
    }

    #[test]
    fn replies_are_read_one_by_one_wherever_they_are_cut() {
        let heard = b"+OK\r\n$-1\r\n:1\r\n$6\r\nab\r\ncd\r\n-NOSCRIPT no such script\r\n";
        let expected = [
            Reply::Word,
            Reply::Nil,
            Reply::Number(1),
            Reply::Bytes(b"ab\r\ncd".to_vec()),
            Reply::Refused("NOSCRIPT no such script".to_owned()),
        ];
        for cut in 0..heard.len() {
            let (mut at, mut read) = (0, Vec::new());
            for end in [cut, heard.len()] {
                while let Some((reply, used)) = reply(&heard[at..end]).unwrap() {
                    read.push(reply);
                    at += used;
                }
            }
            assert_eq!((&read[..], at), (&expected[..], heard.len()), "cut at {cut}");
        }
    }

    #[test]
    fn what_is_no_reply_is_refused() {
        assert!(reply(b"HTTP/1.1 400\r\n").is_err());
        assert!(reply(b":one\r\n").is_err());
        assert!(reply(b"\r\n").is_err());
    }
}
