"""The manifest: the metadata of one immutable version of a table, as JSON (see format.md).

Everyone who can write to the table's folder can write a manifest, so it is not trusted:
:meth:`Manifest.from_bytes` validates all of it, and no other code reads manifests.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import pairwise
from typing import Any

import pyarrow as pa

from bsjoin._version import __version__
from bsjoin.conditions import Condition, condition_from_json, condition_to_json
from bsjoin.errors import StoreError, TableNotFoundError
from bsjoin.index import MOST_DIMENSIONS
from bsjoin.index.sorted_rows import CLOSED, Closed
from bsjoin.storage import fields
from bsjoin.storage.latest import LatestBy
from bsjoin.storage.layers.entries import Applied, Layer
from bsjoin.storage.names import LARGEST_NUMBER
from bsjoin.storage.range_index import is_ranked
from bsjoin.storage.segment_entries import SegmentInfo, StoredFile, UnindexedInfo
from bsjoin.storage.source_version import SourceVersion
from bsjoin.storage.spark_schema import LONG_DIGITS, arrow_type, read_spark_schema
from bsjoin.values.sort_order import respelled, sort_orders

FORMAT = 2
"""The number of the format in format.md: with layers. Tables without them have format 1."""

LARGEST = 32 << 20
"""The maximum size of a manifest in bytes: enough for about 600,000 files."""

NULL_KEYS = "bsjoin_null_keys"
"""The last compared column of a table with null-safe keys: which of them are null."""

_LATEST_US = 253_402_300_799_000_000  # the end of the year 9999
_INTEGERS = ("byte", "short", "integer", "long")
_WRITER = re.compile(r"bsjoin [0-9A-Za-z.+-]{1,40}")
_COLLATED = re.compile(r"string collate (\w{1,128}) [\w./]{1,80}", re.ASCII)
"""The type of a key that is a text with a collation, and the version of its rules."""


@dataclass(frozen=True)
class KeyColumn:
    """A key column of the table.

    Args:
        name: its name in the table.
        type: its type in the table, by its name in Spark's JSON schemas; of a text with a collation
            with that and with the version of its rules.
        nulls_equal: whether rows in which it is null are in the index, too. Default False.
    """

    name: str
    type: str
    nulls_equal: bool = False

    def __str__(self) -> str:
        return f"{self.name} {self.type}{', null-safe' * self.nulls_equal}"

    def to_json(self) -> list[str | bool]:
        """The entry of a manifest."""
        return [self.name, self.type, *[True] * self.nulls_equal]


@dataclass(frozen=True)
class RangeColumns:
    """The columns by which a table for range joins is sorted inside each key.

    Args:
        names: the column of points; or the columns of starts and ends.
        types: the types in which they are searched, by their names in Spark's JSON schemas.
        closed: which ends belong to the intervals; None for points.
        order_by: how rows with the same key and point are sorted, before their other columns are
            compared: normal forms of :class:`~bsjoin.values.sort_order.SortOrder`. Default: not.
        ordered: whether the index has the place of each row among all rows of its key in that
            order, whatever their points. Default False.
    """

    names: tuple[str, ...]
    types: tuple[str, ...]
    closed: Closed | None
    order_by: tuple[str, ...] = ()
    ordered: bool = False

    def spelled(self, name_of: Callable[[str], str]) -> RangeColumns:
        """The same, the columns under other names."""
        names = tuple(map(name_of, self.names))
        return replace(self, names=names, order_by=respelled(self.order_by, name_of))


@dataclass(frozen=True)
class BoxRange:
    """One more range of a table whose rows are boxes.

    Args:
        columns: its columns, which are not sorted by.
        condition: the range condition that they are for.
    """

    columns: RangeColumns
    condition: Condition

    def spelled(self, name_of: Callable[[str], str]) -> BoxRange:
        """The same, the columns under other names."""
        columns = self.columns.spelled(name_of)
        condition = self.condition.renamed(self.condition.stream_columns, columns.names)
        return BoxRange(columns, condition)


def box_signature(boxes: Sequence[BoxRange]) -> str:
    """What readers compare of boxes: names, types, and which ends belong to the intervals."""
    columns = (one.columns for one in boxes)
    found = [[one.names, one.types, one.closed] for one in columns]
    return json.dumps(found, separators=(",", ":"))


@dataclass(frozen=True)
class Stats:
    """The statistics of a table version, returned by ``BatchTable.stats()``.

    Args:
        rows: rows that a look-up can find.
        keys: distinct keys.
        bytes: size of all files of the version in bytes.
        segments: number of segments that are searched.
        version: number of the version.
        longest_run: the largest number of rows of one key; of a table with changes that are not
            compacted yet it may be that of a key that has fewer now.
        build_s: seconds from the reading of its source to its publication: the duration of a build
            or of changes; of a compaction the age of its rows.
        unindexed: stored rows that match nothing, as a key is null, or in a table for range joins
            the point or the start. None (default) if such rows were left out, as by earlier
            versions of bsjoin.
        latest_by: by what the latest rows of a key are chosen, if the table has only those; else
            empty.
        keep: how many of a key, at the most; None if the table has all rows.
    """

    rows: int
    keys: int
    bytes: int
    segments: int
    version: int
    longest_run: int
    build_s: float
    unindexed: int | None = None
    latest_by: tuple[str, ...] = ()
    keep: int | None = None


@dataclass(frozen=True)
class Manifest:
    """One version of a table.

    Args:
        version: 1, 2, 3, …
        activates_at_us: the timestamp (microseconds since the epoch, UTC) from which on
            micro-batches use this version; the first version is active for all earlier timestamps.
        created_at_us: when it was published, in microseconds since the epoch.
        build_s: seconds from the reading of its source until it was published.
        keys: the key columns, in order.
        compared: how many key columns are stored for comparison: 0 if equal hashes mean equal
            keys.
        unique: whether the table was declared unique, or keeps one row of each key.
        schema: Arrow schema of the stored columns: the compared keys, then all others.
        spark_schema: the Spark schema (JSON) of the columns that can be selected.
        segments: the segments in the order of their hashes.
        ranged: the range columns of a table for range joins; None (default) without.
        condition: the range condition that the table was built with; None (default) without one,
            and in manifests of earlier versions of bsjoin.
        row: the columns whose content orders rows with the same key and point, where ``order_by``
            or ``latest`` does not; some of them may not be stored. None (default) without range
            columns and ``latest``, and where an earlier version of bsjoin has ordered such rows by
            a hash.
        unindexed: the segments of the rows that match nothing; None (default) if such rows were
            left out. Look-ups do without them.
        latest: which rows of a key are kept; None (default) for all.
        layers: changes since the segments were written, oldest first; empty (default) without.
        live: of a version with layers the numbers of rows and of keys that a look-up can find;
            None (default): those of all segments.
        changes: what was applied to the table; None (default) if nothing was.
        boxes: the further ranges by which rows of a key are indexed, together with ``ranged``, in
            segments with many rows of a key. Default: none.
        source: the version of the source that the rows are of; None (default) where it is not known
            for certain.
        base: the name of the build that ``segments`` is of, also where it is empty; None (default)
            in manifests of earlier versions of bsjoin.
    """

    version: int
    activates_at_us: int
    created_at_us: int
    build_s: float
    keys: tuple[KeyColumn, ...]
    compared: int
    unique: bool
    schema: pa.Schema
    spark_schema: str
    segments: tuple[SegmentInfo, ...]
    ranged: RangeColumns | None = None
    condition: Condition | None = None
    row: tuple[str, ...] | None = None
    unindexed: tuple[UnindexedInfo, ...] | None = None
    latest: LatestBy | None = None
    layers: tuple[Layer, ...] = ()
    live: tuple[int, int] | None = None
    changes: Applied | None = None
    boxes: tuple[BoxRange, ...] = ()
    source: SourceVersion | None = None
    base: str | None = None

    @property
    def has_null_keys(self) -> bool:
        """Whether the index may have rows with null keys."""
        return any(key.nulls_equal for key in self.keys)

    @property
    def is_whole(self) -> bool:
        """Whether all rows of the source are stored, those that match nothing too."""
        return self.unindexed is not None

    @property
    def columns(self) -> list[str]:
        """The names of the columns that can be selected."""
        return list(self.schema.names[self.compared :])

    @property
    def range_names(self) -> tuple[str, ...]:
        """The range columns; none in other tables."""
        return () if self.ranged is None else self.ranged.names

    @property
    def searched(self) -> tuple[str, ...]:
        """The columns by which rows are found and ordered; some may not be stored."""
        keys = (key.name for key in self.keys)
        boxes = (name for one in self.boxes for name in one.columns.names)
        return tuple(dict.fromkeys([*keys, *self.range_names, *boxes, *(self.row or ())]))

    @property
    def files(self) -> list[StoredFile]:
        """Every file of the version."""
        segments: list[SegmentInfo | UnindexedInfo] = [*self.indexed, *(self.unindexed or ())]
        return [
            StoredFile(*file)
            for segment in segments
            for file in zip(segment.files, segment.sizes, segment.checksums, strict=True)
        ] + [file for segment in self.indexed if (file := segment.box_file) is not None]

    @property
    def indexed(self) -> tuple[SegmentInfo, ...]:
        """The segments with an index: the base, then the layers."""
        return (*self.segments, *(one for layer in self.layers for one in layer.segments))

    @property
    def longest_run(self) -> int:
        """The largest number of rows of one key; 0 for an empty table.

        With layers a bound: the key may have other rows now.
        """
        return max((segment.longest_run for segment in self.indexed), default=0)

    @property
    def box_shares(self) -> tuple[float, ...] | None:
        """For each range what part of a key's rows a row of the stream meets, as it was built.

        None where no segment has an index of boxes.
        """
        found = [(s.rows, s.boxes.shares) for s in self.indexed if s.boxes is not None]
        rows = sum(many for many, _ in found)
        sides = zip(*(shares for _, shares in found), strict=True)
        return (
            tuple(
                sum(many * one for (many, _), one in zip(found, side, strict=True)) / rows
                for side in sides
            )
            or None
        )

    @property
    def stats(self) -> Stats:
        """The statistics of the version."""
        there = [*self.segments, *(one.rows for one in self.layers if one.rows is not None)]
        rows, keys = self.live or (sum(s.rows for s in there), sum(s.keys for s in there))
        return Stats(
            rows=rows,
            keys=keys,
            bytes=sum(size for _, size, _ in self.files),
            segments=len(self.indexed),
            version=self.version,
            longest_run=self.longest_run,
            build_s=self.build_s,
            unindexed=None if self.unindexed is None else sum(s.rows for s in self.unindexed),
            latest_by=() if self.latest is None else self.latest.order,
            keep=None if self.latest is None else self.latest.keep,
        )

    def same_as(self, other: Manifest) -> bool:
        """Whether both versions have the same schema, guarantees and rows."""

        def content(manifest: Manifest) -> list[tuple[int, tuple[str, ...]]]:
            return [
                (s.first_hash, (*s.checksums, "" if s.boxes is None else s.boxes.checksum))
                for s in manifest.indexed
            ]

        def others(manifest: Manifest) -> list[tuple[int, tuple[str, ...]]] | None:
            listed = manifest.unindexed
            return None if listed is None else [(s.rows, s.checksums) for s in listed]

        return (
            (self.unique, self.keys) == (other.unique, other.keys)
            and (self.ranged, self.row) == (other.ranged, other.row)
            and (self.latest, self.boxes) == (other.latest, other.boxes)
            and self.schema.equals(other.schema)
            and self.spark_schema == other.spark_schema
            and content(self) == content(other)
            and others(self) == others(other)
        )

    def published_as(self, version: int, created_at_us: int, activates_at_us: int) -> Manifest:
        """A copy with ``version``, ``created_at_us`` and ``activates_at_us`` set."""
        return replace(
            self, version=version, created_at_us=created_at_us, activates_at_us=activates_at_us
        )

    def to_bytes(self) -> bytes:
        """The JSON document.

        Raises:
            StoreError: the document exceeds the maximum size.
        """
        data: dict[str, Any] = {
            "format": FORMAT if self.layers else 1,
            "written_by": f"bsjoin {__version__}",
            "version": self.version,
            "activates_at_us": self.activates_at_us,
            "created_at_us": self.created_at_us,
            "build_s": round(self.build_s, 6),
            "keys": [key.to_json() for key in self.keys],
            "compared": self.compared,
            "unique": self.unique,
            "spark_schema": self.spark_schema,
            "segments": [segment.to_json() for segment in self.segments],
        }
        if self.ranged is not None:
            data["ranged"] = asdict(self.ranged)
            if not self.ranged.ordered:
                del data["ranged"]["ordered"]
        if self.row is not None:
            data["row"] = self.row
        if self.latest is not None:
            data["latest"] = asdict(self.latest)
        if self.unindexed is not None:
            data["unindexed"] = [segment.to_json() for segment in self.unindexed]
        if self.condition is not None:
            data["condition"] = condition_to_json(self.condition)
        if self.layers:
            data["layers"] = [layer.to_json() for layer in self.layers]
            data["live"] = self.live
        if self.changes is not None:
            data["changes"] = self.changes.to_json()
        if self.boxes:
            data["boxes"] = [
                {
                    "names": one.columns.names,
                    "types": one.columns.types,
                    "closed": one.columns.closed,
                    "condition": condition_to_json(one.condition),
                }
                for one in self.boxes
            ]
        if self.source is not None:
            data["source"] = self.source.to_json()
        if self.base is not None:
            data["base"] = self.base
        content = json.dumps(data, indent=1).encode()
        if len(content) > LARGEST:
            raise StoreError(
                f"a table of {len(self.indexed)} segments and {len(self.schema)} columns needs a "
                f"manifest of {len(content)} bytes; the maximum is {LARGEST}: build it with a "
                "larger segment_bytes, or with fewer columns"
            )
        return content

    @classmethod
    def from_bytes(cls, content: bytes, where: str, version: int | None = None) -> Manifest:
        """The manifest in a JSON document, validated.

        Args:
            content: the content of the file.
            where: the file's name for errors.
            version: the number in the file's name; None (default) for any.

        Raises:
            TableNotFoundError: it is not a valid manifest of this format; the error names the
                invalid field, or the other format and who wrote it. Nothing in it was imported,
                called or opened.
        """
        try:
            data = json.loads(content)
            _check_format(data, where)
            return _manifest(data, version)
        except RecursionError:
            reason = "it is nested too deep"
        except (TypeError, ValueError) as error:
            reason = str(error)
        raise no_manifest(where, reason)


def no_manifest(where: str, reason: object) -> TableNotFoundError:
    """The error of a file that is none."""
    return TableNotFoundError(
        f"{where} is not a manifest of a table: {reason}. Put back what was written there, or "
        "remove the table's folder and build it again"
    )


def compared_fields(keys: Sequence[KeyColumn]) -> list[pa.Field]:
    """The key columns that are stored for comparison: none if equal hashes mean equal keys.

    Behind null-safe keys there is the hash of a number, whose bit ``i`` is set where key ``i`` is
    null; a null key itself is stored as some value of its type.

    Raises:
        ValueError: a column has a type that is not supported for keys.
    """
    types = [_key_type(key) for key in keys]
    has_null_keys = any(key.nulls_equal for key in keys)
    if not types or (len(types) == 1 and _fits_8_bytes(types[0]) and not has_null_keys):
        return []
    found = [
        pa.field(f"k{i}", pa.int64() if _fits_8_bytes(dtype) else dtype, nullable=False)
        for i, dtype in enumerate(types)
    ]
    return [*found, *[pa.field(NULL_KEYS, pa.int64(), nullable=False)] * has_null_keys]


def has_integer_key(keys: Sequence[KeyColumn], ranged: RangeColumns | None) -> bool:
    """Whether the rows of a table may be sorted by its key: one integer, never null."""
    if len(keys) != 1 or ranged is not None:
        return False
    return keys[0].type in _INTEGERS and not keys[0].nulls_equal


def _check_format(data: Any, where: str) -> None:
    """Refuse another format by its number, before anything else is looked at."""
    found = fields.value(data, "format")
    if type(found) is int and 1 <= found <= FORMAT:
        return
    writer = data.get("written_by")
    named = isinstance(writer, str) and _WRITER.fullmatch(writer)
    raise TableNotFoundError(
        f"{where} has format {str(found)[:40]}, this bsjoin reads formats up to "
        f"{FORMAT}: use "
        f"{f'{writer}, which wrote it,' if named else 'the version of bsjoin that wrote it'} or a "
        "later one wherever the table is read, or build the table again"
    )


def _fits_8_bytes(dtype: pa.DataType) -> bool:
    if pa.types.is_decimal(dtype):
        return bool(dtype.precision <= LONG_DIGITS)
    return bool(pa.types.is_primitive(dtype))


def _key_type(key: KeyColumn) -> pa.DataType:
    """The type in which it is hashed and compared: of a text with a collation that of its key."""
    return pa.binary() if _is_collated(key) else _plain_type(key)


def _is_collated(key: KeyColumn) -> bool:
    return isinstance(key.type, str) and _COLLATED.fullmatch(key.type) is not None


def _plain_type(key: KeyColumn) -> pa.DataType:
    dtype = arrow_type(key.type)
    others = (pa.types.is_null, pa.types.is_duration, pa.types.is_time, pa.types.is_nested)
    if any(kind(dtype) for kind in others):
        raise ValueError(f"the key {fields.shown(key.name)} has the type {key.type}")
    return dtype


def _is_of(key: KeyColumn, column: pa.Field) -> bool:
    """Whether a column has the type of a key of its name."""
    return bool(column.type == (pa.string() if _is_collated(key) else _key_type(key)))


def _manifest(data: Any, version: int | None) -> Manifest:
    keys = tuple(_key(item) for item in fields.items(data, "keys"))
    try:
        columns = read_spark_schema(fields.text(data, "spark_schema"))
    except ValueError as error:
        raise ValueError(f"spark_schema: {error}") from None
    for key in keys:
        if key.name in columns.names and not _is_of(key, columns.field(key.name)):
            raise ValueError(f"the key {fields.shown(key.name)} has another type in spark_schema")
    if len({key.name for key in keys}) < len(keys):
        raise ValueError("keys names a column twice")
    ranged = _ranged(data["ranged"]) if data.get("ranged") is not None else None
    if not keys and ranged is None:
        raise ValueError("keys is empty, and there are no range columns")
    if any(key.nulls_equal for key in keys) and NULL_KEYS in columns.names:
        raise ValueError(f"spark_schema has a column {NULL_KEYS}, and a key is null-safe")
    schema = pa.schema([*compared_fields(keys), *columns])
    compared = len(schema) - len(columns)
    if fields.whole(data, "compared") != compared:
        raise ValueError(f"compared is {data['compared']}, and its keys need {compared}")
    number = fields.whole(data, "version", 1, LARGEST_NUMBER)
    if version is not None and number != version:
        raise ValueError(f"version is {number}, and the file is that of version {version}")
    integers = has_integer_key(keys, ranged)
    boxed = ranged is not None and data.get("boxes")
    boxes = tuple(map(_box_range, fields.items(data, "boxes"))) if boxed else ()
    if boxes and (ranged is None or not _has_codes(ranged) or len(boxes) >= MOST_DIMENSIONS):
        raise ValueError(f"boxes has {len(boxes)} ranges besides {ranged}")
    dimensions = 1 + len(boxes) if boxes else 0
    segments = [
        SegmentInfo.from_json(item, len(schema), integers=integers, dimensions=dimensions)
        for item in fields.items(data, "segments")
    ]
    for before, after in pairwise(segments):
        if before.first_hash >= after.first_hash:
            raise ValueError(f"the segment {after.name!r} begins before the one that it follows")
    layers = _layers(data, len(schema), compared, integers=integers, dimensions=dimensions)
    indexed = [*segments, *(one for layer in layers for one in layer.segments)]
    if len({segment.name for segment in indexed}) < len(indexed):
        raise ValueError("segments names one twice")
    unindexed = None
    if data.get("unindexed") is not None:
        listed = fields.items(data, "unindexed")
        unindexed = tuple(UnindexedInfo.from_json(item, len(columns)) for item in listed)
        names = {*(s.name for s in indexed), *(s.name for s in unindexed)}
        if len(names) < len(indexed) + len(unindexed):
            raise ValueError("unindexed names a segment twice, or one that has an index")
    return Manifest(
        version=number,
        activates_at_us=fields.whole(data, "activates_at_us", 0, _LATEST_US),
        created_at_us=fields.whole(data, "created_at_us", 0, _LATEST_US),
        build_s=fields.number(data, "build_s"),
        keys=keys,
        compared=compared,
        unique=fields.flag(data, "unique"),
        schema=schema,
        spark_schema=data["spark_schema"],
        segments=tuple(segments),
        ranged=ranged,
        condition=condition_from_json(data["condition"]) if data.get("condition") else None,
        row=fields.texts(data, "row") if data.get("row") is not None else None,
        unindexed=unindexed,
        latest=LatestBy.from_json(data["latest"]) if data.get("latest") is not None else None,
        layers=layers,
        live=_live(data, segments, layers),
        changes=Applied.from_json(data["changes"]) if data.get("changes") is not None else None,
        boxes=boxes,
        source=SourceVersion.from_json(data["source"]) if data.get("source") is not None else None,
        base=fields.text(data, "base") if data.get("base") is not None else None,
    )


def _layers(
    data: Any, columns: int, compared: int, *, integers: bool, dimensions: int
) -> tuple[Layer, ...]:
    listed = fields.items(data, "layers") if data.get("layers") is not None else []
    if listed and data["format"] < FORMAT:
        raise ValueError(f"the format is {data['format']}, and there are {len(listed)} layers")
    return tuple(
        Layer.from_json(item, columns, compared, integers=integers, dimensions=dimensions)
        for item in listed
    )


def _live(
    data: Any, segments: Sequence[SegmentInfo], layers: Sequence[Layer]
) -> tuple[int, int] | None:
    """The numbers of rows and of keys, which are not above those of all segments."""
    if not layers or data.get("live") is None:
        return None
    found = fields.items(data, "live")
    there = [*segments, *(layer.rows for layer in layers if layer.rows is not None)]
    most = sum(segment.rows for segment in there)
    if not (
        len(found) == 2
        and all(type(number) is int for number in found)
        and 0 <= found[1] <= found[0] <= most
        and bool(found[0]) == bool(found[1])
    ):
        raise ValueError(f"live is {found!r:.80}, not the numbers of rows and of keys")
    return found[0], found[1]


def _key(item: Any) -> KeyColumn:
    named = isinstance(item, list) and len(item) in (2, 3) and isinstance(item[0], str)
    if not named or (len(item) == 3 and item[2] is not True):
        raise ValueError(f"keys has {fields.shown(item)}, which is not a name and a type")
    key = KeyColumn(*item)
    _key_type(key)
    return key


def _box_range(data: Any) -> BoxRange:
    columns = _ranged(data)
    if not _has_codes(columns) or columns.order_by or columns.ordered:
        raise ValueError(f"boxes has a range by {columns}")
    return BoxRange(columns, condition_from_json(fields.value(data, "condition")))


def _has_codes(ranged: RangeColumns) -> bool:
    return not is_ranked(arrow_type(ranged.types[0]))


def _ranged(data: Any) -> RangeColumns:
    names, types = fields.texts(data, "names"), fields.texts(data, "types")
    closed: Closed | None = fields.value(data, "closed")
    if closed not in (*CLOSED, None):
        raise ValueError(f"closed is {fields.shown(closed)}, none of {', '.join(CLOSED)} and null")
    if not len(names) == len(types) == (1 if closed is None else 2) or len(set(types)) > 1:
        raise ValueError("ranged is neither one column of points nor two of starts and ends")
    _plain_type(KeyColumn(names[0], types[0]))
    order_by = fields.texts(data, "order_by") if data.get("order_by") else ()
    ordered = "ordered" in data and fields.flag(data, "ordered")
    if ordered and closed is None:
        raise ValueError("ranged is of points and ordered")
    return RangeColumns(names, types, closed, sort_orders(order_by, "order_by"), ordered)
