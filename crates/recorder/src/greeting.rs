//! The begin of a session: hello, welcome, and the server's interface if it is another one.
//!
//! ```text
//! hello sent --welcome, the same digest--> the recorder
//! hello sent --welcome, another digest--> describe sent --interface--> the recorder
//! any --another reply, an error of the server--> nothing
//! ```

use bifrost_wire::{Hello, Interface, Limit, Reply, VERSION, encode, op};

use crate::Source;
use crate::crossing::{LastWords, Replies};
use crate::error::{Closed, GreetError};
use crate::recorder::{Bounds, Recorder, Settings};
use crate::stubs::{Numbers, Stubs};

/// A session that is being opened. It becomes a [`Recorder`].
#[derive(Debug)]
pub struct Greeting {
    stubs: &'static Stubs,
    remap_futures: usize,
    bounds: Bounds,
    /// True if the server's interface was asked for.
    described: bool,
    questions: Vec<u8>,
    replies: Replies,
}

/// The answer to a question of the greeting.
enum Answer {
    Welcome { version: u32, same: bool },
    Interface(Interface),
}

impl Greeting {
    /// Begins a session. `client` is the client's name in the server's logs.
    pub fn new(stubs: &'static Stubs, token: &str, client: &str, settings: Settings) -> Greeting {
        let mut questions = Vec::new();
        let (digest, trace) = (stubs.digest, settings.trace);
        encode::hello(&mut questions, &Hello { version: VERSION, digest, token, client, trace });
        Greeting {
            stubs,
            remap_futures: settings.remap_futures,
            bounds: Bounds::default(),
            described: false,
            questions,
            replies: Replies::new(settings.reply_bytes_max),
        }
    }

    /// Returns the bytes to be sent now.
    pub fn bytes_to_send(&self) -> &[u8] {
        &self.questions
    }

    /// Takes the first bytes of [`Greeting::bytes_to_send`] as sent.
    pub fn sent(&mut self, bytes: usize) {
        self.questions.drain(..bytes.min(self.questions.len()));
    }

    /// Takes bytes of the server, cut anywhere. Returns the recorder when the server has answered;
    /// nothing if more bytes are to be sent or read.
    ///
    /// # Errors
    /// There is no session.
    pub fn handle_bytes<S: Source>(&mut self, bytes: &[u8]) -> Result<Option<Recorder<S>>, GreetError> {
        let Some(answer) = self.answer(bytes)? else { return Ok(None) };
        let numbers = match answer {
            Answer::Welcome { version, .. } if version != VERSION => {
                return Err(GreetError::Version { server: version, client: VERSION });
            }
            Answer::Welcome { same: false, .. } => {
                encode::plain(&mut self.questions, op::DESCRIBE);
                self.described = true;
                return Ok(None);
            }
            Answer::Welcome { .. } => Numbers::same(self.stubs),
            Answer::Interface(server) => Numbers::mapped(self.stubs, server)?,
        };
        let replies = std::mem::replace(&mut self.replies, Replies::new(0));
        Ok(Some(Recorder::new(numbers, self.bounds, replies, self.remap_futures)))
    }

    fn answer(&mut self, bytes: &[u8]) -> Result<Option<Answer>, GreetError> {
        let (bounds, described, digest) = (&mut self.bounds, self.described, self.stubs.digest);
        let taken = self.replies.next(bytes, |reply| -> Result<Answer, GreetError> {
            match reply {
                Reply::Error { number, position, text } => {
                    Err(Closed::ByServer { number, position, text: text.to_owned() }.into())
                }
                Reply::Welcome(welcome) if !described => {
                    for (number, value) in welcome.limits.iter() {
                        if let Some(limit) = Limit::from_number(number) {
                            bounds.set(limit, value);
                        }
                    }
                    Ok(Answer::Welcome { version: welcome.version, same: welcome.digest == digest })
                }
                Reply::Interface(json) if described => Ok(Answer::Interface(Interface::from_json(json)?)),
                _ if described => Err(Closed::WrongReply("an interface was expected").into()),
                _ => Err(Closed::WrongReply("a welcome was expected").into()),
            }
        });
        let Some(answer) = taken.map_err(Closed::from)? else { return Ok(None) };
        let answer = answer?;
        // Each of these questions is asked alone, so nothing can follow its answer.
        if !self.replies.is_empty() {
            return Err(Closed::WrongReply("more than one reply").into());
        }
        Ok(Some(answer))
    }

    /// Looks for the reason that a server gives before it closes a session, in bytes that can still
    /// be read when none can be written.
    pub fn handle_last_bytes(&mut self, bytes: &[u8]) -> LastWords {
        self.replies.last_words(bytes)
    }
}
