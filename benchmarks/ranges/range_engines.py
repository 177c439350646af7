"""Range joins in Spark against DuckDB and Polars: large sides, sums of all pairs."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

import bsjoin
from benchmarks.data.ranges import HOUR_S, Case, stored
from benchmarks.harness.outcome import Context, Figure, Outcome
from benchmarks.harness.spark import Join, in_runtime
from benchmarks.harness.timing import alternate, check_equal, ratio
from benchmarks.ranges import spark_joins
from benchmarks.ranges.comparison import Found, compared, timed, warm_ups
from benchmarks.ranges.engines import ENGINES, Engine
from benchmarks.ranges.range_joins import in_memory

OURS, PYTHON = "bsjoin", "bsjoin, Python"
_BOUNDS = {
    ("key, band", "DuckDB"): 5.0,
    ("band", "DuckDB"): 1.0,
    ("band", spark_joins.JOIN): 1_000.0,
}
_THREADS = 2
_SAMPLE = 1_000  # rows of the stream of Spark's own join without a key, which tries all pairs


def cases(quick: bool, seed: int) -> list[Case]:
    """A band with a key, one without, which has 93 pairs a row (not quick), and a long as-of."""
    less = 10 if quick else 1
    rows = 2_000_000 // less
    band = {"kind": "band", "rows": rows, "probes": 100_000 // less, "seed": seed}
    wide = [] if quick else [Case(name="band", width_s=60, **band)]  # type: ignore[arg-type]
    return [
        Case(name="key, band", keys=1_500, width_s=HOUR_S, **band),  # type: ignore[arg-type]
        *wide,
        Case(name="as-of", kind="asof", rows=rows, probes=5_000_000 // less, seed=seed),
    ]


def run(context: Context) -> Outcome:
    """Measure; quick: a tenth of the rows, two cases."""
    with ExitStack() as processes:
        engines = {name: processes.enter_context(Engine(name, _THREADS)) for name in ENGINES}
        listed = cases(context.quick, context.seed)
        found: Found = {
            case.name: _measure(context, number, case, engines)
            for number, case in enumerate(listed)
        }
    return compared(
        found, OURS, _figures(found, quick=context.quick),
        "DuckDB and Polars on the same rows: time over that of bsjoin in Spark",
        "Range joins in Spark, DuckDB and Polars: median ms by way",
        f"Sums over all pairs; {_THREADS} threads each. Spark's own join without a key is "
        f"extrapolated from {_SAMPLE:,} rows of the stream.",
    )  # fmt: skip


def _measure(
    context: Context, number: int, case: Case, engines: dict[str, Engine]
) -> dict[str, Any]:
    """Seconds of every way, alternately; all must find the same number of pairs and sums."""
    files = stored(case, context.data)
    table, stream = in_memory(context.spark, files[0], 4), in_memory(context.spark, files[1], 2)
    build_s, built = timed(lambda: bsjoin.BatchTable.build(table, on=case.on, when=case.when))

    def ours(some: DataFrame) -> DataFrame:
        return built.join(some, case.on, when=case.when)

    ways: dict[str, Callable[[], tuple[float, tuple[int, ...]]]] = {
        OURS: partial(_summed, in_runtime("jvm", ours), stream),
        PYTHON: partial(_summed, in_runtime("python", ours), stream),
    }
    for name, engine in engines.items():
        engine.load(case, summed=True)
        ways[name] = engine.run
    pairs = check_equal({name: way()[1] for name, way in ways.items()})[0]
    for _ in range(warm_ups(number, quick=context.quick)):
        ways[OURS]()
    say = lambda line: context.say(f"  {case.name}, {case.size}  {line}")  # noqa: E731
    runs = {name: lambda way=way: way()[0] for name, way in ways.items()}  # type: ignore[misc]
    seconds = alternate(runs, context.pick(3, 5), warm=ways, slow_s=3.0, say=say)
    if case.kind == "band" and not case.keys:
        few = stream.limit(_SAMPLE).persist()
        theirs, _ = _summed(partial(spark_joins.spark_join, case, table), few)
        seconds[spark_joins.JOIN] = [theirs * case.probes / _SAMPLE]
        few.unpersist()
    for df in (table, stream):
        df.unpersist(blocking=True)
    return {"size": case.size, "pairs": pairs, "build_s": build_s, "seconds": seconds}


def _summed(join: Join, stream: DataFrame) -> tuple[float, tuple[int, ...]]:
    """Seconds of a join, from its call on; the number of pairs, and sums of their columns."""
    sums = (F.count(F.lit(1)), F.sum("id"), F.sum("v"))
    seconds, row = timed(lambda: join(stream).agg(*sums).first())
    assert row is not None
    return seconds, tuple(int(value) for value in row)


def _figures(found: Found, *, quick: bool) -> list[Figure]:
    """DuckDB for the bands, the better of both for as-of; quick sizes are a query's fixed cost."""
    figures = []
    for name, one in found.items():
        seconds, label = one["seconds"], f"{name}, {one['size']}"
        bounds: dict[str, float | None] = {
            way: None if quick else _BOUNDS[name, way] for way in seconds if (name, way) in _BOUNDS
        }
        if name == "as-of":
            best = min(ENGINES, key=lambda engine: statistics.median(seconds[engine]))
            bounds[best] = None if quick else 1.0
        figures += [
            ratio(f"{label}: {way} / bsjoin", seconds[way], seconds[OURS], bound)
            for way, bound in (bounds | {PYTHON: None}).items()
        ]
    return figures
