"""Stubs at run time: classes that are made from the interface of a server, for notebooks and the
shell.

:func:`connect` opens a session without generated stubs. Its ``stubs`` have a class for each type
and each exception, and a function for each routine, with comments and headings for ``help``. What a
type checker knows of generated stubs it does not know of these.
"""

from __future__ import annotations

import inspect
import keyword
import re
from collections.abc import Callable
from dataclasses import make_dataclass
from types import SimpleNamespace
from typing import Any, Unpack

from . import _tables as t
from . import kinds as k
from .asession import Connecting
from .errors import Signal
from .generated import ConnectOptions, Sender, Stubs
from .interfaces import Known
from .recorder.numbers import NO_NUMBER, BadInterface, Interface
from .session import Options, Session, open_session
from .stubs import Stub, place_of
from .values import AnyObject, Bool, Bytes, Char, Directory, Int, Nothing, Null, Object, Real, Str

_BASIC: dict[str, tuple[k.Kind, type[Stub[Any]]]] = {
    "null": (k.NULL, Null),
    "bool": (k.BOOL, Bool),
    "int": (k.INT, Int),
    "real": (k.REAL, Real),
    "char": (k.CHAR, Char),
    "string": (k.STR, Str),
    "bytes": (k.BYTES, Bytes),
}
_BY_VALUE = ("sequence", "struct", "oneof", "maybe")
_TAKEN = frozenset(("as_", "is_", "release", "self", "session"))
_NESTING_MAX = 64


def _snake(name: str) -> str:
    """Returns a name in snake case, never a keyword."""
    text = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", re.sub(r"\W", "_", name)).lower()
    text = re.sub(r"^_+", "_", text)
    if not text or not (text[0].isalpha() or text[0] == "_"):
        text = f"_{text}"
    return f"{text}_" if keyword.iskeyword(text) or text in _TAKEN else text


def _upper(text: str) -> str:
    """Returns words as the name of a class."""
    name = "".join(word[:1].upper() + word[1:] for word in re.split(r"[^A-Za-z0-9]+", text) if word)
    name = name if name[:1].isalpha() else f"T{name}"
    return f"{name}_" if keyword.iskeyword(name) else name


def _free(name: str, taken: set[str]) -> str:
    while name in taken:
        name += "_"
    taken.add(name)
    return name


class Builder:
    """Makes the classes of an interface."""

    def __init__(self, text: bytes, digest: bytes) -> None:
        self._interface = Interface(text)
        own = self._interface
        basic = tuple(self._basic(own.find_kind(name)) for name in list(_BASIC)[:6])
        builtin = []
        self._builtin: dict[int, type[Stub[Any]]] = {}
        for row, stub in zip(t.BUILTIN, (AnyObject, Directory, Bytes), strict=True):
            number = own.type_numbers.get(row.name, NO_NUMBER)
            methods = own.types[number].get("methods", ()) if number != NO_NUMBER else ()
            if [own.heading(method) for method in methods] != list(row.methods):
                number = NO_NUMBER
            if number == NO_NUMBER:
                builtin.append((NO_NUMBER, own.cell(NO_NUMBER), NO_NUMBER))
                continue
            builtin.append((number, own.cell(number), own.firsts[number]))
            self._builtin[number] = stub
        self.stubs = Stubs(digest, lambda: text, basic, tuple(builtin), own.operators())
        #: All classes and routines by their names in Python.
        self.names: dict[str, Any] = {}
        self._taken: set[str] = set()
        self._classes: dict[int, type[Stub[Any]]] = dict(self._builtin)
        self.stubs.types.update(self._builtin)
        self._make_classes()
        self._make_contents()
        self._make_exceptions()
        self._make_methods()
        for number, routine in enumerate(own.routines):
            name = _free(_snake(routine["name"].replace(".", "_")), self._taken)
            self.names[name] = self._function(name, routine, number, "routine")

    def _basic(self, number: int) -> tuple[int, k.CellNumbers]:
        if number == NO_NUMBER:
            raise BadInterface("the interface has no basic types")
        return number, self._interface.cell(number)

    # Types.

    def _make_classes(self) -> None:
        """Makes the classes, those above others first; the interface has no circles."""
        types = self._interface.types
        left = [
            n
            for n, ty in enumerate(types)
            if ty["kind"] not in (*_BASIC, "cell") and n not in self._builtin
        ]
        while left:
            ready = [n for n in left if not any(s in left for s in types[n].get("supertypes", ()))]
            for number in ready:
                self._make_class(number)
            left = [n for n in left if n not in ready]

    def _make_class(self, number: int) -> None:
        ty = self._interface.types[number]
        above = [self._classes[s] for s in ty.get("supertypes", ()) if s in self._classes]
        above = [cls for cls in above if issubclass(cls, Object) and cls is not AnyObject]
        # Those above another one are bases by it.
        bases = [c for c in above if not any(c is not o and issubclass(o, c) for o in above)] or [
            Object
        ]
        name = _free(_upper((ty.get("names") or [self._spelled(number)])[0]), self._taken)
        doc = f"{ty.get('doc', '')}\n\nTheta: ``{ty['name']}``".strip()
        space = {"__slots__": (), "__doc__": doc, "__module__": "bifrost_stubs"}
        cls: type[Stub[Any]] = type(name, tuple(bases), space)
        cls._repr_html_type = classmethod(_show_type)  # type: ignore[attr-defined]
        self.names[name] = cls
        self._classes[number] = cls
        self.stubs.object(cls, ty["name"], number, self._interface.cell(number))

    def _spelled(self, number: int, depth: int = 0) -> str:
        ty = self._interface.types[number]
        if ty.get("names"):
            return str(ty["names"][0])
        family = str(ty["name"]).partition("[")[0]
        fields = ty.get("fields", ())
        if depth >= _NESTING_MAX:
            return family
        if "element" in ty:
            return f"{family} of {self._spelled(ty['element'], depth + 1)}"
        if ty["kind"] == "map" and len(fields) == 2:
            key, value = (self._spelled(field["type"], depth + 1) for field in fields)
            return f"map of {key} to {value}"
        if fields:
            parts = (
                f"{field['name']} {self._spelled(field['type'], depth + 1)}" for field in fields
            )
            return f"{family} of {' and '.join(parts)}"
        return str(ty["name"]).replace("[", " of ").replace(", ", " and ").replace("]", "")

    def _class(self, number: int) -> type[Stub[Any]]:
        """Returns the class of the stubs of a type."""
        kind = self._interface.types[number]["kind"]
        if kind in _BASIC:
            return _BASIC[kind][1]
        return self._classes.get(number, AnyObject)

    def _kind(self, number: int) -> k.Kind:
        return self._class(number)._kind

    def _make_contents(self) -> None:
        for number, cls in self._classes.items():
            ty = self._interface.types[number]
            contents = self._contents(ty, cls.__name__) if number not in self._builtin else None
            if contents is not None:
                self.stubs.contents(cls, contents, ty["kind"] in _BY_VALUE)

    def _contents(self, ty: dict[str, Any], name: str) -> k.Kind | None:
        fields = ty.get("fields", ())
        kinds = [self._kind(field["type"]) for field in fields]
        match ty["kind"]:
            case "sequence" | "array" | "vector" | "list" if "element" in ty:
                return k.SequenceKind(self._kind(ty["element"]))
            case "map" if len(kinds) == 2:
                return k.MapKind(*kinds)
            case "maybe" if len(kinds) == 2:
                return k.MaybeKind(kinds[1])
            case "struct" | "record":
                taken: set[str] = set()
                names = [_free(_snake(field["name"]), taken) for field in fields]
                shape = self._dataclass(f"{name}Value", names)
                return k.StructKind(shape, kinds, name)
            case "oneof":
                tags = []
                for field, kind in zip(fields, kinds, strict=True):
                    shape = self._dataclass(
                        f"{name}{_upper(field['name'])}", [] if kind is k.NULL else ["value"]
                    )
                    tags.append((shape, kind))
                return k.OneofKind(tags, name)
        return None

    def _dataclass(self, name: str, fields: list[str]) -> type:
        name = _free(name, self._taken)
        shape = make_dataclass(name, fields, frozen=True)
        shape.__module__ = "bifrost_stubs"
        self.names[name] = shape
        return shape

    # Exceptions.

    def _make_exceptions(self) -> None:
        headings: dict[str, list[list[int]]] = {}
        methods = [method for ty in self._interface.types for method in ty.get("methods", ())]
        for heading in (*methods, *self._interface.routines):
            for signal in heading.get("signals", ()):
                values = list(signal.get("values", ()))
                known = headings.setdefault(signal["name"], [])
                if values not in known:
                    known.append(values)
        for theta, all_ in sorted(headings.items()):
            name = _free(_upper(theta), self._taken)
            space = {
                "theta": theta,
                "__doc__": f"Theta: ``{theta}``",
                "__module__": "bifrost_stubs",
            }
            cls: type[Signal[Any]] = type(name, (Signal,), space)
            self.stubs.signal(cls, *[tuple(self._kind(n) for n in values) for values in all_])
            self.names[name] = cls

    # Methods and routines.

    def _make_methods(self) -> None:
        for number, cls in self._classes.items():
            if number in self._builtin:
                continue
            ty = self._interface.types[number]
            kind = cls._kind
            taken: set[str] = set()
            if isinstance(kind, k.ObjectKind) and kind.contents is not None:
                taken.add("get")
                cls.get = _get  # type: ignore[attr-defined]
            sends: dict[str, Any] = {"__slots__": ()}
            if ty.get("actor"):
                taken.add("send")
            for at, method in enumerate(ty.get("methods", ())):
                name = _free(_snake(method["name"]), taken)
                first = self._interface.firsts[number]
                setattr(cls, name, self._function(name, method, first + at, "method"))
                sends[name] = self._function(name, method, first + at, "send")
            if ty.get("actor"):
                sender = type(f"{cls.__name__}Send", (Sender,), sends)
                cls.send = property(sender)  # type: ignore[attr-defined]

    def _function(
        self, name: str, heading: dict[str, Any], number: int, way: str
    ) -> Callable[..., Any]:
        """Makes a method, a message, or a routine, whose first parameter is the session."""
        taken: set[str] = set()
        params = heading.get("params", ())
        names = [_free(_snake(param["name"]), taken) for param in params]
        kinds = [self._kind(param["type"]) for param in params]
        yields = heading.get("yields")
        results = heading.get("results", ()) if yields is None else yields
        classes: tuple[type[Any], ...] = tuple(self._class(n) for n in results)
        one = classes[0] if classes else Nothing
        stubs = self.stubs

        def operands(arguments: tuple[Any, ...], named: dict[str, Any]) -> list[Any]:
            bound = signature.bind(None, *arguments, **named).args[1:]
            return [kind.operand(value) for kind, value in zip(kinds, bound, strict=True)]

        def call(self: Any, *arguments: Any, **named: Any) -> Any:
            made = operands(arguments, named)
            if way == "send":
                return self._send(number, *made)
            if way == "method":
                if yields is not None:
                    return self._iterate(number, classes, *made)
                if len(classes) > 1:
                    return self._call_many(number, classes, *made)
                return self._call(number, one, *made)
            if yields is not None:
                return self.iterate_routine(stubs, number, classes, *made)
            if len(classes) > 1:
                return self.call_routine_many(stubs, number, classes, *made)
            return self.call_routine(stubs, number, one, *made)

        positional = inspect.Parameter.POSITIONAL_OR_KEYWORD
        first = "session" if way == "routine" else "self"
        all_ = [inspect.Parameter(each, positional) for each in (first, *names)]
        signature = inspect.Signature(all_)
        call.__name__ = call.__qualname__ = name
        doc = heading.get("doc", "")
        call.__doc__ = f"{doc}\n\nTheta: ``{self._interface.heading(heading)}``".strip()
        call.__signature__ = signature  # type: ignore[attr-defined]
        return call


def _get(self: Any) -> Any:
    """Takes the contents, as they are when the batch comes to it."""
    return self._get()


def _show_type(cls: type) -> str:
    """Returns a type with its headings and comments, as HTML."""
    rows = []
    for name, member in vars(cls).items():
        if callable(member) and member.__doc__ and not name.startswith("_"):
            text = member.__doc__.replace("&", "&amp;").replace("<", "&lt;").replace("\n\n", "<br>")
            rows.append(f"<li>{text}</li>")
    return f"<b>{cls.__name__}</b><ul>{''.join(rows)}</ul>"


def make_stubs(text: bytes, digest: bytes) -> Stubs:
    """Makes the stubs of an interface. Raises ValueError."""
    builder = Builder(text, digest)
    builder.stubs.names = SimpleNamespace(**builder.names)
    return builder.stubs


#: The interfaces that this process and others of the user have met.
KNOWN = Known(make_stubs)


class DynamicSession(Session):
    """A session whose stubs are made from the server's interface."""

    @property
    def stubs(self) -> SimpleNamespace:
        """The classes and routines of the server's interface, by their names."""
        stubs = self.core.numbers.stubs
        assert isinstance(stubs, Stubs)
        return stubs.names

    def find(self, name: str) -> Any:
        """Looks a well-known object up without telling its type: crosses at once, since the answer
        has the type, and returns a stub of its class, or the value.
        """
        place = place_of(1)
        core = self.core
        admitted = self._admit()
        found = self._one(core.lookup(admitted, None, name, None, "any", place), AnyObject, place)
        self.know(found, "lookup", place)
        self._check(found)
        if found._ref == 0:
            return found._known[1]
        number = core.handles[found._ref].type
        cls: Any = core.numbers.stubs.types.get(number, AnyObject)
        return core.new_object(cls.__new__(cls), found._ref)

    def names(self) -> list[str]:
        """Returns the names of the root directory, each with the type of its object."""
        place = place_of(1)
        for number, routine in enumerate(self.core.numbers.stubs.interface().routines):
            if routine["name"] == "root":
                root = self.call_routine(self.core.numbers.stubs, number, Directory)
                rows = self.collect(root.list(), lambda entry: entry)
                self.know(rows, "names", place)
                return [f"{name}: {kind}" for name, kind in rows.claim()]
        return []


def connect(url: str, **options: Unpack[ConnectOptions]) -> DynamicSession:
    """Opens a session with stubs that are made from the server's interface: ``s = connect(url)``,
    ``db = s.find("database")``, ``help(db.fetch)``.
    """
    return open_session(DynamicSession, None, url, Options(**options), KNOWN)


def aconnect(url: str, **options: Unpack[ConnectOptions]) -> Connecting:
    """As :func:`connect`, with a session to be awaited."""
    return Connecting(None, url, Options(**options), KNOWN)
