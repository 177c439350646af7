"""The transfer of whole rows: they go to the workers and come back joined, by one join or several.

A join whose stream is the result of another one, or a selection of it, runs in the same function,
from batches to batches (``mapInArrow``): several joins are one stage. A row may have any number of
answers, and what the function holds at a time is bounded. The stream's columns travel with the
keys; their names, nullability and metadata (a watermark, say) are put back behind it.
Within the stage a column has a number and no name: a selection between two joins may rename it, or
drop it and let another have its name.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql import types as T  # noqa: N812

from bsjoin.metrics.accumulated import sender
from bsjoin.metrics.observing import name_of, observed
from bsjoin.plan import SourceTable, StageColumn, StageJoin, StagePlan, StoredTable
from bsjoin.planner.chain import Stage
from bsjoin.planner.checks import Named, placed
from bsjoin.planner.columns import unused
from bsjoin.planner.keys import is_collated, is_floating, is_integer
from bsjoin.planner.planned_join import PlannedJoin, clock_of
from bsjoin.planner.references import identified
from bsjoin.runtimes.python.worker import chain, notes
from bsjoin.spark import sql
from bsjoin.spark.arrow import arrow_fields


def joined(stage: Stage) -> DataFrame:
    """The stream's columns, then those of the joins' tables."""
    sent = _Sent(stage)
    own = stage.stream.schema.fields
    plan = StagePlan(
        stream_columns=len(own),
        joins=tuple(sent.joined(number) for number in range(len(stage.joins))),
    )
    returned = [*own, *(field for join in stage.joins for field in payload(join))]
    plans = [planned.plan for planned in stage.joins]
    reports, cycle = plans[0].reports, stage.joins[-1].join.cycle
    name = name_of(*plans)
    send = sender(stage.stream, cycle, name) if reports else None

    def bsjoin_join(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        task = TaskContext.get()
        notes.begin(None if task is None else task.partitionId())
        return chain.joined(plan, batches, send)

    names = [field.name for field in returned]
    (noted,) = unused(names, "bsjoin_note")
    counted = reports and send is None
    if counted:
        returned.append(T.StructField(noted, T.StringType()))
    # Spark takes the columns by their places, not by the names in the batches.
    rows = sent.rows().mapInArrow(bsjoin_join, T.StructType(returned))
    result = identified(rows, stage.given, [field.name for field in returned])
    if not counted:
        return result
    note = F.col(noted)
    result = observed(result, cycle, name, note)
    if any(one.how != "left" for one in plans):
        result = result.where(note.isNull() | ~note.startswith(chain.NO_ROW))
    return result.drop(noted)


def payload(planned: PlannedJoin) -> list[T.StructField]:
    """What a join brings, behind the stream's columns."""
    how = planned.plan.how
    if how not in ("inner", "left"):
        return []
    found = [
        T.StructField(f.name, f.dataType, f.nullable or how == "left", f.metadata)
        for f in planned.fields
    ]
    known = planned.plan.marks + planned.plan.begins  # which are never null
    return [*found[: len(found) - known], *planned.fields[len(found) - known :]]


class _Sent:
    """The columns that Spark sends to a stage: the stream's, and others that it computes of them.

    Spark hashes a key of the stream's columns; the worker hashes one that has columns of a join
    before, and one of integers only.
    """

    def __init__(self, stage: Stage):
        self._stage = stage
        self._fields = stage.stream.schema.fields
        self._payload = [
            (number, i)
            for number, join in enumerate(stage.joins)
            for i in range(len(payload(join)))
        ]
        # Never that of a column of the stream: these are columns of the result, too.
        (self._sent_as,) = unused(stage.stream.columns, "s")
        self._added: dict[str, StageColumn] = {}

    def rows(self) -> DataFrame:
        """The rows with all that was asked for."""
        # Whole lists of names at a time: each Column made in Python is several calls to the JVM.
        rows = self._stage.stream.toDF(*map(self._name, range(len(self._fields))))
        added = [f"{value} AS a{i}" for i, value in enumerate(self._added)]
        return sql.select(rows, *added) if added else rows

    def joined(self, number: int) -> StageJoin:
        """A join of the stage, and where it finds its key."""
        planned, found = self._stage.joins[number], self._stage.found[number]
        join, plan = planned.join, planned.plan
        hashed, types = None, _key_types(planned)
        # A worker hashes integers as quickly, and one column less travels.
        by_spark = join.nulls_equal is not None or not all(map(pa.types.is_integer, types))
        if by_spark and all(found[name] < len(self._fields) for name in join.stream_keys):
            hashed, key = self._hashed(planned, found)
        else:
            key = [
                self._column(found[name], dtype)
                for name, dtype in zip(join.stream_keys, types, strict=True)
            ]
        clock = clock_of(plan)
        return StageJoin(
            plan=plan,
            hash=hashed,
            key=tuple(key),
            probes=tuple(
                self._column(found[name], dtype)
                for name, dtype in zip(join.probes, _arrow_types(planned.probe_types), strict=True)
            ),
            clock=self._sent(clock[0]).number if clock else None,
            check=planned.check and placed(planned.check, lambda one: self._named(one, number)),
        )

    def _named(self, wanted: Named, number: int) -> StageColumn:
        """A column of a join's pairs of rows."""
        planned, found = self._stage.joins[number], self._stage.found[number]
        for name in planned.checked_columns:
            if name.lower() == wanted.name:
                return self._column(found[name], None)
        return StageColumn(number, [name.lower() for name in planned.join.names].index(wanted.name))

    def _column(self, number: int, dtype: pa.DataType | None) -> StageColumn:
        join = None
        if number >= len(self._fields):
            join, number = self._payload[number - len(self._fields)]
        return StageColumn(join, number, dtype)

    def _hashed(
        self, planned: PlannedJoin, found: Mapping[str, int]
    ) -> tuple[StageColumn, list[StageColumn]]:
        """The hash of a key of the stream's columns, and what is compared or looked up."""
        join, table = planned.join, planned.plan.table
        looked_up = None if isinstance(table, StoredTable) else table.keys
        side = planned.key(lambda name: self._name(found[name]))
        numbers = [found[name] for name in join.stream_keys]
        key = []
        safe = join.nulls_equal or (False,) * len(numbers)
        for i, value in enumerate(side.compared):
            if i == len(numbers):  # which of the keys are null
                key.append(self._sent(value))
                continue
            number, dtype = numbers[i], join.key_types[i]
            as_it_is = self._fields[number].dataType == dtype and join.lengths[i] is None
            as_it_is &= looked_up is not None or not (safe[i] or is_collated(dtype))
            if as_it_is and (
                isinstance(dtype, T.StringType | T.BinaryType)
                or (looked_up is not None and not is_floating(dtype))
            ):
                key.append(StageColumn(None, number))  # which travels anyway
            else:
                key.append(self._sent(value))
        return self._sent(side.hash), key

    def _name(self, number: int) -> str:
        return f"{self._sent_as}{number}"

    def _sent(self, value: str) -> StageColumn:
        """A value that Spark computes; once for all joins that need the same."""
        next_one = StageColumn(None, len(self._fields) + len(self._added))
        return self._added.setdefault(value, next_one)


def _key_types(planned: PlannedJoin) -> list[pa.DataType]:
    """The types in which the worker hashes and compares a key."""
    table = planned.plan.table
    if isinstance(table, SourceTable):
        return list(table.keys.types)
    wide = {is_integer: T.LongType(), is_floating: T.DoubleType()}
    return _arrow_types(
        [
            next((wider for kind, wider in wide.items() if kind(dtype)), dtype)
            for dtype in planned.join.key_types
        ]
    )


def _arrow_types(types: Sequence[T.DataType]) -> list[pa.DataType]:
    fields = arrow_fields(T.StructType([T.StructField("k", dtype) for dtype in types]))
    return [field.type for field in fields]
