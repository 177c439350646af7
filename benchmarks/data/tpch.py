"""The eight tables of TPC-H as Parquet files, and streams of its customers.

TPC-H is the retail benchmark of the Transaction Processing Performance Council: its tables and
their sizes are public, its rows are the same in every run. The BS-Join paper (section 6.1) takes
its tables from there. `tpchgen-cli`, a package with a program of its own, writes them.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from benchmarks.data.shifting import Shifting
from benchmarks.data.zipf import Zipf, scattered

__all__ = ["FOREIGN", "KEYS", "STREAMS", "check", "customer_ids", "rows_of", "tables"]

Int64s = NDArray[np.int64]

KEYS: dict[str, tuple[str, ...]] = {
    "region": ("r_regionkey",),
    "nation": ("n_nationkey",),
    "supplier": ("s_suppkey",),
    "customer": ("c_custkey",),
    "part": ("p_partkey",),
    "partsupp": ("ps_partkey", "ps_suppkey"),
    "orders": ("o_orderkey",),
    "lineitem": ("l_orderkey", "l_linenumber"),
}
"""The tables, each with its primary key."""

FOREIGN: tuple[tuple[str, tuple[str, ...], str], ...] = (
    ("nation", ("n_regionkey",), "region"),
    ("supplier", ("s_nationkey",), "nation"),
    ("customer", ("c_nationkey",), "nation"),
    ("partsupp", ("ps_partkey",), "part"),
    ("partsupp", ("ps_suppkey",), "supplier"),
    ("orders", ("o_custkey",), "customer"),
    ("lineitem", ("l_orderkey",), "orders"),
    ("lineitem", ("l_partkey", "l_suppkey"), "partsupp"),
)
"""Which columns of a table name a row of which other."""

STREAMS = ("uniform", "zipf", "shifting")

_FIXED = {"region": 5, "nation": 25}
_PER_SCALE = {
    "supplier": 10_000,
    "customer": 150_000,
    "part": 200_000,
    "partsupp": 800_000,
    "orders": 1_500_000,
}
_LINES = (1, 7)  # of an order
_EXPONENT = 1.04


def tables(folder: Path, scale: float, *, program: Path | None = None) -> Path:
    """Make the tables of a scale factor, unless they are there, and check them.

    Args:
        folder: where all scale factors are kept.
        scale: the scale factor, 0.01 or more (below it partsupp has too few suppliers to be
            without repetitions); 1 is about a gigabyte as text.
        program: the generator; None: the one of this Python's environment, or on the path.

    Returns:
        The folder with one Parquet file a table, ``customer.parquet`` and so on.

    Raises:
        ValueError: the scale factor is too small.
        SystemExit: the generator is not installed, or failed; it says what to do.
        AssertionError: the tables are not those of TPC-H.

    Complexity: O(rows); scale factor 1 takes about 20 s and 350 MB of disk.
    """
    if not scale >= 0.01:
        raise ValueError(f"scale={scale!r}: it must be 0.01 or more")
    made = folder / f"tpch-{scale:g}"
    if not (made / "complete").exists():
        shutil.rmtree(made, ignore_errors=True)
        made.mkdir(parents=True)
        command = [str(program or _program()), "parquet", "-s", f"{scale:g}", "-o", str(made)]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            said = (done.stderr or done.stdout).strip()[-500:]
            raise SystemExit(
                f"tpchgen-cli ended with {done.returncode}: {said}. It has to know "
                "`tpchgen-cli parquet -s SCALE -o FOLDER`: pip install --upgrade tpchgen-cli"
            )
        check(made, scale)
        (made / "complete").touch()
    return made


def rows_of(table: str, scale: float) -> tuple[int, int]:
    """The fewest and the most rows that a table has at a scale factor."""
    if table == "lineitem":
        orders = rows_of("orders", scale)[0]
        return _LINES[0] * orders, _LINES[1] * orders
    rows = _FIXED.get(table) or int(_PER_SCALE[table] * scale)
    return rows, rows


def check(folder: Path, scale: float) -> dict[str, int]:
    """Hold the tables against what TPC-H says of them: numbers of rows, keys, foreign keys.

    Args:
        folder: with the Parquet files.
        scale: their scale factor.

    Returns:
        The rows of each table.

    Raises:
        AssertionError: something differs; it says what, with the numbers.

    Complexity: O(n log n); about 5 s at scale factor 1.
    """
    rows: dict[str, int] = {}
    keys: dict[str, Int64s] = {}
    for name, key in KEYS.items():
        codes = _codes(folder, name, key)
        least, most = rows_of(name, scale)
        if not least <= len(codes) <= most:
            raise AssertionError(
                f"{name} has {len(codes):,} rows, it must have {least:,} to {most:,} at scale "
                f"factor {scale:g}"
            )
        in_order = bool((codes[1:] > codes[:-1]).all())
        keys[name] = codes if in_order else _distinct(codes)
        if len(keys[name]) != len(codes):
            twice = len(codes) - len(keys[name])
            raise AssertionError(f"{name}: {twice:,} rows repeat a key ({', '.join(key)})")
        rows[name] = len(codes)
    for name, columns, other in FOREIGN:
        named = _distinct(_codes(folder, name, columns))
        lost = int((~np.isin(named, keys[other], assume_unique=True)).sum())
        if lost:
            raise AssertionError(
                f"{name}: {lost:,} values of {', '.join(columns)} are not in {other}"
            )
    return rows


def customer_ids(
    kind: str, customers: int, rows: int, cycle: int, *, seed: int = 0, every: int = 3
) -> Int64s:
    """The customers of one cycle of a stream; each cycle can be drawn by itself.

    Args:
        kind: "uniform": all alike; "zipf": rank r with a weight of r^(-1.04), always the same
            customers in front; "shifting": likewise, but other customers every few cycles.
        customers: how many there are; ids are 1 ... customers, as in TPC-H.
        rows: of the cycle.
        cycle: 0, 1, 2, ...
        seed: of the random numbers.
        every: after so many cycles of a shifting stream other customers are in front.

    Raises:
        ValueError: the kind is none of these.

    Complexity: O(rows).

    Example:
        >>> ids = customer_ids("zipf", 1000, 10_000, cycle=0)
        >>> int(ids.min()) >= 1 and int(ids.max()) <= 1000
        True
    """
    if kind == "uniform":
        random = np.random.default_rng([seed, cycle])
        return random.integers(1, customers + 1, rows)
    if kind == "zipf":
        ranks = Zipf(customers, _EXPONENT, seed * 1_000_003 + cycle).ranks(rows)
        return scattered(ranks, customers) + 1
    if kind == "shifting":
        return Shifting(customers, _EXPONENT, rows, every, seed).cycle(cycle) + 1
    raise ValueError(f"kind={kind!r}: give one of {', '.join(STREAMS)}")


def _program() -> Path:
    beside = Path(sys.executable).parent / "tpchgen-cli"
    found = str(beside) if beside.exists() else shutil.which("tpchgen-cli")
    if found is None:
        raise SystemExit(
            "TPC-H needs tpchgen-cli, and there is none beside this Python or on the path: "
            'pip install "bsjoin[benchmarks]", or pip install tpchgen-cli'
        )
    return Path(found)


def _distinct(codes: Int64s) -> Int64s:
    found: Int64s = pc.unique(pa.array(codes)).to_numpy()
    return found


def _codes(folder: Path, table: str, columns: tuple[str, ...]) -> Int64s:
    """One number for each row, the same for the same values of one or two columns."""
    read = pq.read_table(folder / f"{table}.parquet", columns=list(columns))
    first, *more = (pc.cast(read.column(name), pa.int64()).to_numpy() for name in columns)
    codes: Int64s = first
    for other in more:
        codes = codes * np.int64(1 << 31) + other
    return codes
