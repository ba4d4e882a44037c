"""The bytes of a blocking session: what is sent, what is waited for.

:class:`Wire` is the only place that waits. An interruption while it waits, such as Ctrl-C, ends the
session: an unknown part of a batch was sent.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import NoReturn

from ..recorder import errors as e
from ..recorder.crossing import Recorder
from ..recorder.greeting import Greeting
from .connection import Connection, Ended, TimedOut


class Wire:
    """A connection, with the longest time for an answer."""

    def __init__(self, connection: Connection, timeout: float) -> None:
        self.connection = connection
        self.timeout = timeout
        #: The number of times that bytes of a session were to be written.
        self.writes = 0

    def greet(self, greeting: Greeting) -> Recorder:
        """Exchanges greetings. Raises :class:`~recorder.errors.GreetError`."""
        deadline = time.monotonic() + self.timeout
        while True:
            data = greeting.take_bytes()
            try:
                if data:
                    self._write(data, deadline)
                came = self._read(deadline)
            except (OSError, ValueError) as error:
                raise e.GreetError(self._last_words(error, greeting.handle_last_bytes)) from error
            recorder = greeting.handle_bytes(came)
            if recorder is not None:
                return recorder

    def _read(self, deadline: float) -> bytes:
        return self.connection.read(deadline)

    def _write(self, data: bytes, deadline: float) -> None:
        view = memoryview(data)
        while view:
            written = self.connection.try_write(view)
            view = view[written:]
            if view and not written:
                self.connection.wait(True, deadline)

    def _write_or_read(self, data: bytes, recorder: Recorder, deadline: float) -> None:
        """Writes bytes while answers are taken: a server that waits until its answers are read
        takes no more bytes.
        """
        view = memoryview(data)
        while view:
            written = self.connection.try_write(view)
            if written:
                view = view[written:]
                continue
            came = self.connection.try_read()
            if came is None:
                self.connection.wait(True, deadline)
            else:
                recorder.handle_bytes(came)

    def send(self, recorder: Recorder) -> None:
        """Sends the bytes that can be sent. Raises :class:`~recorder.errors.Told` if the session
        ends.
        """
        self._guarded(recorder, lambda: self._send(recorder), recorder.handle_last_bytes)

    def _send(self, recorder: Recorder) -> None:
        deadline = time.monotonic() + self.timeout
        while recorder.has_bytes:
            # The batch that is sent has no answer yet.
            answers = len(recorder.under_way) > int(recorder.has_flushed_bytes)
            data = recorder.take_bytes()
            self.writes += 1
            if answers:
                self._write_or_read(data, recorder, deadline)
            else:
                self._write(data, deadline)

    def exchange(self, recorder: Recorder) -> None:
        """As :meth:`answer`, where only one batch is under way, and nothing of it was answered."""
        connection = self.connection
        self.writes += 1
        if not isinstance(recorder, Recorder):
            # A connection of the native library does all of it with the recorder of the library.
            at_once = getattr(connection, "exchange", None)
            if at_once is not None:
                try:
                    at_once(recorder, self.timeout)
                except BaseException as error:
                    self._fail(recorder, error, recorder.handle_last_bytes)
                return
        data = recorder.take_bytes()
        deadline = time.monotonic() + self.timeout
        try:
            written = connection.try_write(memoryview(data))
            if written < len(data):
                self._write(data[written:], deadline)
            if recorder.wait_ms:
                deadline += recorder.wait_ms / 1000
            while not recorder.handle_bytes(connection.read(deadline)):
                pass
        except BaseException as error:
            self._fail(recorder, error, recorder.handle_last_bytes)

    def answer(self, recorder: Recorder) -> None:
        """Sends the flushed bytes, and waits until a batch is answered. Raises
        :class:`~recorder.errors.Told` if the session ends."""
        if len(recorder.under_way) == 1 and recorder.has_flushed_bytes:
            self.exchange(recorder)
            return
        if recorder.has_flushed_bytes:
            self.send(recorder)
        self._guarded(recorder, lambda: self._answer(recorder), None)

    def _answer(self, recorder: Recorder) -> None:
        deadline = time.monotonic() + self.timeout + recorder.wait_ms / 1000
        # Bytes that came with the last answer.
        if recorder.handle_bytes(b""):
            return
        while not recorder.handle_bytes(self._read(deadline)):
            pass

    def look(self, recorder: Recorder) -> bool:
        """Takes the bytes that have come, without waiting. True if the server has not ended the
        session, as far as is known.
        """
        try:
            while True:
                came = self.connection.try_read()
                if came is None:
                    return True
                recorder.handle_bytes(came)
        except e.Told:
            self.connection.close()
        except (OSError, ValueError) as error:
            self._close(recorder, e.ByConnection(error))
        return False

    def _guarded(
        self,
        recorder: Recorder,
        work: Callable[[], None],
        last_words: Callable[[bytes], e.Closed | bool] | None,
    ) -> None:
        try:
            work()
        except BaseException as error:
            self._fail(recorder, error, last_words)

    def _fail(
        self,
        recorder: Recorder,
        error: BaseException,
        last_words: Callable[[bytes], e.Closed | bool] | None,
    ) -> NoReturn:
        """Ends the session, and raises the reason."""
        if isinstance(error, e.Told):
            raise error
        if isinstance(error, (OSError, ValueError)):
            why: e.Closed = e.ByConnection(error)
            if last_words is not None:
                why = self._last_words(error, last_words)
            raise e.Told(self._close(recorder, why)) from None
        self._close(
            recorder, e.ByConnection(_Interruption(f"the session was interrupted: {error!r}"))
        )
        raise error

    def _close(self, recorder: Recorder, why: e.Closed) -> e.Failure:
        failure = recorder.close(why)
        self.connection.close()
        return failure

    def _last_words(self, error: Exception, handle: Callable[[bytes], e.Closed | bool]) -> e.Closed:
        """Returns the reason why nothing can be written: a server that ends a session says why
        before it closes.
        """
        if isinstance(error, TimedOut):
            return e.ByConnection(error)
        words = handle(b"")
        deadline = time.monotonic() + self.timeout
        while words is True:
            try:
                words = handle(self._read(deadline))
            except (OSError, ValueError):
                break
        if isinstance(words, e.Closed):
            return words
        return e.ByConnection(Ended() if isinstance(error, Ended) else error)

    def close(self) -> None:
        """Closes the connection."""
        self.connection.close()


class _Interruption(ConnectionError):
    """Something else than an answer has ended the wait."""
