"""What benchmarks do with a DataFrame: carry it out, tell its rows, let its stream run out."""

from __future__ import annotations

import tempfile
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.streaming import StreamingQuery

import bsjoin

__all__ = ["cache_totals", "consume", "fingerprint", "run_out"]


def consume(df: DataFrame) -> None:
    """Carry a DataFrame out, into a sink that keeps nothing."""
    df.write.format("noop").mode("overwrite").save()


def fingerprint(df: DataFrame, columns: list[str]) -> tuple[int, int]:
    """Number of rows, and a sum over the hashes of all rows: the same for the same multiset."""
    hashed = F.xxhash64(*columns).cast("decimal(38,0)")
    row = df.agg(F.count(F.lit(1)), F.coalesce(F.sum(hashed), F.lit(0))).first()
    assert row is not None
    return row[0], int(row[1])


def run_out(df: DataFrame) -> StreamingQuery:
    """Let a stream take all that is there, into a sink that keeps nothing, and end.

    Raises:
        StreamingQueryException: the query failed.
    """
    with tempfile.TemporaryDirectory() as checkpoint:
        query = (
            df.writeStream.format("noop")
            .option("checkpointLocation", checkpoint)
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
    return query


def cache_totals(query: StreamingQuery) -> dict[str, Any]:
    """What the incremental caches of a query say of all its micro-batches.

    Returns:
        ``hit_rate``, ``asked`` (keys that the database was asked for) and ``lookups``; nothing
        without such a cache.
    """
    caches = [c.cache for c in bsjoin.progress(query) if c.cache is not None and c.rows_in]
    if not caches:
        return {}
    hits = sum(c.hits + c.negative_hits for c in caches)
    return {
        "hit_rate": hits / max(1, hits + sum(c.misses for c in caches)),
        "asked": sum(c.keys_asked for c in caches),
        "lookups": sum(c.lookups for c in caches),
    }
