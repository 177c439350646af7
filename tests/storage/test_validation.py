"""Damaged and hostile files: an error that names them, never a crash, a hang or a wrong row."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from damaged_tables import (
    TABLES,
    Apart,
    answers,
    apart,
    build,
    flipped,
    index_cells,
    manifest,
    poke,
    rewrite,
)

from bsjoin.errors import DamagedTableError, StoreAccessError, StoreError
from bsjoin.storage import StorageLocation, versions

KEY, TEXT, BYTES, NUMBER, FLAG, TIME, PRICE, LIST, POINTS, MAP, VOID = range(11)


@pytest.fixture(scope="module")
def child() -> Iterator[Apart]:
    with apart() as process:
        yield process


def check(child: Apart, folder: Path, kind: str, says: str, name: str) -> None:
    """The join is an error that names the table, the file and what is wrong; so is a check."""
    location = StorageLocation.of(folder)
    with pytest.raises(DamagedTableError, match=says) as error:
        child.run(answers, folder, kind)
    assert name in str(error.value)
    assert str(folder) in str(error.value)
    assert "build the table again" in str(error.value)
    with pytest.raises(DamagedTableError, match=says):
        child.run(versions.verify, location, versions.load(location, 1))


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
    ("keys", to(runs=np.zeros(0, np.int32)), "manifest"),
    ("unique", at("hashes", 1, -30), "does not lead to row 1"),
    ("points", at("points", 1, 10**6), "points of a key fall at row 2"),
    ("points", cut("points"), "89 points for 90 rows"),
    ("points", at("point_directory", 0, -1), "point directory goes from -1"),
    ("points", at("point_directory", 4, -7), "point directory falls at entry"),
    ("points", at("point_directory", 4, 1 << 30), "point directory falls at entry"),
    ("points", a_point_bucket_begins_earlier, "point directory does not lead to row"),
    ("points", cut("point_directory"), "point directory has"),
    ("points", to(closed="left"), "closed is 'left'"),
    ("nearest", at("points", 0, 10**9), "points of a key fall at row 1"),
    ("intervals", at("tree", 96, 10), "wrong maximum at node 0"),
    ("intervals", at("tree", -8, 0), "wrong maximum at node 0"),
    ("intervals", at("tree", -1, 0), "not filled up"),
    ("intervals", cut("tree"), "the tree has"),
    ("intervals", at("empty", 0, -1), "not among the"),
    ("intervals", at("empty", -1, 1 << 40), "not among the"),
    ("intervals", at("empty", 1, 0), "do not ascend at entry 1"),
    ("intervals", lambda cells: cells.update(empty=cells["empty"][1:]), "ends before it begins"),
    ("intervals", lambda c: c.update(empty=np.arange(len(c["points"]))), "has a last point"),
    ("intervals", to(closed="open"), "closed is 'open'"),
    ("intervals", to(closed="both"), "closed is 'both' and in the manifest 'left'"),
    ("intervals", to(closed=None), "closed is None"),
    ("half-open", lambda cells: cells.update(empty=cells["empty"][1:]), "ends before it begins"),
    ("texts", at("ends", 0, -1), "texts go from -1"),
    ("texts", at("ends", 3, 1 << 40), "length is negative"),
    ("texts", at("ends", -1, 1 << 40), "texts go from 0 to"),
    ("texts", at("ends", 3, -8), "length is negative"),
    ("texts", cut("ends"), "texts go from 0 to"),
    ("texts", to(ends=np.zeros(0, np.int64)), "texts without an offset"),
    ("texts", to(ends=np.zeros(1, np.int64), text=np.zeros(0, np.uint8)), "prefixes of"),
    ("texts", cut("text"), "texts go from 0 to"),
    ("texts", at("text", 40, 255), "distinct values fall at rank|prefix is wrong"),
    ("texts", at("prefixes", 5, 0), "prefix is wrong at rank 5"),
    ("texts", cut("prefixes"), "prefixes of"),
    ("texts", at("points", 0, -1), "point directory|no stored value at row 0"),
    ("texts", at("points", 29, 1 << 40), "point directory|no stored value at row 29|fall at row"),
    ("decimals", a_shorter_decimal, "does not have 16 bytes"),
]


@pytest.mark.parametrize(
    ("kind", "change", "says"),
    INDEX_FAULTS,
    ids=[f"{kind}-{number}" for number, (kind, _, _) in enumerate(INDEX_FAULTS)],
)
def test_a_wrong_index_is_an_error(
    child: Apart, tmp_path: Path, kind: str, change: Callable[[Cells], None], says: str
) -> None:
    build(tmp_path, kind)
    check(child, tmp_path, kind, says, index_cells(tmp_path, change))


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
    (TEXT, lambda array: array.slice(1), "59 rows instead of 60"),
    (TEXT, lambda array: pa.concat_arrays([array, array]), "120 rows instead of 60"),
    (NUMBER, lambda array: array.cast(pa.int32()), "int32.* instead of"),
    (NUMBER, with_null, "nulls although the table"),
    (PRICE, beyond_precision, "precision"),
    (POINTS, with_nested_null, "nulls although the table"),
    (VOID, lambda array: array.slice(1), "59 rows instead of 60"),
]


@pytest.mark.parametrize(
    ("number", "change", "says"),
    COLUMN_FAULTS,
    ids=[f"{number}-{place}" for place, (number, _, _) in enumerate(COLUMN_FAULTS)],
)
def test_a_wrong_column_is_an_error(
    child: Apart, tmp_path: Path, number: int, change: Callable[[pa.Array], pa.Array], says: str
) -> None:
    build(tmp_path, "keys")
    name = rewrite(tmp_path, number, lambda columns: {"column": change(columns["column"])})
    check(child, tmp_path, "keys", says, name.replace("0.arrow", "") if number == KEY else name)


@pytest.mark.parametrize(
    ("number", "buffer", "place", "value"),
    [
        (KEY, 1, 5, 1 << 30),
        (KEY, 1, 5, -1),
        (TEXT, 1, 60, 1 << 30),
        (TEXT, 1, 60, -(1 << 30)),
        (TEXT, 1, 0, -1),
        (TEXT, 1, 0, 1 << 30),
        (TEXT, 1, 8, 0),
        (BYTES, 1, 60, 1 << 30),
        (LIST, 1, 60, 1 << 30),
        (LIST, 1, 4, -5),
        (LIST, 3, 3, 1 << 30),
        (POINTS, 1, 60, 1 << 30),
        (POINTS, 6, 4, 1 << 30),
        (MAP, 1, 60, 1 << 30),
        (MAP, 4, 1, 1 << 30),
    ],
)
def test_offsets_outside_the_data_are_an_error(
    child: Apart, tmp_path: Path, number: int, buffer: int, place: int, value: int
) -> None:
    build(tmp_path, "keys")
    name = poke(tmp_path, number, buffer, place, value)
    check(child, tmp_path, "keys", "[Oo]ffset|[Ll]ength spanned", name)


@pytest.mark.parametrize(
    ("kind", "lengths", "keys", "longest", "says"),
    [
        ("keys", [6, 5, 4, 3, 2, 1], 19, 6, "rows of another key behind row 2"),
        ("keys", [1, 2, 1, 3, 2, 1], 21, 3, "run of a key ends too early at row 0"),
        ("hashes", [1, 5, 4, 3, 2, 1], 11, 6, "run of a key ends too early at row 0"),
    ],
)
def test_a_run_has_all_rows_of_one_key_and_no_others(
    child: Apart,
    tmp_path: Path,
    kind: str,
    lengths: list[int],
    keys: int,
    longest: int,
    says: str,
) -> None:
    build(tmp_path, kind)
    name = index_cells(tmp_path, at("runs", slice(0, 6), lengths))
    manifest(tmp_path, segment(keys=keys, longest_run=longest))
    check(child, tmp_path, kind, says, name)


@pytest.mark.parametrize(("number", "codec"), [(-1, "lz4"), (NUMBER, "zstd")])
def test_a_compressed_file_is_an_error(
    child: Apart, tmp_path: Path, number: int, codec: str
) -> None:
    build(tmp_path, "keys")
    options = pa.ipc.IpcWriteOptions(compression=codec)
    name = rewrite(tmp_path, number, lambda columns: columns, options=options)
    check(child, tmp_path, "keys", "compressed", name)


def test_other_columns_are_an_error(child: Apart, tmp_path: Path) -> None:
    build(tmp_path / "more", "keys")
    name = rewrite(tmp_path / "more", TEXT, lambda c: {**c, "other": c["column"]})
    check(child, tmp_path / "more", "keys", "other .* instead of one column", name)
    build(tmp_path / "index", "keys")
    name = rewrite(tmp_path / "index", -1, lambda c: {**c, "other": c["base"]})
    check(child, tmp_path / "index", "keys", "which is not an index", name)
    build(tmp_path / "rows", "keys")
    name = rewrite(
        tmp_path / "rows", -1, lambda c: {n: pa.concat_arrays([a, a]) for n, a in c.items()}
    )
    check(child, tmp_path / "rows", "keys", "one row, not 2", name)


@pytest.mark.parametrize("kind", ["keys", "points"])
def test_an_index_of_another_kind_of_table_is_an_error(
    child: Apart, tmp_path: Path, kind: str
) -> None:
    build(tmp_path, kind)
    ranged = ["q"], ["long"], None
    columns = dict(zip(("names", "types", "closed"), ranged, strict=True))
    manifest(tmp_path, lambda data: data.update(ranged=columns if kind == "keys" else None))
    check(child, tmp_path, kind, "for range joins", ".index.arrow")


def retype(ranged: dict[str, Any], name: str) -> None:
    ranged["types"] = [name] * len(ranged["types"])


def test_ranked_values_are_those_of_the_ranked_types(child: Apart, tmp_path: Path) -> None:
    for kind, name in (("points", "string"), ("texts", "long"), ("points", "decimal(20,2)")):
        folder = tmp_path / f"{kind} {name}"
        build(folder, kind)
        manifest(folder, lambda data, n=name: retype(data["ranged"], n))
        check(child, folder, kind, "ranked", ".index.arrow")


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (segment(rows=59), "manifest"),
        (segment(keys=19), "manifest"),
        (segment(longest_run=2), "manifest"),
        (segment(longest_run=1), "manifest"),
        (segment(first_hash=1), "manifest"),
    ],
)
def test_a_manifest_that_does_not_fit_the_files_is_an_error(
    child: Apart, tmp_path: Path, change: Callable[[dict[str, Any]], None], says: str
) -> None:
    build(tmp_path, "keys")
    manifest(tmp_path, change)
    check(child, tmp_path, "keys", says, "")


@pytest.mark.parametrize("number", [-1, TEXT])
@pytest.mark.parametrize("content", [b"", b"ARROW1\0\0", b"nothing of the kind"])
def test_a_file_of_another_format_is_an_error(
    child: Apart, tmp_path: Path, number: int, content: bytes
) -> None:
    build(tmp_path, "keys")
    name = versions.load(StorageLocation.of(tmp_path), 1).segments[0].files[number + 1]
    (tmp_path / name).write_bytes(content)
    with pytest.raises(DamagedTableError, match=f"has {len(content)} bytes instead of"):
        child.run(answers, tmp_path, "keys")
    sizes = [len(content) or 1] * 12
    manifest(tmp_path, lambda data: data["segments"][0].update(sizes=sizes))
    with pytest.raises(DamagedTableError, match=r"\.arrow"):
        child.run(answers, tmp_path, "keys")


def test_what_is_no_file_is_an_error(child: Apart, tmp_path: Path) -> None:
    build(tmp_path, "keys")
    name = versions.load(StorageLocation.of(tmp_path), 1).segments[0].files[0]
    (tmp_path / name).unlink()
    os.mkfifo(tmp_path / name)
    with pytest.raises(StoreError, match="neither a file nor a folder"):
        child.run(answers, tmp_path, "keys")


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


def test_rows_of_a_key_that_are_apart_are_an_error(child: Apart, tmp_path: Path) -> None:
    build(tmp_path, "keys")
    # Two keys to a hash, three rows each: the second row becomes the fifth.
    order = pa.array([0, 4, 1, 2, 3, 5, *range(6, 60)])
    rewrite(tmp_path, KEY, lambda columns: {"column": columns["column"].take(order)})
    name = index_cells(tmp_path, at("runs", slice(0, 6), [1, 1, 2, 1, 2, 1]))
    manifest(tmp_path, lambda data: data["segments"][0].update(keys=22))
    check(child, tmp_path, "keys", "rows of one key are apart", name)


def test_texts_may_hold_any_bytes_as_in_spark(child: Apart, tmp_path: Path) -> None:
    build(tmp_path, "keys")
    raw = pa.array([b"\xff\xfe" * (i % 3) for i in range(60)], pa.binary())
    rewrite(tmp_path, TEXT, lambda _: {"column": raw.view(pa.string())})
    assert child.run(answers, tmp_path, "keys")
    versions.verify(StorageLocation.of(tmp_path), versions.load(StorageLocation.of(tmp_path), 1))


@pytest.mark.parametrize("kind", TABLES)
def test_flipped_bits_change_values_at_most(child: Apart, tmp_path: Path, kind: str) -> None:
    build(tmp_path, kind)
    flips = 60 if kind == "keys" else 30
    seen = child.run(flipped, tmp_path, kind, 20260301, flips)
    assert sum(seen.values()) == flips
    assert seen["damaged"] > 0
