"""The body of a remote function, recorded statement by statement.

:class:`Body` is the type to read first. A method for each kind of statement and expression records
it; :class:`.remote_source.Check` has refused all others before.
"""

from __future__ import annotations

import ast
import inspect
import operator
from collections.abc import Callable
from dataclasses import is_dataclass
from types import CodeType, FunctionType
from typing import TYPE_CHECKING, Any

from . import kinds as k
from .cells import Cell, Rows
from .errors import Signal
from .procedures import Procedure
from .recorder.calls import Due
from .recorder.crossing import Recorder, Replies
from .recorder.state import Bounds, Settings
from .recording import Recording
from .remote_source import BINARY, COMPARE, CONSTANTS, returns
from .stubs import Iter, Stub
from .values import Bool, Int, Nothing, Object

if TYPE_CHECKING:
    from .remote import Remote

_CALLED = (
    "only methods, routines and remote functions are called at the server: write a call of one"
)
_RESULTS = "the call has another number of results: write a name for each"


#: A call; its place is changed to that of the program's.
_CALL: CodeType = (lambda function, arguments, named: function(*arguments, **named)).__code__


class Trial(Recording):
    """A session on trial: what is recorded in it never crosses. It has the numbers of another."""

    def __init__(self, session: Recording) -> None:
        super().__init__(
            Recorder(session.core.numbers, Bounds(), Settings(use_native=False), Replies(0))
        )

    def _do(self, due: Due) -> None:
        """Does nothing: nothing is sent."""


class Body:
    """Records the body of a function in a session."""

    def __init__(
        self,
        remote: Remote[Any],
        session: Recording,
        this: Procedure[Any] | None,
        rows: Rows[Any] | None = None,
    ) -> None:
        self._remote = remote
        self._source = remote._source
        self._s: Any = session
        #: The procedure, for calls of itself; None if the result is a table.
        self._this = this
        #: The table that the result is.
        self._rows = rows
        #: The names of each open block: stubs, constants and cells.
        self._blocks: list[dict[str, Any]] = [{}]

    def run(self, parameters: list[Any]) -> None:
        """Records the body."""
        for name, stub in zip(self._source.params, parameters, strict=True):
            self._assign(self._source.node, name, stub)
        body = self._source.node.body
        self._block(body, {}, skip_text=True)
        if not returns(body) and self._rows is None:
            self._s._return(None, self._place(self._source.node))

    def _place(self, node: ast.AST) -> object:
        return f"{self._source.file}:{self._source.line(node)}"

    def _at(
        self, node: ast.AST, function: Callable[..., Any], *arguments: Any, **named: Any
    ) -> Any:
        """Calls a function, for which the place in the source of the remote function is that of the
        call.
        """
        code = _CALL.replace(
            co_filename=self._source.file,
            co_firstlineno=max(self._source.line(node), 1),
            co_name=self._source.node.name,
        )
        return FunctionType(code, {})(function, arguments, named)

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
                self._source.refuse(target, _RESULTS)
            for one, part in zip(target.elts, value, strict=True):
                self._targets(one, part)
        else:
            assert isinstance(target, ast.Name)
            if value is None or isinstance(value, (Nothing, Iter, tuple, list)):
                self._source.refuse(
                    target, "there is no value that the name could have: write the call alone"
                )
            self._assign(target, target.id, value)

    def _load(self, node: ast.Name) -> Any:
        known = self._find(node.id)
        if known is not None:
            return known.get() if isinstance(known, Cell) else known
        if node.id in self._remote._assigned:
            self._source.refuse(
                node, f"`{node.id}` is born in another block: write its first assignment before"
            )
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
        with self._s.foreach(self._iterator(node.iter)) as variables:
            self._blocks.append({})
            self._targets(node.target, variables)
            del variables
            self._block(node.body, {})
            self._blocks.pop()

    def _iterator(self, node: ast.expr) -> Iter[Any]:
        iterator = self._range(node) or self._value(node)
        if not isinstance(iterator, Iter):
            self._source.refuse(
                node,
                "`for` iterates over a call: write a call of an iterator, such as `x.elements()`, or `range`",
            )
        return iterator

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
            self._source.refuse(
                node, "`range` has a begin and an end here: write `range(begin, end)`, or a `while`"
            )
        begin, end = bounds if len(bounds) == 2 else [0, *bounds]
        begin = begin if isinstance(begin, Int) else self._s.value(begin)
        limit: Iter[Any] = begin.to(end - 1)
        return limit

    def _Break(self, node: ast.Break) -> None:
        self._s.core.jump("break", self._place(node))

    def _Continue(self, node: ast.Continue) -> None:
        self._s.core.jump("continue", self._place(node))

    def _Return(self, node: ast.Return) -> None:
        if isinstance(node.value, ast.ListComp):
            self._comprehension(node.value, node.value.generators)
            return
        value = None if node.value is None else self._value(node.value)
        result = self._remote._result
        if (value is None) != (result is None):
            self._source.refuse(
                node, "the result is not what the function declares: write the type behind `->`"
            )
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
                self._source.refuse(
                    handler,
                    "`except` names an exception of the server's program: write a class of the stubs",
                )
            with self._s.when(signal.theta):
                self._block(handler.body, {})

    def _comprehension(self, node: ast.ListComp, parts: list[ast.comprehension]) -> None:
        """Records the loops of a comprehension, and its row in the innermost one."""
        if not parts:
            self._row(node.elt)
            return
        part = parts[0]
        with self._s.foreach(self._iterator(part.iter)) as variables:
            self._blocks.append({})
            # They are names of the comprehension only, so they hide others.
            self._bind(part.target, variables)
            del variables
            self._filtered(part.ifs, lambda: self._comprehension(node, parts[1:]))
            self._blocks.pop()

    def _bind(self, target: ast.expr, value: Any) -> None:
        if isinstance(target, ast.Tuple):
            if not isinstance(value, tuple) or len(value) != len(target.elts):
                self._source.refuse(target, _RESULTS)
            for one, part in zip(target.elts, value, strict=True):
                self._bind(one, part)
        else:
            assert isinstance(target, ast.Name)
            self._blocks[-1][target.id] = value

    def _filtered(self, tests: list[ast.expr], body: Callable[[], None]) -> None:
        if not tests:
            body()
            return
        with self._s.if_(lambda: self._test(tests[0])):
            self._filtered(tests[1:], body)

    def _row(self, node: ast.expr) -> None:
        cells = node.elts if isinstance(node, ast.Tuple) else [node]
        columns = self._remote._columns
        assert self._rows is not None and columns is not None
        if len(cells) != len(columns):
            self._source.refuse(
                node,
                f"a row has {len(cells)} cells, and the result declares {len(columns)}: write as many in both",
            )
        try:
            self._rows.push(*[self._value(cell) for cell in cells])
        except (TypeError, ValueError) as error:
            self._source.refuse(node, f"{error}: write cells of the types that the result declares")

    def _Pass(self, node: ast.Pass) -> None:
        """Records nothing."""

    def _Expr(self, node: ast.Expr) -> None:
        if isinstance(self._value(node.value), Iter):
            self._source.refuse(node, "an iterator is called by `for`: write `for x in ...`")

    # Expressions.

    def _test(self, node: ast.expr) -> Any:
        value = self._value(node)
        if isinstance(value, bool):
            return self._s.value(value)
        if not isinstance(value, Bool):
            self._source.refuse(
                node, "a condition is a truth value at the server: write a comparison"
            )
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
                return self._at(node, operator.invert, self._test(operand))
            case ast.UnaryOp(_, operand):
                return self._at(node, operator.neg, self._value(operand))
            case ast.BoolOp(op, values):
                return self._logic(isinstance(op, ast.And), values)
            case ast.Compare():
                return self._compare(node)
            case ast.Call():
                return self._call(node)
            case ast.IfExp():
                return self._choice(node)
            case ast.List(elements):
                return [self._value(element) for element in elements]
            case ast.Tuple(elements):
                return tuple([self._value(element) for element in elements])
        self._source.refuse(node, f"`{type(node).__name__}` has no meaning at the server")

    def _binary(self, node: ast.AST, op: ast.operator, left: Any, right: Any) -> Any:
        if isinstance(op, (ast.FloorDiv, ast.Mod)) and isinstance(right, int) and right < 0:
            self._source.refuse(
                node, "the server's remainder is never negative: write a positive divisor"
            )
        try:
            return self._at(node, BINARY[type(op)], left, right)
        except TypeError as error:
            self._source.refuse(node, _advised(error, "operands of one type"))

    def _logic(self, both: bool, values: list[ast.expr]) -> Any:
        first, rest = values[0], values[1:]
        test = self._test(first)
        if not rest:
            return test

        def other() -> Any:
            return self._logic(both, rest)

        return test.and_(other) if both else test.or_(other)

    def _choice(self, node: ast.IfExp) -> Any:
        """Records ``a if c else b``: a cell that gets one of both."""
        kind = self._kind_of_choice(node)
        cell = self._s._new_cell(kind, self._place(node))
        with self._s.if_(lambda: self._test(node.test)):
            self._put(node, cell, node.body)
        with self._s.else_():
            self._put(node, cell, node.orelse)
        return cell.get()

    def _put(self, node: ast.IfExp, cell: Cell[Any, Any], part: ast.expr) -> None:
        try:
            cell.put(self._value(part))
        except TypeError as error:
            self._source.refuse(node, f"{error}: write both sides of `if` with one type")

    def _kind_of_choice(self, node: ast.IfExp) -> k.Kind:
        """Returns the type of both sides. A cell is made before they are recorded, so it is known
        from the session on trial (:class:`Trial`), where they are recorded and taken back.
        """
        known = self._remote._choices.get(node)
        if known is not None:
            return known
        kinds: list[k.Kind | None] = []
        for part in (node.body, node.orelse):
            if isinstance(part, ast.Constant):
                kinds.append(None if part.value is None else k.kind_of_value(part.value))
                continue
            value = self._looked_at(part)
            if isinstance(value, CONSTANTS):
                kinds.append(k.kind_of_value(value))
            elif isinstance(value, Stub) and not isinstance(value, (Nothing, Rows)):
                kinds.append(type(value)._kind)
            else:
                kinds.append(None)
        one, other = kinds
        if one is None or other is None:
            self._source.refuse(node, "a side of `if` has no value: write a value on both sides")
        # An int can stand for a real, and a text of one letter for a char.
        if isinstance(node.body, ast.Constant) or (one, other) == (k.INT, k.REAL):
            one = other
        self._remote._choices[node] = one
        return one

    def _looked_at(self, node: ast.expr) -> Any:
        assert isinstance(self._s, Trial)
        core = self._s.core
        words, futures, extra, handles = (
            *(len(core.batch), len(core.futures), core.extra),
            len(core.error_handles),
        )
        value = self._value(node)
        if core.refusal() is None:
            core.roll_back(words, futures)
            core.extra = extra
            del core.error_handles[handles:]
        return value

    def _compare(self, node: ast.Compare) -> Any:
        left = self._value(node.left)
        return self._chain(node, left, list(zip(node.ops, node.comparators, strict=True)))

    def _chain(self, node: ast.Compare, left: Any, rest: list[tuple[ast.cmpop, ast.expr]]) -> Any:
        (op, comparator), more = rest[0], rest[1:]
        right = self._value(comparator)
        if isinstance(left, Object) or isinstance(right, Object):
            self._source.refuse(node, "objects are compared by a method: write `.equal(...)`")
        try:
            test = self._at(node, COMPARE[type(op)], left, right)
        except TypeError as error:
            self._source.refuse(node, _advised(error, "operands of one type"))
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
            self._source.refuse(node, _advised(error, "the arguments of its heading"))
        self._source.refuse(node, _CALLED)

    def _method(
        self, node: ast.Call, func: ast.Attribute, arguments: list[Any], named: dict[str, Any]
    ) -> Any:
        receiver = self._value(func.value)
        if isinstance(receiver, CONSTANTS):
            receiver = self._s.value(receiver)
        if not isinstance(receiver, Stub):
            self._source.refuse(
                node,
                "only objects and values of the server have methods here: write `+` and `.unparse()`, or do it outside",
            )
        method = None if func.attr.startswith("_") else getattr(receiver, func.attr, None)
        if not callable(method):
            self._source.refuse(
                node,
                f"`{type(receiver).__name__}` has no method `{func.attr}`: write one of its stub",
            )
        if func.attr in ("as_", "is_"):
            self._source.refuse(
                node, f"`{func.attr}` is not compiled: write it in a structure of the session"
            )
        return self._at(node, method, *arguments, **named)

    def _function(
        self, node: ast.Call, func: ast.Name, arguments: list[Any], named: dict[str, Any]
    ) -> Any:
        from .remote import Remote

        target = self._remote._global(func)
        if isinstance(target, Remote) and target._columns is not None:
            self._source.refuse(
                node,
                f"`{func.id}` returns a list, which is no value at the server: write its loops here",
            )
        if target is self._remote:
            assert self._this is not None
            return self._this(*arguments, **named)
        if isinstance(target, Remote):
            return target.on(self._s)(*arguments, **named)
        if isinstance(target, type) and is_dataclass(target):
            return target(*arguments, **named)
        if _is_routine(target):
            return self._at(node, target, self._s, *arguments, **named)
        hints = {
            str: "write `.unparse()`",
            len: "write `.length()`",
            int: "use an int",
            float: "write `.to_real()`",
        }
        hint = hints.get(target, _CALLED)
        self._source.refuse(node, f"`{func.id}` has no meaning at the server: {hint}")


def _advised(error: TypeError, advice: str) -> str:
    """Returns the text of an error that says what to write."""
    return str(error) if "write" in str(error) else f"{error}: write {advice}"


def _is_routine(target: Any) -> bool:
    if not callable(target) or isinstance(target, type):
        return False
    try:
        parameters = list(inspect.signature(target).parameters)
    except (TypeError, ValueError):
        return False
    return parameters[:1] == ["session"]
