"""``refresh="on_commit"`` over a catalogue of Spark's second interface whose tables have versions.

The catalogue is that of ``VersionedCatalog.java``, which knows nothing of bsjoin.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyspark
import pytest
from following_samples import figures, following, stored
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession
from spark_samples import Feed, soon

import bsjoin
from bsjoin import BatchTable, Full
from bsjoin.errors import ArgumentError

pytestmark = pytest.mark.usefixtures("interpreted", "at_once")

_SOURCE = Path(__file__).with_name("VersionedCatalog.java")
_NAME = "spark.sql.catalog.versioned"
_READ = ("spark-", "scala-library", "kryo")
"""The jars that the catalogue is compiled against."""


@pytest.fixture(scope="module")
def catalog(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """The catalogue ``versioned`` of the session, in the JVM."""
    home = os.environ.get("JAVA_HOME")
    javac = shutil.which("javac", path=f"{home}/bin" if home else None)
    if javac is None:
        pytest.skip("there is no compiler of Java")
    classes = tmp_path_factory.mktemp("classes")
    jars = Path(os.environ.get("SPARK_HOME") or Path(pyspark.__file__).parent) / "jars"
    read = [str(jar) for name in _READ for jar in jars.glob(f"{name}*.jar")]  # of 280
    command = [javac, "-J-XX:TieredStopAtLevel=1", "-proc:none", "-cp", os.pathsep.join(read)]
    subprocess.run([*command, "-d", str(classes), str(_SOURCE)], check=True)
    jvm = spark._jvm
    thread = jvm.java.lang.Thread.currentThread()
    before = thread.getContextClassLoader()
    urls = spark.sparkContext._gateway.new_array(jvm.java.net.URL, 1)
    urls[0] = jvm.java.io.File(str(classes)).toURI().toURL()
    thread.setContextClassLoader(jvm.java.net.URLClassLoader(urls, before))
    try:
        spark.conf.set(_NAME, _SOURCE.stem)
        manager = spark._jsparkSession.sessionState().catalogManager()
        found = manager.catalog("versioned")  # from now on the session has it
    finally:
        thread.setContextClassLoader(before)
    yield found
    spark.conf.unset(_NAME)


def test_each_version_of_a_table_is_read_whole(
    spark: SparkSession, tmp_path: Path, catalog: Any, builds: list[str]
) -> None:
    catalog.commit("cities", [1, 2, 3], "a")
    df = spark.table("versioned.cities").where("k > 1")
    table = BatchTable.build(df, on="k", path=tmp_path / "table")
    look = following(table, df)
    look.look()
    read = len(builds)
    look.look()
    assert (len(builds), stored(table)) == (read, [(2, "a"), (3, "a")])
    commits: list[list[int]] = [[2, 4], [], [5, 5]]
    for number, keys in enumerate(commits, 2):
        catalog.commit("cities", keys, f"of {number}")
        look.look()
        read += 1
        assert len(builds) == read
        assert stored(table) == [(k, f"of {number}") for k in keys]
        version = table.versions()[-1].source
        assert (version.source, version.version) == ("the table versioned.cities", str(number))
        assert version == figures(table).source == figures(table).newest
        look.look()
        assert len(builds) == read
    assert figures(table).read_whole_why == "the source does not tell what has changed"
    # One that is made again has its name and its version, and another identifier: Spark refuses it
    # under the DataFrame of before.
    catalog.remove("cities")
    with pytest.raises(AnalysisException, match="cities"):
        look.look()
    assert stored(table) == [(5, "of 4"), (5, "of 4")]
    for _ in range(4):
        catalog.commit("cities", [7], "again")
    with pytest.raises(AnalysisException, match="re-create DataFrame"):
        look.look()
    following(table, spark.table("versioned.cities")).look()
    assert stored(table) == [(7, "again")]


def test_a_join_follows_by_itself_and_a_restart_finds_the_version(
    spark: SparkSession, tmp_path: Path, catalog: Any, builds: list[str], feed: Feed
) -> None:
    catalog.commit("items", [1], "a")
    df = spark.table("versioned.items")
    joined = bsjoin.join(feed.stream, df, "k", how="left")
    query = feed.start(joined)
    assert feed.turn(query, 1, 2) == [(1, "a"), (2, None)]
    catalog.commit("items", [1, 2], "b")
    soon(lambda: feed.turn(query, 2), [(2, "b")])
    store = tmp_path / "store"
    for reads in (1, 0):
        read = len(builds)
        cache = Full(refresh="on_commit", store=store)
        bsjoin.join(feed.stream, spark.table("versioned.items"), "k", how="left", cache=cache)
        assert len(builds) == read + reads


def test_a_table_without_a_version_is_an_error_at_the_call(
    spark: SparkSession, catalog: Any, feed: Feed
) -> None:
    catalog.commit("plain", [1], "a")
    with pytest.raises(ArgumentError, match=r"versioned\.plain tells no version"):
        bsjoin.join(
            feed.stream, spark.table("versioned.plain"), "k", cache=Full(refresh="on_commit")
        )
