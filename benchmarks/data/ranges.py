"""The cases of the range joins, and their rows: drawn with a seed.

The table has ``v`` (the number of the row), ``a`` (a point, or the start of an interval), ``b``
(its end) and, with an equality key, ``k``; the stream has ``id``, ``p``, ``q`` and ``k``.
No two points of a side are equal, so an as-of join has one right answer.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

import bsjoin

Int64s = NDArray[np.int64]

SECOND_US = 10**6
HOUR_S, DAY_S = 3_600, 86_400
MONTH_US = 30 * DAY_S * SECOND_US
BEGIN_US = 1_767_225_600 * SECOND_US  # 2026-01-01

MATCHING = "nearly all pairs match"
"""The end of the names of the dense cases."""

_QUICK = ("key, band", "key, as-of", f"overlaps, {MATCHING}")


@dataclass(frozen=True, kw_only=True)
class Case:
    """A range join of so many ``rows`` with ``probes``; all points lie within 30 days.

    ``keys`` is the number of equality keys, 0 for a join without; ``width_s`` of a band is to
    either side, of intervals on average, of as-of the tolerance; the stream's points are
    ``delay_s`` later. ``written``: Spark's join is also measured as one writes it.
    """

    name: str
    kind: Literal["band", "within", "overlaps", "asof"]
    rows: int
    probes: int
    keys: int = 0
    width_s: int = 0
    direction: Literal["backward", "forward", "nearest"] = "backward"
    delay_s: int = 0
    written: bool = False
    seed: int

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
        ends = {"overlaps": (["q"], ["b"]), "within": ([], ["b"])}.get(self.kind, ([], []))
        return ["id", *self.on, "p", *ends[0], "v", "a", *ends[1]]

    @property
    def ends(self) -> dict[str, str]:
        """The ends of a band, by name: SQL over the columns of the stream."""
        width = f"INTERVAL {self.width_s} SECONDS"
        return {"lo": f"p - {width}", "hi": f"p + {width}"} if self.kind == "band" else {}

    @property
    def matches(self) -> tuple[str, ...]:
        """The condition: comparisons in SQL of a column of the table with one of the stream."""
        return {
            "band": ("a >= lo", "a <= hi"),
            "within": ("a <= p", "b > p"),
            "overlaps": ("a < q", "b > p"),
            "asof": ("a <= p",),
        }[self.kind]

    @property
    def bin_s(self) -> int:
        """The width of bins that suit Spark; 0 where bins cannot be used."""
        return 0 if self.kind == "asof" else 2 * self.width_s

    @property
    def pairs(self) -> int:
        """How many pairs have equal keys."""
        return self.rows * self.probes // max(self.keys, 1)

    @property
    def size(self) -> str:
        """Both sides' rows, in print."""
        return f"{self.rows:,} x {self.probes:,}"


def cases(quick: bool, seed: int) -> list[Case]:
    """All cases of a size; quick: three of them with a tenth of the rows."""
    # `few`: rows of a stream without a key, where Spark tries all pairs.
    rows, probes, few = (200_000, 10_000, 300) if quick else (2_000_000, 100_000, 1_000)
    keyed = {"rows": rows, "probes": probes, "keys": 1_500}
    loose, dense = {"rows": rows, "probes": few}, {"rows": 2 * few, "probes": 2 * few}
    long, short = ({"rows": rows // 10, "probes": many} for many in (10 * probes, few))
    listed: tuple[tuple[str, Any, int, dict[str, Any]], ...] = (
        ("key, band", "band", HOUR_S, {**keyed, "written": True}),
        ("key, within", "within", 2 * HOUR_S, keyed),
        ("key, overlaps", "overlaps", HOUR_S, keyed),
        ("key, as-of", "asof", 0, keyed),
        ("key, as-of nearest", "asof", HOUR_S, {**keyed, "direction": "nearest"}),
        ("narrow band", "band", 10, loose),
        ("wide band", "band", HOUR_S, loose),
        ("within", "within", 60, loose),
        ("overlaps", "overlaps", 60, loose),
        ("as-of", "asof", 0, {"rows": rows, "probes": probes}),
        ("as-of, long stream", "asof", 0, long),
        ("as-of, short stream", "asof", 0, short),
        (f"band, {MATCHING}", "band", 25 * DAY_S, {**dense, "written": True}),
        (f"within, {MATCHING}", "within", 80 * DAY_S, {**dense, "delay_s": 25 * DAY_S}),
        (f"overlaps, {MATCHING}", "overlaps", 60 * DAY_S, dense),
    )
    return [
        Case(name=name, kind=kind, width_s=width_s, seed=seed, **more)
        for name, kind, width_s, more in listed
        if not quick or name in _QUICK
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
    # Different numbers below a month in microseconds, evenly spread, in no order.
    step = MONTH_US // rows
    drawn = random.permutation(np.arange(rows) * step + random.integers(0, step, rows))
    starts = BEGIN_US + delay_us + drawn
    columns[point] = _times(case, starts)
    if case.kind == "overlaps" or (case.kind == "within" and end == "b"):
        lengths = random.uniform(0.5, 1.5, rows) * case.width_s * SECOND_US
        columns[end] = _times(case, starts + lengths.astype(np.int64))
    return pa.table(columns)


def _times(case: Case, microseconds: Int64s) -> pa.Array:
    # Spark 4.3 plans its sort-merge as-of join for numbers only, it fails for timestamps.
    return pa.array(microseconds, pa.int64() if case.kind == "asof" else pa.timestamp("us", "UTC"))


def probes(numbers: DataFrame, number: str, case: Case) -> DataFrame:
    """Rows of a stream with a case's equality key, made of numbers and its seed: id, k, p."""
    value, seed = F.col(number), F.lit(case.seed)
    later = F.pmod(F.xxhash64(value, seed, F.lit(1)), F.lit(MONTH_US))
    return numbers.select(
        value.alias("id"),
        F.pmod(F.xxhash64(value, seed), F.lit(case.keys)).alias("k"),
        F.timestamp_micros(later + F.lit(BEGIN_US)).alias("p"),
    )
