"""Tables of rows with the real libraries: data frames of pandas, tables of Arrow."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Iterator, Sequence

import pandas as pd
import pyarrow as pa
import pytest
from conformance.bifrost_stubs import (
    MaybeOfString,
    Numbers,
    Probe,
    Spot,
    Values,
    aconnect,
    connect,
)
from readme import block
from servers import CONFORMANCE, ROOT, Server

import bifrost_veneer as bf

NAMES = ("int", "real", "bool", "char", "text", "bytes", "null")
CLASSES = (bf.Int, bf.Real, bf.Bool, bf.Char, bf.Str, bf.Bytes, bf.Null)
ROWS = [
    (1, 1.5, True, "x", "one", b"\x00\xff", None),
    (-(1 << 63), -math.inf, False, "\u00e9", "", b"", None),
    ((1 << 63) - 1, math.nan, True, "'", "zw\u00f6lf", b"z", None),
]


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with Server(CONFORMANCE) as server:
        yield server


@pytest.fixture
def s(server: Server) -> Iterator[bf.Session]:
    with connect(server.url) as s:
        yield s


def basic(s: bf.Session, rows: Sequence[tuple[object, ...]]) -> bf.Rows[object]:
    table = s.rows(*CLASSES)
    for row in rows:
        table.push(*row)
    return table


def test_a_frame_has_the_types_of_the_columns(s: bf.Session) -> None:
    frame = basic(s, ROWS).to_pandas(*NAMES)
    assert s.counters.crossings == 1
    assert list(frame.columns) == list(NAMES)
    assert [str(frame[name].dtype) for name in NAMES[:3]] == ["int64", "float64", "bool"]
    assert all(pd.api.types.is_string_dtype(frame[name]) for name in ("char", "text"))
    for at, row in enumerate(ROWS):
        found = tuple(frame.iloc[at])
        assert found[:1] + found[2:] == row[:1] + row[2:]
    assert frame["real"].tolist()[:2] == [1.5, -math.inf]
    assert math.isnan(frame["real"][2])
    # The sum is one of integers, without a way over reals.
    assert int(frame["int"][:1].sum()) == 1


def test_an_empty_table_has_types_too(s: bf.Session) -> None:
    frame = basic(s, []).to_pandas(*NAMES)
    assert len(frame) == 0
    assert [str(frame[name].dtype) for name in NAMES[:3]] == ["int64", "float64", "bool"]
    table = basic(s, []).to_arrow(*NAMES)
    assert table.num_rows == 0
    assert table.schema.field("int").type == pa.int64()
    assert table.schema.field("text").type == pa.string()


def test_a_table_of_arrow_has_the_same_values(s: bf.Session) -> None:
    table = basic(s, ROWS).to_arrow(*NAMES)
    types = [pa.int64(), pa.float64(), pa.bool_(), pa.string(), pa.string(), pa.binary(), pa.null()]
    assert table.schema.types == types
    for name, column in zip(NAMES, zip(*ROWS, strict=True), strict=True):
        found = table.column(name).to_pylist()
        if name == "real":
            assert found[:2] == list(column[:2])
            assert math.isnan(found[2])
        else:
            assert found == list(column)


def test_rows_of_loops_are_columns(s: bf.Session) -> None:
    p = s.lookup("probe", Probe)
    rows = s.collect(p.pairs(1000), lambda v: (v[0], v[1]))
    frame = rows.to_pandas("n", "text")
    assert frame["n"].tolist() == list(range(1, 1001))
    assert frame["text"].tolist() == [str(n) for n in range(1, 1001)]
    # A known table is taken again without a crossing.
    crossings = s.counters.crossings
    assert rows.to_arrow("n", "text").column("n").to_pylist() == list(range(1, 1001))
    assert s.counters.crossings == crossings
    # A row of one column is the cell itself; columns without names have numbers.
    one = s.collect(p.numbers(3), lambda n: n)
    assert one.to_pandas()["0"].tolist() == [1, 2, 3]
    assert one.to_arrow().column("0").to_pylist() == [1, 2, 3]


def test_compounds_nest_in_arrow(s: bf.Session) -> None:
    v: Values = s.lookup("probe", Probe).values()
    spots = s.collect(v.spots(2), lambda spot: spot)
    values = spots.claim()
    assert all(isinstance(value, Spot) for value in values)
    fields = [(value.x, value.y) for value in values]
    table = spots.to_arrow("spot")
    assert table.column("spot").to_pylist() == [dict(zip("xy", f, strict=True)) for f in fields]
    assert spots.to_pandas("spot")["spot"].tolist() == values
    lists = s.rows(Numbers, MaybeOfString)
    lists.push([1, 2], "there")
    lists.push([], None)
    table = lists.to_arrow("numbers", "name")
    assert table.schema.types == [pa.list_(pa.int64()), pa.string()]
    assert table.column("numbers").to_pylist() == [[1, 2], []]
    assert table.column("name").to_pylist() == ["there", None]


def test_objects_are_no_column_of_arrow(s: bf.Session) -> None:
    p = s.lookup("probe", Probe)
    items = s.collect(p.items(), lambda item: (item.name(), item))
    frame = items.to_pandas("name", "item")
    assert [item.name().claim() for item in frame["item"]] == frame["name"].tolist()
    with pytest.raises(TypeError, match="the column `item` has the type `Item`, which Arrow has"):
        items.to_arrow("name", "item")
    shapes = s.collect(p.numbers(3), lambda n: p.values().shape(n))
    assert len(shapes.to_pandas()) == 3
    with pytest.raises(TypeError, match="which Arrow has not"):
        shapes.to_arrow()


def test_names_fit_the_table(s: bf.Session) -> None:
    rows = s.collect(s.lookup("probe", Probe).pairs(2), lambda v: (v[0], v[1]))
    for to in (rows.to_pandas, rows.to_arrow):
        with pytest.raises(ValueError, match="the table has 2 columns, not 1"):
            to("n")
        with pytest.raises(ValueError, match="different names"):
            to("n", "n")


@pytest.mark.parametrize("method", ["to_pandas", "to_arrow"])
def test_failures_are_those_of_the_claim(s: bf.Session, method: str) -> None:
    p = s.lookup("probe", Probe)
    rows = s.collect(p.numbers(3), lambda n: p.choose(n))
    with pytest.raises(bf.Unseen, match="signalled odd"):
        getattr(rows, method)()


def test_awaited_tables_are_awaited_first(server: Server) -> None:
    async def main() -> None:
        async with aconnect(server.url) as s:
            p = s.lookup("probe", Probe)
            rows = s.collect(p.pairs(2), lambda v: (v[0], v[1]))
            with pytest.raises(TypeError, match="await promise"):
                rows.to_pandas()
            await rows
            assert rows.to_pandas("n", "text")["n"].tolist() == [1, 2]
            assert rows.to_arrow("n", "text").num_rows == 2

    asyncio.run(main())


def test_the_readme_says_so(server: Server) -> None:
    text = (ROOT / "veneers" / "python" / "README.md").read_text()
    with Server(ROOT / "examples" / "database" / "database.theta") as one:
        from database.bifrost_stubs import DataBase
        from database.bifrost_stubs import connect as connect_to_database

        with connect_to_database(one.url) as s:
            space = {"s": s, "db": s.lookup("database", DataBase)}
            exec(block(text, "frames"), space)
            assert list(space["frame"].columns) == ["name", "visits"]  # type: ignore[attr-defined]
            assert space["table"].num_rows == 3  # type: ignore[attr-defined]
