"""Range joins in Spark: a ready table against Spark's own ways, on the same rows."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

import bsjoin
from benchmarks.data.ranges import MATCHING, Case, cases, stored
from benchmarks.harness.frames import consume, fingerprint
from benchmarks.harness.outcome import Context, Figure, Outcome, Table
from benchmarks.harness.session import timed_s
from benchmarks.harness.turns import in_turns, over, shown
from benchmarks.ranges.picture import draw_rivals
from benchmarks.ranges.rivals import WRITTEN, rivals

__all__ = ["OURS", "check", "figures", "kept", "listed", "measure", "run", "table_of", "told"]

OURS = "bsjoin"
_QUICK = ("key, band", "key, as-of", "overlaps, nearly all pairs match")
_PATIENCE_S = 2.0  # what takes longer is warm enough after it has been checked


def listed(quick: bool, seed: int) -> list[Case]:
    """The cases of a size, their rows drawn with a seed."""
    if not quick:
        return cases(2_000_000, 100_000, 1_000, seed)
    return [case for case in cases(200_000, 10_000, 300, seed) if case.name in _QUICK]


def run(context: Context) -> Outcome:
    """Measure; quick: three cases of a tenth of the rows instead of fifteen."""
    context.say("A ready table in Spark against Spark's own ways")
    rounds = 3
    some = listed(context.quick, context.seed)
    found = measure(context.spark, some, context.data, rounds, say=context.say)
    picture = context.out / "range-joins.png"
    draw_rivals(found, OURS, "Spark on the same rows: its time over that of bsjoin's join", picture)
    note = "Rows in memory for all ways; bsjoin's table is ready. Seconds to build it stand apart."
    table = table_of("Range joins in Spark: median ms by way", found, OURS, note)
    return Outcome(figures(found, quick=context.quick), [table], [picture], found)


def table_of(title: str, found: dict[str, Any], ours: str, note: str) -> Table:
    """Cases as rows, ways as columns, and where ours is slower.

    Args:
        title: of the table.
        found: by case ``size``, ``pairs``, ``build_s`` and ``seconds``, by way.
        ours: the way that is held against the others.
        note: for its reader.
    """
    ways = list(dict.fromkeys([ours, *(way for one in found.values() for way in one["seconds"])]))
    rows = []
    for name, one in found.items():
        ms = {way: statistics.median(seconds) * 1e3 for way, seconds in one["seconds"].items()}
        lost = ", ".join(way for way in ms if ms[way] < ms[ours])
        rows.append(
            (
                f"{name}, {one['size']}",
                one["pairs"],
                one["build_s"],
                *(ms.get(way) for way in ways),
                lost or "none",
            )
        )
    columns = ("case", "matches", "build, s", *(f"{way}, ms" for way in ways), "faster than ours")
    return Table(title, columns, tuple(rows), note)


def measure(
    spark: SparkSession,
    listed: list[Case],
    folder: Path,
    rounds: int,
    say: Callable[[str], None] = print,
) -> dict[str, Any]:
    """Seconds of every way to carry out each case, the ways in turns.

    Table and stream are persisted, for all ways alike. A time begins with the call that makes
    the joined DataFrame and ends when a sink that keeps nothing has its rows.

    Returns:
        By case: ``size``, ``pairs``, ``build_s``, ``plan_s`` (bsjoin's call alone) and
        ``seconds``, by way.
    """
    found: dict[str, Any] = {}
    for case in listed:
        paths = stored(case, folder)
        table, stream = (
            kept(spark, path, parts) for path, parts in zip(paths, (4, 2), strict=True)
        )
        indexed: list[bsjoin.BatchTable] = []
        build_s = timed_s(
            lambda table=table, case=case, indexed=indexed: indexed.append(  # type: ignore[misc]
                bsjoin.BatchTable.build(table, on=case.on, when=case.when)
            )
        )
        with rivals(spark, case, table) as theirs:
            joins: dict[str, Callable[[DataFrame], DataFrame]] = {
                OURS: lambda stream, case=case, t=indexed[0]: t.join(  # type: ignore[misc]
                    stream, case.on, when=case.when
                ),
                **theirs,
            }
            spent, pairs = check(case, joins, stream)
            ways = {
                name: lambda join=join, stream=stream: timed_s(  # type: ignore[misc]
                    lambda: consume(join(stream))
                )
                for name, join in joins.items()
            }
            slow = [name for name, seconds in spent.items() if seconds > _PATIENCE_S]
            seconds = in_turns(ways, rounds, warm=slow)
            plan_s = [timed_s(lambda: joins[OURS](stream)) for _ in range(3)]  # noqa: B023
        for df in (table, stream):
            df.unpersist(blocking=True)
        found[case.name] = {
            "size": case.size,
            "pairs": pairs,
            "build_s": build_s,
            "plan_s": statistics.median(plan_s),
            "seconds": seconds,
        }
        told(case, found[case.name], OURS, say)
    return found


def kept(spark: SparkSession, path: Path, parts: int) -> DataFrame:
    """The rows of a file, in memory, in so many partitions."""
    df = spark.read.parquet(str(path)).repartition(parts).persist()
    df.count()
    return df


def check(
    case: Case, joins: dict[str, Callable[[DataFrame], DataFrame]], stream: DataFrame
) -> tuple[dict[str, float], int]:
    """Refuse ways that answer differently.

    Returns:
        The seconds that each took for its answer, and how many rows that has.
    """
    answers: dict[str, tuple[int, int]] = {}
    spent = {
        name: timed_s(
            lambda name=name, join=join: answers.update(  # type: ignore[misc]
                {name: fingerprint(join(stream), case.columns)}
            )
        )
        for name, join in joins.items()
    }
    if len(set(answers.values())) != 1:
        raise AssertionError(f"{case.name}: the joins answer differently: {answers}")
    return spent, answers[OURS][0]


def told(case: Case, one: dict[str, Any], ours: str, say: Callable[[str], None]) -> None:
    """Print what one case took, way by way."""
    say(f"  {case.name}, {case.size}: {one['pairs']:,} matches; built in {one['build_s']:.2f} s")
    mine = statistics.median(one["seconds"][ours])
    for name, seconds in one["seconds"].items():
        ratio = statistics.median(seconds) / mine
        slower = "   faster than bsjoin" if ratio < 1 else ""
        say(f"    {name:<18} {shown(seconds)}   x {ratio:.2f}{slower}")


def figures(measured: dict[str, Any], *, quick: bool) -> list[Figure]:
    """The figures of section 6 of the design: Spark's plan (full sizes), and Spark at its best.

    Where nearly all pairs match, quick sizes are so few rows that both take what a query takes.
    """
    found = []
    for name, one in measured.items():
        seconds = dict(one["seconds"])
        ours = seconds.pop(OURS)
        label = f"{name}, {one['size']}"
        if name == "key, band":
            bound = None if quick else 50.0
            found.append(over(f"{label}: {WRITTEN} / bsjoin", seconds[WRITTEN], ours, bound))
        best = min(seconds, key=lambda way: statistics.median(seconds[way]))
        bound = None if quick and name.endswith(MATCHING) else 1.0
        found.append(over(f"{label}: Spark at its best / bsjoin", seconds[best], ours, bound))
    return found
