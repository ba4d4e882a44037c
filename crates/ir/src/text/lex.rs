//! Tokens.

use super::parse::ParseError;

#[derive(Clone, PartialEq, Debug)]
pub(super) enum Token {
    /// A name, a keyword, or a variable with its number (`x%3`, `%3`).
    Word(String),
    Int(i64),
    Real(u64),
    Char(char),
    Str(String),
    /// A mark.
    Mark(&'static str),
    End,
}

impl std::fmt::Display for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Token::Word(w) => write!(f, "`{w}`"),
            Token::Int(n) => write!(f, "`{n}`"),
            Token::Real(bits) => write!(f, "`{:?}`", f64::from_bits(*bits)),
            Token::Char(c) => write!(f, "`{c:?}`"),
            Token::Str(s) => write!(f, "`{s:?}`"),
            Token::Mark(m) => write!(f, "`{m}`"),
            Token::End => f.write_str("the end of the file"),
        }
    }
}

const MARKS: &[&str] = &[":=", "(", ")", "[", "]", "{", "}", ",", ".", ":", "<", "@", "#"];

/// Returns the tokens of a text, each with its line, and `End`.
pub(super) fn lex(text: &str) -> Result<Vec<(Token, u32)>, ParseError> {
    let mut tokens = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let line_number = number as u32 + 1;
        let mut rest = line.trim_start();
        while !rest.is_empty() && !rest.starts_with(';') {
            let (token, length) = token(rest)
                .ok_or_else(|| ParseError::new(line_number, format!("`{rest}` is not a token")))?;
            tokens.push((token, line_number));
            rest = rest[length..].trim_start();
        }
    }
    let last = text.lines().count() as u32;
    tokens.push((Token::End, last));
    Ok(tokens)
}

/// Returns the token at the start of a text, and its length in bytes.
fn token(text: &str) -> Option<(Token, usize)> {
    let first = text.chars().next()?;
    let second = text[first.len_utf8()..].chars().next();
    if first.is_ascii_alphabetic() || first == '_' || first == '%' {
        let length =
            text.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_' || c == '%')).unwrap_or(text.len());
        let word = &text[..length];
        if let Some(bits) = word.strip_prefix("real%") {
            return Some((Token::Real(u64::from_str_radix(bits, 16).ok()?), length));
        }
        return Some((Token::Word(word.to_owned()), length));
    }
    if first.is_ascii_digit() || (first == '-' && second.is_some_and(|c| c.is_ascii_digit())) {
        return number(text);
    }
    if first == '"' {
        let (body, length) = quoted(text, '"')?;
        return Some((Token::Str(body), length));
    }
    if first == '\'' {
        let (body, length) = quoted(text, '\'')?;
        let mut chars = body.chars();
        let c = chars.next()?;
        return chars.next().is_none().then_some((Token::Char(c), length));
    }
    let mark = MARKS.iter().find(|m| text.starts_with(**m))?;
    Some((Token::Mark(mark), mark.len()))
}

fn number(text: &str) -> Option<(Token, usize)> {
    let bytes = text.as_bytes();
    let digits = |mut i: usize| {
        while bytes.get(i).is_some_and(u8::is_ascii_digit) {
            i += 1;
        }
        i
    };
    let mut end = digits(1);
    let mut real = false;
    if bytes.get(end) == Some(&b'.') && bytes.get(end + 1).is_some_and(u8::is_ascii_digit) {
        real = true;
        end = digits(end + 1);
    }
    if bytes.get(end).is_some_and(|b| *b == b'e') {
        let sign = usize::from(bytes.get(end + 1) == Some(&b'-'));
        if bytes.get(end + 1 + sign).is_some_and(u8::is_ascii_digit) {
            real = true;
            end = digits(end + 1 + sign);
        }
    }
    let text = &text[..end];
    let token =
        if real { Token::Real(text.parse::<f64>().ok()?.to_bits()) } else { Token::Int(text.parse().ok()?) };
    Some((token, end))
}

/// Returns a text in quotes with the escapes that `{:?}` writes.
fn quoted(text: &str, quote: char) -> Option<(String, usize)> {
    let mut body = String::new();
    let mut chars = text.char_indices().skip(1);
    while let Some((i, c)) = chars.next() {
        if c == quote {
            return Some((body, i + 1));
        }
        if c != '\\' {
            body.push(c);
            continue;
        }
        let (_, escape) = chars.next()?;
        body.push(match escape {
            'n' => '\n',
            't' => '\t',
            'r' => '\r',
            '0' => '\0',
            'u' => {
                let mut digits = String::new();
                (chars.next()?.1 == '{').then_some(())?;
                for (_, c) in chars.by_ref() {
                    if c == '}' {
                        break;
                    }
                    digits.push(c);
                }
                char::from_u32(u32::from_str_radix(&digits, 16).ok()?)?
            }
            other => other,
        });
    }
    None
}
