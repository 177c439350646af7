"""A table in its source, behind a cache, as a join uses it: the incremental cache."""

from __future__ import annotations

import hashlib
import logging
import uuid
from collections.abc import Callable
from typing import TypeVar

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import types as T  # noqa: N812
from pyspark.sql.pandas.types import from_arrow_type

from bsjoin.cache import CacheLimits, remove_at_exit
from bsjoin.conditions import chooses
from bsjoin.errors import ArgumentError, ColumnError, SourceError, StoreError
from bsjoin.options import Incremental
from bsjoin.plan import RangeOrder, RetryPolicy, Shape, SourceTable, needs_unique
from bsjoin.planner.keys import hash_is_exact, type_of
from bsjoin.planner.planned_join import PlannedJoin, plan_join, shape_of
from bsjoin.planner.resolved_join import ResolvedJoin
from bsjoin.sources.invalidation import InvalidationLog, key_table, register
from bsjoin.sources.protocol import Source
from bsjoin.sources.transient import run_with_retries
from bsjoin.spark.arrow import arrow_fields
from bsjoin.storage import RangeColumns, StorageLocation
from bsjoin.storage.temporary import temporary_location
from bsjoin.storage.ties import ties_of
from bsjoin.values.durations import microseconds, seconds

V = TypeVar("V")

_log = logging.getLogger("bsjoin")

_DEFAULT = Incremental(max_rows=1)

_invalidation_logs: dict[str, InvalidationLog] = {}  # of this application's caches, by their token
_databases: set[str] = set()  # those of this application, by their names
_application = uuid.uuid4().hex


def answer_of(work: Callable[[], V], options: Incremental) -> V:
    """Return what a source answers the driver; after a transient failure it is queried again.

    Raises:
        SourceError: the last failure.
    """
    return run_with_retries(
        work,
        options.retries,
        seconds(options.backoff, "backoff"),
        is_transient=lambda fault: isinstance(fault, SourceError) and fault.is_transient,
        noted=lambda fault: _log.info("bsjoin: %s; retrying", fault),
    )


def schema_of_source(source: Source, options: Incremental | None = None) -> T.StructType:
    """A source's columns as Spark types; all nullable, for what is there may change.

    The options say how often it is queried again after a transient failure.
    """
    fields = []
    for field in answer_of(lambda: source.schema, options or _DEFAULT):
        try:
            dtype = from_arrow_type(field.type, prefer_timestamp_ntz=True)
        except Exception as error:
            raise ColumnError(
                f"the column {field.name!r} of {source!r} has the Arrow type {field.type}, which "
                f"Spark does not know: {error}"
            ) from error
        fields.append(T.StructField(field.name, dtype))
    return T.StructType(fields)


def plan_source(
    stream: DataFrame, join: ResolvedJoin, source: Source, options: Incremental
) -> PlannedJoin:
    """Plan a join with a table in its source, behind a cache."""
    schema = schema_of_source(source, options)
    unique = answer_of(lambda: source.is_unique(list(join.table_keys)), options)
    if join.safe_keys:
        unique = False  # a unique index allows any number of nulls
        if not source.takes_null_keys:
            raise ArgumentError(
                f"nulls_equal for {list(join.safe_keys)}: {source!r} is not looked up by keys that "
                "are null (Source.takes_null_keys). Leave nulls_equal out, or use "
                "cache=bsjoin.Full(...), if it can be read whole"
            )
    shape = shape_of(join.how, join.columns, unique, 1)
    if join.condition is not None:  # the rows of a key are one entry, which serves any width
        shape = "rows"
    table = _table(source, options, schema, join, shape)
    return plan_join(stream, join, table, shape, [schema[name] for name in join.columns])


def _table(
    source: Source, options: Incremental, schema: T.StructType, join: ResolvedJoin, shape: Shape
) -> SourceTable:
    keys = pa.schema(arrow_fields(T.StructType([schema[name] for name in join.table_keys])))
    columns = T.StructType([schema[name] for name in join.columns])
    payload = pa.schema(arrow_fields(columns))
    order = None if join.ranged is None else _order(join.ranged, join, schema)
    # Joins that need the same rows in the same form, in foreachBatch say, share one cache.
    # The representation of the options hides the secrets of a URL.
    log = str(options.invalidation_log)
    unique = needs_unique(join.how, shape)
    same = (source.token, keys, join.columns, shape, unique, options, log, order, join.nulls_equal)
    token = hashlib.blake2b(repr(same).encode(), digest_size=16).hexdigest()
    warm_up = options.warm_up
    return SourceTable(
        token=token,
        database=_database(token, source, options),
        source=source,
        keys=keys,
        exact=hash_is_exact(join.key_types, join.nulls_equal),
        payload=payload,
        unique=unique,
        limits=_limits(options),
        retry_policy=RetryPolicy(
            retries=options.retries,
            backoff_s=seconds(options.backoff, "backoff"),
            max_connections=options.max_connections,
            on_error=options.on_error,
            failure_cooldown_s=seconds(options.failure_cooldown, "failure_cooldown"),
        ),
        invalidation_log=_invalidation_log(token, source, keys, options, join.nulls_equal),
        warm_up=warm_up
        if warm_up is None or isinstance(warm_up, str)
        else key_table(warm_up, keys, "warm_up", join.nulls_equal),
        folder=_folder(options),
        order=order,
        nulls_equal=join.nulls_equal,
    )


def _order(ranged: RangeColumns, join: ResolvedJoin, schema: T.StructType) -> RangeOrder:
    # Where no column is returned, any of the rows with the same point will do.
    in_order = chooses(join.condition) and join.columns
    row = pa.schema(arrow_fields(schema) if in_order else [])
    point = T.StructType([T.StructField("p", type_of(ranged.types[0]))])
    return RangeOrder(
        names=ranged.names,
        type=arrow_fields(point)[0].type,
        closed=ranged.closed,
        row=row,
        ties=ties_of(ranged.order_by, row.names, [*zip(row.names, row.types, strict=True)]),
        ordered=ranged.ordered,
    )


def _folder(options: Incremental) -> str | None:
    if options.folder is None:
        return None
    location = StorageLocation.of(options.folder)
    if not location.is_local:
        raise StoreError(
            f"{options!r}: a cache is stored in the memory and on the disk of a host: give folder= "
            "a local path, or leave it out"
        )
    return location.url


def _invalidation_log(
    token: str,
    source: Source,
    keys: pa.Schema,
    options: Incremental,
    nulls_equal: tuple[bool, ...] | None,
) -> InvalidationLog:
    """The invalidation log of a cache; the cache goes when the application ends."""
    invalidation_log = _invalidation_logs.get(token)
    if invalidation_log is None:
        location = (
            temporary_location()
            if options.invalidation_log is None
            else StorageLocation.of(options.invalidation_log)
        )
        location.check_shared()
        location.make()
        invalidation_log = _invalidation_logs[token] = InvalidationLog(location, keys, nulls_equal)
        register(source.token, invalidation_log)
        remove_at_exit(token, _folder(options))
    return invalidation_log


def _database(token: str, source: Source, options: Incremental) -> str:
    """The name of a source's database on every host, for this application."""
    if source.database is None:
        return token
    same = f"{_application} {source.database}"
    name = hashlib.blake2b(same.encode(), digest_size=16).hexdigest()
    if name not in _databases:
        _databases.add(name)
        remove_at_exit(name, _folder(options))
    return name


def _limits(options: Incremental) -> CacheLimits:
    def micro(value: object, name: str) -> int | None:
        return None if value is None else microseconds(seconds(value, name))  # type: ignore[arg-type]

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
        eviction=options.eviction,
    )
