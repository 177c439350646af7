"""Any sequence of changes, compactions, refreshes and vacuums: joins find what a build would have.

At each version that a replay can ask for, in both runtimes, with all conditions and join types.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from layer_samples import COLUMNS, FORMS, IDENTITIES, Change, Form, Row, Sample
from oracle import one_part, united
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from sessions import CODE, configured

from bsjoin import AsOf, Band, BatchTable, Overlaps, Within
from bsjoin.build import apply as applying
from bsjoin.conditions import Condition
from bsjoin.storage import Manifest, StorageLocation, versions
from bsjoin.storage.layers.change_set import DELETE
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
        Band("x", "p", before=2, after=0, agg={"many": "count(*)", "last": "max(seq)"}),
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
RUNTIMES = ("jvm", "python")
NOTHING: Row = dict.fromkeys(COLUMNS.names)
_STEPS, _KEPT = 7, 4


@dataclass
class Changing(Sample):
    """A table that is built and changed by jobs of Spark, as users do."""

    spark: SparkSession = field(kw_only=True)
    batches: int = 0

    @property
    def table(self) -> BatchTable:
        return BatchTable.open(self.location.url)

    def build(self, rows: list[Row]) -> Manifest:
        df = self.spark.createDataFrame(pa.Table.from_pylist(rows, self.form.columns))
        self.rows = rows
        if versions.numbers(self.location):
            self.table.refresh(df)
        else:
            # One that takes one of several intervals needs their order, which serves all others.
            when = CONDITIONS[self.form.ranged][-1 if self.form.ranged == "interval" else 0]
            path, size = self.location.url, self.segment_bytes
            BatchTable.build(df, on=[*self.form.keys], when=when, path=path, segment_bytes=size)
        return versions.latest(self.location)

    def apply(self, changes: Sequence[Change]) -> Manifest:
        """Of rows that are deleted some have no more than has to be there."""
        needed = {*(self.identity or self.form.keys), *(["seq"] if self.ordered else [])}
        records = []
        for kind, row, order in changes:
            if kind == DELETE and self.draw.random() < 0.5:
                row = {name: row[name] for name in needed}
            records.append(row | {"op": "d" if kind == DELETE else "u", "at": order})
        schema = pa.schema([*self.form.columns, ("op", pa.string()), ("at", pa.int64())])
        df = one_part(self.spark, pa.Table.from_pylist(records, schema))
        self.batches += 1
        batch = self.draw.choice([None, ("changes", self.batches)])
        key, sequence = self.identity, "seq" if self.ordered else "at"
        for _ in range(2 if batch else 1):  # what runs again is applied once
            number = self.table.apply(df, key=key, sequence=sequence, batch=batch, retain=None)
        self.model(changes)
        assert versions.latest(self.location).version == number
        return versions.latest(self.location)

    def compact(self, meanwhile: int = 0) -> Manifest:
        original, left = applying.compacted, [meanwhile]

        def then_changes(*args: Any, **options: Any) -> Any:
            base = original(*args, **options)
            while left[0]:
                left[0] -= 1
                self.apply(self.changes(4))
            return base

        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(applying, "compacted", then_changes)
            self.table.compact()
        return versions.latest(self.location)

    def vacuum(self, keep: int) -> list[int]:
        return self.table.vacuum(keep=keep, older_than=0)


# -- joins -----------------------------------------------------------------------------------------


@dataclass
class Look:
    """A join of one version, planned.

    Args:
        version: the version.
        df: its rows, each with a label that no other join has.
        rows: those that it has to have.
    """

    version: int
    df: DataFrame
    rows: Counter[tuple[Any, ...]]


def matches(form: Form, when: Condition | None, rows: list[Row], probe: Row) -> list[Row]:
    """The rows that a join has to find."""
    key = form.key_of(probe)
    found = [row for row in rows if None not in key and form.key_of(row) == key]
    if when is None:
        return found
    if probe["x"] is None:
        return []
    # Of rows that are alike in their points, the first in the order of the columns.
    found = sorted(
        (row for row in found if row["p"] is not None),
        key=lambda row: [(row[name] is not None, row[name]) for name in COLUMNS.names],
    )
    if isinstance(when, AsOf):
        points = {place: row["p"] for place, row in enumerate(found)}
        groups = nearest_groups(when, probe["x"], "long", points)
        return [found[place] for group in groups for place in sorted(group)][: when.n]
    holds = matcher(when, [probe["x"], probe["y"]], "long")
    columns = when.table_columns
    found = [row for row in found if holds([order_or_none(row[name]) for name in columns])]
    if isinstance(when, Within) and when.take != "all":
        found.sort(key=lambda row: take_order(when, (row["p"], row["e"]), "long"))
        return found[:1]
    return found


def probes_of(sample: Sample) -> list[Row]:
    """Rows of a stream: keys that are there or not, and null."""
    found = []
    for number in range(28):
        x = sample.draw.choice([None, *range(-1, 9), *range(-1, 9)])
        y = None if x is None else sample.draw.choice([None, x, x + 2, x + 3, x - 1])
        row: Row = {"n": number, "x": x, "y": y} | sample.form.values(number // 2)
        if sample.form.keys and sample.draw.random() < 0.05:
            row[sample.draw.choice(sample.form.keys)] = None
        found.append(row)
    return found


def stream_of(spark: SparkSession, form: Form, probes: Sequence[Row]) -> DataFrame:
    keys = [form.columns.field(name) for name in form.keys]
    schema = pa.schema([*keys, *((name, pa.int64()) for name in ("n", "x", "y"))])
    return one_part(spark, pa.Table.from_pylist(list(probes), schema))


def join(spark: SparkSession, sample: Sample, place: int, runtime: str, label: str) -> Look:
    """A join of the newest version, with one of the conditions."""
    kinds, probes = CONDITIONS[sample.form.ranged], probes_of(sample)
    when = kinds[place % len(kinds)]
    counts = isinstance(when, Band) and bool(when.agg)
    collects = isinstance(when, AsOf) and when.collect is not None
    is_one_row = counts or collects
    how = sample.draw.choice(["inner", "left", *([] if is_one_row else ["semi", "anti"])])
    columns = ["id", "p", "v"]
    options = {"select": columns} if how in ("inner", "left") and not counts else {}
    table = BatchTable.open(sample.location.url)
    with configured(spark, {"spark.bsjoin.runtime": runtime}):
        stream = stream_of(spark, sample.form, probes)
        df = table.join(stream, [*sample.form.keys], how, when=when, **options)
    if collects:
        df = df.selectExpr("n", "inline_outer(near)")
    elif not options:
        columns = ["many", "last", "NULL"] if counts else ["NULL"] * 3
    wanted: Counter[tuple[Any, ...]] = Counter()
    for probe in probes:
        found = matches(sample.form, when, sample.rows, probe)
        if counts and (found or how == "left"):
            last = max((row["seq"] for row in found), default=None)
            found = [{"id": len(found), "p": last, "v": None}]
        elif how == "left":
            found = found or [NOTHING]
        elif how in ("semi", "anti"):
            found = [NOTHING] if bool(found) == (how == "semi") else []
        wanted.update((label, probe["n"], row["id"], row["p"], row["v"]) for row in found)
    return Look(versions.latest(sample.location).version, shown(df, label, "n", *columns), wanted)


def shown(df: DataFrame, label: str, *columns: str) -> DataFrame:
    types = zip(columns, ("long", "long", "long", "string"), strict=True)
    return df.selectExpr(f"'{label}'", *(f"CAST({name} AS {one})" for name, one in types))


def scan(spark: SparkSession, sample: Sample, label: str) -> list[Look]:
    """A scan, and a plain join; they read the version that is the newest when they run."""
    form, there = sample.form, BatchTable.open(sample.location.url).to_df(spark)
    newest = versions.latest(sample.location)
    sample.check_counts(newest, sample.rows)
    df = shown(there.where("v IS NULL OR v <> ''"), f"scan {label}", "seq", "id", "p", "v")
    rows = [row for row in sample.rows if row["v"] != ""]
    wanted = Counter(
        (f"scan {label}", *(row[name] for name in ("seq", "id", "p", "v"))) for row in rows
    )
    looks = [Look(newest.version, df, wanted)]
    if form.keys:
        condition, when = sample.draw.choice(PLAIN[form.ranged])
        probes = probes_of(sample)
        there = there.withColumnsRenamed({name: f"b_{name}" for name in form.keys})
        on = [*(f"{name} = b_{name}" for name in form.keys), condition]
        plain = stream_of(spark, form, probes).join(there, F.expr(" AND ".join(on)))
        wanted = Counter(
            (f"plain {label}", probe["n"], row["id"], row["p"], row["v"])
            for probe in probes
            for row in matches(form, when, sample.rows, probe)
        )
        looks.append(
            Look(newest.version, shown(plain, f"plain {label}", "n", "id", "p", "v"), wanted)
        )
    return looks


def check(spark: SparkSession, looks: Sequence[Look], *, code: bool = False) -> None:
    """All of them, by one action, perhaps with code that Spark generates.

    Of layers few keys are asked at once, then more than they have: the latter make an index.
    """
    settings = {"spark.sql.execution.arrow.maxRecordsPerBatch": "5"}
    if code:
        settings |= dict.fromkeys(CODE["python"], "true")
        settings |= {"spark.sql.codegen.factoryMode": "FALLBACK"}
    with configured(spark, settings):
        found = Counter(tuple(row) for row in united([look.df for look in looks]).collect())
    wanted = sum((look.rows for look in looks), Counter())
    assert (found - wanted, wanted - found) == (Counter(), Counter())


# -- sequences -------------------------------------------------------------------------------------


@pytest.mark.parametrize("code", [False, pytest.param(True, marks=pytest.mark.long)])
def test_joins_and_scans_read_through_layers(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: bool
) -> None:
    """Each kind of table in both runtimes, in one at its newest version, in one at an older one.

    A compaction comes between, while which changes absorb layers; above it each has its own.
    """
    absorbed = partial(monkeypatch.setattr, "bsjoin.storage.layers.applying._ABSORBED")
    looks = []
    for number, form in enumerate(replace(form, real=True) for form in FORMS):
        identity = form.told_by(IDENTITIES[number % len(IDENTITIES)])
        location, draw = StorageLocation.of(tmp_path / str(number)), random.Random(number + code)
        sample = Sample(location, form, identity, bool(number % 2), draw, 1 << 12)
        sample.begin()
        for time in range(2):
            absorbed(999 * time)
            sample.compact(number // 2 % 2 * 2) if time else sample.step()
            absorbed(0)
            sample.apply(sample.changes(6))
            kind = number // 3 + 2 * time  # over both times each runtime meets all kinds
            for place, runtime in enumerate(RUNTIMES):
                if code or (number + time + place) % 2:
                    label = f"{number} {time} {runtime}"
                    looks.append(join(spark, sample, kind + 3 * place, runtime, label))
        if code or number % 2:
            looks += scan(spark, sample, f"{number}")
    check(spark, looks, code=code)


CASES = [
    pytest.param(form, identity, id=f"{form.key}{form.ranged}-{'-'.join(identity) or 'replace'}")
    for form in FORMS
    for identity in dict.fromkeys(map(form.told_by, IDENTITIES))
]


@pytest.mark.long
@pytest.mark.parametrize(("form", "identity"), CASES)
def test_any_sequence_equals_a_build(
    spark: SparkSession,
    request: pytest.FixtureRequest,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    form: Form,
    identity: tuple[str, ...],
) -> None:
    """At each step a join of the newest version, and one of an older one, planned before."""
    monkeypatch.setattr("bsjoin.options._SMALLEST_SEGMENT", 1)
    draw = random.Random(f"{request.config.option.hypothesis_seed} {form} {identity}")
    location, ordered = StorageLocation.of(tmp_path / "table"), draw.random() < 0.5
    size = draw.choice([1 << 12, 1 << 30])
    sample = Changing(location, form, identity, ordered, draw, size, spark=spark)
    first, looks = draw.randrange(6), list[Look]()
    sample.begin()
    for step in range(_STEPS):
        newest = [
            join(spark, sample, first + step + 3 * place, runtime, f"{step} {runtime}")
            for place, runtime in enumerate(RUNTIMES)
        ]
        there = versions.numbers(location)
        older = [look for look in looks if look.version in there]
        chosen = draw.sample(older, min(2, len(older)))
        check(spark, [*newest, *chosen, *scan(spark, sample, f"{step}")], code=draw.random() < 0.3)
        looks = [*older, *newest]
        monkeypatch.setattr("bsjoin.storage.layers.applying._ABSORBED", draw.choice([0, 1, 4, 999]))
        monkeypatch.setattr("bsjoin.storage.layers.applying.MOST_LAYERS", draw.choice([1, 3, 8]))
        sample.step()
        if draw.random() < 0.2:
            sample.vacuum(_KEPT)
    there = versions.numbers(location)
    check(spark, [look for look in looks if look.version in there])
    for number in there:
        versions.verify(location, versions.load(location, number))
