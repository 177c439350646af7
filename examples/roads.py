"""Which roads are congested just now, and which turn holds them up?

The vehicles of a made-up city report how long they took for a road and for the turn at its end:
100,000 reports, a stream. What is usual depends on the time of the day, so each report meets the
measurements of the last days, ten minutes earlier to ten minutes later: a range join. Two queries
run at the same time; six tables are joined.

    roads        on the road                                      its name, length and limit
    road_times   on the road, when the slice of the day is near   Band: 15 measurements a report
    turns        on the turn                                      its crossing, left or right
    signals      on the crossing and the kind of turn,            Within: the signal's programme
                 when its programme runs
    turn_times   on the turn, when the slice is near              Band
    crossings    on the crossing                                  its name

The result is compared with numpy, and against the jams that the city was made with.

    python examples/roads.py [--out FOLDER] [--reports ROWS] [--side CROSSINGS] [--days DAYS]

Needs the `examples` extra (`pip install "bsjoin[examples]"`), Java, and no network. The query is
that of the BS-Join paper, section 6.3; `road_data.py` makes the data.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

import _support
import flights as demo
import numpy as np
import pandas as pd
import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as everyone calls it
from pyspark.sql.streaming import StreamingQuery
from road_data import MINUTES_PER_SLICE, SLICES, City

import bsjoin

_CONGESTED = 1.5  # times as long as usual
_ENOUGH = 5  # vehicles of a slice, before they are believed
_REPORTS_PER_FILE = 20_000


def main() -> None:
    """Make a city, replay what its vehicles report, say where they stand."""
    options = arguments()
    out = _support.fresh_folder(options.out)
    city = City(options.side, options.days)
    data, reports = city.tables(), city.reports(options.reports)
    for name, table in data.items():
        _support.write_parquet(table, out / "tables" / name)
    _support.write_parquet(reports, out / "reports", _REPORTS_PER_FILE)
    print(f"{city.roads:,} roads, {city.turns:,} turns, {len(reports):,} reports are in {out}.")
    spark = demo.start_spark("roads")
    try:
        tables = {name: spark.read.parquet(str(out / "tables" / name)) for name in data}
        stream = demo.read_stream(spark, out / "reports").withColumn("slice", slice_of("at"))
        began = time.perf_counter()
        joined = {
            "roads": by_road(join_roads(stream, tables)),
            "turns": by_turn(join_turns(stream, tables)),
        }
        rows = sum(table.num_rows for table in data.values())
        print(f"Indexed {len(data)} tables, {rows:,} rows, in {time.perf_counter() - began:.1f} s.")
        queries = [start(result, name, out) for name, result in joined.items()]
        for query in queries:
            query.awaitTermination()
            print(f"\nThe {query.name}:", end="")
            _support.speed(query, "reports")
            joins(query)
        found: dict[str, pd.DataFrame] = {name: spark.table(name).toPandas() for name in joined}
    finally:
        _support.stop(spark)
    congested = found["roads"].query(f"vehicles >= {_ENOUGH} and slower >= {_CONGESTED}")
    show(congested, found["turns"])
    sys.exit(0 if check(city, data, reports, found, congested) else 1)


def join_roads(reports: DataFrame, tables: dict[str, DataFrame]) -> DataFrame:
    """Each report with the measurements of its road at this time of the day."""
    # A range join carries the stream's rows along, here fifteen times: only what is needed.
    needed = reports.select("road", "slice", "travel_ms")
    named = bsjoin.join(needed, tables["roads"], on="road")
    # Both sides have a `slice` and a `travel_ms`: the table's get a suffix.
    return bsjoin.join(
        named,
        tables["road_times"],
        on="road",
        when=bsjoin.Band("slice", "slice", before=1, after=1),
        suffix="_usual",
    )


def join_turns(reports: DataFrame, tables: dict[str, DataFrame]) -> DataFrame:
    """Each report with its signal's programme, and the measurements of its turn."""
    needed = reports.select("road", "turn", "at", "slice", "pass_ms", "stopped_ms", "queue_m")
    turning = bsjoin.join(needed, tables["turns"], on="turn")
    at_crossing = bsjoin.join(turning, tables["crossings"], on="crossing")
    # The last programme of a day ends nowhere: its `until_minute` is null.
    signalled = bsjoin.join(
        at_crossing.withColumn("minute", minute_of("at")),
        tables["signals"],
        on=["crossing", "kind"],
        when=bsjoin.Within("minute", "from_minute", "until_minute"),
        select=["cycle_s", "green_s"],
    )
    return bsjoin.join(
        signalled.drop("at", "minute", "crossing"),
        tables["turn_times"],
        on="turn",
        when=bsjoin.Band("slice", "slice", before=1, after=1),
        suffix="_usual",
    )


def minute_of(column: str) -> Column:
    """The minute of the day."""
    return F.hour(column) * 60 + F.minute(column)


def slice_of(column: str) -> Column:
    """The slice of the day: ten minutes each."""
    return F.floor(minute_of(column) / MINUTES_PER_SLICE).cast("int")


def once() -> Column:
    """One row of each report: it is there as often as there are measurements near its slice."""
    return (F.col("slice") == F.col("slice_usual")) & (F.col("day") == 0)


def by_road(joined: DataFrame) -> DataFrame:
    """How many times as long as usual the vehicles took, by road and slice."""
    return joined.groupBy("road", "name", "limit_kmh", "slice").agg(
        F.count_if(once()).alias("vehicles"),
        F.count(F.lit(1)).alias("pairs"),
        F.sum("travel_ms_usual").alias("usual_ms"),
        (F.sum("travel_ms") / F.sum("travel_ms_usual")).alias("slower"),
        (3600 * F.sum("length_m") / F.sum("travel_ms")).alias("kmh"),
    )


def by_turn(joined: DataFrame) -> DataFrame:
    """What a turn costs: the delay, the time that vehicles stand, and how far they queue."""
    missed = F.col("stopped_ms") > 1000 * (F.col("cycle_s") - F.col("green_s"))
    return joined.groupBy("turn", "name", "kind", "road").agg(
        F.count_if(once()).alias("vehicles"),
        F.count(F.lit(1)).alias("pairs"),
        F.sum("pass_ms_usual").alias("usual_ms"),
        F.count_if(once() & missed).alias("missed"),
        (F.avg(F.col("pass_ms") - F.col("pass_ms_usual")) / 1000).alias("delay_s"),
        (F.avg("stopped_ms") / 1000).alias("stopped_s"),
        F.max("queue_m").alias("queue_m"),
    )


def start(result: DataFrame, name: str, out: Path) -> StreamingQuery:
    """Keep the result in memory, as a table of this name that each micro-batch renews."""
    return (
        result.writeStream.format("memory")
        .queryName(name)
        .outputMode("complete")
        .option("checkpointLocation", str(out / "checkpoints" / name))
        .trigger(availableNow=True)
        .start()
    )


def joins(query: StreamingQuery) -> None:
    """Print what each join made of the reports."""
    cycles = pd.DataFrame([vars(cycle) for cycle in bsjoin.progress(query)])
    sums = cycles.groupby(["join", "on"])[["rows_in", "hits", "rows_out"]].sum()
    print(f"  {'join on':<26}{'rows in':>12}{'found':>12}{'rows out':>12}")
    for (_, on), row in sums.iterrows():
        counts = "".join(f"{int(row[name]):>12,}" for name in ("rows_in", "hits", "rows_out"))
        print(f"  {', '.join(on):<26}{counts}")


def show(congested: pd.DataFrame, turns: pd.DataFrame) -> None:
    """Print the congested roads, each with the turn that costs its vehicles most."""
    print(
        f"\nCongested (at least {_CONGESTED} times as long as usual), and the worst turn there:\n"
        f"{'road':<12}{'from':>6}{'until':>7}{'vehicles':>10}{'km/h':>6}{'limit':>7}{'times':>7}"
        f"   {'turn':<16}{'delay':>7}{'standing':>10}{'queue':>8}{'missed a green':>16}"
    )
    if congested.empty:
        print("none")
    worst = turns.sort_values("delay_s").groupby("road").last()
    for road, slices in congested.groupby("road"):
        turn = worst.loc[road]
        place = f"{turn.kind} at {turn['name']}"
        peak = slices.loc[slices.slower.idxmax()]
        print(
            f"{peak['name']:<12}{clock(slices.slice.min()):>6}{clock(slices.slice.max() + 1):>7}"
            f"{slices.vehicles.sum():>10,}{peak.kmh:>6.0f}{peak.limit_kmh:>7}{peak.slower:>7.1f}"
            f"   {place:<16}{turn.delay_s:>5.0f} s{turn.stopped_s:>8.0f} s{turn.queue_m:>6} m"
            f"{turn.missed / turn.vehicles:>16.0%}"
        )


def clock(slice_of_day: int) -> str:
    """When a slice begins."""
    return "{}:{:02}".format(*divmod(int(slice_of_day) * MINUTES_PER_SLICE, 60))


def check(
    city: City,
    data: dict[str, pa.Table],
    reports: pa.Table,
    found: dict[str, pd.DataFrame],
    congested: pd.DataFrame,
) -> bool:
    """Hold the results against numpy: sums over the slices of a day need no join."""
    road, turn, travel, stopped = (
        reports[name].to_numpy() for name in ("road", "turn", "travel_ms", "stopped_ms")
    )
    minutes = reports["at"].to_numpy().astype("datetime64[m]").astype(np.int64) % (24 * 60)
    slices = minutes // MINUTES_PER_SLICE
    groups = road * SLICES + slices
    size = city.roads * SLICES

    usual, measured = near(data["road_times"], "road", "travel_ms", city.roads)
    vehicles = np.bincount(groups, minlength=size)
    took = np.bincount(groups, travel * measured[road, slices], size)
    slower = took / np.maximum(usual.ravel() * vehicles, 1)
    jammed = set(np.flatnonzero((vehicles >= _ENOUGH) & (slower >= _CONGESTED)).tolist())
    ours = set((congested.road * SLICES + congested.slice).tolist())

    usual_turn, measured_turn = near(data["turn_times"], "turn", "pass_ms", city.turns)
    signals = data["signals"].to_pandas().fillna({"until_minute": np.inf})
    kinds = data["turns"].to_pandas().set_index("turn").loc[turn].reset_index(drop=True)
    programmes = kinds.assign(minute=minutes, stopped=stopped).merge(
        signals, on=["crossing", "kind"]
    )
    programmes = programmes.query("from_minute <= minute < until_minute")
    missed = programmes.stopped > 1000 * (programmes.cycle_s - programmes.green_s)

    roads, turns = found["roads"], found["turns"]
    right = _support.checks(
        {
            "reports with their road": (len(reports), int(roads.vehicles.sum())),
            "pairs of report and road time": (
                int(measured[road, slices].sum()),
                int(roads.pairs.sum()),
            ),
            "usual road times of these, ms": (
                int(usual[road, slices].sum()),
                int(roads.usual_ms.sum()),
            ),
            "congested roads and slices": (len(jammed), len(ours)),
            "of these, the same": (len(jammed), len(jammed & ours)),
            "reports with their signal's programme": (len(programmes), int(turns.vehicles.sum())),
            "vehicles that missed a green": (int(missed.sum()), int(turns.missed.sum())),
            "pairs of report and turn time": (
                int(measured_turn[turn, slices].sum()),
                int(turns.pairs.sum()),
            ),
            "usual turn times of these, ms": (
                int(usual_turn[turn, slices].sum()),
                int(turns.usual_ms.sum()),
            ),
        },
        "numpy",
    )
    blocked = set(city.turn_road[city.jam_turn[: city.jams]].tolist())
    seen = set(congested.road.tolist())
    print(
        f"The city was made with {len(blocked)} jams: {len(blocked & seen)} of them are among the "
        f"congested roads, and {len(seen - blocked)} other roads."
    )
    return right


def near(times: pa.Table, key: str, value: str, keys: int) -> tuple[np.ndarray, np.ndarray]:
    """Sum and number of the measurements of a slice and its neighbours, by key and slice."""
    cells = times[key].to_numpy() * SLICES + times["slice"].to_numpy()
    sums = np.bincount(cells, times[value].to_numpy(), keys * SLICES).reshape(keys, SLICES)
    counts = np.bincount(cells, minlength=keys * SLICES).reshape(keys, SLICES)
    wide = [np.pad(array, ((0, 0), (1, 1))) for array in (sums, counts)]
    total, number = (array[:, :-2] + array[:, 1:-1] + array[:, 2:] for array in wide)
    return total, number


def arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--out", type=Path, default=Path("out/roads"), metavar="FOLDER")
    parser.add_argument("--reports", type=_support.positive, default=100_000, metavar="ROWS")
    parser.add_argument("--side", type=_support.positive, default=10, metavar="CROSSINGS")
    parser.add_argument("--days", type=_support.positive, default=5)
    return parser.parse_args()


if __name__ == "__main__":
    _support.program(main)
