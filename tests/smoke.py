"""One join of each kind, without pytest, for other versions than the installed ones.

    python tests/smoke.py [connect]

`make minimum` and `make matrix` run it. Under Connect the plans of the JVM are not looked at.
"""

from __future__ import annotations

import importlib
import sys
import tempfile
from contextlib import closing
from pathlib import Path

import deltalake
import pyarrow as pa
import smoke_compat
import smoke_jvm
from pyspark.sql import DataFrame, SparkSession
from sessions import SETTINGS, session

import bsjoin
from bsjoin import AsOf, BatchTable, Incremental, monitoring, sources
from scheduling import Exact, JobGraph, Resources, Snapshot, Task, Worker

DRIVERS = (
    "adbc_driver_manager", "adbc_driver_postgresql.dbapi", "deltalake", "pyiceberg.table",
    "pymysql", "redis", "yaml",
)  # fmt: skip


def rows(df: DataFrame) -> list[tuple[object, ...]]:
    return sorted(map(tuple, df.collect()), key=repr)


def full(spark: SparkSession) -> None:
    """Texts and decimals as keys, nested values."""
    stream = spark.sql("SELECT * FROM VALUES ('a', 1.50BD), ('b', 2BD), (null, 1BD) AS t(s, d)")
    batch = spark.sql("SELECT * FROM VALUES ('a', 1.5BD, array(1)), ('a', 9BD, null) AS t(s, d, l)")
    table = BatchTable.build(batch, on=["s", "d"])
    assert rows(table.join(stream, how="left")) == rows(stream.join(batch, ["s", "d"], "left"))


def incremental(spark: SparkSession, folder: Path, scheme: str) -> None:
    """A stream that asks a database."""
    file = folder / f"planes.{scheme}"
    statements = (
        "CREATE TABLE planes (id BIGINT PRIMARY KEY, name VARCHAR(9))",
        "INSERT INTO planes VALUES (1, 'one'), (2, 'two')",
    )
    driver = importlib.import_module({"sqlite": "sqlite3"}.get(scheme, scheme))
    with closing(driver.connect(file)) as database:
        for statement in statements:
            database.execute(statement)
        database.commit()
    source = sources.sql(f"{scheme}:///{file}", table="planes")
    stream = spark.readStream.schema("id long").parquet(str(folder / "stream"))
    joined = bsjoin.join(stream, source, "id", how="left", cache=Incremental(max_rows=10))
    query = joined.writeStream.format("memory").queryName(scheme).start()
    query.processAllAvailable()
    (cycle,) = (cycle for cycle in bsjoin.progress(query) if cycle.rows_in)
    query.stop()
    found = rows(spark.table(scheme))
    assert found == [(1, "one"), (3, None)], found
    assert (cycle.rows_in, cycle.rows_out, cycle.hits, cycle.cache.lookups) == (2, 2, 1, 1), cycle


def lakes(folder: Path) -> None:
    """A table of Delta; one of Iceberg could not be written without a catalogue's packages."""
    rows = pa.table({"id": pa.array([1, 2, 3], pa.int64()), "name": ["one", "two", None]})
    deltalake.write_deltalake(str(folder), rows)
    source = sources.delta(folder)
    keys = pa.table({"id": pa.array([2, 9], pa.int64())})
    assert source.lookup(keys).to_pylist() == [{"id": 2, "name": "two"}]
    assert sum(map(len, source.scan())) == 3


def ranges(spark: SparkSession) -> None:
    table = spark.sql("SELECT * FROM VALUES (1, 'a'), (5, 'b') AS t(q, v)")
    stream = spark.sql("SELECT * FROM VALUES (0), (4), (7) AS t(p)")
    found = bsjoin.join(stream, table, on=[], when=AsOf("p", "q"), how="left", select=["v"])
    assert rows(found) == [(0, None), (4, "a"), (7, "b")], rows(found)


def placement() -> None:
    """The cheapest of two workers."""
    cheap, dear = (Worker(str(price), Resources(4, 8192), 4, price) for price in (1.0, 2.0))
    graph = JobGraph((Task("map-0", "map", 0, Resources(1, 1024)),))
    found = Exact().plan(graph, Snapshot(0.0, (dear, cheap)))
    assert found.placement == {"map-0": "1.0"}, found


def telemetry() -> None:
    """Instruments of OpenTelemetry's API, which nothing reads."""
    listener = monitoring.OpenTelemetryListener()
    assert listener.totals.samples() == []


def main() -> None:
    for name in DRIVERS:
        importlib.import_module(name)
    placement()
    telemetry()
    connected = sys.argv[1:] == ["connect"]
    if connected:
        spark = SparkSession.builder.remote("local[2]").config(map=SETTINGS).getOrCreate()
    else:
        spark = session("local[2]")
    with tempfile.TemporaryDirectory() as folder:
        spark.createDataFrame([(1,), (3,)], "id long").coalesce(1).write.parquet(f"{folder}/stream")
        smoke_compat.check(spark)
        full(spark)
        lakes(Path(folder) / "lakes")
        ranges(spark)
        for scheme in ("sqlite", "duckdb"):
            incremental(spark, Path(folder), scheme)
        if not connected:
            smoke_jvm.checks(spark, Path(folder) / "jvm")
    print(f"smoke test: all joins and the placement are right with Spark {spark.version}")
    spark.stop()


if __name__ == "__main__":
    main()
