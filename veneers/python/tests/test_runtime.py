"""Stubs that are made at run time from the server's interface."""

from __future__ import annotations

import asyncio
import inspect
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from conformance import bifrost_stubs as conformance
from servers import CONFORMANCE, EXAMPLES, Server
from test_conformance import MIN

import bifrost_veneer as bf
from bifrost_veneer import runtime
from bifrost_veneer.blake3 import blake3
from bifrost_veneer.generated import Stubs
from bifrost_veneer.interfaces import BYTES_MAX, FILES_MAX, STUBS_MAX, Files, Known, digest_of
from bifrost_veneer.recorder.crossing import Recorder
from bifrost_veneer.recorder.greeting import Greeting
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


def describes(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """The interfaces that are asked for from now on."""
    asked: list[bytes] = []
    ask = Greeting._interface

    def note(greeting: Greeting, text: bytes) -> Recorder:
        asked.append(text)
        return ask(greeting, text)

    monkeypatch.setattr(Greeting, "_interface", note)
    return asked


def test_an_interface_is_asked_for_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(runtime, "KNOWN", Known(make_stubs))
    asked = describes(monkeypatch)
    with Server(CONFORMANCE) as server:
        with bf.connect(server.url) as one, bf.connect(server.url) as other:
            assert len(asked) == 1
            # Sessions with equal interfaces have the same classes.
            assert one.stubs.Probe is other.stubs.Probe
            digest = one.core.numbers.stubs.digest
        file = tmp_path / "bifrost" / "interfaces" / f"{digest.hex()}.json"
        assert file.read_bytes().endswith(asked[0])
        assert file.parent.stat().st_mode & 0o777 == 0o700
        # Another process finds it there; its classes work.
        monkeypatch.setattr(runtime, "KNOWN", Known(make_stubs))
        with bf.connect(server.url) as s:
            assert len(asked) == 1
            assert s.find("probe").same_int(3).claim() == 3

        async def main() -> None:
            async with bf.aconnect(server.url) as s:
                stubs: Any = s.core.numbers.stubs
                assert await s.lookup("probe", stubs.names.Probe).same_int(3) == 3

        asyncio.run(main())
        assert len(asked) == 1
        # A file that is damaged is as if it were not there, and is written again.
        whole = file.read_bytes()
        for damaged in (b"", whole[:-1], whole[:100] + b"x" + whole[101:], b"{}", b"0\n{}"):
            file.write_bytes(damaged)
            monkeypatch.setattr(runtime, "KNOWN", Known(make_stubs))
            before = len(asked)
            with bf.connect(server.url) as s:
                assert s.find("probe").same_int(3).claim() == 3
            assert len(asked) == before + 1
            assert file.read_bytes() == whole
        # A folder that cannot be made is no reason to fail.
        (tmp_path / "file").write_text("")
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
        monkeypatch.setattr(runtime, "KNOWN", Known(make_stubs))
        with bf.connect(server.url) as s:
            assert s.find("probe").same_int(3).claim() == 3


def test_an_interface_under_a_wrong_digest_is_not_kept(tmp_path: Path) -> None:
    text = (Path(conformance.__file__ or "").with_name("bifrost_stubs.interface.json")).read_bytes()
    files = Files(tmp_path)
    known = Known(make_stubs, files)
    digest = conformance.INTERFACE.digest
    assert digest_of(text) == digest
    # Comments are none of the digest, and other names are.
    assert digest_of(text.replace(b"Always the same.", b"Never the same.")) == digest
    wrong = text.replace(b"same_int", b"some_int")
    made = known.make(wrong, digest)
    assert made.interface().types
    assert known.find(digest) is None
    assert list(tmp_path.iterdir()) == []
    assert known.make(text, digest) is known.find(digest)
    assert files.read(digest) == text
    # Nor is one that is too long.
    padded = text + b" " * BYTES_MAX
    long = Known(make_stubs, Files(tmp_path / "long"))
    long.make(padded, digest)
    assert long.find(digest) is None


def test_only_so_many_interfaces_are_kept(tmp_path: Path) -> None:
    made: list[bytes] = []

    def make(text: bytes, digest: bytes) -> Stubs:
        made.append(digest)
        return Stubs(digest, lambda: text)

    def interface(number: int) -> bytes:
        return b'{"types":[],"routines":[{"name":"r%d"}]}' % number

    files = Files(tmp_path)
    known = Known(make, files)
    digests = [digest_of(interface(number)) for number in range(FILES_MAX + 5)]
    for number, digest in enumerate(digests):
        known.make(interface(number), digest)
        os.utime(files._file(digest), (number, number))
    assert len(list(tmp_path.iterdir())) == FILES_MAX
    # Those that were used longest ago are gone.
    assert [files.read(digest) is None for digest in digests[:6]] == [True] * 5 + [False]
    made.clear()
    for digest in reversed(digests[5:]):
        assert known.find(digest) is not None
    # The last ones were in memory, the others in files.
    assert len(made) == FILES_MAX - STUBS_MAX


@pytest.mark.parametrize(
    ("count", "digest"),
    [
        (0, "af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262"),
        (1, "2d3adedff11b61f14c886e35afa036736dcd87a74d27b5c1510225d0f592e213"),
        (1023, "10108970eeda3eb932baac1428c7a2163b0e924c9a9e25b35bba72b28f70bd11"),
        (1024, "42214739f095a406f3fc83deb889744ac00df831c10daa55189b5d121c855af7"),
        (1025, "d00278ae47eb27b34faecf67b4fe263f82d5412916c1ffd97c8cb7fb814b8444"),
        (2048, "e776b6028c7cd22a4d0ba182a8bf62205d2ef576467e838ed6f2529b85fba24a"),
        (2049, "5f4d72f40d7a5f82b15ca2b2e44b1de3c2ef86c426c95c1af0b6879522563030"),
        (102400, "bc3e3d41a1146b069abffad3c0d44860cf664390afce4d9661f7902e7943e085"),
    ],
)
def test_digests_are_those_of_the_official_vectors(count: int, digest: str) -> None:
    data = bytes(number % 251 for number in range(count))
    assert blake3(data).hex() == digest


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
