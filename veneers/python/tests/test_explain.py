"""Explanations of batches: the lines are those of the text form, which the shell reads and explains
again.
"""

from __future__ import annotations

import subprocess
from typing import Any

import pytest
from conformance.bifrost_stubs import Probe, Values, connect
from servers import BIFROST, CONFORMANCE, EXAMPLES, Server, bifrost_environment

import bifrost_veneer as bf
from bifrost_veneer.explain import Printer, explain_bytes
from bifrost_veneer.recorder.numbers import Numbers
from bifrost_veneer.runtime import connect as connect_to_any


def record(s: bf.Session) -> None:
    """Records commands of every kind that the text form has words for."""
    p = s.lookup("probe", Probe)
    v: Values = p.values()
    p.same_string('a "text"\n with \t, \\ and \x1b')
    p.same_char("'")
    p.same_bytes(b"\x00\xff")
    p.same_real(1.5)
    p.same_bool(True)
    p.same_null(None)
    p.divide(7, 2)
    v.total([1, 2, 3])
    v.nested([[1], [2, 3]])
    v.named("zoe")
    v.named(None)
    item = p.fresh()
    item.is_(Probe)
    p.itself().as_(Probe)
    cell = s.cell(0)
    rows = s.rows(bf.Int, bf.Str)
    touch = s.procedure("touch", (bf.Int,), bf.Int, lambda this, n: n + 1)
    touch(cell.get())
    with s.foreach(p.pairs(3)) as (n, text):
        rows.push(n, text)
        with s.if_(n > 1):
            s.continue_()
        with s.else_():
            cell.put(n)
    with s.while_(lambda: cell.get() < 3):
        cell.put(cell.get() + 1)
        s.break_()
    with s.except_():
        p.choose(3)
    with s.when("odd", bf.Int) as (odd,):
        cell.put(odd)
    with s.others() as name:
        p.same_string(name)
    v.array().get()
    s.commit()


def shell(url: str, lines: list[str]) -> list[str]:
    """What the shell explains of lines that it is given."""
    done = subprocess.run(
        [BIFROST, "shell", url],
        input="\n".join([*lines, "explain", "bye"]) + "\n",
        capture_output=True,
        text=True,
        env=bifrost_environment("/tmp"),
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    answer = done.stdout.splitlines()
    at = next(n for n, line in enumerate(answer) if line.startswith("# batch 1"))
    return [line for line in answer[at + 1 :] if not line.startswith("ok")]


def test_the_server_measures_the_batches_of_which_it_is_asked() -> None:
    with Server(CONFORMANCE) as server, connect(server.url) as s:
        p = s.lookup("probe", Probe)
        assert p.divide(6, 2)[0].claim() == 3 and s.profile_of_last is None
        s.profile()
        p.divide(8, 2)
        p.values().total([1, 2, 3])
        s.flush()
        profile = s.profile_of_last
        assert isinstance(profile, bf.Profile) and profile.runs == 1
        assert [entry.cost.calls for entry in profile.entries] == [1, 1, 1]
        assert profile.nanoseconds >= sum(entry.cost.nanoseconds for entry in profile.entries) > 0
        assert (profile.omitted, profile.rest) == (0, None)
        with s.if_(p.same_bool(True)), pytest.raises(bf.Misuse):
            s.profile(False)
        s.profile(False)
        assert p.divide(6, 2)[0].claim() == 3 and s.profile_of_last is None
    with pytest.raises(bf.Closed):
        s.profile()


def test_the_shell_explains_the_same_lines() -> None:
    with Server(CONFORMANCE) as server, connect(server.url) as s:
        record(s)
        lines = s.explain().splitlines()
        assert lines[0] == "@1 := lookup probe: Probe"
        again = shell(server.url, lines)
        assert again[: len(lines)] == lines


def test_messages_take_a_place() -> None:
    with (
        Server(EXAMPLES / "auctions" / "auctions.theta") as server,
        connect_to_any(server.url) as s,
    ):
        house: Any = s.find("house")
        auction = house.open("vase", 1)
        auction.send.bid(5)
        auction.send.bid(6)
        s.abort()
        assert s.explain().splitlines() == [
            f'@1 := h{house._ref}.open("vase", 1)',
            "send @1.bid(5)",
            "send @1.bid(6)",
            "@4 := abort",
        ]


def test_what_the_text_form_has_no_words_for_is_a_comment() -> None:
    with Server(CONFORMANCE) as server, connect(server.url) as s:
        p = s.lookup("probe", Probe)
        item, other = p.fresh(), p.fresh()
        s.flush()
        handle = item._ref
        del item
        other.name()
        assert s.explain() == f"@1 := h{other._ref}.name()"
        numbers: Numbers = s.core.numbers
        flushed = (
            {"free": [handle, 7]},
            {"get": {"object": -(1 << 32) - 3}},
            {"call": {"method": 4000, "receiver": 5, "args": []}},
            {"call_routine": {"routine": 900, "args": [{"ref": 0}]}},
            {"transaction": {"tries": 3, "batch": {"client": "0" * 32, "number": 4}}},
            {"flush": {"wanted": [[1, 2], [4, 1]], "quiet": False}},
            "commit",
            "clear_history",
            {"hello": {"version": 1, "client": "me"}},
            {"lookup": {"name": "a name", "expected": None}},
        )
        printer = Printer(numbers)
        assert [printer.line(command) for command in flushed] == [
            f"# gives back h{handle}, h7",
            "@1 := get @3^1",
            "@2 := h5.? # method 4000 is none",
            "@3 := ? # routine 900 is none",
            "@4 := transaction 3 # batch 4",
            "flush # wants @1 to @2, @4",
            "@1 := commit",
            "clear",
            'hello 1 name "me"',
            '@2 := lookup "a name"',
        ]
        assert explain_bytes(numbers, b"") == ""
