"""From the runs of all ways to ratios and tables."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks.harness.outcome import Figure, Table
from benchmarks.rivals.compare import (
    AQE_ON,
    BATCH,
    FULL,
    FULL_HOT,
    INCREMENTAL,
    INCREMENTAL_HOT,
    OURS,
    RECORD,
)

__all__ = ["figures", "latency_ms", "rate", "slower", "tables"]

Runs = Sequence[Mapping[str, Any]]


def latency_ms(runs: Runs) -> float:
    """The median of a way's small micro-batches, of all rounds; or of a record."""
    if "ms" in runs[0]:
        return float(statistics.median(ms for one in runs for ms in one["ms"]))
    return float(statistics.median(one["record_ms"] for one in runs))


def rate(runs: Runs) -> float:
    """The median over rounds of a way's rows of the stream a second."""
    return float(statistics.median(one["rate"] for one in runs))


def figures(measured: Mapping[str, Any], paper: str) -> list[Figure]:
    """What each rival takes over what bsjoin takes; more than 1 is good for bsjoin.

    A full cache stands against what has the tables as files or in memory, an incremental one
    against what asks the database.

    Args:
        measured: by :func:`benchmarks.rivals.compare.compare`.
        paper: what the paper says of its cache against queries per record.
    """
    first, *others = measured["ways"]
    ways = measured["ways"][first]
    small, _large = measured["batches"]
    found = []
    for name, runs in ways.items():
        if name in OURS:
            continue
        ours = INCREMENTAL if name in (BATCH, RECORD) else FULL
        if name != RECORD:
            what = f"addBatch of {small:,} rows, {name} / {ours}"
            found.append(_ratio(what, runs, ways[ours], latency_ms, "ms"))
        what = f"rows/s, {ours} / {name}"
        bound = 1.0 if name == RECORD else None
        says = paper if name == RECORD else ""
        found.append(_ratio(what, ways[ours], runs, rate, "rates", bound, says))
    for on, off in ((FULL_HOT, FULL), (INCREMENTAL_HOT, INCREMENTAL)):
        if on not in ways:
            continue
        what = f"rows/s, {on} / without"
        found.append(_ratio(what, ways[on], ways[off], rate, "rates"))
        for kind in others:
            other = measured["ways"][kind]
            what = f"rows/s, {on} / without, {kind}"
            found.append(_ratio(what, other[on], other[off], rate, "rates"))
    for kind in others:
        other = measured["ways"][kind]
        what = f"addBatch of {small:,} rows, {AQE_ON} / {FULL}, {kind}"
        found.append(_ratio(what, other[AQE_ON], other[FULL], latency_ms, "ms"))
    for name, by_rows in measured["engines"].items():
        for rows, seconds in by_rows.items():
            ours_s = _seconds(ways[FULL], int(rows), small)
            theirs = statistics.median(seconds)
            what = f"seconds of {int(rows):,} rows, {name} alone / {FULL}"
            spread = (min(seconds) / ours_s, max(seconds) / ours_s)
            found.append(Figure(what, theirs / ours_s, None, False, spread))
    return found


def tables(measured: Mapping[str, Any], title: str, size: str) -> list[Table]:
    """Every way with its numbers, and where bsjoin is the slower one.

    Args:
        measured: by :func:`benchmarks.rivals.compare.compare`.
        title: of the job.
        size: what the tables' size is.
    """
    small, large = measured["batches"]
    rows: list[tuple[str | float | None, ...]] = []
    for kind, ways in measured["ways"].items():
        for name, runs in ways.items():
            times = [ms for one in runs for ms in one.get("ms", ())]
            hits = [one["hit_rate"] for one in runs if "hit_rate" in one]
            speed = rate(runs)
            rows.append(
                (
                    kind,
                    name,
                    round(statistics.median(times), 1) if times else None,
                    round(min(times), 1) if times else None,
                    round(max(times), 1) if times else None,
                    round(speed),
                    round(speed * measured["fan_out"]),
                    round(100 * statistics.median(hits), 1) if hits else None,
                )
            )
    first = next(iter(measured["ways"]))
    for name, by_rows in measured["engines"].items():
        times = [1e3 * s for s in _of(by_rows, small)]
        speed = large / statistics.median(_of(by_rows, large))
        numbers = (statistics.median(times), min(times), max(times))
        shown = (*(round(n, 1) for n in numbers), round(speed))
        rows.append((first, f"{name}, alone", *shown, round(speed * measured["fan_out"]), None))
    listed = ", ".join(f"{name} {n:,}" for name, n in measured["rows"].items())
    note = (
        f"{size} {measured['size']:g}: {listed} rows. {measured['fan_out']:.2f} results for a row "
        f"of the stream. Latency: Spark's addBatch of {small:,} rows; rows/s: micro-batches of "
        f"{large:,}. DuckDB and Polars have the tables in their memory and the rows at once, no "
        f"stream. bsjoin builds its tables once, in {measured['build_s']:.1f} s."
    )
    for name, why in measured["left_out"].items():
        note += f" {name} is left out: {why}."
    return [
        Table(
            title,
            (
                "stream", "way", f"ms per {small:,} rows", "least", "most", "rows/s", "results/s",
                "hits, %",
            ),
            tuple(rows),
            note,
        ),
        slower(measured),
    ]  # fmt: skip


def slower(measured: Mapping[str, Any]) -> Table:
    """Where bsjoin loses: every rival that is faster than its nearest counterpart of bsjoin."""
    rows = [
        (one.name, round(one.value, 2), round(1 / one.value, 2))
        for one in figures(measured, "")
        if one.value < 1
    ]
    return Table(
        "Where bsjoin is slower",
        ("what", "ratio", "times as fast as bsjoin"),
        tuple(rows),
        "Ratios below 1. With HotSpot the rows pass through a shuffle first: on one host, where "
        "every worker shares one cache, it has nothing to win."
        if rows
        else "Nowhere in this run.",
    )


def _ratio(
    name: str,
    above: Runs,
    below: Runs,
    of: Any,
    each: str,
    bound: float | None = None,
    paper: str = "",
) -> Figure:
    """Of all rounds, with the least and the most of a round.

    Of a single round the spread is that of its micro-batches: the least of one side over the most
    of the other, and the reverse.
    """
    rounds = [of([a]) / of([b]) for a, b in zip(above, below, strict=False)]
    spread = (min(rounds), max(rounds)) if len(rounds) > 1 else None
    if spread is None:
        a, b = above[0].get(each, ()), below[0].get(each, ())
        if len(a) > 1 or len(b) > 1:
            spread = (min(a) / max(b), max(a) / min(b))
    return Figure(name, of(above) / of(below), bound, False, spread, paper)


def _seconds(runs: Runs, rows: int, small: int) -> float:
    return latency_ms(runs) / 1e3 if rows == small else rows / rate(runs)


def _of(by_rows: Mapping[Any, list[float]], rows: int) -> list[float]:
    return by_rows[rows] if rows in by_rows else by_rows[str(rows)]
