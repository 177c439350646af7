"""Sales joined with a price list that is a Delta table, and that changes while the stream runs.

Each commit changes prices, adds products and removes some. Delta's change data feed tells which,
and bsjoin applies that to its table: the sales behind a commit have the new prices, and nothing is
read whole. At the end each sale is held against the version of the Delta table that was the newest.
Then the last micro-batch runs once more, behind another commit: it has the prices that it had.
Last, a stream of Delta's change data feed is applied to a table of the program's own, which is
compacted, and joined with all sales.

    python examples/follow.py [--out FOLDER] [--products ROWS] [--commits COMMITS]

The program fetches Delta's jars with Maven, once. They are for Spark 4.1 and 4.2: no newer ones.

Needs the `examples` extra with one of these (`pip install "bsjoin[examples]" "pyspark==4.2.*"`),
Java, and Maven.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path

import _maven
import _support
import numpy as np
import pandas as pd
import pyspark
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everyone calls it
from pyspark.sql.streaming import DataStreamWriter, StreamingQuery

import bsjoin

_DELTA = "4.4.0"
_SPARKS = ("4.1", "4.2")
_SALES = 5_000  # behind each commit
_LIMIT_S = 120.0  # until a commit is followed
_SEEN_S = 0.5  # micro-batches use a version that was there a moment before them
_STEP = 50  # each so-many-th product changes in a commit


def main() -> None:
    """Change prices while sales are joined with them, and check every sale."""
    options = arguments()
    jars = delta_jars()
    out = _support.fresh_folder(options.out)
    spark = start_spark(jars, out)
    try:
        right = run(spark, out, options)
    finally:
        _support.stop(spark)
    sys.exit(0 if right else 1)


def run(spark: SparkSession, out: Path, options: argparse.Namespace) -> bool:
    """The example in a session; whether all sales have the right price."""
    create(spark, options.products)
    (out / "sales").mkdir()
    query = start(spark, out)
    base = table_of(out).stats().segments
    random = np.random.default_rng(1)
    for number in range(options.commits + 1):
        if number:
            commit(spark, options.products, number)
            wait_for(query, number)
            show(table_of(out), base)
        sell(out, random, options.products, number)
        query.processAllAvailable()
    query.stop()
    right = check(spark, query, out, options.commits)
    right = replay(spark, out, options) and right
    return apply_feed(spark, out, options.commits) and right


def create(spark: SparkSession, products: int) -> None:
    """Make the price list, version 0 of it: with a feed of what changes."""
    spark.sql(
        "CREATE TABLE products USING delta TBLPROPERTIES (delta.enableChangeDataFeed = true) AS "
        f"SELECT id AS product, 100 + id % 9000 AS cents FROM range({products})"
    )


def start(spark: SparkSession, out: Path) -> StreamingQuery:
    """Join the sales with the price list; that it follows the commits is one argument."""
    priced = bsjoin.join(
        sales(spark, out),
        spark.table("products"),
        on="product",
        how="left",
        cache=bsjoin.Full(store=out / "table", refresh="on_commit"),
    )

    def write(rows: DataFrame, number: int) -> None:
        rows.write.mode("overwrite").parquet(str(out / "result" / f"{number:04}"))

    sink = priced.writeStream.foreachBatch(write)
    return sink.option("checkpointLocation", str(out / "checkpoint")).start()


def sales(spark: SparkSession, out: Path) -> DataFrame:
    """The sales as a stream."""
    return spark.readStream.schema("commit int, product long").parquet(str(out / "sales"))


def table_of(out: Path) -> bsjoin.BatchTable:
    """The table that the join has made of the price list."""
    return bsjoin.BatchTable.open(out / "table", verify=False)


def commit(spark: SparkSession, products: int, number: int) -> None:
    """Change some prices, remove some products and add some: one commit, made by anybody."""
    spark.sql(
        "MERGE INTO products USING (SELECT id, 100 + id * 31 % 9000 + "
        f"{number} AS new FROM range({number}, {products + 500}, {_STEP})) ON product = id "
        "WHEN MATCHED AND id % 7 = 3 THEN DELETE "
        "WHEN MATCHED THEN UPDATE SET cents = new "
        "WHEN NOT MATCHED THEN INSERT (product, cents) VALUES (id, new)"
    )


def wait_for(query: StreamingQuery, number: int) -> None:
    """Wait until the table has a commit, as progress says it, and print how long that took."""
    until = time.monotonic() + _LIMIT_S
    while True:
        told = bsjoin.progress(query)[-1].refresh
        if told is not None and told.source is not None and told.source.version == f"{number}":
            break
        if time.monotonic() > until:
            raise RuntimeError(
                f"commit {number} is not in the table after {_LIMIT_S:.0f} s: {told}"
            )
        time.sleep(0.1)
    print(f"commit {number} is in the table, {told.lag_s or 0:.1f} s after it: ", end="")
    time.sleep(_SEEN_S)


def show(table: bsjoin.BatchTable, base: int) -> None:
    """Print what a commit has left: changes lie in layers above the base, which versions share."""
    first, stats = table.versions()[0], table.stats()
    print(f"layers {stats.segments - base}, {stats.bytes:,} bytes, of which {first.bytes:,} base")


def sell(out: Path, random: np.random.Generator, products: int, number: int) -> None:
    """Sales behind a commit: of products that are there, were there, come later, or never do."""
    sold = random.integers(0, products + 600, _SALES)
    hidden, file = (out / "sales" / f"{dot}{number:04}.parquet" for dot in (".", ""))
    rows = pd.DataFrame({"commit": np.full(_SALES, number, np.int32), "product": sold})
    rows.to_parquet(hidden, index=False)
    hidden.rename(file)  # the stream finds it whole


def check(spark: SparkSession, query: StreamingQuery, out: Path, commits: int) -> bool:
    """Hold the sales against the versions of the Delta table, which Delta keeps."""
    result = spark.read.parquet(str(out / "result" / "*"))
    cycles = [cycle for cycle in bsjoin.progress(query) if cycle.rows_in]
    used = [cycle.source and cycle.source.version for cycle in cycles]
    refresh = cycles[-1].refresh
    rounds = [result.where(F.col("commit") == number) for number in range(commits + 1)]
    equal = [
        joined.exceptAll(expected(spark, joined, n)).count() for n, joined in enumerate(rounds)
    ]
    return _support.checks(
        {
            "sales in the result": (_SALES * len(rounds), result.count()),
            "sales with another price than Delta's": (0, sum(equal)),
            "micro-batches that used the newest commit": (
                len(rounds), sum(one == f"{number}" for number, one in enumerate(used)),
            ),
            "commits that were applied as changes": (commits, refresh.applied if refresh else 0),
            "commits that were read whole": (0, refresh.read_whole if refresh else -1),
        },
        by="the versions of the Delta table",
    )  # fmt: skip


def replay(spark: SparkSession, out: Path, options: argparse.Namespace) -> bool:
    """Run the last micro-batch again, as if it had failed; whether it has the prices that it had.

    Meanwhile there is one more commit, which the table has by then.
    """
    commits = out / "checkpoint" / "commits"
    number = max(int(file.name) for file in commits.iterdir() if file.name.isdigit())
    for name in (f"{number}", f".{number}.crc"):
        (commits / name).unlink(missing_ok=True)
    (out / "result" / f"{number:04}").rename(out / "before")
    commit(spark, options.products, options.commits + 1)
    query = start(spark, out)
    query.processAllAvailable()
    query.stop()
    before, again = (
        spark.read.parquet(str(folder))
        for folder in (out / "before", out / "result" / f"{number:04}")
    )
    cycle = bsjoin.progress(query)[-1]
    newest = table_of(out).versions()[-1].source
    print("The last micro-batch has run again, behind one more commit. ", end="")
    return _support.checks(
        {
            "its sales": (_SALES, again.count()),
            "its sales with another price than before": (0, before.exceptAll(again).count()),
            "the commit that it was joined with": (options.commits, version_of(cycle.source)),
            "the newest commit in the table": (options.commits + 1, version_of(newest)),
        },
        by="its first run",
    )


def apply_feed(spark: SparkSession, out: Path, commits: int) -> bool:
    """Apply what the feed tells to a table that nothing else follows; whether it has all prices.

    Whoever has the changes of a table can do the same, wherever they come from.
    """
    first = spark.sql("SELECT * FROM products VERSION AS OF 0")
    prices = bsjoin.BatchTable.build(first, on="product", unique=True, path=out / "own")
    base = prices.stats().segments

    def upsert(changes: DataFrame, number: int) -> None:
        prices.apply(changes, batch=("products", number))  # once, if it runs again

    reader = spark.readStream.option("readChangeFeed", "true").option("startingVersion", 1)
    feed = reader.option("maxFilesPerTrigger", 1).table("products")
    finish(feed.writeStream.foreachBatch(upsert), out / "feed")
    print("The feed is applied to a table of the program's own: ", end="")
    show(prices, base)
    prices.compact()
    print("That is compacted: ", end="")
    show(prices, base)

    priced = prices.join(sales(spark, out), how="left").writeStream.queryName("priced")
    finish(priced.format("memory"), out / "priced")
    result, newest = spark.table("priced"), commits + 1
    return _support.checks(
        {
            "rows of the table": (spark.table("products").count(), prices.stats().rows),
            "sales in the result": (_SALES * newest, result.count()),
            "sales with another price than Delta's": (
                0, result.exceptAll(expected(spark, result, newest)).count(),
            ),
        },
        by=f"version {newest} of the Delta table",
    )  # fmt: skip


def finish(sink: DataStreamWriter, checkpoint: Path) -> None:
    """Run a query until it has read all that there is."""
    sink.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True)
    sink.start().awaitTermination()


def version_of(source: bsjoin.SourceVersion | None) -> int:
    """The number of a version of Delta; -1 without one."""
    return -1 if source is None else int(source.version)


def expected(spark: SparkSession, joined: DataFrame, version: int) -> DataFrame:
    """The sales of a result, joined by Spark with a version of the price list."""
    prices = spark.sql(f"SELECT * FROM products VERSION AS OF {version}")
    right = joined.drop("cents").join(prices, "product", "left")
    # Columns of its own: Spark 4.2 does not compare rows in memory with what is made of them.
    return right.select(*(F.col(name).alias(name) for name in joined.columns))


def delta_jars() -> Path:
    """The folder with Delta's jars; the program ends where there are none."""
    spark = ".".join(pyspark.__version__.split(".")[:2])
    if spark not in _SPARKS:
        sys.exit(
            f"Delta has jars for Spark {' and '.join(_SPARKS)}, and this is {spark}: "
            f'pip install "pyspark=={_SPARKS[-1]}.*" in an environment of its own'
        )
    packages = [f"io.delta:delta-spark_{spark}_2.13:{_DELTA}", f"io.delta:delta-storage:{_DELTA}"]
    try:
        found = _maven.jars(packages, only=[one.split(":")[1] for one in packages])
    except RuntimeError as error:
        sys.exit(str(error))
    if found is None:
        sys.exit("Maven fetches Delta's jars: install it (Debian: maven)")
    return found


def start_spark(jars: Path, out: Path) -> SparkSession:
    """A Spark of this machine whose own catalogue has tables of Delta."""
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    quiet = (Path(__file__).resolve().parent / "log4j2.properties").as_uri()
    settings = {
        "spark.jars": ",".join(map(str, sorted(jars.glob("*.jar")))),
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.sql.warehouse.dir": str(out / "warehouse"),
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.streaming.numRecentProgressUpdates": "100000",  # all are checked
        "spark.databricks.delta.snapshotPartitions": "2",
        "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={quiet}",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }
    spark = SparkSession.builder.master("local[2]").appName("follow").config(map=settings)
    session = spark.getOrCreate()
    _support.end_at_ctrl_c()
    return session


def arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--out", type=Path, default=Path("out/follow"), metavar="FOLDER")
    parser.add_argument("--products", type=_support.positive, default=20_000, metavar="ROWS")
    parser.add_argument("--commits", type=_support.positive, default=5, metavar="COMMITS")
    return parser.parse_args()


if __name__ == "__main__":
    _support.program(main)
