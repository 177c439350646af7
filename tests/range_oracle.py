"""Range joins by a nested loop: what the contract says, as plainly as it can be said."""

from __future__ import annotations

import math
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any

from bsjoin import AsOf, Band, Overlaps, Within

__all__ = ["matching"]

Row = dict[str, Any]


def matching(stream: list[Row], table: list[Row], on: list[str], when: Any) -> list[list[int]]:
    """For each row of the stream the numbers of the table's rows that match it."""
    found = []
    for left in stream:
        same = [
            number
            for number, right in enumerate(table)
            if all(left[key] is not None and _equal(left[key], right[key]) for key in on)
        ]
        if isinstance(when, AsOf):
            found.append(_nearest(left, [(n, table[n]) for n in same], when))
        else:
            found.append([n for n in same if _holds(left, table[n], when)])
    return found


def _equal(left: Any, right: Any) -> bool:
    return right is not None and (left == right or (left != left and right != right))


def _key(value: Any) -> Any:
    """Spark's order: NaN above all."""
    if isinstance(value, float) and math.isnan(value):
        return (1, 0.0)
    return (0, value)


def _inside(point: Any, start: Any, end: Any, closed: str) -> bool:
    low, high = closed in ("both", "left"), closed in ("both", "right")
    point, start = _key(point), _key(start)
    if point < start or (point == start and not low):
        return False
    return end is None or point < _key(end) or (point == _key(end) and high)


def _empty(start: Any, end: Any, closed: str) -> bool:
    if end is None:
        return False
    return _key(start) > _key(end) if closed == "both" else _key(start) >= _key(end)


def _holds(left: Row, right: Row, when: Any) -> bool:
    if isinstance(when, Within):
        point, start = left[when.stream_col], right[when.start_col]
        end = right[when.end_col]
        if point is None or start is None or _empty(start, end, when.closed):
            return False
        return _inside(point, start, end, when.closed)
    if isinstance(when, Overlaps):
        (a, b), (c, d) = (left[n] for n in when.stream), (right[n] for n in when.batch)
        if a is None or c is None or _empty(a, b, when.closed) or _empty(c, d, when.closed):
            return False
        touching = when.closed == "both"

        def before(start: Any, end: Any) -> bool:
            if end is None:
                return True
            return _key(start) < _key(end) or (touching and _key(start) == _key(end))

        return before(a, d) and before(c, b)
    assert isinstance(when, Band)
    point, value = left[when.stream_col], right[when.batch_col]
    if point is None or value is None:
        return False
    low, high = _minus(point, when.before), _plus(point, when.after)
    return _inside(value, low, high, when.closed)


def _width(width: Any, like: Any) -> Any:
    if isinstance(like, date | datetime):
        if isinstance(width, str):
            number, unit = width.split()
            return timedelta(**{unit.removesuffix("s") + "s": float(number)})
        return width if isinstance(width, timedelta) else timedelta(seconds=width)
    return Decimal(str(width)) if isinstance(like, Decimal) else width


def _plus(value: Any, width: Any) -> Any:
    return value + _width(width, value)


def _minus(value: Any, width: Any) -> Any:
    return value - _width(width, value)


def _nearest(left: Row, rows: list[tuple[int, Row]], when: AsOf) -> list[int]:
    """The numbers of all rows that may be chosen: those with the nearest value."""
    point = left[when.stream_col]
    if point is None:
        return []
    values = {row[when.batch_col] for _, row in rows} - {None}
    allowed = []
    for value in values:
        if value == point and not when.exact:
            continue
        if when.direction == "backward" and value > point:
            continue
        if when.direction == "forward" and value < point:
            continue
        if when.tolerance is not None and abs(value - point) > _width(when.tolerance, point):
            continue
        allowed.append(value)
    if not allowed:
        return []
    if when.direction == "nearest":
        best = min(allowed, key=lambda value: (abs(value - point), value))
    else:
        best = max(allowed) if when.direction == "backward" else min(allowed)
    return [n for n, row in rows if row[when.batch_col] == best]
