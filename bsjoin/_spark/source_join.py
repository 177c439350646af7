"""From a checked call to a plan that asks a source through a cache."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import types as T  # noqa: N812
from pyspark.sql.pandas.types import from_arrow_type

from bsjoin._plan import Ranged, RetryPolicy, Shape, SourcePlan, SourceRangePlan
from bsjoin._spark.arrow import arrow_fields
from bsjoin._spark.columns import quoted
from bsjoin._spark.join import Request, answer_row
from bsjoin._spark.keys import KeySide, hash_is_exact, source_key, type_of
from bsjoin._spark.lookup import look_up, shape_of
from bsjoin._spark.observing import is_reported
from bsjoin._spark.range_join import range_joined, search_of
from bsjoin.conditions import AsOf, Condition
from bsjoin.durations import seconds
from bsjoin.errors import ColumnError, StoreError
from bsjoin.options import Incremental
from bsjoin.shared import CacheLimits, remove_at_exit
from bsjoin.sources.invalidation import InvalidationLog, key_table, register
from bsjoin.sources.protocol import Source
from bsjoin.store import RangeColumns, StorageLocation
from bsjoin.store.temporary import temporary_location

__all__ = ["plan_range_source_join", "plan_source_join", "schema_of_source"]

_invalidation_logs: dict[str, InvalidationLog] = {}  # of this application's caches, by their token


def schema_of_source(source: Source) -> T.StructType:
    """A source's columns as Spark types; all nullable, for what is there may change."""
    fields = []
    for field in source.schema:
        try:
            dtype = from_arrow_type(field.type, prefer_timestamp_ntz=True)
        except Exception as error:
            raise ColumnError(
                f"the column {field.name!r} of {source!r} has the Arrow type {field.type}, which "
                f"Spark does not know: {error}"
            ) from error
        fields.append(T.StructField(field.name, dtype))
    return T.StructType(fields)


def plan_source_join(
    stream: DataFrame, source: Source, request: Request, options: Incremental
) -> DataFrame:
    """Build the plan that joins a stream with a source.

    Args:
        stream: the probe side.
        source: the table's side.
        request: what is asked for.
        options: how it is cached.
    """
    schema = schema_of_source(source)
    names = [table for _, table in request.keys]
    fields = [schema[name] for name in request.columns]
    shape = shape_of(request.how, request.columns, source.is_unique(names), 1)
    row = answer_row(fields)
    key = _key(stream, schema, request)
    plan = SourcePlan(**_asked(stream, source, schema, request, options, shape, ()))
    named: Sequence[tuple[str, dict[str, str]]] = [(name, {}) for name in request.names]
    return look_up(stream, key, plan, row, request.how, named)


def plan_range_source_join(
    stream: DataFrame,
    source: Source,
    request: Request,
    when: Condition,
    table: RangeColumns,
    options: Incremental,
) -> DataFrame:
    """Build the plan of a range join with a source: the rows of a key are cached as one entry.

    Args:
        stream: the probe side.
        source: the table's side.
        request: what is asked for; it has equality keys.
        when: the condition, its column names as the stream and the source spell them.
        table: the source's range columns.
        options: how it is cached.
    """
    schema = schema_of_source(source)
    searched = arrow_fields(T.StructType([T.StructField("p", type_of(table.types[0]))]))[0].type
    ranged = Ranged(
        names=table.names,
        type=searched,
        closed=table.closed,
        one_of_equals=isinstance(when, AsOf),
    )
    # The same group serves any width.
    common = _asked(stream, source, schema, request, options, "rows", (ranged,))
    plan = SourceRangePlan(
        **common,
        ranged=ranged,
        how=request.how,
        search=search_of(when, table, stream.schema),
        carried=len(stream.schema),
    )
    brought = [
        (name, schema[column]) for name, column in zip(request.names, request.columns, strict=True)
    ]
    return range_joined(stream, _key(stream, schema, request), plan, table, when, brought)


def _key(stream: DataFrame, schema: T.StructType, request: Request) -> KeySide:
    """The stream's side of the key, in the source's types."""
    return source_key(
        [stream[quoted(name)] for name, _ in request.keys],
        [stream.schema[name].dataType for name, _ in request.keys],
        [schema[name].dataType for _, name in request.keys],
    )


def _asked(
    stream: DataFrame,
    source: Source,
    schema: T.StructType,
    request: Request,
    options: Incremental,
    shape: Shape,
    extent: tuple[object, ...],
) -> dict[str, Any]:
    """What every plan says that asks a source; ``extent``: what else tells caches apart."""
    names = [table for _, table in request.keys]
    key_types = arrow_fields(T.StructType([schema[name] for name in names]))
    keys = pa.schema([pa.field(f.name, f.type) for f in key_types])
    row = answer_row([schema[name] for name in request.columns])
    # Joins that ask the same for the same, in foreachBatch say, share one cache. What is shown of
    # the options hides the secrets of a URL.
    same = (
        source.token,
        keys,
        request.columns,
        shape,
        options,
        str(options.invalidation_log),
        *extent,
    )
    token = hashlib.blake2b(repr(same).encode(), digest_size=16).hexdigest()
    warm_up = options.warm_up
    return {
        "label": request.label,
        "partitioned": request.partitioned,
        "columns": request.columns,
        "shape": shape,
        "row_type": pa.struct(arrow_fields(row)),
        "reports": is_reported(stream),
        "token": token,
        "source": source,
        "keys": keys,
        "exact": hash_is_exact([schema[name].dataType for name in names]),
        "limits": _limits(options),
        "retry_policy": RetryPolicy(
            retries=options.retries,
            backoff_s=seconds(options.backoff, "backoff"),
            max_connections=options.max_connections,
            on_error=options.on_error,
            failure_cooldown_s=seconds(options.failure_cooldown, "failure_cooldown"),
        ),
        "invalidation_log": _invalidation_log(token, source, keys, options),
        "warm_up": warm_up
        if warm_up is None or isinstance(warm_up, str)
        else key_table(warm_up, keys, "warm_up"),
        "folder": _folder(options),
    }


def _folder(options: Incremental) -> str | None:
    if options.folder is None:
        return None
    if not StorageLocation.of(options.folder).is_local:
        raise StoreError(
            f"{options!r}: caches lie in the memory and on the disks of hosts: give folder= a "
            "local path, or leave it out"
        )
    return str(options.folder)


def _invalidation_log(
    token: str, source: Source, keys: pa.Schema, options: Incremental
) -> InvalidationLog:
    """The invalidation log of a cache; the cache goes when the application ends."""
    invalidation_log = _invalidation_logs.get(token)
    if invalidation_log is None:
        location = (
            temporary_location()
            if options.invalidation_log is None
            else StorageLocation.of(options.invalidation_log)
        )
        location.make()
        invalidation_log = _invalidation_logs[token] = InvalidationLog(location, keys)
        register(source.token, invalidation_log)
        remove_at_exit(token, None if options.folder is None else str(options.folder))
    return invalidation_log


def _limits(options: Incremental) -> CacheLimits:
    def micro(value: object, name: str) -> int | None:
        return None if value is None else round(seconds(value, name) * 1e6)  # type: ignore[arg-type]

    ttl = micro(options.ttl, "ttl")
    negative_ttl = micro(options.negative_ttl, "negative_ttl")
    return CacheLimits(
        max_rows=options.max_rows,
        max_bytes=options.most_bytes,
        ttl_us=ttl,
        negative_ttl_us=ttl if negative_ttl is None else negative_ttl,
        idle_ttl_us=micro(options.idle_ttl, "idle_ttl"),
        stale_us=micro(options.stale_while_revalidate, "stale_while_revalidate") or 0,
        negative=options.negative,
    )
