//! The check of exported names: a client within the server looks them up.
//!
//! The client has a session like any other, over a socket pair, with the rights of a server without
//! roles. So a name is exported if a client finds it, be it a name of the root directory or that of
//! an actor.

use std::time::{Duration, Instant};

use bifrost_trader::Export;
use bifrost_transport::Stream;
use bifrost_wire::interface::Numbering;
use bifrost_wire::reply::ExceptionKind;
use bifrost_wire::{DecodedReply, Hello, Reply, VERSION, decode_reply, encode};

/// The time that the look-up of all names may take.
const WITHIN: Duration = Duration::from_secs(30);
/// Most bytes of the reply.
const REPLY_BYTES_MAX: usize = 1 << 20;

/// Looks the names up, over a stream to the server.
///
/// # Errors
/// A sentence about the first export that no client would find.
pub(super) fn check(stream: Stream, numbering: &Numbering, exports: &[Export]) -> Result<(), String> {
    let mut out = Vec::new();
    let hello = Hello {
        version: VERSION,
        digest: *numbering.digest(),
        token: "",
        client: "bifrost-exports",
        trace: None,
    };
    encode::hello(&mut out, &hello);
    for export in exports {
        let Export { service, name, .. } = export;
        let ty = numbering.find_type(service).ok_or_else(|| {
            format!("`{name}` cannot be exported: the program has no remote type `{service}`")
        })?;
        encode::lookup(&mut out, name, Some(ty));
    }
    encode::flush(&mut out, [], false);
    let why = ask(stream, &out)?;
    match why {
        None => Ok(()),
        Some((position, why)) => {
            let export = exports.get((position as usize).saturating_sub(1));
            let (name, service) = export.map_or(("", ""), |export| (&*export.name, &*export.service));
            Err(format!("`{name}` cannot be exported as `{service}`: {why}"))
        }
    }
}

/// Sends commands, and returns the first failure of their batch: its position and its text.
fn ask(mut stream: Stream, commands: &[u8]) -> Result<Option<(u32, String)>, String> {
    let end = Instant::now() + WITHIN;
    stream.write(commands, Some(end)).map_err(|why| why.to_string())?;
    stream.flush();
    let (mut input, mut done) = (Vec::new(), 0);
    loop {
        match decode_reply(&input[done..], REPLY_BYTES_MAX).map_err(|why| why.to_string())? {
            DecodedReply::Reply(Reply::Flushed(flushed), _) => {
                let first = flushed.exceptions().next().map(|exception| {
                    let text = match exception.kind {
                        ExceptionKind::Refused { text, .. } => text.to_owned(),
                        ExceptionKind::Signal { name, .. } => format!("it signals `{name}`"),
                        ExceptionKind::Unhandled { .. } => "it was not looked up".to_owned(),
                    };
                    (exception.call, text)
                });
                return Ok(first);
            }
            DecodedReply::Reply(Reply::Error { text, .. }, _) => return Err(text.to_owned()),
            DecodedReply::Reply(_, length) => done += length,
            _ => {
                if stream.read(&mut input, REPLY_BYTES_MAX, Some(end)).map_err(|why| why.to_string())? == 0 {
                    return Err("the session of the exports has ended".to_owned());
                }
            }
        }
    }
}
