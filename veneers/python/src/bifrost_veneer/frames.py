"""Tables of rows as data frames of pandas and as tables of Arrow.

The packages are no dependencies: each is imported when its method is called. A column has the type
that the server has told, so that empty tables have it too:

| Theta | pandas | Arrow |
| --- | --- | --- |
| ``int`` | ``int64`` | ``int64`` |
| ``real`` | ``float64`` | ``double`` |
| ``bool`` | ``bool`` | ``bool_`` |
| ``string``, ``char`` | ``str`` | ``string`` |
| ``bytes`` | ``object`` | ``binary`` |
| ``null`` | ``object`` | ``null`` |
| a sequence, struct, map, ``maybe`` | ``object``, as ``claim`` has it | ``list_``, ``struct``, ``map_``, the same with nulls |
| an object, a ``oneof`` | ``object``, as ``claim`` has it | none |
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from . import kinds as k

if TYPE_CHECKING:
    import pandas
    import pyarrow

_PANDAS = {k.INT: "int64", k.REAL: "float64", k.BOOL: "bool", k.STR: "str", k.CHAR: "str"}


def _import(package: str, method: str, extra: str) -> Any:
    try:
        return importlib.import_module(package)
    except ImportError as error:
        raise ModuleNotFoundError(
            f"`{method}` needs the package `{package}`: install `bifrost-veneer[{extra}]`",
            name=package,
        ) from error


def _named(
    rows: Sequence[Any], kinds: Sequence[k.Kind], names: Sequence[str]
) -> list[tuple[str, k.Kind, list[Any]]]:
    """Returns the columns of a table, each with its name and kind."""
    if names and len(names) != len(kinds):
        raise ValueError(f"the table has {len(kinds)} columns, not {len(names)}")
    if len(set(names)) != len(names):
        raise ValueError("the columns of a table have different names")
    names = names or [str(number) for number in range(len(kinds))]
    # A row of one column is the cell itself.
    columns = (
        [list(rows)] if len(kinds) == 1 else [list(column) for column in zip(*rows, strict=True)]
    )
    columns = columns or [[] for _ in kinds]
    return list(zip(names, kinds, columns, strict=True))


def make_frame(
    rows: Sequence[Any], kinds: Sequence[k.Kind], names: Sequence[str]
) -> pandas.DataFrame:
    """Makes a data frame of the rows of a table."""
    pd = _import("pandas", "to_pandas", "pandas")
    columns = _named(rows, kinds, names)
    series = {
        name: pd.Series(cells, dtype=_PANDAS.get(kind, "object"))  # type: ignore[call-overload]
        for name, kind, cells in columns
    }
    frame: pandas.DataFrame = pd.DataFrame(series)
    return frame


def make_table(rows: Sequence[Any], kinds: Sequence[k.Kind], names: Sequence[str]) -> pyarrow.Table:
    """Makes a table of Arrow of the rows of a table."""
    pa = _import("pyarrow", "to_arrow", "arrow")
    columns = _named(rows, kinds, names)
    arrays = {}
    for name, kind, cells in columns:
        shape = _arrow(pa, kind, name)
        arrays[name] = pa.array([_plain(kind, cell) for cell in cells], shape)
    table: pyarrow.Table = pa.table(arrays)
    return table


def _contents(kind: k.Kind) -> k.Kind:
    """Returns the kind of the value that a cell has."""
    if isinstance(kind, k.ObjectKind) and kind.by_value and kind.contents is not None:
        return kind.contents
    return kind


def _arrow(pa: Any, kind: k.Kind, column: str) -> Any:
    """Returns the type of Arrow for a kind."""
    basic = {
        k.INT: pa.int64,
        k.REAL: pa.float64,
        k.BOOL: pa.bool_,
        k.STR: pa.string,
        k.CHAR: pa.string,
        k.BYTES: pa.binary,
        k.NULL: pa.null,
    }
    kind = _contents(kind)
    match kind:
        case k.Basic():
            return basic[kind]()
        case k.SequenceKind():
            return pa.list_(_arrow(pa, kind.element, column))
        case k.StructKind():
            parts = zip(kind.names, kind.kinds, strict=True)
            return pa.struct([pa.field(name, _arrow(pa, part, column)) for name, part in parts])
        case k.MapKind():
            return pa.map_(_arrow(pa, kind.key, column), _arrow(pa, kind.value, column))
        case k.MaybeKind() if not kind.is_nested:
            return _arrow(pa, kind.some, column)
    raise TypeError(
        f"the column `{column}` has the type `{kind.name}`, which Arrow has not: collect its values, "
        "such as `user.name()`"
    )


def _plain(kind: k.Kind, value: Any) -> Any:
    """Returns a value as Arrow takes it."""
    kind = _contents(kind)
    match kind:
        case k.SequenceKind():
            return [_plain(kind.element, item) for item in value]
        case k.StructKind():
            parts = zip(fields(value), kind.kinds, strict=True)
            return {field.name: _plain(part, getattr(value, field.name)) for field, part in parts}
        case k.MapKind():
            pairs = value.items() if isinstance(value, dict) else value
            return [(_plain(kind.key, one), _plain(kind.value, other)) for one, other in pairs]
        case k.MaybeKind():
            return None if value is None else _plain(kind.some, value)
    return value
