"""A linked list at the server, walked in one crossing; with ``examples/lists/lists.theta``."""

import os

from bifrost_stubs import Bounds, IntList, connect, nth


def main() -> None:
    with connect(os.environ["BIFROST_URL"]) as s:
        squares = s.lookup("squares", IntList)
        # Ten steps along the list, one crossing: every step uses a result that does not exist yet.
        at = squares
        for _ in range(9):
            at = at.next()
        print(f"the 10th is {at.first().claim()}, after {s.counters.crossings} crossing")

        # How far the list goes is not known here: a loop at the server finds out.
        place, count = s.cell(squares), s.cell(0)
        with s.while_(lambda: place.get().not_empty()):
            count.put(count.get() + 1)
            place.put(place.get().next())
        print(f"it has {count.get().claim()} elements, after {s.counters.crossings} crossings")

        # The same as a routine that the program has.
        print(f"the 10th is {nth(s, squares, 10).claim()}")
        try:
            nth(s, squares, 101).claim()
        except Bounds as error:
            print(f"the 101st: {error.signal}")


if __name__ == "__main__":
    main()
