"""The incremental cache over PostgreSQL: Zipf streams against what one would do without it."""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.functions import arrow_udf

import bsjoin
from benchmarks.session import ROOT
from benchmarks.zipf import Zipf, scattered

__all__ = ["JDBC_DRIVER", "hit_rates", "measure"]

JDBC_DRIVER = Path("/usr/share/java/postgresql.jar")  # Debian's libpostgresql-jdbc-java
EXPONENTS = (0.98, 1.04, 1.10, 1.16)
SCHEMA = "k long, id long, amount long, name string"
RECORDS = 20_000  # one query per record is measured on so many


@contextmanager
def database(rows: int) -> Iterator[str]:
    """A PostgreSQL of this machine over TCP with a table ``t(k, amount, name)``; its URL.

    It is the server that the tests start, with more memory.
    """
    sys.path.insert(0, str(ROOT / "tests"))
    import psycopg
    import servers

    class Server(servers.PostgreSQL):
        def command(self) -> Sequence[str | Path]:
            return [
                *super().command(),
                "-c",
                "shared_buffers=512MB",
                "-c",
                "synchronous_commit=off",
            ]

    programs = servers._postgresql_programs()
    if programs is None:
        raise SystemExit("the incremental benchmark needs a PostgreSQL: pip install pgserver")
    server = Server(programs)
    try:
        with psycopg.connect(server.url, autocommit=True) as connection:
            connection.execute(
                "CREATE TABLE t AS SELECT i AS k, i * 7 AS amount, "
                "'name-' || lpad(i::text, 7, '0') AS name "
                f"FROM generate_series(0::bigint, {rows - 1}) AS i"
            )
            connection.execute("ALTER TABLE t ADD PRIMARY KEY (k)")
            connection.execute("VACUUM ANALYZE t")
        yield server.url
    finally:
        server.remove()


def stream_files(folder: Path, z: float, keys: int, batch: int, batches: int) -> Path:
    """Zipf keys as Parquet files, one per micro-batch."""
    path = folder / f"zipf-{z}-{keys}-{batch}-{batches}"
    if not (path / "complete").exists():
        path.mkdir(parents=True, exist_ok=True)
        zipf = Zipf(keys, z, seed=20261121)
        for number in range(batches):
            drawn = scattered(zipf.ranks(batch), keys)
            ids = np.arange(number * batch, (number + 1) * batch)
            pq.write_table(
                pa.table({"k": drawn, "id": ids}),
                path / f"{number:04}.parquet",
                row_group_size=max(1, batch // 8),
            )
        (path / "complete").touch()
    return path


def measure(
    spark: SparkSession, folder: Path, keys: int, batch: int, batches: int, small: int
) -> dict[str, Any]:
    """Rows per second of every way, for every exponent.

    Args:
        spark: the session.
        folder: for the data.
        keys: rows of the table.
        batch: rows of a micro-batch at full speed.
        batches: micro-batches.
        small: rows of the small micro-batches that are measured beside.
    """
    found: dict[str, Any] = {}
    with database(keys) as url:
        source = bsjoin.sources.sql(url, table="t")
        record_rate = None
        for z in EXPONENTS:
            files = stream_files(folder, z, keys, batch, batches)
            distinct = spark.read.parquet(str(files)).select("k").distinct().count()
            _check(spark, files, url, keys)
            found[str(z)] = {"distinct": distinct}

            def run(
                name: str,
                way: Callable[[DataFrame], DataFrame],
                files: Path = files,
                into: dict[str, Any] = found[str(z)],
                z: float = z,
            ) -> None:
                into[name] = one = _run(spark, files, way)
                _say(z, name, one, into["distinct"])

            if record_rate is None or z == 1.04:
                record_rate = _per_record(spark, files, url)
            found[str(z)]["one query per record"] = {"rows_per_s": record_rate}
            _say(z, "one query per record", found[str(z)]["one query per record"], distinct)
            for rows in (keys, keys // 10):
                cache = bsjoin.Incremental(max_rows=rows)
                run(
                    f"bsjoin, cache of {rows:,}",
                    lambda s, c=cache: bsjoin.join(s, source, "k", cache=c),
                )
            run("one query per micro-batch", lambda s: _per_batch(s, url))
            if z == 1.04:
                few = stream_files(folder, z, keys, small, 40)
                run(
                    f"bsjoin, micro-batches of {small:,}",
                    lambda s: bsjoin.join(s, source, "k", cache=bsjoin.Incremental(max_rows=keys)),
                    files=few,
                )
                if JDBC_DRIVER.exists():
                    run(
                        "Spark's JDBC read",
                        lambda s: s.join(_jdbc(spark, url), "k").select(
                            "k", "id", "amount", "name"
                        ),
                    )
                else:
                    print(f"  Spark's JDBC read: not measured, no {JDBC_DRIVER}", flush=True)
    return found


def _say(z: float, name: str, one: dict[str, Any], distinct: int) -> None:
    warm = one.get("warm_rows_per_s")
    more = f"   second half {warm:>10,.0f}" if warm else ""
    if "asked" in one:
        more += f"   hit rate {one['hit_rate']:6.1%}, asked/distinct {one['asked'] / distinct:.3f}"
    print(f"  z {z:<5} {name:<32} {one['rows_per_s']:>10,.0f} rows/s{more}", flush=True)


def _run(spark: SparkSession, files: Path, way: Callable[[DataFrame], DataFrame]) -> dict[str, Any]:
    """Let a stream run through all files; rows per second of its micro-batches."""
    stream = spark.readStream.schema("k long, id long").option("maxFilesPerTrigger", 1)
    with tempfile.TemporaryDirectory() as checkpoint:
        query = (
            way(stream.parquet(str(files)))
            .writeStream.format("noop")
            .option("checkpointLocation", checkpoint)
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
    done = [p for p in query.recentProgress if p.numInputRows]
    seconds = [p.durationMs["addBatch"] / 1e3 for p in done]
    rows = [p.numInputRows for p in done]
    warm = len(done) // 2
    found: dict[str, Any] = {
        "rows_per_s": sum(rows) / sum(seconds),
        "warm_rows_per_s": sum(rows[warm:]) / sum(seconds[warm:]) if len(done) > 3 else None,
        "batch_s": seconds,
    }
    caches = [c.cache for c in bsjoin.progress(query) if c.cache is not None and c.rows_in]
    if caches:
        hits = sum(c.hits + c.negative_hits for c in caches)
        found["hit_rate"] = hits / (hits + sum(c.misses for c in caches))
        found["asked"] = sum(c.keys_asked for c in caches)
    return found


def _check(spark: SparkSession, files: Path, url: str, keys: int) -> None:
    """All ways answer the same, before any is timed; on a part of the first file."""
    part = spark.read.schema("k long, id long").parquet(str(files / "0000.parquet")).limit(2_000)
    part = spark.createDataFrame(part.toArrow())
    source = bsjoin.sources.sql(url, table="t")
    cache = bsjoin.Incremental(max_rows=keys)
    answers = {
        "bsjoin": bsjoin.join(part, source, "k", cache=cache),
        "one query per record": _with_record_queries(part, url),
        "one query per micro-batch": _per_batch(part, url),
    }
    expected = part.select(
        "k",
        "id",
        (F.col("k") * 7).alias("amount"),
        F.concat(F.lit("name-"), F.lpad(F.col("k").cast("string"), 7, "0")).alias("name"),
    )
    right = sorted(map(tuple, expected.collect()))
    for name, answer in answers.items():
        if sorted(map(tuple, answer.collect())) != right:
            raise AssertionError(f"{name} answers differently")


def _with_record_queries(stream: DataFrame, url: str) -> DataFrame:
    """What people write: a query per record over a connection that is kept."""

    @arrow_udf("amount long, name string")
    def ask(keys: pa.Array) -> pa.Array:
        connection = _kept_connection(url)
        rows = []
        for key in keys.to_pylist():
            row = connection.execute("SELECT amount, name FROM t WHERE k = %s", [key]).fetchone()
            rows.append(None if row is None else {"amount": row[0], "name": row[1]})
        return pa.array(rows, pa.struct([("amount", pa.int64()), ("name", pa.string())]))

    return (
        stream.select("k", "id", ask("k").alias("m"))
        .where("m is not null")
        .select("k", "id", "m.amount", "m.name")
    )


def _per_record(spark: SparkSession, files: Path, url: str) -> float:
    """Rows per second with one query per record; in batch, which costs least."""
    part = spark.read.parquet(str(files / "0000.parquet")).limit(RECORDS).repartition(2).persist()
    part.count()
    times = []
    for _ in range(2):
        started = time.perf_counter()
        _with_record_queries(part, url).write.format("noop").mode("overwrite").save()
        times.append(time.perf_counter() - started)
    part.unpersist()
    return RECORDS / min(times)


def _per_batch(stream: DataFrame, url: str) -> DataFrame:
    """One query per task and micro-batch for its distinct keys, nothing kept."""

    def ask(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        table = pa.Table.from_batches(
            list(batches), pa.schema([("k", pa.int64()), ("id", pa.int64())])
        )
        if not table.num_rows:
            return
        wanted = table.column("k").unique()
        names = np.array(wanted.to_numpy())
        with _kept_adbc(url).cursor() as cursor:
            listed = pa.ListArray.from_arrays(pa.array([0, len(names)], pa.int32()), wanted)
            cursor.execute(
                "SELECT k, amount, name FROM t WHERE k = ANY($1)",
                pa.record_batch([listed], names=["keys"]),
            )
            found = cursor.fetch_arrow_table().combine_chunks()
        order = np.argsort(found.column("k").to_numpy())
        ordered = found.take(pa.array(order))
        known = ordered.column("k").to_numpy()
        probes = table.column("k").to_numpy()
        places = np.minimum(np.searchsorted(known, probes), len(known) - 1)
        hit = known[places] == probes
        rows = ordered.take(pa.array(places[hit])).combine_chunks()
        kept = table.filter(pa.array(hit))
        joined = pa.table(
            [kept.column("k"), kept.column("id"), rows.column("amount"), rows.column("name")],
            names=["k", "id", "amount", "name"],
        )
        yield from joined.replace_schema_metadata(None).to_batches(max_chunksize=10_000)

    return stream.mapInArrow(ask, SCHEMA)


def _jdbc(spark: SparkSession, url: str) -> DataFrame:
    from urllib.parse import unquote, urlsplit

    parts = urlsplit(url)
    reader = spark.read.format("jdbc").option(
        "url", f"jdbc:postgresql://{parts.hostname}:{parts.port}{parts.path}"
    )
    reader = reader.option("user", parts.username or "").option(
        "password", unquote(parts.password or "")
    )
    return reader.option("dbtable", "t").option("fetchsize", "10000").load()


_connections: dict[str, Any] = {}


def _kept_connection(url: str) -> Any:
    import psycopg

    if "psycopg" not in _connections:
        _connections["psycopg"] = psycopg.connect(url, autocommit=True)
    return _connections["psycopg"]


def _kept_adbc(url: str) -> Any:
    import adbc_driver_postgresql.dbapi

    if "adbc" not in _connections:
        _connections["adbc"] = adbc_driver_postgresql.dbapi.connect(url, autocommit=True)
    return _connections["adbc"]


def hit_rates(keys: int, rows: int, shares: Iterable[float]) -> dict[str, dict[str, float]]:
    """Hit rate against cache size, of the cache alone: exact LRU over batches of 10,000 keys."""
    from bsjoin.shared import Bounds, HostCache, State

    found: dict[str, dict[str, float]] = {}
    for z in EXPONENTS:
        drawn = scattered(Zipf(keys, z, seed=1).ranks(rows), keys)
        found[str(z)] = {}
        for share in shares:
            with tempfile.TemporaryDirectory() as folder:
                cache = HostCache(
                    Path(folder), [pa.int64()], [], Bounds(max_rows=int(keys * share)), exact=True
                )
                hits = seen = 0
                for begin in range(0, rows, 10_000):
                    batch = drawn[begin : begin + 10_000]
                    hashes = batch * np.int64(-7046029254386353131)
                    hashes ^= hashes >> np.int64(29)
                    ticks = cache.ticks(len(batch))
                    states = cache.find(hashes, [pa.array(batch)], ticks, 0).states
                    missing = np.flatnonzero(states == State.MISS)
                    _, first = np.unique(hashes[missing], return_index=True)
                    new = missing[first]
                    columns = [pa.array(batch[new])]
                    cache.claim(hashes[new], columns, 0)
                    cache.put(
                        hashes[new], columns, np.ones(len(new), np.int64), [], ticks[new], 0, 0
                    )
                    if begin >= rows // 2:  # the first half warms it up
                        hits += int((states != State.MISS).sum())
                        seen += len(batch)
            found[str(z)][str(share)] = hits / seen
    return found
