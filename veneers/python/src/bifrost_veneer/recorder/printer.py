"""Commands as lines of the text form, for people who ask what was recorded.

:class:`Printer` is the type to read first. ``crates/wire/src/text/explain.rs`` writes the same
lines.
"""

from __future__ import annotations

import re
import unicodedata
from array import array
from collections.abc import Callable, Iterable
from typing import Any, Final

from .commands import decode_command
from .decode import Bad, Need, Profile, ProfileEntry
from .numbers import Interface, Numbers
from .wire import to_bytes

#: The most bytes of a batch that are kept to be explained.
EXPLAINED_BYTES: Final = 65_536

_INDENT = "  "
_OPENS = ("while", "if", "except", "procedure")
_MIDDLE = ("do", "then", "else", "when", "others")
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
    futures that are wanted. ``@3^1`` is the third result of the batch before. With a profile, each
    line ends with the cost of its command.
    """

    def __init__(
        self,
        numbers: Numbers,
        procedures: Iterable[str] = (),
        entries: Iterable[ProfileEntry] = (),
    ) -> None:
        self._interface: Interface = numbers.names()
        #: The positions that are taken.
        self.position = 0
        #: The names of the session's procedures, by number.
        self._procedures = list(procedures)
        #: The entries of the profile whose commands have not come yet, the next one last.
        self._entries = list(entries)[::-1]
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
            known, number = self._procedures, parts["procedure"]
            called = known[number] if number < len(known) else "?"
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
        if method is None and name == "send":
            self.position += 1
            return f"# send of method {parts['method']}, which is none"
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
        # Markers of blocks stand at the depth of their structure.
        is_middle = name in _MIDDLE
        begins = self._in_foreach or name in _OPENS
        ends = is_middle or name.startswith("end_")
        self._depth = max(self._depth - int(ends), 0)
        depth, first = self._depth, self.position + 1
        line = self._text(name, parts)
        self._depth += int(begins or is_middle)
        if depth == 0 and not ends and (begins or self.position >= first):
            line += self._cost(first, begins)
        return _INDENT * depth + line

    def _cost(self, call: int, is_structure: bool) -> str:
        """Returns the cost of a command or structure as a comment, if the profile has an entry."""
        entries = self._entries
        if not entries or (entries[-1].call, entries[-1].is_structure) != (call, is_structure):
            return ""
        return f"  # {entries.pop().cost}"

    def lines(self, data: bytes) -> tuple[str, int]:
        """Returns the lines of whole commands, each with its line feed, and the number of bytes
        behind them.
        """
        text, at = "", 0
        while at < len(data):
            try:
                command, at = decode_command(data, at)
            except (Need, Bad):
                break
            line = self.line(command)
            if line is not None:
                text += f"{line}\n"
        return text, len(data) - at

    def _text(self, name: str, parts: Any) -> str:
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
                if p["name"] not in self._procedures:
                    self._procedures.append(p["name"])
                typed = self._typed(p["params"])
                result = "" if p["result"] is None else f" returns {self._type(p['result'])}"
                return f"procedure {p['name']}" + (f" ({typed})" if typed else "") + result
            case "return":
                return "return" if p is None else f"return {self._value(p)}"
        return str(name)


class Kept:
    """The begin of a batch, at most :data:`EXPLAINED_BYTES` of it."""

    __slots__ = ("_data", "_more")

    def __init__(self) -> None:
        self._data = b""
        #: The number of bytes behind them.
        self._more = 0

    def keep(self, words: array[int]) -> None:
        """Adds words of the batch."""
        room = (EXPLAINED_BYTES - len(self._data)) // 8
        if len(words) > room:
            self._more += 8 * (len(words) - room)
            words = words[:room]
        self._data += to_bytes(words)

    def copy(self) -> Kept:
        """Returns a copy, to which more can be added."""
        copy = Kept()
        copy._data, copy._more = self._data, self._more
        return copy

    def lines(
        self, numbers: Numbers, procedures: Iterable[str], profile: Profile | None = None
    ) -> str:
        """Returns its lines, and the number of bytes that are not kept as a comment. With a
        profile, each line ends with the cost of its command, and that of the commands without an
        entry is a line of its own.
        """
        entries = () if profile is None else profile.entries
        text, rest = Printer(numbers, procedures, entries).lines(self._data)
        if rest + self._more:
            text += f"# {rest + self._more} more bytes, which are not kept\n"
        if profile is not None and profile.rest is not None:
            text += f"# {profile.omitted} more: {profile.rest}\n"
        return text
