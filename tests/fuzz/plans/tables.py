"""The tables of the random plans: each stored by bsjoin, and as plain rows in Spark's memory.

They are always the same, so that a seed alone repeats a plan. Numbers of type double are multiples
of a quarter: their sums do not depend on the order.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import SparkSession

from bsjoin import BatchTable, Within


@dataclass(frozen=True)
class Source:
    """Rows, made by a query.

    Args:
        columns: the names and kinds of the columns that plans use; the kind of a nested one is what
            an expression makes of it.
        query: how the rows are made.
        keys: of the stored table.
        when: its range index.
    """

    columns: Mapping[str, str]
    query: str
    keys: tuple[str, ...] = ()
    when: Within | None = None


STREAMS = {
    "visits": Source(
        {"id": "long", "k": "long", "code": "text", "a": "int", "d": "date", "x": "double",
         "at": "timestamp", "n": "int", "p": "decimal", "ok": "boolean", "{}.s.u": "int",
         "{}.s.v": "text", "size({}.tags)": "int", "get({}.tags, 0)": "text",
         "try_element_at({}.m, 'a')": "int"},
        """SELECT id, if(id % 11 = 3, null, id * 7 % 75) AS k,
        if(id % 13 = 5, null, concat('c', id * 5 % 23)) AS code,
        cast(if(id % 17 = 1, null, id % 6) AS int) AS a,
        if(id % 7 = 2, null, date_add(DATE'2024-02-26', cast(id % 5 AS int))) AS d,
        CASE id % 9 WHEN 0 THEN double('NaN') WHEN 1 THEN -0.0D WHEN 2 THEN 0.0D WHEN 3 THEN null
        ELSE id % 5 * 0.25D END AS x,
        timestamp_seconds(1709000000 + id * 3600) AS at,
        cast(if(id % 10 = 7, null, id % 8 - 2) AS int) AS n,
        cast(if(id % 12 = 5, null, id % 9 * 0.5) AS decimal(12,2)) AS p, id % 3 = 0 AS ok,
        if(id % 5 = 1, null, named_struct('u', if(id % 3 = 1, null, cast(id % 7 AS int)),
            'v', concat('c', id % 4))) AS s,
        if(id % 6 = 2, null, array(if(id % 4 = 3, null, concat('c', id % 3)), 'z')) AS tags,
        if(id % 7 = 3, null, map('a', cast(id % 4 AS int), 'b', null)) AS m FROM range(140)""",
    ),
    "acts": Source(
        {"id": "long", "k": "int", "code": "text", "a": "int", "d": "date", "x": "double",
         "at": "timestamp", "p": "decimal"},
        """SELECT id, cast(if(id % 6 = 1, null, id * 3 % 66) AS int) AS k,
        if(id % 5 = 2, '', concat('c', id % 30)) AS code, cast(id % 7 AS int) AS a,
        date_add(DATE'2024-02-25', cast(id % 7 AS int)) AS d,
        if(id % 8 = 1, -0.0D, id % 4 * 0.5D) AS x, timestamp_seconds(1709100000 - id * 1800) AS at,
        cast(id % 6 AS decimal(8,3)) AS p FROM range(50)""",
    ),
}  # fmt: skip

TABLES = {
    "people": Source(
        {"k": "long", "name": "text", "tier": "int", "score": "double", "born": "date",
         "ok": "boolean"},
        """SELECT id AS k, if(id % 9 = 4, null, concat('n', id % 20)) AS name,
        cast(if(id % 7 = 3, null, id % 5) AS int) AS tier,
        CASE id % 8 WHEN 0 THEN null WHEN 1 THEN double('NaN') ELSE id % 6 * 0.25D END AS score,
        date_add(DATE'2024-02-20', cast(id % 12 AS int)) AS born, id % 2 = 0 AS ok
        FROM range(60)""",
        ("k",),
    ),
    "items": Source(
        {"code": "text", "k": "long", "n": "int", "price": "decimal", "at": "timestamp"},
        """SELECT if(id % 19 = 7, null, if(id % 23 = 1, '', concat('c', id % 26))) AS code,
        if(id % 8 = 5, null, id % 64) AS k, cast(if(id % 11 = 2, null, id % 7 - 1) AS int) AS n,
        cast(if(id % 6 = 5, null, id % 10 * 0.75) AS decimal(10,2)) AS price,
        timestamp_seconds(1709000000 + id * 5000) AS at FROM range(70)""",
        ("code",),
    ),
    "slots": Source(
        {"a": "int", "d": "date", "v": "long", "note": "text"},
        """SELECT cast(if(id % 14 = 9, null, id % 7) AS int) AS a,
        if(id % 12 = 7, null, date_add(DATE'2024-02-26', cast(id % 5 AS int))) AS d,
        if(id % 9 = 1, null, id * 3) AS v, concat('s', id % 4) AS note FROM range(48)""",
        ("a", "d"),
    ),
    "grades": Source(
        {"x": "double", "label": "text", "n": "int"},
        """SELECT CASE id WHEN 0 THEN double('NaN') WHEN 1 THEN -0.0D WHEN 2 THEN 0.0D
        WHEN 3 THEN null WHEN 4 THEN null ELSE (id - 5) * 0.25D END AS x,
        concat('g', id) AS label, cast(id % 3 AS int) AS n FROM range(12)""",
        ("x",),
    ),
    "costs": Source(
        {"p": "decimal", "n": "int", "v": "long"},
        """SELECT cast(if(id = 4, null, id * 0.5) AS decimal(10,1)) AS p, cast(id % 4 AS int) AS n,
        id AS v FROM range(14)""",
        ("p",),
    ),
    "spans": Source(
        {"k": "long", "since": "timestamp", "till": "timestamp", "rate": "decimal"},
        """SELECT if(id % 15 = 4, null, id % 25) AS k,
        timestamp_seconds(1709000000 + id * 9000) AS since,
        if(id % 4 = 1, null, timestamp_seconds(1709000000 + id * 9000 + id % 5 * 40000)) AS till,
        cast(id % 8 * 0.25 AS decimal(6,2)) AS rate FROM range(45)""",
        ("k",),
        Within("at", "since", "till"),
    ),
    "nobody": Source(
        {"k": "long", "name": "text"}, "SELECT id AS k, string(id) AS name FROM range(0)", ("k",)
    ),
}  # fmt: skip

VIEWS = {
    "vip": Source(
        {"k": "long", "name": "text", "level": "int", "score": "double"},
        "SELECT k, upper(name) AS name, tier * 2 AS level, score FROM {people} WHERE tier > 1",
        ("k",),
    ),
    "priced": Source(
        {"code": "text", "price": "decimal", "name": "text", "tier": "int"},
        "SELECT i.code, i.price, p.name, p.tier FROM {items} i LEFT JOIN {people} p ON i.k = p.k",
        ("code",),
    ),
}
"""Of stored tables; they are named in braces."""

STORED = (*TABLES, *VIEWS)
PREFIX = "fuzz_"


def names_of(way: str, paths: Mapping[str, str]) -> dict[str, str]:
    """What the names of a plan stand for."""
    views = "plain" if way == "plain" else "stored"
    names = {name: f"{views}_{name}" for name in VIEWS} | {name: name for name in STREAMS}
    for name, path in paths.items():
        named = {"catalog": f"bsjoin.{PREFIX}{name}", "path": f"bsjoin.`{path}`"}
        names[name] = named.get(way, f"plain_{name}")
    return names


@contextmanager
def stored(spark: SparkSession, folder: Path) -> Iterator[dict[str, str]]:
    """Make all tables and views, for a while."""
    settings, paths = set(spark.conf.getAll), {}
    # Spark's cache skips batches by their least and greatest value, and loses rows with NaN.
    spark.conf.set("spark.sql.inMemoryColumnarStorage.partitionPruning", "false")
    for name, source in (STREAMS | TABLES).items():
        file = str(folder / f"{name}.parquet")
        spark.sql(source.query).coalesce(1).write.parquet(file)
        rows = spark.read.parquet(file)
        plain = name if name in STREAMS else f"plain_{name}"
        rows.createOrReplaceTempView(plain)
        if name != "acts":  # one stream is read from its files, which are columns, too
            spark.catalog.cacheTable(plain)
            spark.table(plain).count()  # now: settings of plans would change how it is read
        if name in TABLES:
            path = paths[name] = str(folder / name)
            table = BatchTable.build(rows, on=source.keys, when=source.when, path=path)
            table.register(spark, f"{PREFIX}{name}")
    for name, source in VIEWS.items():
        for kind, way in (("plain", "plain"), ("stored", "catalog")):
            query = source.query.format_map(names_of(way, paths))
            spark.sql(query).createOrReplaceTempView(f"{kind}_{name}")
    try:
        yield paths
    finally:
        for name in (*STREAMS, *(f"plain_{table}" for table in TABLES)):
            spark.catalog.uncacheTable(name)
        for name in set(spark.conf.getAll) - settings:
            if not name.startswith(("spark.bsjoin.jvm.", "spark.sql.catalog.bsjoin")):
                spark.conf.unset(name)
