//! Sessions to be awaited: claims are futures.
//!
//! [`Builder::connect_async`](crate::Builder::connect_async) opens one; [`Session::claim_async`] is
//! the function to read next. Nothing runs in the background: the tasks that await results move the
//! bytes of the session. A step of a task is [`Polled::poll`]: it writes and reads as much as it
//! can without waiting.
//!
//! ```text
//! a task polls a claim
//!   its stub is recorded     -> the batch ends; it is under way
//!   its batch is under way   -> bytes are moved; answers fill the stubs of all tasks
//!   it is answered           -> the result
//! ```
//!
//! Each waiting task is in the list of [`Wakers`]. The system wakes the list, and not the task that
//! polled last: so a task that is dropped leaves the others their bytes. A dropped claim loses
//! nothing; its batch is sent and answered while others are awaited.
//!
//! The socket is watched by `async-io`, in a thread of its own, so any executor will do.

use std::future::{Future, poll_fn};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use async_io::{Async, Timer};
use bifrost_client::{ConnectionError, READ_BYTES, unwritten};
use bifrost_recorder::{Closed, Due, Greeting, Known, LastWords};
use bifrost_transport::{CallWatch, Stream};

use crate::call::Stub;
use crate::error::{ConnectError, Error, Place};
use crate::live::{Core, Live, Recorder, Way};
use crate::live_batch::{Claim, LiveBatch};
use crate::plain::Plain;
use crate::promise::Promise;
use crate::rows::{Columns, Rows};
use crate::session::{How, Session};
use crate::shared::Shared;

/// A future of this module, in a box.
type Boxed<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// The tasks that wait for a session.
#[derive(Default)]
struct Wakers(Mutex<Vec<Waker>>);

impl Wakers {
    fn add(&self, waker: &Waker) {
        let mut list = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if !list.iter().any(|known| known.will_wake(waker)) {
            list.push(waker.clone());
        }
    }

    fn wake_all(&self) {
        let list = std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
        list.into_iter().for_each(Waker::wake);
    }
}

impl Wake for Wakers {
    fn wake(self: Arc<Self>) {
        self.wake_all();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.wake_all();
    }
}

/// A socket that the stream reads and writes, and that is watched here.
struct Watched(Arc<OwnedFd>);

impl AsFd for Watched {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// A connection whose bytes are moved when tasks are polled.
pub(crate) struct Polled {
    stream: Stream,
    watched: Async<Watched>,
    wakers: Arc<Wakers>,
    timeout: Duration,
    /// Rings when the oldest batch was not answered in time.
    timer: Option<Timer>,
    input: Vec<u8>,
    /// The number of writes that were tried.
    writes: u64,
}

/// The end of a connection.
type Ended = ConnectionError;

impl Polled {
    pub(crate) fn new(stream: Stream, timeout: Duration) -> Result<Polled, ConnectError> {
        let Some(socket) = stream.socket().cloned() else { return Err(ConnectError::NotAsynchronous) };
        let watched = Async::new(Watched(socket)).map_err(ConnectError::Watch)?;
        let wakers = Arc::new(Wakers::default());
        Ok(Polled { stream, watched, wakers, timeout, timer: None, input: Vec::new(), writes: 0 })
    }

    pub(crate) fn watch(&self) -> Option<CallWatch> {
        self.stream.watch()
    }

    /// Waits for room. A stream without a socket of its own tells of it as it tells of bytes.
    fn poll_room(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let ready = match self.stream.watches_socket() {
            true => self.watched.poll_writable(cx),
            false => self.watched.poll_readable(cx),
        };
        ready.map(drop)
    }

    /// Writes the bytes for which there is room. Pending if there is none.
    fn poll_write(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<Result<usize, Ended>> {
        self.writes += 1;
        loop {
            match self.stream.try_write(bytes) {
                Ok(0) => match self.poll_room(cx) {
                    Poll::Ready(()) => {}
                    Poll::Pending => return Poll::Pending,
                },
                written => return Poll::Ready(written.map_err(|error| unwritten(error, self.timeout))),
            }
        }
    }

    /// Sends the bytes that the stream keeps. Pending if there is no room for them.
    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Ended>> {
        loop {
            match self.stream.try_flush() {
                Ok(true) => return Poll::Ready(Ok(())),
                Ok(false) => match self.poll_room(cx) {
                    Poll::Ready(()) => {}
                    Poll::Pending => return Poll::Pending,
                },
                Err(error) => return Poll::Ready(Err(unwritten(error, self.timeout))),
            }
        }
    }

    /// Reads the bytes that have come into `input`. Pending if there are none.
    fn poll_read(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Ended>> {
        self.input.clear();
        loop {
            match self.stream.try_read(&mut self.input, READ_BYTES) {
                Ok(None) => match self.watched.poll_readable(cx) {
                    Poll::Ready(_) => {}
                    Poll::Pending => return Poll::Pending,
                },
                Ok(Some(0)) => return Poll::Ready(Err(ConnectionError::Ended)),
                Ok(Some(_)) => return Poll::Ready(Ok(())),
                Err(error) => return Poll::Ready(Err(ConnectionError::Read(error))),
            }
        }
    }

    /// Pending until the time is over.
    fn poll_time(&mut self, cx: &mut Context<'_>) -> Poll<Ended> {
        let timeout = self.timeout;
        let timer = self.timer.get_or_insert_with(|| Timer::after(timeout));
        Pin::new(timer).poll(cx).map(|_| ConnectionError::TimedOut(timeout))
    }

    /// Moves bytes as far as that needs no waiting, and answers as many batches as it can. The task
    /// is woken when there is more to do.
    fn poll(&mut self, recorder: &mut Recorder, task: &Waker) -> Result<(), Error> {
        // First: an event between the look and the registration must not be missed.
        self.wakers.add(task);
        let waker = Waker::from(self.wakers.clone());
        let cx = &mut Context::from_waker(&waker);
        while !recorder.flushed_bytes().is_empty() {
            match self.poll_write(cx, recorder.flushed_bytes()) {
                Poll::Ready(Ok(written)) => recorder.sent(written),
                Poll::Ready(Err(error)) => return Err(self.unwritten(recorder, error)),
                Poll::Pending => break,
            }
        }
        if self.stream.wants_write()
            && let Poll::Ready(Err(error)) = self.poll_flush(cx)
        {
            return Err(self.unwritten(recorder, error));
        }
        let mut answered = false;
        while recorder.is_under_way() {
            // Bytes that came with the last answer.
            if recorder.handle_bytes(&[]).inspect_err(|_| self.wakers.wake_all())? {
                answered = true;
                continue;
            }
            match self.poll_read(cx) {
                Poll::Ready(Ok(())) => {
                    let input = std::mem::take(&mut self.input);
                    answered |= recorder.handle_bytes(&input).inspect_err(|_| self.wakers.wake_all())?;
                    self.input = input;
                }
                Poll::Ready(Err(error)) => return Err(self.close(recorder, error.into())),
                Poll::Pending => break,
            }
        }
        if answered {
            self.timer = None;
            self.wakers.wake_all();
            // The task itself goes on at once, or is registered again.
            self.wakers.add(task);
        }
        if recorder.is_under_way() {
            let wait = Duration::from_millis(recorder.wait_ms());
            let timeout = self.timeout;
            self.timer.get_or_insert_with(|| Timer::after(timeout.saturating_add(wait)));
            if let Poll::Ready(late) = self.poll_time(cx) {
                return Err(self.close(recorder, late.into()));
            }
        }
        Ok(())
    }

    fn close(&self, recorder: &mut Recorder, why: Closed) -> Error {
        let error = recorder.close(why);
        self.wakers.wake_all();
        error
    }

    /// Returns the reason why nothing can be written: a server that ends a session says why before
    /// it closes.
    #[cold]
    fn unwritten(&mut self, recorder: &mut Recorder, error: ConnectionError) -> Error {
        if !matches!(error, ConnectionError::Ended) {
            return self.close(recorder, error.into());
        }
        let mut words = recorder.handle_last_bytes(&[]);
        while matches!(words, LastWords::Unfinished) {
            self.input.clear();
            words = match self.stream.try_read(&mut self.input, READ_BYTES) {
                Ok(Some(1..)) => recorder.handle_last_bytes(&self.input),
                _ => LastWords::None,
            };
        }
        match words {
            LastWords::Reason(why) => self.close(recorder, why),
            _ => self.close(recorder, error.into()),
        }
    }

    pub(crate) fn writes(&self) -> u64 {
        self.writes
    }

    /// Reads the bytes that have come, and learns if the server has ended the session.
    pub(crate) fn look(&mut self, recorder: &mut Recorder) -> Result<(), Error> {
        loop {
            self.input.clear();
            match self.stream.try_read(&mut self.input, READ_BYTES) {
                Ok(None) => return Ok(()),
                Ok(Some(0)) => return Err(self.close(recorder, ConnectionError::Ended.into())),
                Ok(Some(_)) => drop(recorder.handle_bytes(&self.input)?),
                Err(error) => return Err(self.close(recorder, ConnectionError::Read(error).into())),
            }
        }
    }

    /// Waits in this thread until a batch is answered.
    pub(crate) fn block_on(&mut self, recorder: &mut Recorder) -> Result<(), Error> {
        let before = recorder.batches_under_way();
        async_io::block_on(poll_fn(|cx| match self.poll(recorder, cx.waker()) {
            Err(error) => Poll::Ready(Err(error)),
            Ok(()) if recorder.batches_under_way() < before => Poll::Ready(Ok(())),
            Ok(()) => Poll::Pending,
        }))
    }

    /// Sends the bytes that can be sent without waiting.
    pub(crate) fn send_now(&mut self, recorder: &mut Recorder) -> Result<(), Error> {
        while !recorder.bytes_to_send().is_empty() {
            self.writes += 1;
            match self.stream.try_write(recorder.bytes_to_send()) {
                Ok(0) => break,
                Ok(written) => recorder.sent(written),
                Err(error) => {
                    let error = unwritten(error, self.timeout);
                    return Err(self.unwritten(recorder, error));
                }
            }
        }
        Ok(())
    }
}

/// Opens a session: exchanges greetings over the stream.
pub(crate) async fn open(
    mut greeting: Greeting,
    stream: Stream,
    timeout: Duration,
) -> Result<Live, ConnectError> {
    let mut polled = Polled::new(stream, timeout)?;
    let opened = poll_fn(|cx| {
        loop {
            if !greeting.bytes_to_send().is_empty() {
                match polled.poll_write(cx, greeting.bytes_to_send()) {
                    Poll::Ready(Ok(written)) => greeting.sent(written),
                    // A server that ends a session says why before it closes.
                    Poll::Ready(Err(ConnectionError::Ended)) => greeting.sent(usize::MAX),
                    Poll::Ready(Err(error)) => return Poll::Ready(Err(Closed::from(error).into())),
                    Poll::Pending => break,
                }
                continue;
            }
            // If the server is gone, the read says why.
            let _ = polled.poll_flush(cx);
            match polled.poll_read(cx) {
                Poll::Ready(Ok(())) => match greeting.handle_bytes(&polled.input) {
                    Ok(None) => {}
                    Ok(Some(recorder)) => return Poll::Ready(Ok(recorder)),
                    Err(error) => return Poll::Ready(Err(ConnectError::from(error))),
                },
                Poll::Ready(Err(error)) => return Poll::Ready(Err(Closed::from(error).into())),
                Poll::Pending => break,
            }
        }
        polled.poll_time(cx).map(|late| Err(Closed::from(late).into()))
    });
    let recorder = opened.await?;
    polled.timer = None;
    Ok(Live { recorder, way: Way::Polled(Box::new(polled)) })
}

/// Returns the error of a function to be awaited, of a session that was opened to wait in calls.
fn not_polled() -> Error {
    Error::Misuse(crate::Misuse::NotAsynchronous)
}

impl Live {
    /// Moves bytes for a task, until a condition holds.
    fn poll_until(
        &mut self,
        cx: &mut Context<'_>,
        done: impl Fn(&Recorder) -> bool,
    ) -> Poll<Result<(), Error>> {
        let Way::Polled(polled) = &mut self.way else { return Poll::Ready(Err(not_polled())) };
        loop {
            if done(&self.recorder) {
                return Poll::Ready(Ok(()));
            }
            let before = self.recorder.batches_under_way();
            if let Err(error) = polled.poll(&mut self.recorder, cx.waker()) {
                return Poll::Ready(Err(error));
            }
            if self.recorder.batches_under_way() == before {
                return if done(&self.recorder) { Poll::Ready(Ok(())) } else { Poll::Pending };
            }
        }
    }

    /// Ends the batch, as soon as there is room for it.
    fn poll_begin(&mut self, cx: &mut Context<'_>, name: &str, place: Place) -> Poll<Result<(), Error>> {
        match self.poll_until(cx, |recorder| !recorder.is_crowded()) {
            Poll::Ready(Ok(())) => Poll::Ready(self.recorder.begin_flush_for(name, true, place).map(drop)),
            other => other,
        }
    }

    fn poll_known(&mut self, cx: &mut Context<'_>, stub: &Stub, place: Place) -> Poll<Result<(), Error>> {
        if let Known::Future(_) = self.recorder.known(stub.slot) {
            self.recorder.note_claim(stub.slot);
            match self.poll_begin(cx, "claim", place) {
                Poll::Ready(Ok(())) => {}
                other => return other,
            }
        }
        match self.recorder.known(stub.slot) {
            Known::UnderWay(batch) => self.poll_until(cx, |recorder| !recorder.is_unanswered(batch)),
            _ => Poll::Ready(Ok(())),
        }
    }
}

/// Ends the batch, and waits until all batches up to it are answered.
async fn answered(core: &Shared<Core>, name: &'static str, place: Place) -> Result<(), Error> {
    let mut last = None;
    poll_fn(move |cx| {
        let live = &mut *core.live.borrow_mut();
        let last = match last {
            Some(last) => last,
            None => match live.poll_begin(cx, name, place) {
                Poll::Ready(Ok(())) => *last.insert(live.recorder.batch_number() - 1),
                other => return other,
            },
        };
        live.poll_until(cx, |recorder| !recorder.is_unanswered(last))
    })
    .await
}

impl Session {
    /// Returns the results of promises, tables and objects when they are there: one, or a tuple or
    /// a vector of them. The batch is ended when the future is first polled; calls that other tasks
    /// have recorded go with it.
    ///
    /// The future may be dropped: nothing is lost, and a later claim has the result.
    ///
    /// # Errors
    /// As [`Promise::claim`](crate::Promise::claim).
    #[track_caller]
    pub fn claim_async<R: Claim + Send + Sync>(
        &self,
        results: R,
    ) -> impl Future<Output = Result<R::Output, Error>> + Send + use<R> {
        claim_async(results, Place::caller())
    }

    /// As [`Session::flush`](crate::Session::flush), to be awaited.
    ///
    /// # Errors
    /// As `flush`.
    #[track_caller]
    pub fn flush_async(&self) -> impl Future<Output = Result<(), Error>> + Send + use<> {
        let (core, place) = (self.core.clone(), Place::caller());
        async move {
            answered(&core, "flush", place).await?;
            core.live.borrow_mut().recorder.surface(true)
        }
    }

    /// Commits the transaction, as [`Session::commit`](crate::Session::commit) does, and returns
    /// when all changes are durable. If the future is dropped after it was polled, the transaction
    /// may be committed.
    ///
    /// # Errors
    /// The transaction is aborted, for this reason.
    #[track_caller]
    pub fn commit_async(&self) -> impl Future<Output = Result<(), Error>> + Send + use<> {
        let (session, place) = (self.clone(), Place::caller());
        async move {
            // Else the recording of the commit would wait.
            let due = session.core.live.borrow_mut().recorder.commit_due();
            if matches!(due, Ok(Due::Flush)) {
                answered(&session.core, "commit", place).await?;
            }
            let done = session.commit_at(place);
            claim_async(done, place).await
        }
    }

    /// As [`Session::transaction`](crate::Session::transaction), to be awaited. `body` is called
    /// when the batches before are answered.
    ///
    /// # Errors
    /// As `transaction`.
    #[track_caller]
    pub fn transaction_async<R: Send, F: FnOnce() -> R + Send>(
        &self,
        how: How,
        body: F,
    ) -> impl Future<Output = Result<R, Error>> + Send + use<R, F> {
        let (session, place) = (self.clone(), Place::caller());
        async move {
            let mut body = Some(body);
            let (result, done, refusals) = loop {
                answered(&session.core, "transaction", place).await?;
                // Nothing, if another task was faster.
                if let Some(recorded) = session.record_transaction(how, &mut body, place)? {
                    break recorded;
                }
            };
            let outcome = claim_async(done, place).await;
            let finished =
                session.core.live.borrow_mut().recorder.finish_transaction(outcome, refusals, place);
            finished.map(|()| result)
        }
    }

    /// Ends the work of a task without waiting: the transaction is aborted, and all failures are
    /// told. False if the session cannot be used again.
    pub(crate) fn begin_again(&self) -> bool {
        let place = Place::caller();
        if self.core.live.borrow().recorder.is_crowded() {
            return false;
        }
        let aborted = self.abort_at(place);
        drop(aborted);
        self.clear_exceptions();
        self.core.live.borrow_mut().send_batch("abort", place).is_ok()
    }

    /// Flushes, and ends the session, as [`Session::close`](crate::Session::close) does.
    ///
    /// # Errors
    /// As [`Session::flush_async`]; the session is ended in any case.
    #[track_caller]
    pub fn close_async(self) -> impl Future<Output = Result<(), Error>> + Send + use<> {
        let flushed = self.flush_async();
        async move {
            let flushed = flushed.await;
            self.core.live.borrow_mut().leave();
            flushed
        }
    }
}

/// Awaits results.
async fn claim_async<R: Claim + Sync>(results: R, place: Place) -> Result<R::Output, Error> {
    let mut failed = None;
    poll_fn(|cx| {
        let mut pending = false;
        results.each_stub(&mut |stub| match stub.core.live.borrow_mut().poll_known(cx, stub, place) {
            Poll::Ready(Ok(())) => {}
            Poll::Ready(Err(error)) => drop(failed.get_or_insert(error)),
            Poll::Pending => pending = true,
        });
        if pending && failed.is_none() { Poll::Pending } else { Poll::Ready(()) }
    })
    .await;
    match failed {
        // A stub that the end of the session has reached says it itself.
        Some(Error::Closed(_)) | None => results.claim(),
        Some(error) => Err(error),
    }
}

macro_rules! awaitable {
    ($($name:ident<$param:ident: $bound:ident>: $output:ty;)*) => {$(
        impl<$param: $bound> IntoFuture for $name<$param> {
            type Output = Result<$output, Error>;
            type IntoFuture = Boxed<Self::Output>;

            /// Awaits the result, as [`Session::claim_async`] does.
            #[track_caller]
            fn into_future(self) -> Self::IntoFuture {
                Box::pin(claim_async(self, Place::caller()))
            }
        }

        impl<$param: $bound> IntoFuture for &$name<$param> {
            type Output = Result<$output, Error>;
            type IntoFuture = Boxed<Self::Output>;

            #[track_caller]
            fn into_future(self) -> Self::IntoFuture {
                self.clone().into_future()
            }
        }
    )*};
}

awaitable! {
    Promise<V: Plain>: V;
    Rows<C: Columns>: Vec<C::Plain>;
}

impl<R: Claim + Send, F: FnMut() -> R + Send> LiveBatch<R, F>
where
    R::Output: Send,
{
    /// Returns the next result that differs from the last one, as the iterator does, to be awaited.
    /// The session waits with it: other batches of the session come behind, so give a live batch a
    /// session of its own.
    ///
    /// If the future is dropped, the next one may return a result that this one has not.
    pub async fn next_async(&mut self) -> Option<Result<R::Output, Error>> {
        loop {
            let (core, place) = self.session_and_place();
            // Failures of batches before are not those of the run.
            if core.live.borrow().recorder.is_under_way()
                && let Err(error) = answered(&core, "live", place).await
            {
                return self.end(error);
            }
            let run = self.record()?;
            let flushed = answered(&core, "live", place).await;
            if let Some(item) = self.finish(run, flushed) {
                return Some(item);
            }
        }
    }
}

const _: () = {
    // A task that awaits moves between threads with all its stubs.
    const fn is_movable<T: Send + Sync>() {}
    is_movable::<Session>();
    is_movable::<Stub>();
    is_movable::<Promise<String>>();
    is_movable::<Rows<(i64,)>>();
};
