"""What the flights example draws: who is late, and in which weather."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import pandas as pd
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as everyone calls it

mpl.use("Agg")  # draws files, needs no screen

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.colors import TwoSlopeNorm
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine

_LATE_MIN = 15  # the official limit: a flight is late from 15 minutes on

# Ages of a plane in years: the first of each group, and what the group is called.
_AGE_FROM = [0, 3, 6, 9, 12, 15, 20, 25]
_AGE_NAMES = ["0-2", "3-5", "6-8", "9-11", "12-14", "15-19", "20-24", "25 and up"]
_UNKNOWN = "not known"

# What the weather is grouped by: the column, how its unit becomes the metric one, where a group
# ends and the next begins, what the groups are called, and the title.
_WEATHER: list[tuple[str, Callable[[pd.Series], pd.Series], list[float], list[str], str]] = [
    (
        "precip",
        lambda inches: inches * 25.4,
        [0, 0.1, 1, 2.5, 5],
        ["dry", "under 1", "1 to 2.5", "2.5 to 5", "5 and up"],
        "By rain or snow, mm in the hour",
    ),
    (
        "visib",
        lambda miles: miles * 1.609,
        [0, 2, 5, 10, 16],
        ["under 2", "2 to 5", "5 to 10", "10 to 16", "16 and up"],
        "By visibility, km",
    ),
    (
        "wind_speed",
        lambda miles: miles * 1.609,
        [0, 10, 20, 30, 40],
        ["under 10", "10 to 20", "20 to 30", "30 to 40", "40 and up"],
        "By wind, km/h",
    ),
    (
        "temp",
        lambda fahrenheit: (fahrenheit - 32) / 1.8,
        [-np.inf, 0, 10, 20, 30],
        ["frost", "0 to 10", "10 to 20", "20 to 30", "30 and up"],
        "By temperature, °C",
    ),
]

_LINE = "0.65"
_DEPARTURE: dict[str, Any] = {"s": 45, "facecolor": "white", "edgecolor": "0.4", "lw": 1.5}
_ARRIVAL: dict[str, Any] = {"s": 60, "color": "#1b3a5c"}


def delays(result: DataFrame, path: Path) -> None:
    """Draw how many flights were late, by airline and by the age of the plane."""
    groups = _by_airline_and_age(result)
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
    _head(figure, f"{_range(airlines)} by airline, {_range(ages)} by age of the plane")
    (by_airline, both), (corner, by_age) = axes
    _draw_airlines(by_airline, airlines, average)
    _draw_groups(by_age, ages, average, "By age of the plane in years: % of flights late")
    # The same scale in both, so that they can be compared.
    most = _most(airlines, ages)
    by_airline.set_xlim(0, most)
    by_age.set_ylim(0, most)
    _draw_both(both, cells, average)
    corner.axis("off")
    _draw_legend(corner, average)
    _draw_note(
        corner,
        0.5,
        f"{flights:,} flights that arrived; cancelled and diverted ones\n"
        f"are not counted. Groups of fewer than {enough} flights are left out.\n"
        f"Age {_UNKNOWN}: no such tail number in the table of planes, or no\n"
        "year of building. Most are American's and Envoy's, who often\n"
        "give a fleet number instead.",
    )
    _save(figure, path)


def weather(result: DataFrame, path: Path) -> None:
    """Draw how many flights were late, by the weather in the hour before they left."""
    columns = [column for column, *_ in _WEATHER]
    counted = _count_late(result, "measured_at", *columns)
    known = counted[counted.measured_at.notna()]
    flights, missing = int(known.flights.sum()), int(counted.flights.sum() - known.flights.sum())
    enough = min(100, max(1, flights // 1000))
    average = 100 * known.arrival.sum() / max(flights, 1)
    panels = []
    for column, metric, edges, names, _ in _WEATHER:
        group = pd.cut(
            metric(known[column].astype(float)), [*edges, np.inf], right=False, labels=names
        )
        shares = _shares(known.assign(group=group.astype(object)), ["group"], enough)
        panels.append(shares.reindex(names))

    layout = ConstrainedLayoutEngine(rect=(0.01, 0.01, 0.98, 0.98), hspace=0.05, wspace=0.04)
    figure, axes = plt.subplots(
        3, 2, figsize=(14, 10), height_ratios=[2, 2, 0.5], sharey="row", layout=layout
    )
    rain, sight = panels[:2]
    _head(figure, f"{_range(rain)} by rain or snow, {_range(sight)} by visibility")
    most = _most(*panels)
    for panel, shares, (*_, title) in zip(axes.flat, panels, _WEATHER, strict=False):
        _draw_groups(panel, shares, average, f"{title}: % of flights late")
        panel.set_ylim(0, most)
    for corner in axes[2]:
        corner.axis("off")
    _draw_legend(axes[2, 0], average)
    _draw_note(
        axes[2, 1],
        1.0,
        f"The last weather at the airport that the flight left from, at most an hour old when it\n"
        f"left. {flights:,} flights that arrived; {missing:,} more have no weather of that hour.\n"
        f"Groups of fewer than {enough} flights are left out.",
    )
    _save(figure, path)


def _by_airline_and_age(result: DataFrame) -> pd.DataFrame:
    years = (F.col("year") - F.col("year_built")).alias("years")
    counted = _count_late(result, F.col("name").alias("airline"), years)
    edges = [*_AGE_FROM, np.inf]
    age = pd.cut(counted.years.astype(float), edges, right=False, labels=_AGE_NAMES)
    return counted.assign(age=age.astype(object).fillna(_UNKNOWN))


def _count_late(result: DataFrame, *by: Column | str) -> pd.DataFrame:
    """Flights that arrived, and how many were late, in each group."""
    return (
        result.where("arr_delay is not null")
        .groupBy(*by)
        .agg(
            F.count(F.lit(1)).alias("flights"),
            F.count_if(F.col("dep_delay") >= _LATE_MIN).alias("departure"),
            F.count_if(F.col("arr_delay") >= _LATE_MIN).alias("arrival"),
        )
        .toPandas()
    )


def _shares(groups: pd.DataFrame, by: list[str], enough: int) -> pd.DataFrame:
    """Percentage of late departures and arrivals; groups with too few flights are left out."""
    sums = groups.groupby(by)[["flights", "departure", "arrival"]].sum()
    sums = sums[sums.flights >= enough].astype(float)
    sums[["departure", "arrival"]] = sums[["departure", "arrival"]].div(sums.flights, axis=0) * 100
    return sums


def _range(shares: pd.DataFrame) -> str:
    return f"{shares.arrival.min():.0f} to {shares.arrival.max():.0f} %"


def _most(*shares: pd.DataFrame) -> float:
    """Where an axis for all of these ends."""
    tops = pd.concat(shares)[["departure", "arrival"]].max()
    return max(1.0, 1.1 * float(tops.max()))


def _head(figure: Figure, text: str) -> None:
    figure.suptitle(
        f"Late flights from New York in 2013: {text}",
        fontsize=16,
        fontweight="bold",
        x=0.01,
        ha="left",
    )


def _save(figure: Figure, path: Path) -> None:
    figure.savefig(path, dpi=130, bbox_inches="tight", pad_inches=0.25)
    plt.close(figure)


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


def _draw_groups(axes: Axes, groups: pd.DataFrame, average: float, title: str) -> None:
    places = np.arange(len(groups))
    axes.vlines(places, groups.departure, groups.arrival, color=_LINE, lw=3, zorder=1)
    axes.scatter(places, groups.departure, **_DEPARTURE)
    axes.scatter(places, groups.arrival, **_ARRIVAL)
    axes.axhline(average, color=_LINE, lw=1, ls="--", zorder=0)
    names = [f"{name}\n{n:,.0f}\nflights" for name, n in groups.flights.fillna(0).items()]
    axes.set_xticks(places, names, fontsize=9)
    axes.set_xlim(-0.5, len(groups) - 0.5)
    axes.yaxis.set_major_formatter("{x:.0f} %")
    axes.set_title(title, loc="left", fontweight="bold")
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


def _draw_legend(axes: Axes, average: float) -> None:
    axes.scatter([], [], label=f"departed {_LATE_MIN} minutes late or more", **_DEPARTURE)
    axes.scatter([], [], label=f"arrived {_LATE_MIN} minutes late or more", **_ARRIVAL)
    axes.plot([], [], color=_LINE, lw=1.5, ls="--", label=f"average on arrival, {average:.0f} %")
    axes.legend(loc="upper left", frameon=False, borderaxespad=0, bbox_to_anchor=(0, 1.05))


def _draw_note(axes: Axes, top: float, text: str) -> None:
    axes.text(
        0.02,
        top,
        text,
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
