"""Drawing conditions on ranges."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from typing import Any

from bsjoin import AsOf, Band, Overlaps, Within
from tests.fuzz.draw.pools import Pools

__all__ = ["CLOSED", "condition", "several", "sorted_by"]

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
    """The condition, an as-of join perhaps with an order of rows with the same point."""
    # Of its own: other draws stay what they are.
    draw = random.Random(repr((when, columns)).replace(", n=1)", ")"))
    if not isinstance(when, AsOf) or draw.random() < 0.5:
        return when
    names = [name for name, kind in columns if kind != "map"]
    ends = ["", " desc", " asc nulls last", " desc nulls first"]
    by = draw.sample(names, min(len(names), draw.choice([1, 1, 2])))
    return replace(when, order_by=[name + draw.choice(ends) for name in by])


def several(when: Any, columns: Sequence[tuple[str, str]]) -> Any:
    """The condition, an as-of join perhaps for several rows."""
    draw = random.Random(repr((when, columns, "n")))
    if not isinstance(when, AsOf) or draw.random() < 0.6:
        return when
    return replace(when, n=draw.choice([2, 2, 3, 100]))


def _width(draw: random.Random, family: str, least: int = -3) -> Any:
    n = draw.choice([least, 0, 0, 1, 2, 5, 30])
    if family == "date":
        return draw.choice([timedelta(days=n), f"{n} days"] if n >= 0 else [timedelta(days=n)])
    if family in ("timestamp", "timestamp_ntz"):
        texts = [f"{n} seconds", f"{n} hours"] if n >= 0 else []
        return draw.choice([timedelta(microseconds=n), timedelta(minutes=30 * n), n, *texts])
    if draw.random() < 0.05:
        return float("inf")
    others = [Decimal(n) / 4, n + 0.3] if n >= 0 else [Decimal(n) / 2]
    return draw.choice([n, n, *others])
