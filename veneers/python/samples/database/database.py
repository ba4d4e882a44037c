"""A tour of what a client can batch, with the objects of ``examples/database/database.theta``.

Prints what ``examples/database/rust/src/bin/tour.rs`` prints.
"""

import os

from bifrost_stubs import DataBase, DataElem, NotFound, connect

import bifrost_veneer as bf
from bifrost_veneer import Int, Str


def futures(s: bf.Session, db: DataBase) -> None:
    # Every call returns at once. `carol` is used before anybody knows which object it is.
    carol = db.new_user("carol")
    carol.touch()
    carol.touch()
    # A promise can be an argument: the server puts the value in.
    child = db.new_user(carol.name() + " junior")
    db.loop_fetch(carol.name(), carol.visits())
    name, visits = child.name(), carol.visits()
    print(f"before the first claim: {s.counters.crossings} crossings")
    print(f"{name.claim()} is there; carol has {visits.claim()} visits")
    # One flush kept all promises.
    print(f"after two claims: {s.counters.crossings} crossing")


def structures(s: bf.Session, db: DataBase) -> None:
    # A loop whose state is a cell at the server. The block runs once, here, and records what the
    # server repeats.
    bob = db.fetch("bob")
    rounds = s.cell(0)
    with s.while_(lambda: rounds.get() < 10):
        bob.touch()
        rounds.put(rounds.get() + 1)
    print(f"bob: {bob.visits().claim()} visits after {rounds.get().claim()} rounds")

    # Over an iterator of the server: skip whom nobody visits, and stop after the first with many.
    db.fetch("ann").touch()
    seen = s.cell("")
    with s.foreach(db.users()) as user:
        with s.if_(user.visits() == 0):
            s.continue_()
        seen.put(seen.get() + user.name() + " ")
        with s.if_(user.visits() > 5):
            s.break_()
        with s.else_():
            user.touch()
    print(f"visited, up to the first with many: {seen.get().claim().rstrip()}")

    # A batch with a name and parameters, sent once and called as often as you like.
    def body(_: object, name: Str, times: Int) -> Int:
        user = db.fetch(name)
        with s.foreach(s.value(1).to(times)):
            user.touch()
        return user.visits()

    visit = s.procedure("visit", (Str, Int), Int, body)
    ann = visit("ann", 2)
    eve = visit("eve", ann + 1)
    print(f"ann: {ann.claim()}, eve: {eve.claim()}")


def brief(error: bf.BifrostError) -> str:
    """An error without the places in this file, which change when it is edited."""
    call = error.call.name if error.call is not None else "?"
    if isinstance(error, bf.Signal):
        # A call that was not run is told as the first failure; its own name is in the notes.
        notes = getattr(error, "__notes__", [])
        return f"{call} was not run" if notes else f"{call} signalled {error.signal}"
    return str(error)


def exceptions(s: bf.Session, db: DataBase) -> None:
    # Handled at the server: who is not there is made.
    found = s.cell(of=DataElem)
    with s.except_():
        found.put(db.fetch("dora"))
    with s.when(NotFound):
        found.put(db.new_user("dora"))
    print(f"{found.get().name().claim()} is there now")

    # Not handled: raised by the claim, which says what went wrong and where.
    zoe = db.fetch("zoe")
    zoe.touch()
    try:
        print(f"zoe: {zoe.visits().claim()}")
    except NotFound as error:
        print(f"zoe: {error.signal}")
    # A failure whose stub was dropped is told by the next claim, flush or commit.
    db.new_user("bob")
    try:
        s.flush()
    except bf.Unseen as unseen:
        print(f"the flush: {brief(unseen.failures[0])}")
    # All of them are in the history.
    for failure in s.exceptions():
        print(f"history: {brief(failure)}")


def main() -> None:
    with connect(os.environ["BIFROST_URL"], name="tour") as s:
        db = s.lookup("database", DataBase)
        futures(s, db)
        structures(s, db)
        exceptions(s, db)
        c = s.counters
        print(f"{c.calls} commands, {c.crossings} crossings: B = {c.batching_factor:.1f}")


if __name__ == "__main__":
    main()
