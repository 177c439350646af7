"""Range joins in Spark: a ready table against Spark's own ways, on the same rows."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

import bsjoin
from benchmarks.data.ranges import Case, stored
from benchmarks.harness.outcome import Figure
from benchmarks.harness.session import timed_s
from benchmarks.harness.turns import in_turns, over, shown
from benchmarks.ranges.rivals import WRITTEN, rivals

__all__ = ["OURS", "check", "figures", "kept", "measure"]

OURS = "bsjoin"
_PATIENCE_S = 2.0  # what takes longer is warm enough after it has been checked


def measure(spark: SparkSession, listed: list[Case], folder: Path, rounds: int) -> dict[str, Any]:
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
                    lambda: _consume(join(stream))
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
        _say(case, found[case.name])
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
                {name: _fingerprint(join(stream), case.columns)}
            )
        )
        for name, join in joins.items()
    }
    if len(set(answers.values())) != 1:
        raise AssertionError(f"{case.name}: the joins answer differently: {answers}")
    return spent, answers[OURS][0]


def _consume(df: DataFrame) -> None:
    df.write.format("noop").mode("overwrite").save()


def _fingerprint(df: DataFrame, columns: list[str]) -> tuple[int, int]:
    """Number of rows, and a sum over the hashes of all rows: the same for the same multiset."""
    hashed = F.xxhash64(*columns).cast("decimal(38,0)")
    row = df.agg(F.count(F.lit(1)), F.sum(hashed)).first()
    assert row is not None
    return row[0], int(row[1] or 0)


def _say(case: Case, one: dict[str, Any]) -> None:
    print(f"  {case.name}, {case.size}: {one['pairs']:,} rows; built in {one['build_s']:.1f} s")
    ours = statistics.median(one["seconds"][OURS])
    for name, seconds in one["seconds"].items():
        ratio = statistics.median(seconds) / ours
        slower = "   faster than bsjoin" if ratio < 1 else ""
        print(f"    {name:<18} {shown(seconds)}   x {ratio:.2f}{slower}", flush=True)


def figures(measured: dict[str, Any]) -> list[Figure]:
    """The figures of section 6 of the design: Spark's plan, and Spark at its best."""
    found = []
    for name, one in measured.items():
        seconds = dict(one["seconds"])
        ours = seconds.pop(OURS)
        label = f"{name}, {one['size']}"
        if name == "key, band":
            found.append(over(f"{label}: {WRITTEN} / bsjoin", seconds[WRITTEN], ours, 50.0))
        best = min(seconds, key=lambda way: statistics.median(seconds[way]))
        found.append(over(f"{label}: {best} / bsjoin", seconds[best], ours, 1.0))
    return found
