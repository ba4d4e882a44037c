//! [`receive`]: the time before a session, until its client has said a `hello` that the server
//! accepts.
//!
//! The `hello` is looked at and left in the input, for the session. Until then there is no session,
//! no cache and no objects; a connection has a thread, and [`GREETING_BYTES_MAX`] of input.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bifrost_capsule::newcomers::Origin;
use bifrost_transport::{ReadError, Stream};
use bifrost_wire::interface::{Interface, Numbering};
use bifrost_wire::text::Translator;
use bifrost_wire::{Command, Decoded, ErrorNumber, Reply, decode, encode};

use crate::connections::Place;
use crate::roles::{Door, NoRole, Role};
use crate::server::Shared;
use crate::text::is_text;

/// Most bytes of a client's first command.
const GREETING_BYTES_MAX: usize = 64 << 10;
/// The time that a refused client has to read the reason.
const TOLD_WITHIN: Duration = Duration::from_millis(100);
/// A client on this machine may be a person who types, and has so many times as long.
const LOCAL_PATIENCE: u32 = 12;

/// The reason that a client hears whose connection others have replaced.
const MAKES_WAY: &str = "it has not sent `hello`, and is closed for another connection";

/// A client that is let in, and the bytes that it has sent so far.
pub(crate) struct Greeted {
    pub form: Form,
    pub input: Vec<u8>,
    /// Lines of the text form before `input`.
    pub lines: u64,
    /// The role, on a server with roles.
    pub role: Option<Arc<Role>>,
}

/// The form in which a client speaks, which its first byte tells.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Form {
    Binary,
    Text {
        /// True if the client has asked for answers in JSON.
        json: bool,
    },
}

/// The reason why a connection ends before it is a session.
#[derive(Debug)]
pub(crate) enum Ended {
    /// The client is told why.
    Refused(Refusal),
    /// The client has closed the stream, or the stream has failed: why, if it has.
    Gone(Option<String>),
}

/// An error that a client is told.
#[derive(Debug)]
pub(crate) struct Refusal {
    form: Form,
    number: ErrorNumber,
    /// The position of the command to blame, from 1; 0 for none.
    position: u64,
    text: String,
}

impl Refusal {
    /// A refusal that no command is to blame for.
    pub(crate) fn new(form: Form, number: ErrorNumber, text: impl Into<String>) -> Refusal {
        Refusal { form, number, position: 0, text: text.into() }
    }

    /// Tells the client, and logs it.
    pub(crate) fn tell(&self, stream: &mut Stream) {
        let Refusal { form, number, position, text } = self;
        tracing::info!(peer = stream.describe_peer(), error = number.name(), text, "connection.refused");
        let mut out = Vec::new();
        match form {
            Form::Binary => encode::error(&mut out, *number, *position, text),
            Form::Text { json } => {
                let mut line = String::new();
                let reply = Reply::Error { number: *number as u32, position: *position, text };
                let mut translator = translator();
                if *json {
                    translator.set_json();
                }
                translator.reply(&reply, &mut out, &mut line);
                out = line.into_bytes();
            }
        }
        // A client that does not read it finds the stream closed.
        let _ = stream.write(&out, TOLD_WITHIN);
        stream.flush();
    }
}

/// A translator that knows no interface: for a line without names.
fn translator() -> Translator {
    Translator::new(Arc::new(Numbering::new(Interface::default())))
}

/// Waits for a client's `hello`, and for its token or its role where one is required.
///
/// # Errors
/// [`Ended`]
pub(crate) fn receive(
    shared: &Shared,
    stream: &mut Stream,
    place: &Place,
    door: &Door,
) -> Result<Greeted, Ended> {
    let origin = Origin::of(stream);
    let patience = match origin {
        Origin::Local => shared.patience.hello * LOCAL_PATIENCE,
        Origin::Address(_) => shared.patience.hello,
    };
    let deadline = Instant::now() + patience;
    let mut greeted = Greeted { form: Form::Binary, input: Vec::new(), lines: 0, role: None };
    let token = loop {
        let read = stream.read(&mut greeted.input, GREETING_BYTES_MAX, deadline);
        let refuse = |number, text: String| Err(Ended::Refused(Refusal::new(greeted.form, number, text)));
        match read {
            Ok(0) => return Err(Ended::Gone(None)),
            Ok(_) if Instant::now() < deadline => {}
            Ok(_) | Err(ReadError::TimedOut) => {
                let text = format!("no `hello` has arrived within {} ms", patience.as_millis());
                return refuse(ErrorNumber::Expired, text);
            }
            Err(ReadError::Stopped) if shared.connections.is_stopping() => {
                return refuse(ErrorNumber::ShuttingDown, "the server is shutting down".to_owned());
            }
            Err(ReadError::Stopped) => return refuse(ErrorNumber::Expired, MAKES_WAY.to_owned()),
            Err(why) => return Err(Ended::Gone(Some(why.to_string()))),
        }
        if let Some(token) = greeted.look(stream)? {
            if !place.hear() {
                return Err(Ended::Refused(Refusal::new(greeted.form, ErrorNumber::Expired, MAKES_WAY)));
            }
            break token;
        }
        if greeted.input.len() > GREETING_BYTES_MAX {
            let text = format!("a `hello` has at most {GREETING_BYTES_MAX} bytes");
            return Err(greeted.blame(ErrorNumber::FrameTooLong, text));
        }
    };
    if matches!(door, Door::Open) {
        return Ok(greeted);
    }
    // A client that has a token shows it only where it is asked for, and asks so.
    if !token.is_empty() {
        place.await_turn(origin, deadline).map_err(|later| match later {
            Some(time) => greeted.blame(
                ErrorNumber::BadToken,
                format!("this address has sent wrong tokens; the next is checked in {} ms", time.as_millis()),
            ),
            None => greeted.blame(ErrorNumber::ShuttingDown, "the server is shutting down".to_owned()),
        })?;
    }
    match shared.admit(door, &stream.identity(), &token) {
        Ok(role) => Ok(Greeted { role, ..greeted }),
        Err(why) => {
            if why == NoRole::Token {
                place.count_wrong_token(origin);
            }
            shared.failed_logins.count(&why);
            if why != NoRole::Nothing {
                tracing::warn!(peer = stream.describe_peer(), %why, "login.failed");
            }
            Err(greeted.blame(ErrorNumber::BadToken, why.text()))
        }
    }
}

impl Greeted {
    fn blame(&self, number: ErrorNumber, text: String) -> Ended {
        Ended::Refused(Refusal { form: self.form, number, position: 1, text })
    }

    /// The token of the `hello`, once that is there.
    fn look(&mut self, stream: &mut Stream) -> Result<Option<String>, Ended> {
        let Some(first) = self.input.first() else { return Ok(None) };
        if is_text(*first) {
            self.form = Form::Text { json: false };
            return self.look_at_lines(stream);
        }
        self.token_of(&self.input)
    }

    /// The token of the command that `bytes` begin with, once it is whole.
    fn token_of(&self, bytes: &[u8]) -> Result<Option<String>, Ended> {
        match decode(bytes, GREETING_BYTES_MAX) {
            Ok(Decoded::Command(Command::Hello(hello), _)) => Ok(Some(hello.token.to_owned())),
            Ok(Decoded::Command(..)) => {
                Err(self.blame(ErrorNumber::OutOfOrder, "the first command must be `hello`".to_owned()))
            }
            Ok(Decoded::NeedMore(_)) => Ok(None),
            Err(error) => Err(self.blame(error.number, error.to_string())),
        }
    }

    /// The token of the first line that is no comment. A line that is malformed is answered, and
    /// left out.
    fn look_at_lines(&mut self, stream: &mut Stream) -> Result<Option<String>, Ended> {
        while let Some(length) = self.input.iter().position(|byte| *byte == b'\n') {
            let Ok(line) = std::str::from_utf8(&self.input[..length]) else {
                return Err(self.blame(ErrorNumber::BadText, "a line is not well-formed UTF-8".to_owned()));
            };
            let word = line.split_whitespace().next().unwrap_or("#");
            if !word.starts_with('#') {
                if word != "hello" {
                    let text = "the first line must be `hello 2`".to_owned();
                    return Err(self.blame(ErrorNumber::OutOfOrder, text));
                }
                let (mut command, mut answer) = (Vec::new(), String::new());
                let mut translator = translator();
                match translator.line(line.trim_end_matches('\r'), &mut command, &mut answer) {
                    Ok(_) => {
                        self.form = Form::Text { json: translator.is_json() };
                        return self.token_of(&command);
                    }
                    // A client that does not read it does not hear the next word either.
                    Err(wrong) => {
                        let answer = translator.bad_line(self.lines + 1, &wrong);
                        let _ = stream.write(answer.as_bytes(), TOLD_WITHIN);
                        stream.flush();
                    }
                }
            }
            self.input.drain(..=length);
            self.lines += 1;
        }
        Ok(None)
    }
}
