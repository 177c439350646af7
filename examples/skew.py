"""Clicks as a stream, a few users making most of them: the load of the partitions, evened out.

At any time almost three of ten clicks are one user's, and in the middle of the day it becomes
another. The stream is joined with the table of users under `partition=HotSpot(...)`; the picture
shows the rows of each partition in every micro-batch, and the skew measure DS.

    python examples/skew.py [--out FOLDER] [--clicks ROWS]

Needs the `examples` extra (`pip install "bsjoin[examples]"`), Java, and no network.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import _support
import flights as demo
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from pyspark.sql import DataFrame

import bsjoin

_USERS, _PARTITIONS, _CYCLES = 50_000, 8, 12


def main() -> None:
    """Make users and clicks, join them, show how the rows were distributed."""
    options = arguments()
    out = _support.fresh_folder(options.out)
    clicks = make_clicks(np.random.default_rng(1), options.clicks)
    users = pd.DataFrame({"user": np.arange(_USERS)})
    users["country"] = np.array(["AT", "BR", "CI", "DK"])[users.user % 4]
    _support.write_parquet(users, out / "users")
    _support.write_parquet(clicks, out / "clicks", -(-len(clicks) // _CYCLES))
    print(f"{len(clicks):,} clicks of {clicks.user.nunique():,} users. Starting Spark …")
    spark = demo.start_spark("skew")
    try:
        stream = demo.read_stream(spark, out / "clicks")
        query = _support.run(join(stream, spark.read.parquet(str(out / "users"))), out)
        query.awaitTermination()
        _support.speed(query, "clicks")
        cycles = [cycle.partition for cycle in bsjoin.progress(query) if cycle.rows_in]
        table(cycles)
        picture(cycles, out / "load.png")
        result = spark.read.parquet(str(out / "result"))
        right = check(clicks, users, result)
    finally:
        _support.stop(spark)
    print(f"\nResult:  {out / 'result'}\nPicture: {out / 'load.png'}")
    sys.exit(0 if right else 1)


def join(clicks: DataFrame, users: DataFrame) -> DataFrame:
    """Join each click with its user; the rows go to partitions that are evenly loaded."""
    return bsjoin.join(clicks, users, on="user", partition=bsjoin.HotSpot(partitions=_PARTITIONS))


def make_clicks(random: np.random.Generator, rows: int) -> pd.DataFrame:
    """Clicks in their order: Zipf's law, and other users on top from the middle on."""
    rank = random.zipf(1.35, rows) % _USERS
    later = np.arange(rows) >= rows // 2
    user = (rank * 7919 + np.where(later, 13_001, 0)) % _USERS
    return pd.DataFrame({"click": np.arange(rows), "user": user})


def table(cycles: Sequence[bsjoin.PartitionProgress]) -> None:
    """Print what progress says of each micro-batch."""
    print(f"\n{'micro-batch':<13}{'rule':>5}{'DS':>8}{'by hash':>9}   hottest users")
    for number, cycle in enumerate(cycles):
        hottest = ", ".join(f"{user} ({share:.0%})" for user, share in cycle.hottest[:3])
        print(
            f"{number:<13}{cycle.rule_version:>5}{cycle.skew:>8.3f}{cycle.skew_by_hash:>9.3f}"
            f"   {hottest}"
        )


def picture(cycles: Sequence[bsjoin.PartitionProgress], path: Path) -> None:
    """Draw the rows of each partition over their mean, and DS, micro-batch by micro-batch."""
    loads = np.array([np.array(cycle.rows) / np.mean(cycle.rows) for cycle in cycles])
    numbers = np.arange(len(cycles))
    figure, (upper, lower) = plt.subplots(
        2, 1, figsize=(10, 7), height_ratios=[2, 1], sharex=True, layout="constrained"
    )
    wide = 0.8 / _PARTITIONS
    order = np.sort(loads, axis=1)[:, ::-1]
    for place in range(_PARTITIONS):
        left = numbers - 0.4 + wide * (place + 0.5)
        colors = ["#c8553d" if load > 1.2 else "#1b3a5c" for load in order[:, place]]
        upper.bar(left, order[:, place], 0.9 * wide, color=colors)
    upper.axhline(1, color="0.6", lw=1, ls="--")
    upper.set_ylabel("rows / mean of the partitions")
    upper.set_title(
        f"Rows of each of {_PARTITIONS} partitions, the fullest first (red: more than 1.2 times "
        "the mean)",
        loc="left",
        fontweight="bold",
    )
    lower.plot(numbers, [cycle.skew_by_hash for cycle in cycles], color="0.6", marker="o")
    lower.plot(numbers, [cycle.skew for cycle in cycles], color="#1b3a5c", marker="o", lw=2.5)
    lower.annotate(
        "by hash",
        (numbers[-1], cycles[-1].skew_by_hash),
        xytext=(8, 0),
        textcoords="offset points",
        va="center",
        color="0.4",
    )
    lower.annotate(
        "HotSpot",
        (numbers[-1], cycles[-1].skew),
        xytext=(8, 0),
        textcoords="offset points",
        va="center",
        color="#1b3a5c",
    )
    changes = [n for n in numbers[1:] if cycles[n].rule_version != cycles[n - 1].rule_version]
    for number in changes:
        lower.axvline(number - 0.5, color="#c8553d", lw=1, ls=":")
        lower.annotate(
            f"rule {cycles[number].rule_version}",
            (number - 0.45, 0.5),
            color="#c8553d",
            xycoords=("data", "axes fraction"),
            fontsize=9,
        )
    lower.set(xlabel="micro-batch", ylabel="DS", ylim=(0, None), xticks=numbers)
    for axes in (upper, lower):
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(axis="y", color="0.92")
        axes.set_axisbelow(True)
    figure.savefig(path, dpi=130)
    plt.close(figure)


def check(clicks: pd.DataFrame, users: pd.DataFrame, result: DataFrame) -> bool:
    """Hold the result against pandas."""
    expected = clicks.merge(users, on="user").groupby("country").size()
    found = {row["country"]: row["count"] for row in result.groupBy("country").count().collect()}
    return _support.checks(
        {f"clicks from {name}": (int(n), found.get(name, 0)) for name, n in expected.items()}
    )


def arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("out/skew"))
    parser.add_argument("--clicks", type=_support.positive, default=1_200_000)
    return parser.parse_args()


if __name__ == "__main__":
    _support.program(main)
