"""The database of the incremental benchmark, and streams of keys that are looked up in it."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.data.zipf import Zipf, scattered
from benchmarks.harness.session import ROOT

__all__ = ["UNIFORM", "database", "keys_drawn", "stream_files"]

UNIFORM = 0.0
"""Stands for an exponent: all keys alike."""


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


def keys_drawn(
    keys: int, z: float, size: int, seed: int
) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Keys 0 … keys - 1, Zipf or uniform."""
    if z == UNIFORM:
        return np.random.default_rng(seed).integers(0, keys, size)
    return scattered(Zipf(keys, z, seed).ranks(size), keys)


def stream_files(folder: Path, z: float, keys: int, batch: int, batches: int, seed: int) -> Path:
    """Columns ``k``, drawn, and ``id`` as Parquet files, one per micro-batch."""
    path = folder / f"keys-{z}-{keys}-{batch}-{batches}-{seed}"
    if not (path / "complete").exists():
        path.mkdir(parents=True, exist_ok=True)
        for number in range(batches):
            drawn = keys_drawn(keys, z, batch, seed=seed + number)
            ids = np.arange(number * batch, (number + 1) * batch)
            file = path / f"{number:04}.parquet"
            # As many row groups as tasks can share.
            pq.write_table(pa.table({"k": drawn, "id": ids}), file, row_group_size=-(-batch // 8))
        (path / "complete").touch()
    return path
