"""``bsjoin.join``: check the call, find or build the table, plan the look-up."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Literal

from bsjoin import _checks
from bsjoin._reuse import Wanted, reused
from bsjoin._spark.columns import Names, join_keys, result_names, selected
from bsjoin._spark.join import Request, check_types, names_of, next_label
from bsjoin._spark.observing import current_cycle
from bsjoin._spark.partitioning import check_partition, kind_of, send_to_partitions
from bsjoin._spark.range_columns import (
    check_range_types,
    range_columns,
    stream_columns,
    table_columns,
    with_columns,
)
from bsjoin._spark.session import MicroBatch, micro_batch
from bsjoin._spark.source_join import plan_range_source_join, plan_source_join, schema_of_source
from bsjoin._spark.source_scan import scanned
from bsjoin.conditions import Condition
from bsjoin.errors import ArgumentError
from bsjoin.hotspot import Hash, HotSpot
from bsjoin.options import Full, Incremental
from bsjoin.sources.protocol import Source
from bsjoin.table import BatchTable

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

    from bsjoin._checks import JoinType
    from bsjoin._spark.columns import On

__all__ = ["join"]

_log = logging.getLogger("bsjoin")

_FULL_UP_TO_ROWS = 1_000_000
_AUTOMATIC_FULL = Full(refresh="10 minutes")
_AUTOMATIC_INCREMENTAL = Incremental(max_bytes="1 GiB")


def join(
    stream: DataFrame,
    batch: DataFrame | BatchTable | Source,
    on: On = None,
    *,
    when: Condition | None = None,
    how: JoinType = "inner",
    cache: Literal["auto"] | Full | Incremental = "auto",
    partition: Hash | HotSpot | None = None,
    select: Sequence[str] | None = None,
    suffix: str = "_batch",
) -> DataFrame:
    """Join a stream with a big table; the cost per micro-batch does not grow with the table.

    With a full cache the table is indexed once, by a Spark job that runs before this call
    returns, and is then memory-mapped by the Python workers. With an incremental cache it stays
    in its source, which is queried only for the keys in the stream. The result is row for row
    what Spark's own ``stream.join(batch, ...)`` returns: null keys match nothing, NaN equals NaN,
    -0.0 equals 0.0, every pair of duplicate keys is a row.

    Args:
        stream: the probe side; a streaming DataFrame, or a batch one.
        batch: the table; a DataFrame that is not streaming, a :class:`BatchTable`, or a source
            of :mod:`bsjoin.sources`.
        on: the equality keys: a column name, a list of names, or a dict from the stream's
            names to the table's. ``None``: the names both sides share (for a BatchTable: its
            keys), but for the columns of ``when``. ``[]`` with ``when``: a pure range join.
        when: the range part of the condition: :class:`Band`, :class:`Within`,
            :class:`Overlaps` or :class:`AsOf`. With an incremental cache it needs equality keys.
        how: ``"inner"``, ``"left"`` (the stream's rows are kept), ``"semi"`` or ``"anti"``
            (the stream's rows with or without a match, and no column of the table). Spark's
            other spellings mean the same: ``"left_outer"``, ``"leftsemi"``, ``"LEFT_ANTI"``.
        cache: how the table is kept near the workers: :class:`Full` or, for a source,
            :class:`Incremental`. ``"auto"``: ``Full()`` for a DataFrame. A source may change, and
            one of up to a million rows that can be read whole gets ``Full(refresh="10 minutes")``;
            any other ``Incremental(max_bytes="1 GiB")``. The choice is logged, and ``progress``
            reports it as ``mode``. A batch result is read once, without a refresh.
        partition: how the stream's rows are sent to partitions before they are joined:
            :class:`HotSpot`, :class:`Hash`, or ``None``: not at all, which is the fastest
            where every worker reaches the whole table or its host's cache. The result is the
            same; ``progress`` says how the rows lay.
        select: the table's columns to bring, in this order; by default all that are not keys.
        suffix: given to a column of the table whose name the stream already has.

    Returns:
        The stream's columns, then the table's. A key appears once, under the stream's name.
        A left join's table columns are nullable. A streaming result follows the table through
        its versions; a batch result is bound to the newest version at the time of this call.

    Raises:
        ColumnError: a column is not there, is there twice, or names clash.
        KeyTypeError: key types that do not compare exactly, or not at all.
        ArgumentError: a streaming table side, an unknown ``how``, no key.
        SourceError: the source cannot be reached.
        StoreError: the store cannot be used; see :mod:`bsjoin.errors`.

    Complexity:
        Building a full cache: one shuffle and sort of the table. Then O(rows of the
        micro-batch), and for an incremental cache one look-up per batch of missing keys.

    Example:
        >>> enriched = bsjoin.join(orders, customers, on="customer_id", how="left")
    """
    _checks.probe_side(stream)
    join_type = _checks.join_type(how)
    if not (cache == "auto" or isinstance(cache, Full | Incremental)):
        raise ArgumentError(
            f"cache={cache!r}: give 'auto', bsjoin.Full(...) or bsjoin.Incremental(...)"
        )
    if when is not None and not isinstance(when, Condition):
        raise ArgumentError(
            f"when={when!r}: give bsjoin.Band, bsjoin.Within, bsjoin.Overlaps or bsjoin.AsOf"
        )
    check_partition(partition)
    if isinstance(batch, Source):
        return _join_source(stream, batch, on, when, join_type, cache, partition, select, suffix)
    if isinstance(cache, Incremental):
        raise ArgumentError(
            f"cache=Incremental(...) needs a source that can be asked for single keys, and the "
            f"table is a {type(batch).__name__}: give bsjoin.sources.sql(...) or another source, "
            "or use cache=bsjoin.Full(...)"
        )
    if isinstance(batch, BatchTable):
        if cache != "auto":
            raise ArgumentError(
                "cache= has no meaning with a BatchTable, which is already built; leave it out"
            )
        return batch.join(
            stream, on, when=when, how=join_type, partition=partition, select=select, suffix=suffix
        )
    _checks.table_side(batch)
    _checks.distinct(batch, "the table")
    # Everything that can be wrong with the call is found before the table is built.
    names, table_names = names_of(stream, "the stream"), names_of(batch, "the table")
    pairs = _key_pairs(on, when, names, table_names)
    check_types(stream, pairs, batch.schema)
    _check_condition(stream, names, when, table_names, batch.schema)
    keys = [table for _, table in pairs]
    columns = selected(select, join_type, table_names, keys)
    result_names(columns, names, suffix)
    options = Full() if cache == "auto" else cache
    # A table that stays serves other selections later; a temporary one holds what is asked for.
    stored = columns if options.store is None else table_names.columns
    rest = when, join_type, partition, suffix
    return _join_whole(stream, batch, lambda: batch, pairs, stored, columns, options, *rest)


def _join_whole(
    stream: DataFrame,
    origin: DataFrame | str,
    read: Callable[[], DataFrame],
    pairs: Sequence[tuple[str, str]],
    stored: Sequence[str],
    columns: Sequence[str],
    options: Full,
    when: Condition | None,
    how: str,
    partition: Hash | HotSpot | None,
    suffix: str,
) -> DataFrame:
    """Build the table, let it be refreshed if that is asked for, and join with it."""
    keys = tuple(table for _, table in pairs)

    def build() -> BatchTable:
        df = read()
        table = BatchTable._ensure(df, keys, stored, options, private=True, when=when)
        if options.refresh is not None:
            table.start_refreshing(df, options.refresh)
        return table

    cycle, batch = current_cycle(), _batch_of(stream, options)
    table: BatchTable
    if cycle is not None:
        if "table" not in cycle.kept:
            cycle.kept["table"] = build()
        table = cycle.kept["table"]
    elif batch is not None:
        wanted = Wanted(origin, read, keys, tuple(stored), options, when)
        table = reused(batch, wanted, build)
    else:
        table = build()
    return table.join(
        stream,
        dict(pairs) or None,
        when=when,
        how=how,
        partition=partition,
        select=None if how in ("semi", "anti") else columns,
        suffix=suffix,
    )


def _batch_of(stream: DataFrame, options: Full) -> MicroBatch | None:
    """The micro-batch in which a private table is asked for, if that is so."""
    return None if stream.isStreaming or options.store is not None else micro_batch(stream)


def _join_source(
    stream: DataFrame,
    source: Source,
    on: On,
    when: Condition | None,
    how: str,
    cache: Literal["auto"] | Full | Incremental,
    partition: Hash | HotSpot | None,
    select: Sequence[str] | None,
    suffix: str,
) -> DataFrame:
    """Join with a source: ask it, or read it whole once."""
    schema = schema_of_source(source)
    names = names_of(stream, "the stream")
    source_names = Names(schema.names, repr(source), names.case_sensitive)
    source_names.check_distinct()
    pairs = _key_pairs(on, when, names, source_names)
    check_types(stream, pairs, schema)
    _check_condition(stream, names, when, source_names, schema)
    columns = selected(select, how, source_names, [table for _, table in pairs])
    results = result_names(columns, names, suffix)
    if cache == "auto":
        cache = _automatic(stream, source, needs_whole=when is not None and not pairs)
    ranged = [] if when is None else [source_names.find(n, "when") for n in table_columns(when)]
    if isinstance(cache, Incremental):
        request = Request(
            keys=tuple(pairs),
            how=how,
            columns=tuple(columns),
            names=tuple(results),
            label=next_label([name for name, _ in pairs]),
            partitioned=kind_of(partition),
        )
        types = {field.name: field.dataType for field in schema}
        stream = send_to_partitions(stream, request, types, partition)
        if when is None:
            return plan_source_join(stream, source, request, cache)
        if not pairs:
            raise ArgumentError(
                f"on=[] with cache=Incremental(...): a source is asked for the rows of a key, and "
                f"{when!r} alone has none. Give on=..., or cache=bsjoin.Full(...)"
            )
        probes = [names.find(name, "when") for name in stream_columns(when)]
        spelled = with_columns(when, probes, ranged)
        table = range_columns(when, schema, ranged)
        return plan_range_source_join(stream, source, request, spelled, table, cache)
    keys = [table for _, table in pairs]
    stored = columns if cache.store is None else source_names.columns
    read = list(dict.fromkeys([*keys, *ranged, *stored]))
    rest = when, how, partition, suffix
    return _join_whole(
        stream,
        source.token,
        lambda: scanned(stream.sparkSession, source, read),
        pairs,
        stored,
        columns,
        cache,
        *rest,
    )


def _key_pairs(
    on: On, when: Condition | None, stream: Names, table: Names
) -> list[tuple[str, str]]:
    """The equality keys: none for a pure range join; the columns of ``when`` are not among them."""
    if when is None:
        return join_keys(on, stream, table)
    if on is not None:
        return [] if on == [] or on == {} else join_keys(on, stream, table)
    ranged = {*stream_columns(when), *table_columns(when)}
    left, right = (
        Names([n for n in side.columns if n not in ranged], side.side, side.case_sensitive)
        for side in (stream, table)
    )
    if not any(name in right for name in left.columns):
        raise ArgumentError(
            "on=None joins on the column names that both sides share besides those of when=, and "
            f"there are none: {stream.side} has {stream.columns}, {table.side} has "
            f"{table.columns}. Give on=..., or on=[] for a pure range join"
        )
    return join_keys(None, left, right)


def _check_condition(
    stream: DataFrame, names: Names, when: Condition | None, table: Names, schema: StructType
) -> None:
    """Find what is wrong with a range condition before a table is built for it."""
    if when is None:
        return
    names.check_distinct()
    found = [table.find(name, "when") for name in table_columns(when)]
    probes = [names.find(name, "when") for name in stream_columns(when)]
    types = [(name, stream.schema[name].dataType) for name in probes]
    check_range_types(when, types, range_columns(when, schema, found))


def _automatic(stream: DataFrame, source: Source, *, needs_whole: bool) -> Full | Incremental:
    """What ``cache="auto"`` means for a source; the cycles of one join keep the first choice."""
    cycle = current_cycle()
    if cycle is None:
        follows = stream.isStreaming or micro_batch(stream) is not None
        return _chosen(source, needs_whole, follows=follows)
    if "cache" not in cycle.kept:
        cycle.kept["cache"] = _chosen(source, needs_whole, follows=True)
    chosen: Full | Incremental = cycle.kept["cache"]
    return chosen


def _chosen(source: Source, needs_whole: bool, follows: bool) -> Full | Incremental:
    """Choose by size and log it; ``follows``: whether the join goes on while the source changes."""
    rows = source.size() if source.can_scan and not needs_whole else None
    if needs_whole or (rows is not None and rows <= _FULL_UP_TO_ROWS):
        why = "is joined without a key" if rows is None else f"has about {rows} rows"
        chosen = _AUTOMATIC_FULL if follows else Full()
        times = f"now and again every {chosen.refresh}" if follows else "once"
        _log.info("bsjoin: full cache for %r, which %s: it is read %s", source, why, times)
        return chosen
    why = "cannot be read whole" if not source.can_scan else f"has about {rows} rows"
    if rows is None and source.can_scan:
        why = "does not tell its size"
    _log.info("bsjoin: incremental cache of up to 1 GiB for %r, which %s", source, why)
    return _AUTOMATIC_INCREMENTAL
