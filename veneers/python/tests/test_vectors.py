"""The vectors that every language reads: commands and replies as bytes, scripts of the recorder."""

from __future__ import annotations

import json
import os
from typing import Any

import pytest
from replies import encode_command, encode_reply, shown_profile, unhexed
from script import VECTORS, Client, Cut, Machine

from bifrost_veneer import _tables as t
from bifrost_veneer.recorder import Interface
from bifrost_veneer.recorder.commands import decode_command, decode_commands, show
from bifrost_veneer.recorder.decode import (
    Bad,
    CameException,
    CameSignal,
    CameUnhandled,
    ErrorReply,
    Farewell,
    Flushed,
    Handle,
    History,
    InterfaceReply,
    Need,
    Reply,
    Table,
    Welcome,
    decode_reply,
)
from bifrost_veneer.recorder.errors import Misused


def vectors(name: str) -> list[Any]:
    return json.loads((VECTORS / name).read_text())  # type: ignore[no-any-return]


def cases() -> list[dict[str, Any]]:
    paths = sorted((VECTORS / "recorder").glob("*.json"))
    found = [case for path in paths for case in json.loads(path.read_text())]
    assert len(found) >= 40
    return found


CLIENT = Client()
CASES = cases()
OUTPUTS = ("crossings", "results", "known", "history", "history_omitted", "counters", "closed")


# L1: bytes.


@pytest.mark.parametrize("row", vectors("commands.json"), ids=lambda row: row.get("text", "")[:30])
def test_commands(row: dict[str, Any]) -> None:
    data = unhexed(row["hex"])
    assert decode_commands(data) == row["commands"]
    assert b"".join(encode_command(command) for command in row["commands"]) == data
    for at in range(len(data)):
        # A command that is cut is no other one.
        try:
            _, end = decode_command(data[:at])
            assert end <= at
        except Need as need:
            assert need.length > at


@pytest.mark.parametrize("row", vectors("malformed.json"), ids=lambda row: row["what"])
def test_malformed_commands(row: dict[str, Any]) -> None:
    with pytest.raises(Bad) as bad:
        decode_command(unhexed(row["hex"]))
    assert (bad.value.name, bad.value.offset) == (row["error"], row["offset"])


def shown(reply: Reply) -> Any:
    match reply:
        case Welcome(version, session, digest, server, limits):
            pairs = [list(pair) for pair in limits]
            parts = {
                "version": version,
                "session": session,
                "digest": digest.hex(),
                "server": server,
            }
            return {"welcome": parts | {"limits": pairs}}
        case Flushed(outcomes, exceptions, omitted, calls, fuel, profile):
            parts = {"outcomes": [outcome(one) for one in outcomes], "omitted": omitted}
            listed = [exception(one) for one in exceptions]
            if profile is not None:
                parts["profile"] = shown_profile(profile)
            return {"flushed": parts | {"exceptions": listed, "calls": calls, "fuel": fuel}}
        case InterfaceReply(text):
            return {"interface": text.decode()}
        case History(listed, omitted):
            return {
                "exceptions": {
                    "list": [[n, exception(one)] for n, one in listed],
                    "omitted": omitted,
                }
            }
        case Farewell():
            return "farewell"
        case ErrorReply(number, position, text):
            return {"error": {"number": number, "position": position, "text": text}}


def outcome(came: Any) -> Any:
    if isinstance(came, Handle):
        return {"handle": came.number, "type": came.type}
    tag, payload = came
    if isinstance(payload, Table):
        cells = [outcome(cell) for cell in payload.cells]
        return {"rows": {"columns": [list(column) for column in payload.columns], "cells": cells}}
    if tag == t.TAG_EXCEPTION:
        return {"exception": payload}
    return "absent" if tag == t.TAG_ABSENT else show(came)


def exception(came: CameException) -> dict[str, Any]:
    out: dict[str, Any] = {"call": came.call, "iterations": list(came.rounds)}
    kind = came.kind
    if isinstance(kind, CameSignal):
        out["signal"] = {"name": kind.name, "values": [outcome(value) for value in kind.values]}
        if kind.places:
            places = [{"routine": p.routine, "file": p.file, "line": p.line} for p in kind.places]
            out["signal"] |= {"places": places, "more_places": kind.more}
    elif isinstance(kind, CameUnhandled):
        out["unhandled"] = {"argument": kind.argument, "cause": kind.cause}
        if kind.back:
            out["unhandled"]["back"] = kind.back
    else:
        out["refused"] = {"number": kind.number, "text": kind.text}
    return out


@pytest.mark.parametrize("row", vectors("replies.json"), ids=lambda row: str(row["reply"])[:20])
def test_replies(row: dict[str, Any]) -> None:
    data = unhexed(row["hex"])
    reply, length = decode_reply(data, t.REPLY_BYTES_MAX)
    assert (shown(reply), length) == (row["reply"], len(data))
    assert encode_reply(row["reply"]) == data
    for at in range(len(data)):
        with pytest.raises(Need):
            decode_reply(data[:at], t.REPLY_BYTES_MAX)


def test_changed_replies_are_read_or_refused() -> None:
    for row in vectors("replies.json"):
        data = unhexed(row["hex"])
        for at in range(len(data)):
            changed = data[:at] + bytes([data[at] ^ 1 << (at % 8)]) + data[at + 1 :]
            try:
                decode_reply(changed, t.REPLY_BYTES_MAX)
            except (Need, Bad):
                pass


def test_the_interface() -> None:
    interface = Interface((VECTORS / "interface.json").read_text())
    assert interface.type_name(interface.type_numbers["DataBase"]) == "DataBase"
    number = interface.method_numbers[interface.type_numbers["DataBase"], "fetch"]
    method = interface.method(number)
    assert method is not None
    assert (
        interface.heading(method) == "fetch (user: string) returns (DataElem) signals (not_found)"
    )
    assert interface.method(len(interface.owners)) is None


# L2: the recorder.


def run(case: dict[str, Any], cut: Cut | None = None) -> dict[str, Any]:
    return Machine(CLIENT, case, cut).run(case["script"])


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["case"])
def test_scripts_have_their_outputs(case: dict[str, Any]) -> None:
    outputs = run(case)
    for name in OUTPUTS:
        assert outputs[name] == case[name], name


def random_cases() -> list[dict[str, Any]]:
    """The random scripts; ``BIFROST_RANDOM`` names a file with more."""
    path = os.environ.get("BIFROST_RANDOM", str(VECTORS / "random.jsonl"))
    with open(path, encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


@pytest.mark.parametrize("case", random_cases(), ids=lambda case: case["case"])
def test_random_scripts_have_their_outputs(case: dict[str, Any]) -> None:
    outputs = run(case)
    outputs["crossings"] = [{"sent": crossing["sent"]} for crossing in outputs["crossings"]]
    for name in OUTPUTS:
        assert outputs[name] == case[name], name


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["case"])
def test_a_reply_may_be_cut_anywhere(case: dict[str, Any]) -> None:
    whole = run(case)
    longest = max(
        [len(unhexed(c["answered"])) for c in whole["crossings"] if c["answered"]], default=0
    )
    most = 4 if "server" in case else 64
    cuts = [Cut(at=at) for at in range(min(longest, most))]
    for cut in [*cuts, Cut(every=1), Cut(every=5)] if longest < 20_000 else [Cut(every=4096)]:
        assert run(case, cut) == whole


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["case"])
def test_no_byte_of_a_reply_is_trusted(case: dict[str, Any]) -> None:
    if "server" in case:
        return
    length = sum(len(unhexed(c["answered"])) for c in run(case)["crossings"] if c["answered"])
    # Nothing else is raised, and no session goes on that sends what is no command.
    for at in range(0, min(length, 300), 3):
        run(case, Cut(changed=at))


def test_columns_of_a_refused_table_change_no_other_command() -> None:
    def sent(with_table: bool) -> bytes:
        machine = Machine(Client(), {})
        core = machine.recorder
        for number in range(1, 4):
            machine.take(number, {"lookup": "database", "type": "DataBase", "as": f"$d{number}"})
        if with_table:
            core.open_table(Misused(t.MISUSE_TOO_LONG), machine.place)
            core.set_columns([(machine.client.type("int"), "int")] * 2, machine.place)
        return core.take_bytes()

    assert sent(True) == sent(False)
