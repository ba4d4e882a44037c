"""Functions that run at the server: what they do there, what is recorded, and what is refused."""

# mypy: disable-error-code="var-annotated,union-attr,operator,assignment,attr-defined,misc,return-value,arg-type,call-arg,no-any-return"
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
    Item,
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
        assert s.explain().splitlines()[1:] == [
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
    ("x = 1 if n > 0 else 'a'", "both sides of `if` with one type"),
    ("x = 1 if n > 0 else p.same_string('a')", "both sides of `if` with one type"),
    ("x = p.nothing() if n > 0 else 1", "a value on both sides"),
    ("x = None if n > 0 else n", "a value on both sides"),
    ("x = n if n else 2", "a condition is a truth value"),
    ("return f'{n}'", "unparse"),
    ("x = [i for i in p.numbers(n)]", "write `return [... for ...]`"),
    ("p.same_int([i for i in p.numbers(n)])", "write `return [... for ...]`"),
    ("return [i for i in p.numbers(n)]", "write `-> list[...]`"),
    ("x = {i for i in p.numbers(n)}", "write `return [... for ...]`"),
    ("x = {i: i for i in p.numbers(n)}", "write `return [(key, value) for ...]`"),
    ("x = sum(i for i in p.numbers(n))", "write a loop that adds up"),
    ("p.same_int(n).to_pandas()", "write it outside"),
    ("async def f(): pass", "AsyncFunctionDef"),
    ("class C: pass", "ClassDef"),
    ("match n:\n        case 1: pass", "write `if` and `elif`"),
    ("yield n", "Yield"),
    ("x = ~n", "write `not`"),
    ("x = n | 1", "write `or`"),
    ("x = n & 1", "write `and`"),
    ("x = n ^ 1", "BitXor"),
    ("x = n >> 1", "write `//`"),
    ("x = n @ n", "MatMult"),
    ("x = n not in (1, 2)", "NotIn"),
    ("x = p is not p", "IsNot"),
    ("x = {1}", "write a list"),
    ("x = p.same_int(x := 1)", "NamedExpr"),
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
    ("(x := n)", "the assignment as a line before"),
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
    ("x = p == p", "write `.equal(...)`"),
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
    # Each says what to write, and where.
    assert re.search(r"write|leave|call a|return the value", refused.value.msg), refused.value.msg
    where = f"(<refused {hash(body)}>, line {refused.value.lineno}, column {refused.value.offset})"
    assert str(refused.value).endswith(where)
    assert refused.value.offset is not None
    assert refused.value.offset >= 5
    assert refused.value.filename is not None
    assert refused.value.filename.startswith("<refused")
    assert refused.value.lineno is not None
    assert refused.value.lineno >= 2
    # Nothing of it is sent, and the session goes on.
    session.clear_exceptions()
    assert p.same_int(1).claim() == 1
    session.clear_exceptions()


@remote
def pairs(p: Probe, limit: int) -> list[tuple[int, str]]:
    return [(n, text) for n, text in p.pairs(limit) if n > 1 if n != 3]


@remote
def products(p: Probe, limit: int) -> list[tuple[int, int, int]]:
    return [
        (a, b, twice(a * b))
        for a in p.numbers(limit)
        if a % 2 == 0
        for b in range(a)
        if b > 0 and (b < 3 or a < 0)
    ]


@remote
def items(p: Probe) -> list[Item]:
    return [item for item in p.items() if item.name() != ""]


@remote
def above(p: Probe, limit: int, x: float) -> list[int]:
    """The body may have more than the list."""
    least = 0
    for n in p.numbers(3):
        least += n
    n = 100
    if x > 0.5:
        least = least + n
    return [n + least if n > 1 else least for n in p.numbers(limit)]


def test_comprehensions_are_rows(session: bf.Session) -> None:
    s = session
    p = s.lookup("probe", Probe)
    crossings = s.counters.crossings
    found = [pairs(p, 5), pairs(p, 1), products(p, 4), above(p, 3, 0), above(p, 2, 1)]
    assert found[0].claim() == [(2, "2"), (4, "4"), (5, "5")]
    assert found[1].claim() == []
    assert found[2].claim() == [(2, 1, 4), (4, 1, 8), (4, 2, 16)]
    assert found[3].claim() == [6, 8, 9]
    assert found[4].claim() == [106, 108]
    # Several tables, and their loops: one crossing.
    assert s.counters.crossings == crossings + 1
    # Objects are stubs, which live on.
    names = [item.name() for item in items(p).claim()]
    expected = s.collect(p.items(), lambda item: item.name()).claim()
    assert [name.claim() for name in names] == expected
    assert len(expected) >= 4
    assert repr(pairs) == "<remote function pairs>"
    # An iterator of a session without an argument of it.
    assert evens.on(s)(6).claim() == [2, 4]
    with pytest.raises(TypeError, match="takes 2 arguments, not 1"):
        pairs(p)
    with pytest.raises(TypeError, match="`int` was expected"):
        pairs(p, "a")


@remote
def evens(limit: int) -> list[int]:
    return [n for n in range(limit) if n % 2 == 0 if n != 0]


@remote
def chosen(p: Probe, limit: int) -> list[int]:
    return [p.choose(n) for n in p.numbers(limit)]


def test_a_failure_ends_the_rows(session: bf.Session) -> None:
    p = session.lookup("probe", Probe)
    with pytest.raises(bf.Unseen, match="signalled odd") as caught:
        chosen(p, 5).claim()
    assert [type(one) for one in caught.value.failures] == [Odd]
    assert pairs(p, 2).claim() == [(2, "2")]


#: Bodies of functions that return a list, each with a part of the message.
NO_ROWS = [
    ("p.nothing()", "as the last line"),
    ("return n", "a list is returned once, at the end"),
    ("if n > 0: return [i for i in p.numbers(n)]\n    return [1 for i in p.numbers(n)]", "once"),
    ("return [(i, i) for i in p.numbers(n)]", "2 cells, and the result declares 1"),
    ("return [i.unparse() for i in p.numbers(n)]", "cells of the types that the result"),
    ("return [i for i in p]", "a call of an iterator"),
    ("return [i for i in p.same_int(n)]", "a call of an iterator"),
    ("return [[j for j in range(i)] for i in p.numbers(n)]", "a row for each"),
    ("return [i for p.x in p.numbers(n)]", "variables of a comprehension are names"),
    ("return [i for i, j in p.numbers(n)]", "another number of results"),
    ("return [i for i in p.numbers(n) if i]", "a condition is a truth value"),
    ("return [f'{i}' for i in p.numbers(n)]", "unparse"),
    ("i = [j for j in p.numbers(n)]\n    return i", "write `return [... for ...]`"),
]


@pytest.mark.parametrize(("body", "message"), NO_ROWS, ids=[body[:30] for body, _ in NO_ROWS])
def test_what_is_no_row_is_refused(session: bf.Session, body: str, message: str) -> None:
    text = f"\ndef function(p: Probe, n: int) -> list[int]:\n    {body}\n"
    p = session.lookup("probe", Probe)
    p.counter().add(0).claim()
    with pytest.raises(RemoteError) as refused:
        remote(compiled(text, f"no rows {hash(body)}"))(p, 1)
    assert message in str(refused.value)
    # Nothing of the body is sent.
    assert [line for line in session.explain().splitlines()[1:] if "rows" not in line] == []
    session.clear_exceptions()
    assert p.same_int(1).claim() == 1
    session.clear_exceptions()


@remote
def endless(p: Probe, n: int) -> list[int]:
    return [i for i in endless(p, n) if i > 0]


@remote
def uses_rows(p: Probe, n: int) -> int:
    for i, _ in pairs(p, n):
        return i
    return 0


def test_rows_are_no_value_at_the_server(session: bf.Session) -> None:
    p = session.lookup("probe", Probe)
    for function in (endless, uses_rows):
        with pytest.raises(
            RemoteError, match="which is no value at the server: write its loops here"
        ):
            function(p, 1)
        session.clear_exceptions()


@remote
def picked(p: Probe, n: int) -> int:
    return p.choose(n)


def test_failures_are_at_the_call(session: bf.Session) -> None:
    p = session.lookup("probe", Probe)
    with pytest.raises(Odd, match=f"picked at {re.escape(__file__)}:") as odd:
        picked(p, 1).claim()
    assert odd.value.call is not None
    chosen(p, 3)
    source = Path(__file__).read_text().splitlines()
    with pytest.raises(bf.Unseen) as unseen:
        session.flush()
    line = next(n for n, text in enumerate(source, 1) if "[p.choose(n) for n" in text)
    for one in unseen.value.failures:
        assert f"Probe.choose at {__file__}:{line}" in str(one)


def test_rows_are_made_outside_structures(session: bf.Session) -> None:
    p = session.lookup("probe", Probe)
    with session.if_(p.same_bool(True)):
        rows = pairs(p, 2)
    with pytest.raises(bf.Misuse, match="make it before the structure"):
        rows.claim()
    session.clear_exceptions()


@remote
def choice(p: Probe, n: int, x: float, name: str) -> str:
    text = "small" if n < 3 else "large" if n < 10 else name + "!"
    real = 1 if n < 0 else x
    item = p.item("b") if n == 1 else p.fresh()
    same = n if n > 0 else 0
    letter = p.same_char("x") if n < 3 else "y"
    # Only one side runs.
    count = p.counter().add(1) if n == 5 else p.counter().value()
    for i in p.numbers(2):
        text = text + (i.unparse() if i % 2 == 0 else "-")
    flag = True if n == 1 else n > 4
    if flag and letter == "y":
        text = text + "."
    return text + real.unparse() + item.name() + same.unparse() + (count * 0).unparse()


@remote
def literal(n: int) -> float:
    return 1 if n > 0 else 2.5


def test_conditional_expressions_choose(session: bf.Session) -> None:
    s = session
    p = s.lookup("probe", Probe)
    before = p.counter().value().claim()
    found = [choice(p, n, 0.5, "zoe").claim() for n in (1, 5, 12)]
    assert found == ["small-20.5b10", "large-2.0.5fresh50", "zoe!-2.0.5fresh120"]
    assert p.counter().value().claim() == before + 1
    assert [literal.on(s)(n).claim() for n in (1, -1)] == [1.0, 2.5]


def test_a_side_is_recorded_once() -> None:
    with Server(CONFORMANCE) as server, connect(server.url) as s:
        p = s.lookup("probe", Probe)

        @remote
        def one(p: Probe, n: int) -> int:
            return p.same_int(n) if n > 0 or n < -7 else -1

        one(p, 1)
        assert s.explain().splitlines()[3:] == [
            "  @4 := cell int",
            "  if",
            "    @5 := $x3.gt(0)",
            "    @6 := @5.bnot()",
            "    @7 := cell bool",
            "    @8 := @7.put(@5)",
            "    if",
            "    then @6",
            "      @9 := $x3.lt(-7)",
            "      @10 := @7.put(@9)",
            "    end",
            "    @11 := @7.get()",
            "  then @11",
            "    @12 := $x2.same_int($x3)",
            "    @13 := @4.put(@12)",
            "  else",
            "    @14 := @4.put(-1)",
            "  end",
            "  @15 := @4.get()",
            "  return @15",
            "end",
            "@16 := test_remote.test_a_side_is_recorded_once.<locals>.one(@1, 1)",
        ]
        s.flush()


def test_columns_are_those_of_the_file() -> None:
    with pytest.raises(RemoteError) as refused:

        @remote
        def function(p: Probe) -> None:
            p.same_string("äö" + p.same_string(lambda: 1))

    assert refused.value.text is not None
    assert refused.value.offset == refused.value.text.index("lambda") + 1
    assert refused.value.text.strip().startswith("p.same_string")


def test_headings_are_checked(session: bf.Session) -> None:
    p = session.lookup("probe", Probe)
    for heading, message in (
        ("def function(p: Probe, n) -> None:", "the parameter `n` needs a type"),
        ("def function(p: Probe, n: list) -> None:", "needs a type: write one of the stubs"),
        ("def function(p: Probe, n: int) -> dict:", "the result needs a type"),
        ("def function(p: Probe, n: int) -> list[dict]:", "a column of the result needs a type"),
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


def test_the_functions_of_the_readme_run(tmp_path: Path) -> None:
    readme = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")
    found = re.search(r"^```python\n(@remote\n.*?)^print", readme, re.MULTILINE | re.DOTALL)
    rows = re.search(r"^```python\n(@remote\ndef often.*?)^print", readme, re.MULTILINE | re.DOTALL)
    assert found is not None
    assert rows is not None
    head = "from bifrost_veneer import remote\nfrom database.bifrost_stubs import DataBase\n\n"
    file = tmp_path / "readme_remote.py"
    file.write_text(head + found[1] + rows[1], encoding="utf-8")
    made = runpy.run_path(str(file))
    busy, often = made["busy"], made["often"]
    with (
        Server(EXAMPLES / "database" / "database.theta") as server,
        database.connect(server.url) as s,
    ):
        db = s.lookup("database", database.DataBase)
        eve = db.fetch("eve")
        eve.touch()
        eve.touch()
        assert [busy(db, least).claim() for least in (2, 5, 0)] == [1, 0, 3]
        assert often(db, 1).claim() == [("eve", "often")]
        assert often(db, 0).claim() == [("ann", "never"), ("bob", "never"), ("eve", "often")]
