"""Stubs that are made at run time from the server's interface."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Iterator
from typing import Any

import pytest
from servers import CONFORMANCE, EXAMPLES, Server
from test_conformance import MIN

import bifrost_veneer as bf
from bifrost_veneer.runtime import make_stubs


@pytest.fixture
def session() -> Iterator[bf.DynamicSession]:
    with Server(CONFORMANCE) as server, bf.connect(server.url) as s:
        yield s


def test_objects_are_found_with_their_types(session: bf.DynamicSession) -> None:
    s: Any = session
    probe = s.find("probe")
    assert type(probe).__name__ == "Probe"
    assert isinstance(probe, s.stubs.Probe)
    assert probe.same_int(MIN).claim() == MIN
    counter = s.lookup("counter", s.stubs.Counter)
    assert isinstance(counter, s.stubs.Item), "a subtype is a subclass"
    assert probe.name_of(item=counter).claim() == "counter"
    assert s.names() == ["counter: Counter", "probe: Probe"]
    with pytest.raises(bf.BifrostError):
        s.find("nothing")
    s.clear_exceptions()


def test_methods_read_as_in_theta(session: bf.DynamicSession) -> None:
    s: Any = session
    probe = s.find("probe")
    assert (
        "Theta: ``divide (x: int, y: int) returns (int, int) signals (zero)``"
        in probe.divide.__doc__
    )
    assert "Quotient and remainder." in probe.divide.__doc__
    assert str(inspect.signature(probe.divide)) == "(x, y)"
    assert {"divide", "same_int", "item"} <= set(dir(probe))
    assert "divide (x: int, y: int)" in type(probe)._repr_html_type()
    assert "calls in" in s._repr_html_()
    assert "&lt;Probe h" in probe._repr_html_()
    with pytest.raises(TypeError):
        probe.divide(1)
    with pytest.raises(TypeError):
        probe.same_int("1")


def test_all_shapes(session: bf.DynamicSession) -> None:
    s: Any = session
    stubs, probe = s.stubs, s.find("probe")
    quotient, remainder = probe.divide(17, 5)
    assert (quotient.claim(), remainder.claim()) == (3, 2)
    with pytest.raises(stubs.NotFound) as caught:
        probe.item("zoe").name().claim()
    assert caught.value.values == ("zoe", 4)
    total = s.cell(0)
    with s.foreach(probe.numbers(3)) as n:
        total.put(total.get() + n)
    with s.foreach(stubs.squares(s, 3)) as n:
        total.put(total.get() + n)
    assert total.get().claim() == 20
    assert s.collect(probe.pairs(2), lambda v: (v[0], v[1])).claim() == [(1, "1"), (2, "2")]
    values = probe.values()
    assert values.total([1, 2, 3]).claim() == 6
    assert values.twice([1, 2]).get().claim() == [2, 4]
    assert values.distance(("ab", (1, 2), (5, 9))).claim() == 211
    assert values.name(0).get().claim() is None
    shape = values.shape(1).get().claim()
    assert shape.value == 0.5
    assert values.area(shape).claim() == "{circle: 0.5}"
    spots = s.collect(values.spots(2), lambda spot: spot).claim()
    assert [(spot.x, spot.y) for spot in spots] == [(1, -1), (2, -2)]
    assert set(values.counts().get().claim()) == {"one", "two"}
    with s.except_():
        probe.choose(3)
    with s.when(stubs.Third):
        total.put(7)
    assert total.get().claim() == 7


def test_actors_have_messages() -> None:
    with Server(EXAMPLES / "auctions" / "auctions.theta") as server, bf.connect(server.url) as s:
        clock = s.find("house").open("clock", 50)
        clock.send.bid(amount=70)
        clock.send.bid(65)
        assert clock.price().claim() == 70


def test_awaited_sessions_have_them_too() -> None:
    async def main(url: str) -> None:
        async with bf.aconnect(url) as s:
            stubs: Any = s.core.numbers.stubs
            probe = s.lookup("probe", stubs.names.Probe)
            assert await probe.same_int(3) == 3

    with Server(CONFORMANCE) as server:
        asyncio.run(main(server.url))


def test_hostile_interfaces_are_refused() -> None:
    for text in (
        b"",
        b"[]",
        b'{"types":[],"routines":[]}',
        b'{"types":[{"name":"int","kind":"nothing"}],"routines":[]}',
        b'{"types":[{"name":"a","kind":"object","supertypes":[0]}],"routines":[]}',
        b'{"types":[{"name":"a","kind":"array","element":7}],"routines":[]}',
        b'{"types":[{"name":"a","kind":"object","methods":[{"name":"m","results":[true]}]}],"routines":[]}',
        b"[" * 100_000,
    ):
        with pytest.raises(ValueError):
            make_stubs(text, bytes(32))
