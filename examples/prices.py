"""Sales as a stream, each joined with the price that was valid when it was made.

A price is valid from one moment until another, and the present one has no end (null). Products are
off the market at times, and a sale at such a time keeps no price: a left join.

    python examples/prices.py [--out FOLDER] [--sales ROWS]

Needs the `examples` extra (`pip install "bsjoin[examples]"`), Java, and no network.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import _support
import flights as demo
import numpy as np
import pandas as pd
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as everyone calls it

import bsjoin

_PRODUCTS = 500
_SALES_PER_FILE = 25_000


def main() -> None:
    """Make prices and sales, join them, show what they bring in."""
    options = arguments()
    out = _support.fresh_folder(options.out)
    random = np.random.default_rng(1)
    prices = make_prices(random)
    sales = make_sales(random, options.sales, prices)
    _support.write_parquet(prices, out / "prices")
    _support.write_parquet(sales, out / "sales", _SALES_PER_FILE)
    print(f"{len(sales):,} sales and {len(prices):,} prices are in {out}. Starting Spark …")
    spark = demo.start_spark("prices")
    try:
        stream = demo.read_stream(spark, out / "sales")
        query = _support.run(join(stream, spark.read.parquet(str(out / "prices"))), out)
        query.awaitTermination()
        _support.speed(query, "sales")
        result = spark.read.parquet(str(out / "result"))
        history(result)
        right = check(sales, prices, result)
    finally:
        _support.stop(spark)
    print(f"\nResult: {out / 'result'}")
    sys.exit(0 if right else 1)


def join(sales: DataFrame, prices: DataFrame) -> DataFrame:
    """Join each sale with its price; this is all there is to it.

    At the very moment of a change the new price holds: `closed="left"`, which is the default.
    """
    return bsjoin.join(
        sales,
        prices,
        on="product",
        how="left",
        when=bsjoin.Within("sold_at", "valid_from", "valid_to"),
    )


def make_prices(random: np.random.Generator) -> pd.DataFrame:
    """Six prices a product and year, one after the other; every seventh is a gap instead."""
    count = 6 * _PRODUCTS
    product = np.repeat(np.arange(_PRODUCTS), 6)
    day = np.sort(random.choice(330, (_PRODUCTS, 6)), axis=1).ravel()
    valid_from = pd.Timestamp("2026-01-01", tz="UTC") + pd.to_timedelta(day, unit="D")
    prices = pd.DataFrame(
        {
            "product": product,
            "cents": random.integers(99, 10_000, count),
            "valid_from": valid_from.as_unit("us"),
        }
    )
    # Valid until the next one; the last stays open. Of two of the same day only the latter is.
    prices["valid_to"] = prices.groupby("product").valid_from.shift(-1)
    return prices[(np.arange(count) % 7 != 0) & (prices.valid_from != prices.valid_to)]


def make_sales(random: np.random.Generator, rows: int, prices: pd.DataFrame) -> pd.DataFrame:
    """Sales of the year in their order; one in a hundred at the very moment of a price change."""
    seconds = np.sort(random.integers(0, 365 * 86_400, rows))
    sold_at = pd.Series(pd.Timestamp("2026-01-01", tz="UTC") + pd.to_timedelta(seconds, unit="s"))
    product = random.integers(0, _PRODUCTS, rows)
    some = random.random(rows) < 0.01
    changes = prices.iloc[random.integers(0, len(prices), some.sum())]
    sold_at[some], product[some] = changes.valid_from.to_numpy(), changes["product"]
    return pd.DataFrame(
        {
            "sale": np.arange(rows),
            "product": product,
            "sold_at": sold_at.dt.as_unit("us"),
            "pieces": random.integers(1, 6, rows),
        }
    ).sort_values("sold_at", kind="stable")


def history(result: DataFrame) -> None:
    """Print one product's prices and what was sold at each."""
    print("\nWhat product 3 brought in:")
    result.where("product = 3").groupBy("valid_from", "valid_to").agg(
        (F.first("cents") / 100).alias("price"),
        F.sum("pieces").alias("pieces"),
        (F.sum(F.col("pieces") * F.col("cents")) / 100).alias("revenue"),
    ).orderBy("valid_from").show()


def check(sales: pd.DataFrame, prices: pd.DataFrame, result: DataFrame) -> bool:
    """Hold the result against pandas: the last price that began, unless it has ended."""
    last = pd.merge_asof(
        sales,
        prices.sort_values("valid_from"),
        left_on="sold_at",
        right_on="valid_from",
        by="product",
    )
    priced = last[last.valid_from.notna() & (last.valid_to.isna() | (last.sold_at < last.valid_to))]
    found = result.where("cents is not null")
    revenue = F.coalesce(F.sum(F.col("pieces") * F.col("cents")), F.lit(0))
    return _support.checks(
        {
            "rows of the result": (len(sales), result.count()),
            "sales with a price": (len(priced), found.count()),
            "of these at the moment of a change": (
                int((priced.sold_at == priced.valid_from).sum()),
                found.where("sold_at = valid_from").count(),
            ),
            "of these at a price without an end": (
                int(priced.valid_to.isna().sum()),
                found.where("valid_to is null").count(),
            ),
            "revenue in cents": (
                int((priced.pieces * priced.cents).sum()),
                int(found.select(revenue).first()[0]),  # type: ignore[index]
            ),
        }
    )


def arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--out", type=Path, default=Path("out/prices"), metavar="FOLDER")
    parser.add_argument("--sales", type=_support.positive, default=200_000, metavar="ROWS")
    return parser.parse_args()


if __name__ == "__main__":
    _support.program(main)
