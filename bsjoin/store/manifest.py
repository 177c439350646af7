"""The manifest: everything that one immutable version of a table says of itself, as JSON."""

from __future__ import annotations

import base64
import json
from dataclasses import asdict, dataclass, replace
from typing import Any

import pyarrow as pa

from bsjoin.errors import NotATableError
from bsjoin.index.sorted_rows import Closed
from bsjoin.store.home import Home
from bsjoin.store.segment import SegmentInfo

__all__ = ["FORMAT", "KeyColumn", "Manifest", "RangeColumns", "Stats"]

FORMAT = 1


@dataclass(frozen=True)
class KeyColumn:
    """A key column of the table.

    Args:
        name: its name in the table.
        type: its type in the table, by the name that Spark's JSON schemas give it.
    """

    name: str
    type: str


@dataclass(frozen=True)
class RangeColumns:
    """What a table for range joins is sorted by inside each key.

    Args:
        names: the column of points; or the columns of starts and ends.
        types: their types as they are searched, by the names that Spark's JSON schemas give.
        closed: which ends belong to the intervals; None for points.
    """

    names: tuple[str, ...]
    types: tuple[str, ...]
    closed: Closed | None


@dataclass(frozen=True)
class Stats:
    """What ``BatchTable.stats()`` answers.

    Args:
        rows: rows with a key; rows with a null key match nothing and are not stored.
        keys: distinct keys.
        bytes: size of all files of the version.
        segments: number of segments.
        version: number of the version.
        longest_run: the largest number of rows that share one key.
        build_s: seconds that the build took.
    """

    rows: int
    keys: int
    bytes: int
    segments: int
    version: int
    longest_run: int
    build_s: float


@dataclass(frozen=True)
class Manifest:
    """One version of a table.

    Args:
        version: 1, 2, 3, …
        activates_at_us: from this moment (microseconds since the epoch, UTC) on, a
            micro-batch uses this version; the first version counts from ever on.
        created_at_us: when it was published.
        build_s: seconds that the build took.
        keys: the key columns, in order.
        compared: how many key columns are stored to be compared: 0 where the hash alone
            tells keys apart.
        unique: whether the table was declared to hold each key once.
        schema: Arrow schema of the stored columns: the compared keys, then all others.
        spark_schema: the Spark schema (JSON) of the columns that can be selected.
        segments: the segments in the order of their hashes.
        ranged: the range columns of a table for range joins.
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

    @property
    def columns(self) -> list[str]:
        """The names of the columns that can be selected."""
        return list(self.schema.names[self.compared :])

    @property
    def files(self) -> list[tuple[str, int, str]]:
        """Name, size in bytes and checksum of every file."""
        return [
            file
            for segment in self.segments
            for file in zip(segment.files, segment.sizes, segment.checksums, strict=True)
        ]

    @property
    def longest_run(self) -> int:
        """The largest number of rows that share one key; 0 for an empty table."""
        return max((segment.longest_run for segment in self.segments), default=0)

    @property
    def stats(self) -> Stats:
        """Rows, keys, bytes and so on."""
        return Stats(
            rows=sum(s.rows for s in self.segments),
            keys=sum(s.keys for s in self.segments),
            bytes=sum(size for _, size, _ in self.files),
            segments=len(self.segments),
            version=self.version,
            longest_run=self.longest_run,
            build_s=self.build_s,
        )

    def same_as(self, other: Manifest) -> bool:
        """Whether both versions promise the same and hold the same rows."""

        def content(manifest: Manifest) -> list[tuple[int, tuple[str, ...]]]:
            return [(s.first_hash, s.checksums) for s in manifest.segments]

        return (
            self.unique == other.unique
            and self.ranged == other.ranged
            and self.schema.equals(other.schema)
            and self.spark_schema == other.spark_schema
            and content(self) == content(other)
        )

    def published_as(self, version: int, created_at_us: int, activates_at_us: int) -> Manifest:
        """The same content under a version number."""
        return replace(
            self, version=version, created_at_us=created_at_us, activates_at_us=activates_at_us
        )

    def discard(self, home: Home) -> None:
        """Remove the files of a version that is not going to be published."""
        for folder in {file.rsplit("/", 1)[0] for file, _, _ in self.files}:
            home.remove(folder)

    def to_bytes(self) -> bytes:
        """The JSON document."""
        data: dict[str, Any] = {
            "format": FORMAT,
            "version": self.version,
            "activates_at_us": self.activates_at_us,
            "created_at_us": self.created_at_us,
            "build_s": round(self.build_s, 3),
            "keys": [[key.name, key.type] for key in self.keys],
            "compared": self.compared,
            "unique": self.unique,
            "schema": base64.b64encode(self.schema.serialize()).decode(),
            "spark_schema": self.spark_schema,
            "segments": [segment.to_json() for segment in self.segments],
        }
        if self.ranged is not None:
            data["ranged"] = asdict(self.ranged)
        return json.dumps(data, indent=1).encode()

    @classmethod
    def from_bytes(cls, content: bytes, where: str) -> Manifest:
        """Read the JSON document; ``where`` names it in an error."""
        try:
            data = json.loads(content)
            if data["format"] != FORMAT:
                raise NotATableError(
                    f"{where} has format {data['format']}, this bsjoin reads format {FORMAT}: "
                    "build the table again, or use the bsjoin that wrote it"
                )
            return cls(
                version=data["version"],
                activates_at_us=data["activates_at_us"],
                created_at_us=data["created_at_us"],
                build_s=data["build_s"],
                keys=tuple(KeyColumn(*key) for key in data["keys"]),
                compared=data["compared"],
                unique=data["unique"],
                schema=pa.ipc.read_schema(pa.py_buffer(base64.b64decode(data["schema"]))),
                spark_schema=data["spark_schema"],
                segments=tuple(SegmentInfo.from_json(s) for s in data["segments"]),
                ranged=_ranged(data.get("ranged")),
            )
        except (KeyError, TypeError, ValueError, OSError, pa.ArrowException) as error:
            raise NotATableError(f"{where} is not a manifest of a table: {error!r}") from error


def _ranged(data: dict[str, Any] | None) -> RangeColumns | None:
    if data is None:
        return None
    return RangeColumns(tuple(data["names"]), tuple(data["types"]), data["closed"])
