"""What a source reads, as a DataFrame: the whole table, for a full cache, or what has changed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as T  # noqa: N812

from bsjoin.planner.incremental_cache import schema_of_source
from bsjoin.sources.protocol import Source
from bsjoin.spark.arrow import arrow_fields
from bsjoin.values.retype import retyped


def scanned(spark: SparkSession, source: Source, columns: list[str]) -> DataFrame:
    """All rows of a source, read by one task batch by batch, again in every action.

    Raises:
        SourceError: it cannot be read whole.
    """
    if not source.can_scan:
        source.scan(columns)  # says so
    whole = schema_of_source(source)
    schema = T.StructType([whole[name] for name in columns])
    return streamed(spark, lambda: source.scan(columns), source.close, schema)


def streamed(
    spark: SparkSession,
    read: Callable[[], Iterator[pa.RecordBatch]],
    close: Callable[[], None],
    schema: T.StructType,
) -> DataFrame:
    """Batches of rows that one task reads, again in every action.

    ``close`` is called in the worker when all are read, or no more are wanted.
    """
    wanted = pa.schema(arrow_fields(schema))

    def bsjoin_scan(_: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        try:
            for batch in read():
                arrays = [
                    retyped(pa.concat_arrays([batch.column(field.name)]), field.type)
                    for field in wanted
                ]
                yield pa.RecordBatch.from_arrays(arrays, schema=wanted)
        finally:
            close()

    return spark.range(0, 1, 1, 1).mapInArrow(bsjoin_scan, schema)
