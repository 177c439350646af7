"""Drawing further conditions on ranges: of tables whose rows are boxes, and of joins.

They are drawn by themselves: the rest of a round is the same with and without them.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Any

from bsjoin import Overlaps
from bsjoin.conditions import chooses
from bsjoin.planner.contradictions import excluding
from tests.fuzz.case import Columns, Condition, Join, Row, Table
from tests.fuzz.draw.conditions import CLOSED, band, of_intervals, related
from tests.fuzz.draw.matching import searches
from tests.fuzz.values import KINDS

_KINDS = (
    "byte", "short", "int", "long", "decimal(4,1)", "decimal(10,2)", "float", "double", "date",
    "timestamp", "timestamp_ntz",
)  # fmt: skip
"""The types of columns that have codes of 64 bits, and to which Spark adds widths exactly."""


def boxes(columns: Columns, keys: Sequence[str], when: Any) -> tuple[Condition, ...]:
    """One or two further ranges of a table; often none."""
    draw, kinds = random.Random(repr((columns, when, "boxes"))), dict(columns)
    if when is None or chooses(when) or draw.random() < 0.2:
        return ()
    first = {kinds[name] for name in when.table_columns}
    if len(first) > 1 or not first.issubset(_KINDS):  # two types may need more digits together
        return ()
    found = []
    for _ in range(draw.choice([1, 1, 2])):
        points = _points(draw, columns, [*keys, *when.table_columns])
        if points:
            probes = [("p", points[0][1])] * 2
            made = _condition(draw, probes, points, _closed(draw, points))
            if not _is_excluded(made, [when, *found], kinds):
                found.append(made)
    return tuple(found)


def many_of_a_key(rows: tuple[Row, ...], keys: Sequence[int]) -> tuple[Row, ...]:
    """The rows, and so many more of one key that a segment has an index of boxes."""
    draw = random.Random(repr(rows))
    whole = [row for row in rows if None not in [row[i] for i in keys]]
    if not whole or draw.random() < 0.2:
        return rows
    one, columns = draw.choice(whole), list(zip(*rows, strict=True))
    more = (
        tuple(one[i] if i in keys else draw.choice(values) for i, values in enumerate(columns))
        for _ in range(draw.choice([90, 130]))
    )
    return (*rows, *more)


def also(join: Join, table: Table, columns: Columns) -> tuple[Condition, ...]:
    """Further conditions of a join: those of the table's boxes, or any."""
    draw, kinds = random.Random(repr((join, columns, "also"))), dict(table.columns)
    when: Any = join.when
    if when is None or getattr(when, "agg", ()) or getattr(when, "collect", None):
        return ()
    ranges: list[tuple[Columns, str]] = []
    if table.boxes and draw.random() < 0.9:
        for one in table.boxes:
            points = tuple((name, kinds[name]) for name in one.table_columns)
            ranges.append((points, getattr(one, "closed", "both")))
    elif draw.random() < 0.2:
        # By its first range the table is searched, whatever stands first in the list.
        points = _points(draw, table.columns, [*table.keys, *when.table_columns])
        ranges += [(points, _closed(draw, points))] if points else []
    found: list[Condition] = []
    for points, closed in ranges:
        suit = [c for c in columns[1:] if c[1] in _KINDS and searches([c[1]], points, closed)]
        if suit:
            one = draw.choice(suit)
            others = [c for c in suit if searches([one[1], c[1]], points, closed)]
            made = _condition(draw, [one, draw.choice(others)], points, closed)
            if isinstance(made, Overlaps):
                made = related(draw, made, (*table.columns, *columns))
            if not _is_excluded(made, [when, *found], kinds):
                found.append(made)
    return tuple(found)


def _is_excluded(one: Any, others: Sequence[Any], kinds: Mapping[str, str]) -> bool:
    """Whether a condition cannot hold together with others: such lists are refused."""

    def typed(when: Any) -> tuple[Condition, bool]:
        return when, KINDS[kinds[when.table_columns[0]]].family == "floating"

    return bool(excluding([*map(typed, others), typed(one)]))


def _points(draw: random.Random, columns: Columns, used: Sequence[str]) -> Columns:
    """A column of the table, or two; none if there is none."""
    suit = [column for column in columns if column[0] not in used and column[1] in _KINDS]
    if not suit:
        return ()
    one = draw.choice(suit)
    others = [column for column in suit if column != one and column[1] == one[1]]
    return (one, draw.choice(others)) if others and draw.random() < 0.7 else (one,)


def _closed(draw: random.Random, points: Columns) -> str:
    # Without an end, a start of 2^63 - 1 that does not belong to it is a known hole.
    is_long = any(kind == "long" for _, kind in points)
    return draw.choice(["both", "left"] if is_long else CLOSED)


def _condition(
    draw: random.Random, probes: Sequence[tuple[str, str]], points: Columns, closed: str
) -> Any:
    if len(points) == 2:
        return of_intervals(draw, probes, [name for name, _ in points], closed)
    return band(draw, KINDS[points[0][1]].family, probes[0][0], points[0][0])
