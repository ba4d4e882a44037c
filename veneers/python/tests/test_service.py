"""Services that stay: a server is lost by ``kill -9``, by a stop or in order, and another one goes
on; a run that may not be repeated is not, named batches over one store run once, and new servers
are used. By threads and by tasks of asyncio.
"""

from __future__ import annotations

import asyncio
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from database.bifrost_stubs import DataBase, NotFound, connect
from postgres import Cluster
from readme import block
from servers import ROOT, Server
from traders import (
    DATABASE,
    SOON,
    Broken,
    Exporter,
    Trader,
    address,
    database,
    resume,
    stop,
    wait_until,
)

import bifrost_veneer as bf
from bifrost_veneer import importing
from bifrost_veneer.importing.offers import host

#: The most seconds until a service goes on with another server, on a busy machine.
BACK = 15.0
#: The seconds of a search and of an answer, where a test waits for their end.
SHORT = 2.5
#: The kills of the longest test.
KILLS = int(os.environ.get("BIFROST_KILLS", "3"))


class Blocking:
    """A service by threads, as the tests use it."""

    def __init__(self, url: str, timeout: float) -> None:
        self._service = bf.Service(DataBase, url, timeout=timeout)

    @property
    def address(self) -> str:
        server = self._service.server
        return "" if server is None else server.address

    def run(self, body: Callable[[Any, DataBase, Any], Any]) -> Any:
        """Runs a body, whose third argument claims a promise, or flushes if that is None."""

        def claim(session: bf.Session, promise: bf.Promise[Any] | None) -> Any:
            return session.flush() if promise is None else promise.claim()

        return self._service.run(lambda s, db: body(s, db, lambda promise: claim(s, promise)))

    def make(self, user: str) -> None:
        """Makes a user, and commits."""

        def body(session: bf.Session, db: DataBase) -> None:
            db.new_user(user)
            session.commit().claim()

        self._service.run(body)

    def create(self, user: str) -> None:
        """Makes a user, by a named batch, which is tried again after a conflict."""
        self._service.run_named(lambda _, db: db.new_user(user).visits())

    def visits(self, user: str) -> int:
        """The number of visits, by a run."""
        return self._service.run(lambda _, db: db.fetch(user).visits().claim())

    def visit(self, user: str, **how: Any) -> int:
        """A visit, by a named batch."""
        visits: bf.Int = self._service.run_transaction(visit(user), **how)
        return visits.claim()

    def close(self) -> None:
        self._service.close()


class Awaited:
    """A service by tasks, as the tests use it."""

    def __init__(self, url: str, timeout: float) -> None:
        self._runner = asyncio.Runner()
        self._service = self._do(self._open(url, timeout))

    async def _open(self, url: str, timeout: float) -> bf.AsyncService[DataBase]:
        return bf.AsyncService(DataBase, url, timeout=timeout)

    def _do(self, work: Any) -> Any:
        return self._runner.run(work)

    @property
    def address(self) -> str:
        server = self._service.server
        return "" if server is None else server.address

    def run(self, body: Callable[[Any, DataBase, Any], Any]) -> Any:
        """As :meth:`Blocking.run`."""

        async def steps(session: bf.AsyncSession, db: DataBase) -> Any:
            loop = asyncio.get_running_loop()

            def claim(promise: bf.Promise[Any] | None) -> Any:
                work = session.flush() if promise is None else wait(promise)
                return asyncio.run_coroutine_threadsafe(work, loop).result(SOON)

            # The body runs on a thread, and the loop waits for what it claims.
            return await asyncio.to_thread(body, session, db, claim)

        async def wait(promise: bf.Promise[Any]) -> Any:
            return await promise

        return self._do(self._service.run(steps))

    def make(self, user: str) -> None:
        """Makes a user, and commits."""

        async def body(session: bf.AsyncSession, db: DataBase) -> None:
            db.new_user(user)
            await session.commit()

        self._do(self._service.run(body))

    def create(self, user: str) -> None:
        """Makes a user, by a named batch, which is tried again after a conflict."""
        self._do(self._service.run_named(lambda _, db: db.new_user(user).visits()))

    def visits(self, user: str) -> int:
        """The number of visits, by a run."""

        async def body(_: bf.AsyncSession, db: DataBase) -> int:
            return await db.fetch(user).visits()

        found: int = self._do(self._service.run(body))
        return found

    def visit(self, user: str, **how: Any) -> int:
        """A visit, by a named batch."""

        async def work() -> int:
            visits: bf.Int = await self._service.run_transaction(visit(user), **how)
            return await visits

        found: int = self._do(work())
        return found

    def close(self) -> None:
        self._do(self._service.close())
        self._runner.close()


Service = Blocking | Awaited


def visit(user: str) -> Callable[[Any, DataBase], bf.Int]:
    """The body of a visit."""

    def body(_: object, db: DataBase) -> bf.Int:
        elem = db.fetch(user)
        elem.touch()
        return elem.visits()

    return body


@pytest.fixture(params=[Blocking, Awaited])
def service(request: pytest.FixtureRequest) -> Iterator[Callable[[str, float], Service]]:
    """Makes services of a URL and a timeout."""
    made: list[Service] = []

    def make(url: str, timeout: float) -> Service:
        made.append(request.param(url, timeout))
        return made[-1]

    yield make
    for one in made:
        one.close()


Make = Callable[[str, float], Service]


@pytest.fixture
def trader() -> Iterator[Trader]:
    with Trader("--trust-addresses") as trader:
        yield trader


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster() as cluster:
        yield cluster


def end(server: Server, number: int) -> None:
    """Ends a server, and waits until its process is gone."""
    resume(server.process)
    server.process.send_signal(number)
    server.process.wait(timeout=20)


class Twins:
    """Two servers of one store, at sockets that stay when a server is started again."""

    def __init__(self, folder: Path, store: str, trader: Trader) -> None:
        self._folder = folder
        self._store = store
        self.servers = [self._start(number) for number in (0, 1)]
        self._exporter = Exporter(trader)
        for number in (0, 1):
            properties = f"number={number}&host={host()}&store=twins"
            self._exporter.database([self.address(number)], properties)

    def address(self, number: int) -> str:
        """The address of a server."""
        return f"unix://{self._folder}/{number}"

    def number(self, address: str) -> int:
        """The number of the server of an address."""
        return int(address[-1])

    def _start(self, number: int) -> Server:
        return Server(DATABASE, "--store", self._store, "--listen", self.address(number))

    def restart(self, number: int) -> None:
        """Kills a server, and starts it again."""
        end(self.servers[number], signal.SIGKILL)
        self.servers[number].__exit__(None, None, None)
        (self._folder / str(number)).unlink(missing_ok=True)
        self.servers[number] = self._start(number)

    def __enter__(self) -> Twins:
        return self

    def __exit__(self, *ended: object) -> None:
        self._exporter.__exit__(*ended)
        for server in self.servers:
            resume(server.process)
            server.__exit__(None, None, None)


class Worker:
    """A client that visits a user again and again, by named batches, on a thread of its own."""

    def __init__(self, make: Callable[[], Service], user: str) -> None:
        self.user = user
        self.acknowledged = 0
        self.address = ""
        self.error: BaseException | None = None
        self._is_over = False
        self._make = make
        self._thread = threading.Thread(target=self._work)
        self._thread.start()

    def _work(self) -> None:
        try:
            service = self._make()
            try:
                service.create(self.user)
                while not self._is_over:
                    visits = service.visit(self.user)
                    # A batch that is lost or done twice would be another number.
                    assert visits == self.acknowledged + 1
                    self.address = service.address
                    self.acknowledged = visits
            finally:
                service.close()
        except BaseException as error:
            self.error = error

    def next(self, more: int) -> float:
        """Waits for so many more visits; returns the seconds."""
        start, before = time.monotonic(), self.acknowledged

        def is_there() -> bool:
            assert self.error is None, self.error
            return self.acknowledged >= before + more

        wait_until("a client does not go on", is_there)
        return time.monotonic() - start

    def end(self) -> None:
        """Ends the work."""
        self._is_over = True
        self._thread.join(timeout=SOON)
        assert self.error is None, self.error


def test_named_batches_run_once_over_kills_of_their_servers(
    trader: Trader, cluster: Cluster, tmp_path: Path
) -> None:
    with Twins(tmp_path, cluster.fresh(), trader) as twins:
        url = trader.url("prefer=random")
        workers = [
            Worker(lambda: Blocking(url, 20.0), "ann of threads"),
            Worker(lambda: Awaited(url, 20.0), "bob of tasks"),
        ]
        longest = 0.0
        for kill in range(KILLS):
            # In the middle of the work of one of them.
            worker = workers[kill % 2]
            worker.next(3)
            number = twins.number(worker.address)
            end(twins.servers[number], signal.SIGKILL)
            longest = max(longest, *(one.next(1) for one in workers))
            twins.restart(number)
        for worker in workers:
            worker.end()
        assert longest < BACK
        with connect(twins.address(0)) as s:
            db = s.lookup("database", DataBase)
            for worker in workers:
                assert db.fetch(worker.user).visits().claim() == worker.acknowledged


def test_a_server_that_is_stopped_is_left_for_another_of_its_store(
    trader: Trader, cluster: Cluster, tmp_path: Path, service: Make
) -> None:
    with Twins(tmp_path, cluster.fresh(), trader) as twins:
        client = service(trader.url("prefer=min(number)"), SHORT)
        client.make("zoe")
        assert client.visit("zoe") == 1
        assert client.address == twins.address(0)
        stop(twins.servers[0].process)
        start = time.monotonic()
        assert client.visit("zoe") == 2
        assert time.monotonic() - start < SHORT + BACK
        assert client.address == twins.address(1)
        # What the first one has read by then does nothing more.
        resume(twins.servers[0].process)
        with connect(twins.address(0)) as s:
            s.lookup("database", DataBase).new_user("una")
            s.commit().claim()
            assert s.lookup("database", DataBase).fetch("zoe").visits().claim() == 2
        # The name is the caller's: a batch that an earlier process has sent is not done again.
        name = bf.BatchName(7, 1)
        assert [client.visit("zoe", name=name, tries=3) for _ in range(2)] == [3, 3]
        assert client.visits("zoe") == 3


def test_a_named_batch_is_not_sent_to_another_store(trader: Trader, service: Make) -> None:
    with database() as one, database() as two, Exporter(trader) as exports:
        exports.database([address(one)], "store=one")
        exports.database([address(two)], "store=two")
        client = service(trader.url("prefer=first"), SHORT)
        client.make("zoe")
        assert client.address == address(one)
        stop(one.process)
        with pytest.raises(bf.ServerLost) as caught:
            client.visit("zoe")
        error = caught.value
        assert (error.ran, bf.Ran.of(error)) == (bf.Ran.UNKNOWN, bf.Ran.UNKNOWN)
        assert "nobody knows if the run was done" in str(error)
        assert "cannot import `DataBase`" in str(error)
        assert isinstance(error.search, bf.NotImported)
        assert isinstance(error.why, bf.Closed)
        # The next run is another one, and may have any server.
        client.make("zoe")
        assert client.address == address(two)
        resume(one.process)


def test_an_offer_without_a_store_has_no_second_server(trader: Trader, service: Make) -> None:
    with database() as one, database() as two, Exporter(trader) as exports:
        for server in (one, two):
            exports.database([address(server)])
        client = service(trader.url("prefer=first"), SHORT)
        client.make("zoe")
        stop(one.process)
        with pytest.raises(bf.ServerLost, match="names no store that another server could share"):
            client.visit("zoe")
        resume(one.process)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_server_that_is_lost_between_two_runs_costs_none(
    trader: Trader, service: Make, number: int
) -> None:
    with database() as one, database() as two, Exporter(trader) as exports:
        for server in (one, two):
            exports.database([address(server)])
        client = service(trader.url("prefer=first"), 5.0)
        client.make("zoe")
        assert client.address == address(one)
        end(one, number)
        calls = []

        def body(session: Any, db: DataBase, claim: Any) -> str:
            calls.append(session.service.address)
            name: str = claim(db.new_user("zoe").name())
            return name

        assert client.run(body) == "zoe"
        assert calls == [address(two)]


def test_a_run_whose_answer_does_not_come_is_not_begun_again(trader: Trader, service: Make) -> None:
    with database() as one, database() as two, Exporter(trader) as exports:
        for server in (one, two):
            exports.database([address(server)])
        client = service(trader.url("prefer=first"), SHORT)
        client.make("zoe")
        stop(one.process)
        calls = []

        def read(_: Any, db: DataBase, claim: Any) -> Any:
            calls.append(1)
            return claim(db.fetch("zoe").visits())

        with pytest.raises(bf.ServerLost, match="nobody knows if the run was done") as caught:
            client.run(read)
        assert (caught.value.ran, len(calls)) == (bf.Ran.UNKNOWN, 1)
        assert "did not answer in time" in str(caught.value)
        resume(one.process)

        # A part was answered.
        client.make("una")
        assert client.address == address(two)

        def half(_: Any, db: DataBase, claim: Any) -> Any:
            calls.append(1)
            claim(db.new_user("ida").visits())
            end(two, signal.SIGKILL)
            return claim(db.fetch("ida").visits())

        calls.clear()
        with pytest.raises(bf.ServerLost, match="a part of the run was done") as caught:
            client.run(half)
        assert (caught.value.ran, len(calls)) == (bf.Ran.BEGAN, 1)

        # Nobody is left: nothing has run.
        end(one, signal.SIGKILL)
        with pytest.raises(bf.ConnectError) as none:
            client.visits("zoe")
        assert bf.Ran.of(none.value) is bf.Ran.NO


def test_a_failure_of_the_body_is_no_loss(trader: Trader, service: Make) -> None:
    with database() as server, Exporter(trader) as exports:
        exports.database([address(server)])
        client = service(trader.url(), 5.0)
        client.make("ida")

        def failing(_: Any, db: DataBase, claim: Any) -> Any:
            claim(db.fetch("ida").touch())
            return claim(db.fetch("nobody").visits())

        with pytest.raises(NotFound) as caught:
            client.run(failing)
        assert bf.Ran.of(caught.value) is bf.Ran.BEGAN

        def interrupted(_: Any, db: DataBase, claim: Any) -> Any:
            claim(db.fetch("ida").touch())
            raise KeyError("of the program")

        with pytest.raises(KeyError, match="of the program"):
            client.run(interrupted)
        # The next run does not commit what they have left, and has the same server.
        client.make("una")
        assert client.visits("ida") == 0
        with connect(server.url) as s:
            assert s.lookup("database", DataBase).fetch("ida").visits().claim() == 0

        # A session that the program has closed itself is no loss either.
        def closing(session: Any, db: DataBase, claim: Any) -> Any:
            session._leave()
            return claim(db.fetch("ida").visits())

        with pytest.raises(bf.Closed):
            client.run(closing)
        assert client.visits("ida") == 0


def test_new_servers_are_used_when_they_come(trader: Trader, service: Make) -> None:
    with database() as one, database() as two, database() as three, Exporter(trader) as exports:
        exports.database([address(one)], "tier=2")
        client = service(trader.url("prefer=min(tier)"), 5.0)

        def uses(server: Server) -> bool:
            client.run(lambda _, db, claim: claim(None))
            return client.address == address(server)

        wait_until("the first one is not used", lambda: uses(one), 15)
        # One that is preferred, while the first one lives.
        preferred = exports.database([address(two)], "tier=1")
        wait_until("the preferred one is not used", lambda: uses(two), 15)
        # One that is not preferred is not used, until that in use is withdrawn.
        exports.database([address(three)], "tier=3")
        exports.withdraw(preferred)
        wait_until("the first one is not used again", lambda: uses(one), 15)


def test_a_trader_that_is_lost_holds_up_nothing(service: Make) -> None:
    with database() as one, database() as two, Trader("--trust-addresses") as trader:
        with Exporter(trader) as exports:
            for server in (one, two):
                exports.database([address(server)], "store=one")
        client = service(trader.url("prefer=first"), 5.0)
        client.make("zoe")
        stop(trader.process)
        start = time.monotonic()
        assert client.visits("zoe") == 0
        # The offers that are known go on without it.
        end(one, signal.SIGKILL)
        client.make("una")
        assert client.address == address(two)
        assert time.monotonic() - start < BACK
        resume(trader.process)


def test_a_batch_that_ends_each_server_is_not_sent_for_ever(trader: Trader, service: Make) -> None:
    with database() as server, Broken(address(server)) as broken, Exporter(trader) as exports:
        exports.database([broken.address], "store=one")
        client = service(trader.url(), 5.0)
        with pytest.raises(bf.ServerLost) as caught:
            client.visit("bob")
        assert (caught.value.ran, caught.value.search) == (bf.Ran.UNKNOWN, None)
        assert broken.ended == importing.RUNS_MAX
        # A batch without a name is sent once.
        with pytest.raises(bf.ServerLost) as caught:
            client.visits("bob")
        assert caught.value.ran is bf.Ran.UNKNOWN
        assert broken.ended == importing.RUNS_MAX + 1


def test_tasks_take_turns(trader: Trader) -> None:
    async def main() -> None:
        async with bf.AsyncService(DataBase, trader.url(), timeout=5.0) as service:
            under_way = 0

            async def body(_: bf.AsyncSession, db: DataBase) -> int:
                nonlocal under_way
                under_way += 1
                assert under_way == 1
                visits = await db.fetch("bob").visits()
                under_way -= 1
                return visits

            assert await asyncio.gather(*(service.run(body) for _ in range(5))) == [0] * 5
            assert repr(service) == f"<service {trader.url()}>"
            # A task that is cancelled leaves nothing for the next run.
            waits = asyncio.Event()

            async def endless(_: bf.AsyncSession, db: DataBase) -> None:
                await db.fetch("bob").touch()
                waits.set()
                await asyncio.sleep(SOON)

            task = asyncio.create_task(service.run(endless))
            await waits.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            under_way = 0
            assert await service.run(body) == 0

    with database() as server, Exporter(trader) as exports:
        exports.database([address(server)])
        asyncio.run(main())


def test_the_readme_says_so(
    trader: Trader, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    text = (ROOT / "veneers" / "python" / "README.md").read_text()
    code = block(text, "service").replace("from bifrost_stubs", "from database.bifrost_stubs")
    with database() as server, Exporter(trader) as exports:
        exports.database([address(server)], "region=eu&store=one&load=0.5")
        monkeypatch.setenv("BIFROST_TRADER", trader.address)
        exec(compile(code, "README.md", "exec"), {"__name__": "readme"})
    said = capsys.readouterr().out.splitlines()
    assert said == [f"the users of {address(server)} ['ann', 'bob', 'eve']", "0", "1"]
    for name, value in (
        ("TRADERS_MAX", importing.TRADERS_MAX),
        ("ATTEMPTS_MAX", importing.ATTEMPTS_MAX),
        ("RUNS_MAX", importing.RUNS_MAX),
        ("KNOWN_MAX", importing.KNOWN_MAX),
    ):
        assert f"`importing.{name}` = {value} " in text


def test_a_closed_service_can_be_used_again(trader: Trader) -> None:
    with database() as server, Exporter(trader) as exports:
        exports.database([address(server)])
        with bf.Service(DataBase, trader.url(), timeout=5.0) as one:
            assert one.server is None
            assert one.run(lambda _, db: db.fetch("bob").visits().claim()) == 0
            assert one.server is not None
            one.close()
            assert one.server is None
            assert one.run(lambda _, db: db.fetch("bob").visits().claim()) == 0
