"""A client among many of one server: ``visitor.py NAME TIMES`` visits Ann and a person of its own,
so many times. ``veneers/together.sh`` runs it beside clients in other languages, over other media.
"""

from __future__ import annotations

import os
import sys

from database.bifrost_stubs import DataBase, connect

from bifrost_veneer import Int


def main() -> None:
    name, times = sys.argv[1], int(sys.argv[2])
    with connect(os.environ["BIFROST_URL"]) as s:
        if "BIFROST_NATIVE" in os.environ:
            assert s.native == (os.environ["BIFROST_NATIVE"] == "1")
        db = s.lookup("database", DataBase)
        own = s.transaction(lambda: db.new_user(name))
        last = -1

        def visit() -> Int:
            ann = db.fetch("ann")
            ann.touch()
            own.touch()
            return ann.visits()

        for _ in range(times):
            seen = s.transaction(visit).claim()
            assert seen > last, f"Ann had {last} visits, and has {seen}"
            last = seen
        print(f"{name}: {own.visits().claim()} visits, Ann at least {last}")


main()
