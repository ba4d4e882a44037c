//! Words of a line.

use super::translate::LineError;

/// A word.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum Token {
    /// `fetch`
    Name(String),
    /// `$db`
    Variable(String),
    /// `@3`
    Future(u32),
    /// `-12`
    Int(i64),
    /// `1.5`
    Real(f64),
    /// `"text"`
    Str(String),
    /// `x"00ff"`
    Bytes(Vec<u8>),
    /// `'c'`
    Char(char),
    /// `:=`
    Assign,
    /// Any other character that means something.
    Mark(char),
}

/// Returns the words of a line, each with the column where it starts, from 1.
pub(super) fn tokens(line: &str) -> Result<Vec<(usize, Token)>, LineError> {
    let chars: Vec<char> = line.chars().collect();
    let mut lexer = Lexer { chars: &chars, at: 0 };
    let mut tokens = Vec::new();
    while let Some(token) = lexer.next()? {
        tokens.push(token);
    }
    Ok(tokens)
}

struct Lexer<'c> {
    chars: &'c [char],
    at: usize,
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

impl Lexer<'_> {
    fn peek(&self, ahead: usize) -> Option<char> {
        self.chars.get(self.at + ahead).copied()
    }

    fn word(&mut self) -> String {
        let start = self.at;
        while self.peek(0).is_some_and(is_word) {
            self.at += 1;
        }
        self.chars[start..self.at].iter().collect()
    }

    fn next(&mut self) -> Result<Option<(usize, Token)>, LineError> {
        while self.peek(0).is_some_and(char::is_whitespace) {
            self.at += 1;
        }
        let column = self.at + 1;
        let Some(c) = self.peek(0) else { return Ok(None) };
        let bad = |what: &str| LineError::new(column, what);
        let token = match c {
            '#' => return Ok(None),
            '$' => {
                self.at += 1;
                let name = self.word();
                if name.is_empty() {
                    return Err(bad("a name must follow `$`"));
                }
                Token::Variable(name)
            }
            '@' => {
                self.at += 1;
                let number = self.word();
                let position = number.parse().ok().filter(|p| *p > 0);
                Token::Future(position.ok_or_else(|| bad("a number from 1 must follow `@`"))?)
            }
            ':' if self.peek(1) == Some('=') => {
                self.at += 2;
                Token::Assign
            }
            '"' | '\'' => self.quoted(column, c)?,
            'x' if self.peek(1) == Some('"') => self.bytes(column)?,
            c if c.is_ascii_digit() => self.number(column)?,
            '-' if self.peek(1).is_some_and(|c| c.is_ascii_digit()) => self.number(column)?,
            c if is_word(c) => Token::Name(self.word()),
            '.' | ',' | '(' | ')' | '[' | ']' | '{' | '}' | ':' | '?' => {
                self.at += 1;
                Token::Mark(c)
            }
            _ => return Err(bad(&format!("`{c}` is not allowed here"))),
        };
        Ok(Some((column, token)))
    }

    fn number(&mut self, column: usize) -> Result<Token, LineError> {
        let start = self.at;
        self.at += 1;
        let mut real = false;
        while let Some(c) = self.peek(0) {
            let digit_next = self.peek(1).is_some_and(|c| c.is_ascii_digit());
            let sign_next = matches!(self.peek(1), Some('-' | '+'));
            match c {
                '0'..='9' | '_' => {}
                '.' if digit_next && !real => real = true,
                'e' | 'E' if digit_next => real = true,
                'e' | 'E' if sign_next => {
                    real = true;
                    self.at += 1;
                }
                _ => break,
            }
            self.at += 1;
        }
        let text: String = self.chars[start..self.at].iter().filter(|c| **c != '_').collect();
        let bad = || LineError::new(column, format!("`{text}` is not a number of 64 bits"));
        if real {
            return text.parse().map(Token::Real).map_err(|_| bad());
        }
        text.parse().map(Token::Int).map_err(|_| bad())
    }

    /// `x"00ff"`: two hexadecimal digits for each byte.
    fn bytes(&mut self, column: usize) -> Result<Token, LineError> {
        self.at += 2;
        let digits = self.word();
        let digits = digits.as_bytes();
        let bad = || LineError::new(column, "bytes are pairs of hexadecimal digits, as in `x\"00ff\"`");
        if self.peek(0) != Some('"') || !digits.len().is_multiple_of(2) {
            return Err(bad());
        }
        self.at += 1;
        let digit = |c: u8| char::from(c).to_digit(16).map(|digit| digit as u8);
        let bytes = digits.chunks_exact(2).map(|pair| Some(digit(pair[0])? << 4 | digit(pair[1])?));
        bytes.collect::<Option<Vec<u8>>>().map(Token::Bytes).ok_or_else(bad)
    }

    fn quoted(&mut self, column: usize, quote: char) -> Result<Token, LineError> {
        self.at += 1;
        let mut text = String::new();
        loop {
            let Some(c) = self.peek(0) else {
                return Err(LineError::new(column, format!("a closing `{quote}` is missing")));
            };
            self.at += 1;
            match c {
                c if c == quote => break,
                '\\' => text.push(self.escape()?),
                c => text.push(c),
            }
        }
        if quote == '"' {
            return Ok(Token::Str(text));
        }
        let mut chars = text.chars();
        match (chars.next(), chars.next()) {
            (Some(c), None) => Ok(Token::Char(c)),
            _ => Err(LineError::new(
                column,
                "a character constant is one character between `'`; write a string between `\"`",
            )),
        }
    }

    /// Reads the rest of an escape: those of the language, and those of JSON.
    fn escape(&mut self) -> Result<char, LineError> {
        let column = self.at;
        let bad = || {
            let escapes = "\\n \\t \\r \\0 \\\\ \\\" \\' \\u{hex}, and of JSON \\/ \\b \\f \\uXXXX";
            LineError::new(column, format!("the escapes are {escapes}"))
        };
        let c = self.peek(0).ok_or_else(bad)?;
        self.at += 1;
        Ok(match c {
            'n' => '\n',
            't' => '\t',
            'r' => '\r',
            '0' => '\0',
            'b' => '\u{8}',
            'f' => '\u{c}',
            '\\' | '"' | '\'' | '/' => c,
            'u' if self.peek(0) == Some('{') => {
                self.at += 1;
                let digits = self.word();
                let close = self.peek(0) == Some('}');
                self.at += 1;
                let code = u32::from_str_radix(&digits, 16).ok().filter(|_| close);
                code.and_then(char::from_u32).ok_or_else(bad)?
            }
            'u' => {
                let first = self.unit().ok_or_else(bad)?;
                // A pair of surrogates is one character.
                let mut units = vec![first];
                if (0xd800..0xdc00).contains(&first)
                    && self.peek(0) == Some('\\')
                    && self.peek(1) == Some('u')
                {
                    self.at += 2;
                    units.push(self.unit().ok_or_else(bad)?);
                }
                let mut chars = char::decode_utf16(units);
                match (chars.next(), chars.next()) {
                    (Some(Ok(c)), None) => c,
                    _ => return Err(bad()),
                }
            }
            _ => return Err(bad()),
        })
    }

    /// Reads four hexadecimal digits.
    fn unit(&mut self) -> Option<u16> {
        let digits = self.chars.get(self.at..self.at + 4)?;
        self.at += 4;
        digits.iter().try_fold(0, |unit, c| Some(unit << 4 | c.to_digit(16)? as u16))
    }
}
