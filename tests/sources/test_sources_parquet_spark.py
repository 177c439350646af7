"""``parquet`` means what ``spark.read.parquet`` means: schema, rows and look-ups, or it refuses."""

from __future__ import annotations

import contextlib
import json
import pickle
import re
import shutil
from pathlib import Path
from typing import Any

import parquet_samples as samples
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from sessions import configured
from spark_samples import values_of

from bsjoin.errors import BSJoinError, ColumnError, SourceError
from bsjoin.planner.incremental_cache import schema_of_source
from bsjoin.sources import parquet

pytestmark = pytest.mark.usefixtures("interpreted")

Rows = list[str]


def rows(table: pa.Table) -> Rows:
    """The rows in an order of their own; dates as numbers, for Python has not all of them."""
    return sorted(map(repr, zip(*map(_values, table.columns), strict=True)))


def _values(column: pa.ChunkedArray) -> list[Any]:
    array, dtype = column.combine_chunks(), column.type
    if pa.types.is_timestamp(dtype):
        array = array.view(pa.int64())
    elif pa.types.is_date(dtype):
        array = array.view(pa.int32())
    elif pa.types.is_string(dtype):
        array = array.view(pa.binary())
    return array.to_pylist()


def by_spark(spark: SparkSession, path: Path) -> tuple[list[tuple[str, str]], Rows] | None:
    """The types and rows; None if Spark has an error."""
    try:
        df = spark.read.parquet(str(path))
        types = [(field.name, field.dataType.simpleString()) for field in df.schema]
        return types, rows(df.toArrow())
    except (PySparkException, Py4JJavaError):
        return None


def by_source(path: Path, **options: Any) -> tuple[list[tuple[str, str]], Rows]:
    """The same by a scan of a worker's copy; each row is found by its own key."""
    source = parquet(path, **options)
    types = [(f.name, f.dataType.simpleString()) for f in schema_of_source(source)]
    source = pickle.loads(pickle.dumps(source))
    try:
        whole = pa.Table.from_batches(source.scan(), source.schema)
        check_own_keys(source, whole)
        return types, rows(whole)
    finally:
        source.close()


def check_own_keys(source: Any, whole: pa.Table) -> None:
    """Each row is found by each of its values: by the first with all columns, then with one."""
    brought = None
    for field in whole.schema:
        if pa.types.is_nested(field.type):
            continue
        kept = whole.filter(whole.column(field.name).is_valid())
        if len(kept):
            keys = pa.table({field.name: kept.column(field.name).unique()})
            found = source.lookup(keys, brought)
            names = [name for name in whole.column_names if name in found.column_names]
            assert rows(found.select(names)) == rows(kept.select(names)), field
            assert brought is not None or names == whole.column_names
            brought = whole.column_names[:1]


def check(spark: SparkSession, path: Path, name: str) -> None:
    compare(by_spark(spark, path), path, name)


def compare(expected: tuple[list[tuple[str, str]], Rows] | None, path: Path, name: str) -> None:
    """What Spark says of a folder, and what the source says."""
    if expected is None:
        try:
            by_source(path)
        except BSJoinError:
            return
        raise AssertionError(f"{name}: Spark does not read it")
    else:
        try:
            types, found = by_source(path)
            # The spelling of a partition column is that of any folder.
            assert [(n.lower(), t) for n, t in types] == [(n.lower(), t) for n, t in expected[0]]
            assert found == expected[1], name
        except SourceError as error:
            raise AssertionError(f"{name}: {error}") from error


EXTRAS = {"uuid", "half", "nanoseconds"}
"""Types that Spark's reader has no word for, and ours has."""
ALONE = {*EXTRAS, "time", "wide decimal"}
QUICK = {"together", "int96", "time", "uuid"}
"""The files that the default run writes."""


@pytest.mark.parametrize("wide", [False, pytest.param(True, marks=pytest.mark.long)])
def test_arrow_types_mean_what_they_mean_to_spark(
    spark: SparkSession, tmp_path: Path, wide: bool
) -> None:
    """All columns in a file; those that Spark does not read in files of their own."""
    arrays = {name: made() for name, made in samples.ARROW.items()}
    together = {name: array for name, array in arrays.items() if name not in ALONE}
    decimals = {name: array for name, array in together.items() if "decimal" in name}
    moments = pa.array([0, -1, -1001, 10**18, None], pa.timestamp("ns"))
    plainer = {"write_statistics": False, "use_dictionary": False, "store_schema": False}
    newer = {"data_page_version": "2.0", "write_page_index": True}
    for folder, columns, options in (
        ("together", together, newer),
        ("plainer", dict([*together.items()][::3]), plainer),
        ("decimals", decimals, {"store_decimal_as_integer": True}),
        ("int96", {"moments": moments}, {"use_deprecated_int96_timestamps": True}),
        *((name, {name: arrays[name]}, {}) for name in sorted(ALONE)),
    ):
        if not wide and folder not in QUICK:
            continue
        size = max(map(len, columns.values()))
        table = {"id": pa.array(range(size), pa.int32())}
        for number, array in enumerate(columns.values()):
            nulls = pa.nulls(size - len(array), array.type)
            table[f"v{number}"] = pa.concat_arrays([array, nulls])
        path = tmp_path / folder
        path.mkdir()
        pq.write_table(pa.table(table), path / "a.parquet", row_group_size=3, **options)
        if folder in EXTRAS:
            assert by_spark(spark, path) is None
            assert len(by_source(path)[1]) == size
        else:
            check(spark, path, folder)


@pytest.mark.parametrize("program", ["duckdb", "polars"])
def test_files_of_other_programs(spark: SparkSession, tmp_path: Path, program: str) -> None:
    getattr(samples, f"by_{program}")(tmp_path)
    check(spark, tmp_path, program)


@pytest.mark.parametrize("step", [6, pytest.param(1, marks=pytest.mark.long)])
def test_folders_are_listed_as_spark_lists_them(
    spark: SparkSession, tmp_path: Path, step: int
) -> None:
    """Spark's rows of all folders come by one query, of those that it cannot read by their own."""
    places: dict[str, Path] = {}
    for name, folder in [*samples.folders(tmp_path)][::step]:
        places[name] = folder
        for inside in folder.glob("p=1"):
            places[f"{name}: {inside.name}"] = inside
    read: dict[str, DataFrame] = {}
    for name, path in places.items():
        with contextlib.suppress(PySparkException, Py4JJavaError):
            read[name] = spark.read.parquet(str(path))
    apart = samples.NOT_READ & read.keys()
    found = values_of({name: df for name, df in read.items() if name not in apart})
    for name, path in places.items():
        if name in apart:
            check(spark, path, name)
        elif name not in read:
            compare(None, path, name)
        else:
            types, _ = by_source(path)
            theirs = [(field.name, field.dataType.simpleString()) for field in read[name].schema]
            assert [(n.lower(), t) for n, t in types] == [(n.lower(), t) for n, t in theirs], name
            ours = parquet(path)
            assert in_json(pa.Table.from_batches(ours.scan(), ours.schema)) == found[name], name


def in_json(table: pa.Table) -> list[str]:
    """The rows as ``values_of`` has them."""
    names = [f"c{place}" for place in range(table.num_columns)]
    values = table.rename_columns(names).to_pylist()
    return sorted(json.dumps(row, separators=(",", ":"), ensure_ascii=False) for row in values)


def kind(dtype: pa.DataType) -> str:
    if pa.types.is_temporal(dtype):
        return "time"
    return "text" if pa.types.is_string(dtype) or pa.types.is_binary(dtype) else "number"


@settings(
    max_examples=4, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(one=st.sampled_from(list(samples.TYPES)), other=st.sampled_from(list(samples.TYPES)))
def test_files_of_different_types(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory, one: str, other: str
) -> None:
    folder = tmp_path_factory.mktemp("types")
    try:
        arrays = [samples.seven(samples.TYPES[name]) for name in (one, other)]
    except pa.ArrowException:
        return
    for array, file in zip(arrays, "ab", strict=True):
        samples.written(folder / f"{file}.parquet", v=array)
    if kind(arrays[0].type) != kind(arrays[1].type):
        # Spark has an error, or takes the days or bytes of the one for the other's numbers.
        with pytest.raises(SourceError, match=r"b\.parquet"):
            by_source(folder)
    else:
        check(spark, folder, f"{one} <- {other}")


VALUES = st.one_of(
    st.sampled_from(
        ["1", "-5", "+5", "007", "2147483648", "9223372036854775808", "9" * 38, "9" * 39, "1e5",
         "1E+40", "1.0", "1.", ".5", "-0.0", "1d", "1L", "0x10", "0x1p3", "NaN", "nan",
         "Infinity", " 1", "1_0", "١٢", "1e400", "2024-01-01", "2024-1-1", "2024-02-30",
         "2024-01-01 00%3A00%3A00", "2024-01-01 10:00:00.5", "2024-01-01 10%3A00%3A00.123456",
         "2024-01-01 25:00:00", "0000-01-01", "1582-10-10", "true", "a%20b", "a%zz", "é",
         samples.NULL, "1%2E5", "0e0", "-", "a=b"]
    ),
    st.integers(-(2**70), 2**70).map(str),
    st.floats(allow_nan=False).map(repr),
    st.dates().map(str),
    st.text("ab1.-%", min_size=1, max_size=4).filter(lambda text: text.strip(".")),
)  # fmt: skip


@settings(
    max_examples=3, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(values=st.lists(VALUES, min_size=1, max_size=3, unique=True))
def test_partition_values(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory, values: list[str]
) -> None:
    folder = tmp_path_factory.mktemp("p") / "table"
    samples.partitions(folder, values)
    expected = by_spark(spark, folder)
    # Spark takes digits of any script for an integer, and then cannot read them as a double.
    types = {} if expected is None else dict(expected[0])
    if expected is None or re.match("void|time\\(", types["p"]):
        with pytest.raises(SourceError, match="schema="):
            by_source(folder)
    else:
        assert by_source(folder) == expected


@pytest.mark.parametrize(
    ("stored", "zone"),
    [
        pytest.param("INT96", "America/Los_Angeles", marks=pytest.mark.long),
        ("TIMESTAMP_MICROS", "+05:30"),
    ],
)
def test_timestamps_of_spark_itself(
    spark: SparkSession, tmp_path: Path, stored: str, zone: str
) -> None:
    """The default is INT96; the legacy calendars of it and of the rest leave a mark each."""
    modes = ("LEGACY", "CORRECTED") if stored == "INT96" else ("CORRECTED", "LEGACY")
    written = {
        "spark.sql.parquet.outputTimestampType": stored,
        "spark.sql.parquet.int96RebaseModeInWrite": modes[0],
        "spark.sql.parquet.datetimeRebaseModeInWrite": modes[1],
        "spark.sql.session.timeZone": zone,
    }
    moments = [-62_000_000_000_000_000 + n * 6_548_000_000_000_017 for n in range(45)]
    moments += [-2_208_988_800_000_000, -2_208_988_800_000_001, -12_219_292_800_000_001, 0, -1]
    df = spark.createDataFrame([(m,) for m in moments], "m long").selectExpr(
        "m", "timestamp_micros(m) t", "date_from_unix_date(int(m DIV 86400000000)) d",
        "array(timestamp_micros(m)) l", "cast(timestamp_micros(m) as timestamp_ntz) n",
    )  # fmt: skip
    with configured(spark, written):
        df.coalesce(1).write.parquet(str(tmp_path / "table"))
    check(spark, tmp_path / "table", zone)


def test_types_of_spark_itself(spark: SparkSession, tmp_path: Path) -> None:
    columns = [
        "tinyint(1) a", "smallint(-1) b", "1.5f c", "binary('a') d", "array(struct(1 x)) e",
        "map('a', array(1.5)) f", "cast(null as string) g", "timestamp'9999-12-31 23:59:59' h",
        "decimal(1.5) i", "timestamp_ntz'0001-01-01 00:00:00' j", "cast(X'FF' as string) k",
        "cast(1.5 as decimal(38, 18)) l", "cast(1 as decimal(9, 2)) m", "unhex('FF') n",
    ]  # fmt: skip
    for number, legacy in enumerate(("true", "false")):
        path = tmp_path / str(number)
        with configured(spark, {"spark.sql.parquet.writeLegacyFormat": legacy}):
            spark.range(2).selectExpr("id", *columns).coalesce(1).write.parquet(str(path))
        check(spark, path, legacy)
    refused = {
        "a": "interval '1' day", "b": "interval '1' year", "c": "'a' collate UTF8_LCASE",
        "d": "parse_json('1')",
    }  # fmt: skip
    columns = [f"{value} {name}" for name, value in refused.items()]
    spark.range(1).selectExpr("id", *columns).write.parquet(str(tmp_path / "refused"))
    for name in refused:
        others = {other: pa.string() for other in refused if other != name}
        with pytest.raises(SourceError, match=rf"'{name}'.*schema="):
            _ = parquet(tmp_path / "refused", schema=others).schema


@pytest.mark.parametrize(
    "setting",
    [{"caseSensitive": "true", "parquet.binaryAsString": "true",
      "parquet.inferTimestampNTZ.enabled": "false"},
     {"parquet.mergeSchema": "true", "legacy.parquet.datetimeRebaseModeInRead": "LEGACY"},
     {"sources.partitionColumnTypeInference.enabled": "false"},
     {"session.timeZone": "America/New_York"},
     {"parquet.datetimeRebaseModeInRead": "LEGACY", "parquet.int96RebaseModeInRead": "LEGACY",
      "legacy.parquet.datetimeRebaseModeInRead": "CORRECTED"}],
    ids=str,
)  # fmt: skip
def test_settings_of_the_session_are_followed(
    spark: SparkSession, tmp_path: Path, setting: dict[str, str]
) -> None:
    values = {
        "A": ["x"],
        "b": [b"\xff"],
        "t": pa.array([-(10**17)], pa.timestamp("us")),
        "u": pa.array([-(10**17)], pa.timestamp("us", "UTC")),
        "d": pa.array([-700_000], pa.int32()).cast(pa.date32()),
    }
    samples.written(tmp_path / "p=2024-07-01 00%3A00%3A00" / "a.parquet", **values)
    samples.written(tmp_path / "p=2024-01-01" / "b.parquet", **values, a=["y"])
    with configured(spark, {f"spark.sql.{name}": value for name, value in setting.items()}):
        check(spark, tmp_path, str(setting))


def test_settings_that_are_not_followed_are_an_error(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "m=2024-07" / "p=2024-07-01 00%3A00%3A00"
    samples.written(path / "a.parquet", a=[1])
    source = parquet(tmp_path)
    for name, value in {"parquet.nanosAsLong": "true", "timeParserPolicy": "LEGACY"}.items():
        name = f"spark.sql.legacy.{name}"
        with configured(spark, {name: value}), pytest.raises(SourceError, match=re.escape(name)):
            _ = source.schema
    assert source.schema.names == ["a", "m", "p"]
    typed = parquet(tmp_path, schema={"p": pa.timestamp("us", "UTC")})
    with configured(spark, {"spark.sql.legacy.timeParserPolicy": "LEGACY"}):
        assert spark.read.parquet(str(tmp_path)).schema["m"].dataType.simpleString() == "string"
        assert typed.schema.field("m").type == pa.string()  # a month is no date to Spark


def test_columns_that_have_numbers_are_not_read_by_their_names(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Where a setting says so, which Delta's jars bring: it matters to files with numbers alone."""
    samples.written(tmp_path / "plain" / "a.parquet", a=[1], b=["x"])
    numbered = spark.range(2).select(F.col("id").alias("a", metadata={"parquet.field.id": 7}))
    numbered.write.parquet(str(tmp_path / "numbered"))
    name = "spark.sql.parquet.fieldId.read.enabled"
    with configured(spark, {name: "true"}):
        check(spark, tmp_path / "plain", name)
        with pytest.raises(SourceError, match=f"{re.escape(name)} is true.*with numbers"):
            _ = parquet(tmp_path / "numbered").schema
    check(spark, tmp_path / "numbered", name)


def test_only_committed_files_of_a_streaming_sink_count(
    spark: SparkSession, tmp_path: Path
) -> None:
    path, feed = tmp_path / "the sink", tmp_path / "feed"
    for number in range(3):
        columns = {"id": range(number * 6, number * 6 + 6), "p q": [0, 1, 2] * 2}
        samples.written(feed / f"{number}.parquet", **columns)
    stream = spark.readStream.schema("id long, `p q` long").option("maxFilesPerTrigger", 1)
    with configured(spark, {"spark.sql.streaming.fileSink.log.compactInterval": "2"}):
        query = (
            stream.parquet(str(feed))
            .writeStream.format("parquet")
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .partitionBy("p q")
            .trigger(availableNow=True)
            .start(str(path))
        )
        query.awaitTermination()
    (some,) = list(path.glob("p q=0/*.parquet"))[:1]
    shutil.copy(some, some.with_name("part-of-a-failed-batch.parquet"))
    # One micro-batch behind those whose files one file lists.
    assert {file.name for file in (path / "_spark_metadata").iterdir()} >= {"1.compact", "2"}
    check(spark, path, "sink")


FORMATS = {
    "Delta": ["_delta_log/00000000000000000000.json", "p=1/a.parquet"],
    "Iceberg": ["metadata/v1.metadata.json", "data/p=1/a.parquet"],
    "Hudi": [".hoodie/hoodie.properties", "p=1/a.parquet"],
    "Paimon": ["snapshot/snapshot-1", "bucket-0/a.parquet"],
}


def test_other_tables_are_refused_by_name(tmp_path: Path) -> None:
    for name, files in FORMATS.items():
        for file in files:
            samples.written(tmp_path / name / file, a=[1])
        inside = (tmp_path / name / files[1]).parent
        places = [inside, inside / "a.parquet"] if name != "Paimon" else []
        for place in (tmp_path / name, *places):
            with pytest.raises(SourceError, match=rf"this is an? {name} table.*join with"):
                _ = parquet(place).schema
    samples.written(tmp_path / "cases" / "a.parquet", a=[1], A=[2])
    with pytest.raises((ColumnError, SourceError), match=r"'a'.*'A'.*case"):
        _ = parquet(tmp_path / "cases").schema
