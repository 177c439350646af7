"""Range joins in DuckDB and Polars: rows from Arrow tables in memory, pairs as Arrow.

Polars reads its number of threads when its process starts, so every engine has its own process,
which answers one request after the other.
"""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from typing import Any

import numpy as np
import pyarrow as pa

from benchmarks.data.ranges import SECOND_US, Case, rows_of
from benchmarks.harness.timing import seconds_of

Join = Callable[[], pa.Table]

_CHUNK = 25_000  # Polars holds all pairs with equal keys at once: 1,300 for each row of a chunk
_CONDITIONS = {
    "band": ("a", ">=", "lo", "a", "<=", "hi"),
    "within": ("a", "<=", "p", "b", ">", "p"),
    "overlaps": ("a", "<", "q", "b", ">", "p"),
}
"""Two comparisons of a column of the table with one of the stream."""


def duckdb_join(case: Case, table: pa.Table, stream: pa.Table, threads: int) -> Join:
    """A case as one query of DuckDB over Arrow tables."""
    import duckdb

    database = duckdb.connect()
    database.execute(f"SET threads = {threads}")
    database.register("t", table)
    database.register("s", stream)
    width = f"INTERVAL {case.width_s} SECONDS"
    ends = f", p - {width} AS lo, p + {width} AS hi" if case.kind == "band" else ""
    join, condition = "ASOF JOIN", "t.a <= s.p"
    if case.kind != "asof":
        a, first, low, b, second, high = _CONDITIONS[case.kind]
        join, condition = "JOIN", f"t.{a} {first} s.{low} AND t.{b} {second} s.{high}"
    keys = "t.k = s.k AND " if case.keys else ""
    query = f"SELECT s.id, t.v FROM (SELECT *{ends} FROM s) AS s {join} t ON {keys}{condition}"
    return lambda: database.sql(query).to_arrow_table()


def polars_join(case: Case, table: pa.Table, stream: pa.Table, threads: int) -> Join:
    """A case in Polars, over data frames in memory."""
    import operator

    import polars as pl

    if pl.thread_pool_size() != threads:
        raise AssertionError(f"{pl.thread_pool_size()} threads")
    rows, probes = pl.DataFrame(pl.from_arrow(table)), pl.DataFrame(pl.from_arrow(stream))
    if case.kind == "asof":
        # It needs sorted sides. The table is sorted in advance, as ours is; the stream is not.
        rows = rows.sort("a")
        keys: dict[str, Any] = {"by": "k", "check_sortedness": False} if case.keys else {}

        def as_of() -> pa.Table:
            found = probes.sort("p").join_asof(rows, left_on="p", right_on="a", **keys)
            return found.select("id", "v").drop_nulls().to_arrow()

        return as_of
    if case.kind == "band":
        width = pl.duration(microseconds=case.width_s * SECOND_US)
        probes = probes.with_columns(lo=pl.col("p") - width, hi=pl.col("p") + width)
    compare = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}
    a, first, low, b, second, high = _CONDITIONS[case.kind]
    conditions = [pl.col("k") == pl.col("k_right")] if case.keys else []
    conditions.append(compare[first](pl.col(a), pl.col(low)))
    conditions.append(compare[second](pl.col(b), pl.col(high)))

    def in_chunks() -> pa.Table:
        found = [
            probes.slice(begin, _CHUNK)
            .lazy()
            .join_where(rows.lazy(), *conditions)
            .select("id", "v")
            .collect(engine="streaming")
            for begin in range(0, len(probes), _CHUNK)
        ]
        return pl.concat(found).to_arrow()

    return in_chunks


ENGINES: dict[str, Callable[[Case, pa.Table, pa.Table, int], Join]] = {
    "DuckDB": duckdb_join,
    "Polars": polars_join,
}


class Engine:
    """A process in which one engine runs cases.

    Args:
        name: of :data:`ENGINES`.
        threads: how many it uses.
    """

    def __init__(self, name: str, threads: int):
        spawn = multiprocessing.get_context("spawn")
        self._asked = name, threads
        self._pool = ProcessPoolExecutor(1, spawn, initializer=_limit, initargs=(threads,))

    def load(self, case: Case) -> None:
        """Make the rows of a case."""
        self._pool.submit(_load, case, *self._asked).result()

    def run(self) -> tuple[float, tuple[int, int]]:
        """Run the case: its seconds, and the fingerprint of the pairs."""
        return self._pool.submit(_run).result()

    def close(self) -> None:
        """End the process."""
        self._pool.shutdown()


_loaded: list[Join] = []  # of this process


def _limit(threads: int) -> None:
    os.environ["POLARS_MAX_THREADS"] = str(threads)


def _load(case: Case, name: str, threads: int) -> None:
    _loaded[:] = [ENGINES[name](case, *rows_of(case), threads)]


def _run() -> tuple[float, tuple[int, int]]:
    pairs: list[pa.Table] = []
    spent = seconds_of(lambda: pairs.append(_loaded[0]()))
    return spent, fingerprint(pairs[0])


def fingerprint(pairs: pa.Table) -> tuple[int, int]:
    """Number of pairs (id, v), and a sum over them that no order changes."""
    ids, rows = (pairs.column(name).to_numpy().astype(np.uint64) for name in ("id", "v"))
    mixed = (ids * np.uint64(0x9E3779B97F4A7C15)) ^ (rows * np.uint64(0xC2B2AE3D27D4EB4F))
    mixed ^= mixed >> np.uint64(29)
    return pairs.num_rows, int((mixed * np.uint64(0x165667B19E3779F9)).sum())
