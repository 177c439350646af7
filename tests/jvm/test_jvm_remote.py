"""A table behind a URL in the JVM: a Python process beside it copies the files to this host."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Any

import pytest
from plain_joins import LOOKUP, plan_of
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from sessions import configured
from spark_samples import rows, soon, table_of

import bsjoin
from bsjoin import BatchTable
from bsjoin.runtimes.jvm import joins
from bsjoin.storage import StorageLocation
from bsjoin.storage.copies import HostCopies

pytestmark = pytest.mark.usefixtures("in_jvm", "soon_active")

_MODULE = "bsjoin.runtimes.python.worker.copy_service"


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"local://{tmp_path}/table"  # remote for bsjoin, and within reach of its processes


@pytest.fixture
def table(spark: SparkSession, url: str) -> BatchTable:
    return BatchTable.build(table_of(spark, 1), on="k", path=url)


@pytest.fixture
def keys(spark: SparkSession) -> DataFrame:
    return spark.range(-1, 6).withColumnRenamed("id", "k")


def process(spark: SparkSession) -> int:
    """The number of the driver's process."""
    java: Any = spark._jvm
    return int(java.java.lang.ProcessHandle.current().pid())


def services(parent: int) -> list[int]:
    """The processes that copy files for a JVM."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            status = (folder / "stat").read_text().rpartition(")")[2].split()
            command = (folder / "cmdline").read_bytes().decode().split("\0")
        except OSError:
            continue
        if int(status[1]) == parent and _MODULE in command:
            found.append(int(folder.name))
    return found


def copies(table: BatchTable) -> dict[str, int]:
    """The names and inodes of the copies of a table's files on this host."""
    return {copy.name: copy.stat().st_ino for copy in HostCopies(table.path).folder.glob("copy-*")}


def refused(df: DataFrame, error: str, *parts: str) -> str:
    """The message of an error that a query ends with."""
    with pytest.raises((Py4JJavaError, PySparkException)) as caught:
        df.collect()
    message = str(caught.value).split("\n\tat ")[0]
    assert f"bsjoin.errors.{error}: " in message
    for part in parts:
        assert part in message, f"{part!r} is not in: {message}"
    return message


def test_the_rows_are_those_of_the_other_runtime_and_of_spark(
    spark: SparkSession, url: str
) -> None:
    """Of the copies that the other runtime has made, which the JVM maps."""
    stored = spark.range(40).selectExpr("concat('k', id % 30) AS k", "id AS v", "id / 2 AS d")
    stream = spark.range(50).selectExpr("nullif(concat('k', id % 40), 'k3') AS k", "id")
    table = BatchTable.build(stored, on="k", path=url)
    HostCopies(table.path).keep([])
    assert not copies(table)
    with configured(spark, {"spark.bsjoin.runtime": "python"}):
        others = rows(table.join(stream, how="left"))
    copied = copies(table)
    assert len(copied) == 4
    joined = table.join(stream, how="left")
    assert LOOKUP in plan_of(joined)
    wanted = stream.join(stored, "k", "left").select(joined.columns)
    assert rows(joined) == others == rows(wanted)
    assert copies(table) == copied
    mapped = Path(f"/proc/{process(spark)}/maps").read_text().splitlines()
    assert set(copied.values()) <= {int(line.split()[4]) for line in mapped}


def test_what_cannot_be_downloaded_is_an_error_until_it_can(
    spark: SparkSession, tmp_path: Path, table: BatchTable, keys: DataFrame
) -> None:
    """A version that is gone or cannot be read, damaged content, and a process that has ended."""
    HostCopies(table.path).keep([])
    # What a plan fails with stays with its DataFrame.
    gone, closed, damaged, sound = (table.join(keys) for _ in range(4))
    manifest, kept = tmp_path / "table" / "versions" / "00000001.json", tmp_path / "kept"
    manifest.rename(kept)
    refused(gone, "VersionNotFoundError", "version 1 of the table", table.path, "there are []")
    manifest.symlink_to(manifest)  # leads nowhere: the system refuses to open it
    refused(closed, "StoreAccessError", "cannot read 'versions/00000001.json'", table.path)
    manifest.unlink()
    kept.rename(manifest)
    (column,) = tmp_path.glob("table/data/*/*.1.arrow")
    content = column.read_bytes()
    column.write_bytes(content[:-20] + bytes([content[-20] ^ 1]) + content[-19:])
    refused(damaged, "DamagedTableError", column.name, "downloaded twice", table.path)
    column.write_bytes(content)
    before = services(process(spark))
    for service in before:
        os.kill(service, signal.SIGKILL)
    soon(lambda: services(process(spark)), [])
    assert {row["v"] for row in sound.collect()} == {1}
    assert before
    assert len(services(process(spark))) == 1
    assert len(copies(table)) == 2


def test_a_table_that_is_built_again_is_never_mixed_up(
    spark: SparkSession, url: str, table: BatchTable, keys: DataFrame
) -> None:
    """Its first version has the number of the one before: the store's list tells them apart."""
    joined = keys.join(table.to_df(spark), "k")
    assert {row["v"] for row in joined.collect()} == {1}
    StorageLocation.of(url).remove("")
    BatchTable.build(table_of(spark, 5), on="k", path=url)
    refused(joined.limit(9), "VersionNotFoundError", "built again", url)
    assert {row["v"] for row in keys.join(table.to_df(spark), "k").collect()} == {5}


def test_the_sessions_of_connect_share_what_does_not_end(
    spark: SparkSession, table: BatchTable
) -> None:
    """A process and threads. Each session loads its own copy of the jar, as a class loader here."""
    vm: Any = spark._jvm

    def array(of: Any, *values: Any) -> Any:
        made = spark.sparkContext._gateway.new_array(of, len(values))
        for place, value in enumerate(values):
            made[place] = value
        return made

    jar = array(vm.java.net.URL, vm.java.io.File(bsjoin.jar()).toURI().toURL())
    ours = vm.java.lang.Thread.currentThread().getContextClassLoader()
    types = (vm.java.lang.Class.forName(f"java.{name}") for name in ("lang.String", "util.List"))
    given, python = array(vm.java.lang.Class, *types), vm.java.util.ArrayList()
    python.add(sys.executable)
    seen = []
    for loader in (ours, vm.org.apache.spark.util.ChildFirstURLClassLoader(jar, ours)):
        of_table = vm.java.lang.Class.forName("bsjoin.jvm.storage.Table", True, loader)
        newest = of_table.getMethod("newest", given)
        newest.invoke(None, array(vm.java.lang.Object, table.path, python))
        poller = vm.java.lang.Class.forName("bsjoin.jvm.storage.VersionPoller", True, loader)
        thread = poller.getDeclaredField("REMOTE")
        thread.setAccessible(True)
        shared = services(process(spark)), vm.java.lang.System.identityHashCode(thread.get(None))
        seen.append((of_table.hashCode(), shared))
    assert seen[0][0] != seen[1][0]
    assert seen[0][1] == seen[1][1]
    assert seen[0][1][0]


def test_a_python_that_does_not_run_or_is_not_known(
    spark: SparkSession,
    tmp_path: Path,
    table: BatchTable,
    keys: DataFrame,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(joins, "is_connect", lambda _: True)  # the driver's is not known
    for number, command in enumerate(("/nowhere/python", "true")):
        url = f"local://{tmp_path}/never_read_{number}"
        other = BatchTable.build(table_of(spark, 1), on="k", path=url)
        monkeypatch.setattr(joins, "workers_python", lambda _, command=command: command)
        joined = other.join(keys)
        refused(joined, "WorkerEnvironmentError", url, "does not run", "PYSPARK_PYTHON")
    monkeypatch.setattr(joins, "is_connect", lambda _: False)
    monkeypatch.setattr(joins, "workers_python", lambda _: None)
    joined = table.join(keys)
    assert LOOKUP not in plan_of(joined)
    assert joined.count() == 4


def test_a_url_with_a_secret_stays_out_of_the_plan(
    spark: SparkSession, tmp_path: Path, keys: DataFrame, capsys: pytest.CaptureFixture[str]
) -> None:
    url = f"local://{tmp_path}/table?sas=s3cr3t"
    table = BatchTable.build(table_of(spark, 1), on="k", path=url)
    joined = table.join(keys)
    assert joined.count() == 4
    bsjoin.explain(joined)
    joined.explain(True)
    printed = capsys.readouterr().out
    assert "Python workers" in printed
    assert "s3cr3t" not in printed
