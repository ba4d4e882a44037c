"""The connection of an awaited session over shared memory or QUIC, which have no descriptor of the
system to wait for.

A thread waits for bytes, and hands them to the loop. Bytes are written by the loop as far as there is
room, and the rest by a thread.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

from .address import Address
from .connection import Ended, open_native
from .link import Arrivals
from .tls import TlsOptions


class NativeLink(Arrivals):
    """A stream of bytes to a server, which the native library moves."""

    #: Nobody knows: what the thread has read comes with the next turns of the loop.
    is_quiet = False

    def __init__(self, connection: Any) -> None:
        super().__init__()
        self._loop = asyncio.get_running_loop()
        self._reading, self._writing = connection.split()
        #: Bytes for which there was no room, and the work that writes those before them.
        self._unwritten = bytearray()
        self._writer: asyncio.Future[None] | None = None
        self._is_closed = False
        threading.Thread(target=self._read_all, name="bifrost-reading", daemon=True).start()

    # On the thread that reads.

    def _read_all(self) -> None:
        error: Exception = Ended()
        try:
            while data := self._reading.read():
                self._hand(self._deliver, data)
        except OSError as failed:
            error = failed
        self._hand(self._end, error)

    def _hand(self, work: Callable[[Any], None], what: Any) -> None:
        try:
            self._loop.call_soon_threadsafe(work, what)
        except RuntimeError:
            # The loop is closed, and with it the session.
            pass

    # On the loop.

    def _end(self, error: Exception) -> None:
        super()._end(error)
        self._close()

    def write(self, data: bytes) -> None:
        """Writes bytes, or keeps them until there is room."""
        if self._is_closed:
            return
        if self._writer is None:
            try:
                data = data[self._writing.try_write(data) :]
            except OSError as error:
                self._end(error)
                return
        self._unwritten += data
        if self._unwritten and self._writer is None:
            self._writer = asyncio.ensure_future(self._write_rest())

    async def _write_rest(self) -> None:
        try:
            while self._unwritten:
                data = bytes(self._unwritten)
                self._unwritten.clear()
                await asyncio.to_thread(self._writing.write, data)
        except OSError as error:
            self._end(error)
        finally:
            self._writer = None
            if self._is_closed:
                self._close()

    def close(self) -> None:
        """Closes the connection, when all bytes are written."""
        self._is_closed = True
        if self._writer is None:
            self._close()

    def _close(self) -> None:
        self._is_closed = True
        self._writing.close()
        self._reading.stop()


async def open_native_link(address: Address, options: TlsOptions, timeout: float) -> NativeLink:
    """Connects. Raises OSError or ValueError."""
    return NativeLink(await asyncio.to_thread(open_native, address, options, timeout))
