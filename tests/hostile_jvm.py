"""Small stored tables with every type that the JVM reads, and ways to damage their files."""

from __future__ import annotations

import json
import os
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql import types as T  # noqa: N812
from stored_tables import put, store

from bsjoin import Band, BatchTable, Overlaps, Within
from bsjoin.planner.keys import table_key
from bsjoin.storage import StorageLocation

KINDS = ("long", "dense", "text", "pair", "points", "intervals", "ranks")
_TYPES = (
    "id % 2 = 0 AS flag",
    "CAST(id % 100 AS tinyint) AS tiny",
    "CAST(id AS smallint) AS small",
    "CAST(id AS int) AS whole",
    "id * -1000 AS long",
    "CAST(id AS float) / 3 AS single",
    "CASE id WHEN 1 THEN double('NaN') WHEN 2 THEN -0.0D ELSE id / 7 END AS double",
    "CAST(id AS decimal(10,2)) AS price",
    "CAST(id * -1000000000000 AS decimal(38,4)) AS exact",
    "repeat('é', CAST(id AS int)) AS text",
    "CAST(concat('b', id) AS binary) AS bytes",
    "date_add(DATE'1500-01-01', CAST(id AS int)) AS day",
    "timestamp_seconds(id - 1000000000) AS time",
    "CAST(timestamp_seconds(id) AS timestamp_ntz) AS local",
    "make_dt_interval(CAST(id AS int), 1) AS lasts",
)
COLUMNS = tuple(
    f"IF(id % 5 = 3, NULL, {value}) AS {name}"
    for value, name in (column.rsplit(" AS ", 1) for column in _TYPES)
)
"""A column of every type that the JVM reads, of numbers ``id``, with nulls."""
_NAME = "concat('long common text ', lpad({} * 3, 4, '0'))"
_PROBES = {
    "long": ["id - 1 AS k"],
    "dense": ["id - 1 AS k"],
    "text": ["concat('key ', id) AS k"],
    "pair": ["id AS k", "concat('k', id DIV 3 * 3) AS j"],
    "points": ["id % 4 AS k", "id AS p"],
    "intervals": ["id % 4 AS k", "id AS p", "id + 5 AS x"],
    "ranks": ["id % 4 AS k", f"{_NAME.format('id')} AS p"],
}
_RANGES = {
    "points": Band("p", "q", 1, 2),
    "intervals": Overlaps(("p", "x"), ("q", "y"), closed="both"),
    "ranks": Within("p", "q", "y"),
}
_VALUES = (0, -1, 8, (1 << 31) - 1, -(1 << 31), (1 << 63) - 1, -(1 << 63))


def build(spark: SparkSession, folder: Path, kind: str) -> None:
    """Store a table as version 1.

    "long": a bigint key, runs of three rows, every type, several segments; "dense": in the order of
    a bigint key; "text": a text key, two keys to each hash; "pair": a composite key; "points",
    "intervals" and, of texts, "ranks": for range joins.
    """
    if kind in _RANGES:
        columns = ["id % 3 AS k", "id AS q", "id + id % 9 - 1 AS y"]
        if kind == "ranks":
            ends = ("id", "q"), ("(id + id % 9 - 1)", "y")
            columns[1:] = [f"{_NAME.format(number)} AS {name}" for number, name in ends]
        rows = spark.range(99).selectExpr(*columns)
        BatchTable.build(rows, on="k", when=_RANGES[kind], path=folder)
        return
    rows, types = spark.range(20).selectExpr("concat('key ', id) AS k", "id AS v"), [T.StringType()]
    if kind == "long":
        rows, types = spark.range(40).selectExpr("id DIV 3 AS k", *COLUMNS), [T.LongType()]
    if kind == "dense":
        BatchTable.build(
            spark.range(20).selectExpr("id + id DIV 10 AS k", "id AS v"), on="k", path=folder
        )
        return
    if kind == "pair":
        rows = spark.range(20).selectExpr("id AS k", "concat('k', id) AS j", "id * 2 AS v")
        BatchTable.build(rows, on=["k", "j"], path=folder)
        return
    hash_ = table_key(["k"], types).hash
    found = rows.selectExpr("*", f"{hash_} AS hash").orderBy("hash").toArrow()
    hashes, stored = found["hash"].to_pylist(), found.drop("hash")
    schema = pa.schema(
        field.with_nullable(rows.schema[field.name].nullable) for field in stored.schema
    )
    if kind == "text":
        hashes = [value for value in hashes for _ in range(2)]
        keys = [key for name in stored["k"].to_pylist() for key in (name, f"other {name}")]
        stored = pa.table({"k": keys, "v": range(len(keys))})
    location = StorageLocation.of(folder)
    compared = 1 if kind == "text" else 0
    cut = next(row for row in range(20, 40) if hashes[row] != hashes[row - 1])
    draft = store(location, hashes, stored.cast(schema), compared=compared, cuts=[cut])
    put(location, draft, 1, 100)


def copy(folder: Path, to: Path) -> Path:
    """A copy that shares the files with the table; whoever changes one replaces it."""
    for path in folder.rglob("*"):
        if path.is_file():
            target = to / path.relative_to(folder)
            target.parent.mkdir(parents=True, exist_ok=True)
            os.link(path, target)
    return to


def change(folder: Path, edit: Callable[[dict[str, Any]], object], version: int = 1) -> None:
    """Change the JSON of a manifest."""
    path = folder / "versions" / f"{version:08d}.json"
    data = json.loads(path.read_text())
    edit(data)
    replace(path, json.dumps(data).encode())


def replace(path: Path, content: bytes) -> None:
    """Put another file into the place of one."""
    path.unlink()
    path.write_bytes(content)


def file_of(folder: Path, number: int, segment: int = 0) -> Path:
    """A file of a segment: -1 is the index, then the columns."""
    data = json.loads((folder / "versions" / "00000001.json").read_text())
    name = data["segments"][segment]["name"]
    return folder / f"{name}.{'index' if number < 0 else number}.arrow"


def joined(spark: SparkSession, table: BatchTable, kind: str, how: str) -> DataFrame:
    """A join with every key, and with some that are not there; its rows as one text each."""
    key = ["k", "j"] if kind == "pair" else "k"
    if kind == "text":
        key = {"k": "key 0"}
    rows = table.join(spark.range(0, 45, 1, 1).selectExpr(*_PROBES[kind]), key, how=how)
    texts = [
        F.hex(field.name) if isinstance(field.dataType, T.BinaryType) else F.col(field.name)
        for field in rows.schema
    ]
    shown = [F.coalesce(text.cast("string"), F.lit("-")) for text in texts]
    return rows.select(F.concat_ws("|", *shown))


@dataclass(frozen=True)
class Damage:
    """What is written into a file in place of some of its bytes.

    Args:
        where: what and where it is, for a failed test.
        content: of the file.
    """

    where: str
    content: bytes


def damages(content: bytes) -> Iterator[Damage]:
    """Every damage of a file that the sweep knows."""
    begin = body_of(content)
    for size in (*range(0, begin + 8, 8), (begin + len(content)) // 2, len(content) - 1):
        if size:  # an empty file is refused with the manifest
            yield Damage(f"cut to {size}", content[:size])
    yield Damage("extended", content + bytes(4096))
    for width, letter in ((2, "H"), (4, "i"), (8, "q")):
        mask = (1 << 8 * width) - 1
        for at in range(0, len(content) - width + 1, width):
            (old,) = struct.unpack_from(f"<{letter}", content, at)
            values = {v & mask for v in (*_VALUES, old - 1, old + 1, old ^ 1 << 8 * width - 2)}
            for value in sorted(values - {old & mask}):
                written = value.to_bytes(width, "little")
                yield Damage(
                    f"{'metadata' if at < begin else 'body'}: {width} bytes at {at}: {value:#x}",
                    content[:at] + written + content[at + width :],
                )


def body_of(content: bytes) -> int:
    """Where the body of the record batch begins."""
    at = 8
    for _ in range(2):
        at += 8 + struct.unpack_from("<i", content, at + 4)[0]
    return at
