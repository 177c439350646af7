"""Scalers of a plain streaming query, live: a load that rises, stands and falls.

The query is bsjoin's join with a source whose look-ups wait, two milliseconds a key: a core
answers at most 500 rows/s whatever the CPU of this machine does, so an executor more is truly more
throughput. Rows are numbered, so their waits are known, and that none was lost.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

import bsjoin
from benchmarks.harness.outcome import Cell, Context, Figure, Table
from benchmarks.harness.spark import consume, running
from benchmarks.papers.scheduling.placement_live_cluster import Cluster
from benchmarks.papers.scheduling.placement_live_figures import SCALERS as SCALER_CLAIMS
from benchmarks.papers.scheduling.placement_live_figures import percent, verdict
from benchmarks.papers.scheduling.placement_live_source import KEY_S, load, look_up
from benchmarks.papers.scheduling.scaling_days import Median
from scheduling.elastic import Bounds, Step
from scheduling.scalers import DS2, OERA, Scaler, Static
from scheduling.simulate import Arrivals
from scheduling.spark.executors import Executors
from scheduling.spark.scaling import Scaling

TASKS, TRIGGER_S, NOISE = 12, 3.0, 0.2
_EVERY_S = 3.0
_START = 2
_MOST = 3  # requests
_PATIENCE_S = 60.0
_READY_S = 8.0  # from the query's start to its first row
_LOW, _RAMP_S = 400.0, 5.0
_CACHE = bsjoin.Incremental(max_rows=1_000)

SCALERS: Mapping[str, Callable[[], Scaler]] = {
    "OERA": OERA,
    "DS2": DS2,
    "Median": lambda: Median(windows=5),
    "Static": lambda: Static(_START),
}


@dataclass(frozen=True)
class Load:
    """A load of 400 rows a second that rises in 5 s to four times as much, stands, and falls again.

    It is low for ``low_s`` at first and at last, and high for ``high_s``.
    """

    low_s: float
    high_s: float
    need: ClassVar[float] = 4 * _LOW * KEY_S
    """The cores that the high load needs at least."""

    @property
    def high_between(self) -> tuple[float, float]:
        """The seconds between which it is high."""
        rise = self.low_s + _RAMP_S
        return rise, rise + self.high_s

    @property
    def seconds(self) -> float:
        """Of the whole."""
        return 2 * (self.low_s + _RAMP_S) + self.high_s

    @property
    def points(self) -> list[tuple[float, float]]:
        """Of the curve: from low to high and back."""
        rise, stand = self.high_between
        at = (0.0, self.low_s, rise, stand, stand + _RAMP_S, self.seconds)
        return list(zip(at, (_LOW, _LOW, 4 * _LOW, 4 * _LOW, _LOW, _LOW), strict=True))


@dataclass(frozen=True)
class Run:
    """What was seen of a scaler.

    ``steps``: second, cores that were there, new request or None. ``batches``: first row, end row,
    second of its end. ``rows`` are by Spark's count, ``expected`` by the offsets.
    """

    scaler: str
    steps: tuple[tuple[float, int, int | None], ...]
    batches: tuple[tuple[int, int, float], ...]
    rows: int
    expected: int

    @property
    def core_s(self) -> float:
        """Core seconds that were there, from the first step on."""
        pairs = zip(self.steps, self.steps[1:], strict=False)
        return float(sum((after[0] - one[0]) * one[1] for one, after in pairs))

    @property
    def use(self) -> float:
        """The share of the cores' time in which they waited for answers, their work here."""
        first, last = self.steps[0][0], self.steps[-1][0]
        done = sum(end - begin for begin, end, at in self.batches if first <= at <= last)
        return done * KEY_S / self.core_s if self.core_s else 0.0

    def waits(
        self, curve: Arrivals, end_s: float, first_s: float = 0.0, last_s: float = np.inf
    ) -> np.ndarray:
        """Seconds between arrival and answer of rows that arrived in a time; a sample.

        Rows without an answer have waited until the end of the run at least.
        """
        answered, arrived = self.batches[-1][1] if self.batches else 0, int(curve(end_s))
        left = [(answered, arrived, end_s)] if answered < arrived else []
        found = [np.empty(0)]
        for first, end, at in [*self.batches, *left]:
            rows = np.linspace(first, end, max(2, (end - first) // 20))
            came = np.array([curve.second(row) for row in rows])
            found.append(at - came[(came >= first_s) & (came < last_s)])
        return np.concatenate(found)

    def decisions(self, first_s: float = 0.0) -> list[tuple[float, int]]:
        """Second and target of the requests from a second on."""
        return [(at, to) for at, _, to in self.steps if to is not None and at >= first_s]

    def cores(self, first_s: float, last_s: float) -> str | None:
        """The least and the most cores that were there between two seconds."""
        seen = [there for at, there, _ in self.steps if first_s <= at < last_s]
        return f"{min(seen)} to {max(seen)}" if seen else None

    def enough(self, load: Load) -> tuple[int, float] | None:
        """Requests until there are as many cores as the high load needs, and seconds from its rise.

        None if there never are.
        """
        for at, there, _ in self.steps:
            if at >= load.low_s and there >= load.need:
                made = [one for one in self.decisions(load.low_s) if one[0] <= at]
                return len(made), at - load.low_s
        return None


def recorded(
    scaler: str, steps: Sequence[Step], progress: Sequence[Mapping[str, Any]], began_s: float
) -> Run:
    """The record of a run, from the scaling's steps and Spark's progress as dicts.

    The curve, whose seconds the steps have, began at ``began_s`` of ``time.time()``.
    """
    batches = []
    for one in progress:
        if one["numInputRows"]:
            source = one["sources"][0]
            first, end = (_rows(source[name]) for name in ("startOffset", "endOffset"))
            began = datetime.fromisoformat(one["timestamp"]).timestamp() - began_s
            batches.append((first, end, began + one["durationMs"]["triggerExecution"] / 1e3))
    return Run(
        scaler,
        tuple((one.time_s, one.there, one.target) for one in steps if one.time_s >= 0),
        tuple(batches),
        sum(one["numInputRows"] for one in progress),
        batches[-1][1] if batches else 0,
    )


def _rows(offset: Any) -> int:
    told = json.loads(offset) if isinstance(offset, str) else offset
    return int(told["rows"]) if told else 0


def run(context: Context, cluster: Cluster, name: str, given: Load) -> Run:
    """Run the query under a scaler, from two executors of one core each."""
    spark, most = cluster.spark, len(cluster.nodes)
    _settle(Executors(spark), _START)
    joined = bsjoin.join(spark.range(0, TASKS, 1, TASKS), _source(), "id", cache=_CACHE)
    consume(joined)
    began_s = time.time() + _READY_S
    stream = load(spark, given.points, began_s=began_s, tasks=TASKS, noise=NOISE, seed=context.seed)
    joined = bsjoin.join(stream, _source(), "id", cache=_CACHE)
    bounds = Bounds(
        confirm=2, urgent_s=2 * TRIGGER_S, shrink_after_s=0.6 * given.low_s, settle_s=2 * _EVERY_S
    )
    writer = joined.writeStream.format("noop").trigger(processingTime=f"{TRIGGER_S:g} seconds")
    with running(writer, cluster.folder) as query:
        scaling = Scaling(
            query, SCALERS[name](), executors=(1, most), tasks=TASKS, bounds=bounds,
            every_s=_EVERY_S, spark=spark, clock=lambda: time.time() - began_s,
        )  # fmt: skip
        with scaling:
            while query.isActive and time.time() < began_s + given.seconds:
                time.sleep(0.2)
        progress = [json.loads(one.json) for one in query.recentProgress]
        error = query.exception()
    if error is not None:
        raise RuntimeError(f"{name}: the query failed: {error}")
    found = recorded(name, scaling.steps, progress, began_s)
    if found.rows != found.expected:
        raise AssertionError(f"{name}: {found.rows} rows were processed of {found.expected}")
    requests = ", ".join(f"{target} at {at:.0f} s" for at, target in found.decisions())
    context.say(f"  {name:<7} {found.core_s:5.0f} core s; requested: {requests or 'nothing'}")
    return found


def _settle(executors: Executors, count: int) -> None:
    executors.resize(count)
    until = time.monotonic() + _PATIENCE_S
    while len(there := executors.there()) != count:
        if time.monotonic() > until:
            raise RuntimeError(f"{len(there)} executors after {_PATIENCE_S:g} s, not {count}")
        time.sleep(0.2)


def _source() -> Any:
    return bsjoin.sources.function(look_up, {"id": pa.int64(), "name": pa.string()}, unique=True)


def _late(one: Run, given: Load, curve: Arrivals) -> np.ndarray:
    """The waits of rows that arrive in the last quarter of the high load."""
    _, end = given.high_between
    return one.waits(curve, given.seconds, end - given.high_s / 4, end)


def table(runs: Sequence[Run], given: Load, curve: Arrivals) -> Table:
    """The scalers side by side."""
    rows: list[dict[str, Cell]] = []
    rise, stand = given.high_between
    for one in runs:
        waits, late = one.waits(curve, given.seconds), _late(one, given, curve)
        enough = one.enough(given)
        rows.append(
            {
                "scaler": one.scaler,
                "core seconds": round(one.core_s),
                "use": f"{one.use:.0%}",
                "wait of rows, mean, s": float(waits.mean()),
                "p95, s": float(np.percentile(waits, 95)),
                "at the end of the high load, median, s": float(np.median(late)),
                "requests": len(one.decisions()),
                "until enough": None if enough is None else f"{enough[0]} in {enough[1]:.0f} s",
                "cores, low": one.cores(0, given.low_s),
                "cores, high": one.cores(rise, stand),
                "cores, low again": one.cores(stand + _RAMP_S, np.inf),
                "rows": f"{one.rows:,} of {one.expected:,}",
            }
        )
    note = (
        f"A plain query, scaled beside it, from {_START} executors of one core: {_LOW:g} rows/s "
        f"for {given.low_s:g} s, {4 * _LOW:g} for {given.high_s:g} s, and again as at first, each "
        f"with 20 % noise. A look-up waits {KEY_S * 1e3:g} ms a key, so that the high load needs "
        f"{given.need:g} cores at least. The seconds to wait before a shrink, "
        f"{0.6 * given.low_s:g}, and after a change, {2 * _EVERY_S:g}, are those of a run of "
        "minutes, as the other bounds are; the defaults are longer. Use is the share of the "
        "cores' time in which look-ups wait. Static has the cores of the beginning."
    )
    return Table.of("Scalers under a load that rises, stands and falls, live", rows, note)


def claims(runs: Sequence[Run], given: Load, curve: Arrivals) -> Table:
    """What the OERA paper says against Median and Static, beside what is seen here."""
    waits = {one.scaler: float(one.waits(curve, given.seconds).mean()) for one in runs}
    seen = {one.scaler: {"use": one.use, "rows that wait": waits[one.scaler]} for one in runs}
    rows: list[dict[str, Cell]] = []
    for told in SCALER_CLAIMS:
        ours: list[float] = []
        if {"OERA", told["against"]} <= seen.keys():
            one, other = (seen[name][told["measure"]] for name in ("OERA", told["against"]))
            ours = [one / other - 1] if other else []
        rows.append(
            {
                "claim": f"OERA against {told['against']}: {told['what']}",
                "paper": percent([told["change"]]),
                "here": percent(ours),
                "verdict": verdict(told["change"], ours) if ours else None,
                "where": "OERA, 4.2",
            }
        )
    note = (
        "Spark loses no row, they wait at the source: where the paper counts lost rows, the mean "
        "wait is compared. The paper's Static is fully used while rows are lost."
    )
    return Table.of("OERA's claims, and what a live Spark shows", rows, note)


def figures(runs: Sequence[Run], given: Load, curve: Arrivals) -> Iterator[Figure]:
    """Whether a rise to four times the load is followed, and its backlog drained."""
    for one in runs:
        if one.scaler not in ("OERA", "DS2"):
            continue
        enough, late = one.enough(given), _late(one, given, curve)
        yield Figure(
            f"{one.scaler}: requests until four times the load has its cores; {_MOST + 1}: never",
            _MOST + 1 if enough is None else enough[0], _MOST, at_most=True, unit="requests",
        )  # fmt: skip
        yield Figure(
            f"{one.scaler}: median wait of rows at the end of the high load",
            float(np.median(late)),
            3 * TRIGGER_S, at_most=True, unit="s",
        )  # fmt: skip
