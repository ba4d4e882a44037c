"""The measured client of ``bifrost bench veneers`` in Python.

It connects to ``BIFROST_URL``, a server of ``cases/programs/conformance.theta``, and answers lines
``CASE N`` by the nanoseconds and the result of N steps (``bench/veneers/README.md``). Without
``BIFROST_URL`` a server is started with ``BIFROST_BIN``.
"""

from __future__ import annotations

import os
import socket
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter_ns

TESTS = Path(__file__).resolve().parents[1] / "tests"
sys.path[:0] = [str(TESTS)]

from conformance.bifrost_stubs import Probe, connect  # noqa: E402
from servers import CONFORMANCE, Server  # noqa: E402

import bifrost_veneer as bf  # noqa: E402


@contextmanager
def server_url() -> Iterator[str]:
    """The address of a server."""
    url = os.environ.get("BIFROST_URL")
    if url:
        yield url
        return
    with Server(CONFORMANCE) as server:
        yield server.url


@contextmanager
def echo() -> Iterator[socket.socket]:
    """A unix socket whose other end sends back 48 bytes for each message."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "raw")
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(path)
        listener.listen()

        def serve() -> None:
            peer, _ = listener.accept()
            with peer:
                while peer.recv(4096):
                    peer.sendall(b"x" * 48)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(path)
            yield client
        thread.join()
        listener.close()


def run(
    session: bf.Session, probe: Probe, raw: socket.socket, name: str, count: int
) -> tuple[int, int]:
    """Runs a case; returns its nanoseconds and its result."""
    result = 0
    begin = perf_counter_ns()
    match name:
        case "record":
            # The stubs are dropped: the recording alone.
            for n in range(count):
                probe.same_int(n)
                result += n
            ended = perf_counter_ns()
            session.flush()
            return ended - begin, result
        case "batch":
            promises = [probe.same_int(n) for n in range(count)]
            promises[-1].claim()
            ended = perf_counter_ns()
            return ended - begin, sum(promise.claim() for promise in promises)
        case "null":
            for _ in range(count):
                probe.nothing().claim()
                result += 1
        case "pair":
            for n in range(count):
                result += probe.same_int(n).claim()
        case "two":
            for n in range(count):
                result += probe.itself().same_int(n).claim()
        case "table":
            rows = session.collect(probe.pairs(count), lambda v: (v[0], v[1])).claim()
            result = sum(number + len(text) for number, text in rows)
        case "raw":
            for _ in range(count):
                raw.sendall(b"y" * 32)
                raw.recv(4096)
                result += 1
        case _:
            raise ValueError(f"no case {name}")
    return perf_counter_ns() - begin, result


def main() -> None:
    with echo() as raw, server_url() as url, connect(url) as session:
        probe = session.lookup("probe", Probe)
        session.flush()
        for line in sys.stdin:
            name, count = line.split()
            print(*run(session, probe, raw, name, int(count)), flush=True)


if __name__ == "__main__":
    main()
