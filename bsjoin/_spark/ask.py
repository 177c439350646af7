"""From a checked call to a plan that asks a source through a cache."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import types as T  # noqa: N812
from pyspark.sql.pandas.types import from_arrow_type

from bsjoin._plan import Patience, SourcePlan
from bsjoin._spark.arrow import arrow_fields
from bsjoin._spark.columns import quoted
from bsjoin._spark.join import Request, answer_row, next_label
from bsjoin._spark.keys import asked_key, hash_is_exact
from bsjoin._spark.lookup import look_up, shape_of
from bsjoin.durations import seconds
from bsjoin.errors import ColumnError
from bsjoin.options import Incremental
from bsjoin.shared import Bounds, remove_at_exit
from bsjoin.sources.control import Control, key_table, register
from bsjoin.sources.protocol import Source
from bsjoin.store import Home
from bsjoin.store.temporary import temporary_home

__all__ = ["plan_ask", "schema_of_source"]

_controls: dict[str, Control] = {}  # of this application's caches, by their token


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


def plan_ask(
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
    types = [schema[name].dataType for name in names]
    key = asked_key(
        [stream[quoted(name)] for name, _ in request.keys],
        [stream.schema[name].dataType for name, _ in request.keys],
        types,
    )
    key_types = arrow_fields(T.StructType([schema[name] for name in names]))
    keys = pa.schema([pa.field(f.name, f.type) for f in key_types])
    fields = [schema[name] for name in request.columns]
    shape = shape_of(request.how, request.columns, source.is_unique(names), 1)
    row = answer_row(fields)
    # Joins that ask the same for the same, in foreachBatch say, share one cache.
    same = (source.token, keys, request.columns, shape, options)
    token = hashlib.blake2b(repr(same).encode(), digest_size=16).hexdigest()
    control = _control(token, source, keys, options)
    warm_up = options.warm_up
    plan = SourcePlan(
        label=next_label([name for name, _ in request.keys]),
        columns=request.columns,
        shape=shape,
        row_type=pa.struct(arrow_fields(row)),
        reports=stream.isStreaming,
        token=token,
        source=source,
        keys=keys,
        exact=hash_is_exact(types),
        bounds=_bounds(options),
        patience=Patience(
            retries=options.retries,
            pause_s=seconds(options.pause, "pause"),
            max_connections=options.max_connections,
            on_error=options.on_error,
            rest_s=seconds(options.rest, "rest"),
        ),
        control=control,
        warm_up=warm_up
        if warm_up is None or isinstance(warm_up, str)
        else key_table(warm_up, keys, "warm_up"),
        folder=None if options.folder is None else str(options.folder),
    )
    named: Sequence[tuple[str, dict[str, str]]] = [(name, {}) for name in request.names]
    return look_up(stream, key, plan, row, request.how, named)


def _control(token: str, source: Source, keys: pa.Schema, options: Incremental) -> Control:
    """Where commands for a cache are given; the cache goes when the application ends."""
    control = _controls.get(token)
    if control is None:
        home = temporary_home() if options.control is None else Home.of(options.control)
        control = _controls[token] = Control(home, keys)
        register(source.token, control)
        remove_at_exit(token, None if options.folder is None else str(options.folder))
    return control


def _bounds(options: Incremental) -> Bounds:
    def micro(value: object, name: str) -> int | None:
        return None if value is None else round(seconds(value, name) * 1e6)  # type: ignore[arg-type]

    ttl = micro(options.ttl, "ttl")
    negative_ttl = micro(options.negative_ttl, "negative_ttl")
    return Bounds(
        max_rows=options.max_rows,
        max_bytes=options.most_bytes,
        ttl_us=ttl,
        negative_ttl_us=ttl if negative_ttl is None else negative_ttl,
        idle_ttl_us=micro(options.idle_ttl, "idle_ttl"),
        stale_us=micro(options.stale, "stale") or 0,
        negative=options.negative,
    )
