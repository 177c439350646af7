"""The papers' two jobs: product recall on TPC-H, and road traffic.

*tpc*: the paper's job (section 6.2) joins a stream of consumer ids with a click record, a product
and a user attribute table; its rows are confidential. Here the tables come from TPC-H:

    clicks     the first line of every order: customer, product, when, price; 1.5 million at scale
               factor 1, ten a customer (a third of the customers have none and drop out)
    products   part: name, brand, type, container, price; 200,000
    users      customer with the nation's name: name, segment, balance; 150,000

The paper's tables have ten million rows each, and one match each; ten matches make the second and
third join ten times as large, as a recall of several candidates has to be.

*traffic*: the paper's second job: live road events are joined with six tables of a road network,
those of the example's made-up city, all by equality: time by weekday and slice of the day. Delay
and time stopped compared with the usual ones are differences of result columns.
"""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa

from benchmarks.data import tpch
from benchmarks.data.zipf import Shifting
from benchmarks.jobs.job import Job, Step
from examples.road_data import City

_RECALL = {
    "clicks": """
        SELECT o_custkey AS customer, l_orderkey AS click, l_partkey AS product,
            o_orderdate - DATE '1970-01-01' AS clicked_day,
            (l_extendedprice * 100)::BIGINT AS paid_cents,
            o_orderpriority AS priority, l_comment AS remark
        FROM 'lineitem.parquet' JOIN 'orders.parquet' ON o_orderkey = l_orderkey
        WHERE l_linenumber = 1 ORDER BY click""",
    "products": """
        SELECT p_partkey AS product, p_name AS title, p_brand AS brand, p_type AS kind,
            (p_retailprice * 100)::BIGINT AS price_cents
        FROM 'part.parquet' ORDER BY product""",
    "users": """
        SELECT c_custkey AS customer, c_name AS name, c_mktsegment AS segment, n_name AS nation,
            (c_acctbal * 100)::BIGINT AS balance_cents
        FROM 'customer.parquet' JOIN 'nation.parquet' ON n_nationkey = c_nationkey
        ORDER BY customer""",
}


_CUSTOMERS = 150_000  # per unit of the scale factor


def _recall_tables(folder: Path, scale: float) -> dict[str, pa.Table]:
    database = duckdb.connect(config={"file_search_path": str(tpch.tables(folder, scale))})
    return {name: database.sql(query).to_arrow_table() for name, query in _RECALL.items()}


def _recall_events(scale: float, rows: int, cycle: int, seed: int) -> pa.Table:
    customers = int(_CUSTOMERS * scale)
    ids = Shifting(customers, 1.04, rows, None, seed).cycle(cycle) + 1  # always the same are hot
    return pa.table({"customer": ids, "event": np.arange(rows) + cycle * 100_000_000})


_TRAFFIC = {
    "turns": "SELECT turn, road, crossing, kind AS turn_kind FROM turns",
    "roads": "SELECT road, length_m, limit_kmh, name AS road_name FROM roads",
    "crossings": "SELECT crossing, name AS crossing_name FROM crossings",
    "signals": """
        SELECT crossing, kind AS turn_kind, slice, cycle_s, green_s
        FROM signals, range(144) AS slices(slice)
        WHERE 10 * slice >= from_minute AND (until_minute IS NULL OR 10 * slice < until_minute)""",
    "road_times": "SELECT road, day AS weekday, slice, travel_ms AS usual_ms FROM road_times",
    "turn_times": "SELECT turn, day AS weekday, slice, pass_ms AS usual_pass_ms FROM turn_times",
}
_WEEKDAYS, _SLICE_MIN, _FIRST_MIN = 7, 10, 7 * 60


def _traffic_tables(folder: Path, side: float) -> dict[str, pa.Table]:
    city, database = City(int(side), _WEEKDAYS, 0), duckdb.connect()
    for name, table in city.tables().items():
        more = table.append_column("road", pa.array(city.turn_road)) if name == "turns" else table
        database.register(name, more)
    return {name: _long(database.sql(query).to_arrow_table()) for name, query in _TRAFFIC.items()}


def _traffic_events(side: float, rows: int, cycle: int, seed: int) -> pa.Table:
    """What vehicles report in ten minutes; cycle 0 begins at seven in the morning."""
    moment = _FIRST_MIN + cycle * _SLICE_MIN
    weekday, minute = divmod(moment, 24 * 60)
    city = City(int(side), _WEEKDAYS, 0)  # that of the tables
    city.seed = 1_000 * seed + cycle  # of its reports
    found = city.reports(rows, minute, _SLICE_MIN)
    columns = {
        "event": np.arange(rows) + cycle * 100_000_000,
        "turn": found["turn"],
        "weekday": np.full(rows, weekday % _WEEKDAYS),
        "slice": np.full(rows, minute // _SLICE_MIN),
    }
    measured = {name: found[name] for name in ("travel_ms", "stopped_ms", "queue_m")}
    return _long(pa.table(columns | measured))


def _long(table: pa.Table) -> pa.Table:
    """The same with all whole numbers as long."""
    types = [pa.int64() if pa.types.is_integer(f.type) else f.type for f in table.schema]
    return table.cast(pa.schema(list(zip(table.schema.names, types, strict=True))))


_MAKERS = {
    "tpc": (_recall_tables, _recall_events),
    "traffic": (_traffic_tables, _traffic_events),
}


def read_toml(name: str) -> dict[str, Any]:
    """A data file of this folder."""
    return tomllib.loads(Path(__file__).with_name(f"{name}.toml").read_text("utf-8"))


JOBS = {
    name: Job(
        name, one["stream"], tuple(Step(**s) for s in one["steps"]), *_MAKERS[name], one["size"],
        one["files"],
    )
    for name, one in read_toml("jobs").items()
}  # fmt: skip

PLANS = read_toml("plans")
"""By benchmark: which job it runs, and how much of it."""
