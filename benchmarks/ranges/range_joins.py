"""Range joins in Spark: a prepared table and Spark's own joins."""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from pyspark.sql import DataFrame

import bsjoin
from benchmarks.data.ranges import Case, cases, stored
from benchmarks.harness.outcome import Context, Figure, Outcome, Table
from benchmarks.harness.spark import PYTHON, Join, consume, fingerprint, in_memory, in_runtimes
from benchmarks.harness.timing import check_equal, ratio, time_joins, timed
from benchmarks.ranges import spark_joins

Found = dict[str, dict[str, Any]]
"""By case: ``size``, ``pairs``, ``build_s`` (of ours) and ``seconds``, by way."""

OURS = "bsjoin"
_SLOW_S = 2.0  # what takes longer needs no warm-up after its answer has been checked
_WARM_UP = 5  # until the JVM has compiled what a case runs often
_FIRST_WARM_UP = 30  # until it has compiled Spark's planner, which all cases run
_BOUNDS = {"wide band": 1.2}


def run(context: Context) -> Outcome:
    """All cases, alternately; quick: three cases of a tenth of the rows instead of fifteen."""
    listed = cases(context.quick, context.seed)
    found = {case.name: _measure(context, number, case) for number, case in enumerate(listed)}
    return compared(
        found, _figures(found),
        "bsjoin and Spark on the same rows, ms",
        "Range joins in Spark: median ms by way",
        "Rows in memory for all ways; bsjoin's table is prepared, its build time is a column.",
    )  # fmt: skip


def compared(found: Found, figures: list[Figure], title: str, head: str, note: str) -> Outcome:
    """A table, ``head``, with cases as rows and ways as columns; ``title`` is its picture's."""
    ways = dict.fromkeys(way for one in found.values() for way in one["seconds"])
    rows = []
    for case, one in found.items():
        ms = {way: statistics.median(seconds) * 1e3 for way, seconds in one["seconds"].items()}
        faster = ", ".join(way for way in ms if ms[way] < ms[OURS])
        rows.append(
            {"case": f"{case}, {one['size']}", "matches": one["pairs"], "build, s": one["build_s"]}
            | {f"{way}, ms": ms.get(way) for way in ways}
            | {"faster than ours": faster or "none"}
        )
    heads = [f"{way}, ms" for way in ways]
    table = Table.of(head, rows, note).drawn("bars", "case", *heads, title=title, yscale="log")
    return Outcome(figures, [table], measured=found)


def warm_ups(context: Context, case: int) -> int:
    """How often each way runs before a case, by its number, is measured."""
    return context.pick(0, _WARM_UP if case else _FIRST_WARM_UP)


@contextmanager
def prepared(
    context: Context, case: Case
) -> Iterator[tuple[float, dict[str, Join], DataFrame, DataFrame]]:
    """Seconds of a build, bsjoin's joins, and table and stream in Spark's memory."""
    files = zip(stored(case, context.data), (4, 2), strict=True)
    read = (context.spark.read.parquet(str(file)).repartition(parts) for file, parts in files)
    with in_memory(*read) as (table, stream):
        build = partial(bsjoin.BatchTable.build, table, on=case.on, when=case.when)
        build_s, built = timed(build)
        join = partial(built.join, on=case.on, when=case.when)
        yield build_s, in_runtimes(join, OURS), table, stream


def _measure(context: Context, number: int, case: Case) -> dict[str, Any]:
    """Seconds of every way; table and stream are persisted."""
    with (
        prepared(context, case) as (build_s, ours, table, stream),
        spark_joins.alternatives(context.spark, case, table) as theirs,
    ):
        joins = ours | theirs
        first = {
            name: timed(lambda join=join: fingerprint(join(stream), case.columns))  # type: ignore[misc]
            for name, join in joins.items()
        }
        pairs = check_equal({name: answer for name, (_, answer) in first.items()})[0]
        slow = [name for name, (seconds, _) in first.items() if seconds > _SLOW_S]
        for join in (join for name, join in joins.items() if name not in slow):
            for _ in range(warm_ups(context, number)):
                consume(join(stream))
        label = f"{case.name}, {case.size}"
        rounds = context.pick(3, 9)
        seconds = time_joins(context, label, joins, stream, rounds, warm=slow, slow_s=1.5)
    return {"size": case.size, "pairs": pairs, "build_s": build_s, "seconds": seconds}


def _figures(found: Found) -> list[Figure]:
    """Spark's join as written, and Spark's best alternative."""
    figures = []
    for name, one in found.items():
        ours, label = one["seconds"][OURS], f"{name}, {one['size']}"
        if name == "key, band":
            theirs = one["seconds"][spark_joins.WRITTEN]
            figures.append(ratio(f"{label}: {spark_joins.WRITTEN} / bsjoin", theirs, ours, 100.0))
        rivals = [s for way, s in one["seconds"].items() if way not in (OURS, PYTHON)]
        best, bound = min(rivals, key=statistics.median), _BOUNDS.get(name, 1.0)
        figures.append(ratio(f"{label}: Spark at its best / bsjoin", best, ours, bound))
    return figures
