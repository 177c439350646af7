"""Plain joins with a stored table, as a user writes them: of DataFrames, and in SQL."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence

from oracle import (
    HOWS,
    On,
    assert_same_rows,
    expected,
    key_pairs,
    rows_of_all,
    rows_of_spark,
)
from pyspark.sql import DataFrame

from bsjoin import BatchTable

__all__ = ["DOORS", "LOOKUP", "Door", "by_spark", "check_plain", "lookups", "plan_of"]

LOOKUP = "BsjoinLookup"
"""The operator that answers a join by an index, as plans name it."""

Door = Callable[..., DataFrame]
"""Of a stream, a stored table, the keys, the join type, the columns to bring, and their suffix."""

_JOIN = {"inner": "JOIN", "left": "LEFT JOIN"}
_EXISTS = {"semi": "EXISTS", "anti": "NOT EXISTS"}
_views = itertools.count()


def by_dataframe(
    stream: DataFrame, table: BatchTable, on: On, how: str, *more: object
) -> DataFrame:
    """The join of two DataFrames."""
    return expected(stream, table.to_df(stream.sparkSession), on, how, *more)  # type: ignore[arg-type]


def by_sql(
    stream: DataFrame,
    table: BatchTable,
    on: On,
    how: str,
    select: Sequence[str] | None = None,
    suffix: str = "_batch",
) -> DataFrame:
    """The join in SQL, with the table's path as its name; semi and anti joins as (NOT) EXISTS."""
    spark, view = stream.sparkSession, f"plain_stream_{next(_views)}"
    stream.toDF(*(f"s{i}" for i in range(len(stream.columns)))).createOrReplaceTempView(view)
    stored = f"bsjoin.`{table.path}`"
    columns = table.to_df(spark).columns
    pairs = key_pairs(on, stream, table.to_df(spark))
    equal = " AND ".join(f"{_quoted('t', b)} = s.s{stream.columns.index(s)}" for s, b in pairs)
    names = list(stream.columns)
    if how in _EXISTS:
        query = (
            f"SELECT * FROM {view} s WHERE {_EXISTS[how]} (SELECT 1 FROM {stored} t WHERE {equal})"
        )
        return spark.sql(query).toDF(*names)
    keys = {b for _, b in pairs}
    brought = [name for name in columns if name not in keys] if select is None else list(select)
    items = ["s.*", *(f"{_quoted('t', name)} AS b{i}" for i, name in enumerate(brought))]
    query = f"SELECT {', '.join(items)} FROM {view} s {_JOIN[how]} {stored} t ON {equal}"
    names += [name + suffix if name in stream.columns else name for name in brought]
    return spark.sql(query).toDF(*names)


DOORS: dict[str, Door] = {"DataFrame": by_dataframe, "SQL": by_sql}


def _quoted(alias: str, name: str) -> str:
    return f"{alias}.`{name.replace('`', '``')}`"


def plan_of(df: DataFrame) -> str:
    """The physical plan, as text."""
    return str(df._jdf.queryExecution().executedPlan().toString())


def lookups(df: DataFrame) -> int:
    """How many joins of a query the index answers.

    The plan with which an adaptive one began stands below it, a subquery's below the subquery.
    """
    count, initial = 0, None
    for line in plan_of(df).splitlines():
        column = len(line) - len(line.lstrip(" :+-"))
        if initial is None or column < initial:
            initial = column if line.endswith("== Initial Plan ==") else None
            count += initial is None and line.count(LOOKUP)
    return count


def by_spark(df: DataFrame) -> bool:
    """Whether Spark's own joins answer a part of a query; of empty sides no join is left."""
    return any(name in plan_of(df) for name in ("Join ", "CartesianProduct"))


def check_plain(
    stream: DataFrame,
    batch: DataFrame,
    on: On,
    hows: Iterable[str] = HOWS,
    select: Sequence[str] | None = None,
    suffix: str = "_batch",
    table: BatchTable | None = None,
) -> None:
    """Hold both doors against Spark's join of the source, with two Spark actions."""
    if table is None:
        table = BatchTable.build(batch, on=[b for _, b in key_pairs(on, stream, batch)])
    results = {}
    for (name, door), how in itertools.product(DOORS.items(), list(hows)):
        df = results[name, how] = door(stream, table, on, how, select, suffix)
        wanted = expected(stream, batch, on, how, select, suffix)
        assert _types(df) == _types(wanted), f"{name}, {how}"
        assert not by_spark(df), f"{name}, {how}: {plan_of(df)}"
    rows = rows_of_spark(stream, batch, on, select)
    for (name, how), found in rows_of_all(results).items():
        assert_same_rows(found, rows[how], f"{name}, {how}")


def _types(df: DataFrame) -> list[tuple[str, str]]:
    """Names and types. A stored table's columns may be null: a later version may have nulls."""
    return [(field.name, field.dataType.simpleString()) for field in df.schema.fields]
