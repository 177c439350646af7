"""Rows of every type, and tables of Delta with what deltalake itself does not write."""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

UTC = pa.timestamp("us", "UTC")
NAN = float("nan")
PLACES = ["a/b", "50%", "%41", "a=b", "é ☃", " ", "a:b", "a\\b", "..", "#?&", None, "x" * 200]
"""Values of a partition, of which a path is made."""

_Z85 = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
_MAGIC = 1681511377


def every_type(count: int) -> pa.Table:
    """Rows of every type that both formats have; each value but a few is another one."""
    far = [-62_135_596_800_000_000, 253_402_300_799_999_999]
    times = [*far, *(i * 86_399_999_567 - 10**15 for i in range(2, count))]
    days = [-719_162, 2_932_896, *(i * 3 - 40_000 for i in range(2, count))]
    return pa.table(
        {
            "long": pa.array([None, *range(1, count)], pa.int64()),
            "int": pa.array([-(1 << 31), *range(1, count)], pa.int32()),
            "float": pa.array([NAN, -0.0, None, *(i / 2 for i in range(3, count))], pa.float32()),
            "double": pa.array([-0.0, NAN, None, *(i / 3 for i in range(3, count))]),
            "amount": pa.array(
                [Decimal(i * 7 - 90) / 100 for i in range(count)], pa.decimal128(9, 2)
            ),
            "big": pa.array([Decimal(10) ** 30 + i for i in range(count)], pa.decimal128(38, 0)),
            "text": pa.array(
                ["", "it's", "a\0b", None, *("k" * 40 + f"é{i}" for i in range(4, count))]
            ),
            "bytes": pa.array([b"\xff", b"", None, *(b"%d" % i for i in range(3, count))]),
            "even": pa.array([None, *(i % 2 == 0 for i in range(1, count))]),
            "day": pa.array(days, pa.int32()).cast(pa.date32()),
            "at": pa.array(times, UTC),
            "local": pa.array(times, pa.timestamp("us")),
            "nested": pa.array(
                [None, *({"a": i, "b": [f"x{i}", None]} for i in range(1, count))],
                pa.struct([("a", pa.int32()), ("b", pa.list_(pa.string()))]),
            ),
            "pairs": pa.array(
                [None, *([("k", i), ("z", None)] for i in range(1, count))],
                pa.map_(pa.string(), pa.int64()),
            ),
        }
    )


def write_delta(
    root: Path,
    columns: Mapping[str, Any],
    files: Sequence[tuple[pa.Table, Mapping[str, Any], Sequence[int]]],
    version: int = 0,
    **parquet: Any,
) -> None:
    """Write a table as one commit.

    Args:
        root: its folder.
        columns: name and type of each, as in the JSON of the log. In the files the first one is
            called col-0, and so on: by column mapping.
        files: of each the rows, its statistics, and the numbers of its rows that are removed.
        version: that of the commit. All but the first add files only. Default 0.
        parquet: options of the writer.
    """
    (root / "_delta_log").mkdir(parents=True, exist_ok=True)
    actions: list[dict[str, Any]] = []
    if not version:
        actions = [_protocol(), _metadata(columns)]
    for number, (rows, stats, gone) in enumerate(files):
        path = root / f"{version}-{number}.parquet"
        fields = [
            pa.field(f"col-{i}", field.type, metadata={"PARQUET:field_id": str(i + 1)})
            for i, field in enumerate(rows.schema)
        ]
        pq.write_table(
            pa.table(rows.columns, schema=pa.schema(fields, rows.schema.metadata)), path, **parquet
        )
        add: dict[str, Any] = {
            "path": path.name,
            "partitionValues": {},
            "size": path.stat().st_size,
            "modificationTime": 0,
            "dataChange": True,
            "stats": json.dumps({"numRecords": len(rows), **stats}),
        }
        if gone:
            add["deletionVector"] = _vector(gone)
        actions.append({"add": add})
    log = root / "_delta_log" / f"{version:020}.json"
    log.write_text("\n".join(map(json.dumps, actions)))


def _protocol() -> dict[str, Any]:
    features = ["columnMapping", "deletionVectors", "timestampNtz"]
    versions = {"minReaderVersion": 3, "minWriterVersion": 7}
    return {"protocol": {**versions, "readerFeatures": features, "writerFeatures": features}}


def _metadata(columns: Mapping[str, Any]) -> dict[str, Any]:
    fields = [
        {
            "name": name,
            "type": kind,
            "nullable": True,
            "metadata": {
                "delta.columnMapping.id": i + 1,
                "delta.columnMapping.physicalName": f"col-{i}",
            },
        }
        for i, (name, kind) in enumerate(columns.items())
    ]
    return {
        "metaData": {
            "id": "11111111-2222-3333-4444-555555555555",
            "format": {"provider": "parquet", "options": {}},
            "schemaString": json.dumps({"type": "struct", "fields": fields}),
            "partitionColumns": [],
            "configuration": {
                "delta.columnMapping.mode": "name",
                "delta.columnMapping.maxColumnId": str(len(fields)),
                "delta.enableDeletionVectors": "true",
            },
            "createdTime": 0,
        }
    }


def _vector(gone: Sequence[int]) -> dict[str, Any]:
    from pyroaring import BitMap64

    data = struct.pack("<i", _MAGIC) + BitMap64(gone).serialize()
    return {
        "storageType": "i",
        "pathOrInlineDv": _z85(data),
        "sizeInBytes": len(data),
        "cardinality": len(gone),
    }


def _z85(data: bytes) -> str:
    data += b"\0" * (-len(data) % 4)
    text = ""
    for begin in range(0, len(data), 4):
        value, part = int.from_bytes(data[begin : begin + 4], "big"), ""
        for _ in range(5):
            value, digit = divmod(value, 85)
            part = _Z85[digit] + part
        text += part
    return text
