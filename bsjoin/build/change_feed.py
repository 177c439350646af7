"""A DataFrame of changes, in the form of any change feed, becomes a set of changes."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark.sql import DataFrame
from pyspark.sql import types as T  # noqa: N812

from bsjoin.build.steps import TooMany
from bsjoin.errors import ArgumentError, ColumnError
from bsjoin.planner.char_columns import check_padded
from bsjoin.planner.columns import Names, check_free, names_of, schema_of
from bsjoin.planner.keys import table_key
from bsjoin.planner.uses import as_nullable, used_by
from bsjoin.spark import sql
from bsjoin.spark.arrow import check_storable
from bsjoin.spark.session import is_case_sensitive
from bsjoin.storage import Manifest, StorageLocation
from bsjoin.storage.layers.change_set import DELETE, PRE_IMAGE, UPSERT, ChangeSet
from bsjoin.values.retype import retyped, whole

_UPSERTS = ("i", "insert", "c", "create", "r", "read", "u", "update", "upsert")
_PLAIN = {"d": DELETE, "delete": DELETE} | dict.fromkeys(_UPSERTS, UPSERT)
_TYPES = {
    "insert": UPSERT,
    "update_postimage": UPSERT,
    "update_after": UPSERT,
    "delete": DELETE,
    "update_preimage": PRE_IMAGE,
    "update_before": PRE_IMAGE,
}
_BEFORE = "before u"
_ENVELOPE = ("before", "after", "op")
_DELETES, _UPDATES = "('d', 'delete')", "('u', 'update', 'upsert')"  # in envelopes
_CHANGE_TYPE = "_change_type"
_VERSIONS = ("_commit_version", "_change_ordinal")  # of Delta, of Iceberg
_OF_FEEDS = (_CHANGE_TYPE, *_VERSIONS, "_commit_timestamp", "_commit_snapshot_id")
# Of Debezium's records without an envelope, by its transformation ExtractNewRecordState.
_UNWRAPPED = {"__op": _PLAIN, "__deleted": {"true": DELETE, "false": UPSERT}}
_OP, _ORDER = "bsjoin_op", "bsjoin_order"


@dataclass(frozen=True)
class Feed:
    """Rows with what happened to them.

    Args:
        rows: the rows of the table, and beside them their change and their order.
        op: the column of the change; None if all rows are there now.
        order: an SQL expression of the order; None for none.
        kinds: what the values of ``op`` mean, in small letters.
        ranked: as for :class:`bsjoin.storage.layers.change_set.ChangeSet`.
    """

    rows: DataFrame
    op: str | None
    order: str | None
    kinds: dict[str, int]
    ranked: bool = False

    @classmethod
    def of(
        cls, df: DataFrame, columns: Sequence[str], op: str | None, sequence: str | None
    ) -> Feed:
        """Recognise the form of changes of a table with some columns.

        Columns that ``op`` and ``sequence`` do not name are recognised by their own names.

        Raises:
            ArgumentError: the table has a column of the name that ``op`` is recognised by.
            ColumnError: a column is not there, or several have one name.
        """
        names = names_of(df, "the changes")
        order = None if sequence is None else _path(names, sequence)
        if op is not None:
            found = names.find(op, "op")
            return cls(df, found, order, _UNWRAPPED.get(found.lower(), _PLAIN))
        # Whatever the session takes for the same name: a delete must not become an upsert.
        given = Names(df.columns, "the changes", case_sensitive=False)
        stored = Names(columns, "the table", case_sensitive=False)
        envelope = _envelope(df, given, stored)
        if envelope is not None:
            kinds = {_BEFORE: PRE_IMAGE} | _PLAIN
            return cls(_unwrapped(df, *envelope, order), _OP, order and _ORDER, kinds)
        for name, kinds in ((_CHANGE_TYPE, _TYPES), ("op", _PLAIN)):
            if name in given and name not in stored:
                ranked, found = kinds is _TYPES, given.find(name, "op")
                versions = [given.find(one, "sequence") for one in _VERSIONS if one in given]
                if ranked and order is None and versions:
                    order = sql.column(versions[0])
                return cls(df, found, order, kinds, ranked)
        for name, kinds in _UNWRAPPED.items():
            if name in given and name not in stored:  # else it is a value of the row
                return cls(df, given.find(name, "op"), order, kinds)
        for name in (_CHANGE_TYPE, "op"):
            if name in given and name in stored:
                raise ArgumentError(
                    f"the changes have a column {given.find(name, 'op')!r}, and so has the table: "
                    "nothing tells whether it says what happened to a row, or is a value of it. "
                    "Give op= the column that says it; if all rows are to be there, one with "
                    "'upsert'"
                )
        return cls(df, None, order, _PLAIN)

    def kinds_of(self, ops: pa.Array) -> NDArray[np.int8]:
        """What happened to each row.

        Raises:
            ArgumentError: an operation is not known.
        """
        encoded = ops.dictionary_encode(null_encoding="encode")
        found = []
        for text in encoded.dictionary.to_pylist():
            kind = None if text is None else self.kinds.get(str(text).lower())
            if kind is None:
                raise ArgumentError(
                    f"the change {text!r} in the column "
                    f"{'op' if self.op == _OP else self.op!r} is none of "
                    f"{', '.join(sorted(set(self.kinds) - {_BEFORE}))}"
                )
            found.append(kind)
        return np.asarray(np.array(found, np.int8)[encoded.indices.to_numpy()], np.int8)


def _envelope(df: DataFrame, given: Names, stored: Names) -> tuple[str, str, str] | None:
    """The columns of the envelopes of Debezium, as they are spelled; None for other rows."""
    if not all(name in given for name in _ENVELOPE) or all(name in stored for name in _ENVELOPE):
        return None
    before, after, op = (given.find(name, "changes") for name in _ENVELOPE)
    rows = (df.schema[name].dataType for name in (before, after))
    return (before, after, op) if all(isinstance(row, T.StructType) for row in rows) else None


def _unwrapped(df: DataFrame, before: str, after: str, op: str, order: str | None) -> DataFrame:
    """The rows of envelopes; an update becomes the row before it and the row after it.

    Tombstones, in which all is null, are left out.
    """
    types, case_sensitive = df.schema, is_case_sensitive(df.sparkSession)
    was = _by_names(
        sql.column(before), types[before].dataType, types[after].dataType, case_sensitive
    )
    before, after, op = map(sql.column, (before, after, op))

    def entry(row: str, op: str) -> str:
        parts = f"'op', {op}, 'row', {row}" + (f", 'order', {order}" if order else "")
        return f"named_struct({parts})"

    gone, now = entry(was, op), entry(after, op)
    entries = sql.case(
        (f"lower({op}) IN {_DELETES}", f"array({gone})"),
        (
            f"lower({op}) IN {_UPDATES} AND {before} IS NOT NULL",
            f"array({entry(was, repr(_BEFORE))}, {now})",
        ),
        otherwise=f"array({now})",
    )
    rows = df.where(f"coalesce({op}, '') <> '' OR {before} IS NOT NULL OR {after} IS NOT NULL")
    rows = rows.selectExpr(f"explode({entries}) AS entry")
    beside = ["entry.order AS " + _ORDER] if order else []
    return rows.selectExpr("entry.row.*", f"entry.op AS {_OP}", *beside)


def _by_names(
    value: str, was: T.DataType, now: T.DataType, case_sensitive: bool, depth: int = 0
) -> str:
    """A value as another type, the structs in it by the names of their fields.

    A cast would go by their places. What a struct lacks is null.
    """
    if as_nullable(was) == as_nullable(now):
        return value

    def inner(name: str, was: T.DataType, now: T.DataType) -> str:
        return _by_names(name, was, now, case_sensitive, depth + 1)

    if isinstance(was, T.StructType) and isinstance(now, T.StructType):
        names = Names(was.names, value, case_sensitive)
        fields = []
        for field in now.fields:
            part = sql.cast("NULL", field.dataType)
            if field.name in names:
                own = names.find(field.name, "changes")
                part = inner(f"{value}.{sql.quoted(own)}", was[own].dataType, field.dataType)
            fields += [sql.text(field.name), part]
        return sql.case((f"{value} IS NOT NULL", f"named_struct({', '.join(fields)})"))
    key, item = f"key{depth}", f"item{depth}"  # of lambda functions
    if isinstance(was, T.ArrayType) and isinstance(now, T.ArrayType):
        each = inner(item, was.elementType, now.elementType)
        return f"transform({value}, {item} -> {each})"
    if isinstance(was, T.MapType) and isinstance(now, T.MapType):
        keys = inner(key, was.keyType, now.keyType)
        items = inner(item, was.valueType, now.valueType)
        value = f"transform_keys({value}, ({key}, {item}) -> {keys})"
        return f"transform_values({value}, ({key}, {item}) -> {items})"
    return sql.cast(value, now)


def _path(names: Names, name: str) -> str:
    """A column, or a field in one: ``source.lsn``."""
    first, *fields = name.split(".")
    if name in names or not fields or first not in names:
        return sql.column(names.find(name, "sequence"))
    return ".".join(sql.quoted(part) for part in (names.find(first, "sequence"), *fields))


def added_columns(
    df: DataFrame, manifest: Manifest, op: str | None, sequence: str | None
) -> tuple[T.StructField, ...]:
    """The columns of changes that a table does not have, beside what is about the change.

    ``op`` and ``sequence`` are as for :meth:`Feed.of`.

    Raises:
        ColumnError: one has a type that is not stored, or several have one name.
    """
    feed = Feed.of(df, manifest.columns, op, sequence)
    names = names_of(feed.rows, "the changes")
    stored = Names(manifest.columns, "the table", names.case_sensitive)
    beside = {feed.op, _ORDER if feed.op == _OP else None}
    if sequence is not None and feed.op != _OP:
        beside.add(names.find(sequence if sequence in names else sequence.partition(".")[0], ""))
    if feed.ranked:
        beside.update(name for name in names.columns if name.lower() in _OF_FEEDS)
    if feed.op is not None and feed.op.lower() in _UNWRAPPED:
        beside.update(name for name in names.columns if name.lower() in _UNWRAPPED)
    found = [
        T.StructField(field.name, field.dataType)
        for field in feed.rows.schema.fields
        if field.name not in stored and field.name not in beside
    ]
    for field in found:
        names.find(field.name, "columns")
    check_storable(T.StructType(found))
    if manifest.has_null_keys:
        check_free([field.name for field in found])
    return tuple(found)


def change_set(
    df: DataFrame,
    location: StorageLocation,
    manifest: Manifest,
    op: str | None,
    sequence: str | None,
    added: Collection[str] = (),
    most: int | None = None,
) -> tuple[ChangeSet, str | None]:
    """Collect the changes, of which there are ``most`` rows at the most.

    ``op`` and ``sequence`` are as for :meth:`Feed.of`; ``added`` are columns of ``manifest`` that
    the table does not have yet.

    Returns:
        The changes; and the column of the table with their order, None if it is in none.

    Raises:
        ArgumentError: an operation is not known, or a row has null where the table has none.
        ColumnError: a column of the table is missing, or has another type.
        TooMany: there are more than ``most``.
    """
    feed = Feed.of(df, manifest.columns, op, sequence)
    names, schema = names_of(feed.rows, "the changes"), schema_of(manifest)
    given = {}
    for field in schema.fields:
        if field.name not in names:
            hint = _renamed(field, feed.rows, schema, added)
            raise ColumnError(
                f"the changes lack the column {field.name!r} of the table; they have "
                f"{feed.rows.columns}. Changes are whole rows{hint}{used_by(location, field.name)}"
            )
        given[field.name] = name = names.find(field.name, "changes")
        found = feed.rows.schema[name].dataType
        if as_nullable(found) != as_nullable(field.dataType):
            raise ColumnError(
                f"the column {name!r} of the changes is {found.simpleString()} and in the table "
                f"{field.dataType.simpleString()}: cast it. A new type needs "
                f"BatchTable.build(..., path=...){used_by(location, field.name)}"
            )
    on = [key.name for key in manifest.keys]
    if feed.op != _OP:  # what is in envelopes comes from no table of Spark
        check_padded(feed.rows, [given[name] for name in (*on, *manifest.range_names)])
    key = table_key(
        [sql.column(given[name]) for name in on],
        [schema[name].dataType for name in on],
        [key.nulls_equal for key in manifest.keys] if manifest.has_null_keys else None,
    )
    selected = {
        "h": key.hash,
        **{f"k{i}": value for i, value in enumerate(key.compared)},
        **{f"c{i}": sql.column(given[name]) for i, name in enumerate(manifest.columns)},
        "op": "'upsert'" if feed.op is None else f"cast({sql.column(feed.op)} AS string)",
        **({} if feed.order is None else {"o": feed.order}),
    }
    rows = feed.rows.selectExpr(*(f"{value} AS {name}" for name, value in selected.items()))
    if most is not None:
        rows = rows.limit(most + 1)  # counted while it is collected: the driver has no more
    arrived = rows.toArrow().combine_chunks()
    if most is not None and len(arrived) > most:
        raise TooMany(f"more than {most:,} rows have changed, or are those of the changed keys")
    columns = [whole(column) for column in arrived.columns]
    hashes, *stored = columns[: 1 + len(manifest.schema)]
    kinds = feed.kinds_of(columns[1 + len(manifest.schema)])
    typed = [
        retyped(column, field.type) for column, field in zip(stored, manifest.schema, strict=True)
    ]
    nullable = pa.schema([field.with_nullable(True) for field in manifest.schema])
    changes = ChangeSet(
        hashes,
        pa.Table.from_arrays(typed, schema=nullable),
        kinds,
        None if feed.order is None else columns[-1],
        feed.ranked,
    )
    _check_nulls(changes, manifest)
    column = None
    # A column beside the rows of envelopes is not the one of that name in them.
    if sequence is not None and sequence in names and feed.op != _OP:
        column = next((n for n, found in given.items() if found == names.find(sequence, "")), None)
    if column is not None and changes.order is not None:
        wanted = manifest.schema.types[manifest.compared + manifest.columns.index(column)]
        changes = replace(changes, order=retyped(changes.order, wanted))
    return changes, column


def _renamed(
    field: T.StructField, rows: DataFrame, schema: T.StructType, added: Collection[str]
) -> str:
    """A hint that a column may have another name now; empty if none could be it."""
    sensitive = names_of(rows, "the changes").case_sensitive
    stored = Names([n for n in schema.names if n not in added], "the table", sensitive)
    for other in rows.schema.fields:
        same = as_nullable(other.dataType) == as_nullable(field.dataType)
        if same and other.name not in stored and other.name not in (_OP, _ORDER, *_OF_FEEDS):
            return (
                ". If the source has renamed it, give it under the old name, as by "
                f"withColumnRenamed({other.name!r}, {field.name!r}), or build the table at another "
                "path"
            )
    return ""


def _check_nulls(changes: ChangeSet, manifest: Manifest) -> None:
    """Refuse null where the table has none: those that read it rely on that."""
    there = pa.array(changes.kinds == UPSERT)
    for number, field in enumerate(manifest.schema):
        if number < manifest.compared:
            continue
        column = changes.rows.column(number)
        if not field.nullable and column.null_count and column.filter(there).null_count:
            raise ArgumentError(
                f"a change has null in {field.name!r}, which the table was built without nulls in: "
                "build it again with a column that may be null (nullif(x, NULL))"
            )
