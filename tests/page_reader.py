"""A reader of stored tables that was written from ``bsjoin/storage/format.md`` alone.

It shares no code with bsjoin, so that what the page leaves out, or says wrongly, is found. It reads
the files with NumPy only, one row at a time, and trusts them.
"""

from __future__ import annotations

import json
import re
import struct
from bisect import bisect_left
from collections.abc import Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import xxhash

PAGE = Path(__file__).parent.parent / "bsjoin" / "storage" / "format.md"
_SIGN = 1 << 63
_NAN = 0x7FF8000000000000
_NULL = {"string": b"", "binary": b"", "decimal": 0}
"""What is stored in the place of a null key."""
_DTYPES = {"int64": np.int64, "int32": np.int32, "uint8": np.uint8, "uint64": np.uint64}


def rows_of(table: str) -> list[dict[str, str]]:
    """The rows of a table of the page, by its name in a comment: the text of each cell."""
    lines = PAGE.read_text("utf-8").partition(f"<!-- table: {table} -->\n\n")[2].splitlines()
    cells = [[c.strip() for c in line.strip("|").split("|")] for line in lines[: lines.index("")]]
    return [dict(zip(cells[0], row, strict=True)) for row in cells[2:]]


def tables_of() -> list[str]:
    """The names of the tables."""
    return re.findall(r"<!-- table: (\w+) -->", PAGE.read_text("utf-8"))


class _Flat:
    """A table of a flatbuffer: its fields by their numbers."""

    def __init__(self, data: bytes, at: int):
        self.data, self.at = data, at + struct.unpack_from("<I", data, at)[0]

    def field(self, number: int) -> int | None:
        vtable = self.at - struct.unpack_from("<i", self.data, self.at)[0]
        if 4 + 2 * number >= struct.unpack_from("<H", self.data, vtable)[0]:
            return None
        offset = struct.unpack_from("<H", self.data, vtable + 4 + 2 * number)[0]
        return self.at + offset if offset else None

    def number(self, number: int, kind: str) -> int:
        at = self.field(number)
        return 0 if at is None else struct.unpack_from(f"<{kind}", self.data, at)[0]

    def vector(self, number: int) -> tuple[int, int]:
        """Where the elements of a vector, or a text, begin; how many there are."""
        at = self.field(number)
        at += struct.unpack_from("<I", self.data, at)[0]
        return at + 4, struct.unpack_from("<I", self.data, at)[0]

    def table(self, number: int) -> _Flat:
        return _Flat(self.data, self.field(number))


def _message(data: bytes, at: int) -> tuple[int, _Flat, int, int]:
    """The kind of the message at a position, its header, where its body begins and ends."""
    mark, length = struct.unpack_from("<iI", data, at)
    assert mark == -1
    message, body = _Flat(data, at + 8), at + 8 + length
    return message.number(1, "B"), message.table(2), body, body + message.number(3, "q")


def arrow(path: Path) -> tuple[list[str], int, list[bytes]]:
    """The names of the columns of an Arrow file, its rows and its buffers."""
    data = path.read_bytes()
    assert data[:8] == b"ARROW1\0\0"
    kind, schema, body, end = _message(data, 8)
    assert (kind, body) == (1, end)
    begin, many = schema.vector(1)
    names = []
    for column in range(many):
        at, length = _Flat(data, begin + 4 * column).vector(0)
        names.append(data[at : at + length].decode())
    kind, batch, body, end = _message(data, end)
    assert kind == 3
    assert batch.field(3) is None
    begin, many = batch.vector(2)
    places = [struct.unpack_from("<qq", data, begin + 16 * i) for i in range(many)]
    assert all(o % 8 == 0 and body + o + size <= end for o, size in places)
    return names, batch.number(0, "q"), [data[body + o :][:size] for o, size in places]


def hash_of(values: list[tuple[str, Any]]) -> int:
    """The hash of a key, of which each column has the name of its type in Spark and a value."""
    found = 42
    for name, value in values:
        if value is not None:
            found = xxhash.xxh64_intdigest(_hashed(name, value), found)
    return found - (1 << 64) if found >= _SIGN else found


def _type(name: str) -> dict[str, str]:
    """The row of the table of types; decimals by their digits."""
    if name.startswith("decimal"):
        name = "decimal(18,2)" if int(re.findall(r"\d+", name)[0]) <= 18 else "decimal(38,2)"
    return next(row for row in rows_of("types") if row["Spark type"] == f"`{name}`")


def _hashed(name: str, value: Any) -> bytes:
    how = _type(name)["hash"]
    if how.startswith("int32"):
        return struct.pack("<i", value)
    if how == "int64":
        return struct.pack("<q", value)
    if how == "double":
        return struct.pack("<Q", _NAN) if value != value else struct.pack("<d", value + 0.0)
    if isinstance(value, int):  # a long decimal, unscaled
        size = (value if value >= 0 else ~value).bit_length() // 8 + 1
        return value.to_bytes(size, "big", signed=True)
    return bytes(value)


class _Segment:
    """The index of a segment."""

    def __init__(self, folder: Path, info: Mapping[str, Any]):
        self.info = info
        self._beginning = str(folder / info["name"])
        names, rows, buffers = arrow(Path(f"{self._beginning}.index.arrow"))
        assert rows == 1
        page = {row["column"].strip("`"): row for row in rows_of("index")}
        arrays: dict[str, Any] = {}
        at = 0
        for name in names:
            dtype = re.findall(r"\w+", page[name]["Arrow type"])[-1]
            at += {"string": 3}.get(dtype, 4 if "list" in page[name]["Arrow type"] else 2)
            if page[name]["buffer"].isdigit():
                assert int(page[name]["buffer"]) == at - 1
            is_text = dtype == "string"
            arrays[name] = (
                buffers[at - 1] if is_text else np.frombuffer(buffers[at - 1], _DTYPES[dtype])
            )
        assert at == len(buffers)
        self.hashes, self.directory = arrays["hashes"], arrays["directory"]
        self.runs = arrays["runs"] if len(arrays["runs"]) else np.ones(info["rows"], np.int32)
        self.base, self.shift = int(arrays["base"][0]), int(arrays["shift"][0])
        self.arrays = arrays
        assert (len(self.hashes), self.hashes[-1]) == (info["rows"] + 1, _SIGN - 1)

    def column(self, number: int) -> tuple[bytes, list[bytes]]:
        """The bits of validity of a stored column, none without nulls, and its other buffers."""
        names, rows, buffers = arrow(Path(f"{self._beginning}.{number}.arrow"))
        assert (len(names), rows) == (1, self.info["rows"])
        return buffers[0], buffers[1:]

    def run(self, hash_: int, compared: list[tuple[int, Any, int]]) -> range:
        """The rows of a key; ``compared`` has number, value and bytes of each compared key."""
        bucket = (hash_ + _SIGN - self.base) >> self.shift
        if not 0 <= bucket < len(self.directory) - 1:
            return range(0)
        row = int(self.directory[bucket])
        if self.info.get("first_key") is not None:
            assert self.shift == 0
            return range(row, int(self.directory[bucket + 1]))
        while row < self.info["rows"] and self.hashes[row] <= hash_:
            behind = row + int(self.runs[row])
            if self.hashes[row] == hash_ and all(self._has(row, *one) for one in compared):
                return range(row, behind)
            row = behind
        return range(0)

    def _has(self, row: int, number: int, value: Any, width: int) -> bool:
        valid, (first, *rest) = self.column(number)
        assert not valid
        if isinstance(value, int):
            return int.from_bytes(first[width * row :][:width], "little", signed=True) == value
        begin, end = struct.unpack_from("<ii", first, 4 * row)
        return rest[0][begin:end] == value

    def code(self, name: str, value: Any) -> int:
        """The code of a value of a type."""
        how = _type(name)["code"]
        if how == "bits":
            bits = struct.unpack("<q", _hashed("double", value))[0]
            return bits if bits >= 0 else bits ^ (_SIGN - 1)
        if how != "rank":
            return int(value)
        if isinstance(value, int):
            value = (value + (1 << 127)).to_bytes(16, "big")
        ends, text = self.arrays["ends"].tolist(), self.arrays["text"].tobytes()
        stored = [text[begin:end] for begin, end in pairwise(ends)]
        assert stored == sorted(set(stored))
        self._check_prefixes(stored)
        rank = bisect_left(stored, value)
        return 2 * rank + (rank < len(stored) and stored[rank] == value)

    def _check_prefixes(self, stored: list[bytes]) -> None:
        first, last, shared = stored[0], stored[-1], 0
        while len(stored) > 1 and first[shared : shared + 8] == last[shared : shared + 8]:
            if min(len(first), len(last)) <= shared + 8:
                break
            shared += 8
        pieces = [value[shared : shared + 8].ljust(8, b"\0") for value in stored]
        assert self.arrays["prefixes"].tolist() == [
            int.from_bytes(p, "big") - _SIGN for p in pieces
        ]

    def not_below(self, run: range, code: int) -> int:
        """The first row of a run whose point is not below a code."""
        points, low, size = self.arrays["points"], run.start, len(run)
        least, greatest = int(points[low]), int(points[low + size - 1])
        if code <= least or code > greatest:
            return low if code <= least else low + size
        scale = (size - 1) / float(greatest - least)
        bucket = min(size - 1, int(float(code - least) * scale))
        row = int(self.arrays["point_directory"][low + bucket])
        assert row == low or points[row - 1] < code
        while points[row] < code:
            row += 1
        return row

    def late(self, rows: range, code: int) -> Iterator[int]:
        """The rows of intervals that are not empty, and whose last point is not below a code."""
        levels, entries, begin = [], self.info["rows"], 0
        while not levels or entries > 1:
            size = -(-entries // 8) * 8
            levels.append(self.arrays["tree"][begin : begin + size])
            begin, entries = begin + size, size // 8
        assert begin == len(self.arrays["tree"])

        def below(level: int, entry: int) -> Iterator[int]:
            if levels[level][entry] >= code:
                children = range(8 * entry, 8 * entry + 8)
                yield from (e for c in children for e in below(level - 1, c)) if level else (entry,)

        empty = set(self.arrays["empty"].tolist())
        found = (row for top in range(len(levels[-1])) for row in below(len(levels) - 1, top))
        yield from (row for row in found if row in rows and row not in empty)


class PageReader:
    """The newest version of a table.

    Args:
        folder: of the table.
    """

    def __init__(self, folder: Path):
        newest = max(folder.glob("versions/[0-9]*.json"), key=lambda path: int(path.stem))
        self.manifest: dict[str, Any] = json.loads(newest.read_text("utf-8"))
        layers = self.manifest.get("layers") or []
        assert self.manifest["format"] == (2 if layers else 1)
        self.columns = [f["name"] for f in json.loads(self.manifest["spark_schema"])["fields"]]
        self._segments = [_Segment(folder, info) for info in self.manifest["segments"]]
        self._layers = [
            {part: _Segment(folder, info) for part, info in layer.items() if info is not None}
            for layer in reversed(layers)
        ]
        self._folder = folder

    def unindexed(self, column: str) -> list[int]:
        """The values of a column of type long of the rows that match nothing."""
        found: list[int] = []
        for info in self.manifest["unindexed"]:
            number = self.columns.index(column)
            _, _, (_, values) = arrow(self._folder / f"{info['name']}.{number}.arrow")
            found += np.frombuffer(values, np.int64).tolist()
        return found

    def find(self, key: list[Any], probe: list[Any], column: str) -> list[int]:
        """The values of a column of type long, of the rows that match.

        Args:
            key: a value for each key column: integers (times, dates, and decimals, unscaled, too),
                floats, or bytes; None for null.
            probe: the values of the stream's columns of the condition; none without one.
            column: which.
        """
        keys = self.manifest["keys"]
        typed = [(one[1], value) for one, value in zip(keys, key, strict=True)]
        if any(True in one for one in keys):
            null = sum(1 << place for place, value in enumerate(key) if value is None)
            typed.append(("long", null))
        hash_ = hash_of(typed) if typed else 0
        compared = []
        for number, (name, value) in enumerate(typed):
            if self.manifest["compared"]:
                own = _type(name)["hash"] == "bytes"
                held = _NULL.get(name.partition("(")[0]) if value is None and own else value
                compared.append((number, held if own else hash_of([(name, held)]), 8 << own))

        def run_in(segment: _Segment) -> range:
            direct = segment.info.get("first_key") is not None
            return segment.run(key[0] if direct else hash_, compared)

        there = [layer for layer in self._layers if any(map(run_in, layer.values()))]
        segments = [s for s in self._segments if s.info["first_hash"] <= hash_]
        segment = segments[-1] if segments else None
        if there:
            segment = there[0].get("rows")
            if "gone" in there[0] and run_in(there[0]["gone"]):
                assert segment is None or not run_in(segment)
                return []
        if segment is None:
            return []
        run = run_in(segment)
        rows = self._in_range(segment, run, probe) if len(run) and probe else run
        number = self.manifest["compared"] + self.columns.index(column)
        values = np.frombuffer(segment.column(number)[1][0], np.int64)
        return [int(values[row]) for row in rows]

    def _in_range(self, segment: _Segment, run: range, probe: list[Any]) -> list[int]:
        name = self.manifest["ranged"]["types"][0]
        closed = self.manifest["ranged"]["closed"]
        ((kind, arguments),) = self.manifest["condition"].items()
        codes = [segment.code(name, value) for value in probe]
        if kind == "AsOf":
            behind = segment.not_below(run, codes[0] + 1)
            if behind == run.start:
                return []
            return [segment.not_below(run, int(segment.arrays["points"][behind - 1]))]
        if kind == "Band":
            scale = 10 ** int(re.findall(r"\d+", name)[1]) if name.startswith("decimal") else 1
            before, after = (
                int(next(iter(arguments[side].values()))) * scale for side in ("before", "after")
            )
            first = segment.not_below(run, codes[0] - before)
            return [*range(first, segment.not_below(run, codes[0] + after + 1))]
        assert segment.arrays["closed"] == closed.encode()
        assert kind == "Within" or closed == "both"
        in_time = codes[-1] + (closed in ("both", "left"))  # a start that may equal the end
        stop = segment.not_below(run, in_time)
        return [*segment.late(range(run.start, stop), codes[0])]
