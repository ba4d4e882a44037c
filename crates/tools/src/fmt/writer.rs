//! The tokens of a text with the comments and empty lines around them, taken one after the other.
//!
//! Whatever the printer of a construct does, it can only take the next token, and a token brings
//! its comments: so nothing is lost and nothing changes places.

use bifrost_theta::lexer::{Tok, Token, Tokens};

use super::layout::Doc;

/// A comment on a line of its own.
struct Before<'a> {
    text: &'a str,
    /// True if an empty line stands above it.
    blank: bool,
}

/// A token and the comments around it.
struct Piece<'a> {
    tok: Tok,
    text: &'a str,
    start: u32,
    before: Vec<Before<'a>>,
    /// True if an empty line stands above the token, below its comments.
    blank: bool,
    /// The comment on its line.
    after: Option<&'a str>,
}

/// The tokens not yet printed.
pub struct Writer<'a> {
    text: &'a str,
    pieces: Vec<Piece<'a>>,
    at: usize,
}

impl<'a> Writer<'a> {
    /// Makes a writer of all of `text`, whose tokens are `lexed`.
    pub fn new(text: &'a str, lexed: &Tokens) -> Writer<'a> {
        let mut pieces: Vec<Piece<'a>> = vec![];
        let mut comments = lexed.comments.iter().peekable();
        let mut last = 0;
        let mut braces = 0u32;
        for (at, token) in lexed.tokens.iter().enumerate() {
            match token.tok {
                Tok::LBrace => braces += 1,
                Tok::RBrace => braces = braces.saturating_sub(1),
                _ => {}
            }
            if is_dropped(&lexed.tokens[at..], braces > 0) {
                continue;
            }
            let mut piece = Piece {
                tok: token.tok,
                text: &text[token.start as usize..token.end as usize],
                start: token.start,
                before: vec![],
                blank: false,
                after: None,
            };
            while let Some(comment) = comments.next_if(|c| c.start < token.start) {
                let said = text[comment.start as usize..comment.end as usize].trim_end();
                let gap = newlines(text, last, comment.start);
                match pieces.last_mut() {
                    Some(before) if gap == 0 && piece.before.is_empty() => before.after = Some(said),
                    _ => piece.before.push(Before { text: said, blank: gap > 1 }),
                }
                last = comment.end;
            }
            piece.blank = newlines(text, last, token.start) > 1;
            last = token.end;
            pieces.push(piece);
        }
        Writer { text, pieces, at: 0 }
    }

    /// Returns the next token.
    pub fn tok(&self) -> Tok {
        self.pieces[self.at].tok
    }

    /// Returns the place where the next token starts.
    pub fn start(&self) -> u32 {
        self.pieces[self.at].start
    }

    /// Returns true if the text from `start` to `end` is one line.
    pub fn is_one_line(&self, start: u32, end: u32) -> bool {
        !self.text[start as usize..end as usize].contains('\n')
    }

    /// Returns true if only blanks stand between bytes `end` and `start`.
    pub fn is_near(&self, end: u32, start: u32) -> bool {
        self.text[end as usize..start as usize].bytes().all(|b| matches!(b, b' ' | b'\t'))
    }

    /// Returns true if the next token starts a line of the text.
    pub fn is_new_line(&self) -> bool {
        let before = self.at.checked_sub(1).map_or(0, |at| self.pieces[at].start);
        newlines(self.text, before, self.start()) > 0
    }

    /// Returns the next token with its comments.
    pub fn take(&mut self) -> Doc<'a> {
        let mut parts = self.own_comments();
        parts.extend(self.token());
        if parts.len() == 1 { parts.remove(0) } else { Doc::Row(parts) }
    }

    /// Returns the tokens that start before byte `end`, with nothing between them: numbers,
    /// operators.
    pub fn take_to(&mut self, end: u32) -> Doc<'a> {
        let mut parts = vec![];
        while self.start() < end && self.tok() != Tok::EndOfFile {
            parts.push(self.take());
        }
        Doc::Row(parts)
    }

    /// Returns the end of the line before the next token, or an empty line where the text has one.
    pub fn separator(&self) -> Doc<'a> {
        let piece = &self.pieces[self.at];
        let blank = piece.before.first().map_or(piece.blank, |comment| comment.blank);
        if blank { Doc::Blank } else { Doc::Hard }
    }

    /// Returns true if the next token has comments above it.
    pub fn has_comments(&self) -> bool {
        !self.pieces[self.at].before.is_empty()
    }

    /// Returns the comments above the next token, each on a line.
    pub fn comments(&mut self) -> Vec<Doc<'a>> {
        let before = std::mem::take(&mut self.pieces[self.at].before);
        let lines =
            before.into_iter().map(|c| [if c.blank { Doc::Blank } else { Doc::Hard }, Doc::Own(c.text)]);
        lines.flatten().collect()
    }

    /// Returns the comments above the next token up to the first empty line: those that belong to
    /// the part above.
    pub fn adjoining_comments(&mut self) -> Vec<Doc<'a>> {
        let before = &mut self.pieces[self.at].before;
        let count = before.iter().position(|c| c.blank).unwrap_or(before.len());
        before.drain(..count).flat_map(|c| [Doc::Hard, Doc::Own(c.text)]).collect()
    }

    fn own_comments(&mut self) -> Vec<Doc<'a>> {
        let piece = &mut self.pieces[self.at];
        let mut parts = vec![];
        for comment in std::mem::take(&mut piece.before) {
            if !parts.is_empty() && comment.blank {
                parts.push(Doc::Gap);
            }
            parts.push(Doc::Own(comment.text));
        }
        if !parts.is_empty() && piece.blank {
            parts.push(Doc::Gap);
        }
        parts
    }

    fn token(&mut self) -> Vec<Doc<'a>> {
        let piece = &self.pieces[self.at];
        let mut parts = vec![Doc::Text(piece.text)];
        parts.extend(piece.after.map(Doc::Trail));
        if self.at + 1 < self.pieces.len() {
            self.at += 1;
        }
        parts
    }
}

/// Returns true if the first of `tokens` says nothing: a `;` where the next statement starts
/// anyway, the comma before `signals`.
fn is_dropped(tokens: &[Token], in_braces: bool) -> bool {
    let next = tokens.get(1).map(|token| token.tok);
    match tokens[0].tok {
        Tok::Comma => next == Some(Tok::Signals),
        // A statement that starts with a sign would be taken for the rest of the one before.
        Tok::Semi if next == Some(Tok::Minus) => false,
        // Braces hold no statements; the maker of a constructor follows its variables after `;`.
        Tok::Semi => !in_braces || next == Some(Tok::RBrace),
        _ => false,
    }
}

fn newlines(text: &str, from: u32, to: u32) -> usize {
    text.as_bytes()[from as usize..to as usize].iter().filter(|b| **b == b'\n').count()
}
