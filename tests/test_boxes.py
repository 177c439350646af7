"""Boxes: several ranges that one index answers together. Exact arithmetic is the oracle."""

from __future__ import annotations

import contextlib
import math
import random
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hostile_jvm import change, copy, damages, replace
from oracle import counted, of_join_type, one_part, rows_of_all
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from sessions import configured

import bsjoin
from bsjoin import AsOf, Band, BatchTable, Overlaps, Within
from bsjoin.errors import ArgumentError, ColumnError, DamagedTableError, KeyTypeError
from bsjoin.index import GREATEST, LEAST
from bsjoin.planner.chain import joins_of
from bsjoin.storage import StorageLocation, versions
from bsjoin.storage.opening import open_segments
from tests.fuzz.exact import matcher, order_or_none

pytestmark = pytest.mark.usefixtures("without_code")

DOUBLES = (*range(9), 0.5, 3.25, -0.0, math.nan, math.inf, -math.inf)
TIMES = (*range(0, 40_000_000, 2_500_000), 1, -(2**62), 2**61)
NUMBERS = (*range(12), -(2**63), 2**63 - 1, 2**63 - 2)
KINDS: dict[str, tuple[str, pa.DataType, Sequence[Any]]] = {
    "d": ("double", pa.float64(), DOUBLES),
    "t": ("timestamp", pa.timestamp("us", "UTC"), TIMES),
    "n": ("long", pa.int64(), NUMBERS),
}

GENERATED = {"spark.sql.codegen.wholeStage": "true", "spark.sql.codegen.factoryMode": "FALLBACK"}
BOXES: dict[str, list[Any]] = {
    "points in boxes": [Within("pd", "qd", "yd"), Within("pt", "qt", "yt", "both")],
    "boxes of points": [Band("pt", "qt", 3, "5 seconds"), Band("pd", "qd", 1, 1.5, "left")],
    "no end": [
        Band("pd", "qd", math.inf, math.inf),
        Band("pn", "qn", 2, math.inf),
    ],
    "overlap and band": [
        Overlaps(("pn", "xn"), ("qn", "yn"), "both", "contains"),
        Band("pt", "qt", 4, 4, "neither"),
    ],
    "three": [
        Overlaps(("pt", "xt"), ("qt", "yt"), "right", at_least=1),
        Within("pn", "qn", "yn"),
        Overlaps(("pd", "xd"), ("qd", "yd"), "neither"),
    ],
    # The first one decides by its ends, or by empty intervals, what the tree finds only nearly.
    "open band": [Band("pd", "qd", 1, 1, "neither"), Within("pn", "qn", "yn", "right")],
    "right": [Within("pn", "qn", "yn", "right"), Band("pt", "qt", 9, 9)],
    "neither": [Within("pt", "qt", "yt", "neither"), Band("pd", "qd", 99, 9)],
    "overlap": [Overlaps(("pn", "xn"), ("qn", "yn")), Band("pt", "qt", 99, 99)],
    "overlap, right": [Overlaps(("pt", "xt"), ("qt", "yt"), "right"), Band("pn", "qn", 9, 9)],
}
# The join type of each: by pairs in the JVM and in Python.
HOWS: tuple[Any, ...] = (
    *("left", "anti"),
    *("left", "anti"),
    *("semi", "left"),
    *("semi", "left"),
    *("left", "inner"),
)


def _drawn(names: str, seed: str, many: int) -> pa.Table:
    """Rows with a number, a key, and points and ends of each kind: empty intervals, nulls, ties."""
    chance = random.Random(seed)
    first, last = names[2:]
    columns: dict[str, Any] = {
        names[0]: pa.array(range(many), pa.int32()),
        names[1]: pa.array([chance.choice([None, 1, 1, 1, 2, 2, 3]) for _ in range(many)]),
    }
    for kind, (_, arrow, values) in KINDS.items():
        starts = [chance.choice(values) for _ in range(many)]
        ends = [
            chance.choice((*values, start, *[v for v in values if v > start][:4]))
            for start in starts
        ]
        for name, drawn in ((first, starts), (last, ends)):
            some = [None if chance.random() < 0.06 else value for value in drawn]
            if pa.types.is_floating(arrow):
                some = [None if value is None else float(value) for value in some]
            columns[f"{name}{kind}"] = pa.array(some, arrow)
    return pa.table(columns)


STREAM, TABLE = _drawn("skpx", "boxes stream", 50), _drawn("nkqy", "boxes table", 600)


def _values(table: pa.Table) -> list[dict[str, Any]]:
    plain = [
        column.cast(pa.int64()) if pa.types.is_timestamp(column.type) else column
        for column in table.columns
    ]
    return pa.table(plain, table.schema.names).to_pylist()


@cache
def _pairs(when: Any) -> frozenset[tuple[Any, Any]]:
    """The pairs that match, whatever the key, by a nested loop."""
    kind = KINDS[when.table_columns[0][1]][0]
    there = [
        (row["n"], [order_or_none(row[name]) for name in when.table_columns])
        for row in _values(TABLE)
        if row[when.table_columns[0]] is not None
    ]
    found = set()
    for row in _values(STREAM):
        probe = [row[name] for name in when.stream_columns]
        if probe[0] is not None:
            fits = matcher(when, probe, kind)
            found |= {(row["s"], n) for n, values in there if fits(values)}
    return frozenset(found)


def _inner(whens: Sequence[Any], on: bool) -> Counter[tuple[Any, Any]]:
    """The pairs for which all conditions hold, and the key if there is one."""
    pairs = frozenset.intersection(*map(_pairs, whens))
    ours, theirs = STREAM["k"].to_pylist(), TABLE["k"].to_pylist()
    return Counter(
        (s, n) for s, n in pairs if not on or (ours[s] is not None and ours[s] == theirs[n])
    )


@pytest.fixture(scope="module")
def both(spark: SparkSession) -> tuple[DataFrame, DataFrame]:
    return one_part(spark, STREAM), one_part(spark, TABLE)


def _check(results: dict[tuple[str, bool, str], DataFrame]) -> None:
    inner: dict[tuple[str, bool], Any] = {}
    for (label, on, how), found in rows_of_all(results).items():
        if (label, on) not in inner:
            inner[label, on] = _inner(BOXES[label], on)
            assert inner[label, on], f"{label}: nothing matches"
        wanted = of_join_type(how, inner[label, on], STREAM["s"].to_pylist())
        got = counted(found)
        told = f"{label}, keys {on}, {how}"
        assert got == wanted, f"{told}: too many {got - wanted}, lacking {wanted - got}"


def _select(how: str) -> list[str]:
    return ["s", "n"] if how in ("inner", "left") else ["s"]


@pytest.mark.parametrize(
    "places", [[0, 2, 5], pytest.param(range(10), marks=pytest.mark.long)], ids=["three", "all"]
)
def test_joins_answer_as_a_nested_loop_does(
    both: tuple[DataFrame, DataFrame], monkeypatch: pytest.MonkeyPatch, places: Sequence[int]
) -> None:
    """In turn with keys, of several segments, and without; in both runtimes; of all join types."""
    spark = both[0].sparkSession
    monkeypatch.setattr("bsjoin.options._SMALLEST_SEGMENT", 1)
    results: dict[str, dict[tuple[str, bool, str], DataFrame]] = {"jvm": {}, "python": {}}
    cases = [*zip(BOXES.items(), HOWS, strict=True)]
    for place in places:
        (label, whens), how = cases[place]
        on, runtime = place % 2 == 0, ("jvm", "python")[place // 2 % 2]
        keys = ["k"] if on else []
        table = BatchTable.build(both[1], on=keys, when=whens, segment_bytes=32 << 10)
        assert (table.stats().segments > 1) == on
        turned: Any = whens[:: -1 if place % 3 else 1]
        with configured(spark, {"spark.bsjoin.runtime": runtime}):
            joined = table.join(both[0], keys, how, when=turned)
        results[runtime][label, on, how] = joined.select(*_select(how))
        step = joins_of(joined)[0].planned.join
        assert len(step.boxes) == len(whens) - 1
        assert len(step.shares) == len(whens)
    for runtime, some in results.items():
        with configured(spark, GENERATED if runtime == "jvm" else {}):
            _check(some)


def test_dataframes_have_boxes_where_keys_have_many_rows(
    both: tuple[DataFrame, DataFrame], capsys: pytest.CaptureFixture[str]
) -> None:
    stream, batch = both
    results = {
        (label, on, how): bsjoin.join(
            stream, batch, ["k"] if on else [], how, when=BOXES[label]
        ).select(*_select(how))
        for label, on, how in [
            ("points in boxes", False, "left"),
            ("three", True, "inner"),
        ]
    }
    _check(results)  # type: ignore[arg-type]
    bsjoin.explain(results["points in boxes", False, "left"])
    first, second = BOXES["points in boxes"]
    said = capsys.readouterr().out
    assert f"left join on {first!r} and {second!r}: full cache" in said
    assert "searches boxes of qd and yd, qt and yt: of a key's rows 0." in said
    bsjoin.explain(bsjoin.join(stream, batch.limit(60), [], when=[first, second]))
    assert "searches qd and yd: the table has no boxes, which" in capsys.readouterr().out


def test_a_join_changes_no_boxes_of_a_table_that_is_there(
    both: tuple[DataFrame, DataFrame], tmp_path: Path
) -> None:
    stream, batch = both
    first, second = BOXES["points in boxes"]
    BatchTable.build(batch, on="k", when=first, path=tmp_path)
    whens, store = [first, second], bsjoin.Full(store=tmp_path)
    joined = bsjoin.join(stream, batch, "k", when=whens, cache=store).select("s", "n")
    assert Counter((row.s, row.n) for row in joined.collect()) == _inner(whens, True)
    assert versions.numbers(StorageLocation.of(tmp_path)) == [1]
    assert BatchTable.open(tmp_path).join(stream).count() == _inner([first], True).total()


def test_latest_rows_are_those_of_the_first_range(spark: SparkSession) -> None:
    rows = [(1, 0, 1, 0, 1, 1), (1, 0, 1, 5, 6, 2)]
    table = spark.createDataFrame(rows, "k long, x0 int, x1 int, y0 int, y1 int, v int")
    first, second = Within("x", "x0", "x1"), Within("y", "y0", "y1")
    for when in (first, [first, second]):
        built = BatchTable.build(table, on="k", when=when, latest_by="v")
        assert [row.v for row in built.to_df().collect()] == [2]


def test_a_table_keeps_its_boxes(both: tuple[DataFrame, DataFrame], tmp_path: Path) -> None:
    """Opened again, refreshed, built anew; for joins by one range, by two, and without when=."""
    stream, batch = both
    whens = BOXES["points in boxes"]
    path = tmp_path / "table"
    BatchTable.build(batch, on="k", when=whens, path=path)
    assert BatchTable.build(batch, on="k", when=whens, path=path).version == 1
    again = BatchTable.open(path)
    inner = _inner(whens, True)
    joined = again.join(stream).select("s", "n")
    assert Counter((row.s, row.n) for row in joined.collect()) == inner
    alone = again.join(stream, when=whens[0])
    assert not joins_of(alone)[0].planned.join.boxes
    assert alone.count() == _inner(whens[:1], True).total()
    assert again.refresh(batch.where("n < 300")) == 2
    joined = again.join(stream).select("s", "n")
    assert {row.n for row in joined.collect()} == {n for _, n in inner if n < 300}
    assert versions.latest(StorageLocation.of(path)).boxes


@pytest.mark.in_turns("runtime")
@pytest.mark.usefixtures("runtime")
@pytest.mark.parametrize(
    ("label", "on"),
    [("points in boxes", False), pytest.param("three", True, marks=pytest.mark.long)],
)
def test_layers_and_compacted_tables_have_boxes(
    both: tuple[DataFrame, DataFrame],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    label: str,
    on: bool,
) -> None:
    stream, batch = both
    whens, keys = BOXES[label], ["k"] if on else []
    table = BatchTable.build(batch.where("n < 500"), on=keys, when=whens, path=tmp_path / "a")
    location = StorageLocation.of(table.path)

    def joined() -> set[tuple[int, int]]:
        found = table.join(stream).select("s", "n")
        assert joins_of(found)[0].planned.join.boxes
        return {(row.s, row.n) for row in found.collect()}

    inner = set(_inner(whens, on))
    # Layers of few rows are searched by the first range, below those that have an index.
    table.apply(batch.where("n >= 550"), key="n")
    few = versions.latest(location).layers[-1].rows
    assert few.boxes is None
    assert joined() == {(s, n) for s, n in inner if n < 500 or n >= 550}
    monkeypatch.setattr("bsjoin.storage.layers.applying._BOXED", 65)
    table.apply(batch.where("n >= 400"), key="n")
    assert joined() == inner
    some = batch.where("n % 7 = 0").selectExpr("*", "'delete' AS op")
    table.apply(some, key="n", op="op")
    left = {(s, n) for s, n in inner if n % 7}
    (layer,) = versions.latest(location).layers
    assert layer.rows.boxes is not None
    assert joined() == left
    table.compact()
    built = BatchTable.build(batch.where("n % 7 <> 0"), on=keys, when=whens, path=tmp_path / "b")
    base, wanted = versions.latest(location), versions.latest(StorageLocation.of(built.path))
    assert not base.layers
    assert [one.checksums for one in base.segments] == [one.checksums for one in wanted.segments]
    assert [one.boxes for one in base.segments] == [one.boxes for one in wanted.segments]
    assert base.box_shares == wanted.box_shares is not None
    assert joined() == left


def test_what_cannot_be_a_box_is_refused(both: tuple[DataFrame, DataFrame]) -> None:
    _, batch = both
    first, second = BOXES["points in boxes"]
    text = Within("p", "a", "b")
    texts = batch.selectExpr("*", "string(qd) AS a", "string(yd) AS b")
    for when, error, said in [
        ([first, text], KeyTypeError, "boxes are of numbers, dates and timestamps, and 'a'"),
        ([text, first], KeyTypeError, "boxes are of numbers, dates and timestamps, and 'a'"),
        ([first, AsOf("pt", "qt")], ArgumentError, "takes one row of several"),
        ([first, second, Band("pn", "qn", 1, 1), first], ArgumentError, "at most 3 ranges"),
        ([first, Band("pn", "none", 1, 1)], ColumnError, "none"),
        ([], ArgumentError, "or a list of them"),
        ("text", ArgumentError, "or a list of them"),
    ]:
        with pytest.raises(error, match=said):
            BatchTable.build(texts, on="k", when=when)


@pytest.fixture(scope="module")
def stored(both: tuple[DataFrame, DataFrame], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small table with boxes, whose tests change copies."""
    folder = tmp_path_factory.mktemp("boxes") / "table"
    BatchTable.build(both[1].limit(70), on=[], when=BOXES["points in boxes"], path=folder)
    return folder


def _damaged(stored: Path, to: Path, many: int, seed: object) -> Iterator[tuple[str, Path]]:
    (path,) = stored.glob("data/*/*.boxes.arrow")
    cases = [*damages(path.read_bytes())]
    for case, damage in enumerate(random.Random(str(seed)).sample(cases, many)):
        folder, size = copy(stored, to / str(case)), len(damage.content)
        replace(folder / path.relative_to(stored), damage.content)
        change(folder, lambda data, size=size: data["segments"][0]["boxes"].update(size=size))
        yield damage.where, folder


def test_a_damaged_file_is_an_error_or_has_other_rows(
    stored: Path, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    seed = request.config.option.hypothesis_seed
    probes = [(np.array([0, LEAST]), np.array([9, GREATEST]))] * 2
    for where, folder in _damaged(stored, tmp_path, 80, seed):
        location = StorageLocation.of(folder)
        with contextlib.suppress(DamagedTableError):
            (segment,) = open_segments(location, versions.latest(location))
            rows = segment.index.rows
            found = segment.ranges.boxes.pairs(
                probes, np.zeros(2, np.int64), np.full(2, rows), 1 << 16
            )
            assert all(((some >= 0) & (some < rows)).all() for _, some in found), where


def test_a_damaged_file_is_an_error_in_the_jvm_or_has_other_rows(
    both: tuple[DataFrame, DataFrame], stored: Path, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    stream, _ = both
    seed = request.config.option.hypothesis_seed
    with configured(stream.sparkSession, {"spark.bsjoin.runtime": "jvm"}):
        for where, folder in _damaged(stored, tmp_path, 6, seed):
            said = "DamagedTableError"
            try:
                BatchTable.open(folder, verify=False).join(stream).count()
            except (Py4JJavaError, PySparkException) as error:
                said = str(error)
            assert "DamagedTableError" in said, where
