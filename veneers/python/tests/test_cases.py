"""The cases that every client language runs: replayed from their files, and against servers.

Both send the bytes of the file, and know what it says. Evaluated against a server, a case has the
results of its claims only. See ``cases/README.md``.
"""

from __future__ import annotations

import json
import socket
import struct
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
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


def bytes_of(folded: Any) -> bytes:
    """The bytes that stand in few words in the file of a case with a loop."""
    if isinstance(folded, str):
        return unhexed(folded)
    if isinstance(folded, list):
        return b"".join(bytes_of(part) for part in folded)
    block = unhexed(folded["words"])
    if "plus" not in folded:
        return block * int(folded["times"])
    count = len(block) // 8
    words, all_bytes = list(struct.unpack(f"<{count}Q", block)), []
    for _ in range(folded["times"]):
        all_bytes.append(struct.pack(f"<{count}Q", *words))
        words = [word + plus for word, plus in zip(words, folded["plus"], strict=True)]
    return b"".join(all_bytes)


def unfolded(outputs: dict[str, Any]) -> dict[str, Any]:
    """The outputs of a case with a loop: its crossings as bytes."""
    crossings: list[Any] = []
    for crossing in outputs["crossings"]:
        sent: list[bytes] = []
        for piece in crossing["sent"]:
            several = isinstance(piece, dict) and "sent" in piece
            data = bytes_of(piece["sent"] if several else piece)
            sent += [data] * (piece["times"] if several else 1)
        one = {"sent": sent, "answered": bytes_of(crossing["answered"])}
        crossings += [one] * crossing.get("times", 1)
    return outputs | {"crossings": crossings}


class Played(Machine):
    """A case whose answers come from elsewhere."""

    makes_replies = False

    def __init__(self, client: Client, case: dict[str, Any]) -> None:
        self.is_long = has_loops(case)
        super().__init__(client, case)

    def cross(self, answered: bytes | None) -> None:
        if self.is_long:
            sent, self.sent = self.sent, []
            self.crossings.append({"sent": sent, "answered": answered})
        else:
            super().cross(answered)


class Replayed(Played):
    """A case whose answers are those of its file."""

    def __init__(self, client: Client, case: dict[str, Any], outputs: dict[str, Any]) -> None:
        answers = [crossing["answered"] for crossing in outputs["crossings"]]
        if not has_loops(case):
            answers = [None if answer is None else unhexed(answer) for answer in answers]
        self.answers = iter(answers)
        super().__init__(client, case)

    def server_text(self, case: dict[str, Any]) -> str:
        if "server_interface" not in case:
            return ""
        return (GENERATED / f"{case['server_interface']}.interface.json").read_text(
            encoding="utf-8"
        )

    def next_reply(self, wanted: int) -> bytes | None:
        answer: bytes | None = next(self.answers)
        # The stream ends in its place.
        return self.replies.popleft() if self.replies else answer


class Live(Played):
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


def has_loops(case: dict[str, Any]) -> bool:
    return any("loop" in step for step in case["script"])


def outputs_of(case: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """The outputs of each session by its name; a single one has none."""
    sessions: dict[str, dict[str, Any]] = case.get("sessions", {"": case})
    return {
        name: unfolded(outputs) if has_loops(case) else outputs
        for name, outputs in sessions.items()
    }


def play(case: dict[str, Any], machines: Mapping[str, Machine]) -> None:
    """Runs the steps of all sessions in their order, and compares the outputs of each."""
    for index, step in enumerate(case["script"]):
        machines[step.get("session", "")].take(index + 1, step)
    for session, expected in outputs_of(case).items():
        outputs = machines[session].finish()
        for name in OUTPUTS:
            found, wanted, where = outputs[name], expected[name], f"{name} of {session or 'it'}"
            # Long bytes are no message.
            is_same = found == wanted
            assert is_same if has_loops(case) else found == wanted, where


#: The tags of cases that are about batches: with a flush after each step they are others.
OF_BATCHES = frozenset(
    [
        "closed",
        "counters",
        "growth",
        "leave",
        "limits",
        "misuse",
        "not_reached",
        "overlap",
        "remap_many",
        "rounds",
        "rows",
        "transaction",
        "unseen",
    ]
)
EVALUATED = [path for path in FILES if OF_BATCHES.isdisjoint(load(path)["covers"])]


def evaluate(case: dict[str, Any], machines: Mapping[str, Machine]) -> None:
    """Runs the steps with a flush after each; claims have the results that they have in batches."""
    script = case["script"]
    for index, step in enumerate(script):
        machine = machines[step.get("session", "")]
        machine.take(index + 1, step)
        core = machine.recorder
        # A further block follows its structure directly.
        goes_on = index + 1 < len(script) and "reopen" in script[index + 1]
        if not (core.scopes or core.shipping or core.is_closed or goes_on):
            # Nobody is told of failures.
            machine.flush()

    def claims(results: list[Any]) -> list[Any]:
        steps = [(script[number - 1], rest) for number, *rest in results]
        return [plain(rest) for step, rest in steps if "claim" in step or "read_rows" in step]

    for session, expected in outputs_of(case).items():
        assert claims(machines[session].results) == claims(expected["results"]), session


def plain(part: Any) -> Any:
    """A result without what counts commands and batches."""
    if isinstance(part, list):
        return [plain(item) for item in part]
    if not isinstance(part, dict):
        return part
    return {
        name: "object" if name == "handle" else plain(value)
        for name, value in part.items()
        if name not in ("number", "place", "rounds")
    }


def test_there_are_cases() -> None:
    assert len(FILES) >= 60
    assert len(EVALUATED) >= 40


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_case_is_replayed(path: Path) -> None:
    case, client = load(path), client_of(load(path))
    sessions = outputs_of(case).items()
    play(case, {name: Replayed(client, case, outputs) for name, outputs in sessions})


@contextmanager
def live(case: dict[str, Any]) -> Iterator[dict[str, Machine]]:
    """A machine for each session of a case, connected to a server."""
    client = client_of(case)
    settings = [part for setting in case.get("set", ()) for part in ("--set", setting)]
    with Server(CASES / "programs" / f"{case['program']}.theta", *settings) as server:
        machines = {name: Live(client, case, server.url) for name in outputs_of(case)}
        try:
            yield dict(machines)
        finally:
            for machine in machines.values():
                machine.socket.close()


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_case_is_live(path: Path) -> None:
    case = load(path)
    with live(case) as machines:
        play(case, machines)


@pytest.mark.parametrize("path", EVALUATED, ids=lambda path: path.stem)
def test_a_case_is_evaluated(path: Path) -> None:
    case = load(path)
    with live(case) as machines:
        evaluate(case, machines)
