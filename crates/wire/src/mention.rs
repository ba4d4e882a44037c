//! Handles in texts for people.
//!
//! A session knows objects of its client by their handles only. Its texts name one as `handle h5`,
//! and the client puts its own name there before it shows the text.

use std::borrow::Cow;

use crate::ids::Ref;

/// The words before the number.
const WORDS: &str = "handle h";

/// Returns a handle in a text; references that are none have no other name than their number.
pub fn mention(reference: Ref) -> String {
    if reference.is_handle() { format!("{WORDS}{}", reference.0) } else { format!("handle {}", reference.0) }
}

/// Returns a text with the client's names for the handles that it mentions, for which there is one.
pub fn with_names(text: &str, mut name: impl FnMut(Ref) -> Option<String>) -> Cow<'_, str> {
    let mut named = String::new();
    let mut rest = text;
    while let Some(at) = rest.find(WORDS) {
        let (before, mention) = rest.split_at(at);
        let digits = &mention[WORDS.len()..];
        let count = digits.bytes().take_while(u8::is_ascii_digit).count();
        let handle = digits[..count].parse().ok().map(Ref).filter(|handle| handle.is_handle());
        named.push_str(before);
        match handle.and_then(&mut name) {
            Some(name) => named.push_str(&name),
            None => named.push_str(&mention[..WORDS.len() + count]),
        }
        rest = &digits[count..];
    }
    if named.is_empty() {
        return Cow::Borrowed(text);
    }
    named.push_str(rest);
    Cow::Owned(named)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stand_for_handles() {
        let name = |handle: Ref| (handle.0 == 5).then(|| "`$e`".to_owned());
        let text = format!("({}), {}; {}", mention(Ref(5)), mention(Ref(6)), mention(Ref(-5)));
        assert_eq!(with_names(&text, name), "(`$e`), handle h6; handle -5");
        assert_eq!(with_names("handle h", name), "handle h");
        assert_eq!(with_names("a handle h55555555555555555555", name), "a handle h55555555555555555555");
        assert!(matches!(with_names("nothing", name), Cow::Borrowed("nothing")));
    }
}
