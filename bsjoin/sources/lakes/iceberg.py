"""``iceberg``: a table of Apache Iceberg, read by pyiceberg, without Spark's jars."""

from __future__ import annotations

import functools
import os
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa

from bsjoin._secrets import hidden, secrets_in, secrets_of
from bsjoin.errors import ArgumentError, SourceError
from bsjoin.sources.arguments import located
from bsjoin.sources.drivers import driver
from bsjoin.sources.lakes import metadata_files
from bsjoin.sources.lakes.iceberg_filters import can_compare, has_dot, test_of
from bsjoin.sources.lakes.lake_table import LakeTable
from bsjoin.sources.lakes.lake_versions import LakeChanges, with_change
from bsjoin.sources.lakes.projection import mend
from bsjoin.sources.lakes.ranges import Ranges
from bsjoin.sources.protocol import Source
from bsjoin.sources.table import Declared
from bsjoin.sources.transient import of_data
from bsjoin.sources.types import sparkable
from bsjoin.storage.lake_history import NO_SNAPSHOT, Snapshot, why_not_appended
from bsjoin.storage.source_version import SourceVersion
from bsjoin.values.plain import has_inside

_MOST_FILES = 16
_MOST_BYTES = 128 << 20


def iceberg(
    table: str | os.PathLike[str],
    *,
    catalog: str | Mapping[str, str] | None = None,
    snapshot: int | None = None,
    schema: pa.Schema | Mapping[str, pa.DataType] | None = None,
    unique: bool | None = None,
    max_keys: int = 10_000,
) -> Source:
    """A table of Apache Iceberg, read by the library pyiceberg: without Spark's jars for Iceberg.

    The rows, columns and types are those that Spark reads: position deletes, hidden partitions and
    changed columns are followed, and a UUID is a string. A table with equality deletes, which the
    library does not read, is refused.

    A look-up reads only the files that the table's manifests do not exclude: by partitions, and by
    the bounds of columns. Keys of floating-point numbers, booleans, binary values and UUIDs read
    all files, as do columns with an initial default: sort or partition the table by another column
    of the key. A new snapshot is seen within three seconds; the columns and types stay those of the
    call: one that is gone or renamed is an error.

    Args:
        table: the table's name in the catalogue, such as ``"shop.customers"``. Without a catalogue:
            its folder, if that has ``metadata/version-hint.text`` as a Hadoop catalogue writes it,
            or one metadata file (``.../v7.metadata.json``), which is always the same snapshot.
        catalog: the name of a catalogue in pyiceberg's configuration, or a dict of its properties,
            such as ``{"type": "rest", "uri": "https://..."}``, with its ``"name"`` where that
            matters (one of the type sql keeps tables by it). The workers get the properties that
            the driver has found. No message shows their credentials. ``None`` (default): no
            catalogue.
        snapshot: the number of the snapshot to read, always the same. ``None`` (default): the
            newest one of the main branch.
        schema: Arrow types for some or all columns, to which the values are cast; a value that does
            not fit is an error. ``None`` (default): the types of the table.
        unique: whether a key has at most one row. ``None`` (default): False, because the format
            does not guarantee it.
        max_keys: the maximum number of keys per look-up; default 10,000.

    Returns:
        A :class:`Source` for ``bsjoin.join``. It supports look-ups and scans.

    Raises:
        ArgumentError: an argument is invalid.
        SourceError: from its schema, look-ups and scans: pyiceberg is missing (``pip install
            "bsjoin[iceberg]"``), or the table cannot be read.

    Complexity: A look-up of n keys costs O(n log n), O(files) for their bounds, and reads the files
        that may have a key, in at most 32 ranges of keys.

    Example:
        >>> iceberg("shop.customers", catalog={"type": "rest", "uri": "https://lake.example"})
        iceberg('shop.customers')
    """
    if not isinstance(table, str | os.PathLike) or not os.fspath(table):
        raise ArgumentError(f"table={table!r}: give the name of a table, or its folder")
    name = os.fspath(table)
    if catalog is None:
        name = located(table, "table")
    elif not isinstance(catalog, str) and not (
        isinstance(catalog, Mapping) and all(isinstance(key, str) for key in catalog)
    ):
        raise ArgumentError("catalog: give the name of a catalogue, or a dict of its properties")
    return _Iceberg(name, catalog, schema, unique, max_keys, snapshot)


class _Iceberg(LakeTable):
    missing = "NoSuchTableError"
    stay = (
        "ForbiddenError", "NoSuchNamespaceError", "NotImplementedError", "NotInstalledError",
        "ResolveError", "TypeError", "UnauthorizedError", "ValidationError", "ValueError",
    )  # fmt: skip

    def __init__(self, table: str, catalog: str | Mapping[str, str] | None, *given: Any) -> None:
        self._table = table
        self._properties = dict(catalog) if isinstance(catalog, Mapping) else {}
        self._catalog = catalog if isinstance(catalog, str) else self._properties.pop("name", None)
        self._is_file = catalog is None
        self._uuids: frozenset[str] = frozenset()
        self._has_present_schema = False
        secrets = (*secrets_in(self._properties), *secrets_of(table))
        super().__init__(*given, name="snapshot", secrets=secrets)
        self._pinned |= self._is_file and table.endswith(".metadata.json")

    def _open(self) -> Any:
        if self._is_file:
            return self._of_file()
        loaded = driver("pyiceberg.catalog", "iceberg").load_catalog(
            self._catalog, **self._properties
        )
        # Workers have no configuration of pyiceberg's.
        self._properties = {**loaded.properties, **self._properties}
        self._secrets = (*secrets_in(self._properties), *secrets_of(self._table))
        metadata_files.distrust_tables_of(loaded)
        try:
            return self._pinned_to_snapshot(self._of_catalog(loaded))
        except BaseException:
            loaded.close()
            raise

    def _of_catalog(self, catalog: Any) -> Any:
        """The table as it is now; its catalogue, which may be connected, is closed with it."""
        table = catalog.load_table(self._table)
        table.close = catalog.close
        return table

    def _of_file(self) -> Any:
        local = "://" not in self._table
        if local and not os.path.exists(self._table):
            raise self._absent("there is no such file or folder")
        hint = os.path.join(self._table, "metadata", "version-hint.text")
        if local and os.path.isdir(self._table) and not os.path.exists(hint):
            raise self._absent(
                "this folder has no metadata/version-hint.text, which tells the newest snapshot: "
                "give the table's name with catalog=..., or one of its metadata files"
            )
        return self._pinned_to_snapshot(metadata_files.static_table(self._table))

    def _renewed(self, table: Any) -> Any:
        if not self._is_file:
            # Not its refresh(), which refuses a table that was dropped and made again.
            return self._of_catalog(table.catalog)
        return self._of_file()

    def _pinned_to_snapshot(self, table: Any) -> Any:
        """The table with the schema of its snapshot as the present one.

        pyiceberg looks up the columns of a filter in the present schema, whatever the snapshot.
        """
        number = self._number
        if self._has_present_schema:
            present = {"schema_id": table.metadata.current_schema_id}
            kept = [
                snapshot.model_copy(update=present if snapshot.snapshot_id == number else {})
                for snapshot in table.metadata.snapshots
            ]
            table.metadata = table.metadata.model_copy(update={"snapshots": kept})
            return table
        found = None if number is None else table.metadata.snapshot_by_id(number)
        known = {schema.schema_id for schema in table.metadata.schemas}
        if found is not None and found.schema_id in known:
            table.metadata = table.metadata.model_copy(
                update={"current_schema_id": found.schema_id}
            )
        return table

    def _snapshot_in(self, table: Any) -> Any:
        """The snapshot that is read; None if there is none."""
        number = self._number
        return table.current_snapshot() if number is None else table.snapshot_by_id(number)

    def _columns(self, table: Any) -> list[Declared]:
        found = self._snapshot_in(table)
        # pyiceberg refuses those files of them that a key does not exclude, by values of old rows.
        if found and found.summary and int(found.summary["total-equality-deletes"] or 0):
            raise SourceError(
                f"{self!r}: the table has equality deletes, as Flink's upserts write them, which "
                "pyiceberg does not read: read it with Spark's jars, or after a compaction that "
                "removes them"
            )
        types = driver("pyiceberg.types", "iceberg")
        schema = table.scan(snapshot_id=self._number).projection()
        fields = dict(zip(schema.fields, schema.as_arrow(), strict=True))
        self._uuids = frozenset(
            field.name for field in fields if isinstance(field.field_type, types.UUIDType)
        )
        return [
            (
                field.name,
                pa.string() if field.name in self._uuids else _type(arrow.type, declared),
                declared,
            )
            for field, arrow in fields.items()
            for declared in (str(field.field_type),)
        ]

    def _batches(
        self, table: Any, names: Sequence[str], ranges: Mapping[str, Ranges]
    ) -> Iterator[pa.RecordBatch]:
        expressions = driver("pyiceberg.expressions", "iceberg")
        tests: list[Any] = [
            test_of(expressions, name, found)
            for name, found in ranges.items()
            if name not in self._uuids and can_compare(table, name, found)
        ]
        scan = table.scan(
            row_filter=functools.reduce(expressions.And, tests, expressions.AlwaysTrue()),
            selected_fields=tuple(names),
            snapshot_id=self._number,
        )
        # A name with a dot is a column inside another one to what reads files.
        is_read_by_all = not any(has_dot(table, name) for name in ranges)
        return self._read(scan, names, scan.row_filter if is_read_by_all else None)

    def _read(self, scan: Any, names: Sequence[str], row_filter: Any) -> Iterator[pa.RecordBatch]:
        for batch in _read(scan, row_filter):
            for name in self._uuids.intersection(names):
                place = batch.schema.get_field_index(name)
                batch = batch.set_column(place, name, _texts(batch.column(place)))
            yield batch

    def _count(self, table: Any) -> int | None:
        found = self._snapshot_in(table)
        if found is None:
            return 0
        summary = found.summary
        if summary is None or summary["total-records"] is None:
            return None
        return int(summary["total-records"]) - int(summary["total-position-deletes"] or 0)

    def _version_of(self, table: Any) -> SourceVersion:
        # Other columns make other rows of the same snapshot, also of what is not read again.
        schema = table.metadata.current_schema_id
        snapshot = table.current_snapshot()
        return SourceVersion(
            f"the Iceberg table {hidden(self._table)}",
            NO_SNAPSHOT if snapshot is None else str(snapshot.snapshot_id),
            None if snapshot is None else snapshot.timestamp_ms * 1000,
            f"{table.metadata.table_uuid} schema {schema}",
        )

    def _numbers(self, table: Any) -> tuple[str, dict[str, int | None]]:
        schema = table.schema()
        numbers = {name: schema.find_field(name).field_id for name in schema.column_names}
        return str(table.metadata.table_uuid), numbers

    def at(self, version: str) -> _Iceberg:
        if version == NO_SNAPSHOT:
            return self.copied()
        found = super().at(version)
        found._has_present_schema = True  # as the newest snapshot is read
        return found

    def _changed(
        self, table: Any, since: SourceVersion, until: str, columns: Sequence[str]
    ) -> LakeChanges | str:
        if not hasattr(table, "incremental_append_scan"):
            return "pyiceberg tells what was appended from 0.12 on"
        snapshots = {one.snapshot_id: one for one in table.metadata.snapshots}
        made = {number: _snapshot(one) for number, one in snapshots.items()}
        why = why_not_appended(made.get, since.version, until, len(made) + 1)
        if why is not None:
            return why
        then, number = self.at(until), int(until)
        read = functools.partial(then._appended, since.version, tuple(columns))
        sizes = []
        while str(number) != since.version:
            sizes.append(snapshots[number].summary.get("added-files-size") or "")
            number = snapshots[number].parent_snapshot_id
        size = sum(map(int, sizes)) if all(map(str.isdecimal, sizes)) else None
        return LakeChanges(then, columns, read, size)

    def _appended(self, since: str, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """The rows of the files that were added after one snapshot, up to this one."""
        scan = self._current().incremental_append_scan(
            from_snapshot_id_exclusive=int(since),
            to_snapshot_id_inclusive=self._number,
            selected_fields=tuple(names),
        )
        for batch in self._read(scan, names, None):
            yield with_change(batch, "insert", 0)

    def _is_of_data(self, error: Exception) -> bool:
        return of_data(error)

    def __repr__(self) -> str:
        table = hidden(self._table) if "://" in self._table else self._table
        snapshot = "" if self._number is None else f", snapshot={self._number}"
        return f"iceberg({table!r}{snapshot})"


def _snapshot(found: Any) -> Snapshot:
    done = None if found.summary is None else found.summary.operation.value
    return Snapshot(found.parent_snapshot_id, done, found.sequence_number or 0)


def _read(scan: Any, row_filter: Any) -> Iterator[pa.RecordBatch]:
    """The rows of a scan, some files at a time: pyiceberg would hold those of all files.

    Those of its files that a filter lets through; None: all.
    """
    arrow = driver("pyiceberg.io.pyarrow", "iceberg")
    mend(arrow)
    always = driver("pyiceberg.expressions", "iceberg").AlwaysTrue()
    projection = scan.projection()
    target = projection.as_arrow()
    reader = arrow.ArrowScan(scan.table_metadata, scan.io, projection, row_filter or always)
    for tasks in _few(scan.plan_files()):
        for batch in reader.to_record_batches(tasks):
            yield batch.cast(target) if target.names else batch


def _few(tasks: Iterable[Any]) -> Iterator[list[Any]]:
    few: list[Any] = []
    size = 0
    for task in tasks:
        more = task.file.file_size_in_bytes
        if few and (len(few) == _MOST_FILES or size + more > _MOST_BYTES):
            yield few
            few, size = [], 0
        few.append(task)
        size += more
    if few:
        yield few


def _type(dtype: pa.DataType, declared: str) -> pa.DataType | None:
    """Spark's type; None also for a UUID inside, which Spark reads as a text, and for a place."""
    if declared.startswith(("geometry", "geography")):  # bytes, without a further library
        return None
    has_uuid = has_inside(dtype, lambda one: isinstance(one, pa.BaseExtensionType))
    return None if has_uuid else sparkable(dtype)


def _texts(values: pa.Array) -> pa.Array:
    """UUIDs as Spark shows them."""
    stored = values.storage if isinstance(values.type, pa.BaseExtensionType) else values
    return pa.array(
        [None if value is None else str(uuid.UUID(bytes=value)) for value in stored.to_pylist()],
        pa.string(),
    )
