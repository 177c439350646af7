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

import duckdb
import pyarrow as pa

from benchmarks.data.ranges import SECOND_US, Case, rows_of
from benchmarks.ranges.comparison import timed

Join = Callable[[], pa.Table]

_CHUNK = 25_000  # Polars holds all pairs with equal keys at once: 1,300 for each row of a chunk


def duckdb_join(case: Case, table: pa.Table, stream: pa.Table, threads: int, summed: bool) -> Join:
    """A case as one query of DuckDB over Arrow tables."""
    database = duckdb.connect(config={"threads": threads})
    database.register("t", table)
    database.register("s", stream)
    columns = ", ".join(["*", *(f"{end} AS {name}" for name, end in case.ends.items())])
    join = "ASOF JOIN" if case.kind == "asof" else "JOIN"
    on = " AND ".join([*(f"t.{key} = s.{key}" for key in case.on), *case.matches])
    answer = "count(*) AS n, sum(s.id) AS id, sum(t.v) AS v" if summed else "s.id, t.v"
    query = f"SELECT {answer} FROM (SELECT {columns} FROM s) AS s {join} t ON {on}"
    return lambda: database.sql(query).to_arrow_table()


def polars_join(case: Case, table: pa.Table, stream: pa.Table, threads: int, summed: bool) -> Join:
    """A case in Polars, over data frames in memory."""
    import polars as pl

    sums = (pl.len().alias("n"), pl.col("id").sum(), pl.col("v").sum())

    if pl.thread_pool_size() != threads:
        raise AssertionError(f"{pl.thread_pool_size()} threads")
    rows, probes = pl.DataFrame(pl.from_arrow(table)), pl.DataFrame(pl.from_arrow(stream))
    if case.kind == "asof":
        # It needs sorted sides. The table is sorted in advance, as ours is; the stream is not.
        rows = rows.sort("a")
        keys: dict[str, Any] = {"by": "k", "check_sortedness": False} if case.keys else {}

        def as_of() -> pa.Table:
            found = probes.sort("p").join_asof(rows, left_on="p", right_on="a", **keys)
            found = found.select("id", "v").drop_nulls()
            return (found.select(*sums) if summed else found).to_arrow()

        return as_of
    if case.ends:
        width = pl.duration(microseconds=case.width_s * SECOND_US)
        probes = probes.with_columns(lo=pl.col("p") - width, hi=pl.col("p") + width)
    conditions = pl.sql_expr([*(f"{key} = {key}_right" for key in case.on), *case.matches])

    def in_chunks() -> pa.Table:
        found = [
            probes.slice(begin, _CHUNK)
            .lazy()
            .join_where(rows.lazy(), *conditions)
            .select(*(sums if summed else ("id", "v")))
            .collect(engine="streaming")
            for begin in range(0, len(probes), _CHUNK)
        ]
        together = pl.concat(found)
        return (together.sum() if summed else together).to_arrow()

    return in_chunks


ENGINES = {"DuckDB": duckdb_join, "Polars": polars_join}


class Engine(ProcessPoolExecutor):
    """A process in which one engine runs cases.

    Args:
        name: of :data:`ENGINES`.
        threads: how many it uses.
    """

    def __init__(self, name: str, threads: int):
        limit = ("POLARS_MAX_THREADS", str(threads))
        super().__init__(1, multiprocessing.get_context("spawn"), os.putenv, limit)
        self._asked = name, threads

    def load(self, case: Case, *, summed: bool = False) -> None:
        """Make the rows of a case; ``summed``: the answer is the sums of the pairs' columns."""
        self.submit(_load, case, *self._asked, summed).result()

    def run(self) -> tuple[float, tuple[int, ...]]:
        """Run the case: its seconds; the number of pairs and their sums, or a fingerprint."""
        return self.submit(_run).result()


_loaded: list[Join] = []  # of this process


def _load(case: Case, name: str, threads: int, summed: bool) -> None:
    _loaded[:] = [ENGINES[name](case, *rows_of(case), threads, summed)]


def _run() -> tuple[float, tuple[int, ...]]:
    seconds, pairs = timed(_loaded[0])
    if "n" in pairs.column_names:
        return seconds, tuple(int(value) for value in pairs.to_pylist()[0].values())
    return seconds, fingerprint(pairs)


def fingerprint(pairs: pa.Table) -> tuple[int, int]:
    """Number of pairs (id, v), and a sum over them that no order changes."""
    found = duckdb.sql("SELECT count(*), coalesce(sum(hash(id, v)), 0) FROM pairs").fetchall()
    return int(found[0][0]), int(found[0][1])
