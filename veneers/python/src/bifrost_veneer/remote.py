"""Functions that run at the server: compiled from their syntax tree to a batched procedure.

    @remote
    def busy(db: DataBase, limit: int) -> int:
        n = 0                      # assigned again: a cell
        for user in db.users():
            if user.visits() <= limit:
                continue
            n += user.visits()
        return n

    print(busy(db, 3).claim())

The function is checked when it is decorated: what has no meaning at the server is refused with its
file, line and column, and never guessed. Its body is recorded once in each session, when it is
called first; each call is one command.

| allowed | |
| --- | --- |
| statements | assignment to names, ``if``, ``while``, ``for`` over an iterator of the server or ``range``, ``break``, ``continue``, ``return``, ``try`` with ``except``, ``pass``, calls |
| expressions | names, constants, operators, comparisons (chained too), ``and``, ``or``, ``not``, ``a if c else b``, calls of methods, of routines (without their session), of other remote functions and of itself, dataclasses, lists and tuples as arguments |
| a result | ``return [(x.name(), y) for x in ... if ... for y in ...]`` in a function that returns ``list[...]`` |

Names of the module are constants. A name that is assigned more than once is a cell at the server.

A function that returns a list has rows as its result (:class:`RowsOf`): a table ends with its
batch, so each call records the body anew, and it is no part of another function.
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar, cast, get_args, get_origin, get_type_hints, overload

from . import kinds as k
from .blocks import IfOf
from .cells import Rows
from .procedures import Procedure, make_heading
from .recorder.structures import PROCEDURE
from .recording import Recording
from .remote_body import Body, Trial
from .remote_source import Check, Source, returned, returns
from .stubs import Stub, place_of
from .values import Bool, Bytes, Int, Nothing, Real, Str

A = TypeVar("A")
P = TypeVar("P", bound=Stub[Any])

_TYPES: dict[Any, type[Stub[Any]]] = {bool: Bool, int: Int, float: Real, str: Str, bytes: Bytes}


@dataclass(frozen=True)
class _Heading:
    """The types of a function: those of its parameters, and of its result or its columns."""

    types: tuple[type[Stub[Any]], ...]
    result: type[Stub[Any]] | None
    columns: tuple[type[Stub[Any]], ...] | None


class RowsOf:
    """A function in a session whose result is a table of rows. Calling it records its body."""

    def __init__(self, remote: Remote[Any], session: Recording) -> None:
        self._remote = remote
        self._session: Any = session

    def __call__(self, *arguments: Any) -> Any:
        """Records the body, and returns the table that it fills."""
        return self._call(arguments, place_of(1))

    def _call(self, arguments: tuple[Any, ...], place: object) -> Any:
        remote, session = self._remote, self._session
        heading = remote._heading
        if len(arguments) != len(heading.types):
            raise TypeError(
                f"the function takes {len(heading.types)} arguments, not {len(arguments)}"
            )
        parameters = []
        for cls, argument in zip(heading.types, arguments, strict=True):
            kind: k.Kind = cls._kind
            # What is no argument is refused before anything is recorded.
            kind.operand(argument)
            is_value = not isinstance(argument, Stub) and isinstance(kind, k.Basic)
            parameters.append(session.value(argument, cls) if is_value else argument)
        remote._try(session)
        remote._define_called(session)
        rows = session.rows(*(heading.columns or ()))
        depth = session.core.depth
        try:
            # A structure is sent whole, or not at all; and its first exception ends it.
            with IfOf(session, session.value(True), place):
                Body(remote, session, None, rows).run(parameters)
        except BaseException:
            while session.core.depth > depth:
                session.core.abandon()
            raise
        return rows


class Remote(Generic[P]):
    """A function that runs at the server. Calling it records a call; the session is that of an
    argument.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function
        self._source = Source(function)
        check = Check(self._source)
        self._assigned = check.assigned
        self._tables = check.tables
        self.__name__ = function.__name__
        self.__qualname__ = function.__qualname__
        self.__doc__ = function.__doc__
        self.__module__ = function.__module__
        self._resolved: _Heading | None = None
        #: The types of conditional expressions, once the body was recorded on trial.
        self._choices: dict[ast.IfExp, k.Kind] = {}
        self._is_open = False

    @property
    def _names(self) -> dict[str, Any]:
        """The names around the function."""
        function = self._function
        names: dict[str, Any] = dict(function.__globals__)
        for name, cell in zip(
            function.__code__.co_freevars, function.__closure__ or (), strict=True
        ):
            try:
                names[name] = cell.cell_contents
            except ValueError:
                # Not assigned yet: the function itself, when it is decorated.
                continue
        return names

    def _global(self, node: ast.expr) -> Any:
        """Returns a constant of the module."""
        assert isinstance(node, ast.Name)
        names = self._names
        if node.id == self.__name__ and node.id not in names:
            return self
        value = names.get(node.id, getattr(builtins, node.id, None))
        if value is None:
            self._source.refuse(node, f"there is no `{node.id}`: write it above the function")
        return value

    @property
    def _heading(self) -> _Heading:
        if self._resolved is None:
            node = self._source.node
            try:
                hints = get_type_hints(self._function)
            except NameError as error:
                self._source.refuse(
                    node, f"an annotation is not known: {error}; write a type of the stubs"
                )
            types = []
            for name in self._source.params:
                types.append(self._type(node, hints.get(name), f"the parameter `{name}`"))
            result = hints.get("return")
            columns = self._list(result)
            returned = None
            if columns is None and result not in (None, type(None)):
                returned = self._type(node, result, "the result")
            self._check_result(returned, columns)
            self._resolved = _Heading(tuple(types), returned, columns)
        return self._resolved

    def _list(self, result: Any) -> tuple[type[Stub[Any]], ...] | None:
        """Returns the types of the columns, if the result is a list."""
        if get_origin(result) is not list:
            return None
        (row,) = get_args(result)
        cells = get_args(row) if get_origin(row) is tuple else (row,)
        return tuple(
            self._type(self._source.node, cell, "a column of the result") for cell in cells
        )

    def _check_result(self, result: type[Stub[Any]] | None, columns: object) -> None:
        node = self._source.node
        if columns is None:
            if self._tables:
                self._source.refuse(
                    self._tables[0],
                    "the result is a list: write `-> list[...]`, with the types of a row",
                )
            if result is not None and not returns(node.body):
                self._source.refuse(
                    node, "the function does not return on every path: write a `return` at its end"
                )
            return
        for one in returned(node.body):
            if one is not node.body[-1] or one not in self._tables:
                self._source.refuse(
                    one,
                    "a list is returned once, at the end: write `return [... for ...]` as the last line",
                )
        if not isinstance(node.body[-1], ast.Return):
            self._source.refuse(
                node, "the result is a list: write `return [... for ...]` as the last line"
            )

    def _type(self, node: ast.AST, hint: Any, what: str) -> type[Stub[Any]]:
        found = _TYPES.get(hint, hint) if isinstance(hint, type) else None
        if found is None or not issubclass(found, Stub):
            self._source.refuse(
                node,
                f"{what} needs a type: write one of the stubs, or int, float, bool, str, bytes",
            )
        return found

    @property
    def _result(self) -> type[Stub[Any]] | None:
        return self._heading.result

    @property
    def _columns(self) -> tuple[type[Stub[Any]], ...] | None:
        return self._heading.columns

    def on(self, session: Recording) -> Callable[..., P]:
        """Returns the function in a session. Its procedure is defined by the first call."""
        return self._on(session)

    def _on(self, session: Recording) -> Procedure[P] | RowsOf:
        if self._columns is None:
            return self._procedure(session)
        return RowsOf(self, session)

    def _procedure(self, session: Recording) -> Procedure[P]:
        known: dict[Remote[Any], Procedure[Any]] = session.__dict__.setdefault("_remotes", {})
        if self not in known:
            if self._is_open:
                self._source.refuse(
                    self._source.node, "functions that call each other have no order: write one"
                )
            known[self] = self._define(session)
        return known[self]

    def _define(self, session: Recording) -> Procedure[P]:
        types, result = self._heading.types, self._heading.result
        self._try(session)
        self._is_open = True
        try:
            self._define_called(session)
            core = session.core
            place = f"{self._source.file}:{self._source.line(self._source.node)}"
            name = f"{self.__module__}.{self.__qualname__}"
            number = core.open_procedure(
                session._admit(), name, make_heading(types, result, core.numbers.stubs), place
            )
            this: Procedure[Any] = Procedure(session, number, types, result)
            results = session._procedure_results
            results.append(None if result is None else result._kind)
            try:
                variables: list[Any] = [core.variable(cls.__new__(cls), place) for cls in types]
                Body(self, session, this).run(variables)
                del variables
            except BaseException:
                while core.scopes and core.scopes[-1].kind != PROCEDURE:
                    core.abandon()
                core.abandon()
                raise
            finally:
                results.pop()
            this._refused = core.close_procedure()
            return this
        finally:
            self._is_open = False

    def _try(self, session: Recording) -> None:
        """Records the body on trial, if it has conditional expressions whose types are not known."""
        choices = [node for node in ast.walk(self._source.node) if isinstance(node, ast.IfExp)]
        if isinstance(session, Trial) or all(node in self._choices for node in choices):
            return
        trial, heading = Trial(session), self._heading
        if heading.columns is None:
            self._procedure(trial)
            return
        parameters: list[Any] = []
        place = f"{self._source.file}:{self._source.line(self._source.node)}"

        def body(this: object, *variables: Any) -> None:
            parameters.extend(variables)
            Body(self, trial, None, rows).run(parameters)

        rows = trial.rows(*heading.columns)
        trial.procedure(place, heading.types, None, body)

    def _define_called(self, session: Recording) -> None:
        """Defines the functions that are called: no procedure can be defined inside another, or in
        a structure.
        """
        for node in ast.walk(self._source.node):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                called = self._names.get(node.func.id)
                if isinstance(called, Remote) and called is not self and called._columns is None:
                    called._procedure(session)

    def __call__(self, *arguments: Any) -> P:
        """Records a call. The session is that of the first argument that has one; else see
        :meth:`on`.
        """
        for argument in arguments:
            if isinstance(argument, Stub):
                owner: Recording = argument._core.owner
                return cast(P, self._on(owner)._call(arguments, place_of(1)))
        raise TypeError(f"no argument says which session it is: write `{self.__name__}.on(s)(...)`")

    def __repr__(self) -> str:
        return f"<remote function {self.__name__}>"


@overload
def remote(function: Callable[..., bool]) -> Remote[Bool]: ...  # type: ignore[overload-overlap]
@overload
def remote(function: Callable[..., int]) -> Remote[Int]: ...
@overload
def remote(function: Callable[..., float]) -> Remote[Real]: ...
@overload
def remote(function: Callable[..., str]) -> Remote[Str]: ...
@overload
def remote(function: Callable[..., bytes]) -> Remote[Bytes]: ...
@overload
def remote(function: Callable[..., list[A]]) -> Remote[Rows[A]]: ...
@overload
def remote(function: Callable[..., None]) -> Remote[Nothing]: ...
@overload
def remote(function: Callable[..., P]) -> Remote[P]: ...
def remote(function: Callable[..., Any]) -> Remote[Any]:
    """Makes a function one that runs at the server. Raises :class:`RemoteError`, with file,
    line and column, for what has no meaning there.
    """
    return Remote(function)
