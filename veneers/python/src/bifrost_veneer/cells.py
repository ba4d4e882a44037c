"""Variables at the server: cells, and tables of rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

from . import kinds as k
from .stubs import Promise, Stub, place_of
from .values import Bool, Nothing

if TYPE_CHECKING:
    import pandas
    import pyarrow

    from .recorder.crossing import Recorder

P = TypeVar("P", bound=Stub[Any])
Arg = TypeVar("Arg")
V = TypeVar("V")


class Cell(Stub[Any], Generic[P, Arg]):
    """A variable at the server. ``P`` is the promise or stub that it gives, ``Arg`` what it
    takes.
    """

    __slots__ = ("_element",)
    _element: k.Kind

    def _numbers(self) -> k.CellNumbers:
        return self._element.cell(self._core.numbers.stubs)

    def put(self, value: Arg) -> Nothing:
        """Puts a value, when the batch comes to it."""
        return self._call(self._numbers()[1], Nothing, self._element.operand(value))

    def full(self) -> Bool:
        """True if a value was put."""
        return self._call(self._numbers()[2], Bool)

    def get(self) -> P:
        """Returns the value; signals ``empty`` if none was put."""
        return self._call(self._numbers()[3], cast("type[P]", self._element.stub))


class Rows(Promise[list[V]]):
    """A table of rows, each a tuple. It takes rows until its batch is flushed; then it can be
    claimed.
    """

    __slots__ = ("_columns",)
    _columns: tuple[k.Kind, ...]

    def push(self, *cells: Any) -> None:
        """Appends a row: a value, or a stub, for each column. In structures it is appended whenever
        they come to it.
        """
        if len(cells) != len(self._columns):
            raise TypeError(f"a row of this table has {len(self._columns)} cells, not {len(cells)}")
        operands = [kind.operand(cell) for kind, cell in zip(self._columns, cells, strict=True)]
        self._core.owner.emit(self, operands, place_of(1))

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """Says how a row is appended to whoever takes the table for a list."""
            remedy = ""
            if name in ("append", "add", "insert", "extend"):
                remedy = ": write `rows.push(...)`, with a value for each column"
            raise AttributeError(f"a table of rows has no `{name}`{remedy}", name=name, obj=self)

    def to_pandas(self, *names: str) -> pandas.DataFrame:
        """Claims the table, and returns it as a data frame of pandas, whose columns have these
        names: ``rows.to_pandas("name", "visits")``. Without names they are ``"0"``, ``"1"``.
        """
        from .frames import make_frame

        return make_frame(self._rows(place_of(1)), self._columns, names)

    def to_arrow(self, *names: str) -> pyarrow.Table:
        """As :meth:`to_pandas`, as a table of Arrow. Columns of objects have no type there."""
        from .frames import make_table

        return make_table(self._rows(place_of(1)), self._columns, names)

    def _rows(self, place: object) -> list[V]:
        owner = self._core.owner
        if not self.is_known:
            owner.know(self, "claim", place)
        rows: list[V] = owner.take(self, self._kind)
        return rows

    @property
    def _kind(self) -> k.Kind:  # type: ignore[override]
        return _RowsKind(self._columns)


class _RowsKind(k.Kind):
    name = "rows"

    def __init__(self, columns: tuple[k.Kind, ...]) -> None:
        self.columns = columns

    def take(self, items: k.Items, core: Recorder) -> Any:
        """Takes the rows of a table; a row of one column is its cell."""
        cells = list(items)
        width = len(self.columns)
        source = iter(cells)
        if width == 1:
            return self.columns[0].take_all(cells, core)
        takes = [kind.take for kind in self.columns]
        return [tuple([take(source, core) for take in takes]) for _ in range(len(cells) // width)]
