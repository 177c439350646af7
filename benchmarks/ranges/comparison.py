"""Figures, tables and pictures of range joins: ours and the alternatives, case by case."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks import charts
from benchmarks.data.ranges import Case
from benchmarks.harness.outcome import Table
from benchmarks.harness.timing import in_ms

Found = dict[str, dict[str, Any]]
"""By case: ``size``, ``pairs``, ``build_s`` (of ours) and ``seconds``, by way."""

_MARKS = {
    "Spark as written": ("#8fb8d3", "s"),
    "Spark": (charts.SPARK, "o"),
    "Spark, bins": (charts.GREEN, "D"),
    "Spark's as-of": ("#7b4fa0", "^"),
    "Spark, window": ("#c9a227", "v"),
    "DuckDB, 2 threads": ("#c9a227", "o"),
    "DuckDB, 1 thread": ("#e8d48a", "o"),
    "Polars, 2 threads": (charts.SPARK, "s"),
    "Polars, 1 thread": ("#8fb8d3", "s"),
}


def best_rival(one: dict[str, Any], ours: str) -> list[float]:
    """The seconds of the fastest alternative."""
    rivals = [seconds for way, seconds in one["seconds"].items() if way != ours]
    return min(rivals, key=statistics.median)


def say_case(case: Case, one: dict[str, Any], ours: str, say: Callable[[str], None]) -> None:
    """Print the times of one case, way by way."""
    say(f"  {case.name}, {case.size}: {one['pairs']:,} matches; built in {one['build_s']:.2f} s")
    mine = statistics.median(one["seconds"][ours])
    for name, seconds in one["seconds"].items():
        say(f"    {name:<18} {in_ms(seconds)}   x {statistics.median(seconds) / mine:.2f}")


def table_of(title: str, found: Found, ours: str, note: str) -> Table:
    """Cases as rows, ways as columns, and which are faster than ours."""
    ways = dict.fromkeys(way for one in found.values() for way in one["seconds"])
    rows = []
    for name, one in found.items():
        ms = {way: statistics.median(seconds) * 1e3 for way, seconds in one["seconds"].items()}
        faster = ", ".join(way for way in ms if ms[way] < ms[ours])
        rows.append(
            {"case": f"{name}, {one['size']}", "matches": one["pairs"], "build, s": one["build_s"]}
            | {f"{way}, ms": ms.get(way) for way in ways}
            | {"faster than ours": faster or "none"}
        )
    return Table.of(title, rows, note)


def draw(found: Found, ours: str, title: str, file: Path) -> None:
    """Every alternative's time as a multiple of ours, a row per case."""
    names = list(found)[::-1]
    with charts.panels(file, (9, 1.6 + 0.55 * len(found))) as (axes,):
        for way, (color, mark) in _MARKS.items():
            ratios = {
                statistics.median(found[name]["seconds"][way])
                / statistics.median(found[name]["seconds"][ours]): place
                for place, name in enumerate(names)
                if way in found[name]["seconds"]
            }
            if ratios:
                axes.plot(
                    list(ratios), list(ratios.values()), mark,
                    color=color, ms=8, label=way, mec="white", mew=0.5,
                )  # fmt: skip
        axes.axvline(1, color=charts.OURS, lw=1.5)
        axes.set_yticks(range(len(names)), [f"{n}\n{found[n]['size']}" for n in names], fontsize=8)
        charts.finish(
            axes,
            title,
            grid="x",
            legend=False,
            xscale="log",
            xlabel="times as long as bsjoin (left of 1: the alternative is faster)",
        )
        low, high = min(axes.get_xlim()[0], 0.8), axes.get_xlim()[1]
        axes.set_xlim(low, high)
        axes.axvspan(low, 1, color=charts.OURS, alpha=0.06, lw=0)
        charts.log_ticks(axes)
        axes.figure.legend(frameon=False, fontsize=8, loc="outside lower center", ncols=5)
