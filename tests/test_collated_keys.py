"""Keys that are texts with a collation: equal exactly where Spark's own join takes them so."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from oracle import (
    HOWS,
    assert_same_rows,
    assert_same_schema,
    check,
    counted,
    expected,
    right_rows,
    rows_of_all,
)
from plain_joins import lookups, plain, plan_of
from py4j.protocol import Py4JJavaError
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from sessions import CODE, configured
from spark_samples import Feed

import bsjoin
from bsjoin import Band, BatchTable, Full, HotSpot
from bsjoin.errors import (
    DuplicateKeyError,
    KeyTypeError,
    TableMismatchError,
    TableNotFoundError,
    WorkerEnvironmentError,
    cause_of,
)
from bsjoin.planner.chain import step_of
from bsjoin.storage import Manifest, versions

COLLATIONS = [
    "UTF8_LCASE", "UTF8_BINARY_RTRIM", "UTF8_LCASE_RTRIM", "UNICODE", "UNICODE_CI", "UNICODE_AI",
    "UNICODE_CI_AI_RTRIM", "de_CI_AI", "tr_CI",
]  # fmt: skip
TEXTS = [
    None, "", " ", "a", "A", "a ", " a", "A  ", "\u00e4", "\u00c4", "a\u0308", "ae", "\u00df", "ss",
    "SS", "\u1e9e", "i", "I", "\u0131", "\u0130", "i\u0307", "\u00e9", "e\u0301", "E", "\ufb01",
    "fi", "\u00c5", "\u212b", "a\u0000", "a\u200b", "\u03c2", "\u03c3", "\u03a3", "\uff21", "co-op",
    "coop", "\u65e5\u672c", "\U0001f600", "x" * 300, "X" * 300,
]  # fmt: skip


def texts(spark: SparkSession, collation: str, name: str = "name") -> DataFrame:
    """Hostile texts with a collation; each has a number."""
    given = spark.createDataFrame([*enumerate(TEXTS)], "v int, t string").coalesce(1)
    return given.selectExpr("v", f"collate(t, '{collation}') AS `{name}`")


def joined_by(df: DataFrame) -> str:
    """What runs a join."""
    step = step_of(df)
    return str(step.planned.plan.runtime)


@pytest.mark.parametrize(
    "collations", [COLLATIONS[::4], pytest.param(COLLATIONS, marks=pytest.mark.long)]
)
def test_rows_are_those_of_sparks_own_join(spark: SparkSession, collations: list[str]) -> None:
    """Of each collation a left join with one runtime, and another join type with the other."""
    ours: dict[str, dict[tuple[str, str], DataFrame]] = {"jvm": {}, "python": {}}
    own = {}
    for place, collation in enumerate(collations):
        stream = texts(spark, collation).selectExpr("name", "v AS id")
        batch = texts(spark, collation, "label").where("v % 3 > 0 OR v < 8")
        own[collation] = expected(stream, batch, {"name": "label"}).drop("name")
        with configured(spark, CODE["python"]):
            table = BatchTable.build(batch, on="label")
        for turn, runtime in enumerate(ours):
            how: Any = ("inner", "semi", "anti")[place // 2 % 3] if (place + turn) % 2 else "left"
            with configured(spark, {"spark.bsjoin.runtime": runtime}):
                joined = table.join(stream, {"name": "label"}, how)
            assert joined_by(joined) == runtime
            assert joined.schema["name"].dataType == stream.schema["name"].dataType
            ours[runtime][collation, how] = joined.drop("name")
    pairs = {name: set(counted(found)) for name, found in right_rows(own).items()}
    for runtime, results in ours.items():
        with configured(spark, CODE[runtime]):
            answers = rows_of_all(results)
        for (collation, how), told in answers.items():
            found = {id_ for id_, _ in pairs[collation]}
            lacking = {*range(len(TEXTS))} - found
            wanted: dict[str, set[tuple[Any, ...]]] = {
                "inner": {*pairs[collation]},
                "left": {*pairs[collation], *((id_, None) for id_ in lacking)},
                "semi": {(id_,) for id_ in found},
                "anti": {(id_,) for id_ in lacking},
            }
            assert counted(told) == Counter(wanted[how]), (runtime, collation, how)
    # Each of them takes other texts for equal.
    assert len({frozenset(some) for some in pairs.values()}) == len(collations)


def test_columns_with_a_collation_are_brought_by_both_runtimes(spark: SparkSession) -> None:
    """They keep it: what is above a join compares them as it does with Spark's own."""
    table = spark.createDataFrame([*enumerate([*TEXTS, None])], "k int, t string").selectExpr(
        "k", *(f"collate(t, '{name}') AS t{place}" for place, name in enumerate(COLLATIONS))
    )
    stream = spark.range(len(TEXTS) + 3).selectExpr("cast(id AS int) AS k").coalesce(1)
    own = stream.join(table, "k", "left")
    results = {"own": own}
    for runtime in ("jvm", "python"):
        with configured(spark, CODE["jvm"] | {"spark.bsjoin.runtime": runtime}):
            results[runtime] = bsjoin.join(stream, table, "k", how="left")
            assert joined_by(results[runtime]) == runtime
        assert results[runtime].schema == own.schema
    groups = {
        (name, column): df.groupBy(column).agg(F.sort_array(F.collect_list("k")).alias("ks"))
        .select(F.concat_ws(" ", "ks").alias("ks"))
        for name, df in results.items()
        for column in own.columns[1:]
    }  # fmt: skip
    found = rows_of_all(groups)
    rows = rows_of_all({(name, "rows"): df for name, df in results.items()})
    for runtime in ("jvm", "python"):
        assert counted(rows[runtime, "rows"]) == counted(rows["own", "rows"])
        for column in own.columns[1:]:
            assert counted(found[runtime, column]) == counted(found["own", column]), column


@pytest.mark.long
def test_keys_beside_others_ranges_and_partitions(spark: SparkSession) -> None:
    two = [texts(spark, "UNICODE_CI_AI").withColumn("w", F.col("v") + n) for n in (0, 1)]
    table = two[0].unionAll(two[1]).selectExpr("w", "v % 4 AS k", "name", "v")
    stream = texts(spark, "UNICODE_CI_AI").selectExpr("v AS id", "v % 4 AS k", "name")
    with configured(spark, CODE["python"]):
        built = BatchTable.build(table, on=["k", "name"])
        safe = BatchTable.build(table, on=["name"], nulls_equal=["name"])
        band = BatchTable.build(table, on="name", when=Band("id", "w", 3, 1))
    left, right = stream.alias("l"), table.alias("r")
    near = F.expr("l.name = r.name AND w BETWEEN id - 3 AND id + 1")
    lower = [("k", "k"), (F.expr("collate(lower(name), 'UNICODE_CI_AI')"), "name")]
    own = {how: expected(stream, table, ["k", "name"], how) for how in HOWS}
    own["sent"] = own["expression"] = own["inner"]
    # The table's own texts are stored beside their keys.
    own["brought"] = expected(stream, table, ["k", "name"], select=["name", "v"])
    own["null"] = left.join(right, F.expr("l.name <=> r.name")).select("l.*", "w", "r.k", "v")
    own["band"] = left.join(right, near).select("l.*", "w", "r.k", "v")
    brought = right_rows({"brought": own["brought"].drop("name")})
    wanted = brought | right_rows({n: df.drop("name") for n, df in own.items() if n != "brought"})
    for turn, runtime in enumerate(("jvm", "python")):
        with configured(spark, {"spark.bsjoin.runtime": runtime, **CODE[runtime]}):
            hows: Any = HOWS[turn::2]
            ours: dict[str, Any] = {how: built.join(stream, how=how) for how in hows}
            ours["sent"] = built.join(stream, partition=HotSpot(partitions=2, sample=100))
            ours["expression"] = built.join(stream, lower)
            assert_same_schema(ours["sent"], own["sent"])
            both = {"brought": built.join(stream, select=["name", "v"])}
            assert_same_schema(both["brought"], own["brought"])
            ours["null"] = safe.join(stream, nulls_equal=True)
            ours["band"] = band.join(stream)
            assert joined_by(ours["null"]) == joined_by(ours["band"]) == runtime
            for some in (ours, both):
                found = rows_of_all({name: df.drop("name") for name, df in some.items()})
                for name, rows in found.items():
                    assert_same_rows(rows, wanted[name], f"{runtime}, {name}")


@pytest.mark.usefixtures("without_code")
def test_tables_keep_one_row_of_texts_that_are_equal(spark: SparkSession) -> None:
    table = texts(spark, "UTF8_LCASE_RTRIM").where("name IS NOT NULL")
    apart = table.select("name").distinct().count()
    assert apart < table.count()
    with pytest.raises(DuplicateKeyError, match=r"'name'"):
        BatchTable.build(table, on="name", unique=True)
    latest = BatchTable.build(table, on="name", latest_by="v", unique=True)
    assert latest.stats().rows == latest.stats().keys == apart
    wanted = table.groupBy("name").agg(F.max("v").alias("v"))
    check(table.select("name"), wanted, "name", table=latest)


@pytest.mark.in_turns("runtime")
def test_streams_and_joins_of_joins(spark: SparkSession, runtime: str, feed: Feed) -> None:
    words = F.array(*[F.lit(text) for text in ("a", "A ", "B", "c")])
    named = feed.stream.withColumn(
        "name", F.collate(F.get(words, F.col("k").cast("int")), "UNICODE_CI")
    )
    table = texts(spark, "UNICODE_CI").where("v < 8")
    # The key of the second join is a column that the first one brings.
    first = bsjoin.join(named, table, "name", "left", cache=Full(fingerprint="1"))
    spelled = table.selectExpr("v", "name AS spelled")
    second = bsjoin.join(first, spelled, "v", select=["spelled"], cache=Full(fingerprint="2"))
    third = bsjoin.join(second, table.selectExpr("name AS spelled", "v AS other"), "spelled",
                        cache=Full(fingerprint="3"))  # fmt: skip
    query = feed.start(third.select("k", "v", "other"))
    for keys in ((0, 1, 2, None), (3, 0)):
        feed.turn(query, *keys)
    small = [(n, one, other) for n in (0,) for one in (3, 4) for other in (3, 4)]
    assert feed.results == {0: [*small, (1, 5, 5)], 1: small}
    assert joined_by(first) == runtime


@pytest.mark.usefixtures("without_code")
@pytest.mark.parametrize("hows", [("left",), pytest.param(HOWS, marks=pytest.mark.long)])
def test_stored_tables_sql_and_other_rules(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hows: Sequence[str]
) -> None:
    path = tmp_path / "table"
    stream, table = texts(spark, "UNICODE_CI"), texts(spark, "UNICODE_CI").where("v > 2")
    BatchTable.build(table.selectExpr("name", "v AS n"), on="name", path=path)
    opened = BatchTable.open(path)
    (key,) = versions.latest(opened._location).keys
    assert key.type.startswith("string collate UNICODE_CI ")
    own = table.selectExpr("name", "v AS n")

    def check_plain(found: int, hows: Sequence[str] = ("left",)) -> None:
        there = plain(spark, path)
        ours, right = {}, {}
        for how in hows:
            ours[how] = stream.join(there, "name", how).drop("name")
            right[how] = stream.join(own, "name", how).drop("name")
            assert lookups(ours[how]) == found, plan_of(ours[how])
        filters = ("name = 'A'", "name IN ('\u00c4', 'ss')", "name <=> NULL", "name > 'a'")
        for text in filters[: len(hows)]:
            ours[text], right[text] = there.where(text).select("n"), own.where(text).select("n")
        wanted = right_rows(right)
        for name, told in rows_of_all(ours).items():
            assert_same_rows(told, wanted[name], name)

    check_plain(1, hows)
    if len(hows) == 1:
        return
    assert opened.refresh(own.where("n < 30")) == 2
    own = own.where("n < 30")
    check_plain(1)
    check(stream, own, "name", table=opened)
    with pytest.raises(TableMismatchError, match="tell rows apart by the texts as they are"):
        opened.apply(own, key="n")
    # By other rules, as of a later ICU, keys may be other ones.
    with monkeypatch.context() as patched:
        patched.setattr("bsjoin.planner.collations.collation_version", lambda *_: "9.9/9.9")
        with pytest.raises(TableMismatchError, match=r"'name' in another way .*9\.9/9\.9"):
            opened.join(stream, "name")
        assert opened.refresh(own) == 3
        assert opened.join(stream, "name").columns == ["v", "name", "n"]
    with pytest.raises(TableMismatchError, match="Refresh it"):
        opened.join(stream, "name")
    check_plain(0)
    assert bsjoin.join(stream, own, "name", cache=Full(store=path)).count() > own.count()
    check_plain(1)


@pytest.mark.usefixtures("without_code")
def test_manifests_are_checked(spark: SparkSession) -> None:
    table = BatchTable.build(texts(spark, "UTF8_LCASE", "label"), on="label")
    written = json.loads(versions.latest(table._location).to_bytes())
    (given,) = written["keys"]
    rules = given[1].removeprefix("string collate UTF8_LCASE ")
    for kind in ("", "UTF8_LCASE", f"UTF8_LCASE {rules} 2", f"'x' {rules}", "UTF8_LCASE ../;"):
        written["keys"] = [["label", f"string collate {kind}"]]
        with pytest.raises(TableNotFoundError, match="not a type of Spark"):
            Manifest.from_bytes(json.dumps(written).encode(), "it")
    written["keys"] = [["v", given[1]]]
    with pytest.raises(TableNotFoundError, match="'v' has another type"):
        Manifest.from_bytes(json.dumps(written).encode(), "it")


@pytest.mark.usefixtures("without_code")
def test_a_collation_that_this_spark_does_not_have(spark: SparkSession, tmp_path: Path) -> None:
    stream = texts(spark, "UNICODE_CI")
    for place in ("keys", "spark_schema"):
        path = tmp_path / place
        BatchTable.build(stream.selectExpr("name AS label", "v AS n"), on="label", path=path)
        joined = stream.join(plain(spark, path), F.expr("name = label"))
        file = path / "versions" / "00000001.json"
        written = json.loads(file.read_text())
        written[place] = json.loads(json.dumps(written[place]).replace("UNICODE_CI", "xx_CI"))
        file.write_text(json.dumps(written))
        for read in (lambda path=path: plain(spark, path).count(), joined.count):
            with pytest.raises((Py4JJavaError, PySparkException)) as raised:
                read()
            cause = cause_of(raised.value)
            assert isinstance(cause, TableMismatchError), cause
            assert "xx_CI" in str(cause)
            assert "a later one" in str(cause)
        if place == "keys":
            with pytest.raises(KeyTypeError, match=r"their collations differ.*xx_CI"):
                BatchTable.open(path).join(stream, {"name": "label"})


@pytest.mark.usefixtures("without_code")
def test_what_is_refused(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    stream = texts(spark, "UNICODE_CI")
    for other in (texts(spark, "UNICODE"), texts(spark, "UTF8_BINARY")):
        with pytest.raises(AnalysisException, match="COLLATION"):
            stream.join(other, stream["name"] == other["name"]).schema  # noqa: B018
        with pytest.raises(KeyTypeError, match="their collations differ"):
            bsjoin.join(stream, other, "name")
    plainly = BatchTable.build(texts(spark, "UTF8_BINARY"), on="name")
    with pytest.raises(KeyTypeError, match=r"Cast one side .*F\.collate\('name', 'UTF8_BINARY'\)"):
        plainly.join(stream, "name")
    cast = stream.withColumn("name", F.col("name").cast("string"))
    assert plainly.join(cast, "name").columns == ["v", "name", "v_batch"]
    monkeypatch.setattr("bsjoin.runtimes.jvm.collations.attached", lambda _: "no jar here")
    for call in (
        lambda: bsjoin.join(stream, stream.select("name"), "name"),
        lambda: BatchTable.build(stream, on="name"),
    ):
        with pytest.raises(WorkerEnvironmentError, match=r"no jar here.*spark\.jars=bsjoin\.jar"):
            call()
