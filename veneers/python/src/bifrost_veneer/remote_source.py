"""The source of a remote function, and the check that all of it has a meaning at the server.

:class:`Source` has the syntax tree with the places of the file; :class:`Check` refuses the rest.
"""

from __future__ import annotations

import ast
import inspect
import operator
import textwrap
from collections import Counter
from collections.abc import Callable
from typing import Any, NoReturn

CONSTANTS = (bool, int, float, str, bytes)
#: Methods of stubs that mean something in the client only.
_LOCAL = {
    "claim": "write the promise itself, which has its value there",
    "peek": "write the promise itself, which has its value there",
    "caught": "write `try` and `except`",
    "release": "leave it out",
    "and_": "write `and`",
    "or_": "write `or`",
    "to_pandas": "write it outside",
    "to_arrow": "write it outside",
}
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
    *(ast.List, ast.Tuple, ast.IfExp),
)
BINARY: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Div: operator.truediv,
}
COMPARE: dict[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
}
_HINTS: dict[type[ast.AST], str] = {
    # Statements.
    ast.AsyncFor: "write `for`",
    ast.AsyncFunctionDef: "write the function at the level of the module, with `@remote`",
    ast.AsyncWith: "write `if`, `while` and `for`",
    ast.Assert: "write `if not ...:` and call a routine that signals",
    ast.ClassDef: "write the class at the level of the module",
    ast.Delete: "leave it out: a name ends with its block",
    ast.FunctionDef: "write the function at the level of the module, with `@remote`",
    ast.Global: "return the value, and assign it outside",
    ast.Import: "write the import at the top of the file",
    ast.ImportFrom: "write the import at the top of the file",
    ast.Match: "write `if` and `elif`",
    ast.Nonlocal: "return the value, and assign it outside",
    ast.Raise: "call a routine that signals",
    ast.TryStar: "write `except`",
    ast.With: "write `if`, `while` and `for`",
    # Expressions.
    ast.Await: "leave `await` out: nothing waits at the server",
    ast.Dict: "write a loop over the pairs, or give the values one by one",
    ast.DictComp: "write `return [(key, value) for ...]`, and make the dict outside",
    ast.GeneratorExp: "write a loop that adds up, or `return [... for ...]`",
    ast.JoinedStr: "write `+` and `.unparse()`",
    ast.Lambda: "write the expression itself",
    ast.NamedExpr: "write the assignment as a line before",
    ast.Set: "write a list",
    ast.SetComp: "write `return [... for ...]`, and make the set outside",
    ast.Slice: "write `.subseq(at, count)`, or a method of the server",
    ast.Starred: "write the values one by one",
    ast.Subscript: "write `.fetch(i)`",
    ast.Yield: "write `return [... for ...]`",
    ast.YieldFrom: "write `return [... for ...]`",
    # Operators.
    ast.BitAnd: "write `and`, or call a method of the server",
    ast.BitOr: "write `or`, or call a method of the server",
    ast.BitXor: "write `!=`, or call a method of the server",
    ast.In: "write a comparison with each, or call a method of the server",
    ast.Invert: "write `not`",
    ast.Is: "write `==`, or `.equal(...)` for objects",
    ast.IsNot: "write `!=`, or `not ...equal(...)` for objects",
    ast.LShift: "write `*` with a power of two",
    ast.MatMult: "call a method of the server",
    ast.NotIn: "write a comparison with each, or call a method of the server",
    ast.Pow: "write `*`",
    ast.RShift: "write `//` with a power of two",
    ast.UAdd: "leave `+` out",
}
_ELSEWHERE = "call a method or a routine of the server"
_COMPREHENSION = "a comprehension is the result of a function: write `return [... for ...]`, and declare the result as `list[...]`"


class RemoteError(SyntaxError):
    """A part of a function that has no meaning at the server. ``lineno`` and ``offset`` are its line
    and column, both from 1.
    """

    def __str__(self) -> str:
        return f"{self.msg} ({self.filename}, line {self.lineno}, column {self.offset})"


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
        text = "".join(lines)
        dedented = textwrap.dedent(text)
        #: The blanks that stand before each line.
        self._margin = (
            len(text) - len(text.lstrip(" \t")) - (len(dedented) - len(dedented.lstrip(" \t")))
        )
        tree = ast.parse(dedented)
        node = tree.body[0]
        if not isinstance(node, ast.FunctionDef):
            self.refuse(node, "only a plain function is remote: write `def`")
        self.node = node
        self.params = [argument.arg for argument in node.args.args]

    def line(self, node: ast.AST) -> int:
        """Returns the line of a node in the file."""
        return self._shift + getattr(node, "lineno", 1)

    def refuse(self, node: ast.AST, what: str) -> NoReturn:
        """Refuses a part of the function."""
        line = self.line(node)
        text = self._lines[line - self._shift - 1] if line > self._shift else ""
        # Columns of the tree are bytes behind the margin.
        before = text[self._margin :].encode()[: getattr(node, "col_offset", 0)]
        column = self._margin + len(before.decode(errors="replace")) + 1
        raise RemoteError(what, (self.file, line, column, text))


class Check(ast.NodeVisitor):
    """Refuses what has no meaning at the server; counts the assignments of each name."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.assigned: Counter[str] = Counter(source.params)
        #: The returns of comprehensions.
        self.tables: list[ast.Return] = []
        arguments = source.node.args
        odd = (arguments.vararg, arguments.kwarg, *arguments.kwonlyargs, *arguments.posonlyargs)
        if any(one is not None for one in odd) or arguments.defaults:
            source.refuse(
                source.node,
                "a remote function has plain parameters, without defaults: write `name: type` for each",
            )
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

    def _refuse(self, node: ast.AST, part: ast.AST | None = None) -> NoReturn:
        """Refuses a node, or the operator of one, which has no place itself."""
        part = node if part is None else part
        hint = _HINTS.get(type(part), _ELSEWHERE)
        name = type(part).__name__
        self.source.refuse(node, f"`{name}` has no meaning at the server: {hint}")

    def _target(self, target: ast.expr) -> None:
        if isinstance(target, ast.Tuple):
            for one in target.elts:
                self._target(one)
        elif isinstance(target, ast.Name):
            self.assigned[target.id] += 1
        else:
            self.source.refuse(
                target,
                "only names are assigned: write a call of the method that changes the object",
            )

    def visit_Assign(self, node: ast.Assign) -> None:
        if len(node.targets) != 1:
            self.source.refuse(node, "one name is assigned at a time: write a line for each")
        self._target(node.targets[0])
        self.visit(node.value)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is None:
            self.source.refuse(
                node, "a name is born with its first value: write `name: type = value`"
            )
        self._target(node.target)
        self.visit(node.value)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        self._target(node.target)
        if type(node.op) not in BINARY:
            self._refuse(node, node.op)
        self.visit(node.value)

    def visit_For(self, node: ast.For) -> None:
        if node.orelse:
            self.source.refuse(
                node,
                "a loop at the server has no `else`: write the lines behind the loop, and `return` in it",
            )
        self._target(node.target)
        self._iterator(node.iter)
        for statement in node.body:
            self.visit(statement)

    def visit_Return(self, node: ast.Return) -> None:
        if isinstance(node.value, ast.ListComp):
            self.tables.append(node)
            self._comprehension(node.value)
        elif node.value is not None:
            self.visit(node.value)

    def _comprehension(self, node: ast.ListComp) -> None:
        for part in node.generators:
            if part.is_async:
                self.source.refuse(
                    part.target, "`async for` has no meaning at the server: write `for`"
                )
            self._names(part.target)
            self._iterator(part.iter)
            for condition in part.ifs:
                self.visit(condition)
        for cell in node.elt.elts if isinstance(node.elt, ast.Tuple) else [node.elt]:
            if isinstance(cell, ast.ListComp):
                self.source.refuse(
                    cell,
                    "a row has no list: write `[(a.name(), b.name()) for a in ... for b in ...]`, a row for each",
                )
            self.visit(cell)

    def _names(self, target: ast.expr) -> None:
        """Checks the variables of a comprehension, which are names in it only."""
        if isinstance(target, ast.Tuple):
            for one in target.elts:
                self._names(one)
        elif not isinstance(target, ast.Name):
            self.source.refuse(
                target, "the variables of a comprehension are names: write `for name in ...`"
            )

    def _iterator(self, node: ast.expr) -> None:
        if not isinstance(node, ast.Call):
            self.source.refuse(
                node,
                "`for` iterates over a call: write a call of an iterator, such as `x.elements()`, or `range`",
            )
        self.visit(node)

    def visit_ListComp(self, node: ast.ListComp) -> NoReturn:
        self.source.refuse(node, _COMPREHENSION)

    def visit_While(self, node: ast.While) -> None:
        if node.orelse:
            self.source.refuse(
                node,
                "a loop at the server has no `else`: write the lines behind the loop, and `return` in it",
            )
        self.generic_visit(node)

    def visit_Try(self, node: ast.Try) -> None:
        if node.orelse or node.finalbody:
            self.source.refuse(
                node,
                "`try` at the server has no `else` and no `finally`: write the lines behind it",
            )
        for handler in node.handlers:
            if handler.name is not None:
                self.source.refuse(
                    handler,
                    "an exception is handled without a name at the server: write `except Name:`",
                )
        for statement in (*node.body, *(one for handler in node.handlers for one in handler.body)):
            self.visit(statement)

    def visit_Expr(self, node: ast.Expr) -> None:
        if not isinstance(node.value, (*_EXPRESSIONS, ast.ListComp)):
            self._refuse(node.value)
        if not isinstance(node.value, ast.Call):
            self.source.refuse(node, "a statement is a call, or assigns a name: write `name = ...`")
        self.visit(node.value)

    def visit_Constant(self, node: ast.Constant) -> None:
        if not isinstance(node.value, CONSTANTS) and node.value is not None:
            self.source.refuse(
                node,
                f"`{node.value!r}` does not cross: write a text, bytes, a truth value, an int or a float",
            )

    def visit_BinOp(self, node: ast.BinOp) -> None:
        if type(node.op) not in BINARY:
            self._refuse(node, node.op)
        self.generic_visit(node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> None:
        if not isinstance(node.op, (ast.Not, ast.USub)):
            self._refuse(node, node.op)
        self.generic_visit(node)

    def visit_Compare(self, node: ast.Compare) -> None:
        for op in node.ops:
            if type(op) not in COMPARE:
                self._refuse(node, op)
        self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        if any(keyword.arg is None for keyword in node.keywords):
            self.source.refuse(node, "arguments are listed one by one: write each of them")
        if isinstance(node.func, ast.Attribute) and node.func.attr in _LOCAL:
            self.source.refuse(
                node, f"`{node.func.attr}` has no meaning at the server: {_LOCAL[node.func.attr]}"
            )
        self.generic_visit(node)


def returned(body: list[ast.stmt]) -> list[ast.Return]:
    """Returns all returns of a block."""
    return [
        node for statement in body for node in ast.walk(statement) if isinstance(node, ast.Return)
    ]


def returns(body: list[ast.stmt]) -> bool:
    """True if a block returns on every path."""
    for statement in body:
        if isinstance(statement, ast.Return):
            return True
        if isinstance(statement, ast.If) and returns(statement.body) and returns(statement.orelse):
            return True
    return False
