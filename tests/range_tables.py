"""Range joins with stored tables of any layout, for the tests of the pure core; no Spark."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
from range_answers import Row, order
from range_kinds import HIGH, KINDS, LOW, Kind, When
from stored_tables import put, store

from bsjoin import AsOf, Band, Overlaps, Within
from bsjoin.conditions import chooses
from bsjoin.plan import (
    JoinPlan,
    Predicate,
    StageColumn,
    StageJoin,
    StagePlan,
    StoredTable,
)
from bsjoin.planner.range_columns import needs_places
from bsjoin.runtimes.python.worker.batch_sizes import MOST_ROWS
from bsjoin.runtimes.python.worker.chain import joined
from bsjoin.storage import (
    RangeColumns,
    RunInfo,
    RunRows,
    SegmentForm,
    StorageLocation,
    versions,
    write_run,
    write_segment,
)
from bsjoin.storage.ties import Tie

HOWS = ("inner", "left", "semi", "anti")

KEYS, LACKING = "abcdef", "g"  # the last one is in no table
# What tells keys apart: their hashes alone, the ends of the type among them; hashes that two
# or three keys share, and the keys themselves; nothing, where all rows are one group.
HASHES: dict[str, list[int]] = {
    "hashes": [LOW, -5, -1, 0, 7, HIGH, 3],
    "keys": [LOW, LOW, -1, -1, HIGH, HIGH, -1],
    "nothing": [0] * 7,
}
_ROW = pa.struct([pa.field("c0", pa.int64()), pa.field("c1", pa.string())])


@dataclass(frozen=True, kw_only=True)
class Case:
    """A range join: both sides, the condition, and how the table is stored.

    Args:
        type: that of the range columns, of ``KINDS``.
        when: the condition.
        told_apart_by: what tells keys apart, of ``HASHES``.
        stream: the probes: k, p, x.
        table: the rows: k, q, y, in any order.
        seams: what lies between the rows of a hash and those before: "none"; "merged" for
            pieces of a segment that are merged; "segment" for two segments.
    """

    type: str
    when: When
    told_apart_by: str = "hashes"
    stream: Sequence[Row]
    table: Sequence[Row]
    seams: Sequence[str] = ("none", "merged", "segment", "merged", "segment")

    @property
    def kind(self) -> Kind:
        """The type of the range columns."""
        return KINDS[self.type]

    @property
    def on(self) -> list[str]:
        """The key columns."""
        return [] if self.told_apart_by == "nothing" else ["k"]

    @property
    def intervals(self) -> bool:
        """Whether the table holds intervals, not points."""
        return isinstance(self.when, Within | Overlaps)

    @property
    def sorted(self) -> list[Row]:
        """The rows of the table that can match, in the order in which they are stored."""
        compared = self.told_apart_by == "keys"
        able = [row for row in self.table if row["q"] is not None and self.hash(row) is not None]
        return sorted(able, key=lambda r: (self.hash(r), compared and r["k"], order(r["q"])))

    def hash(self, row: Row) -> int | None:
        """The hash of a row's key."""
        if self.on and row["k"] is None:
            return None
        return HASHES[self.told_apart_by][(KEYS + LACKING).index(row["k"] or LACKING)]


def stored(location: StorageLocation, case: Case) -> None:
    """Write a case's table as version 1; it brings the number of each row, and a text."""
    rows, compared = case.sorted, int(case.told_apart_by == "keys")
    hashes = np.array([case.hash(row) for row in rows], np.int64)
    keys = {"k": pa.array([row["k"] for row in rows], pa.string())} if compared else {}
    names = "qy" if case.intervals else "q"
    ranged = {name: pa.array([row[name] for row in rows], case.kind.arrow) for name in names}
    brought = {
        "n": pa.array(range(len(rows)), pa.int64()),
        "v": pa.array([f"row {n}" for n in range(len(rows))], pa.string()),
    }
    written = pa.table({**keys, **ranged, **brought})
    closed = case.when.closed if isinstance(case.when, Within | Overlaps) else None
    before = dict(zip(sorted(HASHES["hashes"][:6])[1:], case.seams, strict=True))
    cuts = [int(cut) for cut in np.flatnonzero(np.diff(hashes)) + 1]
    cuts = [cut for cut in cuts if before[int(hashes[cut])] != "none"]
    groups: list[list[RunInfo]] = []
    for start, end in itertools.pairwise([0, *cuts, len(rows)] if rows else []):
        if not start or before[int(hashes[start])] == "segment":
            groups.append([])
        name, piece = f"data/x/{start:06d}", written.slice(start, end - start)
        hashed = piece.add_column(0, "hash", [pa.array(hashes[start:end])])
        groups[-1].append(write_run(location, f"{name}.run", hashed))
    runs = [RunRows(location, group, written.schema) for group in groups]
    ordered = needs_places(case.when)
    number = Tie(compared + len(ranged), descending=True)
    ties = (number,) if chooses(case.when) and closed is not None else ()
    form = SegmentForm(compared, len(ranged), closed, ties, ordered)
    segments = tuple(
        write_segment(location, f"data/x/{i}", part.hashes, part, form)
        for i, part in enumerate(runs)
    )
    draft = store(location, [], pa.table({**keys, **brought}).slice(0, 0), compared=compared)
    columns = RangeColumns(
        tuple(names), (_type_name(case.kind.arrow),) * len(names), closed, ordered=ordered
    )
    put(location, replace(draft, segments=segments, ranged=columns), 1, 100)


def _type_name(dtype: pa.DataType) -> str:
    """The name of a type in Spark's JSON schemas."""
    if pa.types.is_decimal(dtype):
        return f"decimal({dtype.precision},{dtype.scale})"
    if pa.types.is_timestamp(dtype):
        return "timestamp" if dtype.tz else "timestamp_ntz"
    names = {pa.int64(): "long", pa.float64(): "double", pa.date32(): "date"}
    return names.get(dtype, str(dtype))


def _predicate(case: Case) -> Predicate:
    kind, when = case.kind, case.when
    if isinstance(when, Band):
        before, after = _width(when.before), _width(when.after)
        return Predicate(
            kind="band",
            floating=kind.floating,
            finer=kind.finer,
            before=before,
            after=after,
            closed=when.closed,
        )
    if isinstance(when, AsOf):
        return Predicate(
            kind="asof",
            floating=kind.floating,
            finer=kind.finer,
            direction=when.direction,
            tolerance=None if when.tolerance in (None, math.inf) else _width(when.tolerance),
            exact=when.exact,
            n=when.n,
        )
    name = "within" if isinstance(when, Within) else "overlaps"
    take = when.take if isinstance(when, Within) else "all"
    return Predicate(
        kind=name,  # type: ignore[arg-type]
        floating=kind.floating,
        finer=kind.finer,
        closed=when.closed,
        take=take,
    )


def _width(number: Any) -> Fraction | float:
    return number if isinstance(number, float) else Fraction(number)


def plan_of(location: StorageLocation, case: Case, how: str) -> StagePlan:
    """The plan of a case's join."""
    points = 2 if isinstance(case.when, Overlaps) else 1
    compared = int(case.told_apart_by == "keys")
    sent = [StageColumn(None, number) for number in range(3 + compared + points)]
    keys = versions.latest(location).keys
    plan = JoinPlan(
        label="1:k",
        how=how,
        table=StoredTable(location=location, epoch=100, version=1, keys=keys),
        predicate=_predicate(case),
        columns=("n", "v"),
        shape="rows",
        row_type=_ROW,
        reports=False,
    )
    key, probes = tuple(sent[3 : 3 + compared]), tuple(sent[-points:])
    join = StageJoin(plan=plan, hash=sent[2], key=key, probes=probes, clock=None)
    return StagePlan(stream_columns=2, joins=(join,))


def batches_of(case: Case, size: int) -> list[pa.RecordBatch]:
    """The stream as workers get it, some rows at a time; one batch is empty."""
    rows = case.stream
    numbers = pa.array(range(len(rows)), pa.int32())
    keys = pa.array([row["k"] for row in rows], pa.string())
    columns = [numbers, keys, pa.array([case.hash(row) for row in rows], pa.int64())]
    if case.told_apart_by == "keys":
        columns.append(keys)
    for name in "px" if isinstance(case.when, Overlaps) else "p":
        columns.append(pa.array([row[name] for row in rows], case.kind.probes.arrow))
    whole = pa.RecordBatch.from_arrays(columns, [f"c{i}" for i in range(len(columns))])
    return [whole.slice(at, size) for at in range(0, len(rows), size)] + [whole.slice(0, 0)]


def check(
    location: StorageLocation, case: Case, expected: list[list[int]], how: str, size: int
) -> None:
    """The rows of a join type are those that follow from the pairs."""
    brought = ["c0", "c1"] if how in ("inner", "left") else []
    found = list(joined(plan_of(location, case, how), iter(batches_of(case, size))))
    for batch in found:
        assert batch.schema.names == ["s0", "s1", *brought]
        assert 0 < batch.num_rows <= MOST_ROWS
        batch.validate(full=True)
    rows = [row for batch in found for row in zip(*(c.to_pylist() for c in batch), strict=True)]
    wanted: list[tuple[Any, ...]] = []
    for n, (probe, matches) in enumerate(zip(case.stream, expected, strict=True)):
        carried = n, probe["k"]
        if brought:
            wanted += [(*carried, row, f"row {row}") for row in matches]
            if how == "left" and not matches:
                wanted.append((*carried, None, None))
        elif bool(matches) == (how == "semi"):
            wanted.append(carried)
    many, few = Counter(rows) - Counter(wanted), Counter(wanted) - Counter(rows)
    assert not many, f"too many: {_described(case, how, next(iter(many)))}"
    assert not few, f"lacking: {_described(case, how, next(iter(few)))}"


def _described(case: Case, how: str, row: tuple[Any, ...]) -> str:
    """A row of the result by the values that make it, or do not."""
    number = row[2] if how in ("inner", "left") else None
    table = "no row" if number is None else case.sorted[number]
    return (
        f"{case.stream[row[0]]} with {table} ({case.type}, {case.when}, {how}, keys told apart by "
        f"{case.told_apart_by}, seams {case.seams})"
    )
