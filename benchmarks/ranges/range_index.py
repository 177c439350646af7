"""The range index alone, on one core, and DuckDB and Polars on the same rows; no Spark."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import ExitStack
from functools import partial

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from benchmarks.data.ranges import SECOND_US, Case, cases, rows_of
from benchmarks.data.zipf import mixed
from benchmarks.harness.outcome import Context, Figure, Outcome
from benchmarks.harness.timing import alternate, check_equal, ratio, seconds_of
from benchmarks.ranges.comparison import Found, best_rival, compared, timed
from benchmarks.ranges.engines import ENGINES, Engine, fingerprint
from bsjoin.index import HashIndex, IntervalIndex, SortedRows, nearest, pairs, reach

Int64s = NDArray[np.int64]

OURS = "bsjoin's index"
_BATCH = 10_000  # rows of an Arrow batch in Spark
_MAX_PAIRS = 1 << 16


class Kernel:
    """What a worker holds of a table: rows by key and point, the hash index, the range index."""

    def __init__(self, case: Case, table: pa.Table):
        self._case = case
        points = _numbers(table, "a")
        hashes = mixed(_numbers(table, "k")) if case.keys else np.zeros(len(points), np.int64)
        order = np.lexsort((points, hashes))
        hashes, points = hashes[order], points[order]
        slices = np.flatnonzero(np.diff(hashes, prepend=hashes[0] - 1))
        self._keys = HashIndex.build(hashes) if case.keys else None
        self._rows: SortedRows | IntervalIndex
        if case.kind in ("band", "asof"):
            self._rows = SortedRows.build(points, slices)
        else:
            ends = _numbers(table, "b")[order]
            self._rows = IntervalIndex.build(points, ends, slices, closed="left")
        self._values = _numbers(table, "v")[order]

    def answer(self, stream: pa.Table) -> pa.Table:
        """The pairs (id, v), found for batches of the stream one after the other."""
        found: list[pa.Table] = []
        for begin in range(0, stream.num_rows, _BATCH):
            batch = stream.slice(begin, _BATCH)
            ids = _numbers(batch, "id")
            found += [
                pa.table({"id": ids.take(positions), "v": self._values.take(rows)})
                for positions, rows in self._pairs(batch)
            ]
        return pa.concat_tables(found)

    def _pairs(self, batch: pa.Table) -> Iterable[tuple[Int64s, Int64s]]:
        case, rows = self._case, self._rows
        points = _numbers(batch, "p")
        low, high = self._slices(batch)
        width = case.width_s * SECOND_US
        if isinstance(rows, IntervalIndex):
            if case.kind == "within":
                return rows.stab(points, low, high, max_pairs=_MAX_PAIRS)
            ends = _numbers(batch, "q")
            return rows.overlaps(points, ends, low, high, max_pairs=_MAX_PAIRS)
        if case.kind == "band":
            firsts, stops = rows.band(points - width, points + width, "both", low, high)
            return pairs(firsts, stops, _MAX_PAIRS)
        most = reach(points, width) if width else None
        found = nearest(rows, points, low, high, direction=case.direction, reach=most)
        there = np.flatnonzero(found >= 0)
        return [(there, found[there])]

    def _slices(self, batch: pa.Table) -> tuple[Int64s, Int64s]:
        """The first row of each probe's key and one past the last."""
        if self._keys is None:
            many = batch.num_rows
            return np.zeros(many, np.int64), np.full(many, self._rows.rows)
        first, found = self._keys.probe(mixed(_numbers(batch, "k")))
        low = np.where(found, first, 0)
        return low, np.where(found, low + self._keys.run_lengths(low), 0)


def _numbers(rows: pa.Table, name: str) -> Int64s:
    """A column; of times the microseconds."""
    return np.asarray(rows.column(name).cast(pa.int64()).to_numpy())


def run(context: Context) -> Outcome:
    """Measure; quick: three cases of a tenth of the rows."""
    with ExitStack() as processes:
        engines = {
            f"{name}, {many} thread{'s' if many > 1 else ''}": processes.enter_context(
                Engine(name, many)
            )
            for name in ENGINES
            for many in (2, 1)
        }
        found: Found = {
            case.name: _measure(context, case, engines)
            for case in cases(context.quick, context.seed)
            if case.direction == "backward"
        }
    return compared(
        found, OURS, _figures(found, quick=context.quick),
        "The index alone, without Spark",
        "The index alone: median ms by engine",
        "Pairs (id, v) as Arrow from each; our index is prepared and runs on one core.",
    )  # fmt: skip


def _measure(context: Context, case: Case, engines: dict[str, Engine]) -> dict[str, object]:
    """Seconds of every engine for a case, alternately; all must find the same pairs.

    DuckDB reads the rows from Arrow each time; Polars has the table in order where it can use it.
    """
    table, stream = rows_of(case)
    build_s, built = timed(partial(Kernel, case, table))
    answers = {OURS: fingerprint(built.answer(stream))}
    ways: dict[str, Callable[[], float]] = {OURS: partial(seconds_of, built.answer, stream)}
    for name, one in engines.items():
        one.load(case)
        answers[name] = one.run()[1]
        ways[name] = lambda one=one: one.run()[0]  # type: ignore[misc]
    count = check_equal(answers)[0]
    say = lambda line: context.say(f"  {case.name}, {case.size}  {line}")  # noqa: E731
    seconds = alternate(ways, context.pick(3, 5), slow_s=3.0, say=say)
    return {"size": case.size, "pairs": count, "build_s": build_s, "seconds": seconds}


def _figures(found: Found, *, quick: bool) -> list[Figure]:
    """Each engine for the case that was promised 10 times at full sizes; else: not slower."""
    figures = []
    for name, one in found.items():
        theirs = dict(one["seconds"])
        ours, bound = theirs.pop(OURS), 1.0
        if name == "key, band":
            bound = 1.0 if quick else 10.0
        else:
            theirs = {"the best of both": best_rival(one, OURS)}
        figures += [
            ratio(f"index alone, {name}: {way} / bsjoin", seconds, ours, bound)
            for way, seconds in theirs.items()
        ]
    return figures
