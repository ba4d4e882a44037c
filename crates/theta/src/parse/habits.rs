//! Notations of other languages: the parser's messages in place of "expected ..., found ...".

use super::Parser;
use crate::diagnostic::{Code, Diagnostic};
use crate::lexer::{Tok, Token};

/// Words of other languages that begin a statement, and the form that Theta has.
const STATEMENT_WORDS: &[(&str, &str)] = &[
    ("try", "write `begin ... end except when NAME: ... end`; any statement can have a handler"),
    ("catch", "write `except when NAME: ... end` after the statement"),
    ("finally", "write these statements in each arm of `except`, or after the statement"),
    ("throw", "an exception is raised by `signal NAME`, and listed in the heading by `signals (NAME)`"),
    ("raise", "an exception is raised by `signal NAME`, and listed in the heading by `signals (NAME)`"),
    ("switch", "write `if ... elseif ... else ... end`, or `tagcase` for a oneof and `typecase` for types"),
    ("match", "write `tagcase` for a oneof, `typecase` for types"),
    ("foreach", "write `for x: T in ... do ... end`"),
    ("repeat", "write `while true do ... if ... then break end end`"),
    ("var", "a variable is declared as `name: type := value`"),
    ("let", "a variable is declared as `name: type := value`"),
    ("const", "a constant is an equate outside routines: `name = value`"),
    ("def", "a routine is written `name (a: T) returns (T) ... end name`, outside of others"),
    ("func", "a routine is written `name (a: T) returns (T) ... end name`, outside of others"),
    ("function", "a routine is written `name (a: T) returns (T) ... end name`, outside of others"),
    ("elif", "write `elseif`"),
    ("elsif", "write `elseif`"),
    ("await", "a request waits where its value is needed; a request as a statement waits at once"),
];

const REMAINDER: &str = "a comment begins with `%`; `//` gives the remainder of a division";

const NO_LAMBDA: &str = "a routine without a name cannot be written: define a routine, and write its name, or `bind(name, *, \
        value)`";

impl Parser<'_> {
    /// Returns a report about the next token, if it is a habit from another language.
    pub(super) fn habit(&self) -> Option<Diagnostic> {
        let found = self.token();
        let before = if self.at == 0 { None } else { Some(self.tokens[self.at - 1]) };
        let joined = before.filter(|token| token.end == found.start).map(|token| token.tok);
        let (message, help) = match (joined, found.tok) {
            (Some(Tok::And), Tok::And) => ("`&&` is not an operator", "and is written `&`"),
            (Some(Tok::Plus | Tok::Minus | Tok::Star | Tok::Slash), Tok::Eq) => {
                let op = self.text_of(before?);
                let target = match self.at.checked_sub(2).map(|at| self.tokens[at]) {
                    Some(token) if token.tok == Tok::Name => self.text_of(token),
                    _ => "x",
                };
                let message = format!("`{op}=` is not an operator");
                let span = self.span_of(before?).to(self.here());
                let help = format!("write `{target} := {target} {op} ...`");
                return Some(Diagnostic::error(Code::E0109, span, message).help(help));
            }
            (Some(Tok::Plus), Tok::Plus) => ("`++` is not an operator", "write `x := x + 1`"),
            (Some(Tok::Eq | Tok::Minus), Tok::Gt) => ("Theta has no arrow operators", NO_LAMBDA),
            (_, Tok::Or) => ("expected an expression, found `|`", NO_LAMBDA),
            (_, Tok::DotDot) => (
                "`..` does not make a range",
                "from 1 to 10 is the iterator `1.to(10)`; a part of a sequence is `s.subseq(at, count)`",
            ),
            (_, Tok::LBracket) => (
                "a list of values in brackets is not an expression",
                "write `sequence_of[int](.. 1, 2)`, or `array_create[int](1, .. 1, 2)` for an array",
            ),
            (_, Tok::SlashSlash) => ("`//` does not begin a comment", REMAINDER),
            _ => return None,
        };
        let joins = matches!(joined, Some(Tok::And | Tok::Plus | Tok::Eq | Tok::Minus));
        let span = before.filter(|_| joins).map_or(self.here(), |token| self.span_of(token).to(self.here()));
        Some(Diagnostic::error(Code::E0109, span, message).help(help))
    }

    /// Reports a comment as other languages write it, and leaves it: `// words`, `/* words */`.
    ///
    /// `//` is the remainder, so only words that no expression can have behind it make it a
    /// comment.
    pub(super) fn foreign_comment(&mut self, starts: bool) -> bool {
        let (mark, next, after) = (self.token(), self.ahead(1), self.ahead(2));
        let block =
            mark.tok == Tok::Slash && matches!(next.tok, Tok::Star | Tok::Power) && next.start == mark.end;
        let is_name = |token: Token| !token.new_line && token.tok == Tok::Name;
        // `a // b  c := 1` are two statements.
        let goes_on = matches!(
            self.ahead(3).tok,
            Tok::Assign | Tok::LParen | Tok::Dot | Tok::Comma | Tok::Colon | Tok::LBracket
        );
        let words = is_name(next) && is_name(after) && !goes_on;
        let line = mark.tok == Tok::SlashSlash && (starts || words);
        if !block && !line {
            return false;
        }
        let (message, help) = match block {
            true => ("`/*` does not begin a comment", "a comment begins with `%` and ends with its line"),
            false => ("`//` does not begin a comment", REMAINDER),
        };
        self.report(Diagnostic::error(Code::E0109, self.here(), message).help(help));
        let rest = &self.text[mark.start as usize..];
        let end = match rest.find("*/") {
            Some(at) if block => at + 2,
            _ => rest.find('\n').unwrap_or(rest.len()),
        };
        let end = mark.start + end as u32;
        while self.token().start < end && !self.is(Tok::EndOfFile) {
            self.bump();
        }
        true
    }

    /// Reports a statement that begins with a word of another language; the word is taken.
    ///
    /// A name that is used as one (`try := 1`, `match(x)`) is none.
    pub(super) fn foreign_word(&mut self) -> Option<Token> {
        let word = self.token();
        if word.tok != Tok::Name {
            return None;
        }
        let (_, help) = STATEMENT_WORDS.iter().find(|(foreign, _)| *foreign == self.text_of(word))?;
        let next = self.ahead(1);
        let starts_line = next.new_line || matches!(next.tok, Tok::LBrace | Tok::Colon | Tok::Name);
        let value = matches!(next.tok, Tok::Str | Tok::Int | Tok::SelfWord | Tok::True | Tok::False);
        if !(starts_line || value) || (next.tok == Tok::Colon && self.ahead(2).tok == Tok::Name) {
            return None;
        }
        // A variable of that name may stand alone, but its value would be dropped.
        let message = format!("`{}` is not a keyword of Theta", self.text_of(word));
        self.report(Diagnostic::error(Code::E0109, self.span_of(word), message).help(*help));
        self.bump();
        Some(word)
    }

    /// Reports `1..10` behind an iterator's first half, and takes it.
    pub(super) fn foreign_range(&mut self) {
        if !self.is(Tok::DotDot) {
            return;
        }
        self.expected("`do`");
        self.bump();
        self.take(Tok::Eq);
        self.expression();
    }

    /// Reports `=` where a variable gets its first value, and takes it.
    pub(super) fn equals_for_assign(&mut self, help: &str) -> bool {
        if !self.is(Tok::Eq) {
            return false;
        }
        let message = "a value is assigned with `:=`";
        self.report(Diagnostic::error(Code::E0109, self.here(), message).help(help));
        self.bump();
        true
    }
}
