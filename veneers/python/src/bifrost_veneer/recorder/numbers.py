"""The constants of generated code, and the way its numbers become the server's.

Read :class:`Stubs` first, then :class:`Numbers`.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Final

from .. import _tables as t

#: Stands for a type or method that an interface lacks.
NO_NUMBER: Final = t.NO_NUMBER

_KINDS: Final = frozenset(
    [
        "null",
        "bool",
        "int",
        "real",
        "char",
        "string",
        "bytes",
        "any",
        "array",
        "sequence",
        "list",
        "cell",
        "vector",
        "map",
        "maybe",
        "record",
        "struct",
        "oneof",
        "object",
    ]
)


class BadInterface(ValueError):
    """A description of an interface cannot be read."""


class Heading:
    """The types of a procedure, by the client's numbers."""

    __slots__ = ("params", "result")

    def __init__(self, params: tuple[int, ...] = (), result: int | None = None) -> None:
        self.params = params
        self.result = result

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Heading):
            return NotImplemented
        return self.params == other.params and self.result == other.result

    def __hash__(self) -> int:
        return hash((self.params, self.result))


class Interface:
    """An interface description: types and routines as JSON has them, and their numbers by name."""

    def __init__(self, text: bytes | str) -> None:
        try:
            data = json.loads(text)
            self.types: list[dict[str, Any]] = data["types"]
            self.routines: list[dict[str, Any]] = data["routines"]
            self._number()
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise BadInterface(f"the interface description cannot be read: {error}") from error

    def _number(self) -> None:
        count = len(self.types)
        self.owners: list[int] = []
        self.firsts: list[int] = []
        self.type_numbers: dict[str, int] = {}
        self.method_numbers: dict[tuple[int, str], int] = {}
        self.routine_numbers: dict[str, int] = {}
        for number, ty in enumerate(self.types):
            if ty["kind"] not in _KINDS:
                raise BadInterface(f"there is no kind `{ty['kind']}` of types")
            self.type_numbers.setdefault(ty["name"], number)
            self.firsts.append(len(self.owners))
            for method in ty.get("methods", ()):
                self.method_numbers.setdefault((number, method["name"]), len(self.owners))
                self.owners.append(number)
                self._check_heading(method, count)
            named = [*ty.get("supertypes", ()), *(field["type"] for field in ty.get("fields", ()))]
            self._check([*named, *([ty["element"]] if "element" in ty else [])], count)
        for number, ty in enumerate(self.types):
            for name in ty.get("names", ()):
                self.type_numbers.setdefault(name, number)
        for number, routine in enumerate(self.routines):
            self.routine_numbers.setdefault(routine["name"], number)
            self._check_heading(routine, count)
        self._check_supertypes()

    def _check_heading(self, heading: dict[str, Any], count: int) -> None:
        numbers = [param["type"] for param in heading.get("params", ())]
        numbers += [*heading.get("results", ()), *(heading.get("yields") or ())]
        for signal in heading.get("signals", ()):
            numbers += signal.get("values", ())
            if not isinstance(signal["name"], str):
                raise BadInterface("the name of a signal is no text")
        self._check(numbers, count)

    @staticmethod
    def _check(numbers: list[Any], count: int) -> None:
        for number in numbers:
            if type(number) is not int or not 0 <= number < count:
                raise BadInterface(
                    f"the interface description names type {number}, but has {count} types"
                )

    def _check_supertypes(self) -> None:
        """Takes away, again and again, types whose supertypes are all gone."""
        left = list(range(len(self.types)))
        gone: set[int] = set()
        while left:
            free = [n for n in left if all(s in gone for s in self.types[n].get("supertypes", ()))]
            if not free:
                raise BadInterface(f"type `{self.types[left[0]]['name']}` is its own supertype")
            gone.update(free)
            left = [n for n in left if n not in gone]

    def type_name(self, number: int) -> str:
        """Returns the name of a type, ``?`` if the number names none."""
        return str(self.types[number]["name"]) if 0 <= number < len(self.types) else "?"

    def method(self, number: int) -> dict[str, Any] | None:
        """Returns the method of a number."""
        if not 0 <= number < len(self.owners):
            return None
        owner = self.owners[number]
        method: dict[str, Any] = self.types[owner]["methods"][number - self.firsts[owner]]
        return method

    def heading(self, method: dict[str, Any]) -> str:
        """Returns a heading as Theta writes it."""
        params = ", ".join(
            f"{p['name']}: {self.type_name(p['type'])}" for p in method.get("params", ())
        )
        text = f"{method['name']} ({params})"
        if method.get("yields") is not None:
            text += f" yields ({', '.join(self.type_name(n) for n in method['yields'])})"
        elif method.get("results"):
            text += f" returns ({', '.join(self.type_name(n) for n in method['results'])})"
        if method.get("signals"):
            signals = []
            for signal in method["signals"]:
                values = ", ".join(self.type_name(n) for n in signal.get("values", ()))
                signals.append(f"{signal['name']} ({values})" if values else signal["name"])
            text += f" signals ({', '.join(signals)})"
        return text

    def find_kind(self, kind: str, element: int | None = None) -> int:
        """Returns the number of the first type of that kind and element."""
        for number, ty in enumerate(self.types):
            if ty["kind"] == kind and ty.get("element") == element:
                return number
        return NO_NUMBER

    def cell(self, element: int) -> tuple[int, int, int, int]:
        """Returns the numbers of ``cell[T]`` and of its methods ``put``, ``full`` and ``get``."""
        ty = NO_NUMBER if element == NO_NUMBER else self.find_kind("cell", element)
        if ty == NO_NUMBER:
            return (NO_NUMBER, NO_NUMBER, NO_NUMBER, NO_NUMBER)
        number = self.method_numbers
        put, full, get = (number.get((ty, name), NO_NUMBER) for name in ("put", "full", "get"))
        return (ty, put, full, get)

    def operators(self) -> tuple[int, ...]:
        """Returns the numbers of the methods behind operators."""
        numbers = []
        for row in t.OPERATORS:
            ty = self.find_kind(row.kind)
            numbers.append(self.method_numbers.get((ty, row.method), NO_NUMBER))
        return tuple(numbers)


class Stubs:
    """The constants of a generated module. Two sessions have the same stubs if it is the same
    object.
    """

    __slots__ = (
        "_interface",
        "_text",
        "basic",
        "builtin",
        "digest",
        "load",
        "operators",
        "signals",
        "types",
    )

    def __init__(
        self,
        digest: bytes,
        load: Callable[[], str | bytes],
        basic: tuple[tuple[int, tuple[int, int, int, int]], ...] = (),
        builtin: tuple[tuple[int, tuple[int, int, int, int], int], ...] = (),
        operators: tuple[int, ...] = (NO_NUMBER,) * len(t.OPERATORS),
    ) -> None:
        #: The digest of the interface that the stubs were made from.
        self.digest = digest
        #: Reads the JSON of that interface.
        self.load = load
        #: The numbers of null, bool, int, real, char and string, and of their cells.
        self.basic = basic
        #: The numbers of the types in the table of built-in types, of their cells, and of their
        #: first methods.
        self.builtin = builtin
        #: The numbers of the methods behind operators.
        self.operators = operators
        #: The classes of the types, by number; filled by the classes themselves.
        self.types: dict[int, type] = {}
        #: The classes of the exceptions, by their names in Theta.
        self.signals: dict[str, Any] = {}
        self._interface: Interface | None = None
        self._text: str | None = None

    def text(self) -> str:
        """Returns the JSON of the interface, which is read once."""
        if self._text is None:
            text = self.load()
            self._text = text if isinstance(text, str) else text.decode()
        return self._text

    def interface(self) -> Interface:
        """Returns the interface, which is read once."""
        if self._interface is None:
            self._interface = Interface(self.text())
        return self._interface


def _same_heading(own: Interface, a: dict[str, Any], other: Interface, b: dict[str, Any]) -> bool:
    """True if two headings of different interfaces have the same types of arguments and results,
    and both yield or neither.
    """

    def names(interface: Interface, heading: dict[str, Any]) -> tuple[list[str], list[str], bool]:
        yields = heading.get("yields")
        futures = heading.get("results", ()) if yields is None else yields
        params = [interface.type_name(param["type"]) for param in heading.get("params", ())]
        return params, [interface.type_name(number) for number in futures], yields is not None

    return names(own, a) == names(other, b)


class Numbers:
    """The stubs' numbers as the server has them. Equal interfaces map nothing."""

    __slots__ = ("_methods", "_routines", "_types", "is_same", "stubs")

    def __init__(self, stubs: Stubs, server: Interface | None = None) -> None:
        self.stubs = stubs
        self.is_same = server is None
        self._types: list[int | None] = []
        self._methods: list[int | None] = []
        self._routines: list[int | None] = []
        if server is not None:
            self._map(stubs.interface(), server)

    def _map(self, own: Interface, server: Interface) -> None:
        for ty in own.types:
            theirs = server.type_numbers.get(ty["name"])
            self._types.append(theirs)
            for method in ty.get("methods", ()):
                found = (
                    None if theirs is None else server.method_numbers.get((theirs, method["name"]))
                )
                if found is not None:
                    their_method = server.method(found)
                    if their_method is None or not _same_heading(own, method, server, their_method):
                        found = None
                self._methods.append(found)
        for routine in own.routines:
            found = server.routine_numbers.get(routine["name"])
            if found is not None and not _same_heading(
                own, routine, server, server.routines[found]
            ):
                found = None
            self._routines.append(found)

    @staticmethod
    def _find(table: list[int | None], number: int) -> int | None:
        return table[number] if 0 <= number < len(table) else None

    def method(self, number: int) -> int | None:
        """Returns the server's number of a method, if the server has it."""
        if self.is_same:
            return None if number == NO_NUMBER else number
        return self._find(self._methods, number)

    def routine(self, number: int) -> int | None:
        """Returns the server's number of a routine, if the server has it."""
        return number if self.is_same else self._find(self._routines, number)

    def type(self, number: int) -> int | None:
        """Returns the server's number of a type, if the server has it."""
        if self.is_same:
            return None if number == NO_NUMBER else number
        return self._find(self._types, number)

    def names(self) -> Interface:
        """Returns the interface of the stubs, for messages."""
        try:
            return self.stubs.interface()
        except (BadInterface, OSError):
            # A module that was tampered with has no names; its calls still have numbers.
            return Interface('{"types":[],"routines":[]}')

    def method_name(self, number: int) -> str:
        """Returns the name of a method: ``DataBase.fetch``."""
        names = self.names()
        method = names.method(number)
        return (
            "?" if method is None else f"{names.type_name(names.owners[number])}.{method['name']}"
        )

    def routine_name(self, number: int) -> str:
        """Returns the name of a routine."""
        routines = self.names().routines
        return str(routines[number]["name"]) if 0 <= number < len(routines) else "?"
