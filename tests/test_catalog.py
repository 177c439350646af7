"""Stored tables as tables of Spark's catalog: every door to them, every type, every refusal."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hostile_jvm import build as build_hostile
from hostile_jvm import change, copy, damages, file_of, replace
from messages import says
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException, UnsupportedOperationException
from pyspark.sql import DataFrame, SparkSession
from spark_samples import Feed, rows, table_of

from bsjoin import BatchTable, options
from bsjoin.errors import (
    ArgumentError,
    ColumnError,
    DamagedTableError,
    StoreAccessError,
    StoreError,
    TableMismatchError,
    TableNotFoundError,
    VersionNotFoundError,
    WorkerEnvironmentError,
    cause_of,
)
from bsjoin.runtimes import jvm
from bsjoin.runtimes.jvm import catalog
from bsjoin.storage import StorageLocation, versions
from bsjoin.storage.addresses import address_of
from bsjoin.storage.copies import HostCopies
from bsjoin.storage.versioned_folder import Activation

_TYPES = (
    "id % 2 = 0 AS flag",
    "CAST(id % 100 AS tinyint) AS tiny",
    "CAST(id AS smallint) AS small",
    "CAST(id AS int) AS whole",
    "id * -1000 AS long",
    "CAST(id AS float) / 3 AS single",
    "CASE id WHEN 1 THEN double('NaN') WHEN 2 THEN -0.0D ELSE id / 7 END AS double",
    "CAST(id AS decimal(10,2)) AS price",
    "CAST(id * -1000000000000 AS decimal(38,4)) AS exact",
    "repeat('é', CAST(id AS int)) AS text",
    "CAST(concat('b', id) AS binary) AS bytes",
    "date_add(DATE'1500-01-01', CAST(id AS int)) AS day",
    "timestamp_seconds(id - 1000000000) AS time",
    "CAST(timestamp_seconds(id) AS timestamp_ntz) AS local",
    "make_dt_interval(CAST(id AS int), 1) AS lasts",
)


@pytest.fixture(scope="module", autouse=True)
def _jar(spark: SparkSession) -> None:
    assert jvm.attached(spark) is None


@pytest.fixture
def _small_segments(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(options, "_SMALLEST_SEGMENT", 1 << 10)


@pytest.fixture(autouse=True)
def _names(spark: SparkSession) -> Iterator[None]:
    """Names that tests give are theirs."""
    yield
    for name in [name for name in spark.conf.getAll if name.startswith("spark.bsjoin.table.")]:
        spark.conf.unset(name)


@pytest.fixture
def customers(spark: SparkSession, table: BatchTable) -> str:
    table.register(spark, "customers")
    return "bsjoin.customers"


def fails(kind: type[Exception], act: Callable[[], Any], *parts: str) -> None:
    """Spark reports an error of bsjoin, and the error names these."""
    with pytest.raises((Py4JJavaError, PySparkException)) as caught:
        act()
    cause = cause_of(caught.value)
    assert type(cause) is kind, caught.value
    for part in parts:
        assert part in str(cause), f"{part!r} is not in: {cause}"


def failure(df: DataFrame) -> Exception | None:
    """What a query ends with; None for rows."""
    try:
        df.write.format("noop").mode("overwrite").save()
    except (Py4JJavaError, PySparkException) as error:
        cause = cause_of(error)
        assert cause is not None, error  # noqa: PT017
        return cause
    return None


def scans(df: DataFrame) -> str:
    """The lines of the plan that read a stored table."""
    plan = df._jdf.queryExecution().executedPlan().toString()
    return "\n".join(line for line in plan.splitlines() if "BatchScan" in line)


class TestDoors:
    """Every way to name a table gives its rows."""

    def test_by_name_by_path_and_by_format(
        self, spark: SparkSession, table: BatchTable, customers: str
    ) -> None:
        expected = [(k, 1) for k in range(4)]
        for door in (
            spark.table(customers),
            spark.table("bsjoin.CUSTOMERS"),
            spark.table(f"bsjoin.`{table.path}`"),
            spark.table(f"bsjoin.`file://{table.path}`"),
            spark.sql(f"SELECT * FROM {customers}"),
            spark.sql(f"WITH c AS (SELECT v, k FROM {customers}) SELECT k, v FROM c"),
            spark.read.format("bsjoin").load(table.path),
            spark.read.format("bsjoin").option("path", f"{table.path}/").load(),
            table.to_df(spark),
            table.to_df(),
        ):
            assert rows(door) == expected
        assert spark.table(customers).count() == 4

    def test_views(self, spark: SparkSession, customers: str) -> None:
        spark.sql(f"CREATE TEMP VIEW few AS SELECT k FROM {customers} WHERE k < 2")
        spark.sql("CREATE TEMP VIEW fewer AS SELECT k FROM few WHERE k > 0")
        spark.table(customers).createOrReplaceTempView("all_of_them")
        assert rows(spark.table("fewer")) == [(1,)]
        assert spark.sql("SELECT sum(v) FROM all_of_them JOIN few USING (k)").first()[0] == 2  # type: ignore[index]

    def test_another_session_gives_its_own_names(
        self, spark: SparkSession, table: BatchTable, customers: str
    ) -> None:
        other = spark.newSession()
        table.register(other, "others")
        assert other.table("bsjoin.others").count() == 4
        assert not other.catalog.tableExists("bsjoin.customers")
        assert not spark.catalog.tableExists("bsjoin.others")
        spark.range(1).count()  # and ours is the active one again

    def test_lists_and_descriptions(
        self, spark: SparkSession, table: BatchTable, customers: str
    ) -> None:
        assert [row.tableName for row in spark.sql("SHOW TABLES IN bsjoin").collect()] == [
            "customers"
        ]
        assert [one.name for one in spark.catalog.listTables("bsjoin")] == ["customers"]
        assert spark.catalog.tableExists(customers)
        assert not spark.catalog.tableExists("bsjoin.nobody")
        described = {
            row[0]: row[1] for row in spark.sql(f"DESCRIBE EXTENDED {customers}").collect()
        }
        assert described["k"] == "bigint"
        assert described["Location"] == table.path
        assert described["Provider"] == "bsjoin"
        for part in ("version=1", "keys=k", "rows=4", "unique=false", "created=2"):
            assert part in described["Table Properties"]
        assert described["Statistics"].endswith(" 4 rows")

    def test_the_condition_is_described(self, spark: SparkSession, tmp_path: Path) -> None:
        build_hostile(spark, tmp_path / "table", "intervals")
        found = spark.sql(f"DESCRIBE EXTENDED bsjoin.`{tmp_path / 'table'}`").collect()
        text = next(row[1] for row in found if row[0] == "Table Properties")
        assert 'condition=Overlaps(stream=["p","x"], batch=["q","y"], closed="both")' in text

    def test_a_name_stands_for_the_table_that_was_registered_last(
        self, spark: SparkSession, customers: str, tmp_path: Path
    ) -> None:
        BatchTable.build(table_of(spark, 7), on="k", path=tmp_path / "b").register(
            spark, "customers"
        )
        assert spark.table(customers).first().v == 7  # type: ignore[union-attr]

    def test_names_that_sql_could_not_write(self, spark: SparkSession, table: BatchTable) -> None:
        for name in ("", "a.b", "a b", "/data", None):
            with pytest.raises(ArgumentError, match="letters, digits and underscores"):
                table.register(spark, name)  # type: ignore[arg-type]

    def test_a_path_that_is_no_table_does_not_exist(
        self, spark: SparkSession, table: BatchTable, tmp_path: Path
    ) -> None:
        assert spark.catalog.tableExists(f"bsjoin.`{table.path}`")
        for path in (tmp_path, tmp_path / "nothing", f"{tmp_path}/a\nb"):
            assert not spark.catalog.tableExists(f"bsjoin.`{path}`")
        spark.conf.set("spark.bsjoin.table.gone", str(tmp_path / "nothing"))
        assert not spark.catalog.tableExists("bsjoin.gone")
        with pytest.raises(PySparkException, match="nothing' holds no table of bsjoin"):
            spark.table("bsjoin.gone")

    @pytest.mark.parametrize("option", ["versionAsOff", "path2", "header"])
    def test_options_that_are_unknown(
        self, spark: SparkSession, table: BatchTable, option: str
    ) -> None:
        reader = spark.read.format("bsjoin").option(option, "1")
        with pytest.raises(PySparkException, match=f"'{option}'.*versionAsOf, maxStalenessUs"):
            reader.load(table.path)
        assert spark.read.format("bsjoin").option("VERSIONASOF", 1).load(table.path).count() == 4

    @pytest.mark.parametrize(
        "given",
        [
            "a/b", "./a", "a/../b", "/x/./y//z/", "/x/../y", ".", "~", "~/t", "a/~/b",
            "~nobody-here/t", "file:/x", "file:///x/", "FILE:/x", "file://localhost/x",
            "file://host/x", "file:x",
            "file:", "file:///x%20y", "file:~/t", "dbfs:/x", "dbfs:x", "dbfs://x", "/dbfs/x",
            "s3:bucket/x", "s3:/bucket", "cosn:b/x", "day:1/x", "day:/x", "1s3://x/y", "C:/x",
            "C:x/y", "\\\\host\\x",
        ],
    )  # fmt: skip
    def test_paths_are_those_of_python(self, spark: SparkSession, given: str) -> None:
        try:
            expected = (TableNotFoundError, f"'{address_of(given)}' holds no table")
        except StoreError:
            expected = (StoreError, given.removeprefix("dbfs:"))
        fails(expected[0], lambda: spark.read.format("bsjoin").load(given), expected[1])
        name = given.replace("`", "``")
        if "/" in given or "\\" in given:
            fails(expected[0], lambda: spark.table(f"bsjoin.`{name}`"), expected[1])

    def test_a_session_that_refuses_the_jar(
        self, spark: SparkSession, table: BatchTable, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(catalog, "attached", lambda spark: "it is refused")
        with pytest.raises(WorkerEnvironmentError, match="it is refused") as error:
            table.register(spark, "customers")
        says(error, table.path, "spark.jars=bsjoin.jar()")
        with pytest.raises(WorkerEnvironmentError, match="it is refused"):
            table.to_df(spark)


@pytest.mark.usefixtures("_small_segments")
class TestRows:
    """The scan has the rows that were stored."""

    def test_every_type(self, spark: SparkSession, tmp_path: Path) -> None:
        nulls = [
            f"IF(id % 5 = 3, NULL, {c.split(' AS ')[-1]}) AS {c.split(' AS ')[-1]}" for c in _TYPES
        ]
        source = spark.range(300).selectExpr("id", *_TYPES).selectExpr("id", *nulls)
        source = source.selectExpr(
            "*", *(f"id AS `{name}`" for name in ("a.b", "c`d".replace("`", "``")))
        )
        table = BatchTable.build(source, on="id", path=tmp_path / "t", segment_bytes=8 << 10)
        assert table.stats().segments > 1
        read = table.to_df(spark)
        assert read.columns == source.columns
        assert [f.dataType for f in read.schema] == [f.dataType for f in source.schema]
        assert all(field.nullable for field in read.schema)
        assert read.exceptAll(source).count() == source.exceptAll(read).count() == 0
        spark.conf.set("spark.sql.codegen.wholeStage", "false")
        try:
            assert read.exceptAll(source).count() == 0
        finally:
            spark.conf.unset("spark.sql.codegen.wholeStage")

    def test_only_the_columns_that_are_selected_are_read(
        self, spark: SparkSession, tmp_path: Path
    ) -> None:
        source = spark.range(9).selectExpr("id AS k", "'long text' AS long_text", "id AS v")
        table = BatchTable.build(source, on="k", path=tmp_path / "t")
        file_of(tmp_path / "t", 1).unlink()
        assert "[v]" in scans(table.to_df(spark).select("v"))
        assert rows(table.to_df(spark).where("k = 3").select("v")) == [(3,)]
        assert table.to_df(spark).count() == 9
        fails(
            DamagedTableError,
            table.to_df(spark).select("long_text").collect,
            f"the table in '{table.path}' is missing",
        )

    def test_statistics_are_of_the_columns_that_are_read(
        self, spark: SparkSession, tmp_path: Path
    ) -> None:
        source = spark.range(1000).selectExpr("id AS k", "repeat('x', 1000) AS text")
        table = BatchTable.build(source, on="k", path=tmp_path / "t")

        def size(df: DataFrame) -> int:
            stats = df._jdf.queryExecution().optimizedPlan().collectLeaves().head().stats()
            return int(stats.sizeInBytes())

        assert size(table.to_df(spark)) > 1_000_000 > 20 * size(table.to_df(spark).select("k"))

    def test_columns_that_the_jvm_does_not_read(self, spark: SparkSession, tmp_path: Path) -> None:
        source = spark.range(3).selectExpr("id AS k", "array(id) AS `a: b`", "id AS plain")
        table = BatchTable.build(source, on="k", path=tmp_path / "t")
        read = table.to_df(spark)
        assert read.schema["a: b"].dataType.simpleString() == "array<bigint>"
        assert rows(read.select("k", "plain")) == [(k, k) for k in range(3)]
        assert spark.sql(f"DESCRIBE EXTENDED bsjoin.`{table.path}`").count() > 3
        fails(ColumnError, read.collect, "'a: b'", "array<bigint>", table.path, "bsjoin.join")

    @pytest.mark.parametrize(
        ("key", "value"),
        [
            ("id", "7"),
            ("CAST(id AS int)", "7"),
            ("CAST(id % 100 AS tinyint)", "7Y"),
            ("CAST(id AS float)", "float(7)"),
            ("IF(id = 7, double('NaN'), CAST(id AS double))", "double('NaN')"),
            ("IF(id = 7, -0.0D, id + 1D)", "0.0D"),
            ("CAST(id AS decimal(12,2))", "7.00BD"),
            ("CAST(id AS decimal(30,2))", "CAST(7 AS decimal(30,2))"),
            ("concat('key ', id)", "'key 7'"),
            ("CAST(concat('key ', id) AS binary)", "CAST('key 7' AS binary)"),
            ("date_add(DATE'2026-01-01', CAST(id AS int))", "DATE'2026-01-08'"),
            ("timestamp_seconds(id)", "timestamp_seconds(7)"),
            ("CAST(timestamp_seconds(id) AS timestamp_ntz)", "TIMESTAMP_NTZ'1970-01-01 00:00:07'"),
        ],
    )
    def test_a_filter_on_the_key_skips_segments(
        self, spark: SparkSession, tmp_path: Path, key: str, value: str
    ) -> None:
        source = spark.range(2000).selectExpr(f"{key} AS k", "id AS v")
        table = BatchTable.build(source, on="k", path=tmp_path / "t", segment_bytes=16 << 10)
        segments = table.stats().segments
        assert segments > 2
        for condition in (f"k = {value}", f"k <=> {value}", f"k IN ({value}, NULL)"):
            found = table.to_df(spark).where(condition)
            assert rows(found.select("v")) == rows(source.where(condition).select("v"))
            assert f"1 of {segments} segments" in scans(found), condition
        for condition in (f"k <> {value}", f"k = {value} OR v = 8", "k IS NULL", "k > k"):
            found = table.to_df(spark).where(condition)
            assert rows(found.select("v")) == rows(source.where(condition).select("v"))
            assert " segments" not in scans(found), condition

    def test_all_key_columns_are_needed_to_skip_segments(
        self, spark: SparkSession, tmp_path: Path
    ) -> None:
        source = spark.range(2000).selectExpr("id % 40 AS a", "concat('x', id) AS b", "id AS v")
        table = BatchTable.build(source, on=["a", "b"], path=tmp_path / "t", segment_bytes=16 << 10)
        for condition, skips in (
            ("a = 7", False),
            ("b = 'x7'", False),
            ("a = 7 AND b = 'x7'", True),
            ("a IN (7, 8) AND b IN ('x7', 'x8', 'x9') AND v > 7", True),
            ("a = 7 AND b = 'x7' AND b = 'x8'", None),
            ("a = 8 AND a IN (7, 8) AND b = 'x8'", True),
        ):
            found = table.to_df(spark).where(condition)
            assert rows(found) == rows(source.where(condition)), condition
            assert skips is None or (" segments" in scans(found)) is skips, condition

    def test_an_empty_table(self, spark: SparkSession, tmp_path: Path) -> None:
        table = BatchTable.build(table_of(spark, 1, keys=0), on="k", path=tmp_path / "t")
        assert table.to_df(spark).count() == 0
        assert rows(table.to_df(spark).where("k = 1")) == []


class TestVersions:
    """Which version a query reads."""

    def test_a_query_reads_the_newest_version_when_it_is_planned(
        self, spark: SparkSession, table: BatchTable, customers: str
    ) -> None:
        before = spark.table(customers)
        assert before.first().v == 1  # type: ignore[union-attr]
        table.refresh(table_of(spark, 2))
        assert before.first().v == 2  # type: ignore[union-attr]
        assert rows(spark.sql(f"SELECT DISTINCT v FROM {customers}")) == [(2,)]

    def test_time_travel(self, spark: SparkSession, table: BatchTable, customers: str) -> None:
        table.refresh(table_of(spark, 2))

        def found(clause: str) -> Any:
            return rows(spark.sql(f"SELECT DISTINCT v FROM {customers} {clause}"))

        assert found("VERSION AS OF 1") == found("VERSION AS OF '1'") == [(1,)]
        assert found("VERSION AS OF 2") == found("") == [(2,)]
        assert found("TIMESTAMP AS OF '2020-01-01'") == [(1,)]
        assert found("TIMESTAMP AS OF '9999-01-01'") == [(2,)]
        at = spark.read.format("bsjoin").option("versionAsOf", 1)
        assert rows(at.load(table.path).select("v").distinct()) == [(1,)]
        with pytest.raises(PySparkException, match="timestampAsOf"):
            spark.read.format("bsjoin").option("timestampAsOf", "2020-01-01").load(table.path)
        pinned = spark.sql(f"SELECT * FROM {customers} VERSION AS OF 2")
        table.refresh(table_of(spark, 3))
        assert {row.v for row in pinned.collect()} == {2}
        for version in ("7", "0", "'one'"):
            kind = VersionNotFoundError if version in ("7", "0") else ArgumentError
            fails(kind, lambda v=version: found(f"VERSION AS OF {v}"), table.path)

    def test_a_version_that_is_gone(
        self, spark: SparkSession, table: BatchTable, customers: str
    ) -> None:
        first = spark.sql(f"SELECT * FROM {customers} VERSION AS OF 1")
        table.refresh(table_of(spark, 2))
        assert table.vacuum(older_than=0) == [1]
        fails(DamagedTableError, first.collect, table.path, "was the version vacuumed")
        fails(VersionNotFoundError, lambda: spark.sql(f"SELECT * FROM {customers} VERSION AS OF 1"))

    def test_a_table_that_is_built_again_is_never_mixed_up(
        self, spark: SparkSession, table: BatchTable, customers: str
    ) -> None:
        old = spark.table(customers)
        assert old.count() == 4
        new = [(k, 5) for k in range(9)]
        StorageLocation.of(table.path).remove("")
        BatchTable.build(table_of(spark, 5, keys=9), on="k", path=table.path)
        cause = failure(old)
        assert type(cause) is VersionNotFoundError if cause else rows(old) == new
        assert rows(spark.table(customers)) == new

    def test_joins_with_a_table_that_is_built_again_are_planned_anew(
        self, spark: SparkSession, table: BatchTable, customers: str
    ) -> None:
        stream = spark.range(5).withColumnRenamed("id", "k")
        joined = stream.join(spark.table(customers), "k")
        pinned = stream.join(spark.sql(f"SELECT * FROM {customers} VERSION AS OF 1"), "k")
        assert joined.limit(1).count() == pinned.limit(1).count() == 1
        StorageLocation.of(table.path).remove("")
        BatchTable.build(table_of(spark, 2), on="k", path=table.path)
        for old in (joined, pinned):
            fails(
                VersionNotFoundError,
                lambda df=old: df.limit(1).collect(),
                "built again",
                table.path,
            )
        new = stream.join(spark.table(customers), "k")
        assert {row.v for row in new.collect()} == {2}

    def test_columns_that_come_and_change(
        self, spark: SparkSession, table: BatchTable, customers: str
    ) -> None:
        first = spark.table(customers)
        table.refresh(table_of(spark, 2).selectExpr("*", "'new' AS added"))
        assert rows(first.select("*")) == [(k, 2) for k in range(4)]
        assert spark.table(customers).columns == ["k", "v", "added"]
        old = spark.sql(f"SELECT * FROM {customers} VERSION AS OF 1")
        assert old.columns == ["k", "v"]
        BatchTable.build(spark.range(3).selectExpr("id AS k", "'x' AS v"), on="k", path=table.path)
        fails(TableMismatchError, first.select("v").collect, "'v'", table.path, "string", "for int")

    def test_micro_batches_and_their_replays(
        self, spark: SparkSession, feed: Feed, table: BatchTable
    ) -> None:
        spark.conf.set("spark.bsjoin.planner", "off")  # the scan answers
        try:
            query = feed.start(feed.stream.join(table.to_df(spark), "k", "left"))
            feed.add(0, 9)
            query.processAllAvailable()
            table.refresh(table_of(spark, 2))
            feed.add(0, 9)
            query.processAllAvailable()
            query.stop()
            assert feed.results == {0: [(0, 1), (9, None)], 1: [(0, 2), (9, None)]}

            # The application dies before it commits micro-batch 1; the table changes meanwhile.
            assert feed.forget_last_commit() == 1
            table.refresh(table_of(spark, 3))
            feed.results.clear()
            feed.add(0, 9)
            query = feed.start(feed.stream.join(table.to_df(spark), "k", "left"))
            query.processAllAvailable()
            query.stop()
            assert feed.results == {1: [(0, 2), (9, None)], 2: [(0, 3), (9, None)]}
        finally:
            spark.conf.unset("spark.bsjoin.planner")


class TestRefusals:
    """What cannot be done is an error that says why."""

    @pytest.mark.parametrize(
        "statement",
        [
            "INSERT INTO bsjoin.customers VALUES (1, 2)",
            "INSERT INTO bsjoin.customers VALUES (1)",
            "INSERT OVERWRITE bsjoin.customers SELECT 1, 2",
            "CREATE TABLE bsjoin.new (k int)",
            "CREATE TABLE bsjoin.new AS SELECT 1 AS k",
            "DROP TABLE bsjoin.customers",
            "ALTER TABLE bsjoin.customers ADD COLUMN x int",
            "ALTER TABLE bsjoin.customers RENAME TO bsjoin.others",
            "TRUNCATE TABLE bsjoin.customers",
            "DELETE FROM bsjoin.customers WHERE k = 1",
        ],
    )
    def test_sql_that_writes(self, spark: SparkSession, customers: str, statement: str) -> None:
        with pytest.raises(UnsupportedOperationException, match=r"BatchTable\.build") as error:
            spark.sql(statement)
        assert "'customers'" in str(error.value) or "'new'" in str(error.value)
        assert spark.table(customers).count() == 4

    def test_dataframes_that_write(
        self, spark: SparkSession, table: BatchTable, customers: str
    ) -> None:
        df = table_of(spark, 2)
        for write in (
            lambda: df.write.mode("append").saveAsTable(customers),
            lambda: df.write.mode("overwrite").format("bsjoin").save(table.path),
            lambda: df.write.insertInto(customers),
            lambda: df.writeTo(customers).append(),
            lambda: df.writeTo("bsjoin.new").create(),
        ):
            with pytest.raises(UnsupportedOperationException, match=r"BatchTable\.build"):
                write()
        assert table.version == 1

    def test_names_and_paths_that_are_no_table(self, spark: SparkSession, tmp_path: Path) -> None:
        (tmp_path / "file").write_text("no folder")
        for name in ("bsjoin.nobody", "bsjoin.a.b"):
            with pytest.raises(PySparkException, match="TABLE_OR_VIEW_NOT_FOUND"):
                spark.sql(f"SELECT * FROM {name}")
        for path in (tmp_path, tmp_path / "nothing"):
            fails(TableNotFoundError, lambda p=path: spark.table(f"bsjoin.`{p}`"), f"'{path}'")
            fails(TableNotFoundError, lambda p=path: spark.read.format("bsjoin").load(str(p)))
        fails(StoreAccessError, lambda: spark.table(f"bsjoin.`{tmp_path / 'file'}`"), "directory")
        with pytest.raises(PySparkException, match="needs the path of a table"):
            spark.read.format("bsjoin").load()

    def test_a_table_that_was_removed(
        self, spark: SparkSession, table: BatchTable, customers: str
    ) -> None:
        old = spark.table(customers)
        StorageLocation.of(table.path).remove("")
        fails(TableNotFoundError, lambda: spark.table(customers), table.path)
        fails(VersionNotFoundError, old.collect, table.path, "it was removed")
        with pytest.raises(TableNotFoundError):
            table.register(spark, "again")
        with pytest.raises(TableNotFoundError):
            table.to_df(spark)

    @pytest.mark.parametrize(
        "url", ["s3://me:tell-nobody@bucket/t", "s3://bucket/t?token=tell-nobody"]
    )
    def test_credentials_are_neither_taken_nor_shown(self, spark: SparkSession, url: str) -> None:
        for act in (
            lambda: spark.read.format("bsjoin").load(url),
            lambda: spark.sql(f"SELECT * FROM bsjoin.`{url}`"),
        ):
            with pytest.raises((Py4JJavaError, PySparkException)) as caught:
                act()
            cause = cause_of(caught.value)
            assert type(cause) is StoreError
            assert "***" in str(cause)
            assert "tell-nobody" not in str(cause)
        with pytest.raises(StoreError, match=r"has a secret|credentials") as error:
            catalog.relation(spark, StorageLocation(url))
        assert "tell-nobody" not in str(error.value)

    def test_damaged_files_are_errors_or_other_rows(
        self, spark: SparkSession, tmp_path: Path, request: pytest.FixtureRequest
    ) -> None:
        build_hostile(spark, tmp_path / "good", "long")
        change(tmp_path / "good", lambda data: data.update(unindexed=[]))
        read = spark.read.format("bsjoin").load(str(tmp_path / "good"))
        for number, name in enumerate(read.columns):
            content = file_of(tmp_path / "good", number).read_bytes()
            for case, damage in enumerate(list(damages(content))[number % 7 :: 29]):
                folder = copy(tmp_path / "good", tmp_path / f"{number} {case}")
                replace(file_of(folder, number), damage.content)

                def resized(data: Any, size: int = len(damage.content), at: int = number) -> None:
                    data["segments"][0]["sizes"][at + 1] = size

                change(folder, resized)
                bad = spark.read.format("bsjoin").load(str(folder)).select(name)
                cause = failure(bad)
                if cause is not None:
                    assert type(cause) is DamagedTableError, damage.where
                    assert str(folder) in str(cause)

    @pytest.mark.parametrize(
        "edit",
        [
            lambda data: data.update(segments=None),
            lambda data: data["segments"][0].update(name="../../other"),
            lambda data: data["segments"][0].update(rows=1 << 40),
            lambda data: data["segments"][0].update(rows=-1),
            lambda data: data.update(spark_schema='{"type":"udt","class":"java.lang.String"}'),
            lambda data: data.update(
                ranged={
                    "names": ["id"],
                    "types": [{"type": "udt", "class": "java.lang.String", "sqlType": "long"}],
                    "closed": None,
                }
            ),
            lambda data: data.update(version=9),
        ],
    )
    def test_hostile_manifests(
        self, spark: SparkSession, table: BatchTable, edit: Callable[[Any], object]
    ) -> None:
        change(Path(table.path), edit)
        fails(DamagedTableError, lambda: spark.table(f"bsjoin.`{table.path}`"), table.path)

    def test_another_format_is_not_damage(self, spark: SparkSession, table: BatchTable) -> None:
        change(Path(table.path), lambda data: data.update(format=2))
        fails(TableNotFoundError, lambda: spark.table(f"bsjoin.`{table.path}`"), table.path)


def test_a_table_behind_a_url(spark: SparkSession, tmp_path: Path) -> None:
    url = f"local://{tmp_path}/table"  # remote for bsjoin, and within reach of its processes
    table = BatchTable.build(table_of(spark, 1), on="k", path=url)
    table.register(spark, "remote")
    for read in (spark.table("bsjoin.remote"), spark.table(f"bsjoin.`{url}`"), table.to_df(spark)):
        assert rows(read) == [(k, 1) for k in range(4)]
    assert rows(spark.sql("SELECT v FROM bsjoin.remote WHERE k = 2")) == [(1,)]
    fails(TableNotFoundError, lambda: spark.table(f"bsjoin.`{url}-not`"), f"{url}-not")


def test_copies_of_old_versions_are_removed(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    soon = Activation(local_us=100_000, remote_us=100_000, tries=10)
    monkeypatch.setattr(versions, "_ACTIVATION", soon)
    table = BatchTable.build(table_of(spark, 1), on="k", path=f"local://{tmp_path}/table")
    for version in (1, 2, 3):
        assert rows(table.to_df(spark).select("v").distinct()) == [(version,)]
        folder = HostCopies(table.path).folder
        builds = {copy.name.split("%2F")[1] for copy in folder.glob("copy-*")}
        assert len(builds) == min(version, 2)  # those of the two newest stay
        table.refresh(table_of(spark, version + 1))
