"""Awaited sessions: one flush for all that is awaited in a turn, batches that overlap,
cancellation.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
from conformance.bifrost_stubs import Counter, NotFound, Probe, Third, aconnect
from conftest import LISTEN, WAYS
from database.bifrost_stubs import DataBase
from database.bifrost_stubs import aconnect as aconnect_database
from servers import CONFORMANCE, Server
from test_sessions import DATABASE, Cut

import bifrost_veneer as bf
from bifrost_veneer import Int

Case = Callable[[bf.AsyncSession, Probe], Awaitable[None]]


def run(case: Case, way: str = "unix", *arguments: str) -> None:
    """Runs a case with a server of its own."""

    async def main(url: str) -> None:
        async with aconnect(url) as s:
            await case(s, s.lookup("probe", Probe))
            assert not s.is_closed

    with Server(CONFORMANCE, *LISTEN, *arguments) as server:
        asyncio.run(main(server.at(way)))


@pytest.mark.parametrize("way", WAYS)
def test_what_is_awaited_together_crosses_together(way: str) -> None:
    async def case(s: bf.AsyncSession, p: Probe) -> None:
        async def one(n: int) -> int:
            return await p.same_int(n)

        assert await asyncio.gather(*[one(n) for n in range(50)]) == list(range(50))
        assert s.counters.crossings == 1
        total = s.cell(0)
        with s.foreach(p.numbers(4)) as i, s.if_(i > 2):
            total.put(total.get() + i)
        assert await total.get() == 7
        assert s.counters.crossings == 2
        table = await s.collect(p.pairs(2), lambda v: (v[0], v[1]))
        assert table == [(1, "1"), (2, "2")]
        with pytest.raises(NotFound) as caught:
            await p.item("zoe").name()
        assert caught.value.values == ("zoe", 4)
        item = p.item("a")
        await s.resolve(item)
        assert await item.name() == "a"
        long = "x" * 3_000_000
        texts = await asyncio.gather(*[_text(p.same_string(long[:900_000])) for _ in range(3)])
        assert all(text == long[:900_000] for text in texts)

    run(case, way)


async def _text(promise: bf.Str) -> str:
    return await promise


def test_requests_overlap() -> None:
    async def case(s: bf.AsyncSession, p: Probe) -> None:
        async def work(n: int) -> int:
            # A stub of a batch under way is used in the next one.
            item = p.item("a")
            await asyncio.sleep(0)
            name = item.name()
            await asyncio.sleep(0)
            length = name.length()
            return await length + await p.same_int(n)

        assert await asyncio.gather(*[work(n) for n in range(40)]) == [n + 1 for n in range(40)]
        assert s.exceptions() == []

    run(case)


def test_many_batches_wait_for_room() -> None:
    async def case(s: bf.AsyncSession, p: Probe) -> None:
        async def work(n: int) -> int:
            for _ in range(n % 7):
                await asyncio.sleep(0)
            return await p.same_int(n)

        assert await asyncio.gather(*[work(n) for n in range(200)]) == list(range(200))

    run(case, "unix", "--set", "limits.batches_under_way_max=1")


def test_long_batches_are_flushed_by_themselves() -> None:
    async def case(s: bf.AsyncSession, p: Probe) -> None:
        promises = [p.same_int(n) for n in range(5000)]
        assert [await promise for promise in promises] == list(range(5000))
        assert s.counters.crossings > 3

    run(case, "unix", "--set", "limits.batch_commands_max=1000")


def test_misuse_is_told() -> None:
    async def case(s: bf.AsyncSession, p: Probe) -> None:
        promise = p.same_int(1)
        with s.if_(s.value(True)):
            with pytest.raises(bf.Misuse) as caught:
                await promise
            assert caught.value.name == "OpenStructure"
        with pytest.raises(TypeError, match="await promise"):
            promise.claim()
        assert await promise == 1
        with pytest.raises(TypeError, match="plain function"):
            await s.transaction(lambda: _text(p.same_string("a")))  # type: ignore[unused-coroutine]
        with pytest.raises(Third):
            await p.choose(3)
        p.choose(3)
        with pytest.raises(bf.Unseen):
            await s.flush()

    run(case)


def test_transactions() -> None:
    async def main(url: str) -> None:
        async with aconnect_database(url) as s, aconnect_database(url) as other:
            db, others = s.lookup("database", DataBase), other.lookup("database", DataBase)
            db.fetch("bob").touch()
            await s.commit()
            assert await others.fetch("bob").visits() == 1
            await other.abort()

            async def add(session: bf.AsyncSession, base: DataBase) -> None:
                for _ in range(10):
                    await session.transaction(lambda: base.fetch("bob").touch())

            await asyncio.gather(add(s, db), add(other, others))
            assert await s.transaction(lambda: db.fetch("bob").visits()) is not None
            count = await s.transaction(lambda: db.fetch("bob").visits())
            assert await count == 21
            with pytest.raises(bf.Unseen):
                await s.transaction(lambda: db.fetch("zoe").touch())
            # A told failure does not prevent a commit; a lost one does.
            with pytest.raises(bf.Signal):
                await db.fetch("zoe").name()
            await s.commit()
            db.fetch("zoe").touch()
            with pytest.raises(bf.Unseen):
                await s.commit()

    with Server(DATABASE, "--store", "memory:") as server:
        asyncio.run(main(server.url))


def test_a_live_view() -> None:
    async def main(url: str) -> None:
        async with aconnect_database(url) as s, aconnect_database(url) as other:
            db, others = s.lookup("database", DataBase), other.lookup("database", DataBase)
            seen: list[int] = []
            view: AsyncIterator[Any] = s.live(lambda: db.fetch("bob").visits())
            async for visits in view:
                seen.append(visits)
                if len(seen) == 4:
                    break
                others.fetch("bob").touch()
                await other.commit()
            assert seen == [0, 1, 2, 3]

    with Server(DATABASE, "--store", "memory:") as server:
        asyncio.run(main(server.url))


def test_cancellation_harms_nothing() -> None:
    async def case(s: bf.AsyncSession, p: Probe) -> None:
        slow = asyncio.ensure_future(_value(p.depth(10)))
        await asyncio.sleep(0)
        slow.cancel()
        with pytest.raises(asyncio.CancelledError):
            await slow
        assert await p.same_int(1) == 1
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0):
                await p.same_int(2)
        assert await p.same_int(3) == 3

    run(case)


async def _value(promise: Int) -> int:
    return await promise


def test_a_killed_server_is_told_at_once() -> None:
    async def main(server: Server) -> None:
        s = await aconnect(server.url)
        p = s.lookup("probe", Probe)
        assert await p.same_int(1) == 1
        waiting = asyncio.gather(
            _value(p.same_int(2)), _value(p.counter().value()), return_exceptions=True
        )
        server.kill()
        begin = time.monotonic()
        await waiting
        with pytest.raises(bf.Closed):
            await p.same_int(3)
        assert time.monotonic() - begin < 1
        with pytest.raises(bf.Closed):
            await s.flush()
        with pytest.raises(bf.Closed):
            await s.lookup("counter", Counter).value()
        await s.close()

    with Server(CONFORMANCE) as server:
        asyncio.run(main(server))


def test_a_cut_connection_is_told_at_once() -> None:
    async def main(url: str) -> None:
        begin = time.monotonic()
        with pytest.raises((bf.Closed, bf.ConnectError)):
            s = await aconnect(url)
            p = s.lookup("probe", Probe)
            while True:
                await p.same_int(1)
        assert time.monotonic() - begin < 1

    with Server(CONFORMANCE) as server:
        for after in (100, 600, 700):
            cut = Cut(server, after)
            asyncio.run(main(f"unix://{cut.path}"))
            (server.folder / "cut").unlink()


def test_an_answer_has_a_time_limit() -> None:
    async def main(server: Server) -> None:
        s = await aconnect(server.url, timeout=0.3)
        begin = time.monotonic()
        with pytest.raises(bf.Closed, match="in time"):
            await s.lookup("probe", Probe).endless()
        assert time.monotonic() - begin < 1
        server.kill()

    with Server(CONFORMANCE, "--set", "limits.batch_time_ms_max=60000") as server:
        asyncio.run(main(server))


def test_there_is_no_session() -> None:
    async def main(url: str) -> None:
        for options in ({}, {"token": "wrong"}):
            with pytest.raises(bf.BadToken):
                await aconnect(url, **options)  # type: ignore[arg-type]
        async with aconnect(url, token="right") as s:
            await s.flush()
        for wrong in ("unix:///nothing/there", "tcp://127.0.0.1:1", "nothing"):
            with pytest.raises(bf.ConnectError):
                await aconnect(wrong)

    with Server(CONFORMANCE, "--listen", "tcp://127.0.0.1:0", "--token", "right") as server:
        asyncio.run(main(server.at("tcp")))


def test_a_blocking_session_is_not_awaited() -> None:
    from conformance.bifrost_stubs import connect

    with Server(CONFORMANCE) as server, connect(server.url) as s:
        promise = s.lookup("probe", Probe).same_int(1)

        async def main() -> None:
            with pytest.raises(TypeError, match="aconnect"):
                await promise

        asyncio.run(main())
        assert promise.claim() == 1
