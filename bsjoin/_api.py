"""``bsjoin.join``: check the call, find or build the table, plan the look-up."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

from bsjoin import _checks
from bsjoin._spark.columns import join_keys, result_names, selected
from bsjoin._spark.join import check_types, names_of
from bsjoin.errors import ArgumentError
from bsjoin.options import Full
from bsjoin.table import BatchTable

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from bsjoin._spark.columns import On

__all__ = ["join"]


def join(
    stream: DataFrame,
    batch: DataFrame | BatchTable,
    on: On = None,
    *,
    how: Literal["inner", "left", "semi", "anti"] = "inner",
    cache: Literal["auto"] | Full = "auto",
    select: Sequence[str] | None = None,
    suffix: str = "_batch",
) -> DataFrame:
    """Join a stream with a big table; the cost per micro-batch does not grow with the table.

    The table is indexed once, by a Spark job that runs before this call returns, and is then
    memory-mapped by the Python workers. The result is row for row what Spark's own
    ``stream.join(batch, ...)`` returns: null keys match nothing, NaN equals NaN, -0.0 equals
    0.0, every pair of duplicate keys is a row.

    Args:
        stream: the probe side; a streaming DataFrame, or a batch one.
        batch: the table; a DataFrame that is not streaming, or a :class:`BatchTable`.
        on: the equality keys: a column name, a list of names, or a dict from the stream's
            names to the table's. ``None``: the names both sides share (for a BatchTable: its
            keys).
        how: ``"inner"``, ``"left"`` (the stream's rows are kept), ``"semi"`` or ``"anti"``
            (the stream's rows with or without a match, and no column of the table).
        cache: how the table is kept near the workers; see :class:`Full`.
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
        StoreError: the store cannot be used; see :mod:`bsjoin.errors`.

    Complexity:
        Building: one shuffle and sort of the table. Then O(rows of the micro-batch).

    Example:
        >>> enriched = bsjoin.join(orders, customers, on="customer_id", how="left")
        ... # doctest: +SKIP
    """
    _checks.probe_side(stream)
    _checks.join_type(how)
    if not (cache == "auto" or isinstance(cache, Full)):
        raise ArgumentError(f"cache={cache!r}: give 'auto' or bsjoin.Full(...)")
    if isinstance(batch, BatchTable):
        if cache != "auto":
            raise ArgumentError(
                "cache= has no meaning with a BatchTable, which is already built; leave it out"
            )
        return batch.join(stream, on, how=how, select=select, suffix=suffix)
    _checks.table_side(batch)
    _checks.distinct(batch, "the table")
    # Everything that can be wrong with the call is found before the table is built.
    names, table_names = names_of(stream, "the stream"), names_of(batch, "the table")
    pairs = join_keys(on, names, table_names)
    check_types(stream, pairs, batch.schema)
    keys = [table for _, table in pairs]
    columns = selected(select, how, table_names, keys)
    result_names(columns, names, suffix)
    options = Full() if cache == "auto" else cache
    # A table that stays serves other selections later; a temporary one holds what is asked for.
    stored = columns if options.store is None else table_names.columns
    table = BatchTable._ensure(batch, keys, stored, options, private=True)
    if options.refresh is not None:
        table.start_refreshing(batch, options.refresh)
    return table.join(
        stream,
        dict(pairs),
        how=how,
        select=None if how in ("semi", "anti") else columns,
        suffix=suffix,
    )
