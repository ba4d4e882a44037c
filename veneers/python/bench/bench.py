"""Measures the veneer: recording, batches, crossings, tables, beside a ping-pong over a raw socket.

Prints a line of JSON for each figure: the least and the median of many short runs. ``BIFROST_URL`` is a
server of ``cases/programs/conformance.theta`` at a unix socket; without it one is started
with ``BIFROST_BIN``.
"""

from __future__ import annotations

import gc
import json
import os
import platform
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


def figure(name: str, unit: str, samples: list[float], **more: Any) -> None:
    """Prints a figure: the least and the median of its samples."""
    line = {"bench": name, "unit": unit, "min": round(min(samples), 3), "runs": len(samples)}
    line["median"] = round(statistics.median(samples), 3)
    print(json.dumps(line | more), flush=True)


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
        ("record a call", counter.value),
        ("record a call with an int", lambda: probe.same_int(7)),
        ("record a call with a text", lambda: probe.same_string("abc")),
    ):
        samples = []
        for _ in range(200):

            def run(call: Callable[[], Any] = call) -> None:
                for _ in range(100):
                    call()

            samples.append(timed(run) / 100)
            flush()
        figure(name, "ns", samples)


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
    figure("a call in a batch, the last one claimed", "ns", samples, calls=count)
    samples = []
    for _ in range(20):

        def run_all() -> None:
            for promise in [counter.value() for _ in range(count)]:
                promise.claim()

        samples.append(timed(run_all) / count)
    figure("a call in a batch, all claimed", "ns", samples, calls=count)


def pairs(probe: Probe, raw: float) -> None:
    """A call, claimed: a pair of crossings."""
    counter = probe.counter()
    counter.value().claim()
    samples = [timed(lambda: counter.value().claim()) / 1000 for _ in range(5000)]
    figure("a pair of crossings", "us", samples, raw=round(raw, 3), above_raw=round(min(samples) - raw, 3))


def tables(session: Any, probe: Probe) -> None:
    """A table of 10,000 rows with two columns."""
    count = 10_000
    samples = []
    for _ in range(10):

        def run() -> None:
            rows = session.collect(probe.pairs(count), lambda v: (v[0], v[1])).claim()
            assert len(rows) == count

        samples.append(timed(run) / count)
    figure("a row of a table", "ns", samples, rows=count)


def ping_pong() -> float:
    """The same bytes back and forth over a raw unix socket: 16 there, 48 back. Returns the least, in us."""
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
    figure("raw socket ping-pong", "us", samples)
    return min(samples)


def main() -> None:
    implementation = f"{platform.python_implementation()} {platform.python_version()}"
    print(json.dumps({"python": implementation, "machine": platform.machine(), "cpus": os.cpu_count()}))
    gc.collect()
    raw = ping_pong()
    with server_url() as url, connect(url) as session:
        probe = session.lookup("probe", Probe)
        session.flush()
        record(probe, session.flush)
        batches(probe)
        pairs(probe, raw)
        tables(session, probe)


if __name__ == "__main__":
    main()
