"""Stored tables as tables of Spark's catalog: every door to them, every type, every refusal."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hostile_jvm import COLUMNS, change, file_of
from hostile_jvm import build as build_hostile
from messages import saying
from oracle import together
from plain_joins import LOOKUP, PLANNER, Query, check_same, plan_of
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException, UnsupportedOperationException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from sessions import configured
from spark_samples import Feed, rows, table_of
from stored_tables import put

from bsjoin import BatchTable, options
from bsjoin._clock import now_us
from bsjoin.errors import (
    ArgumentError,
    ColumnError,
    DamagedTableError,
    StaleTableError,
    StoreAccessError,
    StoreError,
    TableMismatchError,
    TableNotFoundError,
    VersionNotFoundError,
    WorkerEnvironmentError,
    cause_of,
)
from bsjoin.runtimes.jvm import catalog
from bsjoin.spark.session import settings_of
from bsjoin.storage import StorageLocation, versions
from bsjoin.storage.addresses import address_of

RAISED = (Py4JJavaError, PySparkException)
LIMIT = "spark.bsjoin.maxStalenessUs."


@pytest.fixture(autouse=True)
def _names(spark: SparkSession) -> Iterator[None]:
    """Names that tests give are theirs."""
    yield
    ours = "spark.bsjoin.table.", LIMIT
    for name in [name for name in settings_of(spark) if name.startswith(ours)]:
        spark.conf.unset(name)


@pytest.fixture
def customers(spark: SparkSession, table: BatchTable) -> str:
    table.register(spark, "customers")
    return "bsjoin.customers"


def read(spark: SparkSession, path: object) -> DataFrame:
    return spark.read.format("bsjoin").load(str(path))


def failure(act: Callable[[], Any]) -> Exception | None:
    """What an action ends with, as Spark reports an error of bsjoin; None if it succeeds."""
    try:
        act()
    except RAISED as error:
        cause = cause_of(error)
        assert cause is not None, error  # noqa: PT017
        return cause
    return None


def fails(kind: type[Exception], act: Callable[[], Any], *parts: str) -> None:
    """An action ends with an error of bsjoin that names these."""
    cause = failure(act)
    assert type(cause) is kind, cause
    for part in parts:
        assert part in str(cause), f"{part!r} is not in: {cause}"


def scans(df: DataFrame) -> str:
    """The lines of the plan that read a stored table."""
    return "\n".join(line for line in plan_of(df).splitlines() if "BatchScan" in line)


class TestDoors:
    """Every way to name a table gives its rows."""

    def test_by_name_by_path_and_by_format(
        self, spark: SparkSession, table: BatchTable, customers: str, tmp_path: Path
    ) -> None:
        spark.table(customers).createOrReplaceTempView("all_of_them")
        spark.sql("CREATE TEMP VIEW few AS SELECT * FROM all_of_them WHERE k < 9")
        doors = (
            spark.table(customers),
            spark.table("bsjoin.CUSTOMERS"),
            spark.table(f"bsjoin.`{table.path}`"),
            spark.table(f"bsjoin.`file://{table.path}`"),
            spark.sql(f"SELECT * FROM {customers}"),
            spark.sql(f"WITH c AS (SELECT v, k FROM {customers}) SELECT k, v FROM c"),
            spark.read.format("bsjoin").option("path", f"{table.path}/").load(),
            table.to_df(spark),
            table.to_df(),
            spark.table("few"),
        )
        expected = [(door, k, 1) for door in range(len(doors)) for k in range(4)]
        assert rows(together(dict(enumerate(doors)))) == expected
        empty = BatchTable.build(table_of(spark, 7, keys=0), on="k", path=tmp_path / "b")
        empty.register(spark, "customers")  # the last one counts
        assert rows(spark.table(customers)) == []
        assert rows(spark.table(customers).where("k = 1")) == []

    @pytest.mark.long
    def test_another_session_gives_its_own_names(
        self, spark: SparkSession, table: BatchTable, customers: str
    ) -> None:
        other = spark.newSession()
        table.register(other, "others")
        assert other.table("bsjoin.others").count() == 4
        joined = other.range(3).join(other.table("bsjoin.others"), F.expr("id = k"))
        assert LOOKUP in plan_of(joined)
        assert joined.count() == 3
        assert not other.catalog.tableExists("bsjoin.customers")
        assert not spark.catalog.tableExists("bsjoin.others")
        spark.range(1).count()  # and ours is the active one again

    @pytest.mark.long
    def test_lists_and_descriptions(
        self, spark: SparkSession, table: BatchTable, customers: str, tmp_path: Path
    ) -> None:
        def described(name: str) -> dict[str, str]:
            return {row[0]: row[1] for row in spark.sql(f"DESCRIBE EXTENDED {name}").collect()}

        assert [row.tableName for row in spark.sql("SHOW TABLES IN bsjoin").collect()] == [
            "customers"
        ]
        assert [one.name for one in spark.catalog.listTables("bsjoin")] == ["customers"]
        found = described(customers)
        assert (found["k"], found["Location"]) == ("bigint", table.path)
        assert found["Provider"] == "bsjoin"
        for part in ("version=1", "keys=k", "rows=4", "unique=false", "created=2"):
            assert part in found["Table Properties"]
        assert found["Statistics"].endswith(" 4 rows")
        build_hostile(spark, tmp_path / "ranges", "intervals")
        text = described(f"bsjoin.`{tmp_path / 'ranges'}`")["Table Properties"]
        assert 'condition=Overlaps(stream=["p","x"], batch=["q","y"], closed="both")' in text

    def test_what_does_not_exist(
        self, spark: SparkSession, table: BatchTable, customers: str, tmp_path: Path
    ) -> None:
        exists = spark.catalog.tableExists
        assert exists(customers)
        assert exists(f"bsjoin.`{table.path}`")
        spark.conf.set("spark.bsjoin.table.gone", str(tmp_path / "nothing"))
        for name in ("nobody", "gone"):
            assert not exists(f"bsjoin.{name}")
        for path in (tmp_path, tmp_path / "nothing", f"{tmp_path}/a\nb"):
            assert not exists(f"bsjoin.`{path}`")
        with pytest.raises(PySparkException, match="nothing' holds no table of bsjoin"):
            spark.table("bsjoin.gone")
        for name in ("bsjoin.nobody", "bsjoin.a.b"):
            with pytest.raises(PySparkException, match="TABLE_OR_VIEW_NOT_FOUND"):
                spark.sql(f"SELECT * FROM {name}")
        for name in ("nothing", "`7`"):
            assert not spark.catalog.functionExists(f"bsjoin.{name}")
            with pytest.raises(PySparkException, match="UNRESOLVED_ROUTINE"):
                spark.sql(f"SELECT bsjoin.{name}(1)")
        (tmp_path / "file").write_text("no folder")
        fails(StoreAccessError, lambda: spark.table(f"bsjoin.`{tmp_path / 'file'}`"), "directory")
        with pytest.raises(PySparkException, match="needs the path of a table"):
            spark.read.format("bsjoin").load()

    def test_names_and_options_that_are_refused(
        self, spark: SparkSession, table: BatchTable, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        for name in ("", "a.b", "a b", "/data", None):
            with pytest.raises(ArgumentError, match="letters, digits and underscores"):
                table.register(spark, name)  # type: ignore[arg-type]
        reader = spark.read.format("bsjoin")
        assert reader.option("VERSIONASOF", 1).load(table.path).count() == 4
        for option in ("versionAsOff", "path2", "header"):
            with pytest.raises(PySparkException, match=f"'{option}'.*versionAsOf, maxStalenessUs"):
                spark.read.format("bsjoin").option(option, "1").load(table.path)
        aged = spark.read.option("maxStalenessUs", "1")
        with pytest.raises(PySparkException, match=r"(?i)'maxStalenessUs'.*\[path, versionAsOf]"):
            aged.format("bsjoin").option("versionAsOf", 1).load(table.path)
        with pytest.raises(PySparkException, match=r"(?i)'maxStalenessUs'.*, timestampAsOf]"):
            aged.table(f"bsjoin.`{table.path}`").collect()
        with pytest.raises(PySparkException, match="timestampAsOf"):
            spark.read.format("bsjoin").option("timestampAsOf", "2020-01-01").load(table.path)
        monkeypatch.setattr(catalog, "attached", lambda spark: "it is refused")
        with saying(WorkerEnvironmentError, "it is refused", table.path, "spark.jars=bsjoin.jar()"):
            table.register(spark, "customers")
        with pytest.raises(WorkerEnvironmentError, match="it is refused"):
            table.to_df(spark)

    def test_how_old_rows_may_be_is_of_one_table(
        self, spark: SparkSession, table: BatchTable, customers: str
    ) -> None:
        BatchTable.open(table.path, max_staleness=1e-6).register(spark, "Customers")
        for name in ("default.customers", "customers"):
            assert len(spark.table(f"bsjoin.{name}").collect()) == 4
            spark.conf.unset(f"{LIMIT}customers")  # none by hand, too
        fails(StaleTableError, lambda: spark.table("bsjoin.Customers").collect())
        spark.conf.unset("spark.bsjoin.table.customers")
        fails(StaleTableError, lambda: spark.table(customers).collect())
        for limit in ("1 hour", "-5", "", "9" * 19):
            spark.conf.set(f"{LIMIT}Customers", limit)
            by_path = spark.read.format("bsjoin").option("maxStalenessUs", limit)
            for act in (partial(spark.table, customers), partial(by_path.load, table.path)):
                fails(ArgumentError, act, f"='{limit}' is not how many", "0 for rows of any age")
        fails(ArgumentError, partial(spark.table, customers), f"{LIMIT}Customers='")

    @pytest.mark.long
    def test_paths_are_those_of_python(self, spark: SparkSession) -> None:
        for given in (
            "a/../b", "/x/./y//z/", "/x/../y", ".", "~/t", "a/~/b", "~nobody-here/t", "file:/x",
            "FILE:/x", "file://localhost/x", "file://host/x", "file:x", "file:", "file:///x%20y",
            "file:~/t", "dbfs:/x", "dbfs:x", "dbfs://x", "s3:bucket/x", "s3:/bucket", "day:1/x",
            "1s3://x/y", "C:/x", "C:x/y", "\\\\host\\x",
        ):  # fmt: skip
            try:
                expected = (TableNotFoundError, f"'{address_of(given)}' holds no table")
            except StoreError:
                expected = (StoreError, given.removeprefix("dbfs:"))
            fails(expected[0], partial(read, spark, given), expected[1])
            if given.startswith(("/", "file:///", "s3:")):  # this door leads through the same one
                fails(expected[0], partial(spark.table, f"bsjoin.`{given}`"), expected[1])


class TestRows:
    """The scan has the rows that were stored."""

    @pytest.fixture(autouse=True)
    def _small_segments(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(options, "_SMALLEST_SEGMENT", 1 << 10)

    def test_every_type(self, spark: SparkSession, tmp_path: Path) -> None:
        source = spark.range(300).selectExpr("id", *COLUMNS, "id AS `a.b`", "id AS `c``d`")
        table = BatchTable.build(source, on="id", path=tmp_path / "t", segment_bytes=8 << 10)
        assert table.stats().segments > 1
        found = table.to_df(spark)
        assert found.columns == source.columns
        assert all(field.nullable for field in found.schema)
        codes = ("stage", "interpreted")
        check_same(spark, lambda: found, found=0, codes=codes, right=[lambda: source])

    def test_only_the_columns_that_are_selected_are_read(
        self, spark: SparkSession, tmp_path: Path
    ) -> None:
        source = spark.range(1000).selectExpr("id AS k", "repeat('x', 1000) AS text", "id AS v")
        df = BatchTable.build(source, on="k", path=tmp_path / "t").to_df(spark)

        def size(df: DataFrame) -> int:
            stats = df._jdf.queryExecution().optimizedPlan().collectLeaves().head().stats()
            return int(stats.sizeInBytes())

        assert size(df) > 1_000_000 > 20 * size(df.select("k"))
        file_of(tmp_path / "t", 1).unlink()
        assert "[v]" in scans(df.select("v"))
        assert rows(df.where("k = 3").select("v")) == [(3,)]
        assert df.count() == 1000
        said = f"the table in '{tmp_path / 't'}' is missing"
        fails(DamagedTableError, df.select("text").collect, said)

    def test_columns_that_the_jvm_does_not_read(self, spark: SparkSession, tmp_path: Path) -> None:
        nested = ("array(id) AS `a: b`", "named_struct('x', id, 'y', id) AS s")
        source = spark.range(3).selectExpr("id AS k", *nested, "id AS plain")
        table = BatchTable.build(source, on="k", path=tmp_path / "t")
        df = table.to_df(spark)
        assert df.schema["a: b"].dataType.simpleString() == "array<bigint>"
        assert rows(df.select("k", "plain")) == [(k, k) for k in range(3)]
        assert spark.sql(f"DESCRIBE EXTENDED bsjoin.`{table.path}`").count() > 3
        told = ("array<bigint>", table.path, "bsjoin.join")
        fails(ColumnError, df.collect, "'a: b'", *told)
        fails(ColumnError, df.select("s.x").collect, "'s'", "struct<x:bigint,y:bigint>", *told[1:])

    @pytest.mark.usefixtures("without_code")
    @pytest.mark.parametrize("every", [False, pytest.param(True, marks=pytest.mark.long)])
    def test_a_filter_on_the_key_skips_segments(
        self, spark: SparkSession, tmp_path: Path, every: bool
    ) -> None:
        """Of some or every type of keys, and of keys of two columns."""
        cases: list[tuple[list[str], str, bool]] = []  # key columns, condition, whether it skips
        for key, value in {
            "id": "7",
            "CAST(id % 100 AS tinyint)": "7Y",
            "IF(id = 7, double('NaN'), CAST(id AS double))": "double('NaN')",
            "IF(id = 7, -0.0D, id + 1D)": "0.0D",
            "CAST(id AS decimal(30,2))": "CAST(7 AS decimal(30,2))",
            "concat('key ', id)": "'key 7'",
            "CAST(concat('key ', id) AS binary)": "CAST('key 7' AS binary)",
            "timestamp_seconds(id)": "timestamp_seconds(7)",
            "CAST(timestamp_seconds(id) AS timestamp_ntz)": "TIMESTAMP_NTZ'1970-01-01 00:00:07'",
        }.items():
            equal = (f"a IN ({value}, NULL)", f"a <=> {value}")[len(cases) % 2]
            if every or key in ("id", "concat('key ', id)"):
                cases.append(([key], equal, True))
        pair = ["id % 40", "concat('x', id)"]
        none = ("a <> 7", "a = 7 OR v = 8", "a IS NULL", "a > a")
        cases += [(["id"], text, False) for text in none]
        cases += [(pair, text, False) for text in ("a = 7", "b = 'x7'")]
        cases.append((pair, "a IN (7, 8) AND b IN ('x7', 'x8', 'x9') AND v > 7", True))
        cases.append((pair, "a = 8 AND a IN (7, 8) AND b = 'x8'", True))
        tables: dict[str, DataFrame] = {}
        own: list[Query] = []
        right: list[Query] = []
        for keys, condition, skips in cases:
            source = spark.range(2000).selectExpr("id AS v", *map(" AS ".join, zip(keys, "ab")))  # noqa: B905
            if str(keys) not in tables:
                path, on = tmp_path / str(len(tables)), ["a", "b"][: len(keys)]
                table = BatchTable.build(source, on=on, path=path, segment_bytes=16 << 10)
                assert table.stats().segments > 2
                tables[str(keys)] = table.to_df(spark)
            df = tables[str(keys)].where(condition)
            shown = " segments" if " AND " in condition else "1 of "
            assert (shown in scans(df)) is skips, condition
            own.append(partial(df.select, "v"))
            right.append(partial(source.where(condition).select, "v"))
        check_same(spark, *own, found=0, right=right, codes=["interpreted"])


class TestVersions:
    """Which version a query reads."""

    def test_time_travel(self, spark: SparkSession, table: BatchTable, customers: str) -> None:
        before = spark.table(customers)
        assert before.first().v == 1  # type: ignore[union-attr]
        table.refresh(table_of(spark, 2))
        assert before.first().v == 2  # type: ignore[union-attr]

        at = spark.read.format("bsjoin").option("versionAsOf", 1)
        found = {
            1: at.load(table.path).select("v"),
            **{
                clause: spark.sql(f"SELECT v FROM {customers} {clause}")
                for clause in (
                    "VERSION AS OF 1", "VERSION AS OF '1'", "TIMESTAMP AS OF '2020-01-01'",
                    "", "VERSION AS OF 2", "TIMESTAMP AS OF '9999-01-01'",
                )
            },
        }  # fmt: skip
        assert rows(together(found).distinct()) == [(n, 1 + (n > 3)) for n in range(7)]
        pinned = spark.sql(f"SELECT * FROM {customers} VERSION AS OF 2")
        table.refresh(table_of(spark, 3))
        assert {row.v for row in pinned.collect()} == {2}
        for version in ("7", "0", "'one'"):
            kind = VersionNotFoundError if version in ("7", "0") else ArgumentError
            query = f"SELECT v FROM {customers} VERSION AS OF {version}"
            fails(kind, lambda query=query: spark.sql(query).collect(), table.path)

    def test_a_batch_query_does_not_wait_for_a_clock_that_was_ahead(
        self, spark: SparkSession, table: BatchTable, customers: str
    ) -> None:
        """Micro-batches do, and so does a query while the publisher waits, too."""
        probes, before = spark.range(3).withColumnRenamed("id", "k"), spark.table(customers)
        table.refresh(table_of(spark, 2))
        now = now_us()

        def check(published_s: int, value: int) -> None:
            times = {"activates_at_us": now + 3_600_000_000}
            times["created_at_us"] = now - 1_000_000 * published_s
            change(Path(table.path), lambda data: data.update(times), 2)
            for df in (before, spark.table(customers), table.to_df(spark)):
                assert {row.v for row in df.select("v").collect()} == {value}
                assert {row.v for row in probes.join(df, "k").collect()} == {value}

        check(-3600, 1)  # its clock is ahead, too
        check(11, 2)
        StorageLocation.of(table.path).remove("versions/00000001.json")
        check(11, 2)

    def test_a_version_that_is_gone(
        self, spark: SparkSession, table: BatchTable, customers: str
    ) -> None:
        first = spark.sql(f"SELECT * FROM {customers} VERSION AS OF 1")
        table.refresh(table_of(spark, 2))
        assert table.vacuum(older_than=0) == [1]
        fails(DamagedTableError, first.collect, table.path, "was the version vacuumed")
        fails(VersionNotFoundError, lambda: spark.sql(f"SELECT * FROM {customers} VERSION AS OF 1"))

    def test_a_version_that_was_withdrawn_leaves_its_number_to_another(
        self, spark: SparkSession, table: BatchTable, customers: str
    ) -> None:
        """Of two publishers one was late; queries have seen its version, and not used it."""
        probes = spark.range(5).withColumnRenamed("id", "k")
        joined = analyzed = probes.join(spark.table(customers), "k")
        location = StorageLocation.of(table.path)
        newest, later_us = versions.latest(location), now_us() + 3_600_000_000
        for created_us in (later_us, later_us + 1, later_us + 2):
            location.remove("versions/00000002.json")
            put(location, newest, 2, created_us)
            assert rows(joined.limit(9).select("k", "v")) == rows(joined.select("k", "v"))
            assert rows(analyzed.select("k", "v")) == rows(joined.select("k", "v"))
            analyzed = probes.join(spark.table(customers), "k")  # by one that is not there then

    @pytest.mark.long
    def test_a_table_that_is_built_again_is_never_mixed_up(
        self, spark: SparkSession, table: BatchTable, customers: str
    ) -> None:
        stream = spark.range(5).withColumnRenamed("id", "k")
        old = spark.table(customers)
        joined = stream.join(old, "k")
        pinned = stream.join(spark.sql(f"SELECT * FROM {customers} VERSION AS OF 1"), "k")
        assert joined.limit(1).count() == pinned.limit(1).count() == 1
        StorageLocation.of(table.path).remove("")
        BatchTable.build(table_of(spark, 5, keys=9), on="k", path=table.path)
        new = [(k, 5) for k in range(9)]
        cause = failure(old.collect)
        assert type(cause) is VersionNotFoundError if cause else rows(old) == new
        for df in (joined, pinned):
            fails(VersionNotFoundError, df.limit(1).collect, "built again", table.path)
        assert rows(spark.table(customers)) == new
        assert {row.v for row in stream.join(spark.table(customers), "k").collect()} == {5}

    @pytest.mark.long
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

    @pytest.mark.long
    def test_micro_batches_and_their_replays(
        self, spark: SparkSession, feed: Feed, table: BatchTable
    ) -> None:
        def run() -> None:
            feed.run(feed.stream.join(table.to_df(spark), "k", "left"), 0, 9).stop()

        with configured(spark, {PLANNER: "off"}):  # the scan answers
            run()
            assert feed.results == {0: [(0, 1), (9, None)]}
            # The application dies before it commits micro-batch 0; the table changes meanwhile.
            assert feed.forget_last_commit() == 0
            table.refresh(table_of(spark, 2))
            feed.results.clear()
            run()
        assert feed.results == {0: [(0, 1), (9, None)], 1: [(0, 2), (9, None)]}


class TestRefusals:
    """What cannot be done is an error that says why."""

    def test_nothing_is_written(
        self, spark: SparkSession, table: BatchTable, customers: str, tmp_path: Path
    ) -> None:
        df = table_of(spark, 2)
        spark.conf.set("spark.bsjoin.table.gone", str(tmp_path / "nothing"))
        spark.sql("DROP TABLE IF EXISTS bsjoin.gone")
        statements = (
            "CREATE TABLE IF NOT EXISTS bsjoin.gone (k int)",
            "INSERT INTO bsjoin.customers VALUES (1, 2)",
            "INSERT OVERWRITE bsjoin.customers SELECT 1, 2",
            "CREATE TABLE bsjoin.new (k int)",
            "CREATE TABLE bsjoin.new AS SELECT 1 AS k",
            "DROP TABLE bsjoin.customers",
            "ALTER TABLE bsjoin.customers ADD COLUMN x int",
            "TRUNCATE TABLE bsjoin.customers",
            "DELETE FROM bsjoin.customers WHERE k = 1",
        )
        for write in (
            *(partial(spark.sql, statement) for statement in statements),
            lambda: df.write.mode("append").saveAsTable(customers),
            lambda: df.write.mode("overwrite").format("bsjoin").save(table.path),
            lambda: df.writeTo(customers).append(),
            lambda: df.writeTo("bsjoin.new").create(),
        ):
            with pytest.raises(UnsupportedOperationException, match=r"BatchTable\.build") as error:
                write()
            named = ("'customers'", "'new'", "'gone'", table.path)
            assert any(name in str(error.value) for name in named)
        assert table.version == 1
        assert spark.table(customers).count() == 4

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

    def test_credentials_are_neither_taken_nor_shown(self, spark: SparkSession) -> None:
        for url in (
            "s3://me:tell-nobody@bucket/t", "s3://bucket/t?token=tell-nobody",
            "s3://me:tell-nobody?x@bucket/t",
        ):  # fmt: skip
            for act in (
                lambda: read(spark, url),  # noqa: B023
                lambda: spark.sql(f"SELECT * FROM bsjoin.`{url}`"),  # noqa: B023
            ):
                with pytest.raises(RAISED) as caught:
                    act()
                cause = cause_of(caught.value)
                assert type(cause) is StoreError
                assert "***" in str(cause)
                assert "tell-nobody" not in str(cause)
            with pytest.raises(StoreError, match=r"has a secret|credentials") as error:
                catalog.relation(spark, StorageLocation(url))
            assert "tell-nobody" not in str(error.value)

    def test_another_format_is_not_damage(self, spark: SparkSession, table: BatchTable) -> None:
        change(Path(table.path), lambda data: data.update(format=3))
        fails(TableNotFoundError, lambda: spark.table(f"bsjoin.`{table.path}`"), table.path)


@pytest.mark.long
def test_a_table_behind_a_url(spark: SparkSession, tmp_path: Path) -> None:
    """Remote for bsjoin, and within reach of its processes."""
    url = f"local://{tmp_path}/table"
    table = BatchTable.build(table_of(spark, 1), on="k", path=url)
    table.register(spark, "remote")
    for door in (spark.table("bsjoin.remote"), spark.table(f"bsjoin.`{url}`")):
        assert rows(door) == [(k, 1) for k in range(4)]
    fails(TableNotFoundError, lambda: spark.table(f"bsjoin.`{url}-not`"), f"{url}-not")
