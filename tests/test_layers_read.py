"""Joins and scans read through the layers of a table that has changed."""

from __future__ import annotations

import random
from functools import reduce
from pathlib import Path
from typing import Any

import pytest
from layer_samples import Form, Sample
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from sessions import configured
from spark_samples import values_of

from bsjoin import AsOf, BatchTable, Within
from bsjoin.conditions import Condition
from bsjoin.storage import StorageLocation, versions
from bsjoin.storage.layers.change_set import DELETE, UPSERT

pytestmark = pytest.mark.usefixtures("without_code", "soon_active")

ORDERED: list[Condition] = [
    AsOf("x", "p", order_by="n DESC"),
    Within("x", "p", "e", take="first", order_by="n DESC"),
]


def test_rows_of_layers_have_their_place_in_an_order(spark: SparkSession, tmp_path: Path) -> None:
    """The first of a key's rows is gone, has moved or is new: as in a build of the rows."""
    schema = "k long, p long, e long, n long"
    before = {n: (n % 2, n % 5, n % 5 + 2, n) for n in range(30)}
    put = {n: (n % 2, (n + 1) % 5, n % 5 + 4, n) for n in (3, 14, 25, 29, 30, 31)}
    gone = range(20, 24)
    changes = [(*row, "upsert") for row in put.values()]
    changes += [(*before[n], "delete") for n in gone]
    after = [row for n, row in (before | put).items() if n not in gone]
    probes = spark.range(27).selectExpr("id % 3 AS k", "id DIV 3 AS x")
    found: dict[Any, DataFrame] = {}
    wanted: dict[Any, DataFrame] = {}
    for when in ORDERED:
        folder = tmp_path / type(when).__name__
        first, rows = (spark.createDataFrame([*r], schema) for r in (before.values(), after))
        layered = BatchTable.build(first, on="k", when=when, path=folder / "layered")
        layered.apply(spark.createDataFrame(changes, f"{schema}, op string"), key="n")
        assert versions.latest(layered._location).layers
        built = BatchTable.build(rows, on="k", when=when, path=folder / "built")
        for runtime in ("jvm", "python"):
            with configured(spark, {"spark.bsjoin.runtime": runtime}):
                for table, joined in ((layered, found), (built, wanted)):
                    label = runtime, str(when)
                    joined[label] = table.join(probes, how="left", when=when, select=["p", "n"])
    assert values_of(found) == values_of(wanted)


FAR = 1_000_000_000
APART: dict[str, tuple[list[int], list[list[int]]]] = {
    "a layer of one key above hashes": ([1, FAR, 2 * FAR], [[FAR]]),
    "neighbours above hashes": ([*range(7), FAR, 2 * FAR], [[2, 3, 4]]),
    "one key, gone, above hashes": ([1, FAR, 2 * FAR], [[-FAR]]),
    "hashes above neighbours": ([*range(9)], [[1, 5, FAR]]),
    "gone above neighbours": ([*range(-4, 9)], [[-1, -5]]),
    "layers above layers": ([*range(0, 50 * FAR, FAR)], [[*range(1, 30)], [7, FAR], [-9], [FAR]]),
}
"""The keys of tables, and those that changes put, or if negative take away."""


def test_rows_that_a_layer_has_replaced_are_in_no_scan(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Segments are in the order of keys or of hashes, and one is looked up in the other."""
    monkeypatch.setattr("bsjoin.storage.layers.applying._ABSORBED", 0)
    parts, wanted = [], []
    for place, (name, (base, steps)) in enumerate(APART.items()):
        location = StorageLocation.of(tmp_path / str(place))
        sample = Sample(location, Form("direct", ""), ("k",), False, random.Random(place))
        sample.build([sample.row(key) | {"k": key} for key in base])
        for step in steps:
            kinds = [(DELETE if key < 0 else UPSERT, abs(key)) for key in step]
            sample.apply([(kind, sample.row() | {"k": key}, 1) for kind, key in kinds])
        assert len(versions.latest(location).layers) == len(steps)
        scanned = BatchTable.open(tmp_path / str(place)).to_df()
        parts.append(scanned.select(F.lit(name), "k", "id"))
        wanted += [(name, row["k"], row["id"]) for row in sample.rows]
    found = reduce(DataFrame.unionAll, parts).collect()
    assert sorted(tuple(row) for row in found) == sorted(wanted)
