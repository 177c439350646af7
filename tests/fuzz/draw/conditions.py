"""Drawing conditions on ranges."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from typing import Any

from bsjoin import AsOf, Band, Overlaps, Within
from bsjoin.conditions import chooses
from tests.fuzz.draw.pools import Pools

__all__ = ["CLOSED", "condition", "served", "sorted_by"]

_PLACED = ("earliest_end", "shortest", "first")

CLOSED = ("both", "left", "right", "neither")


def condition(
    pools: Pools, probes: Sequence[tuple[str, str]], points: Sequence[tuple[str, str]], closed: str
) -> Any:
    """A condition on columns of both sides."""
    draw, names = pools.draw, [name for name, _ in points]
    if len(points) == 2:
        if draw.random() < 0.5:
            return Within(probes[0][0], *names, closed)
        return Overlaps((probes[0][0], probes[1][0]), tuple(names), closed)
    family = pools.ranged
    has_distance = family not in ("string", "binary")
    if has_distance and draw.random() < 0.5:
        while True:
            before, after = _width(draw, family), _width(draw, family)
            try:
                return Band(probes[0][0], names[0], before, after, draw.choice(CLOSED))
            except ValueError:
                continue
    direction = draw.choice(["backward", "forward", *(["nearest"] * 2 if has_distance else [])])
    tolerance = None
    if has_distance and draw.random() < 0.4:
        tolerance = _width(draw, family, least=0)
    return AsOf(probes[0][0], names[0], direction, tolerance, draw.random() < 0.7)


def sorted_by(when: Any, columns: Sequence[tuple[str, str]]) -> Any:
    """The condition, perhaps with an order of rows with the same point, or of all intervals."""
    # Of its own: other draws stay what they are.
    draw = random.Random(repr((when, columns)).replace(", n=1)", ")"))
    is_within = isinstance(when, Within)
    if not (is_within or isinstance(when, AsOf)) or draw.random() < 0.5:
        return when
    names = [name for name, kind in columns if kind != "map"]
    ends = ["", " desc", " asc nulls last", " desc nulls first"]
    by = draw.sample(names, min(len(names), draw.choice([1, 1, 2])))
    order_by = [name + draw.choice(ends) for name in by]
    if not is_within:
        return replace(when, order_by=order_by)
    takes = ["earliest_end", "first", *["shortest"] * 3 * _has_lengths(when, columns)]
    return replace(when, take=draw.choice(takes), order_by=order_by)


def served(when: Any, built: Any, columns: Sequence[tuple[str, str]]) -> Any:
    """The condition as a table that was built for another one answers it: for several rows, or one.

    Args:
        when: the condition.
        built: that of the table.
        columns: of the table.
    """
    draw = random.Random(repr((when, columns, "n")))
    order_by = built.order_by if chooses(built) else ()
    if isinstance(when, AsOf):
        when = replace(when, order_by=order_by)
        return when if draw.random() < 0.6 else replace(when, n=draw.choice([2, 2, 3, 100]))
    if not isinstance(when, Within) or draw.random() < 0.3:
        return when
    takes = ["latest_start"]
    if getattr(built, "take", "") in _PLACED:
        takes += ["earliest_end", "first", *["shortest"] * 3 * _has_lengths(when, columns)]
    return replace(when, take=draw.choice(takes), order_by=order_by)


def _has_lengths(when: Within, columns: Sequence[tuple[str, str]]) -> bool:
    return dict(columns)[when.start_col] not in ("string", "binary")


def _width(draw: random.Random, family: str, least: int = -3) -> Any:
    n = draw.choice([least, 0, 0, 1, 2, 5, 30])
    if family == "date":
        return draw.choice([timedelta(days=n), f"{n} days"] if n >= 0 else [timedelta(days=n)])
    if family in ("timestamp", "timestamp_ntz"):
        texts = [f"{n} seconds", f"{n} hours", f"{n} days"] if n >= 0 else []
        return draw.choice([timedelta(microseconds=n), timedelta(minutes=30 * n), n, *texts])
    if draw.random() < 0.05:
        return float("inf")
    others = [Decimal(n) / 4, n + 0.3] if n >= 0 else [Decimal(n) / 2]
    return draw.choice([n, n, *others])
