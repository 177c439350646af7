"""Small stored tables, ways to damage their files, and joins with them.

What is written gets new sizes and checksums in the manifest, as somebody hostile would give it.
"""

from __future__ import annotations

import datetime
import io
import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from hostile_jvm import change as manifest
from pyspark.sql.pandas.types import from_arrow_type
from stored_tables import put, store

from bsjoin.errors import DamagedTableError
from bsjoin.plan import JoinPlan, Predicate, StageColumn, StageJoin, StagePlan, StoredTable
from bsjoin.runtimes.python.worker import full_cache
from bsjoin.runtimes.python.worker.chain import joined
from bsjoin.storage import (
    RangeColumns,
    RunRows,
    SegmentForm,
    StorageLocation,
    versions,
    write_run,
    write_segment,
)
from bsjoin.storage.checksums import checksum
from bsjoin.storage.open_table import OpenTable

_N = 90
_KEYS = [f"key {n // 3:02d}" for n in range(_N)]  # each three times
_HASHES = [n // 6 * 1_000_003 for n in range(_N)]  # two keys to a hash
_POINT = pa.struct([pa.field("x", pa.int32(), nullable=False), pa.field("label", pa.string())])


def _payload() -> dict[str, pa.Array]:
    """A column of every kind of layout."""
    n = range(_N)
    day = datetime.datetime(2026, 3, 1, tzinfo=datetime.UTC)
    return {
        "text": pa.array([None if i % 7 == 3 else f"text {i}" * (i % 3) for i in n], pa.string()),
        "bytes": pa.array([bytes([i]) * (i % 4) for i in n], pa.binary()),
        "number": pa.array(n, pa.int64()),
        "flag": pa.array([None if i % 5 == 0 else i % 2 == 0 for i in n], pa.bool_()),
        "time": pa.array([day + datetime.timedelta(hours=i) for i in n], pa.timestamp("us", "UTC")),
        "price": pa.array([Decimal(i).scaleb(-2) for i in n], pa.decimal128(20, 2)),
        "list": pa.array([[f"{i}"] * (i % 3) for i in n], pa.list_(pa.string())),
        "points": pa.array(
            [None if i % 9 == 4 else [{"x": i, "label": f"p{i}"}] * (i % 3) for i in n],
            pa.list_(pa.field("element", _POINT, nullable=False)),
        ),
        "map": pa.array([[(f"k{i}", i)] * (i % 2) for i in n], pa.map_(pa.string(), pa.int64())),
        "void": pa.nulls(_N),
    }


def _equality(location: StorageLocation, compared: int, hashes: list[int]) -> None:
    keys = {"k": pa.array(_KEYS, pa.string())} if compared else {}
    rows = pa.table({**keys, **_payload()})
    schema = rows.schema
    for name in (*keys, "number"):
        at = schema.get_field_index(name)
        schema = schema.set(at, schema.field(at).with_nullable(False))
    draft = store(location, hashes, rows.cast(schema), compared=compared, cuts=[60])
    put(location, draft, 1, 100)


_RANGED = partial(Predicate, floating=False)
_RANGES: dict[str, tuple[pa.DataType, Callable[[int], Any], Predicate]] = {
    "points": (pa.int64(), int, _RANGED(kind="band", before=Fraction(2), after=Fraction(3))),
    "nearest": (
        pa.int64(), int, _RANGED(kind="asof", direction="nearest", tolerance=Fraction(5))
    ),
    "intervals": (pa.int64(), int, _RANGED(kind="overlaps", closed="left")),
    "half-open": (pa.int64(), int, _RANGED(kind="overlaps", closed="right")),
    "texts": (
        pa.string(), "long common text {:03d}".format, _RANGED(kind="within", closed="left")
    ),
    "decimals": (
        pa.decimal128(38, 6), lambda n: Decimal(n * 10**20).scaleb(-6),
        _RANGED(kind="asof", direction="nearest"),
    ),
}  # fmt: skip
"""Range joins: the type, its values by number, and the condition."""
_HASH = {"a": -(2**63), "b": -5, "c": -1, "g": 3}  # of the keys; the last one is in no table
TABLES = ("keys", "hashes", "unique", *_RANGES)


def _ranges(location: StorageLocation, kind: str) -> None:
    """Each key has a run of its own, which are merged to one segment."""
    arrow, at, predicate = _RANGES[kind]
    has_ends = predicate.kind in ("within", "overlaps")
    rows = [
        (_HASH["abc"[n % 3]], at(n * 7 % 60), None if n % 11 == 0 else at(n * 7 % 60 + n % 9 - 1))
        for n in range(_N)
    ]
    hashes, *ends = zip(*sorted(rows, key=lambda row: row[:2]), strict=True)
    names = ("q", "y") if has_ends else ("q",)
    ranged = {name: pa.array(end, arrow) for name, end in zip(names, ends, strict=False)}
    texts = pa.array([f"row {n}" for n in range(_N)])
    brought = {"n": pa.array(range(_N), pa.int64()), "v": texts}
    written, runs = pa.table(ranged | brought), []
    for start in range(0, _N, _N // 3):
        hashed = pa.array(hashes[start : start + _N // 3], pa.int64())
        piece = written.slice(start, _N // 3).add_column(0, "hash", [hashed])
        runs.append(write_run(location, f"data/x/{start:06d}.run", piece))
    merged = RunRows(location, runs, written.schema)
    closed = predicate.closed if has_ends else None
    form = SegmentForm(ranged=len(names), closed=closed)
    segment = write_segment(location, "data/x/0", merged.hashes, merged, form)
    types = (from_arrow_type(arrow).jsonValue(),) * len(names)
    draft = store(location, [], pa.table(brought).slice(0, 0))
    columns = RangeColumns(names, types, closed)
    put(location, replace(draft, segments=(segment,), ranged=columns), 1, 100)


def _joined(location: StorageLocation, kind: str, how: str) -> Iterator[pa.RecordBatch]:
    arrow, at, predicate = _RANGES[kind]
    sent = [StageColumn(None, number) for number in range(3 + predicate.columns)]
    keys = versions.latest(location).keys
    plan = JoinPlan(
        label="1:k", how=how, predicate=predicate, columns=("n", "v"), shape="rows", reports=False,
        table=StoredTable(location=location, epoch=100, version=1, keys=keys),
        row_type=pa.struct([pa.field("c0", pa.int64()), pa.field("c1", pa.string())]),
    )  # fmt: skip
    join = StageJoin(plan=plan, hash=sent[2], key=(), probes=tuple(sent[3:]), clock=None)
    numbers = range(2 * _N)
    names = ["abcg"[n % 4] for n in numbers]
    columns = [pa.array(numbers, pa.int32()), pa.array(names)]
    columns.append(pa.array([_HASH[name] for name in names], pa.int64()))
    columns += [pa.array([at(n % 70 + more) for n in numbers], arrow) for more in (0, 3)]
    whole = pa.RecordBatch.from_arrays(columns[: len(sent)], [f"c{i}" for i in range(len(sent))])
    batches = whole.slice(0, 100), whole.slice(100), whole.slice(0, 0)
    yield from joined(StagePlan(stream_columns=2, joins=(join,)), iter(batches))


def build(folder: Path, kind: str) -> None:
    """Store a table of some kind as version 1.

    Args:
        folder: where to.
        kind: "keys" are compared; "hashes" tell keys apart; "unique" hashes; the others are for
            range joins.
    """
    location = StorageLocation.of(folder)
    if kind == "keys":
        _equality(location, 1, _HASHES)
    elif kind in ("hashes", "unique"):
        _equality(location, 0, [h // 3 for h in _HASHES] if kind == "hashes" else [*range(-30, 60)])
    else:
        _ranges(location, kind)


def answers(folder: Path, kind: str) -> bytes:
    """All that a join with the table brings, as an Arrow stream."""
    full_cache._tables.clear()
    location = StorageLocation.of(folder)
    if kind in _RANGES:
        found = [batch for how in ("left", "semi") for batch in _joined(location, kind, how)]
        return b"".join(_stream(pa.Table.from_batches([batch])) for batch in found)
    found = versions.load(location, 1)
    table = OpenTable(location, found)
    pairs = [(h, k) for h in sorted({*_HASHES, *range(-40, 70)}) for k in ("none", *_KEYS[::9])]
    pairs += list(zip(_HASHES, _KEYS, strict=True))
    keys = [pa.array([key for _, key in pairs], pa.string())] if found.compared else []
    rows = table.find(pa.array([hash_ for hash_, _ in pairs], pa.int64()), keys)
    counts = table.run_lengths(rows)
    every = np.concatenate([np.arange(row, row + n) for row, n in zip(rows, counts, strict=True)])
    names = tuple(found.columns)
    brought = pa.table(table.gather(names, every.astype(np.int64)), names=list(names))
    return _stream(pa.table({"rows": rows, "counts": counts})) + _stream(brought)


def _stream(table: pa.Table) -> bytes:
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, table.schema) as out:
        out.write_table(table)
    return sink.getvalue()


def _file(segment: dict[str, Any], number: int) -> str:
    return f"{segment['name']}.{'index' if number < 0 else number}.arrow"


def _sign(folder: Path, segment: int, number: int) -> None:
    """Give the manifest a file's size and checksum."""

    def change(data: dict[str, Any]) -> None:
        info = data["segments"][segment]
        path = folder / _file(info, number)
        info["sizes"][number + 1] = path.stat().st_size
        with path.open("rb") as file:
            info["checksums"][number + 1] = checksum(file)

    manifest(folder, change)


def rewrite(
    folder: Path,
    number: int,
    change: Callable[[dict[str, pa.Array]], dict[str, pa.Array]],
    *,
    segment: int = 0,
    options: pa.ipc.IpcWriteOptions | None = None,
) -> str:
    """Write the file of a column, or with -1 of the index, with other columns; its name."""
    data = json.loads((folder / "versions" / "00000001.json").read_text())
    name = _file(data["segments"][segment], number)
    path = folder / name
    with pa.ipc.open_file(path.read_bytes()) as file:
        batch = file.get_batch(0)
    columns = change(dict(zip(batch.schema.names, batch.columns, strict=True)))
    batch = pa.record_batch(columns)
    with (
        pa.OSFile(str(path), "wb") as sink,
        pa.ipc.new_file(sink, batch.schema, options=options) as out,
    ):
        out.write_batch(batch)
    _sign(folder, segment, number)
    return name


def poke(folder: Path, number: int, buffer: int, place: int, value: int) -> str:
    """Change an offset of a column where it lies in its file; the file's name."""
    data = json.loads((folder / "versions" / "00000001.json").read_text())
    name = _file(data["segments"][0], number)
    content = bytearray((folder / name).read_bytes())
    whole = pa.py_buffer(bytes(content))
    values = pa.ipc.open_file(whole).get_batch(0).column(0).buffers()[buffer]
    at = values.address - whole.address + 4 * place
    content[at : at + 4] = value.to_bytes(4, "little", signed=True)
    (folder / name).write_bytes(content)
    _sign(folder, 0, number)
    return name


def index_cells(folder: Path, change: Callable[[dict[str, Any]], None], *, segment: int = 0) -> str:
    """Change the arrays and numbers of an index in place, by their names; the file's name."""

    def changed(columns: dict[str, pa.Array]) -> dict[str, pa.Array]:
        cells = {
            name: column.values.to_numpy().copy()
            if isinstance(column, pa.LargeListArray)
            else column[0].as_py()
            for name, column in columns.items()
        }
        change(cells)
        return {
            name: _cell(cells[name], column.type)
            if isinstance(column, pa.LargeListArray)
            else pa.array([cells[name]], column.type)
            for name, column in columns.items()
        }

    return rewrite(folder, -1, changed, segment=segment)


def _cell(values: Any, dtype: pa.DataType) -> pa.Array:
    return pa.LargeListArray.from_arrays(
        pa.array([0, len(values)], pa.int64()), pa.array(values, dtype.value_type)
    )


def flipped(folder: Path, kind: str, seed: int, flips: int) -> set[str]:
    """What joins say of bits that are flipped one at a time: damaged, the same rows, or other."""
    random = np.random.default_rng(seed)
    wanted = answers(folder, kind)
    data = json.loads((folder / "versions" / "00000001.json").read_text())
    files = [
        (number, column)
        for number, info in enumerate(data["segments"])
        for column in range(-1, len(info["sizes"]) - 1)
    ]
    seen = set()
    for _ in range(flips):
        # Every second one into an index.
        chosen = files if random.random() < 0.5 else [file for file in files if file[1] < 0]
        segment, column = chosen[random.integers(len(chosen))]
        path = folder / _file(data["segments"][segment], column)
        before = path.read_bytes()
        content = bytearray(before)
        place = int(random.integers(len(content)))
        content[place] ^= 1 << int(random.integers(8))
        path.write_bytes(content)
        _sign(folder, segment, column)
        try:
            seen.add("same" if answers(folder, kind) == wanted else "other")
        except DamagedTableError:
            seen.add("damaged")
        except Exception as error:
            where = f"{kind}: byte {place} of {path.name}, {before[place]} -> {content[place]}"
            raise AssertionError(f"{where}: {error!r}") from error
        path.write_bytes(before)
        _sign(folder, segment, column)
    return seen
