"""Tables that each release has written: this one joins with them, in both runtimes.

And what ``format.md`` says is what the JVM does, and what this checkout writes.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

import pytest
from golden_tables import GOLDEN, KINDS, build, joined, lines, unpacked
from page_checks import check_by_the_page
from page_reader import rows_of
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from sessions import CODE, configured

from bsjoin import BatchTable
from bsjoin.errors import TableNotFoundError

pytestmark = pytest.mark.usefixtures("without_code")

Expected = dict[str, list[str]]

# A few layouts of files; the others are written in the long run.
LAYOUTS = ("hash", "direct_unique", "nested", "as_of", "intervals_decimals", "layers_text")


@pytest.fixture(scope="module")
def golden(tmp_path_factory: pytest.TempPathFactory) -> dict[Path, Expected]:
    """The tables of every release by their folder, and the rows that are expected of each."""
    folders = [tmp_path_factory.mktemp("golden") for _ in GOLDEN]
    return {to: unpacked(one, to) for one, to in zip(GOLDEN, folders, strict=True)}


@pytest.fixture(scope="module")
def tables(golden: dict[Path, Expected]) -> Path:
    """The tables of one release."""
    return next(iter(golden))


@pytest.mark.in_turns("runtime", others="long")
def test_a_table_of_every_release_is_joined_as_when_it_was_written(
    spark: SparkSession, golden: dict[Path, Expected], runtime: str
) -> None:
    wanted = {f"{to / name}": rows for to, every in golden.items() for name, rows in every.items()}
    # What is read is tried, not the code that Spark generates for it.
    with configured(spark, CODE["python"]):
        found = lines({path: joined(spark, Path(path), KINDS[Path(path).name]) for path in wanted})
    for path, rows in wanted.items():
        assert found[path] == rows, path


@pytest.mark.parametrize(
    "which", [LAYOUTS, pytest.param({*KINDS} - {*LAYOUTS}, marks=pytest.mark.long)]
)
def test_a_table_that_is_written_now_is_read_by_the_page(
    spark: SparkSession, golden: dict[Path, Expected], tmp_path: Path, which: Collection[str]
) -> None:
    build(spark, tmp_path, sorted(which))
    for expected in golden.values():
        for name in expected.keys() & which:
            check_by_the_page(tmp_path / name, expected[name])


# -- the JVM ---------------------------------------------------------------------------------------


class Java:
    """The classes of the jar, package-private ones too."""

    def __init__(self, spark: SparkSession):
        self.vm: Any = spark._jvm
        self._gateway: Any = spark.sparkContext._gateway
        self._loader = self.vm.java.lang.Thread.currentThread().getContextClassLoader()

    def named(self, name: str) -> Any:
        """A class of the jar, or another one by its full name."""
        full = name if "." in name else f"bsjoin.jvm.storage.{name}"
        return self.vm.java.lang.Class.forName(full, True, self._loader)

    def field(self, place: str, of: Any = None) -> Any:
        """A static field, or one of an object."""
        owner, _, name = place.partition(".")
        field = self.named(owner).getDeclaredField(name)
        field.setAccessible(True)
        return field.get(of)

    def call(self, place: str, types: list[str], *arguments: Any) -> Any:
        """Call a static method."""
        owner, _, name = place.partition(".")
        classes = self._array("java.lang.Class", [self._primitive(one) for one in types])
        method = self.named(owner).getDeclaredMethod(name, classes)
        method.setAccessible(True)
        return method.invoke(None, self._array("java.lang.Object", arguments))

    def _primitive(self, name: str) -> Any:
        return self.vm.java.lang.Integer.TYPE if name == "int" else self.named(name)

    def _array(self, kind: str, values: Any) -> Any:
        array = self._gateway.new_array(getattr(self.vm, kind), len(values))
        for place, value in enumerate(values):
            array[place] = value
        return array

    def manifest(self, folder: Path) -> Any:
        """The manifest of version 1, as the JVM reads it."""
        storage = self.call(
            "Storage.of",
            ["java.lang.String", "java.util.List"],
            str(folder),
            self.vm.java.util.ArrayList(),
        )
        return self.call("Manifest.read", ["Storage", "int"], storage, 1)


@pytest.fixture(scope="module")
def java(spark: SparkSession) -> Java:
    return Java(spark)


def code(cell: str) -> str:
    """The only code in a cell; empty without."""
    return "".join(re.findall(r"`([^`]+)`", cell))


def test_constants_and_places_are_those_of_the_jvm(java: Java) -> None:
    compared = 0
    for table, value in (("constants", "value"), ("folders", "folder"), ("index", "buffer")):
        for row in rows_of(table):
            if code(row["Java"]):
                assert str(java.field(code(row["Java"]))) == row[value].strip("`"), row
                compared += 1
    assert compared >= 10
    for row in rows_of("names"):
        if code(row["Java"]):
            forms = re.findall(r"`([^`]+)`", row["form of its name"])
            assert java.field(code(row["Java"])).pattern() in forms


def test_types_are_stored_as_the_page_says_for_the_jvm(java: Java) -> None:
    for row in rows_of("types"):
        if not row["kind"]:  # not read there
            continue
        dtype = java.vm.org.apache.spark.sql.types.DataType.fromJson(f'"{code(row["Spark type"])}"')
        found = java.call("ColumnType.of", ["org.apache.spark.sql.types.DataType"], dtype)
        kind, first, second = (int(row[name]) for name in ("kind", "first", "second"))
        assert java.field("ColumnType.arrow", found) == kind | second << 8 | first << 16, row
        width = {"1 bit": -1, "any": 0}.get(row["bytes"]) or int(row["bytes"].replace("any", "0"))
        assert java.field("ColumnType.width", found) == width, row


def changed(folder: Path, to: Path, edit: Callable[[dict[str, Any]], object]) -> Path:
    """A copy of the manifest of a table, changed."""
    data = json.loads((folder / "versions" / "00000001.json").read_text("utf-8"))
    edit(data)
    (to / "versions").mkdir(parents=True, exist_ok=True)
    (to / "versions" / "00000001.json").write_text(json.dumps(data), "utf-8")
    return to


def test_required_fields_are_required_by_the_jvm_and_others_are_not(
    java: Java, tables: Path, tmp_path: Path
) -> None:
    for name in ("manifest", "segment", "unindexed", "ranged"):
        for row in rows_of(name):
            field = code(row["field"])

            def without(data: dict[str, Any], name: str = name, field: str = field) -> None:
                part = data if name == "manifest" else data[{"segment": "segments"}.get(name, name)]
                part = part[0] if isinstance(part, list) else part
                part.pop(field, None)  # the release may not know it
                part["a field of a later release"] = 1

            to = changed(tables / "intervals", tmp_path / f"{name} {field}", without)
            if (row["required"], row["read by the JVM"]) != ("yes", "yes"):
                java.manifest(to)
                continue
            with pytest.raises(Py4JJavaError) as caught:
                java.manifest(to)
            assert "bsjoin.errors.DamagedTableError" in str(caught.value), row
            assert str(to) in str(caught.value)


def test_a_newer_format_is_refused_by_its_number_everywhere(
    java: Java, spark: SparkSession, tables: Path, tmp_path: Path, runtime: str
) -> None:
    """By all that open a table, and by a query that was planned before."""

    def newer(data: dict[str, Any]) -> None:
        for name in [*data]:
            del data[name]
        data |= {"format": 3, "written_by": "bsjoin 9.0.0", "another": "layout"}

    to = Path(shutil.copytree(tables / "direct", tmp_path / "newer"))
    rows = BatchTable.open(to).join(spark.range(9).selectExpr("int(id) AS k"), "k")
    (to / "versions" / "00000001.json").unlink()
    changed(tables / "direct", to, newer)
    says = (
        "has format 3, this bsjoin reads formats up to 2: use bsjoin 9.0.0, which wrote it, or a "
        "later"
    )
    with pytest.raises(TableNotFoundError, match=says.replace(".", r"\.")):
        BatchTable.open(to)
    with pytest.raises(Py4JJavaError) as of_java:
        java.manifest(to)
    named = f"the file 'versions/00000001.json' of the table in '{to}' {says}"
    assert f"bsjoin.errors.TableNotFoundError: {named}" in str(of_java.value)
    with pytest.raises(PySparkException, match=says.replace(".", r"\.")):
        spark.sql(f"SELECT * FROM bsjoin.`{to}`").collect()
    with pytest.raises((PySparkException, Py4JJavaError), match="has format 3"):
        rows.collect()
