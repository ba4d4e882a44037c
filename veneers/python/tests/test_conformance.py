"""The veneer against a server in another process: what the conformance program offers, in batches.

Each case says what comes back, and how many crossings it takes; over each transport.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from typing import Any

import pytest
from conformance.bifrost_stubs import (
    Counter,
    Everything,
    Item,
    NotFound,
    Odd,
    Probe,
    Third,
    connect,
    squares,
)
from conftest import Client

import bifrost_veneer as bf
from bifrost_veneer import Bool, Int, Str

MIN, MAX = -(1 << 63), (1 << 63) - 1


def signal(promise: bf.Promise[Any]) -> str:
    """The name of the signal that a promise ends in."""
    with pytest.raises(bf.Signal) as caught:
        promise.claim()
    return caught.value.signal


def refusal(promise: bf.Promise[Any]) -> str:
    """The name of the error with which a promise's call was refused."""
    with pytest.raises(bf.Refused) as caught:
        promise.claim()
    return caught.value.name


def misuse(work: Callable[[], Any]) -> str:
    """The name of the misuse that a claim or a flush tells."""
    with pytest.raises((bf.Misuse, bf.Unseen)) as caught:
        work()
    error: Any = caught.value
    if isinstance(error, bf.Unseen):
        error = error.exceptions[0]
    assert isinstance(error, bf.Misuse)
    return error.name


def bits(value: float) -> bytes:
    return struct.pack("<d", value)


def test_values_come_back_as_they_went(client: Client) -> None:
    s, p = client.s, client.p
    ints = [(v, p.same_int(v)) for v in (0, 1, -1, MIN, MAX)]
    reals = [(v, p.same_real(v)) for v in (0.0, -0.0, 0.1, 5e-324, 1.7e308, math.inf, math.nan, 1)]
    bools = [(v, p.same_bool(v)) for v in (True, False)]
    chars = [(v, p.same_char(v)) for v in ("\0", "x", "€", "\ud7ff", "\U0010ffff")]
    texts = ("", "a", "1234567", "12345678", 'äß€🦀\0\n"', "long " * 5000)
    strings = [(v, p.same_string(v)) for v in texts]
    datas = (b"", b"\0", b"\xff" * 8, b"\7" * 9, b"\1" * 100_000)
    bytes_ = [(v, p.same_bytes(v)) for v in datas]
    # A value is kept by its stub, and can be a receiver.
    mine, longer = s.value(b"\1\2"), bytes_[1][1].concat(b"\1")
    added = mine.concat(longer)
    null, nothing = p.same_null(None), p.nothing()
    assert client.crossings == 0
    assert [promise.claim() for _, promise in ints] == [v for v, _ in ints]
    assert [bits(promise.claim()) for _, promise in reals] == [bits(v) for v, _ in reals]
    assert [promise.claim() for _, promise in bools] == [v for v, _ in bools]
    assert [promise.claim() for _, promise in chars] == [v for v, _ in chars]
    assert [promise.claim() for _, promise in strings] == [v for v, _ in strings]
    assert [promise.claim() for _, promise in bytes_] == [v for v, _ in bytes_]
    assert added.claim() == b"\1\2\0\1"
    assert added.length().claim() == 4
    null.claim()
    nothing.claim()
    assert client.crossings == 2


def test_results_of_all_shapes(client: Client) -> None:
    p = client.p
    quotient, remainder = p.divide(17, 5)
    item, length = p.item_and_length("grüße")
    name = item.name()
    text = p.all(True, quotient + 1, 0.5, "ß", name + "!", item)
    assert (quotient.claim(), remainder.claim()) == (3, 2)
    assert length.claim() == 5
    assert text.claim() == "true 4 0.5 ß grüße! grüße"
    assert client.crossings == 1
    # A failed call fails all its results.
    quotient, remainder = p.divide(1, 0)
    assert (signal(quotient), signal(remainder)) == ("zero", "zero")
    assert client.crossings == 2


def test_a_subtype_passes_for_its_supertype(client: Client) -> None:
    s, p = client.s, client.p
    counter = s.lookup("counter", Counter)
    by_reference = p.name_of(counter)
    item: Item = counter
    item.rename("other")
    p.add_item(counter)
    by_value = p.name_of(item)
    assert by_reference.claim() == "counter"
    assert by_value.claim() == "other"
    assert client.crossings == 1
    # The server says that an object is what the stub says, or refuses it.
    wrong = s.lookup("probe", Counter)
    assert refusal(wrong.value()) == "WrongType"


def test_records_oneofs_and_anys_are_stubs(client: Client) -> None:
    s, p = client.s, client.p
    t = p.tagged()
    point = t.point(3, 4)
    point.set_x(5)
    labelled = t.labelled(point, "here")
    name, x = labelled.replace_name("there").name(), labelled.at().x()
    same = labelled.at().equal(point)
    number, text, nothing = t.answer(3), t.answer(12), t.answer(0)
    value, wrong = number.value_number(), number.value_text()
    is_text, shown, nil = text.is_text(), text.unparse(), nothing.value_nothing()
    total, none = t.sum(t.found(2)), t.sum(t.found(0))
    other = t.found(0).value_or(point).y()
    cell = s.cell(0)
    with s.foreach(t.answers(4)) as answer:
        cell.put(cell.get() + answer.value_number())
    what = [t.what(t.thing(n)) for n in (0, 7, 12)]
    assert (name.claim(), x.claim()) == ("there", 5)
    assert same.claim()
    assert is_text.claim()
    assert (value.claim(), signal(wrong)) == (3, "wrong_tag")
    assert shown.claim() == '{text: "12"}'
    nil.claim()
    assert (total.claim(), none.claim(), other.claim()) == (4, 0, 4)
    assert cell.get().claim() == 10
    assert [text.claim() for text in what] == ["nil", "7", "{x: 12, y: 12}"]
    assert client.crossings == 2, "one for all of it, and one for the cell"


def test_iterators_of_methods_routines_and_values(client: Client) -> None:
    s, p = client.s, client.p
    out = s.cell("")

    def say(text: Str) -> None:
        out.put(out.get() + text + " ")

    with s.foreach(p.numbers(3)) as i:
        say(i.unparse())
    with s.foreach(p.pairs(2)) as (i, text):
        say(i.unparse() + "=" + text)
    with s.foreach(p.items()) as item:
        say(item.name())
    with s.foreach(squares(s, 3)) as i:
        say(i.unparse())
    with s.foreach(s.value(7).to(8)) as i:
        say(i.unparse())
    with s.foreach(p.numbers(0)) as i:
        say(i.unparse())
    assert out.get().claim() == "1 2 3 1=1 2=2 a b c counter 1 4 9 7 8 "
    assert client.crossings == 1


def test_signals_carry_their_values(client: Client) -> None:
    s, p = client.s, client.p
    everything, fine = p.choose(6), p.choose(4)
    missing = p.item("zoë")
    with pytest.raises(Everything) as caught:
        everything.claim()
    assert caught.value.values == (True, 6, 0.5, "x", "ß")
    with pytest.raises(NotFound) as not_found:
        s.resolve(missing)
    assert not_found.value.values == ("zoë", 4)
    assert not_found.value.signal == "not_found"
    assert fine.claim() == 4
    assert client.crossings == 1


def test_cells_of_everything(client: Client) -> None:
    s, p = client.s, client.p
    cases: list[tuple[type[bf.Promise[Any]], Any, Any]] = [
        (bf.Bool, True, False),
        (bf.Int, 1, MIN),
        (bf.Real, 0.5, -0.0),
        (bf.Char, "x", "\U0010ffff"),
        (bf.Str, "", "äß€🦀"),
        (bf.Null, None, None),
    ]
    for of, one, two in cases:
        cell: bf.Cell[Any, Any] = s.cell(of=of)
        before, empty = cell.full(), cell.get()
        cell.put(one)
        first = cell.get()
        cell.put(two)
        after, second = cell.full(), cell.get()
        assert (before.claim(), after.claim()) == (False, True)
        assert (first.claim(), second.claim()) == (one, two)
        assert signal(empty) == "not_possible"
    assert client.crossings == 6
    item, counter, probe = s.cell(of=Item), s.cell(of=Counter), s.cell(of=Probe)
    probe.put(p)
    counter.put(probe.get().counter())
    item.put(counter.get())
    assert item.get().name().claim() == "counter"
    assert client.crossings == 7
    # A cell outlives its batch.
    item.put(probe.get().item("a"))
    assert item.get().name().claim() == "a"
    assert client.crossings == 8


@pytest.mark.parametrize("limited", [("limits.handles_max=8",)], indirect=True)
def test_what_is_dropped_is_given_back(limited: Client) -> None:
    s, p = limited.s, limited.p
    for _ in range(1000):
        p.fresh()
    s.flush()
    # Together with `p` these are all, again and again, for what is dropped is given back.
    for _ in range(5):
        kept = [p.fresh() for _ in range(7)]
        s.flush()
        for item in kept:
            s.resolve(item)
        del kept, item
        s.flush()
    assert limited.crossings == 11
    # The same object again takes no other one.
    same = [p.counter() for _ in range(100)]
    s.flush()
    for counter in same:
        s.resolve(counter)
    del same, counter
    many = [p.fresh() for _ in range(9)]
    s.flush()
    failed = 0
    for item in many:
        try:
            s.resolve(item)
        except bf.BifrostError:
            failed += 1
    assert failed > 0, "the limit is kept"
    del many, item
    assert p.same_int(1).claim() == 1, "and the session goes on"


def test_the_same_object_is_the_same_handle(client: Client) -> None:
    s, p = client.s, client.p
    a, b, other = p.counter(), p.counter(), p.fresh()
    s.flush()
    c = s.lookup("counter", Counter)
    s.flush()
    assert s.is_same(a, b)
    assert s.is_same(a, c)
    assert not s.is_same(a, other)
    assert not s.is_same(other, p.fresh())
    del a, b
    s.flush()
    assert c.name().claim() == "counter", "it is given back with its last stub only"
    del c
    s.flush()
    assert p.counter().name().claim() == "counter"


def test_structures_nest(client: Client) -> None:
    s, p = client.s, client.p
    expected = ""
    for i in range(1, 6):
        if i == 4:
            break
        j = 0
        while j < 10:
            j += 1
            if j % 2 == 0:
                continue
            if j > i + 3:
                break
            expected += "two " if i == 2 else f"{i}:{j} "
    out = s.cell("")
    with s.foreach(p.numbers(5)) as n:
        with s.if_(n == 4):
            s.break_()
        k = s.cell(0)
        with s.while_(lambda: k.get() < 10):
            k.put(k.get() + 1)
            with s.if_(k.get() % 2 == 0):
                s.continue_()
            with s.if_(k.get() > 3 + n):
                s.break_()
            with s.else_():
                with s.if_(n == 2):
                    out.put(out.get() + "two ")
                with s.else_():
                    out.put(out.get() + n.unparse() + ":" + k.get().unparse() + " ")

    def endless() -> Bool:
        p.endless()
        return p.same_bool(True)

    yes, no = s.value(True), s.value(False)
    logic = [yes.and_(lambda: no), yes.or_(endless), no.and_(endless), no.or_(lambda: yes)]
    assert out.get().claim() == expected
    assert [value.claim() for value in logic] == [False, True, False, True]
    assert client.crossings == 1
    assert s.exceptions() == []
    assert s.exception_group() is None


def test_handlers_get_names_and_values(client: Client) -> None:
    s, p = client.s, client.p
    out = s.cell("")

    def say(text: Str) -> None:
        out.put(out.get() + text + " ")

    with s.foreach(p.numbers(8)) as i:
        with s.except_():
            with s.if_(i == 8):
                p.item("zoe")
            say(p.choose(i).unparse())
        with s.when(Third):
            say(p.same_string("third"))
        with s.when(Odd) as (n,):
            say(n.unparse() + "!")
        with s.when(Everything) as (b, k, r, c, text):
            say(p.all(b, k, r, c, text, p.item("a")))
        with s.others() as name:
            say(name)
    assert out.get().claim() == "1! 2 third 4 5! true 6 0.5 x ß a 7! not_found "
    assert client.crossings == 1
    assert client.history() == [], "what is handled is no exception"
    # What no handler names goes on to the structure around it.
    seen = s.cell(0)
    with s.except_():
        with s.except_():
            p.choose(3)
            seen.put(1)
        with s.when("odd"):
            seen.put(2)
        seen.put(3)
    with s.others():
        seen.put(seen.get() + 10)
    assert seen.get().claim() == 10


def test_exceptions_in_loops_say_the_round(client: Client) -> None:
    s, p = client.s, client.p
    # An exception that nothing handles ends the structure, and the batch goes on behind it.
    cell = s.cell(0)
    with s.foreach(p.numbers(4)) as i:
        cell.put(i)
        p.choose(i + 1)
        p.counter().add(1)
    begun, ended = cell.get(), p.counter().value()
    # No stub of the loop is left, so the claim behind it tells, once.
    with pytest.raises(bf.Unseen) as unseen:
        begun.claim()
    assert isinstance(unseen.value.exceptions[0], Third)
    assert (begun.claim(), ended.claim()) == (2, 1)
    assert client.history() == [((2,), "third")]
    s.clear_exceptions()
    with s.foreach(p.numbers(4)) as i, s.foreach(p.numbers(2)) as j:
        p.choose(i * i * 2 + (j - 1) * 2)
    with pytest.raises(bf.Unseen) as unseen:
        s.flush()
    assert isinstance(unseen.value.exceptions[0], Third)
    assert client.history() == [((3, 1), "third")]
    shown = str(s.exceptions()[0])
    assert "Probe.choose at " in shown
    assert "test_conformance.py:" in shown
    assert "rounds [3, 1]" in shown
    group = s.exception_group()
    assert group is not None
    assert len(group.exceptions) == 1
    assert client.crossings == 2


def test_what_depends_on_a_failure_says_why(client: Client) -> None:
    p = client.p
    zoe = p.item("zoe")
    name, passed = zoe.name(), p.name_of(zoe)
    further = p.same_string(name).length() + 1
    fine = p.same_int(1)
    for promise, words in ((name, "its receiver failed"), (passed, "its argument 1 failed")):
        with pytest.raises(NotFound) as caught:
            promise.claim()
        assert [note for note in caught.value.__notes__ if words in note], words
    with pytest.raises(NotFound) as caught:
        further.claim()
    assert len(caught.value.__notes__) >= 2
    assert fine.claim() == 1
    assert client.crossings == 1
    # In a later batch the failed stub is the error-handle.
    with pytest.raises(NotFound) as caught:
        zoe.name().claim()
    assert "its receiver failed" in caught.value.__notes__[0]
    assert client.crossings == 2


def test_misuse_is_told_and_the_session_goes_on(client: Client) -> None:
    s, p = client.s, client.p
    # A claim where the batch cannot end.
    before = p.same_int(1)
    total = s.cell(0)
    with s.foreach(p.numbers(3)) as i:
        assert misuse(before.claim) == "OpenStructure"
        assert misuse(s.flush) == "OpenStructure"
        total.put(total.get() + i)
    assert total.get().claim() == 6, "the structure is not harmed by it"
    assert before.claim() == 1
    assert client.crossings == 1
    # A stub that is used after its structure.
    with s.foreach(p.items()) as item:
        pass
    late = item.name()
    assert misuse(late.claim) == "OutOfScope"
    fine = p.same_int(2)
    assert fine.claim() == 2
    # Outside of loops and procedures.
    s.break_()
    assert misuse(s.flush) == "NoLoop"
    s.flush()
    with s.else_():
        p.nothing()
    assert misuse(s.flush) == "NotAdjacent"
    # A block that raises: its structure is not sent.
    count = s.cell(0)
    with pytest.raises(ZeroDivisionError), s.foreach(p.numbers(3)) as i:
        count.put(i)
        raise ZeroDivisionError
    value = count.get()
    assert misuse(value.claim) == "Abandoned"
    assert value.claim() == 0


def test_procedures_are_kept_by_the_session(client: Client) -> None:
    s, p = client.s, client.p
    types = (Str, Int, Item)

    def body(_: Any, prefix: Str, n: Int, item: Item) -> Str:
        with s.if_(n < 0):
            s.return_("negative")
        return prefix + n.unparse() + item.name()

    label = s.procedure("label", types, Str, body)
    one, two = label("x", 1, p.item("a")), label(p.same_string("y"), -2, p.counter())
    assert (one.claim(), two.claim()) == ("x1a", "negative")
    assert client.crossings == 1
    # By name, in a later batch and in a loop.
    assert s.find_procedure("label", (Int,), Int) is None, "other types"
    found = s.find_procedure("label", types, Str)
    assert found is not None
    out = s.cell("")
    with s.foreach(p.numbers(3)) as i:
        out.put(out.get() + found(":", i, p.item("b")))
    assert out.get().claim() == ":1b:2b:3b"
    assert client.crossings == 2
    # Recursion.

    def product(this: bf.Procedure[Int], n: Int) -> Int:
        with s.if_(n <= 1):
            s.return_(1)
        return this(n - 1) * n

    factorial = s.procedure("factorial", (Int,), Int, product)
    small, large = factorial(10), factorial(21)
    assert small.claim() == 3_628_800
    assert signal(large) == "overflow"
    assert client.crossings == 3
    # Without result, and without parameters.
    touch = s.procedure("touch", (), None, lambda _: p.counter().add(5))
    touch()
    touch().claim()
    assert p.counter().value().claim() == 10


def test_numbers_signal_what_has_no_result(client: Client) -> None:
    s = client.s
    least, most, one = s.value(MIN), s.value(MAX), s.value(1)
    cases = [
        (most + 1, "overflow"),
        (least - 1, "overflow"),
        (most * 2, "overflow"),
        (least // -1, "overflow"),
        (-least, "overflow"),
        (one // 0, "zero"),
        (one % 0, "zero"),
    ]
    for promise, name in cases:
        assert signal(promise) == name
    assert (s.value(1.0) / 0.0).claim() == math.inf
    assert client.crossings == 2


SHORT = ("limits.batch_commands_max=200", "limits.depth_max=4", "limits.frame_bytes_max=65536")


@pytest.mark.parametrize("limited", [SHORT], indirect=True)
def test_what_is_too_long_is_not_sent(limited: Client) -> None:
    s, p = limited.s, limited.p
    s.flush()
    text = p.same_string("x" * 65536)
    assert misuse(text.claim) == "TooLong"
    count = s.cell(0)
    s.flush()
    before = limited.crossings
    with s.foreach(p.numbers(1)):
        for _ in range(3000):
            count.put(1)
    assert misuse(s.flush) == "TooLong"
    assert limited.crossings == before, "nothing of it crossed"

    # Deeper than the server wants.
    def nest(depth: int) -> None:
        if depth == 0:
            count.put(2)
            return
        with s.if_(s.value(True)):
            nest(depth - 1)

    nest(5)
    assert misuse(s.flush) == "TooDeep"
    assert count.get().claim() == 0
    nest(4)
    assert count.get().claim() == 2
    # A straight batch goes in parts instead.
    before = limited.crossings
    all_ = [p.same_int(i) for i in range(1000)]
    assert all_[999].claim() == 999
    assert [promise.claim() for promise in all_] == list(range(1000))
    assert 5 <= limited.crossings - before <= 12
    assert len(s.exceptions()) == 3, "one for each of the above"


@pytest.mark.parametrize(
    "limited", [("limits.fuel_max=10000", "limits.batch_time_ms_max=60000")], indirect=True
)
def test_endless_batches_are_ended(limited: Client) -> None:
    s, p = limited.s, limited.p
    with s.while_(lambda: s.value(True) == True):  # noqa: E712
        p.nothing()
    after = p.same_int(1)
    assert refusal(after) == "OutOfFuel", "it was not reached"
    ended = s.exceptions()[-1]
    assert isinstance(ended, bf.Refused)
    assert ended.name == "OutOfFuel"
    assert p.same_int(2).claim() == 2, "the next batch has its own"
    for _ in range(2):
        s.clear_exceptions()
        assert refusal(s.commit()) == "Doomed"
    s.abort().claim()
    s.commit().claim()


LONG = ("limits.fuel_max=1000000000000", "limits.batch_time_ms_max=100")


@pytest.mark.parametrize("limited", [LONG], indirect=True)
def test_batches_have_time(limited: Client) -> None:
    s, p = limited.s, limited.p
    assert refusal(p.endless()) == "TimeLimit"
    count = s.cell(0)
    with s.while_(lambda: count.get() >= 0):
        p.nothing()
    assert refusal(p.same_int(1)) == "TimeLimit"


@pytest.mark.parametrize("limited", [("limits.batch_time_ms_max=60000",)], indirect=True)
def test_calls_nest_to_a_depth(limited: Client) -> None:
    # Calls that are nested too deeply are a failure that Theta can handle: they do not end the
    # batch.
    p = limited.p
    with pytest.raises(bf.Failure) as caught:
        p.depth(100_000_000).claim()
    assert isinstance(caught.value.values[0], str)
    assert caught.value.places, "a client at a unix socket is told the places"
    assert p.depth(100).claim() == 100


def test_messages_name_objects_by_the_calls_that_they_came_from(client: Client) -> None:
    s = client.s
    counter = s.lookup("counter", Counter)
    assert counter.value().claim() == 0
    with connect(client.url) as other:
        other.lookup("counter", Counter).add(5)
        other.commit().claim()
    counter.add(1)
    with pytest.raises(bf.Conflict) as caught:
        s.commit().claim()
    text = str(caught.value)
    assert "another session has changed `Counter` (the result of `lookup` at " in text
    assert "test_conformance.py:" in text


def test_a_table_is_one_crossing(client: Client) -> None:
    s, p = client.s, client.p
    table = s.collect(p.pairs(3), lambda v: (v[0], v[1], v[0] + 1))
    assert client.crossings == 0
    assert table.claim() == [(1, "1", 2), (2, "2", 3), (3, "3", 4)]
    assert client.crossings == 1
    # Objects are stubs, one for each cell, and the values of a row are known.
    p.add_item(p.counter())
    items = s.collect(p.items(), lambda item: (item, item.name(), item.is_(Counter))).claim()
    assert client.crossings == 2
    names = [item.name() for item, _, _ in items]
    assert [again.claim() for again in names] == [name for _, name, _ in items]
    assert client.crossings == 3
    assert [is_counter for _, _, is_counter in items].count(True) == 2
    # A row of one column is its cell.
    assert s.collect(p.numbers(3), lambda n: n * 2).claim() == [2, 4, 6]


def test_rows_come_from_structures_and_procedures(client: Client) -> None:
    s, p = client.s, client.p
    rows = s.rows(Int, Bool)
    rows.push(0, True)
    odd = s.procedure("odd", (Int,), None, lambda _, n: rows.push(n, False))
    with s.foreach(p.numbers(4)) as n:
        with s.if_(n % 2 == 0):
            rows.push(n * 10, True)
        with s.else_():
            odd(n)
    found = rows.claim()
    assert found == [(0, True), (1, False), (20, True), (3, False), (40, True)]
    assert client.crossings == 1
    # The table is gone, and a procedure that adds to it too.
    assert refusal(odd(7)) == "NoSuchProcedure"


def test_a_table_of_an_earlier_batch_takes_no_rows(client: Client) -> None:
    s = client.s
    rows = s.rows(Int)
    rows.push(1)
    assert rows.claim() == [1]
    rows.push(2)
    # Nobody can claim the row, so the next flush tells it.
    assert misuse(s.flush) == "EndedTable"
    assert rows.claim() == [1]


def test_a_row_that_fails_is_told(client: Client) -> None:
    s, p = client.s, client.p
    rows = s.collect(p.numbers(6), lambda n: p.choose(n))
    with pytest.raises(bf.Unseen) as unseen:
        rows.claim()
    assert len(unseen.value.exceptions) == 1
    # Told once, what was there before is there.
    assert rows.claim() == []


def test_a_table_whose_row_raises_is_not_sent(client: Client) -> None:
    s, p = client.s, client.p

    def wrong(n: Int) -> Int:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        s.collect(p.numbers(6), wrong)
    assert misuse(s.flush) == "Abandoned"
    assert s.collect(p.numbers(2), lambda n: n).claim() == [1, 2]


def test_objects_are_seen_as_what_they_are(client: Client) -> None:
    s, p = client.s, client.p
    number = p.tagged().thing(1)
    int_, is_int, is_item = number.as_(Int), number.is_(Int), number.is_(Item)
    counter = p.counter()
    item: Item = counter
    value = item.as_(Counter).value()
    wrong = p.fresh().as_(Counter).value()
    assert client.crossings == 0
    assert int_.claim() == 1
    assert (is_int.claim(), is_item.claim()) == (True, False)
    assert value.claim() == 0
    with pytest.raises(bf.WrongType):
        wrong.claim()
    assert client.crossings == 1
    # In a loop, with a handler.
    p.add_item(counter)
    values = s.rows(Str, Int)
    with s.foreach(p.items()) as item:
        with s.except_():
            values.push(item.name(), item.as_(Counter).value())
        with s.when(bf.WrongType):
            values.push(item.name(), -1)
    assert ("counter", 0) in values.claim()
    assert ("a", -1) in values.claim()
