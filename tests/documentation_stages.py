"""What the examples of a page find when they begin: tables, streams and databases of a shop.

A page names its stage in a comment, ``<!-- setup: shop -->``.
"""

from __future__ import annotations

import sqlite3
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from documentation_services import clients, derby, served
from pyspark.sql import DataFrame, SparkSession
from spark_samples import write_stream_file

CUSTOMERS = {
    "customer_id": [1, 2, 3],
    "name": ["Ada", "Ben", "Cleo"],
    "city": ["Graz", "Lyon", "Porto"],
}
ADDRESSES = (
    "postgresql://me:secret@db.example/shop", "redis://me:secret@redis.example/0",
    "https://api.example", "jdbc:postgresql://db.example/shop",
)  # fmt: skip


@dataclass
class Stage:
    """The names that an example knows, and what stands for the places that it names.

    Args:
        spark: the session.
        folder: stands for ``/data`` and for ``/tmp/shop``.
        request: of the test, to start a server.
    """

    spark: SparkSession
    folder: Path
    request: pytest.FixtureRequest
    names: dict[str, Any] = field(default_factory=dict)
    places: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for place in ("/data/", "/tmp/shop/"):
            self.places[place] = f"{self.folder}/"

    def located(self, code: str) -> str:
        """An example with the places of this run."""
        for place, here in self.places.items():
            code = code.replace(place, here)
        for address in ADDRESSES:
            assert address not in code, f"{address}: the stage has no server for it"
        return code

    def stream(self, name: str, *batches: dict[str, list[int]]) -> DataFrame:
        """A stream of files, each a micro-batch."""
        folder = self.folder / name
        folder.mkdir()
        for number, batch in enumerate(batches):
            write_stream_file(folder, number, **batch)
        schema = self.spark.read.parquet(str(folder)).schema
        reader = self.spark.readStream.schema(schema).option("maxFilesPerTrigger", 1)
        return reader.parquet(str(folder))

    def table(self, **columns: list[Any]) -> DataFrame:
        """A table in a file of Parquet."""
        file = self.folder / f"{len(list(self.folder.iterdir()))}.parquet"
        pq.write_table(pa.table(columns), file)
        return self.spark.read.parquet(str(file))


def readme(stage: Stage) -> None:
    """The session of the README, with a smaller table."""
    stage.places["1_000_000"] = "40_000"


def shop(stage: Stage) -> None:
    """Customers as they were and as they are now, and a stream of orders."""
    now = {name: [*values] for name, values in CUSTOMERS.items()}
    for name, value in zip(now, (4, "Dora", "Turku"), strict=True):
        now[name].append(value)
    orders = {"order_id": [100, 101, 102, 103], "customer_id": [1, 3, 4, 1]}
    stage.names |= {
        "spark": stage.spark,
        "customers": stage.table(**CUSTOMERS),
        "customers_now": stage.table(**now),
        "orders": stage.stream("orders", orders),
    }


def database(stage: Stage) -> None:
    """The shop with its customers in a database, in Redis and in a file."""
    shop(stage)
    rows = list(zip(*CUSTOMERS.values(), strict=True))
    file = stage.folder / "shop.db"
    with sqlite3.connect(file) as connection:
        connection.execute(
            "CREATE TABLE customers (customer_id INTEGER PRIMARY KEY, name TEXT, city TEXT)"
        )
        connection.executemany("INSERT INTO customers VALUES (?, ?, ?)", rows)
    connection.close()
    pq.write_table(pa.table(CUSTOMERS), stage.folder / "customers.parquet")
    stage.places[ADDRESSES[0]] = f"sqlite:///{file}"
    stage.places[ADDRESSES[1]] = stage.request.getfixturevalue("redis_server").url
    stage.places[ADDRESSES[3]] = derby(stage.spark, stage.folder)
    by_jdbc = {
        "customers": stage.spark.createDataFrame(pa.table(CUSTOMERS)),
        "loads": stage.spark.sql("SELECT 7 AS BATCH"),  # Derby has names in capitals
    }
    for name, df in by_jdbc.items():
        df.write.jdbc(stage.places[ADDRESSES[3]], name, properties={"user": "me"})


def services(stage: Stage) -> None:
    """The shop with its customers behind HTTP, and clients of stores that are not here."""
    shop(stage)
    rows = pa.table(CUSTOMERS).to_pylist()
    stage.places[ADDRESSES[2]] = served(stage.request, rows)
    clients(stage.request.getfixturevalue("monkeypatch"), rows)


def clicks(stage: Stage) -> None:
    """Users, and a stream in which one of them makes half of the clicks."""
    batch = {"user": [7] * 1000 + list(range(1000)), "click": list(range(2000))}
    stage.names |= {
        "spark": stage.spark,
        "users": stage.table(user=list(range(1000)), country=["AT", "BR"] * 500),
        "clicks": stage.stream("clicks", batch, batch),
    }


def placement(stage: Stage) -> None:
    """The clicks in a session without executors to place work on."""
    from scheduling.spark import LeverWarning

    warnings.simplefilter("ignore", LeverWarning)
    clicks(stage)


STAGES: dict[str, Callable[[Stage], None]] = {
    stage.__name__: stage for stage in (readme, shop, database, clicks, placement, services)
}
