"""The commands of a batch in the text form: the first answer to "what have I recorded?".

``session.explain()`` shows the batch under way; ``python -m bifrost_veneer.explain PROGRAM`` runs a
program and shows each batch before it crosses.
"""

from __future__ import annotations

import json
import runpy
import sys
from collections.abc import Callable
from typing import Any

from . import native
from .recorder.commands import decode_commands
from .recorder.crossing import Recorder
from .recorder.numbers import Interface, Numbers

_INDENT = "  "
_OPENS = ("while", "if", "foreach", "except", "procedure")
_MIDDLES = ("do", "then", "else", "when", "others")


class Printer:
    """Prints commands as lines of the text form. Results have names by their positions: ``$3``."""

    def __init__(self, numbers: Numbers, position: int = 0, procedure: int = 0) -> None:
        self._interface: Interface = numbers.stubs.interface()
        self._numbers = numbers
        #: The positions that are taken.
        self.position = position
        self._procedure = procedure
        self._depth = 0
        self._types = self._reversed(len(self._interface.types), numbers.type)
        self._methods = self._reversed(len(self._interface.owners), numbers.method)
        self._routines = self._reversed(len(self._interface.routines), numbers.routine)
        self._in_foreach = False

    @staticmethod
    def _reversed(count: int, number: Callable[[int], int | None]) -> dict[int, int]:
        found = {}
        for own in range(count):
            theirs = number(own)
            if theirs is not None:
                found[theirs] = own
        return found

    def _type(self, number: int | None) -> str:
        return "?" if number is None else self._interface.type_name(self._types.get(number, -1))

    def _take(self, count: int) -> str:
        """Takes the next positions; returns their names."""
        first = self.position + 1
        self.position += count
        return ", ".join(f"${n}" for n in range(first, first + count))

    def _reference(self, number: int) -> str:
        if number > 0:
            return f"h{number}"
        if number == 0:
            return "a failed result"
        back, position = -number >> 32, -number & 0xFFFF_FFFF
        return f"${position}" if back == 0 else f"${position} of {back} batches before"

    def _value(self, value: dict[str, Any]) -> str:
        ((kind, payload),) = value.items()
        match kind:
            case "ref":
                return self._reference(payload)
            case "nil":
                return "nil"
            case "bool":
                return "true" if payload else "false"
            case "string":
                return json.dumps(payload, ensure_ascii=False)
            case "char":
                return f"'{payload}'"
            case "bytes":
                return f'x"{payload}"'
            case "compound":
                return "{" + ", ".join(self._value(item) for item in payload["items"]) + "}"
        return str(payload)

    def _values(self, values: list[dict[str, Any]]) -> str:
        return "(" + ", ".join(self._value(value) for value in values) + ")"

    def _call(self, name: str, parts: dict[str, Any]) -> tuple[str, int]:
        """Returns a call, and the number of its results."""
        arguments = self._values(parts["args"])
        if name == "call_procedure":
            return f"procedure {parts['procedure']}{arguments}", 1
        if name == "call_routine":
            number = self._routines.get(parts["routine"])
            heading = None if number is None else self._interface.routines[number]
            return f"{heading['name'] if heading else '?'}{arguments}", self._count(heading)
        number = self._methods.get(parts["method"])
        heading = None if number is None else self._interface.method(number)
        receiver = self._reference(parts["receiver"])
        return f"{receiver}.{heading['name'] if heading else '?'}{arguments}", self._count(heading)

    @staticmethod
    def _count(heading: dict[str, Any] | None) -> int:
        if heading is None:
            return 1
        yields = heading.get("yields")
        return max(len(heading.get("results", ()) if yields is None else yields), 1)

    def line(self, command: Any) -> str | None:
        """Returns the line of a command; None for one that has no line of its own."""
        if isinstance(command, str):
            return self._plain(command)
        ((name, parts),) = command.items()
        indent = _INDENT * self._depth
        if name in ("call", "send", "call_routine", "call_procedure"):
            call, count = self._call(name, parts)
            if self._in_foreach:
                self._in_foreach = False
                indent = _INDENT * (self._depth - 1)
                return f"{indent}foreach {self._take(count)} in {call} do"
            if name == "send":
                self._take(1)
                return f"{indent}send {call}"
            return f"{indent}{self._take(count)} := {call}"
        if name in ("do", "then", "when", "others"):
            indent = _INDENT * (self._depth - 1)
        text = self._other(name, parts)
        return None if text is None else indent + text

    def _plain(self, command: str) -> str | None:
        if command.startswith("end_"):
            self._depth -= 1
            return f"{_INDENT * self._depth}end"
        indent = _INDENT * (self._depth - int(command == "else"))
        if command in _OPENS:
            self._depth += 1
            if command == "foreach":
                self._in_foreach = True
                return None
        if command in ("commit", "abort"):
            return f"{indent}{self._take(1)} := {command}"
        return indent + {"clear_history": "clear"}.get(command, command)

    def _typed(self, types: list[int]) -> str:
        if not types:
            return ""
        first = self.position + 1
        self._take(len(types))
        return (
            "(" + ", ".join(f"${first + i}: {self._type(ty)}" for i, ty in enumerate(types)) + ")"
        )

    def _other(self, name: str, p: Any) -> str | None:
        match name:
            case "lookup":
                text = f"lookup {json.dumps(p['name'], ensure_ascii=False)}"
                text += "" if p["expected"] is None else f": {self._type(p['expected'])}"
            case "constant":
                text = self._value(p)
            case "cell":
                text = f"cell {self._type(p['element'])}"
            case "rows":
                text = "rows " + ", ".join(self._type(ty) for ty in p["columns"])
            case "emit":
                self._take(1)
                values = ", ".join(self._value(value) for value in p["values"])
                return f"emit {self._reference(p['rows'])}, {values}"
            case "as" | "is":
                text = f"{self._reference(p['object'])} {name} {self._type(p['type'])}"
            case "get":
                text = f"get {self._reference(p['object'])}"
            case "transaction":
                text = f"transaction {p['tries'] or ''}".rstrip()
            case "wait":
                text = f"wait {p['ms']}"
            case _:
                return self._marker(name, p)
        return f"{self._take(1)} := {text}"

    def _marker(self, name: str, p: Any) -> str | None:
        match name:
            case "free":
                handles = p if isinstance(p, list) else p["handles"]
                return "free " + ", ".join(f"h{handle}" for handle in handles)
            case "flush":
                wanted = [n for first, count in p["wanted"] for n in range(first, first + count)]
                self.position = 0
                return "flush " + ", ".join(f"${n}" for n in wanted) if wanted else "flush"
            case "do" | "then":
                return f"{name} {self._reference(p['test'])}"
            case "when":
                return f"when {p['name']}{self._typed(p['values'])}"
            case "others":
                return f"others {self._take(1)}" if p["named"] else "others"
            case "procedure":
                result = "" if p["result"] is None else f" returns {self._type(p['result'])}"
                self._depth += 1
                return f"procedure {p['name']}{self._typed(p['params'])}{result}"
            case "return":
                return "return" if p is None else f"return {self._value(p)}"
        return name


def explain_bytes(numbers: Numbers, data: bytes) -> str:
    """Returns whole commands as lines of the text form."""
    printer = Printer(numbers)
    lines = [printer.line(command) for command in decode_commands(data)]
    return "\n".join(line for line in lines if line is not None)


def explain_words(core: Recorder) -> str:
    """Returns the recorded commands of a session that were not sent."""
    commands = decode_commands(core.recorded_bytes())
    # Commands that were sent already have taken the first positions.
    counter = Printer(core.numbers)
    for command in commands:
        counter.line(command)
    printer = Printer(core.numbers, core.positions - counter.position)
    lines = [printer.line(command) for command in commands]
    return "\n".join(line for line in lines if line is not None)


def main(arguments: list[str]) -> int:
    """Runs a program and prints what crosses."""
    if len(arguments) < 1:
        print("usage: python -m bifrost_veneer.explain PROGRAM [ARGUMENTS]", file=sys.stderr)
        return 2
    # What is taken out of the recorder is seen where it is written in Python; the bytes are the same.
    native.is_off = True
    take, printers = Recorder.take_bytes, dict[int, Printer]()

    def take_and_show(core: Recorder, flushed: bool = False) -> bytes:
        data = take(core, flushed)
        if data:
            printer = printers.setdefault(id(core), Printer(core.numbers))
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
