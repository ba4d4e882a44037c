"""The failures of calls, structures and sessions, as values.

:class:`Failure` is the type to read first: the failure of one stub. It is no exception: the session
raises a fresh exception for each claim that fails with it. :class:`Closed` is the end of a session.

| part | rule |
| --- | --- |
| cause | a failure has the one inside from which it follows; :meth:`Failure.root` returns the first |
| place | a call carries the place of the program that made it, an object of the caller's |
| sharing | one failure is one object, by whose identity the account of told failures knows it |
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from .. import _tables as t
from .decode import Bad, Handle, Place
from .wire import Value


@dataclass(frozen=True, slots=True)
class CallName:
    """A call, for messages."""

    #: ``DataBase.fetch``; ``?`` when it is not known.
    name: str
    #: Its number in its batch, from 1; 0 if it was not sent.
    number: int
    #: Where the program made it; None for calls that are not known.
    place: object
    #: In which round of each loop around it, outermost first; empty outside loops.
    rounds: tuple[int, ...]

    def __str__(self) -> str:
        text = self.name
        if self.place is not None:
            text += f" at {self.place}"
        match self.rounds:
            case ():
                return text
            case (one,):
                return f"{text}, round {one}"
        return f"{text}, rounds {list(self.rounds)}"


class Failure:
    """The reason why a stub has no result."""

    #: The native library's failure that this one was made of.
    __slots__ = ("_native",)

    @property
    def cause(self) -> Failure | None:
        """The failure that this one follows from."""
        return None

    def chain(self) -> Iterator[Failure]:
        """Yields this failure and all that it follows from."""
        failure: Failure | None = self
        while failure is not None:
            yield failure
            failure = failure.cause

    def root(self) -> Failure:
        """Returns the failure that started it; of several unseen failures the oldest."""
        return list(self.chain())[-1]

    def as_cause(self) -> Failure:
        """Returns the failure as the cause of another one: beyond a depth the root stands for all
        between."""
        for depth, _ in enumerate(self.chain()):
            if depth >= t.CAUSES_MAX:
                return self.root()
        return self


def _caused(text: str, cause: Failure | None) -> str:
    return text if cause is None else f"{text}: {cause}"


@dataclass(eq=False, slots=True, frozen=True)
class Signal(Failure):
    """The call signalled an exception. Values are values and handles, which the stub holds."""

    name: str
    values: tuple[Value | Handle, ...]
    #: The places of a ``failure`` in the server's program; None if the session may not see them.
    places: tuple[Place, ...] | None
    more_places: int
    call: CallName

    def __str__(self) -> str:
        text = f"{self.call} signalled {self.name}"
        if self.values:
            text += f"({', '.join(show_value(value) for value in self.values)})"
        return text


@dataclass(eq=False, slots=True, frozen=True)
class Unhandled(Failure):
    """The call was not run, because an argument is the result of a call that failed."""

    #: The position of the argument: 0 is the receiver, the arguments count from 1.
    argument: int
    reason: Failure | None
    call: CallName

    @property
    def cause(self) -> Failure | None:
        return self.reason

    def __str__(self) -> str:
        what = "receiver" if self.argument == 0 else f"argument {self.argument}"
        return _caused(f"{self.call} was not run because its {what} failed", self.reason)


@dataclass(eq=False, slots=True, frozen=True)
class Refused(Failure):
    """The server refused the call, or the structure around it."""

    number: int
    text: str
    call: CallName

    def __str__(self) -> str:
        row = t.ERRORS.get(self.number)
        name = row.name if row else "error"
        return f"{self.call} was refused: {self.text} ({name}, {self.number})"


@dataclass(eq=False, slots=True, frozen=True)
class NotReached(Failure):
    """The call was not reached: a failure before it ended the batch."""

    reason: Failure | None
    call: CallName

    @property
    def cause(self) -> Failure | None:
        return self.reason

    def __str__(self) -> str:
        return _caused(f"{self.call} was not reached", self.reason)


@dataclass(eq=False, slots=True, frozen=True)
class NotSent(Failure):
    """The client refused the call, the marker, or the structure around it. Nothing of it was
    sent.
    """

    call: CallName
    reason: Failure

    @property
    def cause(self) -> Failure | None:
        return self.reason

    def __str__(self) -> str:
        return f"{self.call} was not sent: {self.reason}"


@dataclass(eq=False, slots=True, frozen=True)
class Unseen(Failure):
    """Failures that the program was not told of before, oldest first."""

    failures: tuple[Failure, ...]
    omitted: int
    #: The commit or transaction that they prevented; None at a claim or a flush.
    call: CallName | None

    @property
    def cause(self) -> Failure | None:
        return self.failures[0] if self.failures else None

    def __str__(self) -> str:
        text = ""
        if self.call is not None:
            text = f"{self.call} was refused, and the transaction is undone: "
        count = len(self.failures) + self.omitted
        text += "a failure was not seen" if count == 1 else f"{count} failures were not seen"
        if self.failures:
            text += ": " + "; ".join(str(failure) for failure in self.failures)
        return text


@dataclass(eq=False, slots=True, frozen=True)
class Misused(Failure):
    """The stub was used in a way that makes no sense."""

    misuse: int

    @property
    def name(self) -> str:
        """The name of the misuse."""
        return t.MISUSES[self.misuse - 1].name

    def __str__(self) -> str:
        return t.MISUSES[self.misuse - 1].text


@dataclass(eq=False, slots=True, frozen=True)
class Missing(Failure):
    """The server does not have the method, routine or type, or has it with another heading."""

    name: str

    def __str__(self) -> str:
        return f"the server has no {self.name} with the heading of the stub"


@dataclass(eq=False, slots=True, frozen=True)
class Ended(Failure):
    """The connection is gone, and with it the session."""

    why: Closed

    def __str__(self) -> str:
        return str(self.why)


class Closed:
    """The reason why a session ended."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class ByClient(Closed):
    """The client closed it."""

    def __str__(self) -> str:
        return "the session was closed"


@dataclass(frozen=True, slots=True)
class GivenBack(Closed):
    """The client has given it back to its pool; its connection goes on with other work."""

    def __str__(self) -> str:
        return "the session was given back to its pool: take values out of it, no stubs"


@dataclass(frozen=True, slots=True)
class ByConnection(Closed):
    """The bytes stopped: the caller's error."""

    error: BaseException

    def __str__(self) -> str:
        return str(self.error) or type(self.error).__name__


@dataclass(frozen=True, slots=True)
class ByServer(Closed):
    """The server ended it. ``position`` is the number of the command that is to blame, or 0."""

    number: int
    position: int
    text: str

    def __str__(self) -> str:
        return f"the server ended the session: {self.text} (error {self.number})"


@dataclass(frozen=True, slots=True)
class ByBadReply(Closed):
    """The bytes received are no reply."""

    error: Bad

    def __str__(self) -> str:
        return f"the server's reply cannot be read: {self.error}"


@dataclass(frozen=True, slots=True)
class ByWrongReply(Closed):
    """The reply is not the one to the question."""

    what: str

    def __str__(self) -> str:
        return f"the server sent an unexpected reply: {self.what}"


class Told(Exception):
    """Carries a failure out of the recorder; the session turns it into an exception of its own."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure)
        self.failure = failure


class GreetError(Exception):
    """No session came of a greeting: ``why`` says for which reason."""

    def __init__(self, why: Closed | str) -> None:
        super().__init__(str(why))
        self.why = why


@dataclass(frozen=True, slots=True)
class HistoryEntry:
    """An entry of the exception history: the number of the batch in the session, and the
    failure.
    """

    batch: int
    failure: Failure


def misused(misuse: int) -> Misused:
    """Makes the failure of a misuse."""
    return Misused(misuse)


def show_value(value: Value | Handle) -> str:
    """Returns a value of an exception as text."""
    if isinstance(value, Handle):
        return "an object"
    tag, payload = value
    if tag == t.TAG_BYTES:
        return f'x"{payload.hex()}"'  # type: ignore[attr-defined]
    if tag == t.TAG_BOOL:
        return "true" if payload else "false"
    if tag in (t.TAG_NIL, t.TAG_COMPOUND):
        return "nil"
    if tag == t.TAG_STRING:
        return (
            '"' + str(payload).replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'
        )
    return repr(payload)
