"""Product recall on TPC-H: who is here, what did they click, and what are these things?

The paper's job (section 6.2) joins a stream of consumer ids with a click record, a product and a
user attribute table in turn; its rows are confidential. Here the tables come from TPC-H:

    clicks     the first line of every order: customer, product, when, price; 1.5 million at scale
               factor 1, ten a customer (a third of the customers have none and drop out)
    products   part: name, brand, type, container, price; 200,000
    users      customer with the nation's name: name, segment, balance; 150,000

The paper's tables have ten million rows each, and one match each; ten matches make the second and
third join ten times as large, as a recall of several candidates has to be.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from benchmarks.data import tpch
from benchmarks.rivals.job import Job, Step, store

__all__ = ["JOB", "customers", "recall_tables"]


def customers(scale: float) -> int:
    """How many customers there are at a scale factor."""
    return tpch.rows_of("customer", scale)[0]


def recall_tables(folder: Path, scale: float) -> Path:
    """Make the three tables of a scale factor, unless they are there.

    Args:
        folder: where TPC-H and what is made of it are kept.
        scale: the scale factor.

    Returns:
        A folder with a folder of Parquet files for each table.

    Complexity: O(rows); about 6 s at scale factor 1.
    """
    made = folder / f"recall-{scale:g}"
    if not (made / "complete").exists():
        source = tpch.tables(folder, scale)
        shutil.rmtree(made, ignore_errors=True)
        for name, table in (
            ("clicks", _clicks(source)),
            ("products", _products(source)),
            ("users", _users(source)),
        ):
            store(table, made / name)
        (made / "complete").touch()
    return made


def _clicks(source: Path) -> pa.Table:
    lines = _read(
        source,
        "lineitem",
        "l_orderkey",
        "l_linenumber",
        "l_partkey",
        "l_extendedprice",
        "l_comment",
    )
    lines = lines.filter(pc.equal(lines.column("l_linenumber"), 1))
    orders = _read(source, "orders", "o_orderkey", "o_custkey", "o_orderdate", "o_orderpriority")
    keys = orders.column("o_orderkey").to_numpy()
    by_key = np.argsort(keys, kind="stable")
    wanted = lines.column("l_orderkey").to_numpy()
    orders = orders.take(pa.array(by_key[np.searchsorted(keys, wanted, sorter=by_key)]))
    days = pc.cast(orders.column("o_orderdate"), pa.int32())
    return pa.table(
        {
            "customer": orders.column("o_custkey"),
            "click": lines.column("l_orderkey"),
            "product": lines.column("l_partkey"),
            "clicked_day": pc.cast(days, pa.int64()),
            "paid_cents": _cents(lines.column("l_extendedprice")),
            "priority": orders.column("o_orderpriority"),
            "remark": lines.column("l_comment"),
        }
    )


def _products(source: Path) -> pa.Table:
    part = _read(source, "part", "p_partkey", "p_name", "p_brand", "p_type", "p_retailprice")
    prices = _cents(part.column("p_retailprice"))
    named = part.drop_columns(["p_retailprice"]).append_column("price_cents", prices)
    return named.rename_columns(["product", "title", "brand", "kind", "price_cents"])


def _users(source: Path) -> pa.Table:
    customer = _read(
        source, "customer", "c_custkey", "c_name", "c_mktsegment", "c_nationkey", "c_acctbal"
    )
    nations = _read(source, "nation", "n_nationkey", "n_name").sort_by("n_nationkey")
    names = nations.column("n_name").combine_chunks()
    return pa.table(
        {
            "customer": customer.column("c_custkey"),
            "name": customer.column("c_name"),
            "segment": customer.column("c_mktsegment"),
            "nation": names.take(customer.column("c_nationkey").combine_chunks()),
            "balance_cents": _cents(customer.column("c_acctbal")),
        }
    )


def _read(source: Path, table: str, *columns: str) -> pa.Table:
    """Some columns; texts as plain strings, for Arrow cannot filter its string views."""
    read = pq.read_table(source / f"{table}.parquet", columns=list(columns))
    fields = [
        pa.field(field.name, pa.string() if field.type == pa.string_view() else field.type)
        for field in read.schema
    ]
    return read.cast(pa.schema(fields))


def _cents(amounts: pa.ChunkedArray) -> pa.ChunkedArray:
    whole = pc.multiply(pc.cast(amounts, pa.decimal128(20, 2)), pa.scalar(100, pa.int32()))
    return pc.cast(whole, pa.int64())


def _events(scale: float, rows: int, cycle: int, kind: str, seed: int) -> pa.Table:
    """Customers who are here: ids that are drawn, and a number of the event."""
    ids = tpch.customer_ids(kind, customers(scale), rows, cycle, seed=seed)
    return pa.table({"customer": ids, "event": np.arange(rows) + cycle * 100_000_000})


JOB = Job(
    name="tpc",
    stream={"customer": "long", "event": "long"},
    steps=(
        Step(
            "clicks",
            ("customer",),
            {
                "click": "long",
                "product": "long",
                "clicked_day": "long",
                "paid_cents": "long",
                "priority": "string",
                "remark": "string",
            },
            unique=False,
        ),
        Step(
            "products",
            ("product",),
            {"title": "string", "brand": "string", "kind": "string", "price_cents": "long"},
        ),
        Step(
            "users",
            ("customer",),
            {
                "name": "string",
                "segment": "string",
                "nation": "string",
                "balance_cents": "long",
            },
        ),
    ),
    tables=recall_tables,
    events=_events,
    size="scale factor",
)
