"""The source of a remote function, and the check that all of it has a meaning at the server.

:class:`Source` has the syntax tree with the places of the file; :class:`Check` refuses the rest.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections import Counter
from collections.abc import Callable
from typing import Any, NoReturn

CONSTANTS = (bool, int, float, str, bytes)
#: Methods of stubs that mean something in the client only.
_LOCAL = frozenset(("claim", "peek", "caught", "release", "and_", "or_"))
_STATEMENTS = (
    *(
        ast.Assign,
        ast.AnnAssign,
        ast.AugAssign,
        ast.If,
        ast.While,
        ast.For,
        ast.Break,
        ast.Continue,
    ),
    *(ast.Return, ast.Try, ast.Pass, ast.Expr),
)
_EXPRESSIONS = (
    *(
        ast.Name,
        ast.Constant,
        ast.BinOp,
        ast.UnaryOp,
        ast.BoolOp,
        ast.Compare,
        ast.Call,
        ast.Attribute,
    ),
    *(ast.List, ast.Tuple),
)
BINARY: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: lambda a, b: a + b,
    ast.Sub: lambda a, b: a - b,
    ast.Mult: lambda a, b: a * b,
    ast.FloorDiv: lambda a, b: a // b,
    ast.Mod: lambda a, b: a % b,
    ast.Div: lambda a, b: a / b,
}
COMPARE: dict[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Lt: lambda a, b: a < b,
    ast.LtE: lambda a, b: a <= b,
    ast.Gt: lambda a, b: a > b,
    ast.GtE: lambda a, b: a >= b,
    ast.Eq: lambda a, b: a == b,
    ast.NotEq: lambda a, b: a != b,
}
_HINTS = {
    ast.IfExp: "write `if` and `else` with an assignment in each",
    ast.JoinedStr: "write `+` and `.unparse()`",
    ast.ListComp: "write `s.collect(...)` outside",
    ast.With: "write `if`, `while` and `for`",
    ast.Subscript: "write `.fetch(i)`",
    ast.Raise: "call a routine that signals",
}


class RemoteError(SyntaxError):
    """A part of a function that has no meaning at the server."""


class Source:
    """The syntax tree of a function."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function
        code = function.__code__
        self.file = code.co_filename
        try:
            lines, first = inspect.getsourcelines(function)
        except (OSError, TypeError):
            raise RemoteError(
                f"the source of `{function.__name__}` is not there: a remote function stands in a file, or use "
                "`s.procedure`"
            ) from None
        self._lines = lines
        self._shift = first - 1
        tree = ast.parse(textwrap.dedent("".join(lines)))
        node = tree.body[0]
        if not isinstance(node, ast.FunctionDef):
            self.refuse(node, "only a plain function is remote")
        self.node = node
        self.params = [argument.arg for argument in node.args.args]

    def line(self, node: ast.AST) -> int:
        """Returns the line of a node in the file."""
        return self._shift + getattr(node, "lineno", 1)

    def refuse(self, node: ast.AST, what: str) -> NoReturn:
        """Refuses a part of the function."""
        line = self.line(node)
        text = self._lines[line - self._shift - 1] if line > self._shift else ""
        raise RemoteError(what, (self.file, line, getattr(node, "col_offset", 0) + 1, text))


class Check(ast.NodeVisitor):
    """Refuses what has no meaning at the server; counts the assignments of each name."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.assigned: Counter[str] = Counter(source.params)
        arguments = source.node.args
        odd = (arguments.vararg, arguments.kwarg, *arguments.kwonlyargs, *arguments.posonlyargs)
        if any(one is not None for one in odd) or arguments.defaults:
            source.refuse(source.node, "a remote function has plain parameters, without defaults")
        body = source.node.body
        for at, statement in enumerate(body):
            is_text = isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
            if not (at == 0 and is_text):
                self.visit(statement)

    def generic_visit(self, node: ast.AST) -> None:
        if isinstance(node, ast.stmt) and not isinstance(node, _STATEMENTS):
            self._refuse(node)
        if isinstance(node, ast.expr) and not isinstance(node, _EXPRESSIONS):
            self._refuse(node)
        super().generic_visit(node)

    def _refuse(self, node: ast.AST) -> NoReturn:
        hint = _HINTS.get(type(node))
        name = type(node).__name__
        self.source.refuse(
            node, f"`{name}` has no meaning at the server" + (f": {hint}" if hint else "")
        )

    def _target(self, target: ast.expr) -> None:
        if isinstance(target, ast.Tuple):
            for one in target.elts:
                self._target(one)
        elif isinstance(target, ast.Name):
            self.assigned[target.id] += 1
        else:
            self.source.refuse(target, "only names are assigned: objects have methods for it")

    def visit_Assign(self, node: ast.Assign) -> None:
        if len(node.targets) != 1:
            self.source.refuse(node, "one name is assigned at a time")
        self._target(node.targets[0])
        self.visit(node.value)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is None:
            self.source.refuse(node, "a name is born with its first value")
        self._target(node.target)
        self.visit(node.value)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        self._target(node.target)
        if type(node.op) not in BINARY:
            self.source.refuse(
                node, f"the operator `{type(node.op).__name__}` has no meaning at the server"
            )
        self.visit(node.value)

    def visit_For(self, node: ast.For) -> None:
        if node.orelse:
            self.source.refuse(node, "a loop at the server has no `else`")
        self._target(node.target)
        if not isinstance(node.iter, ast.Call):
            self.source.refuse(node.iter, "`for` iterates over a call of an iterator, or `range`")
        self.visit(node.iter)
        for statement in node.body:
            self.visit(statement)

    def visit_While(self, node: ast.While) -> None:
        if node.orelse:
            self.source.refuse(node, "a loop at the server has no `else`")
        self.generic_visit(node)

    def visit_Try(self, node: ast.Try) -> None:
        if node.orelse or node.finalbody:
            self.source.refuse(node, "`try` at the server has no `else` and no `finally`")
        for handler in node.handlers:
            if handler.name is not None:
                self.source.refuse(handler, "an exception is handled without a name at the server")
        for statement in (*node.body, *(one for handler in node.handlers for one in handler.body)):
            self.visit(statement)

    def visit_Expr(self, node: ast.Expr) -> None:
        if not isinstance(node.value, ast.Call):
            self.source.refuse(node, "a statement is a call, or assigns a name")
        self.visit(node.value)

    def visit_Constant(self, node: ast.Constant) -> None:
        if not isinstance(node.value, CONSTANTS) and node.value is not None:
            self.source.refuse(node, f"`{node.value!r}` does not cross")

    def visit_BinOp(self, node: ast.BinOp) -> None:
        if type(node.op) not in BINARY:
            self.source.refuse(
                node, f"the operator `{type(node.op).__name__}` has no meaning at the server"
            )
        self.generic_visit(node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> None:
        if not isinstance(node.op, (ast.Not, ast.USub)):
            self.source.refuse(
                node, f"the operator `{type(node.op).__name__}` has no meaning at the server"
            )
        self.generic_visit(node)

    def visit_Compare(self, node: ast.Compare) -> None:
        for op in node.ops:
            if type(op) not in COMPARE:
                self.source.refuse(node, f"`{type(op).__name__}` has no meaning at the server")
        self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        if any(keyword.arg is None for keyword in node.keywords):
            self.source.refuse(node, "arguments are listed one by one")
        if isinstance(node.func, ast.Attribute) and node.func.attr in _LOCAL:
            self.source.refuse(node, f"`{node.func.attr}` has no meaning at the server")
        self.generic_visit(node)


def returns(body: list[ast.stmt]) -> bool:
    """True if a block returns on every path."""
    for statement in body:
        if isinstance(statement, ast.Return):
            return True
        if isinstance(statement, ast.If) and returns(statement.body) and returns(statement.orelse):
            return True
    return False
