"""The commands of a batch in the text form: the first answer to "what have I recorded?".

``session.explain()`` shows the batch under way; ``python -m bifrost_veneer.explain PROGRAM`` runs a
program and shows each batch before it crosses.
"""

from __future__ import annotations

import re
import runpy
import sys
import unicodedata
from collections.abc import Callable
from typing import Any

from . import native
from .recorder.commands import decode_commands
from .recorder.crossing import Recorder
from .recorder.numbers import Interface, Numbers

_INDENT = "  "
_OPENS = ("while", "if", "foreach", "except", "procedure")
_FIELDS = ("struct", "record")
_CHOICES = ("oneof", "maybe")
_WORD = re.compile(r"[A-Za-z][A-Za-z0-9_]*", re.ASCII)
_ESCAPES = {"\n": "\\n", "\t": "\\t", "\r": "\\r", "\\": "\\\\"}


def _quoted(text: str, quote: str) -> str:
    """Returns a text in quotes. Control characters could change the state of a terminal."""
    parts = []
    for c in text:
        if c == quote:
            parts.append(f"\\{c}")
        elif c in _ESCAPES:
            parts.append(_ESCAPES[c])
        elif unicodedata.category(c) == "Cc":
            parts.append(f"\\u{{{ord(c):x}}}")
        else:
            parts.append(c)
    return quote + "".join(parts) + quote


class Printer:
    """Prints commands as lines of the text form, one for each command.

    A result is named by its place in its batch, as in ``@2 := @1.fetch("eve")``, and variables of
    structures as ``$x5``. What the text form has no words for is in comments: handles given back,
    futures that are wanted. ``@3^1`` is the third result of the batch before.
    """

    def __init__(
        self, numbers: Numbers, position: int = 0, procedures: dict[int, str] | None = None
    ) -> None:
        self._interface: Interface = numbers.stubs.interface()
        #: The positions that are taken.
        self.position = position
        #: The names of the session's procedures, by number.
        self._procedures = dict(procedures or {})
        #: The results that are variables of structures.
        self._variables: dict[int, str] = {}
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

    def _type_of(self, number: int | None) -> dict[str, Any] | None:
        own = None if number is None else self._types.get(number)
        return None if own is None else self._interface.types[own]

    def _variable(self) -> str:
        """Names the next result as a variable."""
        self.position += 1
        name = f"$x{self.position}"
        self._variables[self.position] = name
        return name

    def _results(self, count: int, text: str) -> str:
        """Returns a line that makes so many results, or the head of a loop over them."""
        if self._in_foreach:
            self._in_foreach = False
            variables = ", ".join(self._variable() for _ in range(count))
            return f"foreach {variables} in {text} do"
        first = self.position + 1
        self.position += count
        return ", ".join(f"@{n}" for n in range(first, first + count)) + f" := {text}"

    # Values.

    def _reference(self, number: int) -> str:
        if number > 0:
            return f"h{number}"
        if number == 0:
            # It stands for a stub whose call was refused or has failed.
            return "@0"
        back, position = -number >> 32, -number & 0xFFFF_FFFF
        if back:
            return f"@{position}^{back}"
        return self._variables.get(position, f"@{position}")

    def _value(self, value: dict[str, Any], place: dict[str, Any] | None = None) -> str:
        """Returns a value or reference, for a place of a type."""
        ((kind, payload),) = value.items()
        match kind:
            case "ref":
                return self._reference(payload)
            case "nil":
                return "nil"
            case "bool":
                return "true" if payload else "false"
            case "string":
                return _quoted(payload, '"')
            case "char":
                return _quoted(payload, "'")
            case "bytes":
                return f'x"{payload}"'
            case "compound":
                return self._compound(payload, place)
        return str(payload)

    def _compound(self, payload: dict[str, Any], place: dict[str, Any] | None) -> str:
        """Returns a compound of its own type, or else of that of its place."""
        ty = self._type_of(payload["type"]) or place or {}
        fields, items = ty.get("fields", ()), payload["items"]

        def labelled(at: int, item: dict[str, Any]) -> str:
            if not 0 <= at < len(fields):
                return self._value(item)
            inner = self._interface.types[fields[at]["type"]]
            return f"{fields[at]['name']}: {self._value(item, inner)}"

        kind = ty.get("kind")
        if kind in _CHOICES and len(items) == 2 and "int" in items[0]:
            shown = [labelled(int(items[0]["int"]), items[1])]
        elif kind in _FIELDS:
            shown = [labelled(at, item) for at, item in enumerate(items)]
        else:
            element = self._interface.types[ty["element"]] if "element" in ty else None
            shown = [self._value(item, element) for item in items]
        return "{" + ", ".join(shown) + "}"

    def _values(self, values: list[dict[str, Any]], heading: dict[str, Any] | None = None) -> str:
        params = [] if heading is None else heading.get("params", [])
        places = [self._interface.types[param["type"]] for param in params]
        places += [None] * (len(values) - len(places))
        shown = [self._value(value, place) for value, place in zip(values, places, strict=False)]
        return "(" + ", ".join(shown) + ")"

    # Commands.

    def _call(self, name: str, parts: dict[str, Any]) -> str:
        if name == "call_procedure":
            called = self._procedures.get(parts["procedure"], "?")
            return self._results(1, called + self._values(parts["args"]))
        if name == "call_routine":
            number = self._routines.get(parts["routine"])
            if number is None:
                return self._results(1, f"? # routine {parts['routine']} is none")
            heading = self._interface.routines[number]
            call = heading["name"] + self._values(parts["args"], heading)
            return self._results(self._count(heading), call)
        number = self._methods.get(parts["method"])
        method = None if number is None else self._interface.method(number)
        receiver = self._reference(parts["receiver"])
        if method is None:
            return self._results(1, f"{receiver}.? # method {parts['method']} is none")
        call = f"{receiver}.{method['name']}" + self._values(parts["args"], method)
        if name == "send":
            self.position += 1
            return f"send {call}"
        return self._results(self._count(method), call)

    @staticmethod
    def _count(heading: dict[str, Any]) -> int:
        yields = heading.get("yields")
        return max(len(heading.get("results", ()) if yields is None else yields), 1)

    def line(self, command: Any) -> str | None:
        """Returns the line of a command; None for one that has no line of its own."""
        name, parts = (command, None) if isinstance(command, str) else next(iter(command.items()))
        if name == "foreach":
            # Its call follows, and is the head of the loop.
            self._in_foreach = True
            return None
        opens = int(self._in_foreach or name in (*_OPENS, "do", "then", "else", "when", "others"))
        closes = name.startswith("end_") or name in ("do", "then", "else", "when", "others")
        self._depth = max(self._depth - int(closes), 0)
        indent = _INDENT * self._depth
        line = self._text(name, parts)
        self._depth += opens
        return None if line is None else indent + line

    def _text(self, name: str, parts: Any) -> str | None:
        if name in ("call", "send", "call_routine", "call_procedure"):
            return self._call(name, parts)
        if name.startswith("end_"):
            return "end"
        if name in ("commit", "abort"):
            return self._results(1, name)
        if parts is None and name != "return":
            return {"clear_history": "clear"}.get(name, name)
        return self._other(name, parts)

    def _typed(self, types: list[int]) -> str:
        return ", ".join(f"{self._variable()}: {self._type(ty)}" for ty in types)

    def _other(self, name: str, p: Any) -> str:
        match name:
            case "hello":
                return f"hello {p['version']} name {_quoted(p['client'], chr(34))}"
            case "lookup":
                # A name that is no word is quoted.
                text = p["name"] if _WORD.fullmatch(p["name"]) else _quoted(p["name"], '"')
                text = f"lookup {text}"
                text += "" if p["expected"] is None else f": {self._type(p['expected'])}"
            case "constant":
                own = p.get("compound", {}).get("type")
                text = ("" if own is None else f"value {self._type(own)} ") + self._value(p)
            case "cell":
                text = f"cell {self._type(p['element'])}"
            case "rows":
                text = "rows " + ", ".join(self._type(ty) for ty in p["columns"])
            case "emit":
                self.position += 1
                items = [self._reference(p["rows"]), *(self._value(v) for v in p["values"])]
                return "emit " + ", ".join(items)
            case "as" | "is":
                text = f"{self._reference(p['object'])} {name} {self._type(p['type'])}"
            case "get":
                text = f"get {self._reference(p['object'])}"
            case "transaction":
                text = f"transaction {p['tries'] or ''}".rstrip()
                # The client's bits of the name are a secret.
                text += "" if p["batch"] is None else f" # batch {p['batch']['number']}"
            case "wait":
                text = f"wait {p['ms']}"
            case "profile":
                return "profile on" if p["on"] else "profile off"
            case _:
                return self._marker(name, p)
        return self._results(1, text)

    def _marker(self, name: str, p: Any) -> str:
        match name:
            case "free":
                handles = p if isinstance(p, list) else p["handles"]
                return "# gives back " + ", ".join(f"h{handle}" for handle in handles)
            case "flush":
                self.position = self._depth = 0
                self._variables.clear()
                wanted = [
                    f"@{first}" if count == 1 else f"@{first} to @{first + count - 1}"
                    for first, count in p["wanted"]
                ]
                return "flush # wants " + ", ".join(wanted) if wanted else "flush"
            case "do" | "then":
                return f"{name} {self._reference(p['test'])}"
            case "when":
                typed = self._typed(p["values"])
                return f"when {p['name']} ({typed})" if typed else f"when {p['name']}"
            case "others":
                return f"others {self._variable()}" if p["named"] else "others"
            case "procedure":
                if p["name"] not in self._procedures.values():
                    self._procedures[max(self._procedures, default=-1) + 1] = p["name"]
                typed = self._typed(p["params"])
                result = "" if p["result"] is None else f" returns {self._type(p['result'])}"
                return f"procedure {p['name']}" + (f" ({typed})" if typed else "") + result
            case "return":
                return "return" if p is None else f"return {self._value(p)}"
        return str(name)


def explain_bytes(numbers: Numbers, data: bytes) -> str:
    """Returns whole commands as lines of the text form."""
    printer = Printer(numbers)
    lines = [printer.line(command) for command in decode_commands(data)]
    return "\n".join(line for line in lines if line is not None)


def explain_words(core: Recorder, procedures: dict[int, str]) -> str:
    """Returns the recorded commands of a session that were not sent."""
    commands = decode_commands(core.recorded_bytes())
    # Commands that were sent already have taken the first positions.
    counter = Printer(core.numbers)
    for command in commands:
        counter.line(command)
    printer = Printer(core.numbers, core.positions - counter.position, procedures)
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
