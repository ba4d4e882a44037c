"""Traders under test, and exporters that are their clients."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

from database.bifrost_stubs import INTERFACE
from servers import BIFROST, EXAMPLES, Server, bifrost_environment

from bifrost_veneer.importing.offers import host
from bifrost_veneer.importing.trader import bifrost_stubs as trader_stubs

DATABASE = EXAMPLES / "database" / "database.theta"
#: Nothing here takes longer, on a busy machine either.
SOON = 60.0


def wait_until(what: str, is_so: Callable[[], bool], within: float = SOON) -> None:
    """Waits until something is so."""
    start = time.monotonic()
    while not is_so():
        assert time.monotonic() - start < within, what
        time.sleep(0.01)


class Trader:
    """A trader that is ready, at ``unix:///FOLDER/trader``."""

    def __init__(self, *arguments: str) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="bifrost-python-")
        folder = self._folder.name
        self.process = subprocess.Popen(
            [BIFROST, "trader", "--listen", f"unix://{folder}/trader", *arguments],
            cwd=folder,
            env=bifrost_environment(folder),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line.startswith("ready "), line
        self.urls = line.split()[1:]

    @property
    def address(self) -> str:
        """The address of its socket."""
        return self.urls[0]

    def url(self, query: str = "", service: str = "DataBase") -> str:
        """The URL of databases at it, or of another service."""
        return f"trader+{self.address}?service={service}&{query}".rstrip("&")

    def __enter__(self) -> Trader:
        return self

    def __exit__(self, *ended: object) -> None:
        resume(self.process)
        self.process.terminate()
        self.process.communicate(timeout=20)
        self._folder.cleanup()


class Exporter:
    """A client of a trader that exports servers, and renews the leases until its end."""

    def __init__(self, trader: Trader) -> None:
        self._session = trader_stubs.connect(trader.address, timeout=SOON)
        self._trader = self._session.lookup("trader", trader_stubs.Trader)
        text = INTERFACE.load()
        self._digest = self._trader.teach(text if isinstance(text, str) else text.decode()).claim()

    def database(self, addresses: list[str], properties: str = "") -> trader_stubs.Lease:
        """Exports the database of a server, for a minute."""
        lease = self._trader.advertise(
            "DataBase", self._digest, "database", addresses, properties, 60_000
        )
        self._session.resolve(lease)
        return lease

    def named(self, name: str, addresses: list[str], properties: str = "") -> None:
        """Exports an object of another name."""
        lease = self._trader.advertise(
            "DataBase", self._digest, name, addresses, properties, 60_000
        )
        self._session.resolve(lease)

    def withdraw(self, lease: trader_stubs.Lease) -> None:
        """Ends an offer."""
        lease.withdraw().claim()

    def count(self, query: str = "", service: str = "DataBase") -> int:
        """The number of offers for clients of this machine."""
        found = self._trader.find(service, "", query, 0, host()).get().claim()
        return len(found.offers)

    def __enter__(self) -> Exporter:
        return self

    def __exit__(self, *ended: object) -> None:
        self._session.close()


def database(*arguments: str) -> Server:
    """A server of databases, at a socket and over TCP."""
    return Server(DATABASE, "--listen", "tcp://127.0.0.1:0", "--anonymous-loopback", *arguments)


def address(server: Server) -> str:
    """The address of a server over TCP."""
    return server.at("tcp")


def _state(process: subprocess.Popen[str]) -> str:
    try:
        status = Path(f"/proc/{process.pid}/status").read_text()
    except OSError:
        return ""
    return next(line.split()[1] for line in status.splitlines() if line.startswith("State:"))


def stop(process: subprocess.Popen[str]) -> None:
    """Stops a process, and waits until it has stopped."""
    os.kill(process.pid, signal.SIGSTOP)
    wait_until("a process does not stop", lambda: _state(process) == "T")


def resume(process: subprocess.Popen[str]) -> None:
    """Lets a process go on that may be stopped."""
    if process.poll() is None:
        os.kill(process.pid, signal.SIGCONT)


class Silent:
    """An address at which connections are taken, and nothing is ever answered."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))

    @property
    def address(self) -> str:
        """The address."""
        return f"tcp://127.0.0.1:{self._listener.getsockname()[1]}"

    def __enter__(self) -> Silent:
        return self

    def __exit__(self, *ended: object) -> None:
        self._listener.close()


def nobody() -> str:
    """An address at which nobody listens."""
    with Silent() as silent:
        return silent.address


class Broken:
    """Passes greeting and look-up of each client to a server, and ends the connection at the next
    words.
    """

    def __init__(self, server: str) -> None:
        self._host, _, port = server.removeprefix("tcp://").rpartition(":")
        self._port = int(port)
        self._listener = socket.create_server(("127.0.0.1", 0))
        #: The connections that were ended so.
        self.ended = 0
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    @property
    def address(self) -> str:
        """The address."""
        return f"tcp://127.0.0.1:{self._listener.getsockname()[1]}"

    def _serve(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            with client, socket.create_connection((self._host, self._port)) as server:
                try:
                    for _ in range(2):
                        server.sendall(client.recv(1 << 16))
                        client.sendall(server.recv(1 << 16))
                    if client.recv(1 << 16):
                        self.ended += 1
                except OSError:
                    continue

    def __enter__(self) -> Broken:
        return self

    def __exit__(self, *ended: object) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join(timeout=20)
