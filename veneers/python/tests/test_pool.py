"""Pools of sessions, for threads and for tasks."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import Iterator

import pytest
from conformance.bifrost_stubs import Counter, Probe, aconnect, connect
from database import bifrost_stubs as database
from readme import block
from script import Client, Machine
from servers import CONFORMANCE, EXAMPLES, ROOT, Server

import bifrost_veneer as bf
from bifrost_veneer import remote
from bifrost_veneer.interfaces import BYTES_MAX, FILES_MAX, STUBS_MAX
from bifrost_veneer.pool import SESSIONS_MAX


@pytest.fixture
def server() -> Iterator[Server]:
    with Server(CONFORMANCE) as server:
        yield server


@remote
def twice(n: int) -> int:
    return 2 * n


def counter(s: bf.Session | bf.AsyncSession) -> Counter:
    return s.lookup("counter", Counter)


def test_a_session_is_used_again_with_a_new_transaction(server: Server) -> None:
    with bf.Pool(connect, server.url) as pool:
        assert pool.idle == 0
        with pool.get() as s:
            assert counter(s).add(5).claim() == 5
            crossings, procedure = s.counters.crossings, twice.on(s)
            assert procedure(2).claim() == 4
            assert "procedure test_pool.twice" in (s.explain_last() or "")
        assert pool.idle == 1
        with pool.get() as other:
            # The same connection, whose transaction was aborted; procedures stay.
            assert other.counters.crossings >= crossings
            assert counter(other).value().claim() == 0
            assert twice.on(other)(3).claim() == 6
            assert "procedure test_pool.twice" not in (other.explain_last() or "")
            counter(other).add(1)
            other.commit().claim()
        with pool.get() as s:
            assert counter(s).value().claim() == 1
    assert pool.idle == 0
    with pytest.raises(bf.ConnectError, match="the pool is closed"), pool.get():
        pass


def test_the_readme_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    text = (ROOT / "veneers" / "python" / "README.md").read_text()
    assert f"({SESSIONS_MAX} if you say nothing)" in text
    assert f"the last {STUBS_MAX} in memory" in text
    assert f"the last {FILES_MAX} of at most {BYTES_MAX >> 20} MiB" in text
    with Server(EXAMPLES / "database" / "database.theta") as server:
        monkeypatch.setenv("BIFROST_URL", server.url)
        space = {"bf": bf, "os": os, "connect": database.connect, "DataBase": database.DataBase}
        exec(block(text, "pool"), space)
        with database.connect(server.url) as s:
            assert s.lookup("database", database.DataBase).fetch("eve").visits().claim() == 1


def test_failures_are_those_of_one_loan(server: Server) -> None:
    with bf.Pool(connect, server.url) as pool:
        with pool.get() as s:
            kept = s.lookup("probe", Probe).choose(3)
            s.flush()
        with pytest.raises(KeyError), pool.get() as s:
            s.lookup("probe", Probe).choose(3)
            raise KeyError
        assert pool.idle == 1
        with pool.get() as s:
            assert s.exceptions() == []
            assert counter(s).add(1).claim() == 1
            s.commit().claim()
        with pytest.raises(bf.Signal):
            kept.claim()


def test_stubs_end_with_the_loan(server: Server) -> None:
    with bf.Pool(connect, server.url) as pool:
        with pool.get() as s:
            p = s.lookup("probe", Probe)
            known = p.same_int(3)
            s.send_batch()
            under_way = p.same_int(4)
            s.send_batch()
            unsent = p.same_int(5)
            assert known.claim() == 3
        with pool.get() as other:
            assert other is not s
            # A value that was claimed is here; all else is told, and is not the next one's.
            assert known.claim() == 3
            for use in (
                lambda: p.same_int(1).claim(),
                lambda: unsent.claim(),
                lambda: s.flush(),
                lambda: s.lookup("probe", Probe).same_int(1).claim(),
                lambda: s.cell(0).get().claim(),
            ):
                with pytest.raises(bf.Closed, match="was given back to its pool"):
                    use()
            assert under_way.claim() == 4
            s.close()
            with pytest.raises(bf.Misuse):
                other.lookup("probe", Probe).name_of(p.fresh()).claim()
            other.clear_exceptions()
            assert counter(other).value().claim() == 0
            # The server has none of the objects any more.
            assert len(other.core.handles) <= 1
        assert pool.idle == 1


def test_objects_go_back_to_the_server() -> None:
    few = ("--set", "limits.handles_max=8")
    with Server(CONFORMANCE, *few) as server, bf.Pool(connect, server.url) as pool:
        for _ in range(5):
            with pool.get() as s:
                p = s.lookup("probe", Probe)
                kept = [p.fresh() for _ in range(6)]
                s.send_batch()
                assert [item.name().claim() for item in kept] == ["fresh"] * 6
        assert pool.idle == 1


def test_the_next_loan_can_end_profiles() -> None:
    core = Machine(Client(), {"limits": {"profile_entries_max": 8}}).recorder
    core.profile(None, True)
    other = core.succeed()
    # The server still makes them.
    assert not other.profile_due(True)
    assert other.profile_due(False)


def test_only_so_many_sessions_are_lent(server: Server) -> None:
    with bf.Pool(connect, server.url, sessions_max=2) as pool:
        with pool.get(), pool.get():
            start = time.monotonic()
            with (
                pytest.raises(bf.ConnectError, match="all 2 sessions of the pool are lent"),
                pool.get(timeout=0.1),
            ):
                pass
            assert time.monotonic() - start < 5
        with pool.get(timeout=0.1):
            pass
    assert bf.Pool(connect, server.url)._sessions_max == SESSIONS_MAX
    with pytest.raises(ValueError, match="at least one session"):
        bf.Pool(connect, server.url, sessions_max=0)
    with pytest.raises(ValueError, match="at least one session"):
        bf.AsyncPool(aconnect, server.url, sessions_max=0)


def test_threads_share_a_pool(server: Server) -> None:
    failures: list[BaseException] = []

    with bf.Pool(connect, server.url, sessions_max=3) as pool:

        def work() -> None:
            try:
                for _ in range(10):
                    with pool.get() as s:
                        s.transaction(lambda: counter(s).add(1), tries=1000)
            except BaseException as error:
                failures.append(error)

        threads = [threading.Thread(target=work) for _ in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(timeout=60)
        assert failures == []
        assert 1 <= pool.idle <= 3
        with pool.get() as s:
            assert counter(s).value().claim() == 60


def test_a_session_that_has_ended_is_not_used_again(server: Server) -> None:
    with bf.Pool(connect, server.url) as pool:
        with pool.get() as s:
            s.close()
        assert pool.idle == 0
        # One in which something was left open.
        with pool.get() as s:
            s.if_(s.value(True)).__enter__()
        assert pool.idle == 0
        with pool.get():
            pass
        assert pool.idle == 1
        # One whose server has ended meanwhile.
        with Server(CONFORMANCE) as second, bf.Pool(connect, second.url, timeout=5.0) as other:
            with other.get():
                pass
            second.kill()
            with pytest.raises(bf.ConnectError, match="no connection to"), other.get():
                pass
            assert other.idle == 0
            # A permit came back all the same.
            assert other._lent == 0
        pool.close()


def test_a_session_ends_with_a_closed_pool(server: Server) -> None:
    pool = bf.Pool(connect, server.url)
    with pool.get() as s:
        pool.close()
        assert counter(s).value().claim() == 0
    assert s.is_closed
    assert pool.idle == 0


def test_tasks_share_a_pool(server: Server) -> None:
    async def main() -> None:
        async with bf.AsyncPool(aconnect, server.url, sessions_max=3) as pool:

            async def work() -> None:
                for _ in range(5):
                    async with pool.get() as s:
                        await s.transaction(lambda: counter(s).add(1), tries=1000)

            await asyncio.gather(*(work() for _ in range(6)))
            assert 1 <= pool.idle <= 3
            async with pool.get() as s:
                assert await counter(s).value() == 30
                procedure = twice.on(s)
                assert await procedure(2) == 4
                promise = counter(s).add(1)
            async with pool.get() as other:
                with pytest.raises(bf.Closed, match="was given back to its pool"):
                    await promise
                with pytest.raises(bf.Closed, match="was given back to its pool"):
                    await counter(s).value()
                await s.close()
                assert await counter(other).value() == 30
                assert await twice.on(other)(3) == 6
            async with pool.get(), pool.get(), pool.get():
                with pytest.raises(bf.ConnectError, match="all 3 sessions of the pool are lent"):
                    async with pool.get(timeout=0.05):
                        pass
            # A task that is cancelled gives its session back.
            begun = asyncio.Event()

            async def endless() -> None:
                async with pool.get() as s:
                    await counter(s).add(1)
                    begun.set()
                    await asyncio.sleep(60)

            task = asyncio.create_task(endless())
            await begun.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert pool.idle == 3
            async with pool.get() as s:
                assert await counter(s).value() == 30
        with pytest.raises(bf.ConnectError, match="the pool is closed"):
            async with pool.get():
                pass

    asyncio.run(main())


def test_an_idle_session_of_a_killed_server_is_left() -> None:
    async def main() -> None:
        with Server(CONFORMANCE) as server:
            async with bf.AsyncPool(aconnect, server.url, timeout=5.0) as pool:
                async with pool.get() as s:
                    assert await counter(s).value() == 0
                server.kill()
                with pytest.raises(bf.ConnectError, match="no connection to"):
                    async with pool.get():
                        pass
                assert pool.idle == 0

    asyncio.run(main())
