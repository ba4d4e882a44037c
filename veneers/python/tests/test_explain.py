"""Explanations of batches, and advice: the texts and expectations are those of Rust
(``crates/veneer/tests/explain.rs``), and the shell reads the lines and explains them again.
"""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
from conformance.bifrost_stubs import Probe, Values, connect
from database.bifrost_stubs import INTERFACE, DataBase
from database.bifrost_stubs import aconnect as aconnect_database
from replies import unhexed
from scripted import Scripted, scripted
from servers import BIFROST, CONFORMANCE, EXAMPLES, ROOT, Server, bifrost_environment

import bifrost_veneer as bf
from bifrost_veneer import _tables as t
from bifrost_veneer.recorder.numbers import Numbers, Stubs
from bifrost_veneer.recorder.printer import Printer
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
        head, *lines = s.explain().splitlines()
        assert re.fullmatch(r"# batch 1: \d+ commands, not sent", head)
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
            "# batch 2: 4 commands, not sent",
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
        assert s.explain() == f"# batch 2: 1 commands, not sent\n@1 := h{other._ref}.name()\n"
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
        assert printer.line({"send": {"method": 4000, "receiver": 5, "args": []}}) == (
            "# send of method 4000, which is none"
        )
        assert Printer(numbers).lines(b"\x17") == ("", 1)


# The accounts of batches, with a server whose answers are prepared.


def opened(*limits: tuple[int, int]) -> tuple[bf.Session, DataBase, Scripted]:
    """A session, and the object that all calls begin with."""
    s, server = scripted(INTERFACE, *limits)
    return s, s.lookup("database", DataBase), server


def plain(text: object) -> str:
    """A text without the places in this file and the times, which differ."""
    text = re.sub(r"\S*test_explain\.py:\d+", "here", str(text))
    return re.sub(r", answered in \d+\.\d us", "", text)


def handle(number: int) -> dict[str, Any]:
    return {"handle": number}


def integer(number: int) -> dict[str, Any]:
    return {"int": str(number)}


def printer_of(path: Path) -> Printer:
    return Printer(Numbers(Stubs(bytes(32), path.read_text)))


def test_all_commands_have_the_lines_that_they_have_in_rust() -> None:
    rows = json.loads((ROOT / "vectors/explained.json").read_text())
    assert len(rows) > 100
    for row in rows:
        if "commands" in row:
            path, sent = ROOT / "vectors/interface.json", [row["commands"]]
        else:
            case = json.loads((ROOT / "cases/generated" / row["case"]).read_text())
            name = case.get("server_interface") or case["interface"]
            path = ROOT / f"cases/generated/{name}.interface.json"
            sent = [words for crossing in case["crossings"] for words in crossing["sent"]]
        data = b"".join(unhexed(words) for words in sent)
        assert printer_of(path).lines(data) == (row["lines"], 0), row


RECORDED = """@1 := lookup database: DataBase
@2 := cell int
@3 := @2.put(0)
foreach $x4 in @1.users() do
  @5 := $x4.visits()
  @6 := @5.gt(0)
  if
  then @6
    @7 := @2.get()
    @8 := $x4.visits()
    @9 := @7.add(@8)
    @10 := @2.put(@9)
  end
end
"""


def test_the_batch_so_far_is_shown_and_nothing_crosses() -> None:
    s, server = scripted(INTERFACE)
    assert s.explain() == "# batch 1: nothing is recorded\n"
    assert (s.explain_last(), s.explain_batches(), s.advice()) == (None, [], [])
    db = s.lookup("database", DataBase)
    total = s.cell(0)
    with s.foreach(db.users()) as e, s.if_(e.visits() > 0):
        total.put(total.get() + e.visits())
    assert s.explain() == f"# batch 1: 15 commands, not sent\n{RECORDED}"
    assert s.counters.crossings == 0
    answer = {"outcomes": [handle(5), handle(6), integer(42)], "calls": 9, "fuel": 12}
    server.answers.append(answer)
    result = total.get()
    assert result.claim() == 42
    last = s.explain_last() or ""
    assert re.search(r", answered in \d+\.\d us; sent", last), last
    head, *lines = plain(last).splitlines()
    account = (
        "batch 1: 16 commands, 9 calls run, fuel 12; sent by the claim at here of `cell[int].get`, "
        "recorded at here"
    )
    assert head == f"# {account}"
    assert lines[-2:] == ["@11 := @2.get()", "flush # wants @1 to @2, @11"]
    assert [plain(line) for line in s.explain_batches()] == [account]
    # A flush has its place, a batch without an answer no figures, and failures are counted.
    db.fetch("eve")
    s.send_batch()
    sent = plain(s.explain_last()).splitlines()[0]
    assert sent == "# batch 2: 1 commands, not answered; sent by the call at here"
    failure = {"call": 1, "refused": {"number": 20, "text": "no"}}
    server.answers.append({"exceptions": [failure], "outcomes": [{"exception": 0}]})
    late = db.fetch("bob").visits()
    with pytest.raises(bf.BifrostError):
        late.claim()
    assert "0 calls run, fuel 0, 1 failures; sent by the claim" in plain(s.explain_batches()[-1])


def test_a_flush_of_nothing_is_not_the_cause_of_the_next_batch() -> None:
    s, db, server = opened()
    server.outcomes(handle(5))
    s.flush()
    s.flush()
    with s.if_(s.value(True)), pytest.raises(bf.Misuse):
        db.fetch("eve").visits().claim()
    s.core.begin_flush(False)
    assert plain(s.explain_batches()[-1]) == "batch 2: 6 commands, not answered"


def test_a_long_batch_is_shown_from_its_begin_and_says_what_is_missing() -> None:
    s, db, server = opened()
    # More than one piece is sent before the batch ends.
    for n in range(200):
        db.new_user(f"user {n}")
    told = s.explain().splitlines()
    assert len(told) == 202
    assert told[1] == "@1 := lookup database: DataBase"
    assert told[-1] == '@201 := @1.new_user("user 199")'
    for _ in range(50):
        db.new_user("x" * 2_000)
    told = s.explain().splitlines()
    assert re.fullmatch(r"# \d+ more bytes, which are not kept", told[-1])
    assert sum(map(len, told)) < 65_536 + 2_000
    server.outcomes(handle(5))
    s.flush()
    # The one place that repeats a call most often.
    assert [plain(advice) for advice in s.advice()] == [
        "`DataBase.new_user` was recorded 200 times or more at here in one batch: a `foreach` or "
        "`while` is recorded and sent once"
    ]
    assert (s.advice()[0].kind, s.advice()[0].times) == ("repeated", 200)


def test_claims_that_cross_again_and_again_are_named() -> None:
    s, db, server = opened()
    a, b, c = db.fetch("a"), db.fetch("b"), db.fetch("c")
    server.outcomes(handle(5), handle(6), handle(7), handle(8), integer(1))
    assert a.visits().claim() == 1
    server.outcomes(integer(2))
    assert b.visits().claim() == 2
    (apart,) = s.advice()
    assert plain(apart) == (
        "the claims at here and here crossed one after the other, after 8 commands or fewer each: "
        "record `DataElem.visits` before the first claim; if it needs the claimed value, pass it the "
        "promise"
    )
    lines = [str(place).rpartition(":")[2] for place in (apart.first, apart.place)]
    assert int(lines[1]) - int(lines[0]) == 2
    for _ in range(5):
        server.outcomes(integer(3))
        assert c.visits().claim() == 3
    again = s.advice()[0]
    assert plain(again) == (
        "5 of the last 7 batches ended with the claim of `DataElem.visits` at here, after 8 commands "
        "or fewer: record the calls of all rounds before the first claim, or have the server loop "
        "with `foreach`, `while` or a procedure and bring the values back as rows of a table"
    )
    assert (again.kind, again.times, again.call) == ("claim_again", 5, "DataElem.visits")
    # A claim that is the end of much work, and a flush, are nothing to change.
    for _ in range(40):
        for _ in range(20):
            db.fetch("d").touch()
        s.flush()
    assert s.advice() == []
    assert len(s.explain_batches()) == 32


def test_a_profile_stands_beside_the_commands_of_the_last_batch() -> None:
    s, db, server = opened((t.LIMIT_PROFILE_ENTRIES, 4))
    s.profile()
    total = s.cell(0)
    with s.foreach(db.users()) as e:
        total.put(total.get() + e.visits())

    def cost(nanoseconds: int, calls: int, fetches: int) -> dict[str, int]:
        figures = {"calls": calls, "fuel": calls, "fetches": fetches, "objects": 3 * fetches}
        return {"nanoseconds": nanoseconds, **figures}

    entries = [
        {"call": 1, **cost(20_000, 0, 2)},
        {"call": 3, **cost(400, 1, 0)},
        {"call": 4, "structure": True, **cost(61_040, 40, 3)},
    ]
    profile = {"nanoseconds": 84_200, "fetches": 5, "objects": 15, "runs": 1, "entries": entries}
    profile["rest"] = {"omitted": 1, **cost(350, 1, 0)}
    outcomes = [handle(5), handle(6), integer(42)]
    server.answers.append({"outcomes": outcomes, "calls": 42, "fuel": 42, "profile": profile})
    assert total.get().claim() == 42
    head, *lines = plain(s.explain_last()).splitlines()
    assert head.startswith(
        "# batch 1: 12 commands, 42 calls run, fuel 42, at the server 84.2 us, 5 fetches, 15 objects; sent"
    )
    assert lines == [
        "@1 := lookup database: DataBase  # 20.0 us, 2 fetches, 6 objects",
        "profile on",
        "@2 := cell int",
        "@3 := @2.put(0)  # 0.4 us, 1 calls, fuel 1",
        "foreach $x4 in @1.users() do  # 61.0 us, 40 calls, fuel 40, 3 fetches, 9 objects",
        "  @5 := @2.get()",
        "  @6 := $x4.visits()",
        "  @7 := @5.add(@6)",
        "  @8 := @2.put(@7)",
        "end",
        "@9 := @2.get()",
        "flush # wants @1 to @2, @9",
        "# 1 more: 0.4 us, 1 calls, fuel 1",
    ]
    # The wish ends, and the next answer has none.
    s.profile(False)
    s.flush()
    assert s.profile_of_last is None
    assert (s.explain_last() or "").endswith("profile off\nflush\n")


def test_a_transaction_has_its_place() -> None:
    with Server(CONFORMANCE) as server, connect(server.url) as s:
        p = s.lookup("probe", Probe)
        s.flush()
        s.transaction(lambda: p.same_int(1))
        last = s.explain_batches()[-1]
        assert re.search(r"; sent by the call at .*test_explain\.py:\d+$", last), last


def test_an_await_has_its_place() -> None:
    async def main(url: str) -> None:
        async with aconnect_database(url) as s:
            db = s.lookup("database", DataBase)
            one, other = db.fetch("ann").visits(), db.fetch("eve").visits()
            assert sum(await asyncio.gather(claim(one), claim(other))) == 0
            db.fetch("eve").touch()
            await s.flush()
            first, second = (plain(line) for line in s.explain_batches())
            assert first.endswith(
                "; sent by the claim at here of `DataElem.visits`, recorded at here"
            )
            assert second.endswith("; sent by the call at here")

    async def claim(promise: bf.Int) -> int:
        return await promise

    with Server(EXAMPLES / "database" / "database.theta") as server:
        asyncio.run(main(server.url))
