//! One connection: bytes from the stream to the session and back.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use bifrost_session::Session;
use bifrost_transport::{ReadError, Stream, WriteError};
use bifrost_wire::{ErrorNumber, Limit};

use crate::server::Shared;

/// How long a client may take for its `hello`.
const HELLO_WITHIN: Duration = Duration::from_secs(5);
/// How long a client may take for a command that it began, besides the time for its bytes.
const COMMAND_WITHIN: Duration = Duration::from_secs(5);
/// What a client must at least get through in a second, in bytes.
const PROGRESS_BYTES: u64 = 1024;
/// How long a client may leave replies unread.
const READ_WITHIN: Duration = Duration::from_secs(10);
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
pub(crate) fn serve(shared: &Shared, stream: &mut Stream, mut session: Session, number: u64) {
    let peer = stream.describe_peer();
    tracing::info!(session = number, peer, "session.open");
    let ended = catch_unwind(AssertUnwindSafe(|| run(shared, stream, &mut session)));
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
    if !session.output().is_empty() && !matches!(end, End::Closed) {
        // The client may be gone already: then nobody misses it.
        let _ = stream.write(session.output(), Some(Instant::now() + Duration::from_secs(1)));
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

fn run(shared: &Shared, stream: &mut Stream, session: &mut Session) -> End {
    let idle = Duration::from_millis(shared.limits.get(Limit::IdleMs));
    let mut input: Vec<u8> = Vec::with_capacity(READ_BYTES);
    let mut done = 0;
    let opened = Instant::now();
    // When the command began whose rest is missing.
    let mut partial: Option<Instant> = None;
    loop {
        let deadline = match partial {
            _ if !session.greeted() => opened + HELLO_WITHIN,
            Some(since) => {
                let bytes = (input.len() - done) as u64;
                since + COMMAND_WITHIN + Duration::from_millis(bytes * 1000 / PROGRESS_BYTES)
            }
            None => Instant::now() + idle,
        };
        match stream.read(&mut input, READ_BYTES, Some(deadline)) {
            Ok(0) => return End::Closed,
            Ok(_) => {}
            Err(ReadError::TimedOut) => return End::Slow,
            Err(ReadError::Stopped) => return End::Stopped,
            Err(e) => return End::Failed(e.to_string()),
        }
        done += session.handle(&mut shared.space.lock(), &input[done..]);
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
        // What is left begins a command: keep it at the front, so that the buffer does not grow with the session.
        if done > READ_BYTES {
            input.drain(..done);
            done = 0;
        }
        if !session.output().is_empty() {
            match stream.write(session.output(), Some(Instant::now() + READ_WITHIN)) {
                Ok(()) => stream.flush(),
                Err(WriteError::TimedOut) => return End::Slow,
                Err(WriteError::Stopped) => return End::Stopped,
                Err(WriteError::Closed) => return End::Closed,
                Err(e) => return End::Failed(e.to_string()),
            }
            session.clear_output();
        }
        if session.ended() {
            return End::Session;
        }
    }
}
