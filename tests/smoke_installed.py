"""One join of each kind with the installed package alone, in a folder where nothing else is.

    python smoke_installed.py

`make installs` runs it with the Python of an environment that was made just now.
"""

from __future__ import annotations

import contextlib
import sqlite3
import sys
import tempfile
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

import bsjoin
from bsjoin import AsOf, BatchTable, HotSpot, Incremental, sources
from bsjoin.monitoring import dashboard


def rows(df: DataFrame) -> list[tuple[object, ...]]:
    return sorted(map(tuple, df.collect()), key=repr)


def files(package: Path) -> set[Path]:
    return {path for path in package.rglob("*") if "__pycache__" not in path.parts}


def database(file: Path) -> str:
    with contextlib.closing(sqlite3.connect(file)) as connection:
        connection.execute("CREATE TABLE planes (id BIGINT PRIMARY KEY, name TEXT)")
        connection.execute("INSERT INTO planes VALUES (1, 'one'), (2, 'two')")
        connection.commit()
    return f"sqlite:///{file}"


def main() -> None:
    package = Path(bsjoin.__file__).parent
    assert package.is_relative_to(sys.prefix), package
    before = files(package)
    assert Path(bsjoin.jar()).is_relative_to(package)
    assert b"<main" in dashboard.page()[0]
    spark = (
        SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
    )
    table = spark.sql("SELECT * FROM VALUES (1L, 'one'), (2L, 'two') AS t(id, name)")
    keys = spark.range(1, 4)
    wanted: list[tuple[object, ...]] = [(1, "one"), (2, "two"), (3, None)]
    with tempfile.TemporaryDirectory() as folder:
        stored = BatchTable.build(table, on="id", path=f"{folder}/table")
        source = sources.sql(database(Path(folder) / "planes.db"), table="planes")
        for runtime in ("jvm", "python"):
            spark.conf.set("spark.bsjoin.runtime", runtime)
            joined = stored.join(keys, how="left")
            assert rows(joined) == wanted, runtime
            assert ("BsjoinLookup" in str(joined._jdf.queryExecution())) == (runtime == "jvm")  # type: ignore[operator]
        spark.conf.unset("spark.bsjoin.runtime")
        cached = bsjoin.join(keys, source, "id", how="left", cache=Incremental(max_rows=9))
        assert rows(cached) == wanted
        near = bsjoin.join(keys, table.toDF("at", "name"), on=[], when=AsOf("id", "at"))
        assert rows(near.select("id", "at")) == [(1, 1), (2, 2), (3, 2)]
        keys.write.parquet(f"{folder}/stream")
        stream = spark.readStream.schema("id long").parquet(f"{folder}/stream")
        joined = bsjoin.join(stream, table, "id", partition=HotSpot(partitions=2))
        query = joined.writeStream.format("memory").queryName("joined").start()
        query.processAllAvailable()
        assert {cycle.runtime for cycle in bsjoin.progress(query)} == {"jvm"}
        query.stop()
        assert rows(spark.table("joined")) == wanted[:2]
        assert files(package) == before, files(package) - before
        print(f"installed: all joins are right with Spark {spark.version}")
        spark.stop()


if __name__ == "__main__":
    main()
