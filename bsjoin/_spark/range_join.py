"""A range join as part of a Spark plan: rows go to the workers and come back joined.

A row may have any number of answers, so the function is one from batches to batches
(``mapInArrow``), and what it holds at a time is bounded. The stream's columns travel with the
key; their names, nullability and metadata (a watermark, say) are put back behind it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql import types as T  # noqa: N812

from bsjoin._plan import RangePlan, Search, SourceRangePlan
from bsjoin._spark.arrow import arrow_fields
from bsjoin._spark.columns import quoted
from bsjoin._spark.join import Request, answer_row, schema_of
from bsjoin._spark.keys import KeySide, stream_key, type_of
from bsjoin._spark.lookup import clock_of
from bsjoin._spark.metrics import observed_range, observed_rows
from bsjoin._spark.observing import is_reported
from bsjoin._spark.range_columns import (
    check_range_types,
    finer_digits,
    probe_type,
    stream_columns,
    width_in_units,
)
from bsjoin._spark.workers import check_workers
from bsjoin.conditions import AsOf, Band, Condition, Within
from bsjoin.errors import ColumnError
from bsjoin.store import Manifest, RangeColumns, StorageLocation
from bsjoin.worker import range_join

__all__ = ["plan_range_join", "range_joined", "search_of"]


def plan_range_join(
    stream: DataFrame,
    location: StorageLocation,
    manifest: Manifest,
    request: Request,
    when: Condition,
    *,
    may_change: bool,
) -> DataFrame:
    """Build the plan of a range join with a stored table.

    Args:
        stream: the probe side.
        location: where the table lives.
        manifest: its newest version; it has range columns.
        request: the equality keys, the join type, the columns to bring.
        when: the condition, its column names as the stream and the table spell them.
        may_change: whether other versions of the table may come while the plan is in use.

    Raises:
        KeyTypeError, ArgumentError: types or widths that do not suit the condition.
        ColumnError: a column of the stream that cannot travel to a worker.
    """
    assert manifest.ranged is not None
    schema = stream.schema
    by_table = {table: stream_name for stream_name, table in request.keys}
    names = [by_table[key.name] for key in manifest.keys]
    key = stream_key(
        [stream[quoted(name)] for name in names],
        [schema[name].dataType for name in names],
        [type_of(key.type) for key in manifest.keys],
    )
    bound = not stream.isStreaming
    stored = schema_of(manifest)
    fields = [stored[name] for name in request.columns]
    if request.how == "left" or (may_change and not bound):
        fields = [T.StructField(f.name, f.dataType, True, f.metadata) for f in fields]
    plan = RangePlan(
        label=request.label,
        partitioned=request.partitioned,
        location=location,
        epoch=manifest.created_at_us,
        version=manifest.version if bound else None,
        columns=request.columns,
        shape="rows",
        row_type=pa.struct(arrow_fields(answer_row(fields))),
        reports=is_reported(stream),
        how=request.how,
        search=search_of(when, manifest.ranged, schema),
        carried=len(schema),
    )
    named = list(zip(request.names, fields, strict=False))
    return range_joined(stream, key, plan, manifest.ranged, when, named)


def range_joined(
    stream: DataFrame,
    key: KeySide,
    plan: RangePlan | SourceRangePlan,
    table: RangeColumns,
    when: Condition,
    brought: Sequence[tuple[str, T.StructField]],
) -> DataFrame:
    """Put a range join behind a DataFrame.

    Args:
        stream: the probe side.
        key: its equality key, comparable with the table's.
        plan: what the workers do.
        table: the table's range columns.
        when: the condition, its column names as the stream and the table spell them.
        brought: the table's columns to bring, and their names in the result.

    Raises:
        ColumnError: a column of the stream that cannot travel to a worker.
        WorkerEnvironmentError: the workers cannot run it.
    """
    schema = stream.schema
    _check_carried(schema)
    probes = stream_columns(when)
    check_workers(stream.sparkSession)
    probed = probe_type(type_of(table.types[0]), [schema[name].dataType for name in probes])
    clock = clock_of(plan) if isinstance(plan, RangePlan) else []
    asked = [stream[quoted(name)].cast(probed) for name in probes]
    # Whole lists of names at a time: each Column made in Python is several calls to the JVM.
    sent = stream.select("*", key.hash, *clock, *key.compared, *asked).toDF(
        *(f"s{i}" for i in range(len(schema))),
        "h",
        *(f"t{i}" for i in range(len(clock))),
        *(f"k{i}" for i in range(len(key.compared))),
        *(f"p{i}" for i in range(len(asked))),
    )
    if plan.reports:
        sent = observed_rows(sent, plan)
    fields = [field for _, field in brought] if plan.how in ("inner", "left") else []
    returned = T.StructType(
        [
            *(T.StructField(f"s{i}", f.dataType, f.nullable) for i, f in enumerate(schema)),
            *(T.StructField(f"c{i}", f.dataType, f.nullable) for i, f in enumerate(fields)),
            *([T.StructField(range_join.NOTE, T.StringType())] if plan.reports else []),
        ]
    )

    def bsjoin_range_join(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return range_join.joined(plan, batches)

    joined = sent.mapInArrow(bsjoin_range_join, returned)
    if plan.reports:
        joined = observed_range(joined, plan, F.col(range_join.NOTE))
    named = [(f.name, f.metadata) for f in schema]
    if fields:
        named += [(name, field.metadata) for name, field in brought]
    if not any(metadata for _, metadata in named):
        return joined.drop(range_join.NOTE).toDF(*(name for name, _ in named))
    return joined.select(
        *(
            F.col(field.name).alias(name, metadata=metadata)
            for field, (name, metadata) in zip(returned.fields, named, strict=False)
        )
    )


def search_of(when: Condition, table: RangeColumns, stream: T.StructType) -> Search:
    """The condition in the units of the codes.

    Raises:
        KeyTypeError, ArgumentError: types or widths that do not suit the condition.
    """
    given = [(name, stream[name].dataType) for name in stream_columns(when)]
    check_range_types(when, given, table)
    points = type_of(table.types[0])
    probes = probe_type(points, [dtype for _, dtype in given])
    floating, finer = isinstance(points, T.DoubleType), finer_digits(points, probes)
    if isinstance(when, Band):
        return Search(
            kind="band",
            floating=floating,
            finer=finer,
            before=width_in_units(when.before, probes, "before"),
            after=width_in_units(when.after, probes, "after"),
            closed=when.closed,
        )
    if isinstance(when, AsOf):
        tolerance = when.tolerance
        return Search(
            kind="asof",
            floating=floating,
            finer=finer,
            direction=when.direction,
            tolerance=None if tolerance is None else width_in_units(tolerance, probes, "tolerance"),
            exact=when.exact,
        )
    kind = "within" if isinstance(when, Within) else "overlaps"
    return Search(kind=kind, floating=floating, finer=finer, closed=when.closed)  # type: ignore[arg-type]


def _check_carried(schema: T.StructType) -> None:
    """Refuse columns of the stream that Spark cannot exchange with Python."""
    for field in schema:
        try:
            arrow_fields(T.StructType([field]))
        except (PySparkException, TypeError, ValueError) as error:
            raise ColumnError(
                f"the stream's column {field.name!r} has the type {field.dataType.simpleString()}, "
                f"which cannot travel through a range join: {error}. Drop it, or cast it"
            ) from error
