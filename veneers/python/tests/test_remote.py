"""Functions that run at the server: what they do there, what is recorded, and what is refused."""

# mypy: disable-error-code="var-annotated,union-attr,operator,assignment,attr-defined,misc,return-value,arg-type,call-arg"
# The bodies are Python of the server: a checker takes `n += promise` for a change of type.

from __future__ import annotations

import linecache
import re
import runpy
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from conformance.bifrost_stubs import (
    Counter,
    NotFound,
    Odd,
    Probe,
    Spot,
    Third,
    Values,
    connect,
    squares,
)
from database import bifrost_stubs as database
from servers import CONFORMANCE, EXAMPLES, Server

import bifrost_veneer as bf
from bifrost_veneer import RemoteError, remote

#: The least number that counts.
LEAST = 2


@pytest.fixture(scope="module")
def session() -> Iterator[bf.Session]:
    with Server(CONFORMANCE) as server, connect(server.url) as s:
        yield s


@remote
def total(p: Probe, limit: int) -> int:
    """Adds up the even numbers up to a limit."""
    n = 0
    for i in p.numbers(limit):
        if i % 2 != 0:
            continue
        if i > 8:
            break
        n += i
    return n


@remote
def factorial(n: int) -> int:
    if n <= 1:
        return 1
    return n * factorial(n - 1)


@remote
def twice(n: int) -> int:
    return 2 * n


@remote
def forms(p: Probe, v: Values, n: int, name: str) -> str:
    text = name + "!"
    quotient, remainder = p.divide(n, 3)
    while (n > 0 and not n == 7) or LEAST < n < 5:  # noqa: SIM201
        n -= 1
        if n == 5:
            text = text + "five "
        elif n < 3:
            break
        else:
            text += twice(n).unparse() + " "
    for i in squares(3):
        text += i.unparse()
    for i, word in p.pairs(2):
        text = text + word + i.unparse()
    for i in range(2):
        text += (-i).unparse()
    for _ in range(1, LEAST + 1):
        pass
    p.counter().add(by=1)
    if v.total([1, quotient, remainder]) == v.total((1, quotient, remainder)):
        text += v.distance(("ab", Spot(1, 2), (n, 2))).unparse()
    return text


@remote
def handled(p: Probe, n: int) -> str:
    text = ""
    try:
        text = p.choose(n).unparse()
        p.item("zoe")
    except Third:
        text = "third"
    except Odd:
        text = text + "odd"
    except:  # noqa: E722
        text += "others"
    return text


@remote
def touch(c: Counter) -> None:
    """Adds two."""
    c.add(1)
    c.add(1)


@remote
def constant() -> float:
    return 0.5


@remote
def is_between(n: int, x: float, b: bool) -> bool:
    return (1 < n <= 5 or x >= 0.5) and b


def test_functions_run_at_the_server(session: bf.Session) -> None:
    s = session
    p = s.lookup("probe", Probe)
    before = s.counters.crossings
    results = [total(p, 4), total(p, 100), total(p, p.same_int(2))]
    assert [result.claim() for result in results] == [6, 20, 2]
    assert s.counters.crossings == before + 1
    assert factorial(s.value(10)).claim() == 3_628_800
    assert factorial.on(s)(5).claim() == 120
    assert constant.on(s)().claim() == 0.5
    assert [
        is_between.on(s)(n, x, b).claim()
        for n, x, b in ((3, 0.0, True), (9, 1, True), (9, 0, True))
    ] == [
        True,
        True,
        False,
    ]
    assert [forms(p, p.values(), n, "x").claim() for n in (8, 6, 1)] == [
        "x!14 14911220-1206",
        "x!five 8 6 14911220-1201",
        "x!14911220-1199",
    ]
    assert [handled(p, n).claim() for n in (2, 3, 5)] == ["2others", "third", "odd"]
    counter = p.counter()
    was = counter.value().claim()
    touch(counter).claim()
    assert counter.value().claim() == was + 2
    assert total.__doc__ == "Adds up the even numbers up to a limit."


def test_a_failure_is_that_of_the_call(session: bf.Session) -> None:
    p = session.lookup("probe", Probe)

    @remote
    def missing(p: Probe) -> str:
        return p.item("zoe").name()

    with pytest.raises(NotFound) as caught:
        missing(p).claim()
    assert caught.value.values == ("zoe", 4)


def test_it_is_recorded_once_and_as_written() -> None:
    with Server(CONFORMANCE) as server, connect(server.url) as s:
        p = s.lookup("probe", Probe)
        total(p, 3)
        total(p, 4)
        assert s.explain().splitlines() == [
            "@1 := lookup probe: Probe",
            "procedure test_remote.total ($x2: Probe, $x3: int) returns int",
            "  @4 := cell int",
            "  @5 := @4.put(0)",
            "  foreach $x6 in $x2.numbers($x3) do",
            "    if",
            "      @7 := $x6.mod(2)",
            "      @8 := @7.equal(0)",
            "      @9 := @8.bnot()",
            "    then @9",
            "      continue",
            "    end",
            "    if",
            "      @10 := $x6.gt(8)",
            "    then @10",
            "      break",
            "    end",
            "    @11 := @4.get()",
            "    @12 := @11.add($x6)",
            "    @13 := @4.put(@12)",
            "  end",
            "  @14 := @4.get()",
            "  return @14",
            "end",
            "@15 := test_remote.total(@1, 3)",
            "@16 := test_remote.total(@1, 4)",
        ]


# What is refused, each with a part of the message; all but the last ones when it is decorated.

REFUSED = [
    ("x = 1 if n > 0 else 2", "write `if` and `else`"),
    ("return f'{n}'", "unparse"),
    ("x = [i for i in p.numbers(n)]", "ListComp"),
    ("with p: pass", "With"),
    ("x = p.values()[0]", "Subscript"),
    ("raise ValueError", "Raise"),
    ("p.x = 1", "only names are assigned"),
    ("x = y = 1", "one name is assigned"),
    ("x: int", "born with its first value"),
    ("n **= 2", "Pow"),
    ("x = n << 1", "LShift"),
    ("x = +n", "UAdd"),
    ("x = n in (1, 2)", "In"),
    ("x = p is p", "Is"),
    ("x = lambda: n", "Lambda"),
    ("del n", "Delete"),
    ("global k", "Global"),
    ("import os", "Import"),
    ("def f(): pass", "FunctionDef"),
    ("assert n", "Assert"),
    ("(x := n)", "a statement is a call"),
    ("n", "a statement is a call"),
    ("for i in p: pass", "iterates over a call"),
    ("for i in p.numbers(n): pass\n    else: pass", "no `else`"),
    ("while n > 0: pass\n    else: pass", "no `else`"),
    ("try: p.nothing()\n    finally: pass", "no `finally`"),
    ("try: p.nothing()\n    except NotFound as error: pass", "without a name"),
    ("p.same_int(*[1])", "Starred"),
    ("p.same_int(**{})", "one by one"),
    ("x = {1: 2}", "Dict"),
    ("x = ...", "does not cross"),
    ("x = 1j", "does not cross"),
    ("p.same_int(n).claim()", "`claim` has no meaning"),
    # Found when it is recorded, since it depends on names and types.
    ("x = nothing_there", "there is no `nothing_there`"),
    ("if n > 0: x = 1\n    p.same_int(x)", "born in another block"),
    ("if n: pass", "a condition is a truth value"),
    ("x = str(n)", "unparse"),
    ("x = len('a')", "length"),
    ("print(n)", "has no meaning at the server"),
    ("x = n / 2", "`//`"),
    ("x = n // -2", "never negative"),
    ("x = p == p", "`equal`"),
    ("x = p.nothing()", "no value"),
    ("x = p.numbers(n)", "no value"),
    ("p.numbers(n)", "called by `for`"),
    ("a, b = p.same_int(n)", "another number of results"),
    ("p.same_int('a')", "`int` was expected"),
    ("p.same_int()", "argument"),
    ("p.nowhere()", "has no method"),
    ("p._call(1)", "has no method"),
    ("try: p.nothing()\n    except ValueError: pass", "names an exception of the server"),
    ("for i in range(1, 2, 3): pass", "a begin and an end"),
    ("return n", "not what the function declares"),
]


def compiled(text: str, name: str) -> Callable[..., Any]:
    """A function whose source can be read."""
    file = f"<{name}>"
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    names: dict[str, Any] = {"Probe": Probe, "NotFound": NotFound, "bf": bf}
    exec(compile(text, file, "exec"), names)
    function: Callable[..., Any] = names["function"]
    return function


@pytest.mark.parametrize(("body", "message"), REFUSED, ids=[body[:30] for body, _ in REFUSED])
def test_what_has_no_meaning_is_refused(session: bf.Session, body: str, message: str) -> None:
    text = f"\ndef function(p: Probe, n: int) -> None:\n    {body}\n"
    p = session.lookup("probe", Probe)
    with pytest.raises(RemoteError) as refused:
        remote(compiled(text, f"refused {hash(body)}"))(p, 1)
    assert message in str(refused.value)
    assert refused.value.filename is not None
    assert refused.value.filename.startswith("<refused")
    assert refused.value.lineno is not None
    assert refused.value.lineno >= 2
    # Nothing of it is sent, and the session goes on.
    session.clear_exceptions()
    assert p.same_int(1).claim() == 1
    session.clear_exceptions()


def test_headings_are_checked(session: bf.Session) -> None:
    p = session.lookup("probe", Probe)
    for heading, message in (
        ("def function(p: Probe, n) -> None:", "the parameter `n` needs a type"),
        ("def function(p: Probe, n: list) -> None:", "needs a type of the stubs"),
        ("def function(p: Probe, n: int) -> dict:", "the result needs a type"),
        ("def function(p: Probe, n: int) -> int:", "does not return on every path"),
        ("def function(p: Probe, n: int = 1) -> None:", "plain parameters"),
        ("def function(p: Probe, *n: int) -> None:", "plain parameters"),
        ("def function(p: Unknown, n: int) -> None:", "annotation is not known"),
        ("async def function(p: Probe, n: int) -> None:", "plain function"),
    ):
        text = f"from __future__ import annotations\n{heading}\n    p.nothing()\n"
        with pytest.raises(RemoteError, match=message):
            remote(compiled(text, f"heading {hash(heading)}"))(p, 1)
    session.clear_exceptions()
    with pytest.raises(TypeError, match=r"factorial\.on\(s\)"):
        factorial(5)
    with pytest.raises(RemoteError, match="is not there"):
        remote(eval("lambda p: 1"))
    names: dict[str, Any] = {}
    exec("def function() -> None: pass", names)
    with pytest.raises(RemoteError, match="source of `function` is not there"):
        remote(names["function"])


@remote
def ping(n: int) -> int:
    return pong(n)


@remote
def pong(n: int) -> int:
    return ping(n)


def test_functions_that_call_each_other_are_refused(session: bf.Session) -> None:
    with pytest.raises(RemoteError, match="no order"):
        ping(session.value(1))
    session.clear_exceptions()


def test_the_function_of_the_readme_runs(tmp_path: Path) -> None:
    readme = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")
    found = re.search(r"^```python\n(@remote\n.*?)^print", readme, re.MULTILINE | re.DOTALL)
    assert found is not None
    head = "from bifrost_veneer import remote\nfrom database.bifrost_stubs import DataBase\n\n"
    file = tmp_path / "readme_remote.py"
    file.write_text(head + found[1], encoding="utf-8")
    busy = runpy.run_path(str(file))["busy"]
    with (
        Server(EXAMPLES / "database" / "database.theta") as server,
        database.connect(server.url) as s,
    ):
        db = s.lookup("database", database.DataBase)
        eve = db.fetch("eve")
        eve.touch()
        eve.touch()
        assert [busy(db, least).claim() for least in (2, 5, 0)] == [1, 0, 3]
