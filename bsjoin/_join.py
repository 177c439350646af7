"""``bsjoin.join``: checks the call, finds or builds the table, plans the look-up."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Literal

from bsjoin.conditions import Condition, chooses, without_aggregates
from bsjoin.errors import ArgumentError, StoreError
from bsjoin.following.source import followed_table, rereading
from bsjoin.options import Full, Incremental
from bsjoin.partitioning import Hash, HotSpot
from bsjoin.planner.arguments import JoinCall, JoinType, probe_side, table_side
from bsjoin.planner.automatic import automatic_cache, automatic_full
from bsjoin.planner.candidates import with_candidates
from bsjoin.planner.columns import On
from bsjoin.planner.following import warn_unless_followed
from bsjoin.planner.incremental_cache import plan_source, schema_of_source
from bsjoin.planner.key_expressions import keyed_stream
from bsjoin.planner.resolve import resolve
from bsjoin.planner.resolved_join import ResolvedJoin
from bsjoin.planner.table_sides import UnbuiltTable
from bsjoin.reuse import PrivateTable, reused
from bsjoin.runtimes.apply import apply
from bsjoin.sources.protocol import Source
from bsjoin.spark.session import micro_batch
from bsjoin.storage import StorageLocation, versions
from bsjoin.table import BatchTable

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql import types as T  # noqa: N812


def join(
    stream: DataFrame,
    batch: DataFrame | BatchTable | Source,
    on: On = None,
    how: JoinType = "inner",
    *,
    when: Condition | Sequence[Condition] | None = None,
    cache: Literal["auto"] | Full | Incremental = "auto",
    partition: Hash | HotSpot | None = None,
    select: Sequence[str] | None = None,
    suffix: str = "_batch",
    nulls_equal: bool | Sequence[str] = False,
    where: Column | str | None = None,
    indicator: str | None = None,
) -> DataFrame:
    """Join a stream with a big table; the cost per micro-batch does not grow with the table.

    With a full cache the table is indexed once, by a Spark job that runs before this call returns,
    and is then memory-mapped by Spark's executors, or their Python workers. With an incremental
    cache the table stays in its source, which is queried only for the keys in the stream
    (Algorithm 1 of the BS-Join paper).
    The result is row for row that of Spark's own ``stream.join(batch, ...)``, for the table as it
    was last read: null keys match nothing, NaN equals NaN, -0.0 equals 0.0, every pair of
    duplicate keys is a row.

    Args:
        stream: the probe side; a streaming or a batch DataFrame.
        batch: the table: a DataFrame that is not streaming, a :class:`BatchTable`, or a source of
            :mod:`bsjoin.sources`.
        on: the equality keys: a column name, a list of names, or a dict from the stream's names to
            the table's. In a list a pair may stand for a name, the stream's side first: a name, or
            an expression of its columns, such as ``[(F.lower("name"), "name")]``; the result has no
            column of it. ``None`` (default): the names that both sides share (for a BatchTable: its
            keys), except the columns of ``when``. ``[]`` with ``when``: a pure range join.
        how: ``"inner"`` (default), ``"left"`` (keeps all rows of the stream), ``"semi"`` or
            ``"anti"`` (the stream's rows with or without a match, without columns of the table).
            Spark's other spellings are equivalent: ``"left_outer"``, ``"leftsemi"`` and so on.
        when: the range part of the condition: :class:`Band`, :class:`Within`, :class:`Overlaps` or
            :class:`AsOf`. ``None`` (default): none, or that of the BatchTable. With an incremental
            cache it requires equality keys. Of a list of them all hold. With a full cache the
            first condition and up to two more are searched together, as boxes, if all are
            :class:`Band`, :class:`Within` or :class:`Overlaps` on numbers, dates or timestamps; of
            a BatchTable those that it was built for. Otherwise only the first is searched, so put
            the most selective one there. Each row found is checked for the others. One of them may
            be :class:`AsOf`, or :class:`Within` with ``take``: of the rows that pass the others it
            takes the nearest, or the first.
        cache: how the table is cached: :class:`Full` or, for a source, :class:`Incremental`.
            ``"auto"`` (default): for a DataFrame ``Full()``, or in a stream, if Spark's own join
            would read it anew and it has versions, ``Full(refresh="on_commit")``; for a source that
            this join cannot query by its keys, or that supports scans and has up to a million rows,
            ``Full(refresh="10 minutes")``; otherwise ``Incremental(max_bytes="1 GiB")``. The choice
            is logged, and ``progress`` reports it as ``mode``. For a batch result the source is
            read once, without a refresh.
        partition: how the stream's rows are shuffled before the join: :class:`HotSpot` or
            :class:`Hash`. ``None`` (default): no shuffle, which is fastest because every worker has
            access to the whole table or its host's cache. The result is the same; ``progress``
            reports the distribution.
        select: the table's columns to return, in this order. ``None`` (default): all columns that
            are not keys.
        suffix: appended to a table column whose name the stream already has; default ``"_batch"``.
        nulls_equal: ``True``, or a list of keys as ``on`` names them: there null equals null, and
            nothing else, as with SQL's ``<=>`` and ``IS NOT DISTINCT FROM``; polars has the same
            argument. ``False`` (default): null equals nothing. A ``BatchTable`` must have been
            built with it, and a source must take null keys (``Source.takes_null_keys``).
        where: the rest of the condition, as a ``Column`` or SQL text: a pair of rows matches only
            if it is true for the pair, as in SQL's ``ON``. So a left join keeps rows of the stream
            for which no pair passes, with nulls, and a semi join those for which one does; null
            counts as false. It may be any deterministic expression over the columns of both
            sides, whether selected or not, called as in the result of the inner join with all
            columns of the table. With :class:`AsOf` the nearest of the rows that pass are taken,
            and with ``take`` of :class:`Within` the first one. ``None`` (default): nothing more.
        indicator: the name of a boolean column, the last one of the result, that is true where the
            row has a match; never null. ``None`` (default): no such column. Not with ``"semi"``
            and ``"anti"``.

    Returns:
        A DataFrame, streaming if ``stream`` is: the stream's columns, then the selected columns of
        the table. A key occurs once, under the stream's name. Table columns of a left join are
        nullable. The order of rows is undefined. A streaming result uses in every micro-batch the
        version of the table that was active at the micro-batch's timestamp (in real-time mode: at
        the time of the row); a batch result is bound to the newest version at the time of this
        call.
        References to columns of both sides hold as after Spark's own join: ``customers["name"]``,
        and ``"c.name"`` after ``customers.alias("c")``. Where both sides have the same column, as
        in a join of a table with itself, it is the stream's. The table's key has none, since it
        occurs once; nor, under Spark Connect, a column that got the suffix: both are errors there,
        in ``drop``, too.

    Raises:
        ColumnError: a column is missing, occurs twice, or names clash.
        KeyTypeError: the key types do not compare exactly, or cannot be compared.
        ArgumentError: the table side is streaming, ``how`` is unknown, there is no key, or one is
            an expression that is not of one row, such as an aggregate; ``where`` is no condition
            on a pair of rows; or no values fulfil all conditions of ``when``.
        DuplicateKeyError: ``Full(unique=True)``, and a key occurs twice.
        SourceError: the source cannot be reached, or supports no scan for ``Full``.
        TableMismatchError: a table, or the store of ``Full``, was built for other keys or another
            condition, or without ``nulls_equal``.
        WorkerEnvironmentError: the Python of the workers cannot run bsjoin; or a key has a
            collation, and the session refuses the jar.
        StoreError: the store cannot be used; see :mod:`bsjoin.errors`.

    Warns:
        NotFollowedWarning: the DataFrame reads what Spark's own join would read anew in each
            micro-batch (a table of a catalogue, JDBC, the current time), nothing is known to follow
            it by, or ``cache`` was given with neither ``refresh`` nor ``fingerprint``.

    Complexity:
        A full cache: one sort of the table for the build, then O(rows) expected per
        micro-batch. An incremental cache: O(rows) expected per micro-batch, plus one query per
        batch of missing keys. A range condition, or boxes: O(log n) per row, plus its matches.

    Example:
        >>> enriched = bsjoin.join(orders, customers, on="customer_id", how="left")
        >>> enriched.columns
        ['order_id', 'customer_id', 'name', 'city']
        >>> bsjoin.join(
        ...     orders, customers, on="customer_id", how="left", select=["name"],
        ...     where="city <> 'Graz' AND order_id > 0", indicator="found",
        ... ).columns
        ['order_id', 'customer_id', 'name', 'found']
    """
    probe_side(stream)
    call = JoinCall(
        on=on,
        when=when,
        how=how,
        partition=partition,
        select=select,
        suffix=suffix,
        nulls_equal=nulls_equal,
        where=where,
        indicator=indicator,
        stream=stream,
    )
    return join_by(call, stream, batch, cache)


def join_by(
    call: JoinCall,
    stream: DataFrame,
    batch: DataFrame | BatchTable | Source,
    cache: Literal["auto"] | Full | Incremental,
) -> DataFrame:
    """:func:`join`, its arguments checked and in one object."""
    if not (cache == "auto" or isinstance(cache, Full | Incremental)):
        raise ArgumentError(
            f"cache={cache!r}: give 'auto', bsjoin.Full(...) or bsjoin.Incremental(...)"
        )
    if isinstance(batch, Source):
        schema = schema_of_source(batch, cache if isinstance(cache, Incremental) else None)
        call, stream = keyed_stream(call, stream, lambda: schema.names)
        return _join_source(call, stream, batch, cache, schema)
    if isinstance(cache, Incremental):
        raise ArgumentError(
            f"cache=Incremental(...) needs a source that supports look-ups by key, and the "
            f"table is a {type(batch).__name__}: give bsjoin.sources.sql(...) or another source, "
            "or use cache=bsjoin.Full(...)"
        )
    if isinstance(batch, BatchTable):
        if cache != "auto":
            raise ArgumentError(
                "cache= has no meaning with a BatchTable, which is already built; leave it out"
            )
        return batch._join_by(call, stream)
    table_side(batch)
    call, stream = keyed_stream(call, stream, lambda: batch.columns)
    # Everything that can be wrong with the call is found before the table is built.
    join = resolve(stream, UnbuiltTable(batch.schema, "the table"), call)
    join = with_candidates(join, stream, batch.schema, batch, call)
    options = automatic_full(stream, batch, call.cycle) if cache == "auto" else cache
    return _join_whole(stream, join, batch, lambda _: batch, batch.columns, options)


def _join_source(
    call: JoinCall,
    stream: DataFrame,
    source: Source,
    cache: Literal["auto"] | Full | Incremental,
    schema: T.StructType,
) -> DataFrame:
    """Join with a source of these columns: query it for keys, or read it whole."""
    join = resolve(stream, UnbuiltTable(schema, repr(source)), call)
    join = with_candidates(join, stream, schema, None, call)
    if cache == "auto":
        whole = not join.keys or bool(join.safe_keys and not source.takes_null_keys)
        cache = automatic_cache(stream, source, call.cycle, needs_whole=whole)
    if isinstance(cache, Incremental):
        if not join.keys:
            raise ArgumentError(
                "on=[] with cache=Incremental(...): a source is queried for the rows of a key, and "
                f"{call.when!r} alone has none. Give on=..., or cache=bsjoin.Full(...)"
            )
        return apply(plan_source(stream, join, source, cache))
    return _join_whole(
        stream,
        join,
        source.token,
        rereading(stream.sparkSession, source),
        schema.names,
        cache,
        source,
    )


def _join_whole(
    stream: DataFrame,
    join: ResolvedJoin,
    origin: DataFrame | str,
    read: Callable[[list[str]], DataFrame],
    columns: Sequence[str],
    options: Full,
    source: Source | None = None,
) -> DataFrame:
    """Build the table, let it be refreshed if that is wanted, and join with it.

    ``origin``, the DataFrame or the token of the source, identifies the table; ``read`` returns it
    as a DataFrame that has at least some columns.
    """
    if options.store is not None:
        join = join.in_order_of(_stored_keys(options.store))
    # A stored table keeps all columns for later joins; a temporary one the selected columns only.
    stored = list(join.columns if options.store is None else columns)
    ranged = () if join.ranged is None else join.ranged.names
    orders = join.condition.orders if chooses(join.condition) else ()
    ordering = [order.column for order in orders]
    needed = list(dict.fromkeys([*join.table_keys, *ranged, *ordering, *stored]))
    if options.latest_by or (chooses(join.condition) and stored):
        needed = list(columns)  # all of them order rows that are alike
    follow = None
    if options.follows and options.version is None and source is not None:
        follow = partial(followed_table, stream.sparkSession, source, needed)
    if options.follows:
        stored = needed  # changes are applied to rows with their keys
    conditions: tuple[Condition, ...] = ()
    if join.condition is not None:  # aggregates are of this join, the table serves others, too
        conditions = (without_aggregates(join.condition), *join.checked)
    wanted = PrivateTable(
        origin,
        lambda: read(needed),
        join.table_keys,
        tuple(stored),
        options,
        conditions,
        join.safe_keys,
        follow,
    )
    cycle = join.cycle
    lasts = stream.isStreaming or cycle is not None
    batch = None if lasts else micro_batch(stream)
    if batch is not None:
        table = reused(batch, wanted)
    elif cycle is not None and isinstance(cycle.state.table, BatchTable):
        table = cycle.state.table
    else:
        if lasts:
            warn_unless_followed(origin, options)
        table = wanted.build(refreshed=lasts)
        if cycle is not None:
            cycle.state.table = table
    return table._join_resolved(join, stream, None if isinstance(origin, str) else origin)


def _stored_keys(store: str | os.PathLike[str]) -> list[str]:
    """The keys of the table in a store, in its order; none without a table."""
    try:
        return [key.name for key in versions.latest(StorageLocation.of(store)).keys]
    except StoreError:
        return []  # what is wrong with the store is said where the table is built
