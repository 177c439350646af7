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
from tests.fuzz.values import COLLATED, KINDS

_PLACED = ("earliest_end", "shortest", "first")

CLOSED = ("both", "left", "right", "neither")


def condition(
    pools: Pools, probes: Sequence[tuple[str, str]], points: Sequence[tuple[str, str]], closed: str
) -> Any:
    """A condition on columns of both sides."""
    draw, names = pools.draw, [name for name, _ in points]
    if len(points) == 2:
        return of_intervals(draw, probes, names, closed)
    family = pools.ranged
    has_distance = family not in ("string", "binary")
    if has_distance and draw.random() < 0.5:
        return band(draw, family, probes[0][0], names[0])
    direction = draw.choice(["backward", "forward", *(["nearest"] * 2 if has_distance else [])])
    tolerance = None
    if has_distance and draw.random() < 0.4:
        tolerance = _width(draw, family, least=0)
    return AsOf(probes[0][0], names[0], direction, tolerance, draw.random() < 0.7)


def of_intervals(
    draw: random.Random, probes: Sequence[tuple[str, str]], names: Sequence[str], closed: str
) -> Any:
    """A condition on two columns of the table."""
    if draw.random() < 0.5:
        return Within(probes[0][0], *names, closed)
    return Overlaps((probes[0][0], probes[1][0]), tuple(names), closed)


def band(draw: random.Random, family: str, probe: str, point: str) -> Band:
    """A band that is not empty."""
    while True:
        before, after = _width(draw, family), _width(draw, family)
        try:
            return Band(probe, point, before, after, draw.choice(CLOSED))
        except ValueError:
            continue


def has_order(kind: str) -> bool:
    """Whether rows can be sorted by a column."""
    return kind != "map" and not kind.startswith(COLLATED)


def sorted_by(when: Any, columns: Sequence[tuple[str, str]], plain: bool) -> Any:
    """The condition, perhaps with an order of rows with the same point, or of all intervals."""
    # Of its own: other draws stay what they are.
    draw = random.Random(repr((when, columns)).replace(", n=1)", ")"))
    is_within = isinstance(when, Within)
    if not (is_within or isinstance(when, AsOf)) or draw.random() < 0.5:
        return when
    names = [name for name, kind in columns if has_order(kind)]
    ends = ["", " desc", " asc nulls last", " desc nulls first"]
    by = draw.sample(names, min(len(names), draw.choice([1, 1, 2])))
    order_by = [name + draw.choice(ends) for name in by]
    if not is_within:
        return replace(when, order_by=order_by)
    takes = ["earliest_end", "first", *["shortest"] * 3 * _has_lengths(when, columns, plain)]
    return replace(when, take=draw.choice(takes), order_by=order_by)


def served(when: Any, built: Any, columns: Sequence[tuple[str, str]], plain: bool) -> Any:
    """The condition as a table answers it that was built for another one."""
    draw = random.Random(repr((when, columns, "n")))
    order_by = built.order_by if chooses(built) else ()
    if isinstance(when, AsOf):
        when = replace(when, order_by=order_by)
        return when if draw.random() < 0.6 else replace(when, n=draw.choice([2, 2, 3, 100]))
    if isinstance(when, Overlaps):
        return related(draw, when, columns)
    if not isinstance(when, Within) or draw.random() < 0.3:
        return when
    takes = ["latest_start"]
    if getattr(built, "take", "") in _PLACED:
        takes += ["earliest_end", "first", *["shortest"] * 3 * _has_lengths(when, columns, plain)]
    return replace(when, take=draw.choice(takes), order_by=order_by)


def related(draw: random.Random, when: Overlaps, columns: Sequence[tuple[str, str]]) -> Overlaps:
    """The condition, mostly with another relation of the intervals, or a length that they share."""
    # Intervals that meet are found where the index has both ends.
    relations = ["overlaps", "contains", "within", "equals", *["meets"] * (when.closed == "both")]
    when = replace(when, relation=draw.choice(relations))
    kinds = [kind for name, kind in columns if name in (*when.stream, *when.batch)]
    family = KINDS[kinds[0]].family
    # Spark rounds a sum of more digits: an error at the call.
    has_lengths = family not in ("string", "binary") and all(KINDS[k].digits[1] < 6 for k in kinds)
    if not has_lengths or when.relation in ("equals", "meets") or draw.random() < 0.5:
        return when
    while (width := _width(draw, family, least=0)) == float("inf"):
        pass
    return replace(when, at_least=width)


def _has_lengths(when: Within, columns: Sequence[tuple[str, str]], plain: bool) -> bool:
    family = KINDS[dict(columns)[when.start_col]].family
    return family != "string" and not (plain and family == "binary")


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
