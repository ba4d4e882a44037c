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
file and line, and never guessed. Its body is recorded once in each session, when it is called
first; each call is one command.

| allowed | |
| --- | --- |
| statements | assignment to names, ``if``, ``while``, ``for`` over an iterator of the server or ``range``, ``break``, ``continue``, ``return``, ``try`` with ``except``, ``pass``, calls |
| expressions | names, constants, operators, comparisons (chained too), ``and``, ``or``, ``not``, calls of methods, of routines (without their session), of other remote functions and of itself, dataclasses, lists and tuples as arguments |

Names of the module are constants. A name that is assigned more than once is a cell at the server.
"""

from __future__ import annotations

import ast
import builtins
import inspect
from collections.abc import Callable
from dataclasses import is_dataclass
from typing import Any, Generic, TypeVar, get_type_hints, overload

from .cells import Cell
from .errors import Signal
from .procedures import Procedure, make_heading
from .recorder.structures import PROCEDURE
from .recording import Recording
from .remote_source import BINARY, COMPARE, CONSTANTS, Check, Source, returns
from .values import Bool, Bytes, Int, Iter, Nothing, Object, Real, Str, Stub

P = TypeVar("P", bound=Stub[Any])

_TYPES: dict[Any, type[Stub[Any]]] = {bool: Bool, int: Int, float: Real, str: Str, bytes: Bytes}


class _Record:
    """Records the body of a function in a session."""

    def __init__(self, remote: Remote[Any], session: Recording, this: Procedure[Any]) -> None:
        self._remote = remote
        self._source = remote._source
        self._s: Any = session
        self._this = this
        #: The names of each open block: stubs, constants and cells.
        self._blocks: list[dict[str, Any]] = [{}]

    def run(self, parameters: list[Any]) -> None:
        """Records the body."""
        for name, stub in zip(self._source.params, parameters, strict=True):
            self._assign(self._source.node, name, stub)
        body = self._source.node.body
        self._block(body, {}, skip_text=True)
        if not returns(body):
            self._s._return(None, self._place(self._source.node))

    def _place(self, node: ast.AST) -> object:
        return f"{self._source.file}:{self._source.line(node)}"

    def _block(self, body: list[ast.stmt], names: dict[str, Any], skip_text: bool = False) -> None:
        self._blocks.append(names)
        for at, statement in enumerate(body):
            if (
                at == 0
                and skip_text
                and isinstance(statement, ast.Expr)
                and isinstance(statement.value, ast.Constant)
            ):
                continue
            getattr(self, f"_{type(statement).__name__}")(statement)
        self._blocks.pop()

    # Names.

    def _find(self, name: str) -> Any:
        for names in reversed(self._blocks):
            if name in names:
                return names[name]
        return None

    def _assign(self, node: ast.AST, name: str, value: Any) -> None:
        known = self._find(name)
        if isinstance(known, Cell):
            known.put(value)
        elif self._remote._assigned[name] > 1:
            cell = self._s.cell(value)
            self._blocks[-1][name] = cell
        else:
            self._blocks[-1][name] = value

    def _targets(self, target: ast.expr, value: Any) -> None:
        if isinstance(target, ast.Tuple):
            if not isinstance(value, tuple) or len(value) != len(target.elts):
                self._source.refuse(target, "the call has another number of results")
            for one, part in zip(target.elts, value, strict=True):
                self._targets(one, part)
        else:
            assert isinstance(target, ast.Name)
            if value is None or isinstance(value, (Nothing, Iter, tuple, list)):
                self._source.refuse(target, "there is no value that the name could have")
            self._assign(target, target.id, value)

    def _load(self, node: ast.Name) -> Any:
        known = self._find(node.id)
        if known is not None:
            return known.get() if isinstance(known, Cell) else known
        if node.id in self._remote._assigned:
            self._source.refuse(node, f"`{node.id}` is born in another block: assign it before")
        return self._remote._global(node)

    # Statements.

    def _Assign(self, node: ast.Assign) -> None:
        self._targets(node.targets[0], self._value(node.value))

    def _AnnAssign(self, node: ast.AnnAssign) -> None:
        assert node.value is not None
        self._targets(node.target, self._value(node.value))

    def _AugAssign(self, node: ast.AugAssign) -> None:
        assert isinstance(node.target, ast.Name)
        name = ast.copy_location(ast.Name(node.target.id, ast.Load()), node.target)
        self._targets(
            node.target, self._binary(node, node.op, self._load(name), self._value(node.value))
        )

    def _If(self, node: ast.If) -> None:
        with self._s.if_(lambda: self._test(node.test)):
            self._block(node.body, {})
        if node.orelse:
            with self._s.else_():
                self._block(node.orelse, {})

    def _While(self, node: ast.While) -> None:
        with self._s.while_(lambda: self._test(node.test)):
            self._block(node.body, {})

    def _For(self, node: ast.For) -> None:
        iterator = self._range(node.iter) or self._value(node.iter)
        if not isinstance(iterator, Iter):
            self._source.refuse(node.iter, "`for` iterates over a call of an iterator, or `range`")
        with self._s.foreach(iterator) as variables:
            self._blocks.append({})
            self._targets(node.target, variables)
            del variables
            self._block(node.body, {})
            self._blocks.pop()

    def _range(self, node: ast.expr) -> Iter[Any] | None:
        is_range = (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Name)
            and node.func.id == "range"
        )
        if not is_range or self._find("range") is not None or "range" in self._remote._names:
            return None
        assert isinstance(node, ast.Call)
        bounds = [self._value(argument) for argument in node.args]
        if node.keywords or not 1 <= len(bounds) <= 2:
            self._source.refuse(node, "`range` has a begin and an end here")
        begin, end = bounds if len(bounds) == 2 else [0, *bounds]
        begin = begin if isinstance(begin, Int) else self._s.value(begin)
        limit: Iter[Any] = begin.to(end - 1)
        return limit

    def _Break(self, node: ast.Break) -> None:
        self._s.core.jump("break", self._place(node))

    def _Continue(self, node: ast.Continue) -> None:
        self._s.core.jump("continue", self._place(node))

    def _Return(self, node: ast.Return) -> None:
        value = None if node.value is None else self._value(node.value)
        result = self._remote._result
        if (value is None) != (result is None):
            self._source.refuse(node, "the result is not what the function declares")
        self._s._return(value, self._place(node))

    def _Try(self, node: ast.Try) -> None:
        with self._s.except_():
            self._block(node.body, {})
        for handler in node.handlers:
            if handler.type is None:
                with self._s.others():
                    self._block(handler.body, {})
                continue
            signal = (
                self._remote._global(handler.type) if isinstance(handler.type, ast.Name) else None
            )
            if not (isinstance(signal, type) and issubclass(signal, Signal) and signal.theta):
                self._source.refuse(handler, "`except` names an exception of the server's program")
            with self._s.when(signal.theta):
                self._block(handler.body, {})

    def _Pass(self, node: ast.Pass) -> None:
        """Records nothing."""

    def _Expr(self, node: ast.Expr) -> None:
        if isinstance(self._value(node.value), Iter):
            self._source.refuse(node, "an iterator is called by `for`")

    # Expressions.

    def _test(self, node: ast.expr) -> Any:
        value = self._value(node)
        if isinstance(value, bool):
            return self._s.value(value)
        if not isinstance(value, Bool):
            self._source.refuse(node, "a condition is a truth value at the server: compare it")
        return value

    def _value(self, node: ast.expr) -> Any:
        match node:
            case ast.Constant(value):
                return value
            case ast.Name():
                return self._load(node)
            case ast.BinOp(left, op, right):
                return self._binary(node, op, self._value(left), self._value(right))
            case ast.UnaryOp(ast.Not(), operand):
                return ~self._test(operand)
            case ast.UnaryOp(_, operand):
                return -self._value(operand)
            case ast.BoolOp(op, values):
                return self._logic(isinstance(op, ast.And), values)
            case ast.Compare():
                return self._compare(node)
            case ast.Call():
                return self._call(node)
            case ast.List(elements):
                return [self._value(element) for element in elements]
            case ast.Tuple(elements):
                return tuple([self._value(element) for element in elements])
        self._source.refuse(node, f"`{type(node).__name__}` has no meaning at the server")

    def _binary(self, node: ast.AST, op: ast.operator, left: Any, right: Any) -> Any:
        if isinstance(op, (ast.FloorDiv, ast.Mod)) and isinstance(right, int) and right < 0:
            self._source.refuse(
                node, "the server's remainder is never negative: divide by a positive number"
            )
        try:
            return BINARY[type(op)](left, right)
        except TypeError as error:
            self._source.refuse(node, str(error))

    def _logic(self, both: bool, values: list[ast.expr]) -> Any:
        first, rest = values[0], values[1:]
        test = self._test(first)
        if not rest:
            return test

        def other() -> Any:
            return self._logic(both, rest)

        return test.and_(other) if both else test.or_(other)

    def _compare(self, node: ast.Compare) -> Any:
        left = self._value(node.left)
        return self._chain(node, left, list(zip(node.ops, node.comparators, strict=True)))

    def _chain(self, node: ast.Compare, left: Any, rest: list[tuple[ast.cmpop, ast.expr]]) -> Any:
        (op, comparator), more = rest[0], rest[1:]
        right = self._value(comparator)
        if isinstance(left, Object) or isinstance(right, Object):
            self._source.refuse(node, "objects are compared with their method `equal`")
        try:
            test = COMPARE[type(op)](left, right)
        except TypeError as error:
            self._source.refuse(node, str(error))
        if not more:
            return test
        test = self._s.value(test) if isinstance(test, bool) else test
        return test.and_(lambda: self._bool(self._chain(node, right, more)))

    def _bool(self, value: Any) -> Any:
        return self._s.value(value) if isinstance(value, bool) else value

    def _call(self, node: ast.Call) -> Any:
        arguments = [self._value(argument) for argument in node.args]
        named = {str(keyword.arg): self._value(keyword.value) for keyword in node.keywords}
        try:
            if isinstance(node.func, ast.Attribute):
                return self._method(node, node.func, arguments, named)
            if isinstance(node.func, ast.Name) and self._find(node.func.id) is None:
                return self._function(node, node.func, arguments, named)
        except TypeError as error:
            self._source.refuse(node, str(error))
        self._source.refuse(
            node, "only methods, routines and remote functions are called at the server"
        )

    def _method(
        self, node: ast.Call, func: ast.Attribute, arguments: list[Any], named: dict[str, Any]
    ) -> Any:
        receiver = self._value(func.value)
        if isinstance(receiver, CONSTANTS):
            receiver = self._s.value(receiver)
        if not isinstance(receiver, Stub):
            self._source.refuse(node, "only objects and values of the server have methods here")
        method = None if func.attr.startswith("_") else getattr(receiver, func.attr, None)
        if not callable(method):
            self._source.refuse(node, f"`{type(receiver).__name__}` has no method `{func.attr}`")
        if func.attr in ("as_", "is_"):
            self._source.refuse(
                node, f"`{func.attr}` is not compiled: write it in a structure of the session"
            )
        return method(*arguments, **named)

    def _function(
        self, node: ast.Call, func: ast.Name, arguments: list[Any], named: dict[str, Any]
    ) -> Any:
        target = self._remote._global(func)
        if target is self._remote:
            return self._this(*arguments, **named)
        if isinstance(target, Remote):
            return target.on(self._s)(*arguments, **named)
        if isinstance(target, type) and is_dataclass(target):
            return target(*arguments, **named)
        if _is_routine(target):
            return target(self._s, *arguments, **named)
        hints = {
            str: "write `.unparse()`",
            len: "write `.length()`",
            int: "use an int",
            float: "write `.to_real()`",
        }
        hint = hints.get(
            target, "only methods, routines and remote functions are called at the server"
        )
        self._source.refuse(node, f"`{func.id}` has no meaning at the server: {hint}")


def _is_routine(target: Any) -> bool:
    if not callable(target) or isinstance(target, type):
        return False
    try:
        parameters = list(inspect.signature(target).parameters)
    except (TypeError, ValueError):
        return False
    return parameters[:1] == ["session"]


class Remote(Generic[P]):
    """A function that runs at the server. Calling it records a call; the session is that of an
    argument.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function
        self._source = Source(function)
        self._assigned = Check(self._source).assigned
        self.__name__ = function.__name__
        self.__qualname__ = function.__qualname__
        self.__doc__ = function.__doc__
        self.__module__ = function.__module__
        self._resolved: tuple[tuple[type[Stub[Any]], ...], type[Stub[Any]] | None] | None = None
        self._is_open = False

    @property
    def _names(self) -> dict[str, Any]:
        """The names around the function."""
        closure = inspect.getclosurevars(self._function)
        return {**closure.globals, **closure.nonlocals}

    def _global(self, node: ast.expr) -> Any:
        """Returns a constant of the module."""
        assert isinstance(node, ast.Name)
        names = self._names
        if node.id == self.__name__ and node.id not in names:
            return self
        value = names.get(node.id, getattr(builtins, node.id, None))
        if value is None:
            self._source.refuse(node, f"there is no `{node.id}`")
        return value

    def _types(self) -> tuple[tuple[type[Stub[Any]], ...], type[Stub[Any]] | None]:
        if self._resolved is None:
            node = self._source.node
            try:
                hints = get_type_hints(self._function)
            except NameError as error:
                self._source.refuse(node, f"an annotation is not known: {error}")
            types = []
            for name in self._source.params:
                types.append(self._type(node, hints.get(name), f"the parameter `{name}`"))
            result = hints.get("return")
            returned = (
                None if result in (None, type(None)) else self._type(node, result, "the result")
            )
            if returned is not None and not returns(node.body):
                self._source.refuse(node, "the function does not return on every path")
            self._resolved = (tuple(types), returned)
        return self._resolved

    def _type(self, node: ast.AST, hint: Any, what: str) -> type[Stub[Any]]:
        found = _TYPES.get(hint, hint) if isinstance(hint, type) else None
        if found is None or not issubclass(found, Stub):
            self._source.refuse(
                node, f"{what} needs a type of the stubs, or int, float, bool, str, bytes"
            )
        return found

    @property
    def _result(self) -> type[Stub[Any]] | None:
        return self._types()[1]

    def on(self, session: Recording) -> Procedure[P]:
        """Returns the procedure in a session, which is defined by the first call."""
        known: dict[Remote[Any], Procedure[Any]] = session.__dict__.setdefault("_remotes", {})
        if self not in known:
            if self._is_open:
                self._source.refuse(
                    self._source.node, "functions that call each other have no order: use one"
                )
            known[self] = self._define(session)
        return known[self]

    def _define(self, session: Recording) -> Procedure[P]:
        types, result = self._types()
        self._is_open = True
        try:
            # A procedure cannot be defined inside another: those that are called come first.
            for node in ast.walk(self._source.node):
                if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                    called = self._names.get(node.func.id)
                    if isinstance(called, Remote) and called is not self:
                        called.on(session)
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
                _Record(self, session, this).run(variables)
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

    def __call__(self, *arguments: Any) -> P:
        """Records a call. The session is that of the first argument that has one; else see
        :meth:`on`.
        """
        for argument in arguments:
            if isinstance(argument, Stub):
                owner: Recording = argument._core.owner
                return self.on(owner)(*arguments)
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
def remote(function: Callable[..., None]) -> Remote[Nothing]: ...
@overload
def remote(function: Callable[..., P]) -> Remote[P]: ...
def remote(function: Callable[..., Any]) -> Remote[Any]:
    """Makes a function one that runs at the server. Raises :class:`RemoteError`, with file and
    line, for what has no meaning there.
    """
    return Remote(function)
