"""The index alone, on one core, against DuckDB and Polars on the same rows; no Spark."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from benchmarks.data.ranges import SECOND_US, Case, rows_of
from benchmarks.harness.outcome import Context, Figure, Outcome
from benchmarks.harness.turns import in_turns, over
from benchmarks.ranges.engines import ENGINES, engine, fingerprint
from benchmarks.ranges.joins import listed, table_of, told
from benchmarks.ranges.picture import draw_rivals
from bsjoin.index import HashIndex, IntervalIndex, SortedRows, nearest, pairs, reach

__all__ = ["OURS", "Kernel", "figures", "measure", "run"]

Int64s = NDArray[np.int64]

OURS = "bsjoin's index"
_BATCH = 10_000  # rows of an Arrow batch in Spark
_MAX_PAIRS = 1 << 16
_MIX = np.int64(-7046029254386353131)


class Kernel:
    """What a worker holds of a table: rows by key and point, the hash index, the range index.

    Args:
        case: the join.
        table: its table.
    """

    def __init__(self, case: Case, table: pa.Table):
        self._case = case
        points = _microseconds(table, "a")
        hashes = _mixed(_numbers(table, "k")) if case.keys else np.zeros(len(points), np.int64)
        order = np.lexsort((points, hashes))
        hashes, points = hashes[order], points[order]
        slices = np.flatnonzero(np.diff(hashes, prepend=hashes[0] - 1))
        self._keys = HashIndex.build(hashes) if case.keys else None
        self._rows: SortedRows | IntervalIndex
        if case.kind in ("band", "asof"):
            self._rows = SortedRows.build(points, slices)
        else:
            ends = _microseconds(table, "b")[order]
            self._rows = IntervalIndex.build(points, ends, slices, closed="left")
        self._values = _numbers(table, "v")[order]

    def answer(self, stream: pa.Table) -> pa.Table:
        """The pairs (id, v), found for batches of the stream one after the other."""
        found: list[pa.RecordBatch] = []
        for begin in range(0, stream.num_rows, _BATCH):
            batch = stream.slice(begin, _BATCH)
            ids = _numbers(batch, "id")
            for positions, rows in self._pairs(batch):
                columns = [pa.array(ids.take(positions)), pa.array(self._values.take(rows))]
                found.append(pa.RecordBatch.from_arrays(columns, ["id", "v"]))
        return pa.Table.from_batches(found, pa.schema([("id", pa.int64()), ("v", pa.int64())]))

    def _pairs(self, batch: pa.Table) -> Iterator[tuple[Int64s, Int64s]]:
        points = _microseconds(batch, "p")
        low, high = self._slices(batch)
        width = self._case.width_s * SECOND_US
        if isinstance(self._rows, IntervalIndex):
            if self._case.kind == "within":
                yield from self._rows.stab(points, low, high, max_pairs=_MAX_PAIRS)
            else:
                ends = _microseconds(batch, "q")
                yield from self._rows.overlaps(points, ends, low, high, max_pairs=_MAX_PAIRS)
        elif self._case.kind == "band":
            firsts, stops = self._rows.band(points - width, points + width, "both", low, high)
            yield from pairs(firsts, stops, _MAX_PAIRS)
        else:
            found = nearest(
                self._rows,
                points,
                low,
                high,
                direction=self._case.direction,
                reach=reach(points, width) if width else None,
            )
            there = np.flatnonzero(found >= 0)
            yield there, found[there]

    def _slices(self, batch: pa.Table) -> tuple[Int64s, Int64s]:
        """The first row of each probe's key and one past the last."""
        if self._keys is None:
            many = batch.num_rows
            return np.zeros(many, np.int64), np.full(many, self._rows.rows)
        first, found = self._keys.probe(_mixed(_numbers(batch, "k")))
        low = np.where(found, first, 0)
        return low, np.where(found, low + self._keys.run_lengths(low), 0)


def _numbers(rows: pa.Table, name: str) -> Int64s:
    return np.asarray(rows.column(name).to_numpy(), np.int64)


def _microseconds(rows: pa.Table, name: str) -> Int64s:
    return np.asarray(rows.column(name).cast(pa.int64()).to_numpy())


def _mixed(keys: Int64s) -> Int64s:
    """A hash of 64 bits that no two keys share."""
    hashes = keys * _MIX
    return hashes ^ (hashes >> np.int64(29))


def run(context: Context) -> Outcome:
    """Measure; quick: five cases of a tenth of the rows."""
    context.say("The index alone, on one core, against DuckDB and Polars")
    every = listed(context.quick, context.seed)
    backward = [case for case in every if case.direction == "backward"]
    found = measure(backward, 3 if context.quick else 5, say=context.say)
    picture = context.out / "range-index.png"
    draw_rivals(found, OURS, "The index alone, without Spark", picture)
    note = "Pairs (id, v) as Arrow from each; our index is ready and works on one core."
    table = table_of("The index alone: median ms by engine", found, OURS, note)
    return Outcome(figures(found, quick=context.quick), [table], [picture], found)


def measure(
    listed: list[Case],
    rounds: int,
    threads: tuple[int, ...] = (2, 1),
    say: Callable[[str], None] = print,
) -> dict[str, Any]:
    """Seconds of every engine for each case, in turns; all answer with the same pairs as Arrow.

    Our index is ready and works on one core. DuckDB reads the rows from Arrow each time; what
    Polars can use, a table in order, it has.

    Returns:
        By case: ``size``, ``pairs``, ``build_s`` (of our index) and ``seconds``, by way.
    """
    found: dict[str, Any] = {}
    with ExitStack() as processes:
        engines = {
            f"{name}, {many} thread{'s' if many > 1 else ''}": processes.enter_context(
                engine(name, many)
            )
            for name in ENGINES
            for many in threads
        }
        for case in listed:
            table, stream = rows_of(case)
            begun = time.perf_counter()
            kernel = Kernel(case, table)
            build_s = time.perf_counter() - begun
            expected = fingerprint(kernel.answer(stream))
            ways: dict[str, Callable[[], float]] = {OURS: partial(_timed, kernel, stream)}
            for name, one in engines.items():
                one.load(case)
                answer = one.run()[1]
                if answer != expected:
                    raise AssertionError(f"{case.name}: {name} answers {answer}, not {expected}")
                ways[name] = lambda one=one: one.run()[0]  # type: ignore[misc]
            seconds = in_turns(ways, rounds)
            found[case.name] = {
                "size": case.size,
                "pairs": expected[0],
                "build_s": build_s,
                "seconds": seconds,
            }
            told(case, found[case.name], OURS, say)
    return found


def _timed(kernel: Kernel, stream: pa.Table) -> float:
    begun = time.perf_counter()
    kernel.answer(stream)
    return time.perf_counter() - begun


def figures(measured: dict[str, Any], *, quick: bool) -> list[Figure]:
    """The figure of section 6 about the index alone, at full sizes; else: not slower."""
    found = []
    for name, one in measured.items():
        seconds = dict(one["seconds"])
        ours = seconds.pop(OURS)
        headline = name == "key, band"
        best = min(seconds, key=lambda way: statistics.median(seconds[way]))
        if headline:
            bound = 1.0 if quick else 10.0
            for way, theirs in seconds.items():
                found.append(over(f"index alone, {name}: {way} / bsjoin", theirs, ours, bound))
        else:
            label = f"index alone, {name}: the best of both / bsjoin"
            found.append(over(label, seconds[best], ours, 1.0))
    return found
