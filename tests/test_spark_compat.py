"""Private members of Spark: in one module of each package, and never needed."""

from __future__ import annotations

import re
from pathlib import Path

import pyarrow as pa
import pytest
import smoke_compat
from oracle import rows_of_all
from pyspark import SparkContext
from pyspark.sql import Column, DataFrame, Observation, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.streaming import StreamingQuery
from sessions import CODE, configured
from spark_samples import Feed, cycles, write_parquet

import bsjoin
from bsjoin.metrics import counted
from bsjoin.spark import compat
from bsjoin.spark.fingerprint import identity, is_fixed, read_anew, renew
from bsjoin.spark.session import active_queries, any_query_active

ROOT = Path(__file__).resolve().parent.parent
ALLOWED = {"bsjoin": "bsjoin/spark/compat.py", "scheduling": "scheduling/spark/internals.py"}
IMPORTED = (
    r"(?m)^ *(?:from|import) +(?:py4j|pyspark\.sql\.(?:connect|classic))\b"
    r"|^ *from pyspark[\w.]* import .*\b_[a-z]"
)
ON_OBJECTS = ("_gateway", "_jc", "_jdf", "_jsc", "_jsparkSession", "_jvm", "_plan", "_session")
SPARKS = {
    name
    for kind in (Column, DataFrame, Observation, SparkContext, SparkSession, StreamingQuery)
    for name in (*dir(kind), *ON_OBJECTS)
    if re.fullmatch(r"_[a-z]\w*", name)
}
"""Names of private members of Spark's classes."""
IN_PYTHON = ("analyzed", "catalyst", "dataframe_of", "java_session")
"""Those that a join in Python workers uses."""
CLASSIC = [name for name, entry in compat.ENTRIES.items() if entry.side != "connect"]


def touched(text: str) -> list[str]:
    """What a module touches that is private, and not its own."""
    own = set(re.findall(r"\bself\.(_\w+)(?:: .*)? =|\bdef (_\w+)", text))
    known = {name for names in own for name in names} | {"_cause"}
    found = re.findall(IMPORTED, text)
    members = re.findall(r"(\w+)\.(_[a-z]\w*)|getattr\((\w+), [\"'](_[a-z]\w*)", text)
    names = [(owner or of, name or named) for owner, name, of, named in members]
    found += [f"{of}.{name}" for of, name in names if name in SPARKS - known and of != "self"]
    return found + re.findall(r"\b\w+\.org\.apache\b", text)


def test_one_module_touches_private_members_of_spark() -> None:
    offences = {
        path.relative_to(ROOT).as_posix(): touched(path.read_text("utf-8"))
        for package in ALLOWED
        for path in (ROOT / package).rglob("*.py")
    }
    assert {path for path, found in offences.items() if found} == {*ALLOWED.values()}
    for code in (
        "df._jdf.queryExecution()",
        "getattr(query, '_session', None)",
        "from py4j.protocol import Py4JError",
        "def f():\n    from pyspark.sql.connect.proto import Join",
        "from pyspark.util import _print_missing_jar",
        "view.org.apache.spark.sql.Observation",
    ):
        assert touched(code), code


def test_every_private_member_is_there(spark: SparkSession) -> None:
    smoke_compat.check(spark)


def test_a_member_that_is_missing_is_an_error_with_its_name(spark: SparkSession) -> None:
    class Other:
        sparkSession = None  # noqa: N815

    with pytest.raises(compat.MissingMemberError, match=r"analyzed: Spark has no DataFrame._jdf"):
        compat.analyzed(Other())  # type: ignore[arg-type]
    with pytest.raises(compat.MissingMemberError, match=r"SparkSession._jvm"):
        compat.catalyst(Other())  # type: ignore[arg-type]


@pytest.mark.long
@pytest.mark.parametrize("runtime", ["jvm", "python"])
def test_without_a_member_the_rows_are_the_same(
    runtime: str, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without each of them that a runtime uses, and a stream without all."""
    source = tmp_path / "source"
    write_parquet(source, id=pa.array([1, 2, 3], pa.int64()), v=pa.array(["a", "b", "c"]))
    table, made = spark.read.parquet(str(source)), dict[str, DataFrame]()
    with configured(spark, settings_of(runtime) | CODE["python"]):  # nothing is compiled
        for name in CLASSIC if runtime == "jvm" else IN_PYTHON:
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(compat, name, smoke_compat.missing)
                stream = spark.range(5).withColumn("more", F.col("id") + 1).alias("s")
                joined = bsjoin.join(stream, table, on="id", how="left").select("id", "v")
                if runtime == "python":  # where a join may share the stage of the one before
                    joined = bsjoin.join(joined, table, on="id", suffix="_2")
                made[name] = joined.where("id > 1 AND v > ''").select("v")
        for name, rows in rows_of_all(made).items():
            assert sorted(rows.column(0).to_pylist()) == ["b", "c"], name
    for name in CLASSIC:
        monkeypatch.setattr(compat, name, smoke_compat.missing)
    with configured(spark, settings_of(runtime)):
        feed = Feed(spark, tmp_path)
        query = feed.run(bsjoin.join(feed.stream, table, {"k": "id"}, how="left"), 1, 7)
        rows_in = [cycle.rows_in for cycle in cycles(query)]
        query.stop()
    assert rows_in == [2]
    assert len(feed.results[0]) == 2


def settings_of(runtime: str) -> dict[str, str]:
    return {"spark.bsjoin.runtime": runtime, **CODE[runtime]}


def test_without_members_nothing_is_known_of_a_source(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_parquet(tmp_path / "source", id=pa.array([1], pa.int64()))
    table = spark.read.parquet(str(tmp_path / "source"))
    assert identity(table).fingerprint is not None
    assert is_fixed(spark.range(2))
    for name in CLASSIC:
        monkeypatch.setattr(compat, name, smoke_compat.missing)
    assert not renew(table)
    assert identity(table).fingerprint is None
    assert not is_fixed(spark.range(2))
    assert read_anew(table) == []
    assert active_queries() is None
    assert not any_query_active(spark)
    assert counted.counted("run", 0, 1, spark) == []
    assert compat.is_complete(Observation("name")) is None  # it is not waited for


def test_a_table_that_may_be_read_from_an_old_list_of_files_is_not_called_fresh(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_parquet(tmp_path / "source", id=pa.array([1], pa.int64()))
    df = spark.read.parquet(str(tmp_path / "source"))
    table = bsjoin.BatchTable.build(df, on="id", path=tmp_path / "table")
    confirmed: list[object] = []
    monkeypatch.setattr("bsjoin.build.storing.freshness.confirm", lambda *_: confirmed.append(_))
    table.refresh(df)
    assert len(confirmed) == 1
    for name in CLASSIC:
        monkeypatch.setattr(compat, name, smoke_compat.missing)
    table.refresh(df)
    assert len(confirmed) == 1
    assert table.version == 1
