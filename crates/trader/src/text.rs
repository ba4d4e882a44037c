//! Percent-escapes, and texts that are cut from others.

use std::borrow::Cow;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};

/// Bytes that are escaped in a value: all that end a value, a term or a query in a URL, and all
/// that URLs do not allow.
const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~')
    .remove(b'\'')
    .remove(b'(')
    .remove(b')')
    .remove(b',')
    .remove(b':')
    .remove(b'/')
    .remove(b'@')
    .remove(b';');

/// Bytes that are escaped in the path of a URL.
pub(crate) const URL_PATH: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~')
    .remove(b'@')
    .remove(b':')
    .remove(b'+');

/// Writes a text so that it can stand in a query.
pub(crate) fn escape(text: &str) -> impl std::fmt::Display + '_ {
    utf8_percent_encode(text, ESCAPED)
}

/// The place of a `%` that no escape follows, or whose escapes are no text.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct BadEscape(pub(crate) usize);

/// Reads the escapes of a text.
pub(crate) fn unescape(text: &str) -> Result<Cow<'_, str>, BadEscape> {
    let bytes = text.as_bytes();
    let is_escape =
        |at: usize| bytes.get(at + 1..at + 3).is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit));
    let first = text.find('%');
    if let Some(at) = text.match_indices('%').map(|(at, _)| at).find(|at| !is_escape(*at)) {
        return Err(BadEscape(at));
    }
    percent_decode_str(text).decode_utf8().map_err(|_| BadEscape(first.unwrap_or_default()))
}

/// The characters of a property's name: a letter or `_`, then letters, digits, `_`, `.` and `-`.
pub(crate) fn is_name(text: &str) -> bool {
    let first = text.bytes().next();
    first.is_some_and(|first| first.is_ascii_alphabetic() || first == b'_') && name_end(text) == text.len()
}

/// The length of the longest beginning that has only characters of names.
pub(crate) fn name_end(text: &str) -> usize {
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || b"_.-".contains(&byte);
    text.bytes().position(|byte| !is_part(byte)).unwrap_or(text.len())
}

/// The beginning of a text for a message, with a mark if something was left out.
pub(crate) fn shown(text: &str) -> Cow<'_, str> {
    const CHARS_MAX: usize = 40;
    match text.char_indices().nth(CHARS_MAX) {
        None => Cow::Borrowed(text),
        Some((end, _)) => Cow::Owned(format!("{}...", &text[..end])),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_are_read_and_refused() {
        assert_eq!(unescape("a%26b%3Dc").unwrap(), "a&b=c");
        assert_eq!(unescape("gr%C3%BC%c3%9fe").unwrap(), "grüße");
        for (wrong, at) in [("a%", 1), ("a%2", 1), ("%41%zz", 3), ("%€", 0), ("ab%ff", 2), ("%+1", 0)] {
            assert_eq!(unescape(wrong), Err(BadEscape(at)), "{wrong}");
        }
    }

    #[test]
    fn escaped_texts_read_the_same() {
        let text: String = (0..0x250u32).filter_map(char::from_u32).collect();
        let escaped = escape(&text).to_string();
        assert!(escaped.bytes().all(|byte| byte.is_ascii_graphic() && !b"&=#<>?+\"".contains(&byte)));
        assert_eq!(unescape(&escaped).unwrap(), text);
    }

    #[test]
    fn names_have_few_characters() {
        for name in ["a", "_x", "load.1m", "zone-2", "Z9"] {
            assert!(is_name(name), "{name}");
        }
        for name in ["", "1a", "-a", ".a", "a b", "a=", "ü", "a%"] {
            assert!(!is_name(name), "{name}");
        }
    }

    #[test]
    fn long_texts_are_cut_at_characters() {
        assert_eq!(shown("short"), "short");
        let long = "ü".repeat(60);
        assert_eq!(shown(&long), format!("{}...", "ü".repeat(40)));
    }
}
