"""Jobs: a stream that is joined with one table after the other; the papers' two, and their files.

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

TPC-H is the retail benchmark of the Transaction Processing Performance Council: its tables and
their sizes are public, its rows are the same in every run. `tpchgen-cli`, a package with a program
of its own, writes them.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.data.kept import kept, write_stream
from benchmarks.data.zipf import Shifting
from examples.road_data import City

ARROW = {"long": pa.int64(), "string": pa.string()}
"""The types of columns; every engine has them."""

FILES = 2
"""Of a micro-batch: one per core."""

_PARTS = 4  # files of a table, for tasks to share


def types_of(ddl: str) -> dict[str, str]:
    """Names and types of columns in Spark's DDL.

    >>> types_of("customer long, name string")
    {'customer': 'long', 'name': 'string'}
    """
    return dict(column.split() for column in ddl.split(", "))


def arrow_schema(ddl: str) -> pa.Schema:
    """The same columns for Arrow."""
    return pa.schema([(name, ARROW[type_]) for name, type_ in types_of(ddl).items()])


@dataclass(frozen=True)
class Step:
    """One inner equality join of a job; both sides have the same names for the key.

    Names are unquoted in queries: lower case, and no reserved words of SQL. ``on`` has the key
    columns, separated by commas, ``brings`` the other columns of the table, in Spark's DDL.
    """

    table: str
    on: str
    brings: str
    unique: bool = True

    @property
    def keys(self) -> list[str]:
        """The key columns."""
        return self.on.split(", ")

    @property
    def columns(self) -> list[str]:
        """The columns of the table, the key first."""
        return [*self.keys, *types_of(self.brings)]


@dataclass(frozen=True)
class Job:
    """A stream, of columns in Spark's DDL, and the tables that it is joined with in sequence.

    A key of ``steps`` may be a column of an earlier table. ``make`` gives the tables of a size,
    from a folder with what they are made of, ``events`` the rows of the stream, from the size, how
    many, which cycle, and a seed.
    """

    name: str
    stream: str
    steps: tuple[Step, ...]
    make: Callable[[Path, float], Mapping[str, pa.Table]]
    events: Callable[[float, int, int, int], pa.Table]

    @property
    def columns(self) -> list[str]:
        """The columns of the result, in order."""
        return list(types_of(self.schema))

    @property
    def schema(self) -> str:
        """The columns of the result, in Spark's DDL."""
        return ", ".join([self.stream, *(step.brings for step in self.steps)])

    @property
    def arrow(self) -> pa.Schema:
        """The columns of the stream, for Arrow."""
        return arrow_schema(self.stream)

    def tables(self, folder: Path, size: float) -> Path:
        """The folder that has each table of a size as a folder of Parquet files."""

        def write(path: Path) -> None:
            for name, table in self.make(folder, size).items():
                (path / name).mkdir()
                rows = -(-max(table.num_rows, 1) // _PARTS)
                for part, begin in enumerate(range(0, table.num_rows, rows)):
                    file = path / name / f"{part}.parquet"
                    pq.write_table(table.slice(begin, rows), file, row_group_size=1 << 18)

        return kept(folder / f"{self.name}-{size:g}-tables", write)

    def stream_files(self, folder: Path, size: float, batches: Sequence[int], seed: int) -> Path:
        """The stream as files, ``FILES`` per micro-batch, in order of their times."""
        runs = [f"{list(batches).count(rows)}x{rows}" for rows in dict.fromkeys(batches)]
        path = folder / "-".join([self.name, f"{size:g}", *runs, str(FILES), str(seed)])
        events = (self.events(size, rows, at, seed) for at, rows in enumerate(batches))
        return kept(path, lambda place: write_stream(place, events, FILES))


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
    database = duckdb.connect(config={"file_search_path": str(_tpch(folder, scale))})
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
    name: Job(name, one["stream"], tuple(Step(**s) for s in one["steps"]), *_MAKERS[name])
    for name, one in read_toml("jobs").items()
}

PLANS = read_toml("plans")
"""By benchmark: which job it runs, and how much of it."""


def _tpch(folder: Path, scale: float) -> Path:
    """The folder with one Parquet file a table, ``customer.parquet`` and so on; made if need be.

    Below a scale of 0.01 partsupp has too few suppliers for unique keys.
    """
    near = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    program = shutil.which("tpchgen-cli", path=near)
    if program is None:
        raise SystemExit(
            "TPC-H needs tpchgen-cli, and there is none beside this Python or on the path: "
            'pip install "bsjoin[benchmarks]", or pip install tpchgen-cli'
        )
    command = [program, "parquet", "-s", f"{scale:g}", "-o"]
    return kept(
        folder / f"tpch-{scale:g}", lambda place: subprocess.run([*command, place], check=True)
    )
