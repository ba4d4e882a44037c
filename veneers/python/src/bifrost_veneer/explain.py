"""Shows what crosses: ``python -m bifrost_veneer.explain PROGRAM`` runs a program and prints the
commands of each batch before it crosses. ``session.explain()`` shows the batch under way.
"""

from __future__ import annotations

import runpy
import sys
from weakref import WeakKeyDictionary

from . import native
from .recorder.commands import decode_commands
from .recorder.crossing import Recorder
from .recorder.printer import Printer


def main(arguments: list[str]) -> int:
    """Runs a program and prints what crosses."""
    if len(arguments) < 1:
        print("usage: python -m bifrost_veneer.explain PROGRAM [ARGUMENTS]", file=sys.stderr)
        return 2
    # What is taken out of the recorder is seen where it is written in Python; the bytes are the same.
    native.is_off = True
    take, printers = Recorder.take_bytes, WeakKeyDictionary[Recorder, Printer]()

    def take_and_show(core: Recorder, flushed: bool = False) -> bytes:
        data = take(core, flushed)
        if data:
            printer = printers.setdefault(core, Printer(core.numbers, core.procedure_names))
            for command in decode_commands(data):
                line = printer.line(command)
                if line is not None:
                    print(f"> {line}", file=sys.stderr)
        return data

    Recorder.take_bytes = take_and_show  # type: ignore[method-assign, assignment]
    sys.argv = arguments
    try:
        runpy.run_path(arguments[0], run_name="__main__")
    finally:
        Recorder.take_bytes = take  # type: ignore[method-assign]
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
