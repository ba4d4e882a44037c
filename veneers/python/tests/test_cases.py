"""The cases that every client language runs: replayed from their files, and against servers.

Both send the bytes of the file, and know what it says. See ``cases/README.md``.
"""

from __future__ import annotations

import json
import socket
from pathlib import Path
from typing import Any

import pytest
from replies import unhexed
from script import VECTORS, Client, Machine
from servers import Server
from test_vectors import OUTPUTS

from bifrost_veneer import _tables as t
from bifrost_veneer.recorder import Greeting, Recorder
from bifrost_veneer.recorder.decode import Need, decode_reply

CASES = VECTORS.parent / "cases"
GENERATED = CASES / "generated"
FILES = sorted(
    path for path in GENERATED.glob("*.json") if not path.name.endswith(".interface.json")
)


def load(path: Path) -> dict[str, Any]:
    return json.loads(path.read_text(encoding="utf-8"))  # type: ignore[no-any-return]


def client_of(case: dict[str, Any]) -> Client:
    return Client(GENERATED / f"{case['interface']}.interface.json")


class Replayed(Machine):
    """A case whose answers are those of its file."""

    def __init__(self, client: Client, case: dict[str, Any]) -> None:
        self.answers = [crossing["answered"] for crossing in case["crossings"]]
        super().__init__(client, case)

    def server_text(self, case: dict[str, Any]) -> str:
        if "server_interface" not in case:
            return ""
        return (GENERATED / f"{case['server_interface']}.interface.json").read_text(
            encoding="utf-8"
        )

    def next_reply(self, wanted: int) -> bytes | None:
        answer = self.answers.pop(0)
        if self.replies:
            # The stream ends in its place.
            return self.replies.popleft()
        return None if answer is None else unhexed(answer)


class Live(Machine):
    """A case against a server."""

    def __init__(self, client: Client, case: dict[str, Any], url: str) -> None:
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(30)
        self.socket.connect(url.removeprefix("unix://"))
        self.came = b""
        super().__init__(client, case)

    def greet(
        self, greeting: Greeting, case: dict[str, Any], limits: list[tuple[int, int]]
    ) -> Recorder:
        # The stubs have no digest, so the server's interface is asked for, and has the same
        # numbers.
        while True:
            self.socket.sendall(greeting.take_bytes())
            recorder = greeting.handle_bytes(self.socket.recv(1 << 20))
            if recorder is not None:
                return recorder

    def send(self, flushed: bool) -> None:
        before = len(self.sent)
        super().send(flushed)
        for piece in self.sent[before:]:
            self.socket.sendall(piece)

    def next_reply(self, wanted: int) -> bytes | None:
        if self.replies:
            self.socket.close()
            return self.replies.popleft()
        while True:
            try:
                _, length = decode_reply(self.came, t.REPLY_BYTES_MAX)
            except Need:
                more = self.socket.recv(1 << 20)
                assert more, "the server has ended the session"
                self.came += more
                continue
            reply, self.came = self.came[:length], self.came[length:]
            return reply


def test_there_are_cases() -> None:
    assert len(FILES) >= 40


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_case_is_replayed(path: Path) -> None:
    case = load(path)
    outputs = Replayed(client_of(case), case).run(case["script"])
    for name in OUTPUTS:
        assert outputs[name] == case[name], name


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_case_is_live(path: Path) -> None:
    case = load(path)
    settings = [part for setting in case.get("set", ()) for part in ("--set", setting)]
    with Server(CASES / "programs" / f"{case['program']}.theta", *settings) as server:
        machine = Live(client_of(case), case, server.url)
        outputs = machine.run(case["script"])
        machine.socket.close()
    for name in OUTPUTS:
        assert outputs[name] == case[name], name
