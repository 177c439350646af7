"""Which runtime a join gets, what says so, and what is refused."""

from __future__ import annotations

import logging
import re
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary, WeakSet

import pytest
from cache_samples import Model
from oracle import united
from plain_joins import plan_of as plan
from pyspark.sql import DataFrame, SparkSession
from sessions import configured
from spark_samples import Feed, cycles

import bsjoin
from bsjoin import AsOf, Band, BatchTable, Incremental, Overlaps, Within
from bsjoin.errors import ArgumentError, WorkerEnvironmentError
from bsjoin.runtimes.jvm import attach
from bsjoin.runtimes.jvm import jar as jars

GENERATED = {
    "spark.sql.codegen.factoryMode": "CODEGEN_ONLY",
    "spark.sql.codegen.fallback": "false",
}


def is_in_jvm(df: DataFrame) -> bool:
    return "BsjoinLookup" in plan(df)


@pytest.fixture
def probes(spark: SparkSession) -> DataFrame:
    return spark.range(-2, 12).withColumnRenamed("id", "k")


def test_a_join_runs_in_the_jvm_unless_the_session_says_otherwise(
    spark: SparkSession, probes: DataFrame, people: DataFrame, capsys: pytest.CaptureFixture[str]
) -> None:
    table = BatchTable.build(people, on="k")
    answers = set()
    for setting, there in ((None, True), ("auto", True), ("jvm", True), (" Python", False)):
        with configured(spark, {"spark.bsjoin.runtime": setting} if setting else {}):
            joined = bsjoin.join(probes, table, "k")
        assert is_in_jvm(joined) == there
        answers.add(tuple(sorted(map(tuple, joined.collect()))))
        bsjoin.explain(joined)
        printed = capsys.readouterr().out
        assert ("generated code" if there else "Python workers") in printed
    assert len(answers) == 1


def test_settings_and_versions_that_cannot_be_are_refused(
    spark: SparkSession, probes: DataFrame, people: DataFrame, monkeypatch: pytest.MonkeyPatch
) -> None:
    with (
        configured(spark, {"spark.bsjoin.runtime": "jwm"}),
        pytest.raises(ArgumentError, match=r"spark.bsjoin.runtime='jwm' is not known.*'jvm'"),
    ):
        bsjoin.join(probes, people, "k")
    for version in ("4.0.2", "3.5.7-amzn-1"):
        monkeypatch.setattr(spark, "version", version)  # as a Connect server says it
        told = rf"needs Spark 4\.1 or.*upgrade Spark {version}"
        with (
            configured(spark, {"spark.bsjoin.runtime": "jvm"}),
            pytest.raises(WorkerEnvironmentError, match=told),
        ):
            bsjoin.join(probes, people, "k")
    assert bsjoin.join(probes, people, "k").count() == 10


def test_a_join_is_generated_code_in_every_thread_and_session(spark: SparkSession) -> None:
    """Spark compiles in the thread that runs a query: its class loader must have the functions."""

    def count(session: SparkSession) -> int:
        with configured(session, GENERATED):
            rows = session.range(-2, 12).withColumnRenamed("id", "k")
            table = session.range(10).selectExpr("id AS k", "concat('name ', id) AS name")
            joined = bsjoin.join(rows, table, "k")
            assert is_in_jvm(joined)
            return joined.where("name >= 'name'").count()

    with ThreadPoolExecutor(2) as threads:
        assert list(threads.map(count, [spark, spark.newSession()])) == [10] * 2


@pytest.mark.parametrize(
    "hows",
    [["left"], pytest.param(["inner", "semi", "anti"], marks=pytest.mark.long)],
    ids=["left", "others"],
)
def test_a_row_is_looked_up_once_whatever_the_optimizer_moves(
    spark: SparkSession, tmp_path: Path, hows: list[Any]
) -> None:
    """A filter on what was found, moved below or merged, would look it up again."""
    built = spark.range(10).selectExpr("id AS k", "id AS low", "id + 2 AS high")
    table = BatchTable.build(built, on="k", path=tmp_path / "keys")
    ranges: dict[str, Any] = {
        "band": Band("x", "low", 1, 1),
        "interval": Within("x", "low", "high"),
        "nearest": AsOf("x", "low"),
    }
    by_range = {
        name: BatchTable.build(built, on="k", when=when, path=tmp_path / name)
        for name, when in ranges.items()
    }
    for key in ("id", "nullif(id, 3)"):
        rows = spark.range(12).selectExpr(f"{key} AS k", f"{key} AS x").localCheckpoint()
        for how in hows:
            searched = {"find": table.join(rows, "k", how=how)}
            searched["twice"] = table.join(searched["find"], "k", how=how, suffix="_2")
            for name, when in ranges.items() if key != "id" else ():
                if name != "nearest" or how in ("inner", "left"):
                    searched[name] = by_range[name].join(rows, "k", how, when=when)
            for name, joined in searched.items():
                lookups = 2 if name == "twice" else 1
                assert plan(joined).count("BsjoinLookup") == lookups, (key, how, name)


def test_types_that_the_jvm_does_not_read_go_to_python(
    spark: SparkSession, capsys: pytest.CaptureFixture[str]
) -> None:
    probes = spark.range(2).withColumnRenamed("id", "k")
    columns = "id AS k", "array(id) AS a", "named_struct('a', id) AS s", "map(id, id) AS `m: n`"
    table = BatchTable.build(spark.range(3).selectExpr(*columns, "id AS plain"), on="k")
    for name in ("a", "s", "m: n"):
        joined = table.join(probes, select=[name])
        assert not is_in_jvm(joined)
        bsjoin.explain(joined)
        assert f"not in the JVM: the column {name!r} of type " in capsys.readouterr().out
    assert is_in_jvm(table.join(probes, select=["plain"]))  # what is not selected does not matter


@pytest.mark.long
def test_what_only_python_does_is_done_there_whatever_the_setting(
    spark: SparkSession, people: DataFrame, model: Model, feed: Feed
) -> None:
    nested = people.selectExpr("k", "array(k) AS list")
    with configured(spark, {"spark.bsjoin.runtime": "jvm"}):
        sourced = bsjoin.join(feed.stream, model, "k", cache=Incremental(max_rows=9), how="left")
        listed = bsjoin.join(sourced, nested, "k")
        joined = bsjoin.join(listed, people, "k", how="semi")
    query = feed.run(joined.select("k"), 1, 2, 7, 99)
    assert feed.results[0] == [(1,), (2,), (2,), (7,)]
    assert [(cycle.runtime, cycle.runtime_reason) for cycle in cycles(query)] == [
        ("python", "the cache is incremental"),
        ("python", "the column 'list' of type array<bigint> is not read in the JVM"),
        ("jvm", ""),
    ]


@pytest.mark.parametrize(
    "types",
    [["bigint"], pytest.param(["string", "decimal(30,2)"], marks=pytest.mark.long)],
    ids=["one", "others"],
)
def test_a_range_join_is_generated_code(spark: SparkSession, types: list[str]) -> None:
    band, asof = Band("q", "p", 1, 1), AsOf("q", "p")
    within, overlaps = Within("q", "p", "e"), Overlaps(("q", "r"), ("p", "e"), "both")
    kinds: dict[str, tuple[Any, ...]] = {
        "bigint": (band, asof),
        "string": (within,),  # which has no distances
        "decimal(30,2)": (band, overlaps),
    }
    counts, wanted = [], set()
    for kind in types:
        casts = [f"cast(cast({value} AS string) AS {kind})" for value in ("id", "id + 1")]
        stream = spark.range(10).selectExpr("id % 3 AS k", f"{casts[0]} AS q", f"{casts[1]} AS r")
        table = spark.range(10).selectExpr("id % 3 AS k", f"{casts[0]} AS p", f"{casts[1]} AS e")
        for when in kinds[kind]:
            joined = bsjoin.join(stream, table, "k", when=when, how="left")
            name = f"{kind} {type(when).__name__}"
            counts.append(joined.where("p = q").selectExpr(f"'{name}' AS name"))
            # As texts "9" is above "10", and the interval from it is empty.
            wanted.add((name, 10 - (kind == "string")))
    with configured(spark, GENERATED):
        found = united(counts)
        looked_up = re.findall(r"\*\(\d+\) BsjoinLookup", plan(found))
        assert len(looked_up) == len(counts)
        assert set(Counter(row.name for row in found.collect()).items()) == wanted


def test_a_session_that_refuses_the_jar_joins_in_python_with_one_warning(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse() -> Path:
        raise jars.JarError("no jar today")

    monkeypatch.setattr(attach, "compiled", refuse)
    monkeypatch.setattr(attach, "_refused", WeakKeyDictionary())
    monkeypatch.setattr(attach, "_CLASS", "bsjoin.jvm.NotThere")
    # Other tests may have been warned in this application.
    monkeypatch.setattr("bsjoin.runtimes.choosing._warned", WeakSet())
    session = spark.newSession()
    with caplog.at_level(logging.WARNING, "bsjoin"):
        for _ in range(2):
            joined = joined_in(session)
            assert not is_in_jvm(joined)
            assert joined.count() == 3
    (record,) = caplog.records
    assert "no jar today" in record.message
    assert "bsjoin.jar()" in record.message
    session.conf.set("spark.bsjoin.runtime", "jvm")
    with pytest.raises(WorkerEnvironmentError, match=r"runtime=jvm: no jar today.*auto or py"):
        joined_in(session)


def joined_in(session: SparkSession) -> DataFrame:
    table = session.range(10).selectExpr("id AS k", "id AS v")
    return bsjoin.join(session.range(3).withColumnRenamed("id", "k"), table, "k")


def test_another_catalog_or_another_build_of_the_jar_stands_in_the_way_of_its_session_only(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken = spark.newSession()
    taken.conf.set("spark.sql.catalog.bsjoin", "org.example.Catalog")
    taken.conf.set("spark.bsjoin.runtime", "jvm")
    with pytest.raises(WorkerEnvironmentError, match=r"catalog.bsjoin is org.example.Catalog, and"):
        joined_in(taken)
    taken.conf.set("spark.bsjoin.runtime", "auto")
    assert not is_in_jvm(joined_in(taken))
    assert is_in_jvm(joined_in(spark.newSession()))
    other = spark.newSession()
    other.conf.set("spark.bsjoin.runtime", "jvm")
    monkeypatch.setattr(attach, "build_of_sources", lambda: "0123456789abcdef")
    monkeypatch.setattr(attach, "_refused", WeakKeyDictionary())
    with pytest.raises(WorkerEnvironmentError, match="another build of bsjoin's jar is attached"):
        joined_in(other)


def test_columns_that_nobody_uses_are_not_read(
    spark: SparkSession, people: DataFrame, tmp_path: Path
) -> None:
    wide = people.selectExpr("k", "name", "k * 2 AS twice", "cast(k AS double) AS d")
    table = BatchTable.build(wide, on="k", path=tmp_path / "table")
    probes = spark.range(5).withColumnRenamed("id", "k")
    read = table.join(probes, how="left").where("twice % 4 = 0").select("k", "twice")
    assert sorted(map(tuple, read.collect())) == [(k, 2 * k) for k in (0, 2, 4)]
    java: Any = spark._jvm
    maps = Path(f"/proc/{java.java.lang.ProcessHandle.current().pid()}/maps").read_text()
    mapped = {Path(line.split()[-1]).name for line in maps.splitlines() if str(tmp_path) in line}
    assert len(mapped) == 2, "the index and one column"


def test_a_filter_on_the_streams_columns_moves_below_the_look_up(
    spark: SparkSession, people: DataFrame, tmp_path: Path
) -> None:
    spark.range(20).selectExpr("id AS k", "id % 3 AS m").write.parquet(str(tmp_path / "rows"))
    rows = spark.read.parquet(str(tmp_path / "rows"))
    joined = bsjoin.join(rows, people, "k", how="left").where("m = 1 AND name > 'name 3'")
    assert "EqualTo(m,1)" in plan(joined), "it is pushed into the scan"
    expected = rows.join(people, "k", "left").where("m = 1 AND name > 'name 3'")
    assert sorted(joined.collect()) == sorted(expected.collect())


@pytest.mark.long
def test_a_join_by_many_columns_is_planned_at_once(spark: SparkSession) -> None:
    # foreachBatch asks for the constraints, which double with each column that gets another name.
    names = [f"k{i}" for i in range(20)]
    keys = [f"nullif(id % {2 + i}, {i}) AS {name}" for i, name in enumerate(names)]
    table = spark.range(40).selectExpr(*keys, "id AS v")
    rows = spark.range(20, 60).selectExpr(*keys, "id").localCheckpoint()
    joined = bsjoin.join(rows, table, names, how="left")
    renamed = joined.toDF(*(f"x{i}" for i in range(len(joined.columns))))
    assert is_in_jvm(renamed)
    assert renamed._jdf.queryExecution().optimizedPlan().constraints().size() < 100
    expected = rows.join(table, names, "left")
    assert sorted(map(str, renamed.collect())) == sorted(
        map(str, expected.toDF(*renamed.columns).collect())
    )
