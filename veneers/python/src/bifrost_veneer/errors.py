"""The exceptions of this package.

:class:`BifrostError` is above all of them.

| exception | when |
| --- | --- |
| a class of the stubs, :class:`Signal` | a call has signalled this exception |
| :class:`Refused`, :class:`Conflict` | the server refused a call, a commit, a batch |
| :class:`Unseen` | failures of which the program was not told; a group of all of them |
| :class:`Misuse` | a stub was used in a way that makes no sense; the text says what to write |
| :class:`Missing` | the server does not have the method |
| :class:`Closed` | the session ended: the server or the connection did |
| :class:`ConnectError`, :class:`BadToken` | there is no session |

A claim that depends on a failure raises the first failure, freshly made; the calls in between are
its notes (``__notes__``), and :attr:`BifrostError.failure` is the whole chain.
"""

from __future__ import annotations

import linecache
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

from . import _tables as t
from .kinds import STR, Kind, Mismatch, ObjectKind
from .recorder import errors as e
from .recorder.decode import Handle, Place
from .recorder.wire import Value

if TYPE_CHECKING:
    from types import CodeType

    from .recorder.crossing import Recorder

V = TypeVar("V")


class SourcePlace:
    """The place of a call in the source of the program."""

    __slots__ = ("code", "lasti")

    def __init__(self, code: CodeType, lasti: int) -> None:
        self.code = code
        self.lasti = lasti

    @property
    def file(self) -> str:
        """The file."""
        return self.code.co_filename

    @property
    def line(self) -> int:
        """The line, from 1; 0 if it is not known."""
        for start, end, line in self.code.co_lines():
            if start <= self.lasti < end:
                return line or 0
        return 0

    @property
    def text(self) -> str:
        """The line of the source, if it can be read."""
        return linecache.getline(self.file, self.line).strip()

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"

    def __repr__(self) -> str:
        return f"<{self}>"


class BifrostError(Exception):
    """A failure of a call, a structure or a session."""

    #: The failure with all that it follows from; None if no session was opened.
    failure: e.Failure | None = None

    @property
    def call(self) -> e.CallName | None:
        """The call that failed, with its place in the source, if it is one."""
        return getattr(self.failure, "call", None) if self.failure is not None else None


class Signal(BifrostError, Generic[V]):
    """An exception that a call has signalled. Stubs have a class for each name.

    The type parameter is that of the values in a handler: ``with s.when(NotFound) as (name,
    count)``.
    """

    #: The name of the exception in Theta; empty for exceptions that no stub declares.
    theta: ClassVar[str] = ""
    #: The kinds of its values, by each of its headings.
    _headings: ClassVar[tuple[tuple[Kind, ...], ...]] = ()

    #: The name of the exception in Theta.
    signal: str = ""
    #: The values of the exception; objects are stubs.
    values: Any = ()
    #: The places of a ``failure`` in the server's program, the innermost first, if the session may
    #: see them.
    places: Sequence[Place] = ()


class Failure(Signal[Any]):
    """The exception that any call may signal: a text for people.

    Theta: ``failure (string)``
    """

    theta = "failure"
    _headings = ((STR,),)
    values: tuple[str]


class WrongType(Signal[tuple[()]]):
    """The exception of :meth:`Session.as_`: the object has another type.

    Theta: ``wrong_type``
    """

    theta = "wrong_type"
    _headings = ((),)
    values: tuple[()]


class Refused(BifrostError):
    """The server refused the call, or the structure around it."""

    #: The number of the error, and its name in the specification.
    number: int = 0
    name: str = ""


class Conflict(Refused):
    """Other transactions have conflicted with this one, which can be tried again."""


class NotReached(BifrostError):
    """The call was not reached: a failure before it ended the batch, and the server did not list
    it.
    """


class Unhandled(BifrostError):
    """The call was not run, because an argument is the result of a call that failed."""


class Misuse(BifrostError, TypeError):
    """A stub was used in a way that makes no sense. Nothing of the call was sent."""

    #: The name of the misuse.
    name: str = ""


class Missing(BifrostError, LookupError):
    """The server does not have the method, routine or type, or has it with another heading."""


class Closed(BifrostError, ConnectionError):
    """The session ended, and all its stubs say so from now on."""

    #: The reason.
    why: e.Closed | None = None


class Unseen(ExceptionGroup[BifrostError], BifrostError):
    """Failures of which the program was not told before, oldest first."""

    #: The number of failures beyond those in the group.
    omitted: int = 0

    @property
    def failures(self) -> list[BifrostError]:
        """The failures of the group, oldest first; those of groups in it one by one."""
        found: list[BifrostError] = []
        for one in self.exceptions:
            if isinstance(one, Unseen):
                found.extend(one.failures)
            elif isinstance(one, BifrostError):
                found.append(one)
        return found

    def derive(self, excs: Sequence[Any]) -> Any:
        return Unseen(self.message, excs)


class ConnectError(BifrostError, ConnectionError):
    """There is no session: the address is none, nobody answers, or the server refused."""

    #: The number of the server's error, if it said one.
    number: int = 0


class BadToken(ConnectError):
    """The token is not valid, or the server asks for one."""


class Interrupted(BifrostError):
    """Recording or waiting was interrupted, as by Ctrl-C."""


def _take_values(failure: e.Signal, headings: Sequence[Sequence[Kind]], core: Recorder) -> Any:
    for kinds in headings:
        if len(kinds) != len(failure.values):
            continue
        source = iter(failure.values)
        try:
            # Exceptions have objects as values, no contents.
            takes = [
                kind.take_object if isinstance(kind, ObjectKind) else kind.take for kind in kinds
            ]
            return tuple([take(source, core) for take in takes])
        except Mismatch:
            continue
    return tuple([_plain(value, core) for value in failure.values])


def _plain(value: Value | Handle, core: Recorder) -> Any:
    """Returns a value whose heading is not known; an object is None."""
    if isinstance(value, Handle) or value[0] == t.TAG_COMPOUND:
        return None
    return value[1]


def make_exception(failure: e.Failure, core: Recorder) -> BifrostError:
    """Makes a fresh exception for the first failure of a chain, with those in between as notes."""
    if isinstance(failure, e.Unseen):
        return _unseen(failure, core)
    chain = list(failure.chain())
    root = chain[-1]
    for place, one in enumerate(chain):
        if isinstance(one, e.Unseen):
            root, chain = one, chain[: place + 1]
            break
    error = _of_root(root, core)
    error.failure = failure
    for one in reversed(chain[:-1]):
        error.add_note(_note(one))
    return error


def _note(failure: e.Failure) -> str:
    match failure:
        case e.Unhandled(argument, _, call):
            what = "receiver" if argument == 0 else f"argument {argument}"
            return f"{call} was not run because its {what} failed"
        case e.NotReached(_, call):
            return f"{call} was not reached"
        case e.NotSent(call, _):
            return f"{call} was not sent"
    return str(failure)


def _of_root(root: e.Failure, core: Recorder) -> BifrostError:
    error: BifrostError
    match root:
        case e.Signal():
            return _signal(root, core)
        case e.Refused(number, _, _):
            row = t.ERRORS.get(number)
            refused = (Conflict if number == t.ERROR_CONFLICT else Refused)(str(root))
            refused.number, refused.name = number, row.name if row else ""
            return refused
        case e.Unseen():
            return _unseen(root, core)
        case e.Misused():
            misuse = Misuse(str(root))
            misuse.name = root.name
            return misuse
        case e.Missing():
            return Missing(str(root))
        case e.Ended(why):
            closed = Closed(str(why))
            closed.why = why
            if isinstance(why, e.ByConnection):
                closed.__cause__ = why.error
            return closed
        case e.NotReached():
            error = NotReached(str(root))
        case _:
            error = Unhandled(str(root))
    return error


def _signal(root: e.Signal, core: Recorder) -> BifrostError:
    classes: dict[str, type[Signal[Any]]] = core.numbers.stubs.signals
    shape = classes.get(root.name) or {"failure": Failure, "wrong_type": WrongType}.get(
        root.name, Signal
    )
    error = shape(str(root))
    error.signal = root.name
    error.values = _take_values(root, shape._headings, core)
    if root.places is not None:
        error.places = root.places
        for place in root.places:
            error.add_note(f"  at {place}")
        if root.more_places:
            error.add_note(f"  ... {root.more_places} more")
    return error


def _unseen(failure: e.Unseen, core: Recorder) -> Unseen:
    errors = [make_exception(one, core) for one in failure.failures]
    if not errors:
        errors.append(BifrostError("failures that the server has only counted"))
    group = Unseen(str(failure), errors)
    group.failure = failure
    group.omitted = failure.omitted
    return group
