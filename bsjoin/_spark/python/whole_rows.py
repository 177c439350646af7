"""The hand-over of whole rows: rows go to the workers and come back joined.

A row may have any number of answers, so the function is one from batches to batches
(``mapInArrow``), and what it holds at a time is bounded. The stream's columns travel with the
key; their names, nullability and metadata (a watermark, say) are put back behind it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql import types as T  # noqa: N812

from bsjoin._spark.arrow import arrow_fields
from bsjoin._spark.columns import quoted
from bsjoin._spark.metrics import observed_range, observed_rows
from bsjoin._spark.planned_join import PlannedJoin, clock_of
from bsjoin.errors import ColumnError
from bsjoin.worker import range_join

__all__ = ["joined"]


def joined(planned: PlannedJoin) -> DataFrame:
    """The stream's columns, then (inner, left) the table's.

    Args:
        planned: a range join.

    Raises:
        ColumnError: a column of the stream that Spark cannot exchange with Python.
    """
    _check_exchangeable(planned.stream.schema)
    stream, plan, key = planned.stream, planned.plan, planned.stream_key
    schema, clock = stream.schema, clock_of(plan)
    points = [point for point, _ in planned.probes(lambda name: stream[quoted(name)])]
    # Whole lists of names at a time: each Column made in Python is several calls to the JVM.
    sent = stream.select("*", key.hash, *clock, *key.compared, *points).toDF(
        *(f"s{i}" for i in range(len(schema))),
        "h",
        *(f"t{i}" for i in range(len(clock))),
        *(f"k{i}" for i in range(len(key.compared))),
        *(f"p{i}" for i in range(len(points))),
    )
    if plan.reports:
        sent = observed_rows(sent, plan)
    brings, outer = plan.how in ("inner", "left"), plan.how == "left"
    fields = planned.fields if brings else ()
    returned = T.StructType(
        [
            *(T.StructField(f"s{i}", f.dataType, f.nullable) for i, f in enumerate(schema)),
            *(
                T.StructField(f"c{i}", f.dataType, f.nullable or outer)
                for i, f in enumerate(fields)
            ),
            *([T.StructField(range_join.NOTE, T.StringType())] if plan.reports else []),
        ]
    )
    carried = len(schema)

    def bsjoin_range_join(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return range_join.joined(plan, carried, batches)

    result = sent.mapInArrow(bsjoin_range_join, returned)
    if plan.reports:
        result = observed_range(result, plan, F.col(range_join.NOTE))
    named = [(f.name, f.metadata) for f in (*schema, *fields)]
    if not any(metadata for _, metadata in named):
        return result.drop(range_join.NOTE).toDF(*(name for name, _ in named))
    return result.select(
        *(
            F.col(field.name).alias(name, metadata=metadata)
            for field, (name, metadata) in zip(returned.fields, named, strict=False)
        )
    )


def _check_exchangeable(schema: T.StructType) -> None:
    for field in schema:
        try:
            arrow_fields(T.StructType([field]))
        except (PySparkException, TypeError, ValueError) as error:
            raise ColumnError(
                f"the stream's column {field.name!r} has the type {field.dataType.simpleString()}, "
                f"which cannot travel through a range join: {error}. Drop it, or cast it"
            ) from error
