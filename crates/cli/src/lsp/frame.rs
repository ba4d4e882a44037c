//! Messages of the base protocol: headers, an empty line, and as many bytes of JSON as a header
//! says.

use std::io::{self, BufRead, Read, Write};

use serde_json::{Value, json};

/// The longest message that is read, in bytes.
const MESSAGE_BYTES_MAX: u64 = 64 << 20;
/// The longest line of a header, in bytes.
const HEADER_BYTES_MAX: u64 = 8 << 10;

/// A message or a fault that came in.
#[derive(PartialEq, Debug)]
pub enum Frame {
    /// A message.
    Message(Value),
    /// Bytes that are none, and the reason; the bytes that follow can be read.
    Malformed(String),
}

/// Reads the next message; `None` at the end of the stream.
///
/// # Errors
/// The stream fails, or ends within a message.
pub fn read(stream: &mut impl BufRead) -> io::Result<Option<Frame>> {
    let mut length = None;
    loop {
        let mut line = vec![];
        if stream.take(HEADER_BYTES_MAX).read_until(b'\n', &mut line)? == 0 {
            return Ok(None);
        }
        let line = String::from_utf8_lossy(&line);
        let line = line.trim_end_matches(['\r', '\n']);
        match (line.split_once(':'), length) {
            (None, Some(length)) if line.is_empty() => return body(stream, length).map(Some),
            // Empty lines between messages do no harm.
            (None, None) if line.is_empty() => {}
            (Some((name, value)), _) if name.trim().eq_ignore_ascii_case("content-length") => {
                let Ok(value) = value.trim().parse::<u64>() else {
                    return Ok(Some(Frame::Malformed(
                        "the length of the content is not a number".to_owned(),
                    )));
                };
                length = Some(value);
            }
            (Some((name, _)), _) if name.trim().eq_ignore_ascii_case("content-type") => {}
            _ => return Ok(Some(Frame::Malformed("the line is not a header".to_owned()))),
        }
    }
}

fn body(stream: &mut impl BufRead, length: u64) -> io::Result<Frame> {
    if length > MESSAGE_BYTES_MAX {
        io::copy(&mut stream.take(length), &mut io::sink())?;
        return Ok(Frame::Malformed(format!("a message has at most {MESSAGE_BYTES_MAX} bytes")));
    }
    let mut bytes = vec![];
    if stream.take(length).read_to_end(&mut bytes)? < length as usize {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(match serde_json::from_slice(&bytes) {
        Ok(value) => Frame::Message(value),
        Err(error) => Frame::Malformed(error.to_string()),
    })
}

/// Writes a message, of which `fields` has all but the version.
///
/// # Errors
/// The reader is gone.
pub fn write(stream: &mut impl Write, mut fields: Value) -> io::Result<()> {
    fields["jsonrpc"] = json!("2.0");
    let text = fields.to_string();
    write!(stream, "Content-Length: {}\r\n\r\n{text}", text.len())?;
    stream.flush()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frames(bytes: &[u8]) -> Vec<Frame> {
        let mut stream = bytes;
        std::iter::from_fn(|| read(&mut stream).ok().flatten()).collect()
    }

    #[test]
    fn what_is_written_can_be_read() {
        let mut bytes = vec![];
        write(&mut bytes, json!({ "method": "é" })).unwrap();
        write(&mut bytes, json!({ "id": 1 })).unwrap();
        let message = |value| Frame::Message(value);
        assert_eq!(
            frames(&bytes),
            [
                message(json!({ "jsonrpc": "2.0", "method": "é" })),
                message(json!({ "jsonrpc": "2.0", "id": 1 }))
            ]
        );
    }

    #[test]
    fn what_follows_a_malformed_message_is_read() {
        for bad in [
            "nonsense\r\n",
            "Content-Length: x\r\n",
            "Content-Length: 3\r\n\r\n{x}",
            "Content-Length: 1\r\n\r\n\u{7f}",
        ] {
            let frames =
                frames(format!("{bad}Content-Length: 2\r\nContent-Type: a; b\r\n\r\n{{}}").as_bytes());
            assert!(matches!(&frames[..], [Frame::Malformed(_), Frame::Message(_)]), "{bad:?}: {frames:?}");
        }
    }

    #[test]
    fn messages_that_are_too_long_are_left_out() {
        let length = MESSAGE_BYTES_MAX + 1;
        let head = format!("Content-Length: {length}\r\n\r\n");
        let tail = b"Content-Length: 2\r\n\r\n{}";
        let mut stream =
            io::BufReader::new(head.as_bytes().chain(io::repeat(b' ').take(length)).chain(&tail[..]));
        assert!(matches!(read(&mut stream).unwrap(), Some(Frame::Malformed(_))));
        assert_eq!(read(&mut stream).unwrap(), Some(Frame::Message(json!({}))));
    }

    #[test]
    fn a_stream_may_end_anywhere() {
        assert_eq!(read(&mut &b"Content-Length: 5\r\n"[..]).unwrap(), None);
        assert!(read(&mut &b"Content-Length: 5\r\n\r\n{"[..]).is_err());
        assert!(read(&mut &b"Content-Length: 60000000\r\n\r\n{"[..]).is_err());
    }
}
