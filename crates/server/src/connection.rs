//! One connection: bytes from the stream to the session and back.
//!
//! Read [`Connection`] first: the work of a job, which a worker runs when something has happened
//! (`bifrost_workers`). This module knows the forms of bytes and the time limits of clients, and no
//! commands.
//!
//! ```text
//! (http.rs) --> greeting (hello.rs) --> session --> closing --> over
//!                                          |
//!    work --> answer --> (pause) --> read --> rest, or work
//! ```
//!
//! 1. A connection waits for its `hello`. Where the listener has pages, it speaks HTTP before, and
//!    becomes a websocket.
//! 2. [`open`] gives its client the place of a session, or a refusal.
//! 3. [`Running::go_on`] moves bytes until there is nothing to do: then the job rests. Or until an
//!    [`End`] is reached: the session, the client, the server, a slow client, a stream that fails.
//! 4. What is left to be sent is sent, for a short time.
//!
//! A connection that rests has its session and its stream, and no buffer of input. The session owns
//! its replies until they are written.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bifrost_session::{LoggedFailure, Session, Welcome};
use bifrost_transport::{PeerSilent, ReadError, Stream, Want, WriteError};
use bifrost_wire::ErrorNumber;
use bifrost_workers::{Events, Handle, Next, Work};

use crate::bell::Bell;
use crate::connections::Place;
use crate::context::Context;
use crate::form::Form;
use crate::hello::{self, Ended, Greeted, Greeting, Refusal};
use crate::http::{self, Http};
use crate::metrics::{Meter, Rest};
use crate::roles::{Door, Role, Seat};
use crate::server::{Entrance, Shared};
use crate::text::TextForm;
use crate::times::Times;

/// Most bytes taken from the stream at once.
pub(crate) const READ_BYTES: usize = 256 << 10;
/// The time after which a session lets go of memory whose client is silent.
const SILENCE: Duration = Duration::from_millis(500);
/// The time that the last words to a client may take.
const CLOSING: Duration = Duration::from_secs(1);

/// The reason why a connection ended.
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

/// A connection: the work of a job.
pub(crate) struct Connection {
    stage: Stage,
    stream: Stream,
    handle: Handle,
    bell: Arc<Bell>,
    entrance: Arc<Entrance>,
    /// True while the job is rung when the socket has room.
    watches_room: bool,
    /// The reason why the session rests, while the job does.
    rests: Option<Rest>,
    shared: Arc<Shared>,
    /// Given up last, when all else has been let go of, the store above all.
    place: Place,
}

/// The state of a connection.
enum Stage {
    Http(Box<Http>),
    Greeting(Greeting),
    Session(Box<Running>),
    Over,
}

impl Stage {
    /// Ends it, since the peer is gone.
    fn end(&mut self, silent: PeerSilent) {
        match self {
            Stage::Session(running) => drop(running.close(End::Failed(silent.to_string()))),
            stage => *stage = Stage::Over,
        }
    }
}

/// The next step of a connection.
enum Step {
    /// It waits for something of the client, or until then.
    Rest(Want, Option<Instant>),
    /// Its state has changed.
    GoOn,
    /// The session has ended.
    Close(End),
    /// All is done.
    Over,
}

impl Connection {
    /// Makes the connection of a client that has just come.
    ///
    /// # Errors
    /// The system has no means to watch its stream.
    pub(crate) fn new(
        shared: Arc<Shared>,
        stream: Stream,
        place: Place,
        entrance: Arc<Entrance>,
        handle: &Handle,
    ) -> std::io::Result<Connection> {
        let bell = Arc::new(Bell::default());
        bell.set_handle(handle.clone());
        let hears = bell.clone();
        handle.on_end(move |end| hears.note_end(end == bifrost_workers::End::HungUp));
        let hears = bell.clone();
        let closed = stream.closed();
        stream.set_waker(move || {
            if closed.is_closed() {
                hears.note_end(true);
            }
            hears.ring();
        });
        handle.watch(stream.descriptor())?;
        let stage = match &entrance.pages {
            Some(pages) => Stage::Http(Box::new(Http::new(&shared, &stream, pages))),
            None => Stage::Greeting(Greeting::new(&shared, &stream)),
        };
        let handle = handle.clone();
        let rests = None;
        Ok(Connection { stage, stream, handle, bell, entrance, watches_room: false, rests, shared, place })
    }

    /// Takes the next step.
    fn step(&mut self, timed: bool) -> Step {
        let Connection { stage, stream, bell, shared, place, entrance, handle, .. } = self;
        match stage {
            Stage::Http(http) => match catch_unwind(AssertUnwindSafe(|| http.go_on(stream))) {
                Ok(http::Step::Waits(want, until)) => Step::Rest(want, Some(until)),
                Ok(http::Step::Websocket(read)) if entrance.door.is_some() => {
                    stream.serve_websocket(read);
                    *stage = Stage::Greeting(Greeting::new(shared, stream));
                    Step::GoOn
                }
                Ok(http::Step::Websocket(_) | http::Step::Over) | Err(_) => Step::Over,
            },
            Stage::Greeting(greeting) => {
                // Without a door there is no websocket.
                let door = entrance.door.as_ref().unwrap_or(&Door::Roles);
                let greeted = AssertUnwindSafe(|| greeting.go_on(shared, stream, place, door));
                let ended = match catch_unwind(greeted) {
                    Ok(Ok(hello::Step::Waits(until))) => return Step::Rest(Want::Bytes, Some(until)),
                    Ok(Ok(hello::Step::WaitsForTurn(turn))) => return Step::Rest(Want::Nothing, Some(turn)),
                    Ok(Ok(hello::Step::LetIn(greeted))) => {
                        match open(shared, stream, place, bell, handle, greeted) {
                            Ok(running) => {
                                *stage = Stage::Session(Box::new(running));
                                return Step::GoOn;
                            }
                            Err(refusal) => Ended::Refused(refusal),
                        }
                    }
                    Ok(Err(ended)) => ended,
                    Err(_) => Ended::Refused(Refusal::new(hello::Form::Binary, ErrorNumber::Internal, FAULT)),
                };
                match ended {
                    Ended::Refused(refusal) => refusal.tell(stream),
                    Ended::Gone(why) => {
                        tracing::debug!(peer = stream.describe_peer(), why, "connection.gone");
                    }
                }
                Step::Over
            }
            Stage::Session(running) => {
                let work = AssertUnwindSafe(|| running.go_on(shared, stream, bell, timed));
                match catch_unwind(work) {
                    Ok(Step::Close(end)) => running.close(end),
                    Ok(step) => step,
                    Err(_) => running.close_faulty(),
                }
            }
            Stage::Over => Step::Over,
        }
    }

    /// Has the job rung when the socket has room, or no more.
    fn watch_room(&mut self, watched: bool) {
        if self.watches_room != watched {
            self.watches_room = watched;
            if let Err(error) = self.handle.watch_room(self.stream.descriptor(), watched) {
                // Then it waits until the client is too slow.
                tracing::warn!(%error, "session.unwatched");
            }
        }
    }
}

impl Work for Connection {
    fn run(&mut self, events: Events) -> Next {
        if let Some(rest) = self.rests.take() {
            self.shared.batches.end_rest(rest);
        }
        self.stream.awake();
        if events.has(Events::READY)
            && let Stage::Session(running) = &mut self.stage
        {
            running.drained = false;
        }
        let mut timed = events.has(Events::TIME);
        loop {
            match self.step(timed) {
                Step::GoOn | Step::Close(_) => {}
                Step::Rest(want, until) => {
                    // A client that was just answered may have more to say.
                    if want == Want::Bytes && self.stream.linger(|| !bifrost_workers::is_pressed()) {
                        continue;
                    }
                    let until = match self.stream.beat() {
                        Ok(beat) => until.into_iter().chain(beat).min(),
                        Err(silent) => {
                            self.stage.end(silent);
                            continue;
                        }
                    };
                    if let Stage::Session(running) = &mut self.stage {
                        running.let_go_of_input(&self.shared);
                    }
                    if self.stream.watches_socket() {
                        // Sealed bytes of TLS may wait, too.
                        self.watch_room(want == Want::Room || self.stream.wants_write());
                    }
                    if self.stream.rest(want) {
                        if let Stage::Session(running) = &mut self.stage {
                            running.meter.count(&self.shared.batches, &running.session);
                            let rest = running.rest();
                            self.shared.batches.begin_rest(rest);
                            self.rests = Some(rest);
                        }
                        return Next::Rest(until);
                    }
                    self.stream.awake();
                }
                Step::Over => {
                    if let Stage::Session(mut running) = std::mem::replace(&mut self.stage, Stage::Over) {
                        running.meter.count(&self.shared.batches, &running.session);
                        running.end(&self.place);
                    }
                    return Next::Done;
                }
            }
            timed = false;
        }
    }
}

/// A client that is told this is not to blame.
const FAULT: &str = "the server failed in this session";

/// Gives a client that has said `hello` the place of a session.
fn open(
    shared: &Shared,
    stream: &Stream,
    place: &mut Place,
    bell: &Arc<Bell>,
    handle: &Handle,
    greeted: Greeted,
) -> Result<Running, Refusal> {
    let form = greeted.form;
    let role = greeted.role.as_deref();
    let take_seat = |role: &Role| {
        role.take_seat().map_err(|text| {
            tracing::warn!(role = role.name(), "session.refused");
            Refusal::new(form, ErrorNumber::TooManySessions, text)
        })
    };
    let seat = role.map(take_seat).transpose()?;
    let limits = role.map_or(shared.limits, |role| role.limits());
    let policy = role.map_or(&shared.policy, |role| role.policy()).clone();
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
    let (context, cache) = Context::open(shared, limits, bell).map_err(|error| {
        tracing::warn!(%error, "session.refused");
        Refusal::new(form, ErrorNumber::Internal, "no memory for the session's objects")
    })?;
    let poll = context.poll().clone();
    handle.on_ask(move || poll.ask_way());
    context.enter(place);
    let server = concat!("bifrost ", env!("CARGO_PKG_VERSION")).to_owned();
    let mut session = Session::new(shared.tables, limits, Welcome { server, session: number }, cache);
    session.set_policy(policy.clone());
    context.set_caller(policy.role());
    session.set_waker(bell.clone());
    session.set_shown_places(shared.show_places.shown(stream.peer_ip().is_none()));
    tracing::info!(session = number, peer = stream.describe_peer(), role = policy.role(), "session.open");
    let form = match form {
        hello::Form::Binary => Form::Binary,
        hello::Form::Text { .. } => {
            let numbering = policy.numbering(shared.tables).clone();
            Form::Text(Box::new(TextForm::new(numbering, limits, greeted.lines)))
        }
    };
    let times = Times::new(&limits, shared.patience.command);
    let meter = Meter::new(&stream.describe_peer(), number);
    Ok(Running::new((number, seat), context, session, (form, times, meter), greeted.input))
}

/// Logs the failures of a client's calls. The log is bounded for all sessions together
/// ([`LOGGED_PER_SECOND_MAX`](bifrost_runtime::places::LOGGED_PER_SECOND_MAX)).
#[cold]
fn log_failures(shared: &Shared, number: u64, session: &mut Session) {
    let (failures, omitted) = session.take_logged();
    let now = Instant::now().saturating_duration_since(shared.started).as_millis() as i64;
    for LoggedFailure { call, text, places } in failures {
        let Some(skipped) = shared.logged_failures.lock().next(now) else { continue };
        let places = places.iter().map(|line| line.trim_start()).collect::<Vec<_>>().join("; ");
        tracing::warn!(session = number, call, text, places, skipped, omitted, "call.failed");
    }
}

/// A session that is open.
struct Running {
    number: u64,
    context: Context,
    session: Session,
    form: Form,
    /// The place among the sessions of the role.
    seat: Option<Seat>,
    /// Bytes that came, of which the first `done` were used.
    input: Vec<u8>,
    done: usize,
    times: Times,
    meter: Meter,
    phase: Phase,
    /// The number of the session's commands when the bytes under work came, and whether the client
    /// was answered since.
    commands: u64,
    answered: bool,
    /// The number of bytes of the output that were sent.
    sent: usize,
    /// The time at which the client must have read some of the output.
    unread: Option<Instant>,
    /// The session was told that its client has sent its last byte.
    told_last: bool,
    /// Nothing is there to be read before the job is rung.
    drained: bool,
    /// It has let go of memory since its client said something.
    let_go: bool,
    end: Option<End>,
}

/// The phase of a session.
#[derive(Clone, Copy)]
enum Phase {
    /// Bytes that have come are worked on.
    Work,
    /// The output is sent.
    Answer,
    /// The session rests until then, or until something happens that it waits for.
    Pause(Instant),
    /// All that came is done.
    Done,
    /// More bytes are read.
    Read,
    /// The last words are sent, until then.
    Close(Instant),
}

impl Running {
    fn new(
        (number, seat): (u64, Option<Seat>),
        context: Context,
        session: Session,
        (form, times, meter): (Form, Times, Meter),
        input: Vec<u8>,
    ) -> Running {
        Running {
            number,
            context,
            session,
            form,
            seat,
            input,
            done: 0,
            times,
            meter,
            phase: Phase::Work,
            commands: 0,
            answered: false,
            sent: 0,
            unread: None,
            told_last: false,
            drained: false,
            let_go: false,
            end: None,
        }
    }

    /// Works until there is nothing to do. `timed` is true if its time may be over.
    fn go_on(&mut self, shared: &Shared, stream: &mut Stream, bell: &Bell, timed: bool) -> Step {
        loop {
            match self.phase {
                Phase::Work => {
                    self.meter.begin(&shared.batches);
                    let space = self.context.space(shared, &self.session);
                    let used = self.form.handle(space, &mut self.session, &self.input[self.done..]);
                    self.meter.receive(used);
                    self.done += used;
                    if self.session.has_logged() {
                        log_failures(shared, self.number, &mut self.session);
                    }
                    self.phase = Phase::Answer;
                }
                Phase::Answer => match self.answer(shared, stream, shared.patience.unread) {
                    Ok(None) => {
                        self.phase = if self.session.ended() {
                            return Step::Close(End::Session);
                        } else if let Some(pause) = self.session.pause() {
                            let now = Instant::now();
                            self.meter.pause(&shared.batches, now);
                            Phase::Pause(now + pause)
                        } else if self.form.has_more(&self.session) {
                            Phase::Work
                        } else {
                            Phase::Done
                        };
                    }
                    Ok(Some(until)) => {
                        self.meter.pause(&shared.batches, Instant::now());
                        return Step::Rest(Want::Room, Some(until));
                    }
                    Err(end) => return Step::Close(end),
                },
                Phase::Pause(until) => {
                    if stream.is_stopped() {
                        return Step::Close(End::Stopped);
                    }
                    let last = bell.has_sent_last() && !self.told_last && self.session.is_waiting();
                    if last {
                        self.told_last = true;
                        self.session.wait_no_more();
                    } else if !bell.take_rung() && until > Instant::now() {
                        return Step::Rest(Want::Nothing, Some(until));
                    }
                    self.phase = Phase::Work;
                }
                Phase::Done => {
                    self.note_progress(shared);
                    self.phase = Phase::Read;
                }
                Phase::Read => {
                    let unused = self.input.len() - self.done;
                    if self.input.capacity() == 0 {
                        self.input = shared.buffers.take();
                    }
                    let room = (self.input.capacity() - self.input.len()).min(READ_BYTES);
                    let read = match std::mem::take(&mut self.drained) && !bell.has_sent_last() {
                        true => Ok(None),
                        false => stream.try_read(&mut self.input, READ_BYTES),
                    };
                    match read {
                        Ok(Some(0)) => return Step::Close(End::Closed),
                        Ok(Some(count)) => {
                            self.drained = stream.is_drained(count, room);
                            self.let_go = false;
                            (self.commands, self.answered) = (self.session.commands(), false);
                            self.phase = Phase::Work;
                        }
                        Ok(None) => {
                            let mut until = self.times.next(self.session.in_transaction(), unused);
                            if timed && until <= Instant::now() {
                                if self.times.is_over(unused) {
                                    return Step::Close(End::Slow);
                                }
                                if self.session.in_transaction() {
                                    let mut cx = self.context.lock(shared, &self.session);
                                    self.session.expire(&mut cx);
                                    self.let_go = false;
                                }
                                until = self.times.next(self.session.in_transaction(), unused);
                            }
                            if !self.let_go {
                                let at = self.times.since + SILENCE;
                                if timed && at <= Instant::now() {
                                    self.let_go = true;
                                    let objects = self.context.let_go(&mut self.session);
                                    shared.connections.note_let_go(objects);
                                } else {
                                    until = until.min(at);
                                }
                            }
                            return Step::Rest(Want::Bytes, Some(until));
                        }
                        Err(ReadError::Stopped) => return Step::Close(End::Stopped),
                        Err(error) => return Step::Close(End::Failed(error.to_string())),
                    }
                }
                Phase::Close(until) => {
                    return match self.answer(shared, stream, CLOSING) {
                        // A client that does not read them misses nothing that it waits for.
                        Ok(Some(_)) if until > Instant::now() => Step::Rest(Want::Room, Some(until)),
                        _ => Step::Over,
                    };
                }
            }
        }
    }

    /// Sends the output. Returns the time at which the client is too slow if there is no room for
    /// all of it, or the reason why the connection ends.
    fn answer(
        &mut self,
        shared: &Shared,
        stream: &mut Stream,
        patience: Duration,
    ) -> Result<Option<Instant>, End> {
        let output = self.form.output(&mut self.session);
        if output.is_empty() {
            return Ok(None);
        }
        while self.sent < output.len() {
            match stream.try_write(&output[self.sent..]) {
                Ok(0) => {
                    let until = *self.unread.get_or_insert_with(|| Instant::now() + patience);
                    if until <= Instant::now() {
                        return Err(End::Slow);
                    }
                    return Ok(Some(until));
                }
                Ok(count) => self.sent += count,
                Err(WriteError::TimedOut) => return Err(End::Slow),
                Err(WriteError::Stopped) => return Err(End::Stopped),
                Err(WriteError::Closed) => return Err(End::Closed),
                Err(error) => return Err(End::Failed(error.to_string())),
            }
        }
        self.meter.answer(&shared.batches, shared.tracer.as_deref(), &self.session, self.sent);
        (self.sent, self.unread, self.answered) = (0, None, true);
        self.form.clear_output(&mut self.session);
        Ok(None)
    }

    /// Notes what the client has done with all bytes that came, and keeps those that were not used.
    fn note_progress(&mut self, shared: &Shared) {
        let unused = self.input.len() - self.done;
        if unused == 0 {
            self.input.clear();
            self.done = 0;
            if self.input.capacity() > 4 * READ_BYTES {
                self.input.shrink_to(READ_BYTES);
            }
        }
        let now = self.meter.take_now().unwrap_or_else(Instant::now);
        self.meter.rest(&shared.batches, now);
        if self.answered || self.session.commands() != self.commands {
            (self.times.since, self.times.partial) = (now, None);
        }
        match self.form.is_unfinished(&self.session, unused) {
            true => self.times.partial = self.times.partial.or(Some(now)),
            false => self.times.partial = None,
        }
        // The bytes left begin a command: keep them at the front, so that the buffer does not grow
        // with the session.
        if self.done > READ_BYTES {
            self.input.drain(..self.done);
            self.done = 0;
        }
    }

    /// Returns the reason why the session rests.
    fn rest(&self) -> Rest {
        match self.phase {
            Phase::Answer | Phase::Close(_) => Rest::Output,
            Phase::Pause(_) if self.session.is_waiting() => Rest::Wait,
            Phase::Pause(_) => Rest::Retry,
            Phase::Work | Phase::Done | Phase::Read => Rest::Input,
        }
    }

    /// Gives the buffer of input to others, since no more bytes are expected now.
    fn let_go_of_input(&mut self, shared: &Shared) {
        let unused = self.input.len() - self.done;
        if self.input.capacity() > 2 * unused {
            let rest = self.input[self.done..].to_vec();
            shared.buffers.give(std::mem::replace(&mut self.input, rest));
            self.done = 0;
        }
    }

    /// Ends the session: the last words are sent.
    fn close(&mut self, end: End) -> Step {
        match &end {
            End::Slow => self.session.fail(ErrorNumber::Expired, "the session was idle or slow for too long"),
            End::Stopped => self.session.fail(ErrorNumber::ShuttingDown, "the server is shutting down"),
            _ => {}
        }
        let gone = matches!(end, End::Closed);
        self.end = Some(end);
        if gone {
            return Step::Over;
        }
        self.unread = None;
        self.phase = Phase::Close(Instant::now() + CLOSING);
        Step::GoOn
    }

    /// Ends a session in which the server has failed.
    #[cold]
    fn close_faulty(&mut self) -> Step {
        // The fault is ours, not the client's: it is told to both, and the other sessions go on.
        tracing::error!(session = self.number, "session.fault");
        if self.end.is_some() {
            return Step::Over;
        }
        self.session.clear_output();
        self.session.fail(ErrorNumber::Internal, FAULT);
        self.close(End::Session)
    }

    /// Lets go of the session. Its place keeps the figures of its heap.
    fn end(self, place: &Place) {
        let Running { number, context, session, end, seat, .. } = self;
        let c = session.counters();
        tracing::info!(
            session = number,
            end = %end.unwrap_or(End::Session),
            crossings = c.crossings,
            calls = c.calls,
            structures = c.structures,
            prepared_hits = c.prepared_hits,
            failures = c.failures,
            "session.close"
        );
        drop(session);
        context.end(place);
        drop(seat);
    }
}
