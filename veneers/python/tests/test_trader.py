"""Imports through traders, with real traders and servers, by threads and by tasks."""

from __future__ import annotations

import asyncio
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from database.bifrost_stubs import DataBase, aconnect, connect
from servers import BIFROST, ROOT, Server
from test_sessions import DATABASE
from traders import Exporter, Silent, Trader, address, database, nobody, resume, stop, wait_until

import bifrost_veneer as bf
from bifrost_veneer.importing import ATTEMPTS_MAX, TRADERS_MAX
from bifrost_veneer.importing.trader import bifrost_stubs as trader_stubs

#: Imports a service, and returns its server and the visits of bob.
Way = Callable[..., tuple[bf.Imported, int]]


def by_threads(url: str, **options: Any) -> tuple[bf.Imported, int]:
    session, db = bf.import_service(DataBase, url, **options)
    with session:
        assert session.service is not None
        return session.service, db.fetch("bob").visits().claim()


def by_tasks(url: str, **options: Any) -> tuple[bf.Imported, int]:
    async def main() -> tuple[bf.Imported, int]:
        session, db = await bf.aimport_service(DataBase, url, **options)
        try:
            assert session.service is not None
            return session.service, await db.fetch("bob").visits()
        finally:
            await session.close()

    return asyncio.run(main())


@pytest.fixture(params=[by_threads, by_tasks])
def way(request: pytest.FixtureRequest) -> Way:
    found: Way = request.param
    return found


@pytest.fixture
def trader() -> Iterator[Trader]:
    with Trader("--trust-addresses") as trader:
        yield trader


def failure(way: Way, url: str, **options: Any) -> str:
    with pytest.raises(bf.ConnectError) as caught:
        way(url, **{"timeout": 1.0, **options})
    return str(caught.value)


def test_a_server_is_imported() -> None:
    arguments = ("--listen", "tcp://127.0.0.1:0", "--anonymous-loopback", "--property", "region=eu")
    with Trader() as trader:
        export = ("--trader", trader.address, "--export", "database:DataBase")
        url = trader.url("region=eu")
        with pytest.raises(bf.ConnectError, match="no trader knows an offer that matches"):
            connect(url, timeout=0.5)
        with Server(DATABASE, *export, *arguments) as server, Exporter(trader) as exports:
            wait_until("nothing is exported", lambda: exports.count("region=eu") == 1)
            with connect(url) as s:
                assert s.service is not None
                assert (s.service.name, s.service.service) == ("database", "DataBase")
                # A socket of this machine comes first.
                assert s.service.address == server.url
                assert s.service.offer.properties["region"] == "eu"
                assert isinstance(s.service.offer.store, str)
                assert s.lookup(s.service.name, DataBase).fetch("bob").visits().claim() == 0

            async def main() -> None:
                async with aconnect(url) as s:
                    assert s.service is not None
                    assert await s.lookup(s.service.name, DataBase).fetch("bob").visits() == 0

            asyncio.run(main())
            with connect(server.url) as s:
                assert s.service is None


def test_the_preferred_server_is_used(trader: Trader, way: Way) -> None:
    with database() as one, database() as two, Exporter(trader) as exports:
        exports.database([address(one)], "tier=1")
        exports.database([address(two)], "tier=2")
        for prefer, server in (("min(tier)", one), ("max(tier)", two)):
            imported, visits = way(trader.url(f"prefer={prefer}"))
            assert (imported.address, visits) == (address(server), 0)


def test_addresses_are_tried_until_one_answers(trader: Trader, way: Way) -> None:
    with database() as server, Silent() as silent, Exporter(trader) as exports:
        exports.database([nobody(), silent.address, address(server)], "of=several")
        exports.database([silent.address], "of=silent")
        exports.named("nothing", [silent.address, address(server)], "of=nothing")
        start = time.monotonic()
        imported, _ = way(trader.url("of=several"))
        took = time.monotonic() - start
        assert imported.address == address(server)
        # The silent one has its quarter of a second, and is not waited for any longer.
        assert 0.25 <= took < 4.5
        start = time.monotonic()
        said = failure(way, trader.url("of=silent"))
        assert "no server of 1 offers was reached" in said
        assert time.monotonic() - start < 4


def test_traders_are_asked_until_one_answers(way: Way, monkeypatch: pytest.MonkeyPatch) -> None:
    with (
        Trader("--trust-addresses") as trader,
        Trader("--trust-addresses") as stopped,
        database() as server,
        Silent() as silent,
    ):
        for one in (trader, stopped):
            with Exporter(one) as exports:
                exports.database([address(server)])
        # One that is not there, one that never answers, one that has stopped answering.
        stop(stopped.process)
        traders = [nobody(), silent.address, stopped.address, trader.address]
        for separator in (", ", " "):
            monkeypatch.setenv("BIFROST_TRADER", separator.join(traders))
            start = time.monotonic()
            imported, _ = way("trader:///DataBase")
            assert imported.address == address(server)
            assert time.monotonic() - start < 4.5
        monkeypatch.setenv("BIFROST_TRADER", f"{stopped.address},{silent.address}")
        start = time.monotonic()
        said = failure(way, "trader:///DataBase")
        assert "no trader has answered" in said
        assert time.monotonic() - start < 4
        resume(stopped.process)


def test_what_is_wrong_is_told_at_once(
    trader: Trader, way: Way, monkeypatch: pytest.MonkeyPatch
) -> None:
    with database() as server, Exporter(trader) as exports:
        exports.named("nothing", [address(server)], "of=nothing")
        exports.database([address(server)], "of=database")
        monkeypatch.delenv("BIFROST_TRADER", raising=False)
        for url, text in (
            ("trader:///DataBase", "BIFROST_TRADER is not set"),
            ("trader+tcp://t:port/DataBase", "`port` is not a port"),
            ("trader://t/DataBase#sha256-x", "cannot follow `#`"),
            (f"trader+{trader.address}", "names no service"),
            (trader.url("region!eu"), "at byte 0 of the query"),
            # A server is no trader.
            (f"trader+{server.url}?service=DataBase", "the trader: "),
            (trader.url("of=nothing"), "the server does not have the object"),
        ):
            start = time.monotonic()
            assert text in failure(way, url, timeout=20.0), url
            # None of them is tried again and again.
            assert time.monotonic() - start < 10, url
        monkeypatch.setenv("BIFROST_TRADER", "trader.example")
        assert "`trader.example` is not an address" in failure(way, "trader:///DataBase")
        # Certificates that are not there are nobody else's fault.
        with Silent() as silent:
            monkeypatch.setenv("BIFROST_TRADER", silent.address.replace("tcp", "tls"))
            start = time.monotonic()
            said = failure(way, "trader:///DataBase", authorities="/nothing/there", timeout=20.0)
            assert "the certificates in `/nothing/there` cannot be used" in said
            assert time.monotonic() - start < 10


def test_only_so_many_traders_are_asked(way: Way, monkeypatch: pytest.MonkeyPatch) -> None:
    def traders(count: int) -> str:
        return " ".join(f"unix:///nothing/{number}" for number in range(count))

    monkeypatch.setenv("BIFROST_TRADER", traders(TRADERS_MAX + 1))
    said = failure(way, "trader:///DataBase")
    assert f"names {TRADERS_MAX + 1} traders; at most {TRADERS_MAX} are asked" in said
    monkeypatch.setenv("BIFROST_TRADER", traders(TRADERS_MAX))
    with pytest.raises(bf.NotImported) as caught:
        way("trader:///DataBase", timeout=0.7)
    error = caught.value
    assert (error.service, len(error.attempts)) == ("DataBase", ATTEMPTS_MAX)
    assert len({attempt.place for attempt in error.attempts}) == ATTEMPTS_MAX
    assert bf.Ran.of(error) is bf.Ran.NO


def test_each_token_is_for_its_own_server(way: Way, tmp_path: Path) -> None:
    for name in ("server", "trader"):
        (tmp_path / name).write_text(f"{name}-token\n")
    listen = ("--listen", "tcp://127.0.0.1:0", "--token-file", str(tmp_path / "trader"))
    theirs = ("--listen", "tls://127.0.0.1:0", "--token-file", str(tmp_path / "server"))
    with Trader("--trust-addresses", *listen) as trader, Server(DATABASE, *theirs) as server:
        with Exporter(trader) as exports:
            exports.database([server.at("tls")])
        url = f"trader+{trader.urls[1]}/DataBase"
        right = {"token": "server-token", "trader_token": "trader-token", "timeout": 20.0}
        assert way(url, **right)[0].address == server.at("tls")
        for wrong, place in (
            ({"token": "trader-token"}, server.at("tls")),
            ({"trader_token": "server-token"}, trader.urls[1]),
        ):
            start = time.monotonic()
            assert f"; {place}: " in failure(way, url, **{**right, **wrong})
            assert time.monotonic() - start < 10


def test_a_token_is_not_shown_where_others_could_read_it(trader: Trader, way: Way) -> None:
    with Server(DATABASE, "--listen", "tcp://127.0.0.1:0", "--token", "secret") as server:
        with Exporter(trader) as exports:
            # The same server under an address that is not known to be of this machine.
            far = address(server).replace("127.0.0.1", "0.0.0.0")
            exports.database([far], "region=far")
            exports.database([address(server)], "region=near")
        said = failure(way, trader.url("region=far"), token="secret", timeout=20.0)
        assert f"{far} asks for the token, which is not shown without encryption" in said
        way(trader.url("region=near"), token="secret")


def test_a_trader_over_tls_is_known_by_its_pin(way: Way) -> None:
    over_tls = ("--listen", "tls://127.0.0.1:0", "--anonymous-loopback")
    with Trader("--trust-addresses", *over_tls) as trader, database() as server:
        with Exporter(trader) as exports:
            exports.database([address(server)])
        place, _, pin = trader.urls[1].removeprefix("tls://").partition("#")
        assert way(f"trader://{place}/DataBase#{pin}")[0].address == address(server)
        wrong = "sha256-AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8"
        start = time.monotonic()
        said = failure(way, f"trader://{place}/DataBase#{wrong}", timeout=20.0)
        assert "no trader has answered" in said
        assert "another key" in said
        assert time.monotonic() - start < 10


def test_a_type_without_stubs_is_no_service() -> None:
    with pytest.raises(TypeError, match="`Directory` is no type of generated stubs"):
        bf.import_service(bf.Directory, "trader:///Directory")
    with pytest.raises(TypeError, match="`Int` is no type"):
        bf.Service(bf.Int, "trader:///Int")


def test_the_stubs_are_fresh() -> None:
    program = str(ROOT / "crates" / "trader" / "trader.theta")
    folder = str(Path(trader_stubs.__file__ or "").parent)
    source = str(ROOT / "veneers/python/src/bifrost_veneer/importing/trader")
    for place in (folder, source):
        arguments = ["veneer", "--lang", "python", program, "-o", place, "--check"]
        done = subprocess.run([BIFROST, *arguments], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr


def test_the_variables_are_those_of_the_program() -> None:
    text = (ROOT / "crates" / "client" / "src" / "search.rs").read_text()
    assert '"BIFROST_TRADER"' in text
    assert '"BIFROST_TRADER_TOKEN"' in text
