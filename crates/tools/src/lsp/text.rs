//! Positions of the protocol, which count lines and code units, and positions in texts, which count
//! bytes.

use lsp_types::{Position, Range};

/// The unit that a column counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Encoding {
    /// Bytes.
    Utf8,
    /// Code units of UTF-16, which every client understands.
    Utf16,
}

impl Encoding {
    fn units(self, text: &str) -> u32 {
        match self {
            Encoding::Utf8 => text.len() as u32,
            Encoding::Utf16 => text.encode_utf16().count() as u32,
        }
    }

    /// Returns the byte of `text` at a position; positions past the end of a line or of the text
    /// are at that end.
    pub fn byte(self, text: &str, position: Position) -> usize {
        let mut start = 0;
        for _ in 0..position.line {
            match text[start..].find('\n') {
                Some(at) => start += at + 1,
                None => return text.len(),
            }
        }
        let line = text[start..].split('\n').next().unwrap_or("").trim_end_matches('\r');
        let mut units = 0;
        for (at, c) in line.char_indices() {
            units += self.units(c.encode_utf8(&mut [0; 4]));
            if units > position.character {
                return start + at;
            }
        }
        start + line.len()
    }

    /// Returns the position of a byte of `text`.
    pub fn position(self, text: &str, byte: usize) -> Position {
        let before = text.get(..byte).unwrap_or(text);
        let start = before.rfind('\n').map_or(0, |at| at + 1);
        let line = before.bytes().filter(|b| *b == b'\n').count() as u32;
        Position { line, character: self.units(&before[start..]) }
    }

    /// Returns the range of bytes of `text`.
    pub fn range(self, text: &str, start: u32, end: u32) -> Range {
        Range { start: self.position(text, start as usize), end: self.position(text, end as usize) }
    }
}

/// Returns the path that a URI names; other than `file` URIs are kept as they are.
pub fn path_of(uri: &str) -> String {
    let Some(rest) = uri.strip_prefix("file://") else { return uri.to_owned() };
    let path = &rest[rest.find('/').unwrap_or(0)..];
    let mut bytes = vec![];
    let mut rest = path.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        let hex = after.get(..2).and_then(|two| std::str::from_utf8(two).ok());
        match hex.filter(|_| byte == b'%').and_then(|two| u8::from_str_radix(two, 16).ok()) {
            Some(value) => {
                bytes.push(value);
                rest = &after[2..];
            }
            None => {
                bytes.push(byte);
                rest = after;
            }
        }
    }
    String::from_utf8(bytes).unwrap_or_else(|_| path.to_owned())
}

/// Returns the URI of a path, or of a document that is no file.
pub fn uri_of(path: &str) -> String {
    if !path.starts_with('/') {
        return path.to_owned();
    }
    let mut uri = "file://".to_owned();
    for byte in path.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'-' | b'_' | b'.' | b'~' => {
                uri.push(byte as char)
            }
            _ => uri.push_str(&format!("%{byte:02X}")),
        }
    }
    uri
}
