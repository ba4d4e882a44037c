"""Sessions and transactions: what is told, what is lost, and how sessions end."""

from __future__ import annotations

import gc
import os
import resource
import signal
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from conformance.bifrost_stubs import Probe
from conformance.bifrost_stubs import connect as connect_probe
from database.bifrost_stubs import INTERFACE, DataBase, DataElem, NotFound, connect
from servers import CONFORMANCE, EXAMPLES, Server

import bifrost_veneer as bf
from bifrost_veneer import native
from bifrost_veneer.generated import Stubs
from bifrost_veneer.io.address import AddressError, parse_address

DATABASE = EXAMPLES / "database" / "database.theta"
OTHER = "belongs to another session"
SCOPE = "inside a structure that has ended"


@pytest.fixture
def server() -> Iterator[Server]:
    with Server(DATABASE, "--store", "memory:") as server:
        yield server


def open_database(server: Server) -> tuple[bf.Session, DataBase]:
    session = connect(server.url)
    return session, session.lookup("database", DataBase)


def visits(server: Server, name: str) -> int:
    """The visits that another session sees."""
    with connect(server.url) as s:
        return s.lookup("database", DataBase).fetch(name).visits().claim()


def leaked(s: bf.Session, db: DataBase) -> DataElem:
    """A stub that was made inside a structure, and is used behind it."""
    with s.foreach(db.users()) as user:
        pass
    return user


def names(error: bf.Unseen, *parts: str) -> None:
    """Asserts that an error names exactly these failures, in this order."""
    shown = [" ".join([str(one), *getattr(one, "__notes__", [])]) for one in error.exceptions]
    assert len(shown) == len(parts), shown
    for text, part in zip(shown, parts, strict=True):
        assert part in text


# Failures that were told.


def test_a_commit_refuses_what_was_not_sent_and_names_all_of_it(server: Server) -> None:
    other, others = open_database(server)
    stranger = others.fetch("ann")
    other.flush()
    s, db = open_database(server)
    bob = db.fetch("bob")
    bob.touch()
    wrong = stranger.name()
    db.fetch(wrong)
    leaked(s, db).touch()
    with s.if_(stranger.visits() > 0):
        bob.touch()
    kept = db.fetch(wrong)
    done = s.commit()
    behind = bob.visits()
    with pytest.raises(bf.Unseen) as unseen:
        done.claim()
    assert unseen.value.call is not None
    assert unseen.value.call.name == "commit"
    assert "test_sessions.py" in str(unseen.value)
    names(unseen.value, OTHER, SCOPE, "if at", OTHER)
    # It is aborted, and the rest of the batch was not run.
    with pytest.raises(bf.Unseen):
        behind.claim()
    assert visits(server, "bob") == 0
    # Each was told once: the next transaction commits.
    with pytest.raises(bf.Misuse, match=OTHER):
        s.resolve(kept)
    s.flush()
    bob.touch()
    s.commit().claim()
    assert visits(server, "bob") == 1
    s.close()
    other.close()


def test_a_flush_refuses_what_was_not_sent(server: Server) -> None:
    other, others = open_database(server)
    name = others.fetch("ann").name()
    s, db = open_database(server)
    # Also where a stub is left that says the same.
    kept = db.fetch(name)
    leaked(s, db).touch()
    s.break_()
    with pytest.raises(bf.Unseen) as unseen:
        s.flush()
    names(unseen.value, OTHER, SCOPE, "break at")
    s.flush()
    with pytest.raises(bf.Misuse):
        s.resolve(kept)
    other.close()
    # The end of a session is a flush.
    leaked(s, db).touch()
    with pytest.raises(bf.Unseen) as unseen:
        s.close()
    names(unseen.value, SCOPE)
    assert s.is_closed


def test_a_shipped_transaction_refuses_what_was_not_sent(server: Server) -> None:
    other, others = open_database(server)
    name = others.fetch("ann").name()
    s, db = open_database(server)

    def body() -> None:
        db.fetch("bob").touch()
        db.fetch(name)
        leaked(s, db).touch()
        with s.foreach(db.users()) as user:
            user.touch()
            with s.if_(name == "ann"):
                pass
        # Being looked at does not help: nothing of the batch has run.
        assert len(s.exceptions()) == 3

    with pytest.raises(bf.Unseen) as unseen:
        s.transaction(body)
    names(unseen.value, OTHER, SCOPE, "foreach at")
    assert visits(server, "bob") == 0
    s.transaction(lambda: db.fetch("bob").touch())
    assert visits(server, "bob") == 1

    # Failures at the server are named as well.
    def failing() -> None:
        db.fetch("bob").touch()
        db.fetch("zoe").touch()

    with pytest.raises(bf.Unseen) as unseen:
        s.transaction(failing)
    names(unseen.value, "DataBase.fetch at")
    s.transaction(lambda: db.fetch("bob").touch())
    assert visits(server, "bob") == 2
    s.close()
    other.close()


def test_a_method_that_the_server_does_not_have_is_told(tmp_path: Path) -> None:
    source = DATABASE.read_text().split("% `bifrost run")[0]
    program = tmp_path / "database.theta"
    program.write_text(source.replace("  touch ()\n  % Counts a visit.\n", "", 1))
    with Server(program, "--store", "memory:") as server:
        s, db = open_database(server)
        db.new_user("fay")
        db.fetch("bob").touch()
        with pytest.raises(bf.Unseen) as unseen:
            s.commit().claim()
        assert isinstance(unseen.value.exceptions[0], bf.Missing)
        names(unseen.value, "DataElem.touch with the heading of the stub")
        # In a structure nothing of it is sent, so the cell holds its first value, and a claim says
        # so.
        total = s.cell(0)
        with s.foreach(db.users()) as user:
            user.touch()
            total.put(total.get() + 1)
        value = total.get()
        with pytest.raises(bf.Unseen):
            value.claim()
        assert value.claim() == 0, "told once"
        with pytest.raises(NotFound):
            db.fetch("fay").visits().claim()
        s.close()


def test_a_told_failure_does_not_prevent_a_commit(server: Server) -> None:
    s, db = open_database(server)
    with pytest.raises(NotFound):
        db.fetch("zoe").name().claim()
    db.fetch("bob").touch()
    s.commit().claim()
    assert visits(server, "bob") == 1
    # One that was lost does; after it was told by the list, it does not.
    db.fetch("zoe").touch()
    with pytest.raises(bf.Unseen):
        s.commit().claim()
    db.fetch("zoe").touch()
    with pytest.raises(bf.Unseen):
        s.flush()
    assert [type(error) for error in s.exceptions()].count(NotFound) >= 1
    db.fetch("bob").touch()
    s.commit().claim()
    assert visits(server, "bob") == 2
    s.close()


# Transactions.


def test_conflicts_are_run_again_by_the_server(server: Server) -> None:
    threads, rounds = 4, 10

    def work() -> None:
        with connect(server.url) as s:
            db = s.lookup("database", DataBase)
            for _ in range(rounds):
                s.transaction(lambda: db.fetch("bob").touch())

    all_ = [threading.Thread(target=work) for _ in range(threads)]
    for thread in all_:
        thread.start()
    for thread in all_:
        thread.join()
    assert visits(server, "bob") == threads * rounds


def test_a_named_batch_is_done_once(server: Server) -> None:
    name = bf.BatchName.new()
    for _ in range(3):
        with connect(server.url) as s:
            db = s.lookup("database", DataBase)

            def body(db: DataBase = db) -> bf.Int:
                bob = db.fetch("bob")
                bob.touch()
                return bob.visits()

            assert s.transaction(body, name=name).claim() == 1
    with connect(server.url) as s:
        db = s.lookup("database", DataBase)
        assert s.transaction(lambda: body(db), name=name.next()).claim() == 2


def test_nothing_is_claimed_in_a_transaction(server: Server) -> None:
    s, db = open_database(server)

    def body() -> None:
        db.fetch("bob").touch()
        with pytest.raises(bf.Misuse):
            db.fetch("bob").visits().claim()

    with pytest.raises(bf.Unseen):
        s.transaction(body)

    def raising() -> None:
        db.fetch("bob").touch()
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        s.transaction(raising)
    assert visits(server, "bob") == 0
    assert s.transaction(lambda: db.fetch("bob").visits()).claim() == 0
    s.close()


def test_a_live_view_misses_nothing(server: Server) -> None:
    s, db = open_database(server)
    seen: list[Any] = []
    ready = threading.Event()

    def others() -> None:
        with connect(server.url) as mine:
            users = mine.lookup("database", DataBase)
            for _ in range(3):
                ready.wait(10)
                ready.clear()
                users.fetch("bob").touch()
                mine.commit().claim()

    thread = threading.Thread(target=others)
    thread.start()
    for rows in s.live(lambda: s.collect(db.users(), lambda user: (user.name(), user.visits()))):
        seen.append(dict(rows)["bob"])
        if seen[-1] == 3:
            break
        ready.set()
    thread.join()
    assert seen == [0, 1, 2, 3]
    s.close()


def test_batches_overlap(server: Server) -> None:
    s, db = open_database(server)
    bob = db.fetch("bob")
    s.send_batch()
    bob.touch()
    s.send_batch()
    count = bob.visits()
    s.send_batch()
    assert count.claim() == 1
    assert s.counters.crossings == 3
    zoe = db.fetch("zoe")
    s.send_batch()
    late = zoe.name()
    with pytest.raises(NotFound):
        late.claim()
    s.close()


# The end of sessions.


def test_a_killed_server_is_told_at_once(server: Server) -> None:
    s, db = open_database(server)
    bob = db.fetch("bob")
    bob.visits().claim()
    server.kill()
    begin = time.monotonic()
    with pytest.raises(bf.Closed) as closed:
        bob.visits().claim()
    assert time.monotonic() - begin < 1
    assert isinstance(closed.value, ConnectionError)
    assert s.is_closed
    # All that is left says so, too.
    for work in (s.flush, bob.visits().claim, s.commit().claim, s.cell(0).get().claim):
        with pytest.raises(bf.Closed):
            work()
    s.close()


class Cut:
    """A way to a server that can be cut, or go silent."""

    def __init__(self, server: Server, after: int) -> None:
        self.path = str(server.folder / "cut")
        self._to = server.url.removeprefix("unix://")
        self._after = after
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(self.path)
        self._listener.listen()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        client, _ = self._listener.accept()
        with client, socket.socket(socket.AF_UNIX) as there:
            there.connect(self._to)
            threading.Thread(target=self._pass, args=(client, there), daemon=True).start()
            left = self._after
            while left > 0 and (data := there.recv(left)):
                client.sendall(data)
                left -= len(data)
            client.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    @staticmethod
    def _pass(client: socket.socket, there: socket.socket) -> None:
        try:
            while data := client.recv(4096):
                there.sendall(data)
        except OSError:
            pass


def test_a_cut_connection_is_told_at_once(server: Server) -> None:
    with connect(server.url) as s:
        s.lookup("database", DataBase).fetch("bob").visits().claim()
    for after in (100, 460, 500, 530):
        cut = Cut(server, after)
        begin = time.monotonic()
        with pytest.raises((bf.Closed, bf.ConnectError)):
            s = connect(f"unix://{cut.path}")
            db = s.lookup("database", DataBase)
            while True:
                db.fetch("bob").visits().claim()
        assert time.monotonic() - begin < 1
        os.unlink(cut.path)


def test_an_answer_has_a_time_limit() -> None:
    with Server(CONFORMANCE, "--set", "limits.batch_time_ms_max=60000") as server:
        s = connect_probe(server.url, timeout=0.3)
        probe = s.lookup("probe", Probe)
        probe.same_int(1).claim()
        begin = time.monotonic()
        with pytest.raises(bf.Closed, match="in time"):
            probe.endless().claim()
        assert time.monotonic() - begin < 1
        server.kill()


def test_a_wrong_token_is_told_at_once() -> None:
    arguments = ("--listen", "tcp://127.0.0.1:0", "--token", "right")
    with Server(DATABASE, *arguments) as server:
        url = server.at("tcp")
        begin = time.monotonic()
        for token in ({}, {"token": "wrong"}):
            with pytest.raises(bf.BadToken) as bad:
                connect(url, **token)  # type: ignore[arg-type]
            assert bad.value.number == 38
        assert time.monotonic() - begin < 1
        with connect(url, token="right") as s:
            s.lookup("database", DataBase).fetch("bob").visits().claim()


def test_no_server_is_told_at_once(tmp_path: Path) -> None:
    for url, text in (
        (f"unix://{tmp_path}/nothing", "no connection"),
        ("tcp://127.0.0.1:1", "no connection"),
        ("tls://127.0.0.1:1", "no connection"),
        ("ws://127.0.0.1:1/x", "no connection"),
        (
            "http://127.0.0.1",
            "is not a transport.* or `trader://host/Service` for a server that traders",
        ),
        ("nothing", "add a scheme.* or `trader://host/Service` for a server that traders know"),
    ):
        with pytest.raises(bf.ConnectError, match=text):
            connect(url)


def test_tls_servers_are_checked() -> None:
    arguments = (
        "--listen",
        "tls://127.0.0.1:0",
        "--listen",
        "wss://127.0.0.1:0",
        "--anonymous-loopback",
    )
    with Server(DATABASE, *arguments) as server:
        for scheme in ("tls", "wss"):
            url = server.at(scheme)
            address, _, pin = url.partition("#")
            with connect(url) as s:
                s.lookup("database", DataBase).fetch("bob").visits().claim()
            with pytest.raises(bf.ConnectError):
                connect(address)
            other = pin[:-10] + ("A" * 9 if pin[-2] != "A" else "B" * 9) + "A"
            with pytest.raises(bf.ConnectError, match="another key"):
                connect(f"{address}#{other}")
            with pytest.raises(bf.ConnectError, match="trusts this key alone"):
                connect(url, authorities="/etc/hosts")


def test_another_kind_of_server_is_none(tmp_path: Path) -> None:
    for answer in (b"HTTP/1.1 200 OK\r\n\r\n", b"", b"\xc0" + b"\0" * 7 + b"\xff" * 8):
        listener = socket.socket()
        listener.bind(("127.0.0.1", 0))
        listener.listen()

        def serve(listener: socket.socket = listener, answer: bytes = answer) -> None:
            peer, _ = listener.accept()
            peer.recv(4096)
            peer.sendall(answer)
            peer.close()

        for scheme in ("tcp", "ws"):
            thread = threading.Thread(target=serve)
            thread.start()
            with pytest.raises(bf.ConnectError):
                connect(f"{scheme}://127.0.0.1:{listener.getsockname()[1]}", timeout=2.0)
            thread.join()
        listener.close()


def test_addresses() -> None:
    for text in (
        "unix:///a/b",
        "tcp://host:1",
        "tcp://[::1]:7447",
        "ws://host:80/",
        "wss://host:443/a/b",
    ):
        assert str(parse_address(text)) == text
    pin = "#sha256-tTl2qXIwWigR3YLgkbIO1HBIKBLSVHkASjaLDEn1nu0"
    assert str(parse_address(f"tls://h:1{pin}")) == f"tls://h:1{pin}"
    assert parse_address("ws://host").port == 80
    for text in (
        "x",
        "unix://a",
        "unix:///a/",
        "tcp://host",
        "tcp://::1:7",
        "tcp://h:65536",
        "tcp://:1",
    ):
        with pytest.raises(AddressError):
            parse_address(text)
    for text in (
        "tls://h:1#sha256-abc",
        "tls://h:1#md5",
        "tcp://h:1x",
        "ws://h/a b",
        *([] if native.module else ["shm:///a", "quic://h:1"]),
        "tcp://[::1",
    ):
        with pytest.raises(AddressError):
            parse_address(text)


def test_an_interruption_ends_a_blocked_claim() -> None:
    with Server(CONFORMANCE, "--set", "limits.batch_time_ms_max=60000") as server:
        s = connect_probe(server.url)
        probe = s.lookup("probe", Probe)
        probe.same_int(1).claim()
        timer = threading.Timer(0.2, lambda: os.kill(os.getpid(), signal.SIGINT))
        timer.start()
        begin = time.monotonic()
        with pytest.raises(KeyboardInterrupt):
            probe.endless().claim()
        assert time.monotonic() - begin < 5
        timer.join()
        assert s.is_closed
        with pytest.raises(bf.Closed, match="interrupted"):
            probe.same_int(1).claim()
        server.kill()


def test_an_interrupted_call_leaves_nothing(server: Server) -> None:
    # A call that the native library records is not interrupted.
    s = connect(server.url, native=False)
    db = s.lookup("database", DataBase)
    bob = db.fetch("bob")
    bob.touch()

    class Interrupting(list[Any]):
        def append(self, item: Any) -> None:
            raise KeyboardInterrupt

    before, infos = s.explain(), s.core.infos
    s.core.infos = Interrupting(infos)
    with pytest.raises(KeyboardInterrupt):
        bob.touch()
    s.core.infos = infos
    assert s.explain() == before
    assert bob.visits().claim() == 1
    s.close()


def test_a_session_belongs_to_its_thread(server: Server) -> None:
    s, db = open_database(server)
    found: list[BaseException] = []

    def work() -> None:
        try:
            db.fetch("bob").visits().claim()
        except RuntimeError as error:
            found.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert "belongs to the thread" in str(found[0])
    s.close()


def test_a_session_that_is_left_is_noted(server: Server) -> None:
    s, db = open_database(server)
    with pytest.warns(ResourceWarning, match="not closed"):  # noqa: PT031
        del s, db
        gc.collect()


def test_stubs_of_another_program_are_refused(server: Server) -> None:
    s, _ = open_database(server)
    wrong = s.lookup("database", Probe)
    with pytest.raises(bf.Misuse, match="another interface"):
        s.resolve(wrong)
    s.close()
    with connect_probe(server.url) as other:
        probe = other.lookup("database", Probe)
        with pytest.raises(bf.Missing):
            other.resolve(probe)


def test_stubs_that_were_tampered_with_harm_nothing(server: Server) -> None:
    stubs = Stubs(bytes(32), lambda: "[", basic=INTERFACE.basic, operators=INTERFACE.operators)
    from bifrost_veneer import generated

    with pytest.raises(bf.ConnectError):
        generated.connect(stubs, server.url)


def test_positions_name_the_line_of_the_program(server: Server) -> None:
    s, db = open_database(server)
    zoe = db.fetch("zoe")
    zoe.touch()
    with pytest.raises(NotFound) as caught:
        s.resolve(zoe)
    assert caught.value.call is not None
    place = caught.value.call.place
    assert isinstance(place, bf.SourcePlace)
    assert place.file == __file__
    assert "zoe = db.fetch" in place.text
    s.clear_exceptions()
    s.close()


# Resources.


def test_a_million_dropped_stubs_leave_nothing() -> None:
    with (
        Server(CONFORMANCE, "--set", "limits.handles_max=8") as server,
        connect_probe(server.url) as s,
    ):
        probe = s.lookup("probe", Probe)
        s.flush()

        def some(count: int) -> None:
            for _ in range(count):
                probe.fresh()
            s.flush()

        some(20_000)
        gc.collect()
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        for _ in range(49):
            some(20_000)
        for _ in range(1000):
            probe.fresh().name().claim()
        grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
        assert grown < 4096, f"{grown} KiB more"
        assert len(s.core.handles) <= 2
        assert s.counters.calls > 1_000_000


def test_failures_without_end_are_bounded(server: Server) -> None:
    s, db = open_database(server)
    kept: Any = None
    for _ in range(6000):
        kept = db.fetch("zoe")
    assert kept is not None
    with pytest.raises((bf.Unseen, NotFound)):
        s.flush()
        s.resolve(kept)
    assert len(s.exceptions()) <= 1000
    assert s.exceptions_omitted > 0
    s.close()


def test_counts_are_not_needed(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BIFROST_COUNTS", "0")
    s, db = open_database(server)
    assert not s.core.counts
    dropped = db.fetch("ann")
    kept = db.fetch("bob")
    kept.touch()
    dropped.release()
    s.flush()
    assert s.is_same(kept, kept)
    with pytest.raises(bf.Misuse):
        dropped.name().claim()
    assert kept.visits().claim() == 1
    total = s.cell(0)
    with s.foreach(db.users()) as user:
        total.put(total.get() + user.visits())
    assert total.get().claim() == 1
    s.clear_exceptions()
    s.commit().claim()
    s.close()
