"""The oracle: what Spark's own join answers, and an exact comparison with what bsjoin answers.

`expected` is Spark's join with the names of the contract. `check` holds all join types of one
table against it at the price of two Spark actions; `assert_same` compares two results.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import reduce
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from bsjoin import BatchTable
from tests.sessions import CODE, configured

HOWS = ("inner", "left", "semi", "anti")
_SPARK_HOW = {"inner": "inner", "left": "left", "semi": "left_semi", "anti": "left_anti"}
_ID, _FOUND = "__id", "__found"
PLAINLY = {**CODE["python"], "spark.sql.adaptive.enabled": "false"}
"""For what Spark answers: nothing is compiled, and nothing planned anew from stage to stage."""

Name = TypeVar("Name")
On = str | Sequence[str] | Mapping[str, str] | None


def key_pairs(on: On, stream: DataFrame, batch: DataFrame) -> list[tuple[str, str]]:
    """The key columns as (stream's name, table's name)."""
    if on is None:
        return [(name, name) for name in stream.columns if name in batch.columns]
    if isinstance(on, str):
        return [(on, on)]
    return list(on.items()) if isinstance(on, Mapping) else [(name, name) for name in on]


def expected(
    stream: DataFrame,
    batch: DataFrame,
    on: On,
    how: str = "inner",
    select: Sequence[str] | None = None,
    suffix: str = "_batch",
) -> DataFrame:
    """Spark's own join: the stream's columns, then the table's, named as the contract says."""
    left, right, condition, brought = _sides(stream, batch, on, select)
    joined = left.join(right, condition, _SPARK_HOW[how])
    names = list(stream.columns)
    if how in ("semi", "anti"):
        return joined.toDF(*names)
    names += [name + suffix if name in stream.columns else name for name, _ in brought]
    return joined.select(*left.columns, *(hidden for _, hidden in brought)).toDF(*names)


def _sides(
    stream: DataFrame, batch: DataFrame, on: On, select: Sequence[str] | None
) -> tuple[DataFrame, DataFrame, Column, list[tuple[str, str]]]:
    """Both sides under names that cannot clash, the condition, and the table's columns to bring."""
    pairs = key_pairs(on, stream, batch)
    left = stream.toDF(*(f"s{i}" for i in range(len(stream.columns))))
    right = batch.toDF(*(f"b{i}" for i in range(len(batch.columns))))
    condition = F.lit(True)
    for s, b in pairs:
        equal = F.col(f"s{stream.columns.index(s)}") == F.col(f"b{batch.columns.index(b)}")
        condition = condition & equal
    keys = {b for _, b in pairs}
    wanted = [name for name in batch.columns if name not in keys] if select is None else select
    return left, right, condition, [(name, f"b{batch.columns.index(name)}") for name in wanted]


def check(
    stream: DataFrame,
    batch: DataFrame,
    on: On,
    hows: Iterable[str] = HOWS,
    select: Sequence[str] | None = None,
    suffix: str = "_batch",
    table: BatchTable | None = None,
) -> None:
    """Hold bsjoin against Spark for several join types, in one Spark action each."""
    hows = list(hows)
    if table is None:
        table = BatchTable.build(batch, on=[b for _, b in key_pairs(on, stream, batch)])
    results = {}
    for how in hows:
        brought = {} if how in ("semi", "anti") else {"select": select}
        results[how] = table.join(stream, on, how=how, suffix=suffix, **brought)
        spark_says = expected(stream, batch, on, how, select, suffix)
        assert_same_schema(results[how], spark_says, f"how={how!r}")
    right_rows = rows_of_spark(stream, batch, on, select)
    for how, rows in rows_of_all(results).items():
        assert_same_rows(rows, right_rows[how], f"how={how!r}")


def rows_of_spark(
    stream: DataFrame, batch: DataFrame, on: On, select: Sequence[str] | None = None
) -> dict[str, pa.Table]:
    """The rows of all join types, from one left join whose stream's rows are numbered.

    What Spark answers does not depend on how it is evaluated.
    """
    with configured(stream.sparkSession, PLAINLY):
        rows = collected(numbered(stream, batch, on, select))
    return by_join_type(rows, len(stream.columns))


def numbered(
    stream: DataFrame, batch: DataFrame, on: On, select: Sequence[str] | None = None
) -> DataFrame:
    """Spark's left join; the last two columns number the stream's rows and say what was found."""
    left, right, condition, brought = _sides(stream, batch, on, select)
    return (
        left.withColumn(_ID, F.monotonically_increasing_id())
        .join(right.withColumn(_FOUND, F.lit(True)), condition, "left")
        .select(*left.columns, *(hidden for _, hidden in brought), _ID, _FOUND)
    )


def by_join_type(joined: pa.Table, carried: int) -> dict[str, pa.Table]:
    """The rows of all join types, from those of `numbered` for a stream of so many columns."""
    *names, id_, found_ = joined.column_names
    rows = joined.select(names)
    found = joined[found_].is_valid()
    ids = joined[id_].to_numpy()
    first = np.zeros(len(ids), np.bool_)
    first[np.unique(ids, return_index=True)[1]] = True
    once = rows.select(range(carried)).filter(pa.array(first))
    once_found = found.filter(pa.array(first))
    return {
        "inner": rows.filter(found),
        "left": rows,
        "semi": once.filter(once_found),
        "anti": once.filter(pc.invert(once_found)),
    }


def of_join_type(
    how: str, inner: Counter[tuple[Any, Any]], stream: Iterable[Any]
) -> Counter[tuple[Any, ...]]:
    """The rows of a join type, of the pairs that match and the stream's rows."""
    matched = {s for s, _ in inner}
    rest = [s for s in stream if s not in matched]
    wanted: dict[str, Counter[tuple[Any, ...]]] = {
        "inner": inner,
        "left": inner + Counter((s, None) for s in rest),
        "semi": Counter((s,) for s in matched),
        "anti": Counter((s,) for s in rest),
    }
    return wanted[how]


def rows_of_all(results: Mapping[Name, DataFrame]) -> dict[Name, pa.Table]:
    """The rows of several results whose columns begin with the same types, from one action."""
    return apart(together(results), results)


def right_rows(results: Mapping[Name, DataFrame]) -> dict[Name, pa.Table]:
    """The same of what Spark answers."""
    with configured(next(iter(results.values())).sparkSession, PLAINLY):
        return rows_of_all(results)


def together(results: Mapping[Any, DataFrame]) -> DataFrame:
    """The union of several results, each row under its result's number."""
    widest = max(results.values(), key=lambda df: len(df.columns))
    types = [field.dataType for field in widest.schema.fields]
    tagged = []
    for number, df in enumerate(results.values()):
        there = df.toDF(*(f"c{i}" for i in range(len(df.columns))))
        lacking = [
            F.lit(None).cast(dtype).alias(f"c{i}")
            for i, dtype in enumerate(types)
            if i >= len(df.columns)
        ]
        tagged.append(there.select(F.lit(number).alias("number"), "*", *lacking))
    return united(tagged)


def united(frames: Sequence[DataFrame]) -> DataFrame:
    """The union, in pairs: every union is analysed again in those above it."""
    while len(frames) > 1:
        pairs = [frames[i : i + 2] for i in range(0, len(frames), 2)]
        frames = [reduce(DataFrame.union, pair) for pair in pairs]
    return frames[0]


def apart(union: DataFrame, results: Mapping[Name, DataFrame]) -> dict[Name, pa.Table]:
    """The rows of a union, given back to the results that it is made of."""
    rows = collected(union)
    return {
        name: rows.filter(pc.equal(rows["number"], number)).select(range(1, 1 + len(df.columns)))
        for number, (name, df) in enumerate(results.items())
    }


def one_part(spark: SparkSession, rows: pa.Table) -> DataFrame:
    """A DataFrame of one partition, where more would cost time and show nothing."""
    return spark.createDataFrame(rows).coalesce(1)


def collected(df: DataFrame) -> pa.Table:
    """All rows, as they come: `toArrow` fails on a null struct whose fields are not nullable."""
    return pa.Table.from_batches(df._collect_as_arrow(empty_list_if_zero_records=False))


def assert_same(actual: DataFrame, expected: DataFrame, note: str = "") -> None:
    """The same columns (name, type, nullability, metadata) and the same rows, in any order."""
    assert_same_schema(actual, expected, note)
    assert_same_rows(collected(actual), collected(expected), note)


def assert_same_schema(actual: DataFrame, expected: DataFrame, note: str = "") -> None:
    assert actual.schema.jsonValue() == expected.schema.jsonValue(), (
        f"{note} schema:\n{actual.schema.treeString()}\nis not\n{expected.schema.treeString()}"
    )


def assert_same_rows(actual: pa.Table, expected: pa.Table, note: str = "") -> None:
    """The same rows, as often, in any order; NaN is NaN, and -0.0 is not 0.0."""
    got, wanted = counted(actual), counted(expected)
    assert got == wanted, (
        f"{note} {actual.num_rows} rows, expected {expected.num_rows}\n"
        f"too many: {(got - wanted).most_common(3)}\nlacking: {(wanted - got).most_common(3)}"
    )


def counted(table: pa.Table) -> Counter[tuple[Any, ...]]:
    """How often each row occurs."""
    if not table.num_columns:
        return Counter({(): table.num_rows})
    return Counter(zip(*map(_cells, table.columns), strict=True))


def _cells(column: pa.ChunkedArray) -> list[Any]:
    """Values that are equal exactly when Spark would print them the same way."""
    kind = column.type
    if pa.types.is_timestamp(kind) or pa.types.is_duration(kind) or pa.types.is_time(kind):
        column = column.cast(pa.int64())  # the whole range, beyond Python's years
    elif pa.types.is_date(kind):
        column = column.cast(pa.int32())
    elif pa.types.is_floating(kind) or pa.types.is_nested(kind):
        return list(map(repr, column.to_pylist()))  # tells -0.0 from 0.0; NaN is "nan"
    return column.to_pylist()
