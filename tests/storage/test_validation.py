"""Damaged and hostile files: an error that names them, never a crash, a hang or a wrong row."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from damaged_tables import (
    TABLES,
    answers,
    build,
    flipped,
    index_cells,
    manifest,
    poke,
    rewrite,
)

from bsjoin.errors import DamagedTableError, StoreAccessError
from bsjoin.storage import StorageLocation, versions
from bsjoin.storage.mapped import map_column
from bsjoin.storage.segment_entries import StoredFile

KEY, TEXT, BYTES, NUMBER, FLAG, TIME, PRICE, LIST, POINTS, MAP, VOID = range(11)


def check(folder: Path, kind: str, says: str, name: str) -> None:
    """The join is an error that names the table, the file and what is wrong; so is a check."""
    location = StorageLocation.of(folder)
    with pytest.raises(DamagedTableError, match=says) as error:
        answers(folder, kind)
    for part in (name, str(folder), "build the table again"):
        assert part in str(error.value)
    with pytest.raises(DamagedTableError, match=says):
        versions.verify(location, versions.load(location, 1))


Cells = dict[str, Any]


def at(name: str, place: Any, value: Any) -> Callable[[Cells], None]:
    """Set a number of an array, or some."""

    def change(cells: Cells) -> None:
        cells[name][place] = value

    return change


def to(**values: Any) -> Callable[[Cells], None]:
    """Replace arrays or numbers."""
    return lambda cells: cells.update(values)


def cut(name: str) -> Callable[[Cells], None]:
    """Leave the last number of an array out."""
    return lambda cells: cells.update({name: cells[name][:-1]})


def a_point_bucket_begins_earlier(cells: Cells) -> None:
    """Count the last row of the first bucket of a key to the next."""
    directory = cells["point_directory"]
    directory[np.flatnonzero(directory)[0]] -= 1


def a_shorter_decimal(cells: Cells) -> None:
    """Leave the last byte of the greatest value out."""
    cells["text"] = cells["text"][:-1]
    cells["ends"][-1] -= 1


def fewer_rows(cells: Cells) -> None:
    """Keep a correct index, of fewer rows."""
    cells["hashes"] = np.append(cells["hashes"][:59], cells["hashes"][-1:])


def segment(number: int = 0, **values: Any) -> Callable[[dict[str, Any]], None]:
    return lambda data: data["segments"][number].update(values)


# What the arrays of the hashes may be wrong in, tests/index/test_hash.py has whole.
INDEX_FAULTS: list[tuple[str, Callable[[Cells], None], str]] = [
    ("keys", at("hashes", 7, -5), "hashes fall at row 7"),
    ("keys", fewer_rows, "0 to 60 instead of 0 to 59"),
    ("keys", to(directory=np.zeros(0, np.int32)), "directory has 0 entries"),
    ("keys", to(base=None), "base or the shift is null"),
    ("keys", at("runs", 59, 2), "run of the last row has 2 rows"),
    ("unique", at("hashes", 1, -30), "does not lead to row 1"),
    ("points", at("points", 1, 10**6), "points of a key fall at row 2"),
    ("points", cut("points"), "89 points for 90 rows"),
    ("points", at("point_directory", 0, -1), "point directory goes from -1"),
    ("points", at("point_directory", 4, -7), "point directory falls at entry"),
    ("points", a_point_bucket_begins_earlier, "point directory does not lead to row"),
    ("points", cut("point_directory"), "point directory has"),
    ("intervals", at("tree", 96, 10), "wrong maximum at node 0"),
    ("intervals", at("tree", -1, 0), "not filled up"),
    ("intervals", cut("tree"), "the tree has"),
    ("intervals", at("empty", 0, -1), "not among the"),
    ("intervals", at("empty", 1, 0), "do not ascend at entry 1"),
    ("intervals", lambda cells: cells.update(empty=cells["empty"][1:]), "ends before it begins"),
    ("intervals", lambda c: c.update(empty=np.arange(len(c["points"]))), "has a last point"),
    ("intervals", to(closed="both"), "closed is 'both' and in the manifest 'left'"),
    ("intervals", to(closed=None), "closed is None"),
    ("half-open", lambda cells: cells.update(empty=cells["empty"][1:]), "ends before it begins"),
    ("texts", at("ends", 0, -1), "texts go from -1"),
    ("texts", at("ends", 3, -8), "length is negative"),
    ("texts", cut("ends"), "texts go from 0 to"),
    ("texts", to(ends=np.zeros(0, np.int64)), "texts without an offset"),
    ("texts", at("text", 40, 255), "distinct values fall at rank|prefix is wrong"),
    ("texts", at("prefixes", 5, 0), "prefix is wrong at rank 5"),
    ("texts", cut("prefixes"), "prefixes of"),
    ("texts", at("points", 0, -1), "point directory|no stored value at row 0"),
    ("decimals", a_shorter_decimal, "does not have 16 bytes"),
]


@pytest.mark.parametrize("kind", sorted({kind for kind, _, _ in INDEX_FAULTS}))
def test_a_wrong_index_is_an_error(tmp_path: Path, kind: str) -> None:
    faults = [(change, says) for of, change, says in INDEX_FAULTS if of == kind]
    for number, (change, says) in enumerate(faults):
        folder = tmp_path / str(number)
        build(folder, kind)
        check(folder, kind, says, index_cells(folder, change))


def beyond_precision(array: pa.Array) -> pa.Array:
    words = np.frombuffer(array.buffers()[1], np.int64).copy()
    words[1] = 1 << 62
    return pa.Array.from_buffers(array.type, len(array), [None, pa.py_buffer(words)])


def with_null(array: pa.Array) -> pa.Array:
    return pa.array([None, *array.to_pylist()[1:]], array.type)


def with_nested_null(array: pa.Array) -> pa.Array:
    values = array.to_pylist()
    values[1] = [{"x": None, "label": "a"}]
    return pa.array(values, array.type)


COLUMN_FAULTS: list[tuple[int, Callable[[pa.Array], pa.Array], str]] = [
    (KEY, with_null, "nulls although the table"),
    (KEY, lambda array: array.take(pa.array([*range(1, 60), 0])), "run"),
    (TEXT, lambda array: array.cast(pa.large_string()), "large_string.* instead of"),
    (TEXT, lambda array: array.dictionary_encode(), "dictionary"),
    (TEXT, lambda array: array.cast(pa.string_view()), "string_view"),
    (TEXT, lambda array: pa.concat_arrays([array, array]), "120 rows instead of 60"),
    (NUMBER, lambda array: array.cast(pa.int32()), "int32.* instead of"),
    (PRICE, beyond_precision, "precision"),
    (POINTS, with_nested_null, "nulls although the table"),
    (VOID, lambda array: array.slice(1), "59 rows instead of 60"),
]


@pytest.mark.parametrize("step", [3, pytest.param(1, marks=pytest.mark.long)])
def test_a_wrong_column_is_an_error(tmp_path: Path, step: int) -> None:
    for place, (number, change, says) in enumerate(COLUMN_FAULTS[::step]):
        folder = tmp_path / str(place)
        build(folder, "keys")
        name = rewrite(folder, number, lambda c, change=change: {"column": change(c["column"])})
        check(folder, "keys", says, name.replace("0.arrow", "") if number == KEY else name)


def test_offsets_outside_the_data_are_an_error(tmp_path: Path) -> None:
    for case, (number, buffer, place, value) in enumerate(
        [
            (KEY, 1, 5, 1 << 30),
            (TEXT, 1, 60, -(1 << 30)),
            (TEXT, 1, 0, -1),
            (TEXT, 1, 8, 0),
            (BYTES, 1, 60, 1 << 30),
            (LIST, 1, 4, -5),
            (LIST, 3, 3, 1 << 30),
            (POINTS, 6, 4, 1 << 30),
            (MAP, 1, 60, 1 << 30),
            (MAP, 4, 1, 1 << 30),
        ]
    ):
        folder = tmp_path / str(case)
        build(folder, "keys")
        name = poke(folder, number, buffer, place, value)
        check(folder, "keys", "[Oo]ffset|[Ll]ength spanned", name)


def test_a_run_has_all_rows_of_one_key_and_no_others(tmp_path: Path) -> None:
    for kind, lengths, keys, longest, says in (
        ("keys", [6, 5, 4, 3, 2, 1], 19, 6, "rows of another key behind row 2"),
        ("keys", [1, 2, 1, 3, 2, 1], 21, 3, "run of a key ends too early at row 0"),
        ("hashes", [1, 5, 4, 3, 2, 1], 11, 6, "run of a key ends too early at row 0"),
    ):
        folder = tmp_path / f"{kind} {keys}"
        build(folder, kind)
        name = index_cells(folder, at("runs", slice(0, 6), lengths))
        manifest(folder, segment(keys=keys, longest_run=longest))
        check(folder, kind, says, name)
    # Two keys to a hash, three rows each: the second row becomes the fifth.
    build(tmp_path, "keys")
    order = pa.array([0, 4, 1, 2, 3, 5, *range(6, 60)])
    rewrite(tmp_path, KEY, lambda columns: {"column": columns["column"].take(order)})
    name = index_cells(tmp_path, at("runs", slice(0, 6), [1, 1, 2, 1, 2, 1]))
    manifest(tmp_path, segment(keys=22))
    check(tmp_path, "keys", "rows of one key are apart", name)


def test_a_file_of_another_layout_is_an_error(tmp_path: Path) -> None:
    """Compressed, with more columns or rows, or of another kind of table."""
    zstd = pa.ipc.IpcWriteOptions(compression="zstd")

    def twice(columns: dict[str, pa.Array]) -> dict[str, pa.Array]:
        return {name: pa.concat_arrays([array, array]) for name, array in columns.items()}

    for place, (number, change, options, says) in enumerate(
        [
            (-1, lambda c: c, zstd, "compressed"),
            (NUMBER, lambda c: c, zstd, "compressed"),
            (TEXT, lambda c: {**c, "other": c["column"]}, None, "other .* instead of one column"),
            (-1, lambda c: {**c, "other": c["base"]}, None, "which is not an index"),
            (-1, twice, None, "one row, not 2"),
        ]
    ):
        folder = tmp_path / str(place)
        build(folder, "keys")
        name = rewrite(folder, number, change, options=options)
        check(folder, "keys", says, name)
    points = {"names": ["q"], "types": ["long"], "closed": None}
    intervals = {"names": ["q", "y"], "types": ["long", "long"], "closed": "left"}
    for kind, ranged, says in (
        ("keys", points, "for range joins"),
        ("points", None, "for range joins"),
        ("points", {**points, "types": ["string"]}, "ranked"),
        ("texts", intervals, "ranked"),
    ):
        folder = tmp_path / f"{kind} {ranged and ranged['types']}"
        build(folder, kind)
        manifest(folder, lambda data, ranged=ranged: data.update(ranged=ranged))
        check(folder, kind, says, ".index.arrow")


def test_a_manifest_that_does_not_fit_the_files_is_an_error(tmp_path: Path) -> None:
    for name, value in (("rows", 59), ("keys", 19), ("longest_run", 1), ("first_hash", 1)):
        build(tmp_path / name, "keys")
        manifest(tmp_path / name, segment(**{name: value}))
        check(tmp_path / name, "keys", "manifest", "")


def test_a_file_of_another_format_is_an_error(tmp_path: Path) -> None:
    contents = b"", b"ARROW1\0\0", b"nothing of the kind"
    for place, (number, content) in enumerate(itertools.product((-1, TEXT), contents)):
        folder = tmp_path / str(place)
        build(folder, "keys")
        name = versions.load(StorageLocation.of(folder), 1).segments[0].files[number + 1]
        (folder / name).write_bytes(content)
        with pytest.raises(DamagedTableError, match=f"has {len(content)} bytes instead of"):
            answers(folder, "keys")
        manifest(folder, segment(sizes=[len(content) or 1] * 12))
        with pytest.raises(DamagedTableError, match=r"\.arrow"):
            answers(folder, "keys")


def test_a_file_that_may_not_be_read_is_an_error_of_access(tmp_path: Path) -> None:
    build(tmp_path, "keys")
    answers(tmp_path, "keys")  # whatever is imported late is imported now
    name = versions.load(StorageLocation.of(tmp_path), 1).segments[0].files[0]
    (tmp_path / name).chmod(0)
    user = os.geteuid()
    if user == 0:  # who may read everything
        (tmp_path / name).parent.chmod(0o755)
        os.seteuid(65534)
    try:
        with pytest.raises(StoreAccessError, match="permission to read"):
            answers(tmp_path, "keys")
    finally:
        os.seteuid(user)


def test_texts_may_hold_any_bytes_as_in_spark(tmp_path: Path) -> None:
    build(tmp_path, "keys")
    raw = pa.array([b"\xff\xfe" * (i % 3) for i in range(60)], pa.binary())
    rewrite(tmp_path, TEXT, lambda _: {"column": raw.view(pa.string())})
    assert answers(tmp_path, "keys")
    versions.verify(StorageLocation.of(tmp_path), versions.load(StorageLocation.of(tmp_path), 1))


@pytest.mark.parametrize(
    "kind",
    [
        pytest.param(kind, marks=[pytest.mark.long] * (number % 4 > 0))
        for number, kind in enumerate(TABLES)
    ],
)
def test_flipped_bits_change_values_at_most(tmp_path: Path, kind: str) -> None:
    build(tmp_path, kind)
    assert "damaged" in flipped(tmp_path, kind, seed=20260301, flips=8)


def test_what_a_file_says_of_its_schema_and_columns_beside_types_is_no_matter(
    tmp_path: Path,
) -> None:
    field = pa.field("column", pa.string(), metadata={"of": "a column"})
    schema = pa.schema([field], metadata={"of": "a schema"})
    with pa.OSFile(f"{tmp_path}/it", "wb") as file, pa.ipc.new_file(file, schema) as writer:
        writer.write_batch(pa.record_batch([["a", None]], schema=schema))
    stored = StoredFile("it", (tmp_path / "it").stat().st_size, "")
    found = map_column(StorageLocation.of(tmp_path), stored, 2, pa.field("v", pa.string()))
    assert found.to_pylist() == ["a", None]
