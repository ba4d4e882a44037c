"""Objects that cross by value, with the stubs of the conformance program, against a server."""

from __future__ import annotations

import sys
import threading
from typing import Any

import pytest
from conformance.bifrost_stubs import (
    Line,
    Nothing,
    Numbers,
    PointValue,
    Probe,
    Rejected,
    ShapeCircle,
    ShapeDot,
    ShapeNothing,
    Spot,
    SpotRef,
    Third,
    connect,
)
from conftest import Client
from servers import CONFORMANCE, Server
from test_conformance import misuse

import bifrost_veneer as bf
from bifrost_veneer import Int, Str, stubs


def test_sequences_are_lists(client: Client) -> None:
    s, v = client.s, client.v
    n = s.value(4)
    sums = [
        v.total([1, 2, 3]),
        v.total((5,)),
        v.total([]),
        v.total([n, n + 1]),
        v.nested([[1, 2], [], [3]]),
    ]
    twice = v.twice([1, 2])
    again = v.total(twice)
    contents = twice.get()
    assert contents.claim() == [2, 4]
    assert again.claim() == 6
    assert [total.claim() for total in sums] == [6, 5, 0, 9, 6]
    assert client.crossings == 1
    long = list(range(10_000))
    assert v.total(long).claim() == 49_995_000
    assert v.twice(long).get().claim()[9_999] == 19_998


def test_structs_and_oneofs_are_dataclasses(client: Client) -> None:
    s, v = client.s, client.v
    distance = v.distance(Line("ab", Spot(1, 2), Spot(5, 9)))
    n = s.value(3)
    with_promises = v.distance(("a", (n, n), Spot(4, 5)))
    areas = [
        v.area(ShapeCircle(2.5)),
        v.area(ShapeNothing()),
        v.area(ShapeDot(Spot(1, 2))),
        v.area(v.shape(1)),
    ]
    shapes = [v.shape(n).get() for n in (0, 1, 2)]
    assert distance.claim() == 211
    assert with_promises.claim() == 103
    expected = ["{circle: 2.5}", "{nothing: nil}", "{dot: {x: 1, y: 2}}", "{circle: 0.5}"]
    assert [area.claim() for area in areas] == expected
    assert [shape.claim() for shape in shapes] == [
        ShapeNothing(),
        ShapeCircle(0.5),
        ShapeDot(Spot(2, 0)),
    ]
    match shapes[2].claim():
        case ShapeDot(Spot(x, _)):
            assert x == 2
        case other:
            raise AssertionError(other)
    assert client.crossings == 1


def test_maybe_is_none_or_the_value(client: Client) -> None:
    v = client.v
    names = [v.name(0).get(), v.name(7).get()]
    named = [v.named(None), v.named("ann"), v.named(v.name(5))]
    assert [name.claim() for name in names] == [None, "7"]
    assert [name.claim() for name in named] == ["nobody", "ann", "5"]


def test_objects_in_values_are_stubs(client: Client) -> None:
    v = client.v
    promise = v.family(3).get()
    assert client.crossings == 0
    family = promise.claim()
    assert len(family.members) == 3
    names = [member.name() for member in family.members]
    members = v.members(family)
    family.members[1].rename("two")
    renamed = v.members((family.head, [family.members[1]]))
    assert members.claim() == "head,1,2,3"
    assert renamed.claim() == "head,two"
    assert names[2].claim() == "3"
    assert client.crossings == 2


def test_contents_of_collections_are_those_of_the_moment(client: Client) -> None:
    v = client.v
    array = v.array()
    before = array.get()
    array.append(9)
    after = array.get()
    assert before.claim() == [7, 8]
    assert after.claim() == [7, 8, 9]
    assert v.counts().get().claim() == {"one": Spot(1, 1), "two": Spot(2, 2)}
    assert v.list().get().claim() == ["a", "b"]


def test_records_have_contents(client: Client) -> None:
    p = client.p
    point = p.tagged().point(3, 4)
    before = point.get()
    point.set_x(5)
    after = point.get()
    assert before.claim() == PointValue(3, 4)
    assert after.claim() == PointValue(5, 4)
    found = p.tagged().found(2).get().claim()
    assert found is not None
    assert found.x().claim() == 2
    assert p.tagged().sum(point).claim() == 9
    assert p.tagged().sum(None).claim() == 0


def test_rows_have_values_and_loops_make_them(client: Client) -> None:
    s, v = client.s, client.v
    cell = s.cell(0)

    def row(spot: SpotRef) -> tuple[SpotRef, Int]:
        cell.put(cell.get() + v.distance(("", spot, (spot.x(), 5))) + v.total([spot.x(), spot.y()]))
        return spot, spot.x()

    spots = s.collect(v.spots(3), row)
    total = cell.get()
    found = spots.claim()
    assert found[2] == (Spot(3, -3), 3)
    assert len(found) == 3
    # 5 - y for each spot.
    assert total.claim() == 6 + 7 + 8
    assert client.crossings == 1


def test_procedures_take_and_return_values(client: Client) -> None:
    s, v = client.s, client.v
    pair = s.procedure("pair", (Int,), Numbers, lambda _, n: [n, n + 1])
    ten = s.procedure("ten", (), Numbers, lambda _: [10])
    total = s.procedure("total", (Numbers,), Int, lambda _, ns: v.total(ns))
    contents = pair(4).get()
    sums = [v.total(pair(1)), total([5, 6]), total(ten())]
    assert contents.claim() == [4, 5]
    assert [one.claim() for one in sums] == [3, 11, 10]
    assert client.crossings == 1


def test_contents_are_not_taken_inside_structures(client: Client) -> None:
    s, v = client.s, client.v
    with s.foreach(v.spots(3)) as spot:
        spot.get()
    assert misuse(s.flush) == "ContentsInside"
    with connect(client.url) as other:
        foreign = v.total([other.value(1)])
        assert misuse(foreign.claim) == "OtherSession"
    assert v.total([1]).claim() == 1


def test_a_failed_part_fails_the_call(client: Client) -> None:
    p, v = client.p, client.v
    failed = p.choose(3)
    total = v.total([failed, failed])
    with pytest.raises(Third) as caught:
        total.claim()
    assert "argument 1 failed" in caught.value.__notes__[0]
    with pytest.raises(Third):
        failed.claim()
    later = v.distance(("x", (1, failed), (1, 1)))
    with pytest.raises(Third) as caught:
        later.claim()
    assert "argument 1 failed" in caught.value.__notes__[0]


def test_exceptions_are_classes(client: Client) -> None:
    s, p, v = client.s, client.p, client.v
    item = p.fresh()
    rejected, nothing = v.reject(item, 3), v.reject(item, 0)
    assert rejected.caught(Rejected) is None, "not known yet"
    with pytest.raises(Rejected) as caught:
        rejected.claim()
    with pytest.raises(Nothing):
        nothing.claim()
    of, n, spot = caught.value.values
    assert n == 3
    assert spot.x().claim() == 3
    assert rejected.caught(Nothing) is None
    assert nothing.caught(Nothing) is not None
    again = rejected.caught(Rejected)
    assert again is not None
    # They are stubs of the object, which outlive the failure.
    del rejected, caught
    of.rename("told")
    assert again.values[0].name().claim() == "told"
    assert s.is_same(of, item)

    heard = s.rows(Str, Int)
    with s.except_():
        v.reject(item, 7)
    with s.when(Nothing):
        heard.push("nothing", 0)
    with s.when(Rejected) as (who, k, where):
        heard.push(who.name(), k + where.x())
    assert heard.claim() == [("told", 14)]


def test_a_failure_that_was_caught_was_told(client: Client) -> None:
    s, p, v = client.s, client.p, client.v
    s.commit().claim()
    kept = [v.reject(p.fresh(), 3)]
    with pytest.raises(bf.Unseen):
        s.commit().claim()
    again = v.reject(p.fresh(), 3)
    s.flush()
    assert again.caught(Rejected) is not None
    s.commit().claim()
    del kept
    failed = p.choose(1)
    with pytest.raises(bf.Signal):
        failed.claim()
    assert failed.caught(bf.Failure) is None


def test_arguments_have_the_declared_type(client: Client) -> None:
    p, v = client.p, client.v
    wrong: list[tuple[Any, Any]] = [
        (p.same_int, True),
        (p.same_int, 1.0),
        (p.same_int, "1"),
        (p.same_bool, 1),
        (p.same_string, b"1"),
        (p.same_char, 1),
        (p.same_null, 0),
        (p.add_item, p),
        (v.total, "12"),
        (v.total, [1, "2"]),
        (v.distance, ("a", (1, 2))),
        (v.area, Spot(1, 2)),
        (p.same_real, True),
        (p.name_of, None),
    ]
    for method, argument in wrong:
        with pytest.raises(TypeError):
            method(argument)
    too_long: list[tuple[Any, Any]] = [(p.same_int, 1 << 63), (v.total, [1 << 63])]
    for method, argument in too_long:
        with pytest.raises(OverflowError):
            method(argument)
    for method, argument in ((p.same_char, "ab"), (p.same_string, "\ud800")):
        with pytest.raises(ValueError):
            method(argument)
    assert p.same_real(1).claim() == 1.0
    assert client.crossings == 1, "nothing of them was recorded"


def test_python_coercions_say_what_to_write(client: Client) -> None:
    p = client.p
    s: Any = client.s
    promise: Any = p.same_int(1)
    for work in (
        lambda: bool(promise),
        lambda: 1 if promise > 0 else 2,
        lambda: list(promise),
        lambda: len(promise),
        lambda: hash(promise),
        lambda: {promise: 1},
        lambda: f"{promise}",
        lambda: str(promise),
        lambda: int(promise),
        lambda: [1, 2][promise],
        lambda: promise in [1],
        lambda: 1 < promise < 3,
        lambda: promise and promise,
        lambda: not promise,
        lambda: list(p.numbers(3)),
        lambda: p == client.p,
        lambda: promise / 2,
        lambda: (promise > 0) & (promise > 1),
        lambda: s.while_(promise > 0),
        lambda: s.foreach([1, 2]),
    ):
        with pytest.raises(TypeError, match=r"`"):
            work()
    assert "not yet claimed" in repr(promise)
    assert promise.claim() == 1
    assert repr(promise) == "<Int 1>"


def test_ints_have_64_bits(client: Client) -> None:
    s, p, v = client.s, client.p, client.v
    s.flush()
    for value in (1 << 63, -(1 << 63) - 1, 1 << 200):
        text = f"{value} does not fit into an int of 64 bits"
        for use in (
            lambda value=value: p.same_int(value),
            lambda value=value: p.divide(value, 1),
            lambda value=value: p.divide(1, value),
            lambda value=value: p.same_int(1) + value,
            lambda value=value: v.distance(("ab", (1, value), (1, 2))),
            lambda value=value: s.collect(p.numbers(value), lambda n: n),
            lambda value=value: s.cell(value),
        ):
            with pytest.raises(OverflowError, match=text):
                use()
        with pytest.raises(OverflowError, match="does not fit into an int of 64 bits"):
            v.total([1, value])
    # The receivers of the sums are recorded, and nothing else.
    recorded = s.explain().splitlines()[1:]
    assert [line.split(".")[1] for line in recorded] == 3 * ["same_int(1)"]
    for value in ((1 << 63) - 1, -(1 << 63)):
        assert p.same_int(value).claim() == value
    assert s.exceptions() == []


def test_threads_make_the_words_of_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    lists = ("_HEADS", "_REF_HEADS", "_INT_HEADS", "_STRING_HEADS")
    for name in lists:
        monkeypatch.setattr(stubs, name, [])
    threads = [
        threading.Thread(target=stubs._add_heads, args=(number * 37 % 3000,))
        for number in range(200)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for name in lists:
        heads = getattr(stubs, name)
        assert len(heads) == max(number * 37 % 3000 for number in range(200)) + 1
        assert [head >> 32 for head in heads] == list(range(len(heads)))
        assert len({head & 0xFFFF_FFFF for head in heads}) == 1


@pytest.mark.parametrize(
    ("package", "method", "extra"),
    [("pandas", "to_pandas", "pandas"), ("pyarrow", "to_arrow", "arrow")],
)
def test_a_library_that_is_not_there_is_named(
    package: str, method: str, extra: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with Server(CONFORMANCE) as server, connect(server.url) as s:
        rows = s.collect(s.lookup("probe", Probe).numbers(3), lambda n: n)
        text = f"`{method}` needs the package `{package}`: install `bifrost-veneer\\[{extra}\\]`"
        with pytest.raises(ModuleNotFoundError, match=text) as caught:
            getattr(rows, method)()
        assert caught.value.name == package
        # Nothing is lost with it.
        assert rows.claim() == [1, 2, 3]
