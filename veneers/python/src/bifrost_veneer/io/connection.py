"""Blocking connections: unix and TCP sockets, TLS and websockets over them; those of the native
library.

A :class:`Connection` moves bytes without waiting where it can, and waits with a deadline where it
must. Another one may be given to ``connect(over=...)``, as tests do.
"""

from __future__ import annotations

import select
import socket
import ssl
import struct
import time
from typing import Any, Protocol

from .. import native
from .address import Address
from .tls import TlsOptions, check_peer, make_context
from .websocket import Codec, Handshake, close_frame

#: The most bytes of one read.
READ_BYTES = 64 * 1024
#: The seconds by which a read may wait longer than it should, so that the kernel is seldom told
#: anew.
_PATIENCE_MORE = 0.2


class TimedOut(ConnectionError):
    """No answer came in time."""


class Ended(ConnectionError):
    """The server closed the connection."""

    def __init__(self) -> None:
        super().__init__("the server closed the connection")


class Connection(Protocol):
    """A two-way stream of bytes to a server."""

    def try_read(self) -> bytes | None:
        """Returns bytes that have come; None if there are none yet. Raises OSError."""
        ...

    def try_write(self, data: memoryview) -> int:
        """Writes bytes for which there is room; returns their number. Raises OSError."""
        ...

    def wait(self, writable: bool, deadline: float) -> None:
        """Waits until bytes can be read or, with ``writable``, written. Raises OSError."""

    def read(self, deadline: float) -> bytes:
        """Returns bytes; waits for them. Raises OSError."""
        ...

    def close(self) -> None:
        """Closes the connection."""


class NoConnection:
    """The connection of a session that has given its own away."""

    def try_read(self) -> bytes | None:
        """See :class:`Connection`."""
        raise Ended

    def try_write(self, data: memoryview) -> int:
        """See :class:`Connection`."""
        raise Ended

    def wait(self, writable: bool, deadline: float) -> None:
        """See :class:`Connection`."""
        raise Ended

    def read(self, deadline: float) -> bytes:
        """See :class:`Connection`."""
        raise Ended

    def close(self) -> None:
        """See :class:`Connection`."""


def _timed_out() -> TimedOut:
    return TimedOut("the server did not answer in time")


def _read(connection: Connection, deadline: float) -> bytes:
    """Returns bytes; waits for them."""
    while True:
        connection.wait(False, deadline)
        data = connection.try_read()
        if data is not None:
            return data


class SocketConnection:
    """A socket."""

    def __init__(self, sock: socket.socket) -> None:
        self._socket = sock
        self._poll = select.poll()
        self._mask = 0
        # Reads wait in the kernel, for at most so many seconds; all else does not wait.
        self._patience = 0.0
        sock.setblocking(True)

    def try_read(self) -> bytes | None:
        """See :class:`Connection`."""
        try:
            data = self._socket.recv(READ_BYTES, socket.MSG_DONTWAIT)
        except (BlockingIOError, InterruptedError):
            return None
        if not data:
            raise Ended
        return data

    def try_write(self, data: memoryview) -> int:
        """See :class:`Connection`."""
        try:
            return self._socket.send(data, socket.MSG_DONTWAIT)
        except (BlockingIOError, InterruptedError):
            return 0
        except (BrokenPipeError, ConnectionResetError):
            raise Ended from None

    def wait(self, writable: bool, deadline: float) -> None:
        """See :class:`Connection`."""
        self._wait(select.POLLIN | (select.POLLOUT if writable else 0), deadline)

    def read(self, deadline: float) -> bytes:
        """See :class:`Connection`."""
        left = deadline - time.monotonic()
        if left <= 0:
            raise _timed_out()
        if not left <= self._patience <= left + _PATIENCE_MORE:
            self._patience = left + _PATIENCE_MORE / 2
            seconds, rest = divmod(self._patience, 1)
            timeout = struct.pack("ll", int(seconds), int(rest * 1_000_000))
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, timeout)
        try:
            data = self._socket.recv(READ_BYTES)
        except BlockingIOError:
            raise _timed_out() from None
        if not data:
            raise Ended
        return data

    def _wait(self, mask: int, deadline: float) -> None:
        if mask != self._mask:
            self._poll.register(self._socket, mask)
            self._mask = mask
        left = deadline - time.monotonic()
        if left <= 0 or not self._poll.poll(left * 1000):
            raise _timed_out()

    def close(self) -> None:
        """See :class:`Connection`."""
        self._socket.close()


class TlsConnection(SocketConnection):
    """TLS over a socket."""

    def __init__(
        self, sock: socket.socket, address: Address, options: TlsOptions, deadline: float
    ) -> None:
        context = make_context(address, options)
        sock.setblocking(False)
        self._tls = context.wrap_socket(
            sock, server_hostname=address.host, do_handshake_on_connect=False
        )
        super().__init__(self._tls)
        self._tls.setblocking(False)
        self._wanted = 0
        try:
            self._shake_hands(deadline)
            check_peer(self._tls, address)
        except BaseException:
            self._tls.close()
            raise

    def _shake_hands(self, deadline: float) -> None:
        while True:
            try:
                self._tls.do_handshake()
                return
            except ssl.SSLWantReadError:
                self._wait(select.POLLIN, deadline)
            except ssl.SSLWantWriteError:
                self._wait(select.POLLOUT, deadline)

    def try_read(self) -> bytes | None:
        """See :class:`Connection`."""
        try:
            data = self._tls.recv(READ_BYTES)
        except ssl.SSLWantReadError:
            return None
        except ssl.SSLWantWriteError:
            self._wanted = select.POLLOUT
            return None
        if not data:
            raise Ended
        return data

    def try_write(self, data: memoryview) -> int:
        """See :class:`Connection`."""
        try:
            # A record.
            return self._tls.send(data[: 1 << 14])
        except ssl.SSLWantWriteError:
            return 0
        except ssl.SSLWantReadError:
            return 0
        except (BrokenPipeError, ConnectionResetError, ssl.SSLZeroReturnError):
            raise Ended from None

    def wait(self, writable: bool, deadline: float) -> None:
        """See :class:`Connection`."""
        if self._tls.pending():
            return
        wanted, self._wanted = self._wanted, 0
        self._wait(select.POLLIN | wanted | (select.POLLOUT if writable else 0), deadline)

    def read(self, deadline: float) -> bytes:
        """See :class:`Connection`."""
        return _read(self, deadline)

    def close(self) -> None:
        """See :class:`Connection`."""
        try:
            self._tls.unwrap()
        except (OSError, ValueError):
            pass
        super().close()


class WebsocketConnection:
    """A websocket over a socket."""

    def __init__(self, inner: SocketConnection, address: Address, deadline: float) -> None:
        self._inner = inner
        self._codec = Codec()
        self._out = bytearray()
        self._came = b""
        handshake = Handshake(address)
        self._out += handshake.request
        while self._out:
            self._drain()
            if self._out:
                inner.wait(True, deadline)
        while True:
            data = inner.try_read()
            if data is None:
                inner.wait(False, deadline)
                continue
            rest = handshake.handle_bytes(data)
            if rest is not None:
                self._came = self._codec.decode(rest)
                return

    def _drain(self) -> None:
        """Writes frames for which there is room."""
        while self._out:
            written = self._inner.try_write(memoryview(bytes(self._out)))
            if not written:
                return
            del self._out[:written]

    def try_read(self) -> bytes | None:
        """See :class:`Connection`."""
        if self._came:
            data, self._came = self._came, b""
            return data
        if self._codec.is_ended:
            raise Ended
        self._drain()
        came = self._inner.try_read()
        if came is None:
            return None
        data = self._codec.decode(came)
        self._out += self._codec.answers
        self._codec.answers.clear()
        self._drain()
        return data or None

    def try_write(self, data: memoryview) -> int:
        """See :class:`Connection`."""
        self._drain()
        if self._out:
            return 0
        self._out += self._codec.encode(bytes(data))
        self._drain()
        return len(data)

    def wait(self, writable: bool, deadline: float) -> None:
        """See :class:`Connection`."""
        if not self._came:
            self._inner.wait(writable or bool(self._out), deadline)

    def read(self, deadline: float) -> bytes:
        """See :class:`Connection`."""
        return _read(self, deadline)

    def close(self) -> None:
        """See :class:`Connection`."""
        try:
            self._out += close_frame()
            self._drain()
        except OSError:
            pass
        self._inner.close()


def open_native(address: Address, options: TlsOptions, timeout: float) -> Any:
    """Connects with the native library. Raises OSError or ValueError."""
    files = (options.authorities, options.certificate, options.key)
    return native.module.connect(str(address), timeout, *files)


def open_connection(address: Address, options: TlsOptions, timeout: float) -> Connection:
    """Connects. Raises OSError or ValueError."""
    deadline = time.monotonic() + timeout
    if address.is_native:
        connection: Connection = open_native(address, options, timeout)
        return connection
    if address.scheme == "unix":
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            sock.settimeout(timeout)
            sock.connect(address.path)
        except TimeoutError:
            sock.close()
            raise _timed_out() from None
        except BaseException:
            sock.close()
            raise
        return SocketConnection(sock)
    try:
        sock = socket.create_connection((address.host, address.port), timeout)
    except TimeoutError:
        raise _timed_out() from None
    try:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        inner = (
            TlsConnection(sock, address, options, deadline)
            if address.is_tls
            else SocketConnection(sock)
        )
        return WebsocketConnection(inner, address, deadline) if address.is_web else inner
    except BaseException:
        sock.close()
        raise
