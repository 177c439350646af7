"""From what was measured to the figures that were promised."""

from __future__ import annotations

import statistics
from pathlib import Path
from typing import Any

from benchmarks.harness.outcome import Figure

__all__ = ["figures", "printed"]


def figures(measured: dict[str, Any], sizes: list[int], rows: int) -> list[Figure]:
    """The figures of section 6 of the design that the full cache has to reach."""
    found: list[Figure] = []
    small, large = sizes[0], sizes[-1]
    if times := measured.get("latency"):
        ms = {w: {s: statistics.median(v) for s, v in d.items()} for w, d in times.items()}
        ours, native = ms["bsjoin"], ms["Spark, AQE on"]
        identity = ms["identity arrow_udf"]
        found += [
            Figure(
                f"addBatch, bsjoin / identity arrow_udf, {large:,} rows",
                ours[large] / identity[large],
                1.25,
                True,
            ),
            Figure(
                f"addBatch, bsjoin {large:,} / {small:,} rows",
                ours[large] / ours[small],
                1.15,
                True,
            ),
            Figure(
                f"addBatch, Spark AQE on / bsjoin, {large:,} rows",
                native[large] / ours[large],
                5.0,
                False,
            ),
            Figure(
                f"addBatch, Spark AQE on / bsjoin, {small:,} rows",
                native[small] / ours[small],
                1.0,
                False,
            ),
        ]
    for size, ways in (measured.get("throughput") or {}).items():
        found.append(
            _paired(
                f"rows/s, bsjoin / identity arrow_udf, {rows:,} rows, table of {size:,}",
                ways["identity arrow_udf"],
                ways["bsjoin"],
                0.85,
                False,
            )
        )
    if kept := measured.get("memory"):
        extra = statistics.median(kept["private_bytes"]) - statistics.median(kept["idle_bytes"])
        found.append(
            Figure(
                f"memory of one more worker / table, {rows:,} rows",
                extra / kept["table_bytes"],
                0.05,
                True,
            )
        )
    if built := measured.get("building"):
        found.append(
            _paired(
                f"building / Spark's sort and Parquet, {rows:,} rows",
                built["bsjoin"],
                built["Spark sort and Parquet"],
                2.0,
                True,
            )
        )
    return found


def _paired(
    name: str, above: list[float], below: list[float], bound: float, at_most: bool
) -> Figure:
    """The median over rounds of the ratio inside a round."""
    ratios = [a / b for a, b in zip(above, below, strict=True)]
    spread = (min(ratios), max(ratios))
    return Figure(name, statistics.median(ratios), bound, at_most, spread)


def printed(results: list[Figure], out: Path) -> str:
    """The figures as a table for the screen."""
    lines = ["", f"{'figure':<72} {'is':>7} {'to be':>8}"]
    for figure in results:
        sign = "<=" if figure.at_most else ">="
        verdict = "" if figure.reached else "   missed"
        spread = f"   ({figure.spread[0]:.2f} to {figure.spread[1]:.2f})" if figure.spread else ""
        lines.append(
            f"{figure.name:<72} {figure.value:7.2f} {sign} {figure.bound:5.2f}{spread}{verdict}"
        )
    return "\n".join([*lines, "", f"The record and the picture are in {out}."])
