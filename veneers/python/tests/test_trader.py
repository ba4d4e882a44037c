"""Sessions with servers that a trader knows, with real traders and servers."""

from __future__ import annotations

import asyncio
import os
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from database.bifrost_stubs import DataBase, aconnect, connect
from servers import BIFROST, Server, bifrost_environment
from test_sessions import DATABASE

import bifrost_veneer as bf
from bifrost_veneer.io.address import AddressError
from bifrost_veneer.trader import is_trader, parse_trader_url


@pytest.fixture
def trader() -> Iterator[str]:
    """The address of a trader."""
    with tempfile.TemporaryDirectory(prefix="bifrost-python-") as folder:
        process = subprocess.Popen(
            [BIFROST, "trader", "--listen", f"unix://{folder}/trader"],
            cwd=folder,
            env=bifrost_environment(folder),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line.startswith("ready "), line
        try:
            yield line.split()[1].removeprefix("unix://")
        finally:
            process.terminate()
            process.communicate(timeout=20)


def export(trader: str, *arguments: str) -> Server:
    return Server(
        DATABASE,
        *("--trader", f"unix://{trader}", "--export", "database:DataBase"),
        *("--listen", "tcp://127.0.0.1:0", "--anonymous-loopback"),
        *arguments,
    )


def patient(url: str) -> bf.Session:
    """Imports; a server exports a moment after it is ready."""
    for _ in range(100):
        try:
            return connect(url, timeout=5.0)
        except bf.ConnectError as error:
            if "know no server" not in str(error):
                raise
            time.sleep(0.05)
    raise AssertionError("nothing was exported")


def test_a_server_is_imported(trader: str, monkeypatch: pytest.MonkeyPatch) -> None:
    url = f"trader+unix://{trader}?service=DataBase"
    with pytest.raises(bf.ConnectError, match="know no server of it"):
        connect(url)
    with export(trader, "--property", "region=eu") as server:
        with patient(f"{url}&region=eu") as s:
            assert s.service is not None
            assert s.service.name == "database"
            assert s.service.address in server.urls
            db = s.lookup(s.service.name, DataBase)
            assert db.fetch("bob").visits().claim() == 0
        with pytest.raises(bf.ConnectError, match="know no server of it"):
            connect(f"{url}&region=us")

        async def main() -> None:
            async with aconnect(f"{url}&region=eu") as s:
                assert s.service is not None
                assert await s.lookup(s.service.name, DataBase).fetch("bob").visits() == 0
            with pytest.raises(bf.ConnectError, match="know no server of it"):
                await aconnect(f"{url}&region=us")

        asyncio.run(main())
        # The traders of the environment, of which one does not answer.
        monkeypatch.setenv("BIFROST_TRADER", f"unix:///nothing/there, unix://{trader}")
        with connect("trader:///DataBase?region=eu") as s:
            s.flush()


def test_what_is_wrong_is_told(trader: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("BIFROST_TRADER", raising=False)
    for url, text in (
        ("trader:///DataBase", "BIFROST_TRADER is not set"),
        ("trader+unix:///nothing/there?service=DataBase", "no trader has answered"),
        (f"trader+unix://{trader}", "names no service"),
        (f"trader+unix://{trader}?service=DataBase&region<<eu", "cannot import"),
    ):
        with pytest.raises(bf.ConnectError, match=text):
            connect(url)
    monkeypatch.setenv("BIFROST_TRADER", " ".join(f"unix:///nothing/{n}" for n in range(17)))
    with pytest.raises(bf.ConnectError, match="at most 16"):
        connect("trader:///DataBase")


def test_urls() -> None:
    for text, trader, service, query in (
        ("trader://host/DataBase?region=eu", "tls://host:7450", "DataBase", "region=eu"),
        ("trader://[::1]/a%20b", "tls://[::1]:7450", "a b", ""),
        ("trader://h:1/S#sha256-x", "tls://h:1#sha256-x", "S", ""),
        ("trader+tcp://h/S?a=1&b=2", "tcp://h:7450", "S", "a=1&b=2"),
        ("trader+unix:///run/t?a=1&service=S", "unix:///run/t", "S", "a=1"),
        ("trader:///S", None, "S", ""),
    ):
        assert is_trader(text)
        parsed = parse_trader_url(text)
        assert (parsed.trader, parsed.service, parsed.query) == (trader, service, query)
    for text in (
        "trader://host",
        "trader://host/",
        "trader://host/a/b",
        "trader+udp://host/S",
        "trader+tcp:///S",
        "trader+tcp://h/S#pin",
        "trader:///S#pin",
        "trader+unix://run?service=S",
        "trader+unix:///run",
        "trader+unix:///run?service=A&service=B",
        "trader://host/a b",
        "trader://host/" + "a" * 5000,
    ):
        with pytest.raises(AddressError):
            parse_trader_url(text)
    assert not is_trader("unix:///trader")


def test_the_variables_are_those_of_the_program() -> None:
    source = (
        Path(__file__).resolve().parents[3] / "crates" / "veneer" / "src" / "import" / "search.rs"
    )
    text = source.read_text()
    assert '"BIFROST_TRADER"' in text
    assert '"BIFROST_TRADER_TOKEN"' in text
    assert os.sep == "/"
