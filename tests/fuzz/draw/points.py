"""Points of ranges: two in order, and some near another one."""

from __future__ import annotations

import random
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

from tests.fuzz.case import Columns, Row
from tests.fuzz.values import KINDS, fits, middle, order


def in_order(draw: random.Random, row: Row, columns: Columns, first: int, second: int) -> Row:
    """The row, whose two points are mostly the beginning and the end of an interval."""
    low, high = row[first], row[second]
    if None in (low, high) or order(low) <= order(high) or draw.random() < 0.15:
        return row
    swapped = {first: high, second: low}
    for at, value in swapped.items():
        kind = columns[at][1]
        exact = KINDS[kind].family == "exact"
        swapped[at] = fits(kind, Decimal(value) if exact else value)
    if None in swapped.values():
        return row
    return tuple(swapped.get(i, value) for i, value in enumerate(row))


def near(draw: random.Random, value: Any, values: Sequence[Any], kind: str) -> Any:
    """A point at a value, between it and the next one, or a fraction of one away from it."""
    exact = KINDS[kind].family == "exact"
    if KINDS[kind].family in ("string", "binary"):
        return value
    value = Decimal(value) if exact else value
    how = draw.random()
    if how < 0.4:  # of these two, neither is nearer
        others = [Decimal(v) if exact else v for v in values if v is not None]
        later = [other for other in others if other > value]
        if later:
            between = middle(value, min(later))
            if between is not None and (found := fits(kind, between)) is not None:
                return found
    elif how < 0.7 and exact:
        last = Decimal(1).scaleb(-KINDS[kind].digits[1])  # of what a table has fewer digits for
        away = draw.choice([*map(Decimal, ("0.5", "-0.5", "0.25", "0.1", "-0.01")), last, -last])
        if (found := fits(kind, value + away)) is not None:
            return found
    return fits(kind, value)
