"""A connection to nobody: a session over it gets the answers that a test has prepared."""

from __future__ import annotations

from collections import deque
from typing import Any

from replies import encode_reply, nil_for_each, welcome_of

import bifrost_veneer as bf
from bifrost_veneer.io.connection import Connection
from bifrost_veneer.recorder.commands import decode_commands
from bifrost_veneer.recorder.numbers import Stubs
from bifrost_veneer.session import Options, open_over


class Scripted(Connection):
    """A server whose answers are prepared; without one, each wanted future is nil."""

    def __init__(self, limits: list[tuple[int, int]]) -> None:
        self._limits = limits
        self._replies: deque[bytes] = deque()
        self._came = b""
        #: The answers to the next batches.
        self.answers: deque[dict[str, Any]] = deque()

    def try_write(self, data: memoryview | bytes) -> int:
        """Takes whole commands."""
        for command in decode_commands(bytes(data)):
            name, parts = (command, {}) if isinstance(command, str) else next(iter(command.items()))
            if name == "hello":
                self._came += welcome_of(bytes.fromhex(parts["digest"]), self._limits)
            elif name == "flush":
                wanted = sum(count for _, count in parts["wanted"])
                answer = self.answers.popleft() if self.answers else None
                self._came += (
                    nil_for_each(wanted) if answer is None else encode_reply({"flushed": answer})
                )
        return len(data)

    def try_read(self) -> bytes | None:
        came, self._came = self._came, b""
        return came or None

    def read(self, deadline: float) -> bytes:
        came = self.try_read()
        assert came is not None, "nothing was asked"
        return came

    def wait(self, writable: bool, deadline: float) -> None:
        raise AssertionError("there is always room")

    def close(self) -> None:
        pass

    def outcomes(self, *outcomes: dict[str, Any]) -> None:
        """Prepares the answer to a batch."""
        self.answers.append({"outcomes": list(outcomes)})


def scripted(stubs: Stubs, *limits: tuple[int, int]) -> tuple[bf.Session, Scripted]:
    """A session with such a server."""
    server = Scripted(list(limits))
    return open_over(bf.Session, stubs, server, Options()), server
