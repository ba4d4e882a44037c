"""Control structures as context managers: they run at the server, in one crossing.

The block of each is run once here, while the structure is recorded. An exception that leaves a
block drops the structure: nothing of it is sent. A stub made inside a structure ends with it; a
cell carries values out.

A ``break`` in a Python loop around the ``with``, or a ``return`` in its block, cannot be told from
the end of the block: the structure ends there, and is sent.
"""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Any

from . import kinds as k
from .recorder import errors as e
from .recorder import structures as st
from .recorder.state import Slot
from .stubs import Iter
from .values import Bool, Str

if TYPE_CHECKING:
    from .recording import Recording

#: Stands for a structure that `else_` and handlers cannot follow.
_NONE = st.Ending("if", -1)


class BlockError(RuntimeError):
    """A context manager of a structure was entered twice."""


class Block:
    """A structure, or a further block of one."""

    __slots__ = ("_place", "_session", "_state")

    def __init__(self, session: Recording, place: object) -> None:
        self._session = session
        self._place = place
        self._state = 0

    def _open(self) -> Any:
        raise NotImplementedError

    def __enter__(self) -> Any:
        if self._state:
            raise BlockError("a structure is recorded once: write the `with` statement again")
        self._state = 1
        depth = self._session.core.depth
        try:
            return self._open()
        except BaseException:
            # A condition that raises leaves nothing either.
            while self._session.core.depth > depth:
                self._session.core.abandon()
            raise

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        core = self._session.core
        if kind is None:
            self._session._ended = core.end()
        else:
            core.abandon()
            self._session._ended = None


class IfOf(Block):
    """A choice."""

    __slots__ = ("_condition",)

    def __init__(
        self, session: Recording, condition: Bool | Callable[[], Bool], place: object
    ) -> None:
        super().__init__(session, place)
        self._condition: Any = condition

    def _open(self) -> None:
        core = self._session.core
        condition, self._condition = self._condition, None
        core.open(self._session._admit(), st.IF, self._place)
        test = (
            condition
            if isinstance(condition, Slot)
            else condition()
            if callable(condition)
            else condition
        )
        core.condition(k.BOOL.operand(test), self._place)


class WhileOf(Block):
    """A loop with a condition."""

    __slots__ = ("_condition",)

    def __init__(self, session: Recording, condition: Callable[[], Bool], place: object) -> None:
        super().__init__(session, place)
        self._condition = condition

    def _open(self) -> None:
        core = self._session.core
        core.open(self._session._admit(), st.WHILE, self._place)
        core.condition(k.BOOL.operand(self._condition()), self._place)


class ForeachOf(Block):
    """A loop over an iterator."""

    __slots__ = ("_admitted", "_iterator")

    def __init__(
        self,
        session: Recording,
        iterator: Iter[Any],
        place: object,
        admitted: e.Failure | bool | None = True,
    ) -> None:
        super().__init__(session, place)
        self._iterator: Iter[Any] | None = iterator
        self._admitted = admitted

    def _open(self) -> Any:
        session, iterator, place = self._session, self._iterator, self._place
        self._iterator = None
        assert iterator is not None
        core = session.core
        admitted = session._admit() if isinstance(self._admitted, bool) else self._admitted
        foreign = iterator.core is not core
        stubs = None if foreign else iterator.stubs
        recorded = core.foreach(
            admitted,
            iterator.receiver,
            iterator.number,
            stubs,
            iterator.operands,
            place,
            iterator.place,
        )
        if not iterator.variables and not isinstance(recorded, e.Failure):
            # The call takes a number all the same.
            core.skip_result(recorded, iterator.place)
        variables = session._results(recorded, iterator.variables, iterator.place)
        return variables[0] if len(variables) == 1 else tuple(variables)


class ExceptOf(Block):
    """A block whose exceptions are handled."""

    __slots__ = ()

    def _open(self) -> None:
        self._session.core.open(self._session._admit(), st.EXCEPT, self._place)


class _Further(Block):
    """A further block of the structure that has just ended."""

    __slots__ = ()
    _follows = ""

    def _reopen(self, block: st.Block) -> None:
        core, ended = self._session.core, self._session._ended
        if ended is None or ended.kind != self._follows:
            # Refused as one that does not follow its structure.
            ended = _NONE
        core.reopen(ended, block, self._place)


class ElseBlockOf(_Further):
    """The other case of a choice."""

    __slots__ = ()
    _follows = st.IF

    def _open(self) -> None:
        self._reopen(st.ElseBlock())

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        super().__exit__(kind, error, trace)
        # Nothing follows it.
        self._session._ended = None


class WhenOf(_Further):
    """The handler of an exception."""

    __slots__ = ("_kinds", "_name")
    _follows = st.EXCEPT

    def __init__(
        self, session: Recording, name: str, kinds: tuple[k.Kind, ...], place: object
    ) -> None:
        super().__init__(session, place)
        self._name = name
        self._kinds = kinds

    def _open(self) -> Any:
        core = self._session.core
        numbers = tuple(kind.number(core.numbers.stubs) for kind in self._kinds)
        self._reopen(st.WhenBlock(self._name, numbers))
        return tuple(
            [core.variable(kind.stub.__new__(kind.stub), self._place) for kind in self._kinds]
        )


class OthersOf(_Further):
    """The handler of all other exceptions."""

    __slots__ = ()
    _follows = st.EXCEPT

    def _open(self) -> Str:
        self._reopen(st.OthersBlock(True))
        name = Str.__new__(Str)
        self._session.core.variable(name, self._place)
        return name
