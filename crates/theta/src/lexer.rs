//! From text to tokens (section 2 of the definition).
//!
//! Never fails: text that it cannot read becomes a diagnostic and is left out or mended. Comments
//! are kept aside, because a block of them directly after a heading is that heading's
//! documentation.
//!
//! Read [`lex`] first, then [`Tok`]: the list of all tokens and words.

use crate::diagnostic::{Code, Diagnostic};
use crate::source::{FileId, Span};

/// Reports kept of one text.
const DIAGNOSTICS_MAX: usize = 200;

macro_rules! tokens {
    (words { $($word:ident = $text:literal,)* } marks { $($mark:ident = $sign:literal,)* }) => {
        /// The kind of a token.
        #[allow(missing_docs)]
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
        pub enum Tok {
            Name, Int, Real, Char, Str, EndOfFile,
            $($word,)*
            $($mark,)*
        }

        impl Tok {
            /// The reserved words.
            pub const WORDS: &[&str] = &[$($text,)*];

            /// Returns the reserved word spelled `text`.
            pub fn word(text: &str) -> Option<Tok> {
                match text { $($text => Some(Tok::$word),)* _ => None }
            }

            /// Returns true if this is a reserved word.
            pub fn is_word(self) -> bool {
                matches!(self, $(Tok::$word)|*)
            }

            /// Returns the token as people call it.
            pub fn describe(self) -> &'static str {
                match self {
                    Tok::Name => "a name",
                    Tok::Int | Tok::Real => "a number",
                    Tok::Char => "a character",
                    Tok::Str => "a string",
                    Tok::EndOfFile => "the end of the file",
                    $(Tok::$word => concat!("`", $text, "`"),)*
                    $(Tok::$mark => concat!("`", $sign, "`"),)*
                }
            }
        }
    };
}

tokens! {
    words {
        Actor = "actor", After = "after", Begin = "begin", Bind = "bind", Break = "break", Class = "class",
        Clone = "clone", Continue = "continue", Delegate = "delegate", Disable = "disable", Do = "do",
        Else = "else", Elseif = "elseif", End = "end", Except = "except", Exit = "exit",
        Exports = "exports", False = "false", For = "for", Functional = "functional", Hides = "hides",
        If = "if", Immutable = "immutable", Implements = "implements", Import = "import", In = "in",
        Inherits = "inherits", Iter = "iter", Make = "make", Makes = "makes", Module = "module",
        New = "new", Nil = "nil", Oneof = "oneof", Others = "others", Proc = "proc",
        Provides = "provides", Record = "record", Reply = "reply", Replyto = "replyto",
        Resignal = "resignal", Return = "return", Returns = "returns", SelfWord = "self", Send = "send",
        Signal = "signal", Signals = "signals", Struct = "struct", Tagcase = "tagcase", Then = "then",
        Transaction = "transaction", True = "true", Type = "type", Typecase = "typecase", Wait = "wait",
        When = "when", Where = "where", While = "while", Yield = "yield", Yields = "yields",
    }
    marks {
        Assign = ":=", Eq = "=", Ne = "~=", Lt = "<", Le = "<=", Gt = ">", Ge = ">=", Plus = "+",
        Minus = "-", Star = "*", Slash = "/", SlashSlash = "//", Power = "**", Shl = "<<", Shr = ">>",
        Concat = "||", Or = "|", And = "&", Not = "~", Dot = ".", DotDot = "..", Comma = ",",
        Colon = ":", Semi = ";", LParen = "(", RParen = ")", LBracket = "[", RBracket = "]",
        LBrace = "{", RBrace = "}",
    }
}

/// One token.
#[derive(Clone, Copy, Debug)]
pub struct Token {
    /// Its kind.
    pub tok: Tok,
    /// True if a newline stands between it and the token before it.
    pub new_line: bool,
    /// First byte.
    pub start: u32,
    /// One past the last byte.
    pub end: u32,
}

/// A comment, from `%` to the end of its line.
#[derive(Clone, Copy, Debug)]
pub struct Comment {
    /// Position of the `%`.
    pub start: u32,
    /// End of the line.
    pub end: u32,
}

/// The tokens of one text; the last is always `EndOfFile`.
pub struct Tokens {
    /// The tokens.
    pub tokens: Vec<Token>,
    /// The comments.
    pub comments: Vec<Comment>,
    /// The mistakes: parts that could not be read.
    pub diagnostics: Vec<Diagnostic>,
}

/// The mark that some editors put before UTF-8 texts.
const BYTE_ORDER_MARK: char = '\u{feff}';

/// Splits `text` into tokens.
pub fn lex(file: FileId, text: &str) -> Tokens {
    let mut lexer = Lexer {
        file,
        text,
        bytes: text.as_bytes(),
        at: if text.starts_with(BYTE_ORDER_MARK) { BYTE_ORDER_MARK.len_utf8() } else { 0 },
        new_line: true,
        out: Tokens { tokens: Vec::with_capacity(text.len() / 5), comments: vec![], diagnostics: vec![] },
    };
    while lexer.step() {}
    lexer.push(Tok::EndOfFile, lexer.at);
    lexer.out
}

struct Lexer<'a> {
    file: FileId,
    text: &'a str,
    bytes: &'a [u8],
    at: usize,
    new_line: bool,
    out: Tokens,
}

impl Lexer<'_> {
    fn peek(&self, ahead: usize) -> u8 {
        self.bytes.get(self.at + ahead).copied().unwrap_or(0)
    }

    fn push(&mut self, tok: Tok, start: usize) {
        let token = Token { tok, new_line: self.new_line, start: start as u32, end: self.at as u32 };
        self.out.tokens.push(token);
        self.new_line = false;
    }

    fn error(&mut self, code: Code, start: usize, message: impl Into<String>, help: &str) {
        if self.out.diagnostics.len() >= DIAGNOSTICS_MAX {
            return;
        }
        let span = Span::new(self.file, start as u32, self.at as u32);
        self.out.diagnostics.push(Diagnostic::error(code, span, message).help(help));
    }

    /// Reads one token, blank or comment; false at the end of the text.
    fn step(&mut self) -> bool {
        let start = self.at;
        if start >= self.bytes.len() {
            return false;
        }
        match self.bytes[start] {
            b'\n' => {
                self.at += 1;
                self.new_line = true;
            }
            b' ' | b'\t' | b'\r' => self.at += 1,
            b'%' => {
                let rest = &self.bytes[start..];
                self.at += rest.iter().position(|b| *b == b'\n').unwrap_or(rest.len());
                self.out.comments.push(Comment { start: start as u32, end: self.at as u32 });
            }
            b'a'..=b'z' | b'A'..=b'Z' | b'_' => self.name(),
            b'0'..=b'9' => self.number(),
            b'"' => self.quoted(b'"', Tok::Str),
            b'\'' => self.quoted(b'\'', Tok::Char),
            _ => self.mark(),
        }
        true
    }

    fn name(&mut self) {
        let start = self.at;
        while self.peek(0) == b'_' || self.peek(0).is_ascii_alphanumeric() {
            self.at += 1;
        }
        let tok = Tok::word(&self.text[start..self.at]).unwrap_or(Tok::Name);
        self.push(tok, start);
    }

    fn digits(&mut self, hex: bool) {
        while self.peek(0) == b'_'
            || (if hex { self.peek(0).is_ascii_hexdigit() } else { self.peek(0).is_ascii_digit() })
        {
            self.at += 1;
        }
    }

    fn number(&mut self) {
        let start = self.at;
        let mut tok = Tok::Int;
        if self.peek(0) == b'0' && matches!(self.peek(1), b'x' | b'X') && self.peek(2).is_ascii_hexdigit() {
            self.at += 2;
            self.digits(true);
        } else {
            self.digits(false);
            if self.peek(0) == b'.' && self.peek(1).is_ascii_digit() {
                tok = Tok::Real;
                self.at += 1;
                self.digits(false);
            }
            let sign = usize::from(matches!(self.peek(1), b'+' | b'-'));
            if matches!(self.peek(0), b'e' | b'E') && self.peek(1 + sign).is_ascii_digit() {
                tok = Tok::Real;
                self.at += 1 + sign;
                self.digits(false);
            }
        }
        if self.peek(0) == b'_' || self.peek(0).is_ascii_alphanumeric() {
            while self.peek(0) == b'_' || self.peek(0).is_ascii_alphanumeric() {
                self.at += 1;
            }
            let text = &self.text[start..self.at];
            self.error(
                Code::E0109,
                start,
                format!("`{text}` is not a number"),
                "a name does not start with a digit",
            );
        }
        self.push(tok, start);
    }

    /// Reads a string or character; the value is decoded by [`unquote`] when the parser takes the
    /// token.
    fn quoted(&mut self, quote: u8, tok: Tok) {
        let start = self.at;
        self.at += 1;
        loop {
            match self.peek(0) {
                b if b == quote && self.at < self.bytes.len() => {
                    self.at += 1;
                    break;
                }
                b'\n' | 0 if self.at >= self.bytes.len() || self.peek(0) == b'\n' => {
                    let what = if tok == Tok::Str { "string" } else { "character" };
                    let close = if tok == Tok::Str {
                        "close it with `\"` on the same line"
                    } else {
                        "close it with `'`"
                    };
                    self.error(Code::E0109, start, format!("this {what} is not closed"), close);
                    break;
                }
                b'\\' if self.peek(1) != b'\n' => self.at += 2,
                _ => self.at += 1,
            }
        }
        // An escape may have stepped into the middle of a character or past the end.
        self.at = self.at.min(self.bytes.len());
        while !self.text.is_char_boundary(self.at) {
            self.at += 1;
        }
        self.push(tok, start);
    }

    fn mark(&mut self) {
        let start = self.at;
        let two = match (self.bytes[start], self.peek(1)) {
            (b':', b'=') => Some(Tok::Assign),
            (b'~', b'=') => Some(Tok::Ne),
            (b'<', b'=') => Some(Tok::Le),
            (b'>', b'=') => Some(Tok::Ge),
            (b'<', b'<') => Some(Tok::Shl),
            (b'>', b'>') => Some(Tok::Shr),
            (b'/', b'/') => Some(Tok::SlashSlash),
            (b'*', b'*') => Some(Tok::Power),
            (b'|', b'|') => Some(Tok::Concat),
            (b'.', b'.') => Some(Tok::DotDot),
            _ => None,
        };
        if let Some(tok) = two {
            self.at += 2;
            return self.push(tok, start);
        }
        let one = match self.bytes[start] {
            b'=' => Tok::Eq,
            b'<' => Tok::Lt,
            b'>' => Tok::Gt,
            b'+' => Tok::Plus,
            b'-' => Tok::Minus,
            b'*' => Tok::Star,
            b'/' => Tok::Slash,
            b'|' => Tok::Or,
            b'&' => Tok::And,
            b'~' => Tok::Not,
            b'.' => Tok::Dot,
            b',' => Tok::Comma,
            b':' => Tok::Colon,
            b';' => Tok::Semi,
            b'(' => Tok::LParen,
            b')' => Tok::RParen,
            b'[' => Tok::LBracket,
            b']' => Tok::RBracket,
            b'{' => Tok::LBrace,
            b'}' => Tok::RBrace,
            _ => return self.unknown(),
        };
        self.at += 1;
        if one == Tok::Eq && self.peek(0) == b'=' {
            self.at += 1;
            self.error(Code::E0101, start, "unknown symbol `==`", "equality is written `=`");
        }
        self.push(one, start);
    }

    fn unknown(&mut self) {
        let start = self.at;
        if self.bytes[start] == b'!' {
            self.at += 1 + usize::from(self.peek(1) == b'=');
            if self.at == start + 2 {
                self.error(Code::E0101, start, "unknown symbol `!`", "not-equal is written `~=`");
                self.push(Tok::Ne, start);
            } else {
                self.error(Code::E0101, start, "unknown symbol `!`", "not is written `~`");
                self.push(Tok::Not, start);
            }
            return;
        }
        // A run of unknown characters is one mistake.
        let known = |b: u8| {
            b.is_ascii() && (b.is_ascii_alphanumeric() || b" \t\r\n%_\"':=~<>+-*/|&.,;()[]{}!".contains(&b))
        };
        while self.at < self.bytes.len() && !known(self.bytes[self.at]) {
            self.at += 1;
        }
        if self.bytes[start] == b'#' {
            let rest = &self.bytes[start..];
            self.at = start + rest.iter().position(|b| *b == b'\n').unwrap_or(rest.len());
            let end = self.at;
            self.at = start + 1;
            self.error(Code::E0101, start, "unknown symbol `#`", "a comment begins with `%`");
            self.at = end;
            return;
        }
        let shown: String = self.text[start..self.at].chars().take(12).flat_map(char::escape_debug).collect();
        self.error(
            Code::E0101,
            start,
            format!("unknown symbol `{shown}`"),
            "names are made of ASCII letters, digits and `_`",
        );
    }
}

/// Returns the value of a quoted token `text` (with its quotes), and for each bad escape its byte
/// range in it.
pub fn unquote(text: &str) -> (String, Vec<std::ops::Range<usize>>) {
    let quote = text.chars().next().unwrap_or('"');
    let inner = text.get(1..).unwrap_or("");
    let (mut value, mut bad) = (String::with_capacity(inner.len()), vec![]);
    let mut chars = inner.char_indices().peekable();
    while let Some((at, c)) = chars.next() {
        if c == quote {
            break;
        }
        if c != '\\' {
            value.push(c);
            continue;
        }
        let (read, length) = unescape(&inner[at + 1..]);
        match read {
            Some(c) => value.push(c),
            None => bad.push(at + 1..at + 2 + length),
        }
        while chars.peek().is_some_and(|(next, _)| *next < at + 1 + length) {
            chars.next();
        }
    }
    (value, bad)
}

/// Returns the character an escape stands for (`text` starts after the backslash), and the bytes it
/// takes.
fn unescape(text: &str) -> (Option<char>, usize) {
    let Some(c) = text.chars().next() else { return (None, 0) };
    let simple = match c {
        'n' => '\n',
        't' => '\t',
        'r' => '\r',
        '0' => '\0',
        '\\' | '\'' | '"' => c,
        'x' => {
            let digits = text.get(1..3).filter(|d| d.bytes().all(|b| b.is_ascii_hexdigit()));
            let value = digits.and_then(|d| u32::from_str_radix(d, 16).ok());
            return (value.and_then(char::from_u32), if value.is_some() { 3 } else { 1 });
        }
        'u' => {
            let Some(close) = text.get(1..).filter(|t| t.starts_with('{')).and_then(|t| {
                // At most six digits; a longer search would make many bad escapes quadratic.
                t.bytes().take(12).position(|b| b == b'}')
            }) else {
                return (None, 1);
            };
            let digits = &text[2..close + 1];
            let valid =
                !digits.is_empty() && digits.len() <= 6 && digits.bytes().all(|b| b.is_ascii_hexdigit());
            let value =
                valid.then(|| u32::from_str_radix(digits, 16).ok()).flatten().and_then(char::from_u32);
            return (value, close + 2);
        }
        _ => return (None, c.len_utf8()),
    };
    (Some(simple), 1)
}
