"""Measures the veneer: recording, batches, crossings, tables, beside a ping-pong over a raw socket.

Prints a line of JSON for each figure, as ``bifrost bench veneers`` reads it. ``BIFROST_URL`` is a
server of ``cases/programs/conformance.theta`` at a unix socket; without it one is started
with ``BIFROST_BIN``.
"""

from __future__ import annotations

import gc
import json
import os
import socket
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

TESTS = Path(__file__).resolve().parents[1] / "tests"
sys.path[:0] = [str(TESTS)]

from conformance.bifrost_stubs import Probe, connect  # noqa: E402
from servers import CONFORMANCE, Server  # noqa: E402


def figure(case: str, n: int, samples: list[float], unit: str = "ns", peer: str = "python") -> None:
    """Prints a figure: the median of its samples, the least and the greatest, each of one of ``n``
    steps.
    """
    value, least, most = (round(f(samples), 3) for f in (statistics.median, min, max))
    line = {
        "bench": "veneers",
        "case": case,
        "peer": peer,
        "n": n,
        "value": value,
        "min": least,
        "max": most,
    }
    print(json.dumps(line | {"unit": unit}), flush=True)


def timed(work: Callable[[], Any]) -> float:
    """Returns the nanoseconds of one run."""
    begin = time.perf_counter_ns()
    work()
    return time.perf_counter_ns() - begin


@contextmanager
def server_url() -> Iterator[str]:
    """The address of a server."""
    url = os.environ.get("BIFROST_URL")
    if url:
        yield url
        return
    with Server(CONFORMANCE) as server:
        yield server.url


def record(probe: Probe, flush: Callable[[], None]) -> None:
    """A recorded call whose stub is dropped: the recording alone."""
    counter = probe.counter()
    flush()
    for name, call in (
        ("record", lambda: probe.same_int(7)),
        ("record, no argument", counter.value),
        ("record, a text", lambda: probe.same_string("abc")),
    ):
        samples = []
        for _ in range(200):

            def run(call: Callable[[], Any] = call) -> None:
                for _ in range(100):
                    call()

            samples.append(timed(run) / 100)
            flush()
        figure(name, 100, samples)


def batches(probe: Probe) -> None:
    """Batches of 10,000 calls, of which the last is claimed, or all."""
    count = 10_000
    counter = probe.counter()
    counter.value().claim()
    samples = []
    for _ in range(20):

        def run() -> None:
            for _ in range(count - 1):
                counter.value()
            counter.value().claim()

        samples.append(timed(run) / count)
    figure("batch", count, samples)
    samples = []
    for _ in range(20):

        def run_all() -> None:
            for promise in [counter.value() for _ in range(count)]:
                promise.claim()

        samples.append(timed(run_all) / count)
    figure("batch, all claimed", count, samples)


def pairs(probe: Probe) -> None:
    """A call, claimed: a pair of crossings."""
    counter = probe.counter()
    counter.value().claim()
    samples = [timed(lambda: counter.value().claim()) / 1000 for _ in range(5000)]
    figure("pair", 1, samples, "us")


def tables(session: Any, probe: Probe) -> None:
    """A table of 10,000 rows with two columns."""
    count = 10_000
    samples = []
    for _ in range(10):

        def run() -> None:
            rows = session.collect(probe.pairs(count), lambda v: (v[0], v[1])).claim()
            assert len(rows) == count

        samples.append(timed(run) / count)
    figure("table", count, samples)


def ping_pong() -> None:
    """The same bytes back and forth over a raw unix socket: 16 there, 48 back."""
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

            def run() -> None:
                client.sendall(b"y" * 32)
                client.recv(4096)

            samples = [timed(run) / 1000 for _ in range(5000)]
        thread.join()
        listener.close()
    figure("pair", 1, samples, "us", "raw")


def main() -> None:
    gc.collect()
    ping_pong()
    with server_url() as url, connect(url) as session:
        probe = session.lookup("probe", Probe)
        session.flush()
        record(probe, session.flush)
        batches(probe)
        pairs(probe)
        tables(session, probe)


if __name__ == "__main__":
    main()
