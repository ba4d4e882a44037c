"""The part of this package that generated stubs use. Programs need it not."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, TypedDict, Unpack

from . import native
from .asession import Connecting
from .errors import Signal
from .kinds import (
    BOOL,
    BYTES,
    CHAR,
    INT,
    NULL,
    REAL,
    STR,
    BuiltinKind,
    CellNumbers,
    Kind,
    MapKind,
    MaybeKind,
    ObjectKind,
    OneofKind,
    SequenceKind,
    StructKind,
)
from .recorder.calls import Operand
from .recorder.numbers import Stubs as _Stubs
from .session import Options, Session, open_session
from .stubs import Stub, place_of
from .values import AnyObject, Directory

arg_null = NULL.operand
arg_bool = BOOL.operand
arg_real = REAL.operand
arg_char = CHAR.operand
arg_bytes = BYTES.operand


def arg_int(value: Any) -> Operand:
    """Returns an int, or what stands for one, as an operand."""
    # Its size is compared when it is recorded.
    return value if type(value) is int else INT.operand(value)


def arg_str(value: Any) -> Operand:
    """Returns a text, or what stands for one, as an operand."""
    return value if type(value) is str else STR.operand(value)


if native.module is not None:
    # Those of the native library, whose operands have tags.
    arg_int, arg_str = INT.operand, STR.operand

ANY: Kind = AnyObject._kind
DIRECTORY: Kind = Directory._kind


arg_any = ANY.operand


def arg(cls: type[Stub[Any]], value: Any) -> Operand:
    """Returns an object of a class, or what stands for one, as an operand."""
    if isinstance(value, cls):
        return value
    return cls._kind.operand(value)


def kind(cls: type[Stub[Any]]) -> Kind:
    """Returns the kind of a class of stubs."""
    return cls._kind


def sequence(element: Kind) -> Kind:
    """Returns the contents of a sequence, array, vector or list."""
    return SequenceKind(element)


def pairs(key: Kind, value: Kind) -> Kind:
    """Returns the contents of a map."""
    return MapKind(key, value)


def maybe(some: Kind) -> Kind:
    """Returns the contents of a ``maybe``."""
    return MaybeKind(some)


def struct(shape: type, *kinds: Kind) -> Kind:
    """Returns the contents of a struct or record."""
    return StructKind(shape, kinds, shape.__name__)


def oneof(name: str, *tags: tuple[type, Kind]) -> Kind:
    """Returns the contents of a oneof."""
    return OneofKind(tags, name)


def beside(module: str, name: str) -> Callable[[], str]:
    """Returns a function that reads a file beside a module."""
    return lambda: Path(module).with_name(name).read_text(encoding="utf-8")


class Stubs(_Stubs):
    """The constants of a generated module."""

    __slots__ = ("names",)

    #: The classes and routines of stubs that were made at run time.
    names: SimpleNamespace

    def object(self, cls: type[Stub[Any]], name: str, number: int, cell: CellNumbers) -> None:
        """Tells the type of a class of stubs."""
        cls._kind = ObjectKind(cls, name, self, number, cell)
        self.types[number] = cls

    def contents(self, cls: type[Stub[Any]], contents: Kind, by_value: bool = False) -> None:
        """Tells the contents of a class of stubs."""
        kind = cls._kind
        assert isinstance(kind, ObjectKind)
        kind.contents = contents
        kind.by_value = by_value

    def signal(self, cls: type[Signal[Any]], *headings: tuple[Kind, ...]) -> None:
        """Tells the values of an exception."""
        cls._headings = headings
        self.signals[cls.theta] = cls


class Sender:
    """Sends messages to an actor that nobody awaits."""

    __slots__ = ("_actor",)

    def __init__(self, actor: Any) -> None:
        self._actor = actor

    def _send(self, method: int, *operands: Operand) -> None:
        """Records a message."""
        self._actor._core.owner.send(self._actor, method, operands, place_of(2))


class ConnectOptions(TypedDict, total=False):
    """The settings with which a session is opened."""

    #: The token, shown over TCP and TLS to a server that asks for it.
    token: str
    #: The client's name in the server's logs.
    name: str
    #: The longest time for connecting, and for the answer to each flush, in seconds; 30 by default.
    timeout: float
    #: The file of the authorities, in PEM, that may sign the certificates of servers. Default: that
    #: of the variable ``BIFROST_CA``, or else the system's.
    authorities: str | os.PathLike[str]
    #: The files of the client's own certificate and key, in PEM.
    certificate: str | os.PathLike[str]
    key: str | os.PathLike[str]
    #: The longest reply that is read, in bytes.
    reply_bytes_max: int
    #: The number of futures after which a batch is flushed by itself.
    remap_futures: int
    #: The program's place in a trace: the value of a ``traceparent`` of W3C Trace Context.
    trace_parent: str
    #: The token for traders. Default: that of the variable ``BIFROST_TRADER_TOKEN``.
    trader_token: str
    #: True if the native library must record, False if it must not. Default: it does if it is there.
    native: bool


def connect(stubs: Stubs, url: str, **options: Unpack[ConnectOptions]) -> Session:
    """Opens a session for the stubs of a module."""
    from .importing.search import import_session
    from .importing.url import is_trader

    if is_trader(url):
        return import_session(stubs, url, Options(**options))
    return open_session(Session, stubs, url, Options(**options))


def aconnect(stubs: Stubs, url: str, **options: Unpack[ConnectOptions]) -> Connecting:
    """Opens a session to be awaited for the stubs of a module."""
    return Connecting(stubs, url, Options(**options))


__all__ = [
    "ANY",
    "BOOL",
    "BYTES",
    "CHAR",
    "DIRECTORY",
    "INT",
    "NULL",
    "REAL",
    "STR",
    "BuiltinKind",
    "ConnectOptions",
    "Connecting",
    "Sender",
    "Stubs",
    "aconnect",
    "arg",
    "arg_any",
    "arg_bool",
    "arg_bytes",
    "arg_char",
    "arg_int",
    "arg_null",
    "arg_real",
    "arg_str",
    "beside",
    "connect",
    "kind",
    "maybe",
    "oneof",
    "pairs",
    "sequence",
    "struct",
]
