"""Key types: for every supported type and pair of types bsjoin answers what Spark's join does."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Context, Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from oracle import (
    FUZZ,
    assert_same_rows,
    assert_same_schema,
    by_join_type,
    check,
    expected,
    numbered,
    one_part,
    right_rows,
    rows_of_all,
)
from oracle import settings as spark_settings
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from bsjoin import BatchTable

pytestmark = pytest.mark.usefixtures("runtime")


@dataclass(frozen=True)
class Kind:
    """A key type: its Arrow type, values that are known to be difficult, and all the others."""

    arrow: pa.DataType
    special: Sequence[Any]
    others: st.SearchStrategy[Any]


_NUMBERS = """
    0 1 -1 1.5 5.50 0.0001 -0.01 3.1415926535 127 -128 128 -129 255 300 32767 -32768 32768 65536
    99999999.99 -99999999.99 2147483647 -2147483648 2147483648 4294967296 9223372036854775807
    -9223372036854775808 9223372036854775808 99999999999999999999
    1234567890123456789012.345 -1234567890123456789012.345
"""
NUMBERS = [Decimal(text) for text in _NUMBERS.split()]
_EXACT = Context(prec=60)


def integer(arrow: pa.DataType) -> Kind:
    low, high = -(2 ** (arrow.bit_width - 1)), 2 ** (arrow.bit_width - 1) - 1
    special = [int(n) for n in NUMBERS if n == int(n) and low <= n <= high]
    return Kind(arrow, special, st.integers(low, high))


def decimal(precision: int, scale: int) -> Kind:
    end = 10**precision - 1
    special = [
        n
        for n in (*NUMBERS, Decimal(end).scaleb(-scale, _EXACT))
        if -end <= n.scaleb(scale, _EXACT) <= end and not math.fmod(n.scaleb(scale, _EXACT), 1)
    ]
    others = st.integers(-end, end).map(lambda n: Decimal(n).scaleb(-scale, _EXACT))
    return Kind(pa.decimal128(precision, scale), special, others)


_FLOATS = [0.0, -0.0, 1.0, 0.5, -1.5, math.nan, math.inf, -math.inf, 16777217.0, 1e-45, 2.0**-149]
_MICROS = [0, 1, -1, 1_700_000_000_000_000, -62_135_596_800_000_000, 253_402_300_799_999_999]
_DAYS = [dt.date(1, 1, 1), dt.date(1582, 10, 10), dt.date(1970, 1, 1), dt.date(9999, 12, 31)]
_TEXTS = ["", " ", "a", "A", "a\x00", "é", "e\u0301", "日本語", "𝄞", "x" * 3000, "x" * 2999 + "y"]

KINDS = {
    "byte": integer(pa.int8()),
    "short": integer(pa.int16()),
    "int": integer(pa.int32()),
    "long": integer(pa.int64()),
    "decimal(10,2)": decimal(10, 2),
    "decimal(18,0)": decimal(18, 0),
    "decimal(25,3)": decimal(25, 3),
    "decimal(38,10)": decimal(38, 10),
    "float": Kind(pa.float32(), [*_FLOATS, 0.1], st.floats(width=32)),
    "double": Kind(pa.float64(), [*_FLOATS, 0.1, 0.1 + 2**-55, 5e-324], st.floats()),
    "date": Kind(pa.date32(), _DAYS, st.dates()),
    "timestamp": Kind(pa.timestamp("us", "UTC"), _MICROS, st.integers(-(2**55), 2**55)),
    "timestamp_ntz": Kind(pa.timestamp("us"), _MICROS, st.integers(-(2**55), 2**55)),
    "string": Kind(pa.string(), _TEXTS, st.text(st.characters(exclude_categories=["Cs"]))),
    "binary": Kind(pa.binary(), [t.encode() for t in _TEXTS] + [b"\xff\x00"], st.binary()),
    "boolean": Kind(pa.bool_(), [True, False], st.booleans()),
}

WIDTHS = [
    ("byte", "long"),
    ("int", "short"),
    ("decimal(25,3)", "decimal(10,2)"),
    ("decimal(10,2)", "decimal(38,10)"),
    ("decimal(38,10)", "decimal(25,3)"),
    ("decimal(10,2)", "int"),
    ("byte", "decimal(10,2)"),
    ("decimal(38,10)", "long"),
    ("long", "decimal(38,10)"),
    ("long", "decimal(18,0)"),
    ("float", "double"),
    ("double", "float"),
]
PAIRS = [*((name, name) for name in KINDS), *WIDTHS]


def table(fields: Sequence[tuple[str, pa.DataType]], columns: Sequence[Sequence[Any]]) -> pa.Table:
    arrays = [pa.array(c, type_) for c, (_, type_) in zip(columns, fields, strict=True)]
    return pa.table(arrays, [name for name, _ in fields])


def wide(kinds: Mapping[str, Sequence[Any]], number: str) -> pa.Table:
    """A column of values for each kind of key, as long as the longest, and one of numbers."""
    size = max(map(len, kinds.values()))
    fields = [*((name, KINDS[name].arrow) for name in kinds), (number, pa.int32())]
    padded = [[*values, *[None] * (size - len(values))] for values in kinds.values()]
    return table(fields, [*padded, range(size)])


def probes() -> pa.Table:
    """All difficult values of each type and nulls, twice."""
    return wide({name: [*kind.special, None] * 2 for name, kind in KINDS.items()}, "i")


def stored() -> pa.Table:
    """All difficult values of each type, of some types all unique, and nulls."""
    columns = {}
    for number, (name, kind) in enumerate(KINDS.items()):
        values = [*kind.special, None]
        columns[name] = values + (values[::3] if number % 3 else [])
    return wide(columns, "v")


Pair = tuple[str, str]
Answers = Mapping[Pair, Mapping[str, tuple[pa.Table, pa.Table]]]
_RIGHT: dict[tuple[Pair, ...], dict[Pair, pa.Table]] = {}
"""What Spark answers for pairs, which are the same for all runtimes."""


def answers(
    stream: DataFrame,
    batch: DataFrame,
    pairs: Sequence[Pair],
    join: Callable[[str, str, str], DataFrame],
) -> Answers:
    """For pairs of kinds and join types bsjoin's rows and Spark's, in one action each.

    Left shows all pairs of rows; each other join type meets every third pair of kinds.

    Args:
        stream: the columns of `probes`.
        batch: the columns of `stored`.
        pairs: of kinds.
        join: bsjoin's result for two kinds and a join type.
    """
    results, joined = {}, {}
    for number, (left, right) in enumerate(pairs):
        own = batch.select(F.col(f"`{right}`").alias("key"), "v")
        joined[left, right] = numbered(stream, own, {left: "key"})
        for how in ("left", ("inner", "semi", "anti")[number % 3]):
            results[left, right, how] = join(left, right, how)
            theirs = expected(stream, own, {left: "key"}, how)
            assert_same_schema(results[left, right, how], theirs, f"{left}, {right}, {how}")
    if (asked := tuple(pairs)) not in _RIGHT:
        _RIGHT[asked] = right_rows(joined)
    found, wanted = rows_of_all(results), _RIGHT[asked]
    told: dict[Pair, dict[str, tuple[pa.Table, pa.Table]]] = {pair: {} for pair in pairs}
    for left, right, how in results:
        rows = by_join_type(wanted[left, right], len(stream.columns))[how]
        told[left, right][how] = found[left, right, how], rows
    return told


@pytest.fixture(scope="module")
def matched(spark: SparkSession, runtime: str) -> Answers:
    stream, batch = one_part(spark, probes()), one_part(spark, stored())
    tables = {
        kind: BatchTable.build(batch.select(F.col(f"`{kind}`"), "v"), on=kind)
        for kind in dict.fromkeys(right for _, right in PAIRS)
    }

    def join(left: str, right: str, how: Any) -> DataFrame:
        return tables[right].join(stream, {left: right}, how=how)

    return answers(stream, batch, PAIRS, join)


@pytest.mark.parametrize("pair", PAIRS, ids=",".join)
def test_every_pair_of_key_types_matches_as_in_spark(matched: Answers, pair: Pair) -> None:
    """All difficult values of both types, nulls and duplicates on both sides."""
    assert len(matched[pair]) == 2
    for how, (found, wanted) in matched[pair].items():
        assert_same_rows(found, wanted, how)


@st.composite
def sides(draw: st.DrawFn) -> tuple[pa.Table, pa.Table, dict[str, str]]:
    """A stream, a table and the mapping of one to three key columns of any types."""
    pairs = draw(st.lists(st.sampled_from(PAIRS), min_size=1, max_size=3))
    fields: tuple[list[Any], list[Any]] = ([], [])
    pools: tuple[list[Any], list[Any]] = ([], [])
    for number, pair in enumerate(pairs):
        kinds = [KINDS[name] for name in pair]
        shared = [value for value in kinds[0].special if value in kinds[1].special]
        common = draw(st.lists(st.sampled_from(shared), min_size=1, max_size=3))
        for side, kind in enumerate(kinds):
            own = draw(st.lists(kind.others, max_size=1))
            fields[side].append((f"{'kt'[side]}{number}", kind.arrow))
            pools[side].append(st.sampled_from([*common, *own, None]))
    tables = []
    for names, pool in zip(fields, pools, strict=True):
        rows = draw(st.lists(st.tuples(*pool), max_size=40))
        columns = list(zip(*rows, strict=True)) or [()] * len(names)
        order = draw(st.permutations([*range(len(names)), -1]))
        all_names = [*names, ("n", pa.int32())]
        all_columns = [*columns, range(len(rows))]
        tables.append(table([all_names[i] for i in order], [all_columns[i] for i in order]))
    mapping = draw(st.permutations([(f"k{i}", f"t{i}") for i in range(len(pairs))]))
    return *tables, dict(mapping)


@FUZZ
@given(sides())
def test_composite_keys_of_any_types_match_as_in_spark(
    spark: SparkSession, case: tuple[pa.Table, pa.Table, dict[str, str]]
) -> None:
    stream, batch, on = case
    check(spark.createDataFrame(stream), spark.createDataFrame(batch), on)


@pytest.mark.parametrize("zone", ["America/New_York", "Asia/Kathmandu"])
def test_a_session_time_zone_changes_no_match(spark: SparkSession, zone: str) -> None:
    """Around the change of the clocks, as a single key and as a part of a key."""
    with spark_settings(spark, spark__sql__session__timeZone=zone):
        hours = [1_699_160_400_000_000 + 1_800_000_000 * i for i in range(12)]
        fields = [
            ("at", pa.timestamp("us", "UTC")),
            ("wall", pa.timestamp("us")),
            ("day", pa.date32()),
        ]
        days = [dt.date(2023, 11, 4), dt.date(2023, 11, 5), None]
        stream = table(fields, [[*hours, None], [*hours[::-1], None], [*(days * 5)[:13]]])
        batch = table(fields, [[*hours[3:], None], [*hours[:-3], None], (days[::-1] * 5)[:10]])
        left, right = one_part(spark, stream), one_part(spark, batch)
        check(left, right, "at")
        check(left, right, ["wall"], hows=["left"])
        check(left, right, {"day": "day", "at": "at"}, hows=["inner", "anti"])
