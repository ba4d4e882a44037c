//! One connection: bytes from the stream to the session and back.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bifrost_runtime::HeapStats;
use bifrost_session::{Session, Welcome};
use bifrost_transport::{Deadline, ReadError, Stream, WriteError};
use bifrost_wire::{ErrorNumber, Limit};

use crate::connections::Place;
use crate::hello::{self, Ended, Greeted, Refusal};
use crate::server::Shared;
use crate::space::Space;
use crate::text::TextForm;

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

/// Serves a connection to its end: waits for its `hello`, and then runs its session.
pub(crate) fn serve(shared: Arc<Shared>, mut stream: Stream, mut place: Place, token: Option<&str>) {
    let greeting = AssertUnwindSafe(|| hello::receive(&shared, &mut stream, &place, token));
    let ended = match catch_unwind(greeting) {
        Ok(Ok(greeted)) => match open(&shared, &stream, &mut place, greeted.form) {
            Ok(opened) => {
                let took = run_session(&shared, stream, greeted, opened);
                drop(shared);
                return place.leave(took);
            }
            Err(refusal) => Ended::Refused(refusal),
        },
        Ok(Err(ended)) => ended,
        Err(_) => Ended::Refused(Refusal::new(hello::Form::Binary, ErrorNumber::Internal, FAULT)),
    };
    match ended {
        Ended::Refused(refusal) => refusal.tell(&mut stream),
        Ended::Gone(why) => tracing::debug!(peer = stream.describe_peer(), why, "connection.gone"),
    }
    drop((stream, shared));
    drop(place);
}

/// A client that is told this is not to blame.
const FAULT: &str = "the server failed while it worked for this session";

/// A session that has a place, its objects and their context.
struct Opened {
    number: u64,
    space: Arc<Space>,
    session: Session,
}

/// Gives a client that has said `hello` the place of a session.
fn open(shared: &Shared, stream: &Stream, place: &mut Place, form: hello::Form) -> Result<Opened, Refusal> {
    let number = place.open_session(stream).map_err(|most| {
        tracing::warn!(sessions_max = most, "session.refused");
        let text = format!("{most} sessions are open, and that is the limit (sessions_max)");
        Refusal::new(form, ErrorNumber::TooManySessions, text)
    })?;
    if shared.memory.is_full() {
        let most = shared.memory.limit_bytes();
        tracing::warn!(server_heap_bytes_max = most, "session.refused");
        let text = format!(
            "the objects of all sessions have {most} bytes, and that is the limit (server_heap_bytes_max)"
        );
        return Err(Refusal::new(form, ErrorNumber::TooManySessions, text));
    }
    let (space, cache) = shared.objects.space().map_err(|error| {
        tracing::warn!(%error, "session.refused");
        Refusal::new(form, ErrorNumber::Internal, "there is no room for the session's objects")
    })?;
    if let Some(hosts) = &shared.hosts {
        hosts.lock().enter(&space, stream);
    }
    place.runs_in(&space);
    let server = concat!("bifrost ", env!("CARGO_PKG_VERSION")).to_owned();
    let session = Session::new(shared.tables, shared.limits, Welcome { server, session: number }, cache);
    Ok(Opened { number, space, session })
}

/// Runs a session to its end, and returns the figures of its heap.
fn run_session(shared: &Shared, mut stream: Stream, greeted: Greeted, opened: Opened) -> HeapStats {
    let Opened { number, space, mut session } = opened;
    let peer = stream.describe_peer();
    tracing::info!(session = number, peer, "session.open");
    let mut form = match greeted.form {
        hello::Form::Binary => Form::Binary,
        hello::Form::Text => {
            let numbering = Arc::new(shared.tables.numbering().clone());
            Form::Text(Box::new(TextForm::new(numbering, shared.limits)))
        }
    };
    let input = greeted.input;
    let work = || run(shared, &space, &mut stream, &mut session, &mut form, input);
    let end = match catch_unwind(AssertUnwindSafe(work)) {
        Ok(end) => end,
        Err(_) => {
            // Ours, not the client's: told to both, and the other sessions go on.
            tracing::error!(session = number, "session.fault");
            session.clear_output();
            session.fail(ErrorNumber::Internal, FAULT);
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
    drop((session, stream));
    space.lock().post_messages();
    space.lock().heap_stats().past()
}

/// The form in which the client speaks.
enum Form {
    Binary,
    Text(Box<TextForm>),
}

impl Form {
    /// Gives the session what has come; returns how many bytes were used.
    fn handle(&mut self, space: &Space, session: &mut Session, bytes: &[u8]) -> usize {
        match self {
            Form::Text(text) => text.handle(session, &mut space.lock(), bytes),
            Form::Binary => session.handle(&mut space.lock(), bytes),
        }
    }

    /// What is to be sent.
    fn output<'o>(&'o mut self, session: &'o mut Session) -> &'o [u8] {
        match self {
            Form::Text(text) => text.output(session),
            Form::Binary => session.output(),
        }
    }

    /// Forgets what was sent.
    fn clear_output(&mut self, session: &mut Session) {
        match self {
            Form::Text(text) => text.clear_output(),
            Form::Binary => session.clear_output(),
        }
    }

    /// Whether there is work left in bytes that have come.
    fn has_more(&self) -> bool {
        matches!(self, Form::Text(text) if text.has_more())
    }

    /// True if the bytes that were not used up begin a command whose rest is missing. Those of an
    /// open structure are whole commands.
    fn is_unfinished(&self, session: &Session, unused: usize) -> bool {
        match self {
            Form::Text(_) => unused > 0,
            Form::Binary => unused > session.scanned(),
        }
    }
}

/// The times by which a client must have sent something. Bytes renew none of them: only whole
/// commands do.
struct Times {
    idle: Duration,
    transaction_idle: Duration,
    command: Duration,
    /// When the client sent its last whole command, or was answered.
    since: Instant,
    /// When the command began whose rest is missing.
    partial: Option<Instant>,
}

impl Times {
    /// When the session ends if no command comes. `unused` bytes begin one.
    fn end(&self, unused: usize) -> Instant {
        let idle = self.since + self.idle;
        let time = self.command + Duration::from_millis(unused as u64 * 1000 / PROGRESS_BYTES);
        self.partial.map_or(idle, |partial| idle.min(partial + time))
    }

    /// When a transaction is aborted if no command comes.
    fn transaction_end(&self) -> Instant {
        self.since + self.transaction_idle
    }
}

fn run(
    shared: &Shared,
    space: &Space,
    stream: &mut Stream,
    session: &mut Session,
    form: &mut Form,
    mut input: Vec<u8>,
) -> End {
    let patience = shared.patience;
    let mut times = Times {
        idle: Duration::from_millis(shared.limits.get(Limit::IdleMs)),
        transaction_idle: Duration::from_millis(shared.limits.get(Limit::TransactionIdleMs)),
        command: patience.command,
        since: Instant::now(),
        partial: None,
    };
    let mut done = 0;
    loop {
        let (commands, mut answered) = (session.commands(), false);
        loop {
            done += form.handle(space, session, &input[done..]);
            answered |= !form.output(session).is_empty();
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
        let unused = input.len() - done;
        if unused == 0 {
            input.clear();
            done = 0;
            if input.capacity() > 4 * READ_BYTES {
                input.shrink_to(READ_BYTES);
            }
        }
        let now = Instant::now();
        if answered || session.commands() != commands {
            (times.since, times.partial) = (now, None);
        }
        match form.is_unfinished(session, unused) {
            true => times.partial = times.partial.or(Some(now)),
            false => times.partial = None,
        }
        // What is left begins a command: keep it at the front, so that the buffer does not grow with the session.
        if done > READ_BYTES {
            input.drain(..done);
            done = 0;
        }
        loop {
            let end = times.end(unused);
            let expires = session.in_transaction().then(|| times.transaction_end());
            let deadline = Deadline::At(expires.map_or(end, |expires| expires.min(end)));
            match stream.read(&mut input, READ_BYTES, deadline) {
                Ok(0) => return End::Closed,
                Ok(_) => break,
                Err(ReadError::TimedOut) if Instant::now() < end => session.expire(&mut space.lock()),
                Err(ReadError::TimedOut) => return End::Slow,
                Err(ReadError::Stopped) => return End::Stopped,
                Err(e) => return End::Failed(e.to_string()),
            }
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
