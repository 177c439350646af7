"""What others wrote into a table's files never crashes the JVM: an error names the table, or rows.

Each case joins with a damaged copy through Spark. The JVM does not survive a read outside of a
mapping, so the first that happens ends the whole file.
"""

from __future__ import annotations

import json
import os
import random
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hostile_jvm import KINDS, body_of, build, change, copy, damages, file_of, joined, replace
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from spark_samples import Feed

from bsjoin import BatchTable

_TEXT = 10  # the number of the column ``text`` of the kind "long"
CASES = 12  # for each kind of table; None takes the full sweep, which needs hours
NEVER = (
    "InternalError",
    "IndexOutOfBounds",
    "NullPointer",
    "ClassCast",
    "NegativeArraySize",
    "OutOfMemory",
    "StackOverflow",
    "MatchError",
)


@pytest.fixture(scope="module", autouse=True)
def _jvm(spark: SparkSession) -> Iterator[None]:
    spark.conf.set("spark.bsjoin.runtime", "jvm")
    yield
    spark.conf.unset("spark.bsjoin.runtime")


@pytest.fixture(scope="module")
def tables(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table of every kind; the tests change copies."""
    folder = tmp_path_factory.mktemp("stores")
    for kind in KINDS:
        build(spark, folder / kind, kind)
    return folder


@pytest.fixture
def seed(request: pytest.FixtureRequest) -> str:
    """The seed of the run."""
    return str(request.config.option.hypothesis_seed)


def refused(df: DataFrame, folder: Path) -> str | None:
    """The error of a query as it names the table; None if it has rows."""
    try:
        df.collect()
    except (Py4JJavaError, PySparkException) as error:
        said = str(error)
        assert "bsjoin.errors." in said, said
        assert str(folder) in said, said
        assert not any(name in said.split("\n\tat ")[0] for name in NEVER), said
        return said
    return None


@pytest.mark.parametrize("kind", KINDS)
def test_a_damaged_file_is_an_error_or_has_other_rows(
    spark: SparkSession, tables: Path, tmp_path: Path, kind: str, seed: str
) -> None:
    data = json.loads((tables / kind / "versions" / "00000001.json").read_text())
    columns = range(-1, len(data["segments"][0]["sizes"]) - 1)
    cases = [
        (number, damage)
        for number in columns
        for damage in damages(file_of(tables / kind, number).read_bytes())
    ]
    found = []
    chosen = random.Random(seed).sample(cases, CASES) if CASES else cases
    for case, (number, damage) in enumerate(chosen):
        folder = copy(tables / kind, tmp_path / str(case))
        replace(file_of(folder, number), damage.content)

        def resized(
            data: dict[str, Any], number: int = number, size: int = len(damage.content)
        ) -> None:
            data["segments"][0]["sizes"][number + 1] = size

        change(folder, resized)
        table = BatchTable.open(folder, verify=False)
        how = ("inner", "left")[case % 2]
        try:
            found.append(refused(joined(spark, table, kind, how), folder))
        except AssertionError as error:
            raise AssertionError(f"{kind}, file {number}, {damage.where}: {error}") from None
    errors = [error for error in found if error is not None]
    if not CASES:  # a sample may have one sort only
        assert errors
        assert len(errors) < len(found)
    assert all("DamagedTableError" in error for error in errors)


def with_schema(edit: Callable[[dict[str, Any]], object]) -> Callable[[dict[str, Any]], None]:
    """The edit of a manifest that edits the field of ``v``, or else of the last column."""

    def edited(data: dict[str, Any]) -> None:
        schema = json.loads(data["spark_schema"])
        fields = schema["fields"]
        edit(next((field for field in fields if field["name"] == "v"), fields[-1]))
        data["spark_schema"] = json.dumps(schema)

    return edited


def with_segment(**values: Any) -> Callable[[dict[str, Any]], None]:
    """The edit of a manifest that gives its first segment other values."""
    return lambda data: data["segments"][0].update(values)


def many(data: dict[str, Any]) -> None:
    """So many segments that the manifest is too large."""
    segment = data["segments"][0]
    data["segments"] = [{**segment, "first_hash": n} for n in range(10**5)]


def crowded(data: dict[str, Any]) -> None:
    """Many segments of one file."""
    segment = data["segments"][0]
    data["segments"] = [{**segment, "first_hash": segment["first_hash"] + n} for n in range(20_000)]


def without(name: str) -> Callable[[dict[str, Any]], None]:
    return lambda data: data.pop(name)


def of_type(dtype: object) -> Callable[[dict[str, Any]], None]:
    return with_schema(lambda field: field.update(type=dtype))


UDT = {
    "type": "udt",
    "class": "java.util.ArrayList",
    "pyClass": "some.Type",
    "serializedClass": "",
    "sqlType": "long",
}
MANIFESTS: dict[str, Callable[[dict[str, Any]], object]] = {
    **{f"type {dtype}": of_type(dtype) for dtype in ("integer", "double", "decimal(10,2)", "date")},
    "text type": of_type("string"),
    "no type": of_type("spark"),
    "list type": of_type({"type": "array", "elementType": "long", "containsNull": True}),
    "user-defined type": of_type(UDT),
    "user-defined element": of_type({"type": "array", "elementType": UDT, "containsNull": True}),
    "deep type": lambda data: data.update(
        spark_schema='{"type":"array","elementType":' * 5000 + '"long"' + "}" * 5000
    ),
    "not columns": lambda data: data.update(spark_schema='"long"'),
    "no schema": without("spark_schema"),
    "another column": with_schema(lambda field: field.update(name="w")),
    "no segments field": without("segments"),
    "no format": without("format"),
    "no version": without("version"),
    "no keys": lambda data: data.update(keys=[], compared=1),
    "more keys": lambda data: data.update(keys=[*data["keys"], ["z", "long"]], compared=2),
    "not compared": lambda data: data.update(compared=-1),
    "too many segments": many,
    "segments of one file": crowded,
    "segments of another order": lambda data: data["segments"].reverse(),
    "negative rows": with_segment(rows=-1),
    "no rows": with_segment(rows=0),
    "fewer rows": with_segment(rows=7),
    "more rows": with_segment(rows=21),
    "most rows": with_segment(rows=(1 << 31) - 2),
    "too many rows": with_segment(rows=1 << 62),
    "another first hash": with_segment(first_hash=5),
    "first key of a text": with_segment(first_key=0),
    "no size": with_segment(sizes=[]),
    "negative sizes": with_segment(sizes=[-1] * 3),
    "text sizes": with_segment(sizes=["a"] * 3),
    "longest run 0": with_segment(longest_run=0),
    "longest run 2": with_segment(longest_run=2),
    "outside": with_segment(name="../../etc/passwd"),
    "absolute": with_segment(name="/etc/passwd"),
    "dots": with_segment(name="data/../x"),
    "missing": with_segment(name="data/a/b"),
}


@pytest.mark.parametrize("name", MANIFESTS)
def test_a_hostile_manifest_swapped_in_after_planning_is_an_error(
    spark: SparkSession, tables: Path, tmp_path: Path, name: str
) -> None:
    folder = copy(tables / "text", tmp_path / "table")
    df = joined(spark, BatchTable.open(folder, verify=False), "text", "inner")
    change(folder, MANIFESTS[name])
    said = refused(df, folder)
    assert said is not None
    assert "DamagedTableError" in said or "TableMismatchError" in said


@pytest.mark.parametrize("first", [None, 1, 0.0, "0", 1 << 63])
def test_another_first_key_is_an_error(
    spark: SparkSession, tables: Path, tmp_path: Path, first: object
) -> None:
    folder = copy(tables / "dense", tmp_path / "table")
    df = joined(spark, BatchTable.open(folder, verify=False), "dense", "inner")
    change(folder, with_segment(first_key=first))
    assert "DamagedTableError" in (refused(df, folder) or "")


@pytest.mark.parametrize("content", [b"", b"[", b"null", b"[]", b"7", b"[" * 100_000, b"\xff\xfe"])
def test_a_manifest_that_is_none_is_an_error(
    spark: SparkSession, tables: Path, tmp_path: Path, content: bytes
) -> None:
    folder = copy(tables / "text", tmp_path / "table")
    df = joined(spark, BatchTable.open(folder, verify=False), "text", "left")
    replace(folder / "versions" / "00000001.json", content)
    assert "DamagedTableError" in (refused(df, folder) or "")


def test_no_type_in_a_manifest_runs_code(spark: SparkSession, tables: Path, tmp_path: Path) -> None:
    folder = copy(tables / "text", tmp_path / "table")
    df = joined(spark, BatchTable.open(folder, verify=False), "text", "inner")
    change(folder, of_type(UDT))
    said = refused(df, folder) or ""
    assert "its schema has other types than bsjoin writes" in said
    assert "ArrayList" not in said


def test_a_run_longer_than_the_manifest_says_is_never_unrolled(
    spark: SparkSession, tables: Path, tmp_path: Path
) -> None:
    folder = copy(tables / "long", tmp_path / "table")
    change(folder, with_segment(longest_run=2, keys=10))
    table = BatchTable.open(folder, verify=False)
    said = refused(joined(spark, table, "long", "inner"), folder) or ""
    assert "its longest run is not that of the manifest, but 3" in said


@pytest.mark.parametrize("name", ["user-defined type", "text type", "no segments field", "no size"])
def test_a_hostile_version_that_comes_later_fails_the_stream(
    spark: SparkSession, tables: Path, tmp_path: Path, name: str
) -> None:
    folder, feed = copy(tables / "long", tmp_path / "table"), Feed(spark, tmp_path)
    rows = BatchTable.open(folder, verify=False).join(feed.stream, "k").select("k", "time")
    query = feed.start(rows)
    feed.add(1, 100)
    query.processAllAvailable()
    assert len(feed.results[0]) == 3
    content = (folder / "versions" / "00000001.json").read_bytes()
    (folder / "versions" / "00000002.json").write_bytes(content)
    change(folder, lambda data: data.update(version=2, activates_at_us=200), 2)
    change(folder, MANIFESTS[name], 2)
    feed.add(2)
    with pytest.raises(PySparkException) as caught:
        query.processAllAvailable()
    assert "bsjoin.errors." in str(caught.value)
    assert str(folder) in str(caught.value)


def test_nulls_where_the_plan_expects_none_are_an_error(
    spark: SparkSession, tables: Path, tmp_path: Path
) -> None:
    def strict(data: dict[str, Any]) -> None:
        data["spark_schema"] = data["spark_schema"].replace("true", "false")

    folder = copy(tables / "long", tmp_path / "table")
    change(folder, strict)
    table = BatchTable.open(folder, verify=False)
    said = refused(joined(spark, table, "long", "left"), folder) or ""
    assert "it has nulls, which the table's schema refuses" in said
    other = copy(folder, tmp_path / "other")
    planned = joined(spark, BatchTable.open(other, verify=False), "long", "inner")
    change(
        other, lambda data: data.update(spark_schema=data["spark_schema"].replace("false", "true"))
    )
    assert "may have nulls in the column" in (refused(planned, other) or "")


@pytest.mark.parametrize(
    ("kind", "ranged", "said"),
    [
        ("points", None, "TableMismatchError"),
        ("points", {"names": ["y"], "types": ["long"], "closed": None}, "TableMismatchError"),
        ("points", {"names": ["q"], "types": ["double"], "closed": None}, "TableMismatchError"),
        ("points", {"names": ["q"], "types": ["long"], "closed": "both"}, "DamagedTable"),
        (
            "points",
            {"names": ["q"] * 2, "types": ["long"] * 2, "closed": "both"},
            "TableMismatchError",
        ),
        ("points", {"names": ["q"] * 9, "types": ["long"] * 9, "closed": None}, "DamagedTable"),
        ("intervals", {"names": ["q"], "types": ["long"], "closed": None}, "TableMismatchError"),
        (
            "intervals",
            {"names": ["q", "y"], "types": ["long"] * 2, "closed": "left"},
            "TableMismatchError",
        ),
        ("intervals", 7, "DamagedTable"),
    ],
)
def test_range_columns_that_are_others_than_planned_are_an_error(
    spark: SparkSession, tables: Path, tmp_path: Path, kind: str, ranged: Any, said: str
) -> None:
    folder = copy(tables / kind, tmp_path / "table")
    df = joined(spark, BatchTable.open(folder, verify=False), kind, "left")
    change(folder, lambda data: data.update(ranged=ranged))
    assert said in (refused(df, folder) or "")


def grow(folder: Path, size: int, begin: int, length: int, texts: list[int]) -> None:
    """Make the file of the texts a large one, of which little takes space on the disk.

    Args:
        folder: the table's.
        size: of the file.
        begin: where the texts begin, from the beginning of the file.
        length: of all texts.
        texts: where each of them ends.
    """
    path = file_of(folder, _TEXT)
    content = path.read_bytes()
    with pa.ipc.open_file(content) as file:
        places = [buffer.size for buffer in file.get_batch(0).column(0).buffers() if buffer]
    body = body_of(content)
    at = content.rindex(struct.pack("<q", places[2]), 0, body)
    head = bytearray(content[: body + 8 + 4 * len(texts) + 8])
    struct.pack_into("<qq", head, at - 8, begin - body, length)
    whole = struct.unpack_from("<q", content, at - 8)[0] + (places[2] + 7) // 8 * 8
    struct.pack_into("<q", head, content.index(struct.pack("<q", whole), 0, at), size - body)
    offsets = struct.unpack_from("<q", content, at - 24)[0]
    struct.pack_into(f"<{len(texts) + 1}i", head, body + offsets, 0, *texts)
    replace(path, bytes(head))
    os.truncate(path, size)

    def resized(data: dict[str, Any]) -> None:
        data["segments"][0]["sizes"][_TEXT + 1] = size

    change(folder, resized)


def test_values_at_the_ends_of_what_java_maps_at_once(
    spark: SparkSession, tables: Path, tmp_path: Path
) -> None:
    gibibyte = 1 << 30
    manifest = json.loads((tables / "long" / "versions" / "00000001.json").read_text())
    rows = manifest["segments"][0]["rows"]
    folder = copy(tables / "long", tmp_path / "long")
    texts = [gibibyte + gibibyte // 16] * rows
    grow(folder, gibibyte + gibibyte // 8, 1 << 20, texts[0], texts)
    table = BatchTable.open(folder, verify=False)
    said = refused(joined(spark, table, "long", "inner"), folder) or ""
    assert "the value in row 0 is longer than" in said
    folder = copy(tables / "long", tmp_path / "empty")
    grow(folder, gibibyte // 2, gibibyte // 2, 0, [0] * rows)
    table = BatchTable.open(folder, verify=False)
    assert refused(joined(spark, table, "long", "inner"), folder) is None


@pytest.fixture(params=["index", "manifest"])
def planned(
    request: pytest.FixtureRequest, spark: SparkSession, tables: Path, tmp_path: Path
) -> tuple[DataFrame, Path, Path]:
    """A join that was planned, its table's folder, and a file of it that is read next."""
    folder = copy(tables / "text", tmp_path / request.param)
    df = joined(spark, BatchTable.open(folder, verify=False), "text", "inner")
    index = request.param == "index"
    return df, folder, file_of(folder, -1) if index else folder / "versions" / "00000001.json"


def test_a_link_out_of_the_folder_is_not_followed(
    planned: tuple[DataFrame, Path, Path], tmp_path: Path
) -> None:
    df, folder, victim = planned
    victim.rename(tmp_path / "outside")
    victim.symlink_to(tmp_path / "outside")
    assert "which is outside of" in (refused(df, folder) or "")


def test_a_pipe_does_not_hang_who_reads_it(planned: tuple[DataFrame, Path, Path]) -> None:
    df, folder, victim = planned
    victim.unlink()
    os.mkfifo(victim)
    assert "neither a file nor a folder" in (refused(df, folder) or "")
