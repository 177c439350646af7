"""A source read whole, as a DataFrame, for a full cache."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as T  # noqa: N812

from bsjoin.planner.incremental_cache import schema_of_source
from bsjoin.sources.protocol import Source
from bsjoin.spark.arrow import arrow_fields
from bsjoin.values.retype import retyped

__all__ = ["scanned"]


def scanned(spark: SparkSession, source: Source, columns: list[str]) -> DataFrame:
    """All rows of a source, read by one task batch by batch, again in every action.

    Raises:
        SourceError: it cannot be read whole.
    """
    if not source.can_scan:
        source.scan(columns)  # says so
    whole = schema_of_source(source)
    schema = T.StructType([whole[name] for name in columns])
    wanted = pa.schema(arrow_fields(schema))

    def bsjoin_scan(_: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        try:
            for batch in source.scan(columns):
                arrays = [
                    retyped(pa.concat_arrays([batch.column(name)]), dtype)
                    for name, dtype in zip(columns, wanted.types, strict=True)
                ]
                yield pa.RecordBatch.from_arrays(arrays, schema=wanted)
        finally:
            source.close()

    return spark.range(0, 1, 1, 1).mapInArrow(bsjoin_scan, schema)
