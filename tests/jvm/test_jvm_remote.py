"""A table behind a URL in the JVM: a Python process beside it copies the files to this host."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyspark
import pytest
from oracle import settings
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from spark_samples import Feed, cycles, rows, table_of

import bsjoin
from bsjoin import BatchTable
from bsjoin.runtimes import jvm
from bsjoin.runtimes.jvm import joins
from bsjoin.storage import versions
from bsjoin.storage.copies import HostCopies
from bsjoin.storage.versioned_folder import Activation

_MODULE = "bsjoin.runtimes.python.worker.copy_service"
_OPENS = [
    f"--add-opens=java.base/{package}=ALL-UNNAMED"
    for package in ("java.lang", "java.nio", "sun.nio.ch", "jdk.internal.misc")
]
_PROGRAM = """
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.lang.reflect.Method;

public class Program {
  public static void main(String[] arguments) throws Exception {
    Class<?> table = Class.forName("bsjoin.jvm.catalog.StoredTable");
    Method planned = table.getDeclaredMethod("planned", JsonNode.class);
    planned.setAccessible(true);
    ObjectNode spec = new ObjectMapper().createObjectNode().put("path", arguments[0]);
    spec.put("epoch", Long.parseLong(arguments[2])).put("version", 1);
    spec.putArray("python").add(arguments[1]);
    planned.invoke(null, spec); // reads version 1
    System.out.println("read");
    Thread.sleep(600_000);
  }
}
"""


@pytest.fixture(scope="module", autouse=True)
def _jvm(spark: SparkSession) -> Iterator[None]:
    spark.conf.set("spark.bsjoin.runtime", "jvm")
    assert jvm.attached(spark) is None
    yield
    spark.conf.unset("spark.bsjoin.runtime")


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """A version of a remote table activates two seconds later otherwise."""
    soon = Activation(local_us=100_000, remote_us=100_000, tries=10)
    monkeypatch.setattr(versions, "_ACTIVATION", soon)


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


def builds(table: BatchTable) -> set[str]:
    """The builds that this host has copies of."""
    return {name.split("%2F")[1] for name in copies(table)}


def remove_copies(table: BatchTable) -> None:
    """Remove the copies, such as those of the build."""
    HostCopies(table.path).keep([])
    assert not copies(table)


def refused(df: DataFrame, error: str, *parts: str) -> str:
    """The message of an error that a query ends with."""
    with pytest.raises((Py4JJavaError, PySparkException)) as caught:
        df.collect()
    message = str(caught.value).split("\n\tat ")[0]
    assert f"bsjoin.errors.{error}: " in message
    for part in parts:
        assert part in message, f"{part!r} is not in: {message}"
    return message


@pytest.mark.parametrize("how", ["inner", "left", "semi", "anti"])
def test_the_rows_are_those_of_the_other_runtime_and_of_spark(
    spark: SparkSession, url: str, how: Any
) -> None:
    stored = spark.range(40).selectExpr("concat('k', id % 30) AS k", "id AS v", "id / 2 AS d")
    stream = spark.range(50).selectExpr("nullif(concat('k', id % 40), 'k3') AS k", "id")
    table = BatchTable.build(stored, on="k", path=url)
    joined = table.join(stream, how=how)
    assert "BsjoinLookup" in joined._jdf.queryExecution().executedPlan().toString()
    with settings(spark, spark__bsjoin__runtime="python"):
        other = table.join(stream, how=how)
    assert rows(joined) == rows(other) == rows(stream.join(stored, "k", how).select(joined.columns))


def test_a_stream_follows_the_versions_and_a_replay_has_the_same(
    spark: SparkSession, tmp_path: Path, table: BatchTable
) -> None:
    feed = Feed(spark, tmp_path / "feed")
    for version in (1, 2):
        if version == 2:
            assert table.refresh(table_of(spark, 2)) == 2
        feed.add(1, 9)
        query = feed.start(table.join(feed.stream, how="left"))
        query.processAllAvailable()
        query.stop()
        (cycle,) = cycles(query)
        assert (cycle.runtime, cycle.table_version, cycle.hits) == ("jvm", version, 1)
    before = dict(feed.results)
    assert before == {0: [(1, 1), (9, None)], 1: [(1, 2), (9, None)]}
    last = feed.forget_last_commit()
    table.refresh(table_of(spark, 3))
    feed.results.clear()
    query = feed.start(table.join(feed.stream, how="left"))
    query.processAllAvailable()
    query.stop()
    assert feed.results == {last: before[last]}
    assert len(builds(table)) == 1, "the copies of version 1 are not needed any more"


def test_a_damaged_download_is_an_error_and_never_used(
    spark: SparkSession, tmp_path: Path, table: BatchTable, keys: DataFrame
) -> None:
    remove_copies(table)
    (column,) = tmp_path.glob("table/data/*/*.1.arrow")
    content = column.read_bytes()
    column.write_bytes(content[:-20] + bytes([content[-20] ^ 1]) + content[-19:])
    joined = table.join(keys)
    refused(joined, "DamagedTableError", column.name, "downloaded twice", table.path)
    column.write_bytes(content)
    assert {row["v"] for row in joined.collect()} == {1}
    assert len(copies(table)) == 2


def test_a_vacuumed_version_is_an_error_that_names_those_that_are_left(
    spark: SparkSession, table: BatchTable, keys: DataFrame
) -> None:
    joined = table.join(keys)
    table.refresh(table_of(spark, 2))
    assert table.vacuum(keep=1, older_than="0 seconds") == [1]
    refused(joined, "VersionNotFoundError", "version 1 of the table", table.path, "[2]")


def test_a_remote_that_fails_is_an_error_until_it_works_again(
    spark: SparkSession, tmp_path: Path, table: BatchTable, keys: DataFrame
) -> None:
    joined = table.join(keys)
    manifest = tmp_path / "table" / "versions" / "00000001.json"
    manifest.rename(tmp_path / "kept")
    manifest.symlink_to(manifest)  # leads nowhere: the system refuses to open it
    refused(joined, "StoreAccessError", "cannot read 'versions/00000001.json'", table.path)
    manifest.unlink()
    (tmp_path / "kept").rename(manifest)
    assert joined.count() == 4


def test_a_service_that_is_killed_is_started_again(
    spark: SparkSession, tmp_path: Path, table: BatchTable, keys: DataFrame
) -> None:
    assert table.join(keys).count() == 4
    before = services(process(spark))  # of other tests' commands of Python, too
    for service in before:
        os.kill(service, signal.SIGKILL)
    table.refresh(table_of(spark, 2))
    assert {row["v"] for row in table.join(keys).collect()} == {2}
    (after,) = services(process(spark))
    assert after not in before


@pytest.mark.parametrize("command", ["/nowhere/python", "true"])
def test_a_python_that_does_not_run_is_an_error_that_says_what_to_set(
    spark: SparkSession,
    tmp_path: Path,
    keys: DataFrame,
    monkeypatch: pytest.MonkeyPatch,
    command: str,
) -> None:
    url = f"local://{tmp_path}/never_read"
    table = BatchTable.build(table_of(spark, 1), on="k", path=url)
    monkeypatch.setattr(joins, "workers_python", lambda _: command)
    monkeypatch.setattr(joins, "is_connect", lambda _: True)  # the driver's is not known
    refused(table.join(keys), "WorkerEnvironmentError", url, "does not run", "PYSPARK_PYTHON")


def test_the_processes_of_a_host_share_the_copies(
    spark: SparkSession, table: BatchTable, keys: DataFrame
) -> None:
    remove_copies(table)
    with settings(spark, spark__bsjoin__runtime="python"):
        assert table.join(keys).count() == 4
    copied = copies(table)
    assert len(copied) == 2
    assert table.join(keys).agg(F.sum("v")).collect()[0][0] == 4
    assert copies(table) == copied
    mapped = Path(f"/proc/{process(spark)}/maps").read_text().splitlines()
    assert set(copied.values()) <= {int(line.split()[4]) for line in mapped}


def test_the_service_ends_with_the_jvm(
    spark: SparkSession, tmp_path: Path, table: BatchTable
) -> None:
    program = tmp_path / "Program.java"
    program.write_text(_PROGRAM)
    java: Any = spark._jvm
    home = java.java.lang.System.getProperty("java.home")
    jars = Path(pyspark.__file__).parent / "jars"
    command = [f"{home}/bin/java", *_OPENS, "-cp", f"{bsjoin.jar()}:{jars}/*", str(program)]
    manifest = json.loads((tmp_path / "table" / "versions" / "00000001.json").read_text())
    given = [table.path, os.environ["PYSPARK_PYTHON"], str(manifest["created_at_us"])]
    with subprocess.Popen([*command, *given], stdout=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None
        assert running.stdout.readline() == "read\n"
        (service,) = services(running.pid)
        running.kill()
    deadline = time.monotonic() + 30
    while Path(f"/proc/{service}").exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not Path(f"/proc/{service}").exists()


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


def test_a_server_whose_python_is_not_known_answers_in_python_workers(
    spark: SparkSession,
    table: BatchTable,
    keys: DataFrame,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(joins, "workers_python", lambda _: None)
    joined = table.join(keys)
    assert "BsjoinLookup" not in joined._jdf.queryExecution().executedPlan().toString()
    assert joined.count() == 4
