"""Which columns of the stream a join can take."""

from __future__ import annotations

from collections.abc import Sequence

from tests.fuzz.case import Columns, Table
from tests.fuzz.draw.pools import POINTS
from tests.fuzz.values import KINDS, MAX_DIGITS, comparable, together


def compare(stream: str, table: str) -> bool:
    """Whether columns of two types can be equal."""
    return KINDS[stream].family != "carried" and comparable(stream, table)


def no_points(columns: Columns) -> list[int]:
    """The columns of the stream that are no points."""
    return [i for i, (name, _) in enumerate(columns) if name[0] != POINTS[0]]


def places(table: Table, columns: Columns, free: Sequence[int]) -> list[int] | None:
    """Of columns of the stream the first that suits each key; None if one has none."""
    kinds, found = dict(table.columns), list[int]()
    for key in table.keys:
        suit = (i for i in free if i not in found and compare(columns[i][1], kinds[key]))
        place = next(suit, None)
        if place is None:
            return None
        found.append(place)
    return found


def searches(stream: Sequence[str], points: Columns, closed: str) -> bool:
    """Whether bsjoin searches a table's columns for columns of the stream."""
    kinds = [*stream, *(kind for _, kind in points)]
    if any(KINDS[k].family == "carried" or not comparable(k, kinds[-1]) for k in kinds):
        return False
    if KINDS[kinds[-1]].family != "exact":
        return True
    stored = [kind for _, kind in points]
    if not any(kind.startswith("decimal") for kind in stored):
        stored = ["long"]
        wide = any(kind.startswith("decimal") and KINDS[kind].digits[0] > 18 for kind in stream)
        if wide and len(points) == 2 and closed != "left":
            return False
    return together([*stream, *stored]) <= MAX_DIGITS and together([*kinds, *stored]) <= MAX_DIGITS
