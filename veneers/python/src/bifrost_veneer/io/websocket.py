"""The client's half of a websocket (RFC 6455), without input and output.

A binary message is a piece of the stream, and its borders mean nothing. There are no extensions.
:class:`Handshake` makes the request and reads the answer; :class:`Codec` makes and reads frames.
"""

from __future__ import annotations

import base64
import hashlib
import os
import struct
from typing import Final

from .address import Address

SUBPROTOCOL: Final = "bifrost.1"
#: The most bytes of one message that is sent, and of one frame that is read.
MESSAGE_BYTES_MAX: Final = 1 << 20
_HEAD_BYTES_MAX: Final = 16 * 1024
_CONTROL_BYTES_MAX: Final = 125
_MAGIC: Final = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"

_CONTINUATION, _TEXT, _BINARY, _CLOSE, _PING, _PONG = 0, 1, 2, 8, 9, 10


class WebsocketError(ConnectionError):
    """The server has refused the websocket, or broken its rules."""


class Handshake:
    """The request for a websocket, and its answer."""

    def __init__(self, address: Address) -> None:
        self._key = base64.b64encode(os.urandom(16))
        host = f"[{address.host}]" if ":" in address.host else address.host
        lines = [
            f"GET {address.path} HTTP/1.1",
            f"Host: {host}:{address.port}",
            "Upgrade: websocket",
            "Connection: Upgrade",
            f"Sec-WebSocket-Key: {self._key.decode()}",
            "Sec-WebSocket-Version: 13",
            f"Sec-WebSocket-Protocol: {SUBPROTOCOL}",
        ]
        self.request = "\r\n".join([*lines, "", ""]).encode()
        self._head = bytearray()

    def handle_bytes(self, data: bytes) -> bytes | None:
        """Takes bytes of the server. Returns the bytes behind the answer when it is whole. Raises
        :class:`WebsocketError`."""
        self._head += data
        end = self._head.find(b"\r\n\r\n")
        if end < 0:
            if len(self._head) > _HEAD_BYTES_MAX:
                raise WebsocketError(
                    "the server's answer to the request for a websocket is too long"
                )
            return None
        self._check(bytes(self._head[:end]))
        return bytes(self._head[end + 4 :])

    def _check(self, head: bytes) -> None:
        lines = head.decode("latin-1").split("\r\n")
        status = lines[0].split(" ", 2)
        if len(status) < 2 or not status[0].startswith("HTTP/1.") or status[1] != "101":
            raise WebsocketError(f"the server opened no websocket: {lines[0][:200]}")
        fields: dict[str, str] = {}
        for line in lines[1:]:
            name, _, value = line.partition(":")
            fields[name.strip().lower()] = value.strip()
        accept = base64.b64encode(hashlib.sha1(self._key + _MAGIC).digest()).decode()
        good = (
            fields.get("upgrade", "").lower() == "websocket"
            and "upgrade" in fields.get("connection", "").lower()
            and fields.get("sec-websocket-accept") == accept
            and "sec-websocket-extensions" not in fields
        )
        if not good:
            raise WebsocketError("the server's answer to the request for a websocket is wrong")
        if fields.get("sec-websocket-protocol") != SUBPROTOCOL:
            raise WebsocketError(f"the server does not speak `{SUBPROTOCOL}`")


def _frame(kind: int, payload: bytes) -> bytes:
    length = len(payload)
    if length < 126:
        head = struct.pack("!BB", 0x80 | kind, 0x80 | length)
    elif length < 1 << 16:
        head = struct.pack("!BBH", 0x80 | kind, 0x80 | 126, length)
    else:
        head = struct.pack("!BBQ", 0x80 | kind, 0x80 | 127, length)
    mask = os.urandom(4)
    return head + mask + _masked(payload, mask)


def _masked(payload: bytes, mask: bytes) -> bytes:
    if not payload:
        return payload
    repeated = mask * (len(payload) // 4 + 1)
    number = int.from_bytes(payload, "big") ^ int.from_bytes(repeated[: len(payload)], "big")
    return number.to_bytes(len(payload), "big")


def close_frame() -> bytes:
    """Returns the frame that ends a websocket."""
    return _frame(_CLOSE, struct.pack("!H", 1000))


class Codec:
    """The frames of an open websocket."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._in_message = False
        #: Frames to be sent in answer to those that came.
        self.answers = bytearray()
        #: True once the server has ended the websocket.
        self.is_ended = False

    @staticmethod
    def encode(data: bytes) -> bytes:
        """Returns bytes of the stream as frames."""
        pieces = range(0, len(data), MESSAGE_BYTES_MAX)
        return b"".join(_frame(_BINARY, data[at : at + MESSAGE_BYTES_MAX]) for at in pieces)

    def decode(self, data: bytes) -> bytes:
        """Takes bytes of the server; returns bytes of the stream. Raises
        :class:`WebsocketError`.
        """
        self._buffer += data
        out = bytearray()
        while not self.is_ended and self._next(out):
            pass
        return bytes(out)

    def _next(self, out: bytearray) -> bool:
        buffer = self._buffer
        if len(buffer) < 2:
            return False
        first, second = buffer[0], buffer[1]
        kind, length, at = first & 15, second & 127, 2
        if first & 0x70 or second & 0x80:
            raise WebsocketError("the server sent a frame with reserved or masked bits")
        if length >= 126:
            size = 2 if length == 126 else 8
            if len(buffer) < at + size:
                return False
            length = int.from_bytes(buffer[at : at + size], "big")
            at += size
        is_final = first & 0x80 != 0
        self._check(kind, length, is_final)
        if len(buffer) < at + length:
            return False
        payload = bytes(buffer[at : at + length])
        del buffer[: at + length]
        if kind == _PING:
            self.answers += _frame(_PONG, payload)
        elif kind == _CLOSE:
            self.is_ended = True
        elif kind in (_BINARY, _CONTINUATION):
            self._in_message = not is_final
            out += payload
        return True

    def _check(self, kind: int, length: int, is_final: bool) -> None:
        if kind >= _CLOSE:
            if kind > _PONG or length > _CONTROL_BYTES_MAX or not is_final:
                raise WebsocketError("the server sent a frame that is none")
            return
        if kind == _TEXT:
            raise WebsocketError("the server sent text")
        if kind > _BINARY or (kind == _CONTINUATION) != self._in_message:
            raise WebsocketError("the server sent fragments out of order")
        if length > MESSAGE_BYTES_MAX:
            raise WebsocketError("the server sent a frame that is too long")
