"""Range joins in DuckDB and Polars: rows from Arrow tables in memory, pairs as Arrow.

Polars takes its number of threads when its process begins, so every engine has a process of its
own, and answers one request after the other.
"""

from __future__ import annotations

import multiprocessing
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from typing import Any

import numpy as np
import pyarrow as pa

from benchmarks.data.ranges import SECOND_US, Case, rows_of

__all__ = ["ENGINES", "Engine", "engine", "fingerprint"]

_PIECE = 25_000  # Polars holds all pairs with equal keys at once: 1,300 for each row of a piece


class Engine:
    """A process in which one engine carries out cases.

    Args:
        connection: the other end is in the process.
    """

    def __init__(self, connection: Connection):
        self._connection = connection

    def load(self, case: Case) -> None:
        """Make the rows of a case, and what the engine wants to have ready."""
        self._ask(case)

    def run(self) -> tuple[float, tuple[int, int]]:
        """Carry out the case: seconds, and the fingerprint of the pairs."""
        found = self._ask(None)
        return found  # type: ignore[no-any-return]

    def _ask(self, what: Case | None) -> Any:
        self._connection.send(what)
        found = self._connection.recv()
        if isinstance(found, Exception):
            raise found
        return found


@contextmanager
def engine(name: str, threads: int) -> Iterator[Engine]:
    """Begin a process of an engine, with so many threads."""
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    before = os.environ.get("POLARS_MAX_THREADS")
    os.environ["POLARS_MAX_THREADS"] = str(threads)
    process = context.Process(target=_serve, args=(there, name, threads), daemon=True)
    process.start()
    if before is None:
        del os.environ["POLARS_MAX_THREADS"]
    else:
        os.environ["POLARS_MAX_THREADS"] = before
    there.close()
    try:
        yield Engine(here)
    finally:
        here.close()  # the process ends when nobody can ask it any more
        process.join()


def _serve(connection: Connection, name: str, threads: int) -> None:
    run: Callable[[], pa.Table] | None = None
    while True:
        try:
            case = connection.recv()
        except EOFError:
            return
        try:
            if case is not None:
                run = ENGINES[name](case, *rows_of(case), threads)
                connection.send(None)
                continue
            assert run is not None
            begun = time.perf_counter()
            pairs = run()
            spent = time.perf_counter() - begun
            connection.send((spent, fingerprint(pairs)))
        except Exception as error:
            connection.send(RuntimeError(f"{name}: {error!r}"))


def fingerprint(pairs: pa.Table) -> tuple[int, int]:
    """Number of pairs (id, v), and a sum over them that no order changes."""
    ids, rows = (pairs.column(name).to_numpy().astype(np.uint64) for name in ("id", "v"))
    mixed = (ids * np.uint64(0x9E3779B97F4A7C15)) ^ (rows * np.uint64(0xC2B2AE3D27D4EB4F))
    mixed ^= mixed >> np.uint64(29)
    return pairs.num_rows, int((mixed * np.uint64(0x165667B19E3779F9)).sum())


def _duckdb(case: Case, table: pa.Table, stream: pa.Table, threads: int) -> Callable[[], pa.Table]:
    import duckdb

    database = duckdb.connect()
    database.execute(f"SET threads = {threads}")
    database.register("t", table)
    database.register("s", stream)
    asked, join = "s", "JOIN"
    if case.kind == "band":
        width = f"INTERVAL {case.width_s} SECONDS"
        asked = f"(SELECT *, p - {width} AS lo, p + {width} AS hi FROM s) AS s"
        condition = "t.a BETWEEN s.lo AND s.hi"
    elif case.kind == "within":
        condition = "t.a <= s.p AND s.p < t.b"
    elif case.kind == "overlaps":
        condition = "t.a < s.q AND s.p < t.b"
    else:
        join, condition = "ASOF JOIN", "t.a <= s.p"
    keys = "t.k = s.k AND " if case.keys else ""
    query = f"SELECT s.id, t.v FROM {asked} {join} t ON {keys}{condition}"
    return lambda: database.sql(query).to_arrow_table()


def _polars(case: Case, table: pa.Table, stream: pa.Table, threads: int) -> Callable[[], pa.Table]:
    import polars as pl

    if pl.thread_pool_size() != threads:
        raise AssertionError(f"{pl.thread_pool_size()} threads")
    rows = pl.DataFrame(pl.from_arrow(table))
    probes = pl.DataFrame(pl.from_arrow(stream))
    if case.kind == "asof":
        # It asks for sides in order. The table's is its index, ready as ours is; the stream's is
        # not, for a stream comes as it comes.
        rows = rows.sort("a")
        keys: dict[str, Any] = {"by": "k", "check_sortedness": False} if case.keys else {}

        def as_of() -> pa.Table:
            found = probes.sort("p").join_asof(rows, left_on="p", right_on="a", **keys)
            return found.select("id", "v").drop_nulls().to_arrow()

        return as_of
    conditions = [pl.col("k") == pl.col("k_right")] if case.keys else []
    if case.kind == "band":
        width = pl.duration(microseconds=case.width_s * SECOND_US)
        probes = probes.with_columns(lo=pl.col("p") - width, hi=pl.col("p") + width)
        conditions += [pl.col("a") >= pl.col("lo"), pl.col("a") <= pl.col("hi")]
    elif case.kind == "within":
        conditions += [pl.col("a") <= pl.col("p"), pl.col("b") > pl.col("p")]
    else:
        conditions += [pl.col("a") < pl.col("q"), pl.col("b") > pl.col("p")]

    def pieces() -> pa.Table:
        found = [
            probes.slice(begin, _PIECE)
            .lazy()
            .join_where(rows.lazy(), *conditions)
            .select("id", "v")
            .collect(engine="streaming")
            for begin in range(0, len(probes), _PIECE)
        ]
        return pl.concat(found).to_arrow()

    return pieces


ENGINES: dict[str, Callable[[Case, pa.Table, pa.Table, int], Callable[[], pa.Table]]] = {
    "DuckDB": _duckdb,
    "Polars": _polars,
}
