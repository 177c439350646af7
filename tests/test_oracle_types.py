"""Key types: for every supported type and pair of types bsjoin answers what Spark's join does."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import strategies as st
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
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from bsjoin import BatchTable
from tests.fuzz import values

pytestmark = pytest.mark.usefixtures("runtime")


@dataclass(frozen=True)
class Kind:
    """A key type: its Arrow type, values that are known to be difficult, and all the others."""

    arrow: pa.DataType
    special: Sequence[Any]
    others: st.SearchStrategy[Any]


def _kind(name: str) -> Kind:
    seeds = st.integers(0, 2**32)
    others = seeds.map(lambda seed: values.other(random.Random(seed), name))
    return Kind(values.KINDS[name].arrow, values.special(name), others)


KINDS = {
    name: _kind(name)
    for name, kind in values.KINDS.items()
    if kind.family in values.FAMILIES and name not in ("decimal(4,1)", "decimal(20,0)")
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
    padded = [[*some, *[None] * (size - len(some))] for some in kinds.values()]
    return table(fields, [*padded, range(size)])


def probes() -> pa.Table:
    """All difficult values of each type and nulls, twice."""
    return wide({name: [*kind.special, None] * 2 for name, kind in KINDS.items()}, "i")


def stored() -> pa.Table:
    """All difficult values of each type, of some types all unique, and nulls."""
    columns = {}
    for number, (name, kind) in enumerate(KINDS.items()):
        some = [*kind.special, None]
        columns[name] = some + (some[::3] if number % 3 else [])
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


def test_every_pair_of_key_types_matches_as_in_spark(matched: Answers) -> None:
    """All difficult values of both types, nulls and duplicates on both sides."""
    for pair, answered in matched.items():
        assert len(answered) == 2
        for how, (found, wanted) in answered.items():
            assert_same_rows(found, wanted, f"{pair}, {how}")


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
