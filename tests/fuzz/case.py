"""What a case is made of. Its ``repr`` is Python that makes it again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from bsjoin import AsOf, Band, Overlaps, Within
from bsjoin.spark.sql import quoted
from tests.fuzz.values import KINDS, array, rows_of

Condition = Band | Within | Overlaps | AsOf
Row = tuple[Any, ...]
Columns = tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Rows:
    """Rows of named columns.

    Args:
        columns: names with their kinds (:data:`values.KINDS`).
        rows: their values, null is None.
    """

    columns: Columns
    rows: tuple[Row, ...]

    def names(self) -> list[str]:
        """The columns' names."""
        return [name for name, _ in self.columns]

    def arrow(self, start: int = 0, stop: int | None = None) -> pa.Table:
        """Some of the rows."""
        rows = self.rows[start:stop]
        arrays = [array(kind, [row[i] for row in rows]) for i, (_, kind) in enumerate(self.columns)]
        return pa.table(arrays, names=self.names())


@dataclass(frozen=True)
class Table:
    """A table.

    Args:
        columns: names with their kinds.
        versions: the rows of each version; those after the first come by refreshes or changes.
        keys: the key columns.
        when: the range condition that it is built for.
        cache: where it is: ``"stored"`` (a BatchTable), ``"private"`` (a DataFrame, built by the
            call of the join), ``"sqlite"`` or ``"callback"`` (an incremental cache of a source).
        unique: whether it is declared unique.
        latest_by: by what its latest rows are kept; empty for all rows.
        keep: how many of a key.
        nulls_equal: the keys that are null-safe in some joins.
        limits: arguments of ``Incremental``.
        strict: whether columns without nulls are declared so.
        max_keys: how many keys a query of a source has at most.
        boxes: further range conditions, by which its rows are boxes.
    """

    columns: Columns
    versions: tuple[tuple[Row, ...], ...]
    keys: tuple[str, ...]
    when: Condition | None = None
    cache: str = "stored"
    unique: bool = False
    latest_by: tuple[str, ...] = ()
    keep: int = 1
    nulls_equal: tuple[str, ...] = ()
    limits: tuple[tuple[str, Any], ...] = ()
    strict: bool = False
    max_keys: int = 10_000
    boxes: tuple[Condition, ...] = ()

    def nullable(self) -> list[bool]:
        """Which columns may have nulls."""
        rows = [row for version in self.versions for row in version]
        return [
            not self.strict or any(row[i] is None for row in rows) for i in range(len(self.columns))
        ]

    def rows(self, version: int) -> Rows:
        """The rows of a version; of the last one if there are fewer."""
        return Rows(self.columns, self.versions[min(version, len(self.versions) - 1)])


@dataclass(frozen=True)
class Join:
    """A join of a chain.

    Args:
        table: the number of the table.
        on: the stream's key columns, or expressions of them (:mod:`keys`), with the table's.
        how: the join type.
        when: the range condition.
        select: the table's columns to bring; None for all that are not keys.
        partition: None, ``("hash", n)`` or ``("hot spot", n)``.
        runtime: ``"jvm"`` or ``"python"``.
        selects: whether selections come before it that leave rows and columns as they are.
        where: the rest of the condition: ``"same"`` or ``"above"``, which compare a column of the
            stream with one of the table, or ``"null"``: the table's one is null.
        nulls_equal: the table's keys that are null-safe.
        also: further range conditions, which hold as well.
    """

    table: int
    on: tuple[tuple[str, str], ...]
    how: str = "inner"
    when: Condition | None = None
    select: tuple[str, ...] | None = None
    partition: tuple[str, int] | None = None
    runtime: str = "jvm"
    selects: bool = False
    where: tuple[str, str, str] | None = None
    nulls_equal: tuple[str, ...] = ()
    also: tuple[Condition, ...] = ()


@dataclass(frozen=True)
class Case:
    """Joins in a chain, over a batch or a streaming DataFrame.

    Args:
        tables: the tables.
        stream: the probe side; its first column is a number that no two rows share.
        joins: the chain.
        cuts: how many rows each micro-batch has; empty for a batch DataFrame.
        events: what happens before a micro-batch, with its number: ``"refresh"`` publishes the next
            version of every stored table, ``"restart"`` starts the query again from its checkpoint,
            ``"replay"`` does so without the last commit. A batch DataFrame knows refreshes only.
        batch_rows: the largest number of rows of an Arrow batch.
        zone: the session's time zone.
        parts: how many partitions the stream has, for a batch DataFrame.
        generated: whether Spark generates code for expressions; else it evaluates them one by one.
    """

    tables: tuple[Table, ...]
    stream: Rows
    joins: tuple[Join, ...]
    cuts: tuple[int, ...] = ()
    events: tuple[tuple[int, str], ...] = ()
    batch_rows: int = 10_000
    zone: str = "UTC"
    parts: int = 1
    generated: bool = True

    def version(self, batch: int) -> int:
        """How many refreshes there are before a micro-batch."""
        return sum(number <= batch and event == "refresh" for number, event in self.events)

    def batches(self) -> list[tuple[int, int]]:
        """The rows of each micro-batch: the first, and one past the last."""
        if not self.cuts:
            return [(0, len(self.stream.rows))]
        found, start = [], 0
        for size in self.cuts:
            found.append((start, start + size))
            start += size
        return found


def result_columns(case: Case) -> list[Columns]:
    """The columns of the stream, then those after each join."""
    columns = case.stream.columns
    found = [columns]
    for number, join in enumerate(case.joins):
        if join.how in ("inner", "left"):
            table = case.tables[join.table]
            taken = {name for name, _ in columns}
            kinds = dict(table.columns)
            columns = (*columns, *aggregates(table, join))
            for name in brought(table, join):
                there = name + suffix(number) if name in taken else name
                columns = (*columns, (there, kinds[name]))
        found.append(columns)
    return found


def aggregates(table: Table, join: Join) -> list[tuple[str, str]]:
    """The columns of aggregates, or of an array, that a join brings instead of the table's."""
    kinds = dict(table.columns)
    if isinstance(join.when, AsOf) and join.when.collect:
        return [(join.when.collect, rows_of([(n, kinds[n]) for n in picked(table, join)]))]
    if not isinstance(join.when, Band):
        return []
    return [
        (name, _aggregate(call.function, kinds.get(str(call.column), "")))
        for name, call in join.when.aggregates.items()
    ]


def _aggregate(function: str, kind: str) -> str:
    """The type of an aggregate of a column."""
    if function in ("min", "max"):
        return kind
    if function == "count":
        return "long"
    if kind.startswith("decimal"):
        before, after = KINDS[kind].digits
        more = {"sum": (10, 0), "avg": (0, 4)}[function]
        return f"decimal({before + after + sum(more)},{after + more[1]})"
    return "long" if function == "sum" and KINDS[kind].family == "exact" else "double"


def brought(table: Table, join: Join) -> list[str]:
    """The table's columns that an inner or left join brings."""
    return [] if aggregates(table, join) else picked(table, join)


def picked(table: Table, join: Join) -> list[str]:
    """The table's columns that a join has of each row."""
    if join.select is not None:
        return list(join.select)
    return [name for name, _ in table.columns if name not in table.keys]


def where_text(join: Join, stream: Sequence[str], number: int) -> str | None:
    """The rest of a join's condition in SQL; None if there is none."""
    if join.where is None:
        return None
    what, ours, theirs = join.where
    there = quoted(theirs + suffix(number) if theirs in stream else theirs)
    if what == "null":
        return f"{there} IS NULL"
    return f"{quoted(ours)} {'<=>' if what == 'same' else '>'} {there}"


def suffix(number: int) -> str:
    """What a join of a chain appends to a name that is taken."""
    return f"_{number}"
