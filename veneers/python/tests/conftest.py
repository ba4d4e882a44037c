"""Sessions with servers of the conformance program."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from conformance.bifrost_stubs import Probe, Values, connect
from servers import CONFORMANCE, Server

import bifrost_veneer as bf
from bifrost_veneer import native


@pytest.fixture(scope="session", autouse=True)
def caches(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keeps the interfaces that are met out of the folder of whoever runs the tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        yield


#: Shared memory and QUIC need the native library.
WAYS = ["unix", "tcp", "tls", "ws", "wss", *(["shm", "quic"] if native.module else [])]
LISTEN = [
    *("--listen", "shm://FOLDER/shm"),
    *("--listen", "tcp://127.0.0.1:0", "--listen", "tls://127.0.0.1:0", "--anonymous-loopback"),
    *("--listen", "ws://127.0.0.1:0", "--listen", "wss://127.0.0.1:0"),
    *("--listen", "quic://127.0.0.1:0"),
]


@dataclass
class Client:
    """A session, with the object that all cases begin with."""

    server: Server
    url: str
    s: bf.Session
    p: Probe

    @property
    def v(self) -> Values:
        return self.p.values()

    @property
    def crossings(self) -> int:
        return self.s.counters.crossings

    def history(self) -> list[tuple[tuple[int, ...], str]]:
        """Numbers of rounds and names of signals in the history."""
        found = []
        for error in self.s.exceptions():
            assert error.call is not None
            name = error.signal if isinstance(error, bf.Signal) else type(error).__name__
            found.append((error.call.rounds, name))
        return found


@pytest.fixture(params=WAYS)
def client(request: pytest.FixtureRequest) -> Iterator[Client]:
    """A session over each transport, with a server of its own each time."""
    with Server(CONFORMANCE, *LISTEN) as server:
        url = server.at(request.param)
        with connect(url) as s:
            yield Client(server, url, s, s.lookup("probe", Probe))
            assert not s.is_closed


@pytest.fixture
def limited(request: pytest.FixtureRequest) -> Iterator[Client]:
    """A session with a server that was started with the settings of the test."""
    settings = [part for setting in request.param for part in ("--set", setting)]
    with Server(CONFORMANCE, *settings) as server, connect(server.url) as s:
        yield Client(server, server.url, s, s.lookup("probe", Probe))
