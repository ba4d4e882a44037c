"""Batched procedures: a batch with a name, kept by the session."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

from .recorder import errors as e
from .recorder.numbers import Heading, Stubs
from .stubs import Stub, place_of
from .values import Nothing

if TYPE_CHECKING:
    from .recording import Recording

P = TypeVar("P", bound=Stub[Any])


def make_heading(
    params: tuple[type[Stub[Any]], ...], result: type[Stub[Any]] | None, stubs: Stubs
) -> Heading:
    """Returns the types of a procedure, by the client's numbers."""
    numbers = tuple(param._kind.number(stubs) for param in params)
    return Heading(numbers, None if result is None else result._kind.number(stubs))


class Procedure(Generic[P]):
    """A procedure of the session; calling it records a call."""

    __slots__ = ("_params", "_refused", "_result", "_session", "number")

    def __init__(
        self,
        session: Recording,
        number: int,
        params: tuple[type[Stub[Any]], ...],
        result: type[P] | None,
    ) -> None:
        self._session = session
        #: Its number in the session.
        self.number = number
        self._params = params
        self._result = result
        #: The reason why it was not sent: then another one has its number.
        self._refused: e.Failure | None = None

    def moved(self, session: Recording) -> Procedure[P]:
        """Returns the procedure in a session that goes on with this one."""
        other = Procedure(session, self.number, self._params, self._result)
        other._refused = self._refused
        return other

    def __call__(self, *arguments: Any) -> P:
        """Records a call."""
        return self._call(arguments, place_of(1))

    def _call(self, arguments: tuple[Any, ...], place: object) -> P:
        if len(arguments) != len(self._params):
            raise TypeError(
                f"the procedure takes {len(self._params)} arguments, not {len(arguments)}"
            )
        operands = [p._kind.operand(a) for p, a in zip(self._params, arguments, strict=True)]
        session = self._session
        admitted = session._admit()
        recorded = session.core.call_procedure(
            admitted, self.number, self._refused, operands, place
        )
        result: type[Stub[Any]] = Nothing if self._result is None else self._result
        return cast(P, session._one(recorded, result, place))
