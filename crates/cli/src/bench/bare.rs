//! A session over the wire form alone: batches are bytes that are made once and sent again and
//! again.
//!
//! Read [`Bare`] first. It blocks; [`Bare::into_stream`] gives its stream to a load generator
//! ([`super::load`]). The numbers of methods are the server's, from its interface description.

use std::time::Duration;

use bifrost_transport::{Address, ConnectOptions, Stream};
use bifrost_wire::interface::Numbering;
use bifrost_wire::reply::FlushedReply;
use bifrost_wire::{
    Arg, DecodedReply, Hello, Interface, MethodNumber, Outcome, REPLY_BYTES_MAX, Ref, Reply, VERSION,
    decode_reply, encode, op,
};

use super::common::Failed;

/// The longest wait for one answer.
pub const ANSWER: Duration = Duration::from_secs(60);
/// The most bytes of one read.
pub const READ_BYTES: usize = 1 << 16;

/// A session.
pub struct Bare {
    stream: Stream,
    received: Vec<u8>,
}

impl Bare {
    /// Opens a session, and waits for the server's welcome.
    ///
    /// # Errors
    /// The server is not reached, or refuses.
    pub fn connect(address: &Address) -> Result<Bare, Failed> {
        let options = ConnectOptions { timeout: ANSWER, ..ConnectOptions::default() };
        let mut bare = Bare { stream: Stream::connect(address, &options)?, received: Vec::new() };
        let mut hello = Vec::new();
        let client = "bifrost bench";
        encode::hello(
            &mut hello,
            &Hello { version: VERSION, digest: [0; 32], token: "", client, trace: None },
        );
        bare.ask(&hello, |reply, _| match reply {
            Reply::Welcome(_) => Ok(()),
            other => Err(unexpected(&other)),
        })?;
        Ok(bare)
    }

    /// Sends commands of which one is answered, and returns the result of `take`, which gets the
    /// answer and its length in bytes.
    ///
    /// # Errors
    /// There is no answer, or `take` does not accept it.
    pub fn ask<T>(
        &mut self,
        commands: &[u8],
        take: impl FnOnce(Reply<'_>, usize) -> Result<T, Failed>,
    ) -> Result<T, Failed> {
        self.stream.write(commands, ANSWER)?;
        self.stream.flush();
        loop {
            if let DecodedReply::Reply(reply, length) = decode_reply(&self.received, REPLY_BYTES_MAX)? {
                let taken = take(reply, length)?;
                self.received.drain(..length);
                return Ok(taken);
            }
            if self.stream.read(&mut self.received, READ_BYTES, ANSWER)? == 0 {
                return Err("the server has closed the session".into());
            }
        }
    }

    /// Asks for the numbers of the interface.
    ///
    /// # Errors
    /// The answer is no interface.
    pub fn numbering(&mut self) -> Result<Numbering, Failed> {
        let mut describe = Vec::new();
        encode::plain(&mut describe, op::DESCRIBE);
        self.ask(&describe, |reply, _| match reply {
            Reply::Interface(json) => Ok(Numbering::new(Interface::from_json(json)?)),
            other => Err(unexpected(&other)),
        })
    }

    /// Runs a batch, and returns the handle that is its first outcome.
    ///
    /// # Errors
    /// The batch fails, or gives no object.
    pub fn handle(&mut self, batch: &[u8]) -> Result<Ref, Failed> {
        self.ask(batch, |reply, _| match succeeded(&reply)?.outcomes().next() {
            Some(Outcome::Handle { handle, .. }) => Ok(handle),
            other => Err(format!("no object but {other:?}").into()),
        })
    }

    /// Looks an object up, and calls a method that returns another.
    ///
    /// # Errors
    /// There is no such object, or the call fails.
    pub fn find(&mut self, name: &str, method: MethodNumber, arguments: &[Arg<'_>]) -> Result<Ref, Failed> {
        let mut batch = Vec::new();
        encode::lookup(&mut batch, name, None);
        encode::call(&mut batch, method, Ref::future(1), arguments);
        encode::plain(&mut batch, op::COMMIT);
        encode::flush(&mut batch, [2], false);
        self.handle(&batch)
    }

    /// Returns its stream.
    pub fn into_stream(self) -> Stream {
        self.stream
    }
}

/// Returns the answer to a batch in which nothing has failed.
///
/// # Errors
/// Something has, or it is another reply.
pub fn succeeded<'a>(reply: &Reply<'a>) -> Result<FlushedReply<'a>, Failed> {
    match reply {
        Reply::Flushed(flushed) => match flushed.exceptions().next() {
            None => Ok(*flushed),
            Some(exception) => Err(format!("a call has failed: {:?}", exception.kind).into()),
        },
        other => Err(unexpected(other)),
    }
}

fn unexpected(reply: &Reply<'_>) -> Failed {
    match reply {
        Reply::Error { text, .. } => format!("the server says: {text}").into(),
        other => format!("an unexpected answer: {other:?}").into(),
    }
}

/// Returns the number of a method.
///
/// # Errors
/// The interface does not have it.
pub fn method(numbering: &Numbering, ty: &str, name: &str) -> Result<MethodNumber, Failed> {
    let found = numbering.find_type(ty).and_then(|number| numbering.find_method(number, name));
    Ok(found.ok_or_else(|| format!("the interface has no {ty}.{name}"))?)
}
