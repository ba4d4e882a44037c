"""The cases of ``cases/clients.yaml`` in the words of the Python veneer, each under its name."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from conformance.bifrost_stubs import (
    Counter,
    Item,
    Line,
    Probe,
    ShapeCircle,
    ShapeDot,
    ShapeNothing,
    Spot,
    root,
)
from conformance.bifrost_stubs import connect as connect_probe
from database.bifrost_stubs import DataBase, DataElem, NotFound, NotPossible, connect
from servers import CONFORMANCE, Server
from test_conformance import misuse

import bifrost_veneer as bf
from bifrost_veneer import Bool, Int, Str

PROGRAMS = CONFORMANCE.parent


@contextmanager
def people(program: str = "database") -> Iterator[tuple[bf.Session, DataBase]]:
    """A session with a server of the database, and the object of that name."""
    with Server(PROGRAMS / f"{program}.theta") as server, connect(server.url) as s:
        yield s, s.lookup("database", DataBase)


@contextmanager
def probe(*settings: str) -> Iterator[tuple[bf.Session, Probe]]:
    """A session with a server of the conformance program, and its probe."""
    arguments = [part for setting in settings for part in ("--set", setting)]
    with Server(CONFORMANCE, *arguments) as server, connect_probe(server.url) as s:
        yield s, s.lookup("probe", Probe)


def test_a_table_of_rows() -> None:
    with people() as (s, db):
        t = s.rows(DataElem, Str, Int)
        with s.foreach(db.users()) as e:
            e.touch()
            t.push(e, e.name(), e.visits())
        rows = t.claim()
        assert [(name, visits) for _, name, visits in rows] == [("ann", 1), ("bob", 1), ("eve", 1)]
        assert s.counters.crossings == 1
        t.push(db.fetch("ann"), "ann", 1)
        assert misuse(s.flush) == "EndedTable"


def test_a_table_with_a_break() -> None:
    with people() as (s, db):
        t, none = s.rows(Str), s.rows(Int, Bool)
        with s.foreach(db.users()) as e:
            with s.if_(e.name() == "eve"):
                s.break_()
            t.push(e.name())
            with pytest.raises(AttributeError, match=r"no `append`: write `rows\.push\(\.\.\.\)`"):
                t.append(e.name())  # type: ignore[attr-defined]
        assert t.claim() == ["ann", "bob"]
        assert none.claim() == []


def test_a_wide_call() -> None:
    with Server(PROGRAMS / "wide.theta") as server, bf.connect(server.url) as session:
        s: Any = session
        assert s.stubs.wide_sum(s, *range(1, 23)).claim() == 1 + 50 + 2_100 + 22_000


def test_compounds_cross_by_value() -> None:
    with probe() as (s, p):
        v = p.values()
        sums = [v.total([1, 2, 3, 4]), v.total([]), v.nested([[1, 2], [], [3]])]
        far = v.distance(Line("x", Spot(1, 1), Spot(3, 4)))
        areas = [
            v.area(shape) for shape in (ShapeDot(Spot(1, 2)), ShapeCircle(0.5), ShapeNothing())
        ]
        named = [v.named(None), v.named("eve")]
        twice, spot = v.twice([5, 6]).get(), v.shape(3).get()
        assert [total.claim() for total in sums] == [10, 0, 6]
        assert far.claim() == 105
        shown = ["{dot: {x: 1, y: 2}}", "{circle: 0.5}", "{nothing: nil}"]
        assert [area.claim() for area in areas] == shown
        assert [name.claim() for name in named] == ["nobody", "eve"]
        assert twice.claim() == [10, 12]
        assert spot.claim() == ShapeDot(Spot(3, 0))
        assert s.counters.crossings == 1


def test_types_at_run_time() -> None:
    with probe() as (s, p):
        with s.foreach(p.items()) as item, s.if_(item.is_(Counter)):
            item.as_(Counter).add(7)
        seven = p.counter().value()
        a = p.item("a")
        no, yes = a.is_(Counter), p.counter().is_(Item)
        value = a.as_(Counter).value()
        assert (seven.claim(), no.claim(), yes.claim()) == (7, False, True)
        with pytest.raises(bf.WrongType):
            value.claim()


def test_transactions_commit_and_abort() -> None:
    with people() as (s, db):
        e = db.fetch("eve")
        e.touch()
        done = s.commit()
        e.touch()
        two = e.visits()
        undone = s.abort()
        one = e.visits()
        done.claim()
        undone.claim()
        assert (two.claim(), one.claim(), s.counters.crossings) == (2, 1, 1)


def test_a_commit_names_unseen_failures() -> None:
    with people() as (s, db):
        db.fetch("nobody")
        refused = s.commit()
        with pytest.raises(bf.Unseen) as unseen:
            refused.claim()
        assert [type(error) for error in unseen.value.exceptions] == [NotFound]
        with pytest.raises(NotFound):
            s.resolve(db.fetch("nobody"))
        s.commit().claim()


def test_a_batch_is_a_transaction() -> None:
    with people() as (s, db):

        def new_user() -> tuple[DataElem, Int]:
            e = db.new_user("zoe")
            e.touch()
            return e, e.visits()

        e, one = s.transaction(new_user, tries=3)
        assert one.claim() == 1
        with pytest.raises(bf.Unseen) as unseen:
            s.transaction(new_user)
        assert isinstance(unseen.value.exceptions[0], NotPossible)
        assert e.visits().claim() == 1


def test_a_wait_without_changes() -> None:
    with people() as (s, db):
        visits = db.fetch("eve").visits()
        changed = s.wait(0.01)
        assert (visits.claim(), changed.claim()) == (0, False)


def test_actors_answer_and_are_sent_to() -> None:
    with Server(PROGRAMS / "actors.theta") as server, bf.connect(server.url) as session:
        s: Any = session
        adder = s.lookup("adder", s.stubs.Adder)
        one = adder.add(1)
        adder.send.add(10)
        value, wrong = adder.value(), adder.add(-5)
        assert (one.claim(), value.claim()) == (1, 11)
        with pytest.raises(bf.Signal) as caught:
            wrong.claim()
        assert (caught.value.signal, caught.value.values) == ("negative", (-5,))


def test_another_interface_at_the_server() -> None:
    with people("database_other") as (s, db):
        e = db.fetch("eve")
        e.touch()
        assert (e.visits().claim(), e.name().claim()) == (1, "eve")
        before = s.counters.crossings
        after, other = db.new_user("zoe").name(), db.loop_fetch("eve", 1)
        for promise, name in ((after, "DataBase.new_user"), (other, "DataBase.loop_fetch")):
            with pytest.raises(bf.Missing, match=name):
                promise.claim()
        assert s.counters.crossings == before
        s.clear_exceptions()
        with s.foreach(db.users()) as user:
            user.touch()
        with pytest.raises(bf.Unseen) as unseen:
            s.flush()
        assert isinstance(unseen.value.exceptions[0], bf.Missing)


def test_futures_are_mapped_again_live() -> None:
    with probe("limits.futures_max=50") as (s, _):
        total = s.cell(0)
        for _ in range(40):
            total.put(total.get() + 1)
        assert total.get().claim() == 40
        assert s.counters.crossings == 3


def test_many_results_are_mapped_again() -> None:
    with probe() as (s, p):
        items = [p.fresh() for _ in range(16_400)]
        assert s.counters.crossings == 1
        names = [item.name() for item in items]
        assert s.counters.crossings == 2
        assert {name.claim() for name in names} == {"fresh"}
        assert s.counters.crossings == 3
        del items
        s.flush()
        assert p.same_int(1).claim() == 1


def test_commands_are_sent_early() -> None:
    with probe() as (s, p):
        for _ in range(300):
            p.nothing()
        assert p.same_int(1).claim() == 1
        assert (s.counters.crossings, s.counters.calls) == (1, 302)


def test_straight_futures_take_one_crossing() -> None:
    with probe() as (s, p):
        last = p
        for _ in range(300):
            last = last.itself()
        name = last.counter().name()
        assert s.counters.crossings == 0
        assert name.claim() == "counter"
        assert (s.counters.crossings, s.counters.calls) == (1, 303)


def test_a_connection_that_is_cut() -> None:
    with Server(CONFORMANCE) as server:
        s = connect_probe(server.url)
        p = s.lookup("probe", Probe)
        one = p.same_int(1)
        assert one.claim() == 1
        two = p.same_int(2)
        server.kill()
        for late in (two, p.same_int(3)):
            with pytest.raises(bf.Closed):
                late.claim()
        assert one.claim() == 1


def test_a_session_is_left() -> None:
    with Server(PROGRAMS / "database.theta") as server:
        s = connect(server.url)
        db = s.lookup("database", DataBase)
        db.fetch("eve").touch()
        s.commit()
        s.close()
        late = db.fetch("eve").visits()
        with pytest.raises(bf.Closed):
            late.claim()
        with connect(server.url) as again:
            assert again.lookup("database", DataBase).fetch("eve").visits().claim() == 1


def test_and_by_a_cell_live() -> None:
    with probe() as (s, p):
        no = s.value(False)

        def third() -> Bool:
            p.choose(3)
            return s.value(True)

        assert no.and_(third).claim() is False
        assert s.exceptions() == []


def test_names_of_the_root_directory() -> None:
    with probe() as (s, p):
        d = root(s)
        name = d.lookup("counter").as_(Counter).name()
        gone = d.lookup("again")
        names = s.collect(d.names(), lambda name: name)
        refused = d.insert("again", p.counter())
        assert name.claim() == "counter"
        assert names.claim() == ["counter", "probe"]
        with pytest.raises(bf.Signal) as caught:
            s.resolve(gone)
        assert caught.value.signal == "not_found"
        with pytest.raises(bf.Refused) as refusal:
            refused.claim()
        assert refusal.value.name == "NotAllowed"
