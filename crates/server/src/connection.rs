//! One connection: bytes from the stream to the session and back.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bifrost_session::Session;
use bifrost_transport::{Deadline, ReadError, Stream, WriteError};
use bifrost_wire::{ErrorNumber, Limit};

use crate::server::Shared;
use crate::space::Space;
use crate::text::{TextForm, is_text};

/// What a client must at least get through in a second, in bytes.
const PROGRESS_BYTES: u64 = 1024;
/// Most bytes taken from the stream at once.
const READ_BYTES: usize = 256 << 10;

/// Why a connection ended.
enum End {
    /// The session said so.
    Session,
    /// The client closed the stream, or died.
    Closed,
    /// The client was too slow.
    Slow,
    /// The server is stopping.
    Stopped,
    /// The stream failed.
    Failed(String),
}

impl std::fmt::Display for End {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            End::Session => f.write_str("session"),
            End::Closed => f.write_str("closed"),
            End::Slow => f.write_str("slow"),
            End::Stopped => f.write_str("stopped"),
            End::Failed(why) => f.write_str(why),
        }
    }
}

/// Serves a connection to its end.
pub(crate) fn serve(shared: &Shared, space: &Space, stream: &mut Stream, mut session: Session, number: u64) {
    let peer = stream.describe_peer();
    tracing::info!(session = number, peer, "session.open");
    let mut form = Form::Unknown;
    let ended = catch_unwind(AssertUnwindSafe(|| run(shared, space, stream, &mut session, &mut form)));
    let end = match ended {
        Ok(end) => end,
        Err(_) => {
            // Ours, not the client's: told to both, and the other sessions go on.
            tracing::error!(session = number, "session.fault");
            session.clear_output();
            session.fail(ErrorNumber::Internal, "the server failed while it worked for this session");
            End::Session
        }
    };
    match &end {
        End::Slow => session.fail(ErrorNumber::Expired, "the session was idle or slow for too long"),
        End::Stopped => session.fail(ErrorNumber::ShuttingDown, "the server is going down"),
        _ => {}
    }
    let output = form.output(&mut session);
    if !output.is_empty() && !matches!(end, End::Closed) {
        // The client may be gone already: then nobody misses it.
        let _ = stream.write(output, Duration::from_secs(1));
        stream.flush();
    }
    let c = session.counters();
    tracing::info!(
        session = number,
        end = %end,
        crossings = c.crossings,
        calls = c.calls,
        structures = c.structures,
        prepared_hits = c.prepared_hits,
        failures = c.failures,
        "session.close"
    );
}

/// The form in which the client speaks, which its first byte tells.
enum Form {
    Unknown,
    Binary,
    Text(Box<TextForm>),
}

impl Form {
    fn settle(&mut self, shared: &Shared, first: u8) {
        if matches!(self, Form::Unknown) {
            *self = match is_text(first) {
                true => Form::Text(Box::new(TextForm::new(
                    Arc::new(shared.tables.numbering().clone()),
                    shared.limits,
                ))),
                false => Form::Binary,
            };
        }
    }

    /// Gives the session what has come; returns how many bytes were used.
    fn handle(&mut self, space: &Space, session: &mut Session, bytes: &[u8]) -> usize {
        match self {
            Form::Text(text) => text.handle(session, &mut space.lock(), bytes),
            _ => session.handle(&mut space.lock(), bytes),
        }
    }

    /// What is to be sent.
    fn output<'o>(&'o mut self, session: &'o mut Session) -> &'o [u8] {
        match self {
            Form::Text(text) => text.output(session),
            _ => session.output(),
        }
    }

    /// Forgets what was sent.
    fn clear_output(&mut self, session: &mut Session) {
        match self {
            Form::Text(text) => text.clear_output(),
            _ => session.clear_output(),
        }
    }

    /// Whether there is work left in bytes that have come.
    fn has_more(&self) -> bool {
        matches!(self, Form::Text(text) if text.has_more())
    }
}

fn run(shared: &Shared, space: &Space, stream: &mut Stream, session: &mut Session, form: &mut Form) -> End {
    let idle = Duration::from_millis(shared.limits.get(Limit::IdleMs));
    let transaction_idle = Duration::from_millis(shared.limits.get(Limit::TransactionIdleMs));
    let mut input: Vec<u8> = Vec::with_capacity(READ_BYTES);
    let mut done = 0;
    let patience = shared.patience;
    let hello = if stream.describe_peer().starts_with("tcp") { patience.hello } else { patience.hello * 12 };
    let hello = Instant::now() + hello;
    // When the command began whose rest is missing.
    let mut partial: Option<Instant> = None;
    // Since when the client is waited for.
    let mut since = Instant::now();
    loop {
        let deadline = match partial {
            _ if !session.greeted() => Deadline::At(hello),
            Some(since) => {
                let bytes = (input.len() - done) as u64;
                let time = patience.command + Duration::from_millis(bytes * 1000 / PROGRESS_BYTES);
                Deadline::At(since + time)
            }
            None if session.in_transaction() => Deadline::At(since + idle.min(transaction_idle)),
            None => Deadline::At(since + idle),
        };
        match stream.read(&mut input, READ_BYTES, deadline) {
            Ok(0) => return End::Closed,
            Ok(_) => {}
            Err(ReadError::TimedOut) if session.in_transaction() && since.elapsed() < idle => {
                session.expire(&mut space.lock());
                continue;
            }
            Err(ReadError::TimedOut) => return End::Slow,
            Err(ReadError::Stopped) => return End::Stopped,
            Err(e) => return End::Failed(e.to_string()),
        }
        form.settle(shared, input[0]);
        loop {
            done += form.handle(space, session, &input[done..]);
            if let Some(end) = answer(stream, session, form, patience.unread) {
                return end;
            }
            if let Some(pause) = session.pause() {
                // Others got in between of the batch: it runs again when they are done.
                std::thread::sleep(pause);
            } else if !form.has_more() {
                break;
            }
        }
        if done == input.len() {
            input.clear();
            done = 0;
            if input.capacity() > 4 * READ_BYTES {
                input.shrink_to(READ_BYTES);
            }
            partial = None;
        } else if session.inside_structure() {
            partial = None;
        } else {
            partial.get_or_insert_with(Instant::now);
        }
        since = Instant::now();
        // What is left begins a command: keep it at the front, so that the buffer does not grow with the session.
        if done > READ_BYTES {
            input.drain(..done);
            done = 0;
        }
    }
}

/// Sends what there is to say. Returns how the connection ends, if it does.
fn answer(stream: &mut Stream, session: &mut Session, form: &mut Form, unread: Duration) -> Option<End> {
    let output = form.output(session);
    if !output.is_empty() {
        match stream.write(output, unread) {
            Ok(()) => stream.flush(),
            Err(WriteError::TimedOut) => return Some(End::Slow),
            Err(WriteError::Stopped) => return Some(End::Stopped),
            Err(WriteError::Closed) => return Some(End::Closed),
            Err(e) => return Some(End::Failed(e.to_string())),
        }
        form.clear_output(session);
    }
    session.ended().then_some(End::Session)
}
