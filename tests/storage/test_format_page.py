"""``format.md`` says what the code does: its tables are read and compared with Python."""

from __future__ import annotations

import dataclasses
import importlib
import json
import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from golden_tables import FOLDER, GOLDEN, unpacked
from page_checks import check_by_the_page
from page_reader import PAGE, rows_of, tables_of
from test_manifest import layered_manifest

import bsjoin
from bsjoin.errors import TableNotFoundError
from bsjoin.storage import (
    BoxRange,
    KeyColumn,
    Manifest,
    RangeColumns,
    SegmentInfo,
    StorageLocation,
    UnindexedInfo,
    versions,
)
from bsjoin.storage.box_file import check_box_schema
from bsjoin.storage.index_file import check_index_schema
from bsjoin.storage.latest import LatestBy
from bsjoin.storage.layers.entries import Applied, Layer
from bsjoin.storage.manifest import FORMAT, compared_fields
from bsjoin.storage.range_index import RANGE_LAYOUTS
from bsjoin.storage.segment_entries import BoxFile
from bsjoin.storage.source_version import SourceVersion
from bsjoin.storage.spark_schema import arrow_type

JAVA = Path(bsjoin.__file__).parent / "runtimes" / "jvm" / "java" / "bsjoin" / "jvm"
OBJECTS: dict[str, type[Any]] = {
    "manifest": Manifest,
    "segment": SegmentInfo,
    "unindexed": UnindexedInfo,
    "ranged": RangeColumns,
    "box": BoxFile,
    "latest": LatestBy,
    "layer": Layer,
    "changes": Applied,
    "source": SourceVersion,
}
NOT_FIELDS = {"schema"}  # derived from the keys and the Spark schema
NOT_ATTRIBUTES = {"format", "written_by"}  # nobody needs them once a manifest is read


def code(cell: str) -> str:
    """The only code in a cell; empty without."""
    return "".join(re.findall(r"`([^`]+)`", cell))


def named(place: str) -> Any:
    """A constant of a module of ``bsjoin.storage``, or ``bsjoin.index``."""
    module, _, name = place.partition(".")
    package = "index" if module == "range_max_tree" else "storage"
    return getattr(importlib.import_module(f"bsjoin.{package}.{module}"), name)


def test_all_tables_of_the_page_are_compared() -> None:
    assert tables_of() == ["constants", "folders", "names", *OBJECTS, "types", "index", "boxes"]
    assert f"in **format {FORMAT}**" in PAGE.read_text("utf-8")


def test_constants_folders_and_names_are_those_of_python() -> None:
    for row in rows_of("constants"):
        if code(row["Python"]):
            assert named(code(row["Python"])) == int(row["value"]), row
    for row in rows_of("folders"):
        assert named(code(row["Python"])) == code(row["folder"])
    for row in rows_of("names"):
        forms = re.findall(r"`([^`]+)`", row["form of its name"])
        assert named(code(row["Python"])).pattern in forms, row


def written() -> dict[str, Any]:
    """A manifest with every field."""
    fields = [{"name": n, "type": "long", "nullable": True, "metadata": {}} for n in "pq"]
    layered, box = layered_manifest(), BoxFile(9, "a" * 32, (0.5, 0.25))
    manifest = dataclasses.replace(
        layered,
        spark_schema=json.dumps({"type": "struct", "fields": fields}),
        segments=tuple(dataclasses.replace(one, boxes=box) for one in layered.segments),
        ranged=RangeColumns(("p", "q"), ("long", "long"), "both", ("p ASC NULLS FIRST",), True),
        row=("p",),
        condition=bsjoin.Overlaps(("a", "b"), ("p", "q"), closed="both"),
        latest=LatestBy(("p DESC NULLS LAST",), 2),
        boxes=(BoxRange(RangeColumns(("q",), ("date",), None), bsjoin.Band("b", "q", 1, 1)),),
        source=SourceVersion("a table", "17", 5, "its id", "a digest"),
        base="abc",
    )
    return json.loads(manifest.to_bytes())


def parts_of(data: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """The objects of a manifest, by the names that the page gives them."""
    return {
        "manifest": data,
        "segment": data["segments"][0],
        "unindexed": data["unindexed"][0],
        "ranged": data["ranged"],
        "latest": data["latest"],
        "layer": data["layers"][0],
        "changes": data["changes"],
        "source": data["source"],
        "box": data["segments"][0]["boxes"],
    }


@pytest.mark.parametrize("name", OBJECTS)
def test_an_object_of_a_manifest_has_the_fields_of_the_page(name: str) -> None:
    kinds: dict[str, Any] = {
        "integer": int, "number": (int, float), "text": str, "boolean": bool, "list": list,
        "object": dict,
    }  # fmt: skip
    page = {code(row["field"]): row for row in rows_of(name)}
    fields = {field.name for field in dataclasses.fields(OBJECTS[name])} - NOT_FIELDS
    assert page.keys() - NOT_ATTRIBUTES == fields
    part = parts_of(written())[name]
    assert part.keys() == page.keys()
    source = (JAVA / "storage" / "Manifest.java").read_text("utf-8")
    for field, row in page.items():
        assert part[field] is None or isinstance(part[field], kinds[row["type"]]), row
        # The keys of a table are called as the number of keys of a segment, and its version as
        # that of its source.
        if (name, field) not in (("segment", "keys"), ("source", "version")):
            assert (f'"{field}"' in source) == (row["read by the JVM"] == "yes"), row
        data = written()
        changed = parts_of(data)[name]
        del changed[field]
        changed["a field of a later release"] = 1
        content = json.dumps(data).encode()
        if row["required"] == "yes":
            with pytest.raises(TableNotFoundError, match=field):
                Manifest.from_bytes(content, "it")
        else:
            Manifest.from_bytes(content, "it")


def test_types_are_stored_as_the_page_says() -> None:
    for row in rows_of("types"):
        dtype = arrow_type(code(row["Spark type"]))
        assert str(dtype) == row["Arrow type"]
        if row["bytes"].isdigit() and row["bytes"] != "0":
            assert dtype.bit_width == 8 * int(row["bytes"])
        if not row["hash"]:
            continue
        key = KeyColumn("k", code(row["Spark type"]))
        assert bool(compared_fields([key])) == (row["hash"] == "bytes")
        both = [str(field.type) for field in compared_fields([key, key])]
        assert both == [str(dtype) if row["hash"] == "bytes" else "int64"] * 2


def test_the_layouts_of_an_index_are_those_of_the_page() -> None:
    page = rows_of("index")
    places = {row["in"] for row in page}
    assert places == {"every index", "ranges", "intervals", "ordered intervals", "ranks"}
    kinds: list[set[str]] = [
        set(),
        {"ranges"},
        {"ranges", "intervals"},
        {"ranges", "ranks"},
        {"ranges", "intervals", "ranks"},
        {"ranges", "intervals", "ordered intervals"},
        places,
    ]
    assert len(kinds) == 1 + len(RANGE_LAYOUTS)
    types = {str(t): t for t in (pa.uint64(), pa.int32(), pa.string())}
    types |= {str(t): t for t in map(pa.large_list, (pa.int64(), pa.int32(), pa.uint8()))}
    for kind in kinds:
        rows = [row for row in page if row["in"] in kind | {"every index"}]
        check_index_schema(
            pa.schema(
                [pa.field(code(row["column"]), types[code(row["Arrow type"])]) for row in rows]
            )
        )


def test_the_file_of_boxes_is_that_of_the_page() -> None:
    kinds = {str(t): t for t in map(pa.large_list, (pa.int64(), pa.int32()))}
    page = [(code(row["column"]), kinds[code(row["Arrow type"])]) for row in rows_of("boxes")]
    check_box_schema(pa.schema(page))


def test_this_release_has_golden_files_that_are_small() -> None:
    assert bsjoin.__version__ in GOLDEN
    assert sum(path.stat().st_size for path in FOLDER.iterdir()) < 200 << 10


@pytest.mark.parametrize("release", GOLDEN)
def test_a_reader_of_the_page_finds_what_spark_finds(release: str, tmp_path: Path) -> None:
    for name, lines in unpacked(release, tmp_path).items():
        check_by_the_page(tmp_path / name, lines)
        location = StorageLocation.of(tmp_path / name)
        versions.verify(location, versions.latest(location))
