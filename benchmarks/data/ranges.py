"""Range joins to be measured, and their rows: made of seeded numbers, so the same in every run.

The table has ``v`` (the number of the row), ``a`` (a point, or where an interval starts), ``b``
(where it ends) and, with an equality key, ``k``; the stream has ``id``, ``p``, ``q`` and ``k``.
No two points of a side are equal, so an as-of join has one right answer.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

import bsjoin

__all__ = [
    "BEGIN_US",
    "MATCHING",
    "MONTH_US",
    "SECOND_US",
    "SEED",
    "Case",
    "cases",
    "rows_of",
    "stored",
]

Int64s = NDArray[np.int64]

SECOND_US = 10**6
DAY_S = 86_400
MONTH_US = 30 * DAY_S * SECOND_US
BEGIN_US = 1_767_225_600 * SECOND_US  # 2026-01-01
SEED = 20261121

MATCHING = "nearly all pairs match"
"""The end of the names of the dense cases."""


@dataclass(frozen=True, kw_only=True)
class Case:
    """A range join, and how many rows to carry it out on; points lie within 30 days.

    Args:
        name: what the case is called in print.
        kind: the condition.
        rows: of the table.
        probes: rows of the stream.
        keys: how many equality keys there are; 0 for a join without.
        width_s: of a band, to either side; of intervals, on average; of as-of, the tolerance.
        bin_s: the width of the bins that one would choose in Spark; 0 where bins are no way.
        direction: of as-of.
        delay_s: how much later the stream's points are.
        written: whether Spark's join is measured as one writes it, too: with the interval's
            arithmetic in the condition, which costs minutes in a large nested loop.
        seed: of the rows of both sides.
    """

    name: str
    kind: Literal["band", "within", "overlaps", "asof"]
    rows: int
    probes: int
    keys: int = 0
    width_s: int = 0
    bin_s: int = 0
    direction: Literal["backward", "forward", "nearest"] = "backward"
    delay_s: int = 0
    written: bool = False
    seed: int = SEED

    @property
    def on(self) -> list[str]:
        """The equality key."""
        return ["k"] if self.keys else []

    @property
    def when(self) -> Any:
        """The condition."""
        if self.kind == "band":
            return bsjoin.Band("p", "a", self.width_s, self.width_s)
        if self.kind == "within":
            return bsjoin.Within("p", "a", "b")
        if self.kind == "overlaps":
            return bsjoin.Overlaps(("p", "q"), ("a", "b"))
        tolerance = self.width_s * SECOND_US or None
        return bsjoin.AsOf("p", "a", direction=self.direction, tolerance=tolerance)

    @property
    def columns(self) -> list[str]:
        """The columns of the result."""
        stream = ["id", *self.on, "p", *(["q"] if self.kind == "overlaps" else [])]
        return [*stream, "v", "a", *(["b"] if self.kind in ("within", "overlaps") else [])]

    @property
    def pairs(self) -> int:
        """How many pairs have equal keys."""
        return self.rows * self.probes // max(self.keys, 1)

    @property
    def size(self) -> str:
        """Both sides' rows, in print."""
        return f"{self.rows:,} x {self.probes:,}"


def cases(rows: int, probes: int, few: int, seed: int = SEED) -> list[Case]:
    """What is measured in Spark.

    Args:
        rows: of a large table.
        probes: of a stream that meets it by an equality key, or as-of.
        few: rows of a stream that meets it without a key, where Spark tries all pairs; both
            sides of the dense cases have twice as many.
        seed: of all rows.
    """
    hour, day = 3_600, DAY_S
    keyed = {"rows": rows, "probes": probes, "keys": 1_500, "seed": seed}
    loose = {"rows": rows, "probes": few, "seed": seed}
    dense = {"rows": 2 * few, "probes": 2 * few, "seed": seed}
    return [
        Case(name="key, band", kind="band", width_s=hour, bin_s=2 * hour, written=True, **keyed),
        Case(name="key, within", kind="within", width_s=2 * hour, bin_s=4 * hour, **keyed),
        Case(name="key, overlaps", kind="overlaps", width_s=hour, bin_s=2 * hour, **keyed),
        Case(name="key, as-of", kind="asof", **keyed),
        Case(name="key, as-of nearest", kind="asof", direction="nearest", width_s=hour, **keyed),
        Case(name="narrow band", kind="band", width_s=10, bin_s=20, **loose),
        Case(name="wide band", kind="band", width_s=hour, bin_s=2 * hour, **loose),
        Case(name="within", kind="within", width_s=60, bin_s=120, **loose),
        Case(name="overlaps", kind="overlaps", width_s=60, bin_s=120, **loose),
        Case(name="as-of", kind="asof", rows=rows, probes=probes, seed=seed),
        Case(
            name="as-of, long stream", kind="asof", rows=rows // 10, probes=10 * probes, seed=seed
        ),
        Case(name="as-of, short stream", kind="asof", rows=rows // 10, probes=few, seed=seed),
        Case(
            name=f"band, {MATCHING}",
            kind="band",
            width_s=25 * day,
            bin_s=50 * day,
            written=True,
            **dense,
        ),
        Case(
            name=f"within, {MATCHING}",
            kind="within",
            width_s=80 * day,
            bin_s=160 * day,
            delay_s=25 * day,
            **dense,
        ),
        Case(
            name=f"overlaps, {MATCHING}",
            kind="overlaps",
            width_s=60 * day,
            bin_s=120 * day,
            **dense,
        ),
    ]


def rows_of(case: Case) -> tuple[pa.Table, pa.Table]:
    """The rows of a case: the table's and the stream's, in no order."""
    random = np.random.default_rng(case.seed)
    return (
        _side(case, case.rows, 0, ("v", "a", "b"), random),
        _side(case, case.probes, case.delay_s * SECOND_US, ("id", "p", "q"), random),
    )


def _side(
    case: Case, rows: int, delay_us: int, names: tuple[str, str, str], random: np.random.Generator
) -> pa.Table:
    number, point, end = names
    columns = {number: pa.array(np.arange(rows))}
    if case.keys:
        columns["k"] = pa.array(random.integers(0, case.keys, rows))
    starts = BEGIN_US + delay_us + _spread(rows, random)
    columns[point] = _times(case, starts)
    if case.kind == "overlaps" or (case.kind == "within" and end == "b"):
        lengths = random.uniform(0.5, 1.5, rows) * case.width_s * SECOND_US
        columns[end] = _times(case, starts + lengths.astype(np.int64))
    return pa.table(columns)


def _spread(rows: int, random: np.random.Generator) -> Int64s:
    """Different numbers below a month in microseconds, evenly spread, in no order."""
    step = MONTH_US // rows
    return random.permutation(np.arange(rows) * step + random.integers(0, step, rows))


def _times(case: Case, microseconds: Int64s) -> pa.Array:
    # Spark 4.3 plans its sort-merge as-of join for numbers only, it fails for timestamps.
    return pa.array(microseconds, pa.int64() if case.kind == "asof" else pa.timestamp("us", "UTC"))


def stored(case: Case, folder: Path) -> tuple[Path, Path]:
    """The rows of a case as Parquet files, the table's and the stream's, for Spark to read."""
    stem = f"{case.name.replace(',', '').replace(' ', '-')}-{case.rows}x{case.probes}-{case.seed}"
    table, stream = (folder / "ranges" / f"{stem}-{side}.parquet" for side in ("table", "stream"))
    if not (table.exists() and stream.exists()):
        table.parent.mkdir(parents=True, exist_ok=True)
        for path, rows in zip((table, stream), rows_of(case), strict=True):
            pq.write_table(rows, path, row_group_size=1 << 18)
    return table, stream
