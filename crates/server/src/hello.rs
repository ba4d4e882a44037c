//! [`Greeting`]: the time before a session, until its client has said a `hello` that the server
//! accepts.
//!
//! The `hello` is looked at and left in the input, for the session. Until then there is no session,
//! no cache and no objects; a connection has at most [`GREETING_BYTES_MAX`] of input.

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

    /// Tells the client, and logs it. A client in a handshake of TLS is only cut off.
    pub(crate) fn tell(&self, stream: &mut Stream) {
        let Refusal { form, number, position, text } = self;
        tracing::info!(peer = stream.describe_peer(), error = number.name(), text, "connection.refused");
        // The end of a handshake is not awaited for a refusal.
        if !stream.is_established() {
            return;
        }
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
        // Nothing was sent before, so it fits.
        let _ = stream.try_write(&out);
    }
}

/// A translator that knows no interface: for a line without names.
fn translator() -> Translator {
    Translator::new(Arc::new(Numbering::new(Interface::default())))
}

/// A connection whose client has not said a `hello` that the server accepts.
pub(crate) struct Greeting {
    greeted: Greeted,
    origin: Origin,
    patience: Duration,
    deadline: Instant,
    /// The token that the client has sent, and the time at which it may be looked at.
    shown: Option<(String, Instant)>,
}

/// The next step of a greeting.
pub(crate) enum Step {
    /// It waits for bytes until then.
    Waits(Instant),
    /// The token may be looked at then.
    WaitsForTurn(Instant),
    /// The client is let in.
    LetIn(Greeted),
}

impl Greeting {
    /// The greeting of a connection that has just come.
    pub(crate) fn new(shared: &Shared, stream: &Stream) -> Greeting {
        let origin = Origin::of(stream);
        let patience = match origin {
            Origin::Local => shared.patience.hello * LOCAL_PATIENCE,
            Origin::Address(_) => shared.patience.hello,
        };
        let greeted = Greeted { form: Form::Binary, input: Vec::new(), lines: 0, role: None };
        Greeting { greeted, origin, patience, deadline: Instant::now() + patience, shown: None }
    }

    /// Looks for the client's `hello`, and at its token or its role where one is required.
    ///
    /// # Errors
    /// [`Ended`]
    pub(crate) fn go_on(
        &mut self,
        shared: &Shared,
        stream: &mut Stream,
        place: &Place,
        door: &Door,
    ) -> Result<Step, Ended> {
        if self.shown.is_none() {
            let Some(token) = self.read(shared, stream)? else { return Ok(Step::Waits(self.deadline)) };
            if !place.hear() {
                return Err(Ended::Refused(Refusal::new(self.greeted.form, ErrorNumber::Expired, MAKES_WAY)));
            }
            let turn = match door {
                // A client that has a token shows it only where it is asked for, and asks so.
                Door::Token(_) | Door::Roles if !token.is_empty() => {
                    place.turn_of(self.origin, self.deadline).map_err(|time| {
                        let text = format!(
                            "this address has sent wrong tokens; the next is checked in {} ms",
                            time.as_millis()
                        );
                        self.greeted.blame(ErrorNumber::BadToken, text)
                    })?
                }
                _ => Instant::now(),
            };
            self.shown = Some((token, turn));
        }
        let Some((token, turn)) = &self.shown else { return Ok(Step::Waits(self.deadline)) };
        if stream.is_stopped() {
            return Err(self
                .greeted
                .blame(ErrorNumber::ShuttingDown, "the server is shutting down".to_owned()));
        }
        if *turn > Instant::now() {
            return Ok(Step::WaitsForTurn(*turn));
        }
        let role = match shared.admit(door, &stream.identity(), token) {
            Ok(role) => role,
            Err(why) => {
                if why == NoRole::Token {
                    place.count_wrong_token(self.origin);
                }
                shared.failed_logins.count(&why);
                if why != NoRole::Nothing {
                    tracing::warn!(peer = stream.describe_peer(), %why, "login.failed");
                }
                return Err(self.greeted.blame(ErrorNumber::BadToken, why.text()));
            }
        };
        let Greeted { form, input, lines, .. } = &mut self.greeted;
        Ok(Step::LetIn(Greeted { form: *form, input: std::mem::take(input), lines: *lines, role }))
    }

    /// Reads until the `hello` is there, and returns its token; or until nothing is there to be
    /// read.
    fn read(&mut self, shared: &Shared, stream: &mut Stream) -> Result<Option<String>, Ended> {
        loop {
            let greeted = &mut self.greeted;
            let read = stream.try_read(&mut greeted.input, GREETING_BYTES_MAX);
            let refuse = |number, text: String| Err(Ended::Refused(Refusal::new(greeted.form, number, text)));
            match read {
                Ok(Some(0)) => return Err(Ended::Gone(None)),
                Ok(_) if Instant::now() >= self.deadline => {
                    let text = format!("no `hello` has arrived within {} ms", self.patience.as_millis());
                    return refuse(ErrorNumber::Expired, text);
                }
                Ok(None) => {
                    // Thousands may wait; one that sends byte by byte does not copy all each time.
                    if greeted.input.capacity() > 2 * greeted.input.len() {
                        greeted.input.shrink_to_fit();
                    }
                    return Ok(None);
                }
                Ok(Some(_)) => {}
                Err(ReadError::Stopped) if shared.connections.is_stopping() => {
                    return refuse(ErrorNumber::ShuttingDown, "the server is shutting down".to_owned());
                }
                Err(ReadError::Stopped) => return refuse(ErrorNumber::Expired, MAKES_WAY.to_owned()),
                Err(why) => return Err(Ended::Gone(Some(why.to_string()))),
            }
            if let Some(token) = greeted.look(stream)? {
                return Ok(Some(token));
            }
            if greeted.input.len() > GREETING_BYTES_MAX {
                let text = format!("a `hello` has at most {GREETING_BYTES_MAX} bytes");
                return Err(greeted.blame(ErrorNumber::FrameTooLong, text));
            }
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
                    Err(wrong) => {
                        let answer = translator.bad_line(self.lines + 1, &wrong);
                        if !matches!(stream.try_write(answer.as_bytes()), Ok(sent) if sent == answer.len()) {
                            return Err(Ended::Gone(Some("it does not read the answers".to_owned())));
                        }
                    }
                }
            }
            self.input.drain(..=length);
            self.lines += 1;
        }
        Ok(None)
    }
}
