"""Keys that workers bring to the table's type and hash: the same as in Spark's expressions."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql import types as T  # noqa: N812

from bsjoin.planner.keys import source_key, stream_key
from bsjoin.runtimes.python.worker.hashing import xxhash64
from bsjoin.runtimes.python.worker.keys import converted, hashed_key
from bsjoin.runtimes.python.worker.matching import canonical
from bsjoin.spark.arrow import arrow_fields

pytestmark = pytest.mark.usefixtures("without_code")

NAN, INF = float("nan"), float("inf")
MOMENTS = [dt.datetime(1969, 12, 31, 23, 59, 59, 999999), dt.datetime(9999, 12, 31)]
LONG = ["0", "0.0127", "0.0128", "0.0129", "3.2768", "3.2769", f"{10**20}", "9" * 34]
TEXTS = ["", "é", "🙂" * 9, *("ab\0cdefg"[i % 8] * i for i in range(1, 101))]
VALUES: dict[str, list[Any]] = {
    "tinyint": [-128, 0, 127],
    "smallint": [-32768, 5, 300],
    "int": [-(2**31), 5, 70_000],
    "bigint": [-(2**63), 0, 2**63 - 1, 5],
    "float": [0.5, NAN, INF, -0.0, 0.1],
    "double": [0.1, 0.5, NAN, -INF, 0.0, -0.0, 1e300, 5e-324],
    "boolean": [True, False],
    "string": TEXTS,
    "binary": [text.encode() for text in TEXTS],
    "date": [dt.date(1969, 12, 31), dt.date(9999, 12, 31)],
    "timestamp": MOMENTS,
    "timestamp_ntz": MOMENTS,
    "interval day to second": [dt.timedelta(days=-3, microseconds=1), dt.timedelta(0)],
    "decimal(5,1)": [Decimal("-1.5"), Decimal(5), Decimal("9999.9")],
    "decimal(10,2)": [Decimal("-1.25"), Decimal(0), Decimal("99999999.99"), Decimal(5)],
    "decimal(18,0)": [Decimal(10**18 - 1), Decimal(-(10**18) + 1), Decimal(5)],
    "decimal(20,0)": [Decimal(2**63), Decimal(2**63 - 1), Decimal(-(2**63)), Decimal(5)],
    "decimal(38,4)": [Decimal(f"{sign}{one}") for sign in ("", "-") for one in LONG],
    "decimal(38,28)": [Decimal("5." + 27 * "0" + "1"), Decimal(5)],
}
FINE = "decimal(38,28)"
"""Compared with narrow integers alone: together with others it needs more than 38 digits."""
ROWS = max(map(len, VALUES.values()))


@pytest.fixture(scope="module")
def values(spark: SparkSession) -> DataFrame:
    """A column of each type, called after it; the last row is null."""
    rows = [
        tuple(has[i] if i < len(has) else has[0] for has in VALUES.values()) for i in range(ROWS)
    ]
    schema = ", ".join(f"`{name}` {name}" for name in VALUES)
    return spark.createDataFrame([*rows, (None,) * len(VALUES)], schema).localCheckpoint()


def arrays(df: DataFrame) -> dict[str, pa.Array]:
    return {
        name: column.combine_chunks()
        for name, column in zip(df.columns, df.toArrow().columns, strict=True)
    }


def arrow(dtype: T.DataType) -> pa.DataType:
    return arrow_fields(T.StructType([T.StructField("k", dtype)]))[0].type


def test_hashes_are_those_of_spark_for_every_type(values: DataFrame) -> None:
    """One column, and after or before a text; nulls, and arrays that begin elsewhere."""
    hashed = values.select(
        "*",
        *(F.xxhash64(F.col(f"`{name}`")).alias(f"{name}!") for name in VALUES),
        *(F.xxhash64("string", F.col(f"`{name}`")).alias(f"s{name}!") for name in VALUES),
        *(F.xxhash64(F.col(f"`{name}`"), "string").alias(f"{name}s!") for name in VALUES),
    )
    # Spark hashes a narrow integer or float otherwise; keys are widened first, as here.
    wide = {"tinyint": "bigint", "smallint": "bigint", "int": "bigint", "float": "double"}
    for name, dtype in wide.items():
        column = F.col(f"`{name}`").cast(dtype)
        for alias, both in (("", [column]), ("s", ["string", column])):
            hashed = hashed.withColumn(f"{alias}{name}!", F.xxhash64(*both))
        hashed = hashed.withColumn(f"{name}s!", F.xxhash64(column, "string"))
    found = arrays(hashed)
    for name in VALUES:
        column, text = canonical(found[name]), found["string"]
        assert xxhash64([column]).tolist() == found[f"{name}!"].to_pylist(), name
        assert xxhash64([text, column]).tolist() == found[f"s{name}!"].to_pylist(), name
        later = xxhash64([column.slice(3), text.slice(3)]).tolist()
        assert later == found[f"{name}s!"].slice(3).to_pylist(), name
    nothing = [column.slice(0, 0) for column in found.values()]
    assert xxhash64(nothing).tolist() == []


EXACT = ["tinyint", "smallint", "int", "bigint", *(name for name in VALUES if "decimal" in name)]
EXACT.remove(FINE)
PAIRS = [
    *((FINE, table) for table in EXACT[:2]),
    *((given, table) for given in EXACT for table in EXACT),
    *((given, table) for given in ("float", "double") for table in ("float", "double")),
    *((name, name) for name in VALUES if name not in EXACT and "interval" not in name),
]


@pytest.mark.parametrize("step", [3, pytest.param(1, marks=pytest.mark.long)])
def test_a_key_in_the_table_s_type_is_the_one_of_spark_s_expressions(
    values: DataFrame, step: int
) -> None:
    """Pairs of types, for a stored table and for a source; alone, or beside a text."""
    wanted, made = [], dict[str, tuple[list[str], list[Any], bool]]()
    for stored in (True, False):
        for number, (given, table) in enumerate(PAIRS[stored % step :: step]):
            beside = ["string"] * ((number + stored) % 2)
            names, tables = [*beside, given], [*beside, table]
            types = [values.schema[name].dataType for name in names]
            keyed = [values.schema[name].dataType for name in tables]
            key = (stream_key if stored else source_key)(
                [f"`{name}`" for name in names], types, keyed
            )
            label = f"{len(made)}"
            made[label] = names, keyed, stored
            wanted.append(f"{key.hash} AS h{label}")
            wanted += [f"{c} AS k{label}_{i}" for i, c in enumerate(key.compared)]
    found = arrays(values.selectExpr("*", *wanted))
    for label, (names, keyed, stored) in made.items():
        targets = [_target(dtype, stored) for dtype in keyed]
        columns = [
            converted(found[name], dtype) for name, dtype in zip(names, targets, strict=True)
        ]
        hashes, compared = hashed_key(columns, stored=stored, rows=ROWS + 1)
        about = names, keyed, stored
        assert hashes.to_pylist() == found[f"h{label}"].to_pylist(), about
        there = [column for name, column in found.items() if name.startswith(f"k{label}_")]
        assert len(compared) == len(there), about
        for one, other in zip(compared, there, strict=True):
            one, other = (array.filter(hashes.is_valid()) for array in (one, other))
            assert one.cast(other.type).to_string() == other.to_string(), about


def _target(dtype: T.DataType, stored: bool) -> pa.DataType:
    """The type in which the stage compares: see bsjoin.runtimes.python.driver.whole_rows."""
    exact = arrow(dtype)
    if stored and pa.types.is_integer(exact):
        return pa.int64()
    return pa.float64() if stored and pa.types.is_floating(exact) else exact
