"""What others wrote into the folder of a table is data: none of it runs, none of it leads outside.

The attacks are made as an attacker would: on a real table, with a text editor.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hostile_jvm import change
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as T  # noqa: N812
from spark_samples import files

import bsjoin
from bsjoin import AsOf, BatchTable, Full
from bsjoin.errors import StoreError, TableNotFoundError
from bsjoin.plan import StoredTable
from bsjoin.runtimes.python.worker import full_cache
from bsjoin.storage import StorageLocation, builds

pytestmark = [pytest.mark.usefixtures("runtime"), pytest.mark.in_turns("runtime")]

UDT = {
    "type": "udt",
    "pyClass": "bsjoin_hostile_module.Type",
    "serializedClass": "gASVAAAAAAAAAAA=",
    "sqlType": "long",
}


@pytest.fixture(scope="module")
def tables(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two stored tables, "points" and "plain"; the tests only read them."""
    folder = tmp_path_factory.mktemp("stores")
    rows = spark.range(10).selectExpr("concat('k', id) AS k", "id AS p", "id * 2 AS v")
    BatchTable.build(rows, on="k", path=folder / "plain", fingerprint="one")
    BatchTable.build(rows, on="k", when=AsOf("p", "p"), path=folder / "points", fingerprint="one")
    return folder


@pytest.fixture
def plain(tables: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(tables / "plain", tmp_path / "plain"))


@pytest.fixture
def rows(spark: SparkSession) -> DataFrame:
    ids = spark.range(3, numPartitions=1)
    return ids.selectExpr("concat('k', id) AS k", "id AS p", "id * 2 AS v")


@pytest.fixture
def marker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A file that is written as soon as anybody imports the hostile module."""
    marker = tmp_path / "the code ran"
    folder = tmp_path / "on the path"
    folder.mkdir()
    (folder / "bsjoin_hostile_module.py").write_text(
        f"open({str(marker)!r}, 'w').close()\n"
        "from pyspark.sql.types import LongType, UserDefinedType\n"
        "class Type(UserDefinedType):\n"
        "    @classmethod\n"
        "    def sqlType(cls): return LongType()\n"
    )
    monkeypatch.syspath_prepend(str(folder))
    schema = {"fields": [{"name": "f", "type": UDT, "nullable": True, "metadata": {}}]}
    T.StructType.fromJson(schema)  # the attack works
    assert marker.exists()
    marker.unlink()
    sys.modules.pop("bsjoin_hostile_module")
    yield marker
    sys.modules.pop("bsjoin_hostile_module", None)


def with_type(dtype: Any) -> Callable[[dict[str, Any]], None]:
    """Give the column ``v`` another type."""

    def edit(data: dict[str, Any]) -> None:
        schema = json.loads(data["spark_schema"])
        next(f for f in schema["fields"] if f["name"] == "v")["type"] = dtype
        data["spark_schema"] = json.dumps(schema)

    return edit


ARRAY = {"type": "array", "elementType": UDT, "containsNull": True}
MAP = {"type": "map", "keyType": "string", "valueType": ARRAY, "valueContainsNull": True}
FIELD = {"name": "f", "type": MAP, "nullable": True, "metadata": {}}


HOSTILE: list[tuple[str, Callable[[dict[str, Any]], None], str]] = [
    ("plain", with_type(UDT), "the column 'v': user-defined types are refused"),
    ("plain", with_type({"type": "struct", "fields": [FIELD]}), "user-defined types are ref"),
    ("plain", lambda data: data["keys"][0].__setitem__(1, UDT), "a dict is not a type"),
    ("points", lambda data: data["ranged"].update(types=[UDT]), "types has a dict"),
]


def doors(table: BatchTable, rows: DataFrame, when: AsOf | None) -> list[Callable[[], object]]:
    """All that reads the manifest of a table that was opened before it was changed."""
    streamed, path = rows.select("k", "p"), table.path
    return [
        lambda: table.join(streamed, "k", when=when),
        lambda: table.refresh(rows),
        table.versions,
        table.verify,
        table.stats,
        lambda: table.vacuum(older_than=0),
        lambda: BatchTable.build(rows, on="k", when=when, path=path),
        lambda: bsjoin.join(streamed, rows, "k", when=when, cache=Full(store=path)),
        lambda: full_cache._version(
            StoredTable(location=StorageLocation.of(path), epoch=1, version=None, keys=()),
            full_cache._Table(),
            1,
        ),
    ]


def test_no_type_in_a_manifest_runs_code(
    rows: DataFrame, tables: Path, tmp_path: Path, marker: Path
) -> None:
    for number, (name, edit, says) in enumerate(HOSTILE):
        path = Path(shutil.copytree(tables / name, tmp_path / str(number)))
        before = BatchTable.open(path)
        calls = doors(before, rows, AsOf("p", "p") if name == "points" else None)
        change(path, edit)
        for call in (lambda path=path: BatchTable.open(path, verify=False), *calls):  # type: ignore[misc]
            with pytest.raises(TableNotFoundError, match=says) as caught:
                call()
            assert str(path) in str(caught.value)
        assert str(path) in repr(before)
    assert not marker.exists()
    assert "bsjoin_hostile_module" not in sys.modules


def test_no_name_in_a_manifest_leads_outside(plain: Path, rows: DataFrame) -> None:
    table = BatchTable.open(plain)
    joined = table.join(rows.select("k"))
    for name in ("/etc/hostname", "data/../../x", "file:///etc/x"):
        change(plain, lambda data, name=name: data["segments"][0].update(name=name))
        for call in (lambda: BatchTable.open(plain), lambda: table.refresh(rows)):
            with pytest.raises(TableNotFoundError, match="is not in a folder below 'data/'"):
                call()
    with pytest.raises(Exception, match="is not in a folder below 'data/'"):
        joined.collect()


@pytest.mark.usefixtures("temporary")
def test_a_name_in_a_manifest_reads_no_local_file_of_a_table_behind_a_url(plain: Path) -> None:
    (folder,) = (plain / "data").iterdir()
    change(plain, lambda data: data["segments"][0].update(name=f"{folder}/0000"))
    for url in (f"local://{plain}", f"simplecache::file://{plain}"):
        with pytest.raises(TableNotFoundError, match="is not in a folder below 'data/'"):
            BatchTable.open(url)
        for name in (str(folder / "x"), "../x", "file:///x"):
            for call in (
                lambda name=name, url=url: StorageLocation.of(url).map(name, 1, ""),
                lambda name=name, url=url: StorageLocation.of(url).read(name),
                lambda name=name, url=url: StorageLocation.of(url).create(name, b""),
                lambda name=name, url=url: StorageLocation.of(url).remove(name),
                lambda name=name, url=url: StorageLocation.of(url).size(name),
            ):
                with pytest.raises(StoreError, match="is not the name of a file below"):
                    call()


def test_a_link_out_of_the_folder_is_not_followed(
    plain: Path, rows: DataFrame, tmp_path: Path
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "mine").mkdir()
    (outside / "mine" / "diary").write_text("dear diary")
    table = BatchTable.open(plain)
    (victim,) = plain.glob("data/*/*.index.arrow")
    shutil.move(victim, outside / victim.name)
    victim.symlink_to(outside / victim.name)
    for call in (lambda: BatchTable.open(plain), table.verify):
        with pytest.raises(StoreError, match=r"is a link to .* which is outside of"):
            call()
    with pytest.raises(Exception, match="which is outside of"):
        table.join(rows.select("k")).collect()

    shutil.rmtree(plain / "data")
    (plain / "data").symlink_to(outside)
    for call in (lambda: table.vacuum(older_than=0), lambda: table.refresh(rows)):
        with pytest.raises(StoreError, match="which is outside of"):
            call()
    assert files(outside) == sorted([outside / "mine" / "diary", outside / victim.name])


def test_the_whole_folder_may_be_a_link(
    plain: Path, rows: DataFrame, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "kept").mkdir()
    link = plain / "data" / ("0" * 32)  # as the folder of a build that no version has
    link.symlink_to(tmp_path / "kept")
    (tmp_path / "elsewhere").symlink_to(plain)
    table = BatchTable.open(tmp_path / "elsewhere")
    table.vacuum(older_than=0)
    monkeypatch.setattr(builds, "_UNKNOWN_AGE_US", -1)  # a day later
    table.vacuum(older_than=0)
    assert not link.is_symlink()
    assert (tmp_path / "kept").is_dir()
    assert table.join(rows.select("k")).count() == 3


def test_a_pipe_does_not_hang_who_reads_it(plain: Path, rows: DataFrame) -> None:
    table = BatchTable.open(plain)
    (victim,) = plain.glob("data/*/*.index.arrow")
    victim.unlink()
    os.mkfifo(victim)
    with pytest.raises(StoreError, match="neither a file nor a folder"):
        table.verify()
    with pytest.raises(Exception, match="neither a file nor a folder"):
        table.join(rows.select("k")).collect()
    (plain / "versions" / "00000001.json").unlink()
    os.mkfifo(plain / "versions" / "00000001.json")
    with pytest.raises(StoreError, match="neither a file nor a folder"):
        BatchTable.open(plain)
