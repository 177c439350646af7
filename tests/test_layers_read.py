"""Joins and scans read through the layers of a table that has changed."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from functools import reduce
from pathlib import Path
from typing import Any

import pytest
from layer_samples import FORMS, IDENTITIES, Form, Row, Sample
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from sessions import configured
from spark_samples import values_of

from bsjoin import AsOf, Band, BatchTable, Overlaps, Within
from bsjoin.conditions import Condition
from bsjoin.storage import StorageLocation, versions
from bsjoin.storage.layers.change_set import DELETE, UPSERT
from tests.fuzz.exact import matcher, nearest_groups, order_or_none, take_order

pytestmark = pytest.mark.usefixtures("without_code", "soon_active")

CONDITIONS: dict[str, list[Condition | None]] = {
    "": [None],
    "point": [
        Band("x", "p", before=1, after=1),
        AsOf("x", "p"),
        AsOf("x", "p", "nearest", n=3),
        AsOf("x", "p", "forward", exact=False, tolerance=4, n=2),
        AsOf("x", "p", "nearest", n=4, collect="near"),
    ],
    "interval": [
        Within("x", "p", "e", closed="left"),
        Overlaps(("x", "y"), ("p", "e")),
        Overlaps(("x", "y"), ("p", "e"), relation="within", at_least=2),
        *(
            Within("x", "p", "e", take=take)  # type: ignore[arg-type]
            for take in ("latest_start", "earliest_end", "shortest")
        ),
    ],
}
PLAIN: dict[str, list[tuple[str, Condition | None]]] = {
    "": [("true", None)],
    "point": [("bsjoin.as_of(x, p, 'nearest', 3, true, 2)", AsOf("x", "p", "nearest", 3, n=2))],
    # By the key alone, rows without a point are found, too.
    "interval": [("p <= x AND (e IS NULL OR x < e)", Within("x", "p", "e")), ("true", None)],
}
"""Conditions of plain joins, and what they mean."""
PROBES = [
    (n, key, x, x + 2) for n, (key, x) in enumerate((k, x) for k in range(13) for x in (1, 5))
]


def changed(folder: Path, form: Form, number: int) -> tuple[Path, list[Row]]:
    """A table with layers, some steps old, and its rows."""
    identity = IDENTITIES[number % len(IDENTITIES)]
    if form.key == "none" and "k" in identity:
        identity = ("id", "p")
    path = folder / f"{form.key}{form.ranged}"
    draw = random.Random(number)
    sample = Sample(StorageLocation.of(path), form, identity, False, draw)
    first = {sample.token(row): row for row in [sample.row() for _ in range(50)]}
    sample.build([r for r in first.values() if not any(r[name] is None for name in identity)])
    for step in range(4):
        sample.apply(sample.changes(6))
        if step == number % 3:
            sample.compact(1)
    assert versions.latest(sample.location).layers
    return path, sample.rows


def matches(
    form: Form, when: Condition | None, rows: list[Row], probe: tuple[int, ...]
) -> list[Row]:
    """The rows that a join has to find."""
    _, number, x, y = probe
    found = [r for r in rows if form.key == "none" or r["k"] == form.key_of(number)]
    if when is None:
        return found
    # Of rows that are alike in their points, the first in the order of the columns.
    found = sorted(
        (r for r in found if r["p"] is not None),
        key=lambda r: (r["id"], r["k"] is not None, r["k"], r["p"]),
    )
    if isinstance(when, AsOf):
        points = {place: r["p"] for place, r in enumerate(found)}
        groups = nearest_groups(when, x, "long", points)
        return [found[place] for group in groups for place in sorted(group)][: when.n]
    holds = matcher(when, [x, y], "long")
    columns = when.table_columns
    found = [r for r in found if holds([order_or_none(r[name]) for name in columns])]
    if isinstance(when, Within) and when.take != "all":
        found.sort(key=lambda r: take_order(when, (r["p"], r["e"]), "long"))
        return found[:1]
    return found


@pytest.fixture(scope="module")
def layered(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[Form, Path, list[Row]]]:
    """A table of each form, and its rows; the tests only read it."""
    folder = tmp_path_factory.mktemp("layered")
    forms = [replace(form, real=True) for form in FORMS]
    return [(form, *changed(folder, form, number)) for number, form in enumerate(forms)]


@pytest.mark.in_turns("runtime", others="long")
def test_joins_and_scans_read_through_layers(
    spark: SparkSession, runtime: str, layered: list[tuple[Form, Path, list[Row]]]
) -> None:
    probes = spark.createDataFrame(PROBES, "n long, number long, x long, y long").coalesce(1)
    parts: list[DataFrame] = []
    wanted: Counter[tuple[Any, ...]] = Counter()
    for number, (form, path, rows) in enumerate(layered):
        table = BatchTable.open(path)
        key = {"text": "concat('key ', number)", "hashed": "number * 1000003"}
        stream = probes.withColumn("k", F.expr(key.get(form.key, "number")))
        on = [] if form.key == "none" else ["k"]
        kinds = CONDITIONS[form.ranged]
        # Each form meets two of them, and all are met in each runtime.
        first = number // 3 + (runtime == "jvm")
        for place in dict.fromkeys((first + more) % len(kinds) for more in (0, 4)):
            when, label = kinds[place], f"{form.key} {form.ranged} {place}"
            joined = table.join(stream, on, "left", when=when, select=["id", "v"])
            if isinstance(when, AsOf) and when.collect:
                joined = joined.selectExpr("n", "inline_outer(near)")
            parts.append(joined.select(F.lit(label), "n", "id", "v"))
            for probe in PROBES:
                found = matches(form, when, rows, probe) or [{"id": None, "v": None}]
                wanted.update((label, probe[0], row["id"], row["v"]) for row in found)
        if runtime == "jvm" and number % 2 == 0:
            scanned = table.to_df().where("v IS NULL OR v <> ''")
            parts.append(scanned.select(F.lit(f"scan {number}"), "seq", "id", "v"))
            wanted.update(
                (f"scan {number}", row["seq"], row["id"], row["v"])
                for row in rows
                if row["v"] != ""
            )
        if runtime == "jvm" and on and number % 2 == (form.ranged == "point"):
            there = table.to_df().withColumnRenamed("k", "key")
            for condition, when in PLAIN[form.ranged]:
                label = f"plain {number} {condition}"
                plain = stream.join(there, F.expr(f"k = key AND {condition}"))
                parts.append(plain.select(F.lit(label), "n", "id", "v"))
                wanted.update(
                    (label, probe[0], row["id"], row["v"])
                    for probe in PROBES
                    for row in matches(form, when, rows, probe)
                )
    found = Counter(tuple(row) for row in reduce(DataFrame.unionAll, parts).collect())
    assert found == wanted


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
