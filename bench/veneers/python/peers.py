"""Peers of ``bifrost bench veneers`` in Python: grpcio and pycapnp, with the servers in C++.

``peers.py PEER client PATH`` connects to the unix socket, and answers lines ``CASE N`` as README.md
has them. ``peers.sh`` makes ``calls_pb2`` and ``calls_pb2_grpc`` beside the copy that runs.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from pathlib import Path
from time import perf_counter_ns
from typing import Any

SCHEMA = Path(__file__).resolve().parent / "calls.capnp"
# The nanoseconds and the result of a run.
Ran = tuple[int, int]


def answer_lines(run: Callable[[str, int], Ran]) -> None:
    """Answers lines until the input ends."""
    for line in sys.stdin:
        name, count = line.split()
        nanoseconds, result = run(name, int(count))
        print(nanoseconds, result, flush=True)


def grpcio(path: str) -> None:
    """gRPC: single calls block, and calls that do not wait for each other are futures."""
    import calls_pb2 as messages
    import grpc
    from calls_pb2_grpc import ProbeStub

    channel = grpc.insecure_channel(f"unix:{path}")
    grpc.channel_ready_future(channel).result(timeout=30)
    stub = ProbeStub(channel)

    def many(count: int, only_begun: bool) -> Ran:
        begin = perf_counter_ns()
        calls = [stub.SameInt.future(messages.Number(object=1, number=n)) for n in range(count)]
        begun = perf_counter_ns() - begin
        replies = [call.result() for call in calls]
        answered = perf_counter_ns() - begin
        return begun if only_begun else answered, sum(reply.number for reply in replies)

    def run(name: str, count: int) -> Ran:
        if name in ("record", "batch"):
            return many(count, name == "record")
        begin, result = perf_counter_ns(), 0
        match name:
            case "null":
                for _ in range(count):
                    stub.Nothing(messages.Object(object=1))
                    result += 1
            case "pair":
                for n in range(count):
                    result += stub.SameInt(messages.Number(object=1, number=n)).number
            case "two":
                for n in range(count):
                    itself = stub.Itself(messages.Object(object=1)).object
                    result += stub.SameInt(messages.Number(object=itself, number=n)).number
            case "table":
                rows = stub.Pairs(messages.Number(object=1, number=count)).rows
                result = sum(row.number + len(row.text) for row in rows)
            case _:
                raise ValueError(f"no case {name}")
        return perf_counter_ns() - begin, result

    answer_lines(run)


def pycapnp(path: str) -> None:
    """Cap'n Proto: promises in one event loop, whose calls name results of earlier ones."""
    import capnp

    schema = capnp.load(str(SCHEMA))

    async def measure() -> None:
        stream = await capnp.AsyncIoStream.create_unix_connection(path)
        probe = capnp.TwoPartyClient(stream).bootstrap().cast_as(schema.Probe)
        for line in sys.stdin:
            name, count = line.split()
            nanoseconds, result = await run(probe, name, int(count))
            print(nanoseconds, result, flush=True)
            # What the library still has to send is no part of the next run.
            await probe.nothing()

    async def many(probe: Any, count: int, only_begun: bool) -> Ran:
        begin = perf_counter_ns()
        calls = [probe.sameInt(n) for n in range(count)]
        begun = perf_counter_ns() - begin
        replies = [await call for call in calls]
        answered = perf_counter_ns() - begin
        return begun if only_begun else answered, sum(reply.number for reply in replies)

    async def run(probe: Any, name: str, count: int) -> Ran:
        if name in ("record", "batch"):
            return await many(probe, count, name == "record")
        begin, result = perf_counter_ns(), 0
        match name:
            case "null":
                for _ in range(count):
                    await probe.nothing()
                    result += 1
            case "pair":
                for n in range(count):
                    result += (await probe.sameInt(n)).number
            case "two":
                for n in range(count):
                    result += (await probe.itself().probe.sameInt(n)).number
            case "table":
                rows = (await probe.pairs(count)).rows
                result = sum(row.number + len(row.text) for row in rows)
            case _:
                raise ValueError(f"no case {name}")
        return perf_counter_ns() - begin, result

    asyncio.run(capnp.run(measure()))


if __name__ == "__main__":
    {"grpcio": grpcio, "pycapnp": pycapnp}[sys.argv[1]](sys.argv[3])
