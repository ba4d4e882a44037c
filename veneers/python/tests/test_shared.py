"""The cases of ``cases/sessions.yaml``: several sessions at one server."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest
from servers import CONFORMANCE, Server

import bifrost_veneer as bf

PROGRAM = CONFORMANCE.parent / "hermitage.theta"


class Seat:
    """A session, with the table and its rows."""

    def __init__(self, session: Any) -> None:
        self.s = session
        self.t = self.s.lookup("table", self.s.stubs.Table)
        self.one, self.two = self.t.row(1), self.t.row(2)
        self.s.abort().claim()

    def commit(self) -> None:
        self.s.commit().claim()

    def conflicts(self) -> None:
        assert refusal(self.s.commit()) == "Conflict"

    def values(self) -> tuple[int, int]:
        one, two = self.one.value(), self.two.value()
        return one.claim(), two.claim()


def refusal(promise: Any) -> str:
    """The name of the error with which a claim is refused."""
    with pytest.raises(bf.Refused) as caught:
        promise.claim()
    return caught.value.name


@contextmanager
def seats(count: int) -> Iterator[list[Seat]]:
    """So many sessions at a server of their own."""
    with Server(PROGRAM) as server, ExitStack() as stack:
        yield [Seat(stack.enter_context(bf.connect(server.url))) for _ in range(count)]


def test_g0_write_cycles() -> None:
    with seats(2) as (a, b):
        a.one.put(11)
        a.s.flush()
        b.one.put(12)
        b.s.flush()
        a.two.put(21)
        a.commit()
        b.two.put(22)
        b.conflicts()
        assert b.values() == (11, 21)


def test_g1a_aborted_reads() -> None:
    with seats(2) as (a, b):
        a.one.put(101)
        a.s.flush()
        assert b.one.value().claim() == 10
        a.s.abort().claim()
        assert b.one.value().claim() == 10
        b.commit()


def test_g1b_intermediate_reads() -> None:
    with seats(2) as (a, b):
        a.one.put(101)
        a.s.flush()
        assert b.one.value().claim() == 10
        a.one.put(11)
        a.commit()
        assert b.one.value().claim() == 10
        b.conflicts()
        assert b.one.value().claim() == 11


def test_g1c_circular_information_flow() -> None:
    with seats(2) as (a, b):
        a.one.put(11)
        a.s.flush()
        b.two.put(22)
        b.s.flush()
        assert a.two.value().claim() == 20
        assert b.one.value().claim() == 10
        a.commit()
        b.conflicts()
        assert b.values() == (11, 20)


def test_otv_observed_transaction_vanishes() -> None:
    with seats(3) as (a, b, c):
        a.one.put(11)
        a.two.put(19)
        a.s.flush()
        b.one.put(12)
        b.s.flush()
        a.commit()
        assert c.one.value().claim() == 11
        b.two.put(18)
        b.conflicts()
        assert c.two.value().claim() == 19
        assert c.values() == (11, 19)
        c.commit()


def test_pmp_predicate_many_preceders() -> None:
    with seats(2) as (a, b):
        assert a.t.with_value(30).claim() == 0
        b.t.insert(3, 30)
        b.commit()
        assert a.t.divisible(3).claim() == 0
        a.conflicts()
        assert a.t.divisible(3).claim() == 1
        a.commit()


def test_pmp_with_changes() -> None:
    with seats(2) as (a, b):

        def remove() -> None:
            with b.s.foreach(b.t.rows()) as row, b.s.if_(row.value() == 20):
                b.t.remove(row.id())

        with a.s.foreach(a.t.rows()) as row:
            row.add(10)
        a.s.flush()
        remove()
        b.s.flush()
        a.commit()
        b.conflicts()
        remove()
        b.commit()
        assert b.t.total().claim() == 30


def test_p4_lost_update() -> None:
    with seats(2) as (a, b):
        first, second = a.one.value(), b.one.value()
        assert (first.claim(), second.claim()) == (10, 10)
        a.one.put(first + 1)
        a.s.commit().claim()
        b.one.put(second + 1)
        with pytest.raises(bf.Conflict):
            b.s.commit().claim()
        # The same again, with the value that is there now.
        b.one.put(b.one.value() + 1)
        b.s.commit().claim()
        assert b.one.value().claim() == 12


def test_g_single_read_skew() -> None:
    with seats(2) as (a, b):
        assert a.one.value().claim() == 10
        b.one.put(12)
        b.two.put(18)
        b.commit()
        assert a.two.value().claim() == 20
        a.two.put(0)
        a.conflicts()
        assert a.values() == (12, 18)
        a.commit()


def test_g2_item_write_skew() -> None:
    with seats(2) as (a, b):
        assert a.values() == b.values() == (10, 20)
        a.one.put(11)
        a.s.flush()
        b.two.put(21)
        b.s.flush()
        a.commit()
        b.conflicts()
        assert b.t.total().claim() == 31


def test_g2_anti_dependency_cycles() -> None:
    with seats(2) as (a, b):
        assert [seat.t.divisible(3).claim() for seat in (a, b)] == [0, 0]
        a.t.insert(3, 30)
        a.s.flush()
        b.t.insert(4, 42)
        b.s.flush()
        a.commit()
        b.conflicts()
        with b.s.if_(b.t.divisible(3) == 0):
            b.t.insert(4, 42)
        b.commit()
        assert b.t.divisible(3).claim() == 1


def test_g2_two_edges() -> None:
    with seats(3) as (a, b, c):
        assert a.t.total().claim() == 30
        b.two.add(5)
        b.commit()
        assert c.t.total().claim() == 35
        c.commit()
        a.one.put(0)
        a.conflicts()
        assert a.t.total().claim() == 35


def test_changes_are_seen_after_the_commit() -> None:
    with seats(2) as (a, b):
        three = a.t.insert(3, 30)
        a.s.flush()
        with pytest.raises(bf.Signal) as caught:
            b.s.resolve(b.t.row(3))
        assert caught.value.signal == "not_found"
        assert b.t.total().claim() == 30
        b.commit()
        a.commit()
        same = b.t.row(3)
        assert b.t.total().claim() == 60
        same.add(1)
        b.commit()
        assert three.value().claim() == 31


def test_changes_of_different_objects_do_not_conflict() -> None:
    with Server(PROGRAM) as server, bf.connect(server.url) as a, bf.connect(server.url) as b:
        sessions: list[Any] = [a, b]
        rows = [s.lookup("table", s.stubs.Table).row(i + 1) for i, s in enumerate(sessions)]
        for s in sessions:
            s.abort().claim()
        for s, row in zip(sessions, rows, strict=True):
            row.add(1)
            s.flush()
        for s in sessions:
            s.commit().claim()
        assert sessions[0].lookup("table", sessions[0].stubs.Table).total().claim() == 32


def test_commands_behind_a_conflict_are_not_reached() -> None:
    with seats(2) as (a, b):
        assert b.one.value().claim() == 10
        a.one.add(1)
        a.commit()
        b.one.add(1)
        done = b.s.commit()
        b.one.add(1)
        value = b.one.value()
        assert refusal(done) == "Conflict"
        # The failure is that of the commit, with what followed from it.
        with pytest.raises(bf.Conflict) as caught:
            value.claim()
        assert type(caught.value.failure).__name__ == "NotReached"
        assert b.one.value().claim() == 11


def test_a_conflict_undoes_objects() -> None:
    with seats(2) as (a, b):
        assert a.t.total().claim() == 30
        three = a.t.insert(3, 1)
        a.s.flush()
        b.t.insert(3, 2)
        b.commit()
        a.conflicts()
        assert refusal(three.value()) == "NoSuchHandle"
        assert a.t.row(3).value().claim() == 2
        a.commit()


def test_conflicts_are_run_again_by_the_server() -> None:
    def work(url: str) -> None:
        with bf.connect(url) as session:
            s, t = session, Seat(session).t

            def add() -> None:
                with s.foreach(s.value(1).to(1000)), s.foreach(t.rows()) as row:
                    row.add(1)

            s.transaction(add, tries=30)

    with Server(PROGRAM) as server:
        threads = [threading.Thread(target=work, args=(server.url,)) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        with bf.connect(server.url) as s:
            assert Seat(s).t.total().claim() == 6030


def test_a_wait_is_ended_by_a_change() -> None:
    with seats(2) as (a, b):
        assert a.one.value().claim() == 10
        changed = a.s.wait(60)
        after, done = a.one.value(), a.s.commit()
        a.s.send_batch()
        b.one.put(11)
        b.s.abort().claim()
        b.one.put(12)
        b.s.commit().claim()
        assert (changed.claim(), after.claim()) == (True, 12)
        done.claim()


def test_a_wait_misses_no_change() -> None:
    with seats(2) as (a, b):
        assert a.one.value().claim() == 10
        b.two.put(21)
        b.commit()
        assert a.s.wait(0.01).claim() is False
        b.one.put(11)
        b.commit()
        assert a.s.wait(60).claim() is True
        assert a.one.value().claim() == 11


def test_a_live_batch_is_run_again() -> None:
    with seats(2) as (a, b):
        before = a.s.counters.crossings
        views = iter(a.s.live(lambda: a.s.collect(a.t.rows(), lambda r: (r.id(), r.value()))))
        assert next(views) == [(1, 10), (2, 20)]
        b.two.put(22)
        b.s.commit().claim()
        assert next(views) == [(1, 10), (2, 22)]
        b.t.insert(3, 30)
        b.t.remove(1)
        b.s.commit().claim()
        assert next(views) == [(2, 22), (3, 30)]
        assert a.s.counters.crossings == before + 3
