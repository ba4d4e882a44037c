"""Points that are moved and swapped, a procedure, and a list; with
``examples/points/points.theta``.
"""

import os

from bifrost_stubs import ListOfInt, Point, connect

from bifrost_veneer import Int


def main() -> None:
    with connect(os.environ["BIFROST_URL"]) as s:
        # Swap the coordinates of a point, step by step: one crossing.
        home = s.lookup("home", Point)
        x = home.x()
        home.set_x(home.y())
        home.set_y(x)
        x, y = home.x(), home.y()
        print(f"x = {x.claim()}, y = {y.claim()}")

        # A procedure is a batch with a name: defined once, called like a routine.
        def body(_: object, p: Point, by: Int) -> None:
            p.set_x(p.x() + by)
            p.set_y(p.y() + by)

        move = s.procedure("move", (Point, Int), None, body)
        move(home, 10)
        move(home, 100)
        x, y = home.x(), home.y()
        print(f"x = {x.claim()}, y = {y.claim()}")

        # The sum of a list, with a loop over a cell.
        at, total = s.cell(s.lookup("primes", ListOfInt)), s.cell(0)
        with s.while_(lambda: at.get().not_empty()):
            total.put(total.get() + at.get().first())
            at.put(at.get().next())
        print(f"sum = {total.get().claim()}, after {s.counters.crossings} crossings")

        # Or the whole list at once, as a list of Python.
        print(f"primes: {s.lookup('primes', ListOfInt).get().claim()}")


if __name__ == "__main__":
    main()
