"""The connection of an awaited session: a protocol of asyncio.

:class:`Link` hands the bytes that came to whoever is told of them: first to :meth:`Arrivals.read`,
then to the session.
"""

from __future__ import annotations

import asyncio
import select
import ssl
from collections.abc import Callable
from typing import Any, cast

from .address import Address
from .connection import Ended
from .tls import TlsOptions, check_peer, make_context
from .websocket import Codec, Handshake, close_frame


class Arrivals:
    """The bytes that come from a server, and their end."""

    def __init__(self) -> None:
        self._came = bytearray()
        self._waiter: asyncio.Future[None] | None = None
        self._error: Exception | None = None
        #: Called with bytes that came, and with the reason of the end.
        self.on_bytes: Callable[[bytes], None] | None = None
        self.on_end: Callable[[Exception], None] | None = None

    def _deliver(self, data: bytes) -> None:
        if self.on_bytes is not None:
            self.on_bytes(data)
            return
        self._came += data
        self._wake()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def _end(self, error: Exception) -> None:
        if self._error is None:
            self._error = error
            if self.on_end is not None:
                self.on_end(error)
            self._wake()

    async def read(self) -> bytes:
        """Returns bytes that came; waits for them. Raises OSError."""
        while not self._came:
            if self._error is not None:
                raise self._error
            self._waiter = asyncio.get_running_loop().create_future()
            await self._waiter
        data = bytes(self._came)
        self._came.clear()
        return data

    def start(self, on_bytes: Callable[[bytes], None], on_end: Callable[[Exception], None]) -> None:
        """Hands all further bytes to a session."""
        self.on_bytes, self.on_end = on_bytes, on_end
        if self._came:
            data = bytes(self._came)
            self._came.clear()
            on_bytes(data)
        if self._error is not None:
            on_end(self._error)


class Link(Arrivals, asyncio.Protocol):
    """A stream of bytes to a server."""

    def __init__(self) -> None:
        super().__init__()
        self._transport: asyncio.Transport | None = None
        self._codec: Codec | None = None

    @property
    def is_quiet(self) -> bool:
        """True if no bytes and no end of the connection wait to be read."""
        transport = self._transport
        sock = None if transport is None else transport.get_extra_info("socket")
        if sock is None or sock.fileno() < 0:
            return True
        poll = select.poll()
        poll.register(sock, select.POLLIN)
        return not poll.poll(0)

    # Called by asyncio.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """See :class:`asyncio.Protocol`."""
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        """See :class:`asyncio.Protocol`."""
        if self._codec is not None:
            try:
                data = self._codec.decode(data)
            except ConnectionError as error:
                self._end(error)
                return
            self._write_raw(bytes(self._codec.answers))
            self._codec.answers.clear()
        if data:
            self._deliver(data)
        if self._codec is not None and self._codec.is_ended:
            self._end(Ended())

    def eof_received(self) -> bool:
        """See :class:`asyncio.Protocol`."""
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        """See :class:`asyncio.Protocol`."""
        self._end(exc or Ended())

    # Bytes.

    def _end(self, error: Exception) -> None:
        super()._end(error)
        if self._transport is not None:
            self._transport.close()

    def _write_raw(self, data: bytes) -> None:
        if data and self._transport is not None and not self._transport.is_closing():
            self._transport.write(data)

    def write(self, data: bytes) -> None:
        """Writes bytes, or keeps them until there is room."""
        self._write_raw(data if self._codec is None else self._codec.encode(data))

    def close(self) -> None:
        """Closes the connection, when all bytes are written."""
        if self._codec is not None and self._error is None:
            self._write_raw(close_frame())
        if self._transport is not None:
            self._transport.close()

    async def open_websocket(self, address: Address) -> None:
        """Asks for a websocket. Raises :class:`WebsocketError`."""
        handshake = Handshake(address)
        self._write_raw(handshake.request)
        while True:
            rest = handshake.handle_bytes(await self.read())
            if rest is not None:
                break
        self._codec = Codec()
        if rest:
            self.data_received(rest)

    def check_peer(self, address: Address) -> None:
        """Checks the server of a TLS connection."""
        assert self._transport is not None
        check_peer(self._transport.get_extra_info("ssl_object"), address)


async def open_link(address: Address, options: TlsOptions) -> Link:
    """Connects. Raises OSError or ValueError."""
    loop = asyncio.get_running_loop()
    made: Any
    if address.scheme == "unix":
        made = await loop.create_unix_connection(Link, address.path)
    elif address.is_tls:
        context: ssl.SSLContext = make_context(address, options)
        made = await loop.create_connection(Link, address.host, address.port, ssl=context)
    else:
        made = await loop.create_connection(Link, address.host, address.port)
    link: Link = made[1]
    try:
        if address.is_tls:
            link.check_peer(address)
        if address.is_web:
            await link.open_websocket(address)
    except BaseException:
        link.close()
        raise
    return link
