"""What others wrote into a table's files never crashes the JVM: an error names the table, or rows.

Each case joins with a damaged copy through Spark, or scans it. The JVM does not survive a read
outside of a mapping, so the first that happens ends the whole file.
"""

from __future__ import annotations

import json
import os
import random
import struct
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hostile_jvm import (
    KINDS,
    Damage,
    body_of,
    build,
    change,
    copy,
    damages,
    file_of,
    joined,
    replace,
)
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from sessions import CODE, configured
from spark_samples import Feed

from bsjoin import BatchTable
from bsjoin.spark import compat

pytestmark = pytest.mark.usefixtures("in_jvm")

_TEXT = 10  # the number of the column ``text`` of the kind "long"
CASES = 2  # for each kind of table; None takes the full sweep, which needs hours
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


@pytest.fixture(scope="module")
def tables(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table of every kind; the tests change copies."""
    folder = tmp_path_factory.mktemp("stores")
    for kind in KINDS:
        build(spark, folder / kind, kind)
        change(folder / kind, lambda data: data.setdefault("unindexed", []))
    return folder


def join(spark: SparkSession, folder: Path, kind: str, how: str = "inner") -> DataFrame:
    return joined(spark, BatchTable.open(folder, verify=False), kind, how)


def scan(spark: SparkSession, folder: Path) -> None:
    read(spark.read.format("bsjoin").load(str(folder)))


def read(df: DataFrame) -> None:
    """Read all values in the JVM: a damaged date may be none of Python's."""
    df.write.format("noop").mode("overwrite").save()


def refused(act: Callable[[], Any], folder: Path) -> str:
    """The error of an action as it names the table; nothing if it has rows."""
    try:
        act()
    except (Py4JJavaError, PySparkException) as error:
        said = str(error)
        assert "bsjoin.errors." in said, said
        assert str(folder) in said, said
        assert not any(name in said.split("\n\tat ")[0] for name in NEVER), said
        return said
    return ""


@pytest.mark.parametrize("kind", KINDS)
def test_a_damaged_file_is_an_error_or_has_other_rows(
    spark: SparkSession, tables: Path, tmp_path: Path, kind: str, request: pytest.FixtureRequest
) -> None:
    data = json.loads((tables / kind / "versions" / "00000001.json").read_text())
    columns = range(-1, len(data["segments"][0]["sizes"]) - 1)
    draw = random.Random(f"{request.config.option.hypothesis_seed} {kind}")
    cases = list[tuple[int, Damage]]()
    for number in draw.choices(columns, k=CASES) if CASES else columns:
        found = [*damages(file_of(tables / kind, number).read_bytes())]
        cases += [(number, damage) for damage in (draw.sample(found, 1) if CASES else found)]
    for case, (number, damage) in enumerate(cases):
        folder = copy(tables / kind, tmp_path / str(case))
        replace(file_of(folder, number), damage.content)
        change(folder, resized(number, len(damage.content)))
        df = join(spark, folder, kind, ("inner", "left")[case % 2])
        scanned = (case + KINDS.index(kind)) % 3
        try:
            said = refused(
                partial(scan, spark, folder) if scanned == 2 else partial(read, df), folder
            )
        except AssertionError as error:
            raise AssertionError(f"{kind}, file {number}, {damage.where}: {error}") from None
        assert not said or "DamagedTableError" in said


Edit = Callable[[dict[str, Any]], object]


def with_segment(**values: Any) -> Edit:
    """The edit of a manifest that gives its first segment other values."""
    return lambda data: data["segments"][0].update(values)


def resized(number: int, size: int) -> Edit:
    """The edit that gives a file its size."""

    def edited(data: dict[str, Any]) -> None:
        data["segments"][0]["sizes"][number + 1] = size

    return edited


def with_field(**values: Any) -> Edit:
    """The edit of a manifest that edits the field of ``v``, or else of the last column."""

    def edited(data: dict[str, Any]) -> None:
        schema = json.loads(data["spark_schema"])
        fields = schema["fields"]
        next((one for one in fields if one["name"] == "v"), fields[-1]).update(values)
        data["spark_schema"] = json.dumps(schema)

    return edited


def layered(*layers: dict[str, Any] | None, **fields: Any) -> Edit:
    """Layers above the segments; a layer has the first of them under another name."""

    def edited(data: dict[str, Any]) -> None:
        one = {**data["segments"][0], "name": "data/a/b"}
        gone = {**one, "name": "data/a/c", "longest_run": 1}
        for name in ("sizes", "checksums"):
            gone[name] = one[name][:2]
        parts = {"rows": one, "gone": gone}
        listed = [
            {name: part | (layer or {}).get(name, {}) for name, part in parts.items()}
            if layer is not None
            else {"rows": None, "gone": None}
            for layer in layers
        ]
        data |= {"format": 2, "layers": listed, "live": [3, 3], **fields}

    return edited


def of_segments(count: int) -> Edit:
    """So many segments of one file."""

    def edited(data: dict[str, Any]) -> None:
        one = data["segments"][0]
        first = one["first_hash"]
        data["segments"] = [{**one, "first_hash": first + n} for n in range(count)]

    return edited


UDT = {
    "type": "udt",
    "class": "java.util.ArrayList",
    "pyClass": "some.Type",
    "serializedClass": "",
    "sqlType": "long",
}
DEEP = '{"type":"array","elementType":' * 5000 + '"long"' + "}" * 5000
MANIFESTS: dict[str, Edit] = {
    "another type": with_field(type="integer"),
    "no type": with_field(type="spark"),
    "user-defined type": with_field(type=UDT),
    "user-defined element": with_field(
        type={"type": "array", "elementType": UDT, "containsNull": True}
    ),
    "deep type": lambda data: data.update(spark_schema=DEEP),
    "not columns": lambda data: data.update(spark_schema='"long"'),
    "no schema": lambda data: data.pop("spark_schema"),
    "another column": with_field(name="w"),
    "no keys": lambda data: data.update(keys=[], compared=1),
    "more keys": lambda data: data.update(keys=[*data["keys"], ["z", "long"]], compared=2),
    "too many segments": of_segments(10**5),
    "segments of one file": of_segments(20_000),
    "segments of another order": lambda data: data["segments"].reverse(),
    "negative rows": with_segment(rows=-1),
    "most rows": with_segment(rows=(1 << 31) - 2),
    "too many rows": with_segment(rows=1 << 62),
    "another first hash": with_segment(first_hash=5),
    "first key of a text": with_segment(first_key=0),
    "no size": with_segment(sizes=[]),
    "negative sizes": with_segment(sizes=[-1] * 3),
    "longest run 2": with_segment(longest_run=2),
    "outside": with_segment(name="../../etc/passwd"),
    "missing": with_segment(name="data/a/b"),
    "layers of format 1": layered({}, format=1),
    "an empty layer": layered(None),
    "a layer twice": layered({}, {}),
    "more rows than there are": layered({}, live=[10**9, 1]),
    "negative numbers of rows": layered({}, live=[-1, 1]),
    "a key that is gone has a column": layered({"gone": {"sizes": [9] * 3}}),
    "a key is gone twice": layered({"gone": {"longest_run": 2}}),
    "a layer outside": layered({"rows": {"name": "../x"}}),
    "a layer that is missing": layered({}),
}
RANGED: list[tuple[str, Any, str]] = [
    ("points", None, "TableMismatchError"),
    ("points", {"names": ["y"], "types": ["long"], "closed": None}, "TableMismatchError"),
    ("points", {"names": ["q"], "types": ["double"], "closed": None}, "TableMismatchError"),
    ("points", {"names": ["q"], "types": ["long"], "closed": "both"}, "DamagedTable"),
    ("points", {"names": ["q"] * 9, "types": ["long"] * 9, "closed": None}, "DamagedTable"),
    ("intervals", {"names": ["q"], "types": ["long"], "closed": None}, "TableMismatchError"),
    (
        "intervals",
        {"names": ["q", "y"], "types": ["long"] * 2, "closed": "left"},
        "TableMismatchError",
    ),
    ("intervals", 7, "DamagedTable"),
    (
        "ranks",
        {"names": ["q", "y"], "types": ["long"] * 2, "closed": "left"},
        "TableMismatchError",
    ),
]


@pytest.mark.parametrize(
    ("step", "every"), [(3, 6), pytest.param(1, 3, marks=pytest.mark.long)], ids=["some", "all"]
)
def test_a_hostile_manifest_swapped_in_after_planning_is_an_error(
    spark: SparkSession, tables: Path, tmp_path: Path, step: int, every: int
) -> None:
    """Most are refused by what reads manifests for all queries; the others, and some, by one."""
    dense = [with_segment(first_key=first) for first in (None, 1, "0", 1 << 63)]
    cases: list[tuple[str, str, Edit | bytes, str]] = [
        *(("text", name, edit, "") for name, edit in MANIFESTS.items()),
        *(("dense", "first key", edit, "DamagedTableError") for edit in dense),
        *(
            (kind, str(ranged), partial(dict.update, ranged=ranged), said)
            for kind, ranged, said in RANGED
        ),
        *(
            ("text", str(content[:9]), content, "DamagedTableError")
            for content in (b"", b"null", b"[]", b"[" * 100_000, b"\xff\xfe")
        ),
    ]
    newest = compat.java_class("bsjoin.jvm.storage.Table").newest  # as plans and scans read it
    with configured(spark, CODE["python"]):  # nothing is read that generated code would read
        for number, (kind, name, edit, error) in enumerate(cases[::step]):
            folder = copy(tables / kind, tmp_path / str(number))
            swap(folder, edit)
            said = refused(partial(newest, str(folder), []), folder)
            if not said or number % every == 2:
                folder = copy(tables / kind, tmp_path / f"{number} planned")
                df = join(spark, folder, kind)
                swap(folder, edit)
                said = refused(df.collect, folder)
            named = [error] if error else ["DamagedTableError", "TableMismatchError"]
            assert any(one in said for one in named), name
            if name == "user-defined type":  # no type in a manifest runs code
                assert "its schema has other types than bsjoin writes" in said
                assert "ArrayList" not in said
            if name == "another column":
                assert "has no column 'v', which this query selects" in said
            if number % every == 0:
                refused(partial(scan, spark, folder), folder)  # which is planned with it


def swap(folder: Path, edit: Edit | bytes) -> None:
    if isinstance(edit, bytes):
        replace(folder / "versions" / "00000001.json", edit)
    else:
        change(folder, edit)


def test_a_hostile_version_that_comes_later_fails_the_stream(
    spark: SparkSession, tables: Path, tmp_path: Path
) -> None:
    folder, feed = copy(tables / "long", tmp_path / "table"), Feed(spark, tmp_path)
    rows = BatchTable.open(folder, verify=False).join(feed.stream, "k").select("k", "time")
    query = feed.run(rows, 1, 100)
    assert len(feed.results[0]) == 3
    content = (folder / "versions" / "00000001.json").read_bytes()
    (folder / "versions" / "00000002.json").write_bytes(content)
    change(folder, lambda data: data.update(version=2, activates_at_us=200), 2)
    change(folder, MANIFESTS["user-defined type"], 2)
    feed.add(2)
    assert "its schema has other types" in refused(query.processAllAvailable, folder)


def test_what_a_plan_counts_on_is_checked(
    spark: SparkSession, tables: Path, tmp_path: Path
) -> None:
    """Nulls where it expects none, and a key of more rows than the manifest says."""

    def nullable(value: str) -> Edit:
        other = {"true": "false", "false": "true"}[value]
        return lambda data: data.update(spark_schema=data["spark_schema"].replace(other, value))

    longer = copy(tables / "long", tmp_path / "longer")
    change(longer, with_segment(longest_run=2, keys=10))
    said = refused(join(spark, longer, "long").collect, longer)
    assert "its longest run is not that of the manifest, but 3" in said
    strict = copy(tables / "long", tmp_path / "strict")
    change(strict, nullable("false"))
    said = refused(join(spark, strict, "long", "left").collect, strict)
    assert "it has nulls, which the table's schema refuses" in said
    later = copy(strict, tmp_path / "later")
    planned = join(spark, later, "long")
    change(later, nullable("true"))
    assert "may have nulls in the column" in (refused(planned.collect, later))


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
    change(folder, resized(_TEXT, size))


def test_values_at_the_ends_of_what_java_maps_at_once(
    spark: SparkSession, tables: Path, tmp_path: Path
) -> None:
    gibibyte = 1 << 30
    manifest = json.loads((tables / "long" / "versions" / "00000001.json").read_text())
    rows = manifest["segments"][0]["rows"]
    folder = copy(tables / "long", tmp_path / "long")
    texts = [gibibyte + gibibyte // 16] * rows
    grow(folder, gibibyte + gibibyte // 8, 1 << 20, texts[0], texts)
    said = refused(join(spark, folder, "long").collect, folder)
    assert "the value in row 0 is longer than" in said
    folder = copy(tables / "long", tmp_path / "empty")
    grow(folder, gibibyte // 2, gibibyte // 2, 0, [0] * rows)
    assert not refused(join(spark, folder, "long").collect, folder)


def test_neither_links_nor_pipes_are_followed(
    spark: SparkSession, tables: Path, tmp_path: Path
) -> None:
    for which in ("index", "manifest"):
        for name, said in (("link", "which is outside of"), ("pipe", "neither a file nor a")):
            folder = copy(tables / "text", tmp_path / f"{which} {name}")
            df = join(spark, folder, "text")
            victim = folder / "versions" / "00000001.json"
            if which == "index":
                victim = file_of(folder, -1)
            if name == "link":
                victim.rename(tmp_path / f"outside {which}")
                victim.symlink_to(tmp_path / f"outside {which}")
            else:
                victim.unlink()
                os.mkfifo(victim)
            assert said in refused(df.collect, folder), f"{which}, {name}"
