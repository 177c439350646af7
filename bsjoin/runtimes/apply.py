"""From a resolved join to the DataFrame of its result."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import types as T  # noqa: N812

from bsjoin.metrics.foreach_batch import new_number, observed_batches
from bsjoin.metrics.observing import current_cycle, is_reported
from bsjoin.metrics.refreshes import follow
from bsjoin.plan import JoinPlan, Output, StoredTable
from bsjoin.planner.chain import JoinStep, remember, step_of
from bsjoin.planner.planned_join import Cache, PlannedJoin, answer_row
from bsjoin.planner.range_columns import search_of
from bsjoin.planner.references import brought
from bsjoin.planner.resolve import ResolvedJoin
from bsjoin.runtimes import jvm
from bsjoin.runtimes.base import choose_runtime
from bsjoin.runtimes.partitioning import kind_of, send_to_partitions
from bsjoin.runtimes.python import driver
from bsjoin.spark.arrow import arrow_fields
from bsjoin.spark.session import micro_batch, retained

__all__ = ["plan_join"]


def plan_join(
    stream: DataFrame, join: ResolvedJoin, cache: Cache, given: DataFrame | None = None
) -> DataFrame:
    """Put a join behind a DataFrame.

    Args:
        stream: the probe side.
        join: what is joined.
        cache: how the table is cached.
        given: the DataFrame that the table was given as: references to its columns hold for the
            result; None (default) if there is none.

    Returns:
        The stream's columns, then (inner, left) the table's. It remembers how it was made: see
        :func:`bsjoin.planner.chain.joins_of`.

    Raises:
        ColumnError: a column of the stream that cannot travel to a worker.
        WorkerEnvironmentError: the workers, or the JVM where it must, cannot run it.
    """
    label = _next_label(stream, [*join.stream_keys, *join.probes])
    sent = send_to_partitions(stream, join, label)
    table = cache.planned(sent, join)
    if (cycle := current_cycle()) is not None:
        cycle.table_bytes = table.bytes
    row = answer_row(table.fields)
    search = None
    if join.when is not None and join.ranged is not None:
        search = search_of(join.when, join.ranged, stream.schema)
    spark = stream.sparkSession
    chosen = choose_runtime(
        spark, lambda: jvm.unsupported(spark, table.table, search, table.fields)
    )
    plan = JoinPlan(
        label=label,
        how=join.how,
        table=table.table,
        search=search,
        output=Output(
            columns=join.columns,
            shape=table.shape,
            row_type=pa.struct(arrow_fields(row)),
            longest_run=table.longest_run,
        ),
        runtime=chosen,
        reports=is_reported(sent),
        partitioned=kind_of(join.partition),
    )
    planned = PlannedJoin(
        stream=sent,
        join=join,
        key=table.key,
        plan=plan,
        row=row,
        fields=tuple(
            T.StructField(name, field.dataType, field.nullable, field.metadata)
            for name, field in zip(join.names, table.fields, strict=True)
        ),
        given=given,
    )
    if isinstance(table.table, StoredTable):
        follow(label, table.table.location.url)
    if chosen.name == "python":
        return driver.joined(stream, planned)
    result = brought(jvm.joined(planned), stream, planned)
    return remember(result, JoinStep(stream, planned, jvm.description(planned, step_of(sent))))


def _next_label(stream: DataFrame, columns: Sequence[str]) -> str:
    """A name for one more join of this application: its number and the stream's columns.

    The same join has the same number in all micro-batches of ``foreachBatch``. The columns are
    JSON, in ASCII: a name may hold anything, and Spark carries the label.
    """
    cycle = current_cycle()
    if cycle is not None and "label" in cycle.kept:
        return str(cycle.kept["label"])
    batch = None if cycle is not None or stream.isStreaming else micro_batch(stream)
    if batch is None:
        number = new_number()
    else:
        number = observed_batches.number_of(
            batch.query,
            batch.run,
            int(batch.number),
            tuple(columns),
            new_number,
            retained(stream.sparkSession),
        )
    label = f"{number}:{json.dumps(list(columns))}"
    if cycle is not None:
        cycle.kept["label"] = label
    return label
