"""Key types: for every supported type and pair of types bsjoin answers what Spark's join does.

The default run has some of them in `jvm/test_plain_joins.py`, `worker/test_keys.py` and the fuzz.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
import pytest
from oracle import (
    assert_same_rows,
    assert_same_schema,
    by_join_type,
    expected,
    numbered,
    one_part,
    right_rows,
    rows_of_all,
)
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812
from sessions import CODE, configured

from bsjoin import BatchTable
from tests.fuzz import values

KINDS = [
    name
    for name, kind in values.KINDS.items()
    if kind.family in values.FAMILIES and name not in ("decimal(4,1)", "decimal(20,0)")
]
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


def wide(kinds: Mapping[str, Sequence[Any]], number: str) -> pa.Table:
    """A column of values for each kind of key, as long as the longest, and one of numbers."""
    size = max(map(len, kinds.values()))
    arrays = [
        pa.array([*some, *[None] * (size - len(some))], values.KINDS[name].arrow)
        for name, some in kinds.items()
    ]
    return pa.table([*arrays, pa.array(range(size), pa.int32())], [*kinds, number])


@pytest.mark.long
def test_every_pair_of_key_types_matches_as_in_spark(spark: SparkSession) -> None:
    """All difficult values of both types, nulls and duplicates on both sides.

    Left shows all pairs of rows, in the JVM; in Python each other join type meets every third pair
    of types.
    """
    special = {name: [*values.special(name), None] for name in KINDS}
    stream = one_part(spark, wide({name: some * 2 for name, some in special.items()}, "i"))
    # Of some types all are unique.
    stored = {
        name: some + (some[::3] if number % 3 else [])
        for number, (name, some) in enumerate(special.items())
    }
    batch = one_part(spark, wide(stored, "v"))
    own = {kind: batch.select(F.col(f"`{kind}`").alias("key"), "v") for kind in KINDS}
    wanted = right_rows({(a, b): numbered(stream, own[b], {a: "key"}) for a, b in PAIRS})
    tables = {
        kind: BatchTable.build(batch.select(F.col(f"`{kind}`"), "v"), on=kind)
        for kind in dict.fromkeys(right for _, right in PAIRS)
    }
    for runtime, hows in (("jvm", ["left"]), ("python", ["inner", "semi", "anti"])):
        with configured(spark, {"spark.bsjoin.runtime": runtime, **CODE[runtime]}):
            results = {}
            for number, (left, right) in enumerate(PAIRS):
                how: Any = hows[number % len(hows)]
                joined = results[left, right, how] = tables[right].join(stream, {left: right}, how)
                theirs = expected(stream, own[right], {left: "key"}, how)
                assert_same_schema(joined, theirs, f"{runtime}, {left}, {right}, {how}")
            found = rows_of_all(results)
        for (left, right, how), rows in found.items():
            answer = by_join_type(wanted[left, right], len(stream.columns))[how]
            assert_same_rows(rows, answer, f"{runtime}, {left}, {right}, {how}")
