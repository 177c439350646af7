"""What a round draws values from: types, names, and few values of each, so that keys meet."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from decimal import Decimal
from functools import partial
from typing import Any
from unicodedata import normalize

from tests.fuzz.case import Columns, Row
from tests.fuzz.collisions import EXTREMES, TEXTS, partner, second_of_pair
from tests.fuzz.networks import ENDS, ends_of, texts
from tests.fuzz.values import (
    CARRIED,
    COLLATED,
    COLLATIONS,
    FAMILIES,
    KINDS,
    RANGED,
    carried,
    dense,
    fits,
    pool,
)

INTEGERS = ("byte", "short", "int", "long")
_NARROW = ("short", "int", "decimal(4,1)", "decimal(10,2)")
"""Together they have few digits: ranges of them are searched in the JVM."""
POINTS = ("p", "r")
"""What the names of range columns begin with, of the stream and of tables."""
NULLS = (0, 0.1, 0.1, 0.4)
"""The share of nulls in a column is one of these."""
_OFTEN = {"exact": 6, "floating": 4, "string": 2, "int": 3, "long": 3}
"""Families and kinds that are drawn more often than others."""


class Pools:
    """The types and values of a round.

    Args:
        draw: of the round.
        plain: whether it has the kinds of joins alone that are drawn in all rounds.
    """

    def __init__(self, draw: random.Random, plain: bool = True):
        self.draw, self.plain = draw, plain
        # Few families: so keys of later joins come from earlier ones.
        drawn = draw.choices(sorted(FAMILIES), [_OFTEN.get(f, 1) for f in sorted(FAMILIES)], k=3)
        self.families = list(dict.fromkeys(drawn))[: draw.choice([1, 2, 2, 3])]
        if self.families == ["boolean"]:
            self.families = ["boolean", "exact"]
        self.pools = {
            family: pool(draw, family, draw.choice([2, 5, 12, 40])) for family in FAMILIES
        }
        self.refused = False
        if not plain:
            self._collate()
            self._network()
        self.pair: tuple[str, Row, Row] | None = None
        if draw.random() < 0.4:
            self._collide()
        self.ranged = draw.choice([f for f in self.families if f in RANGED])
        if "network" in self.pools:
            self.ranged = "binary"
        self.point_kinds = FAMILIES[self.ranged]
        if draw.random() < 0.7:  # so that both sides of a condition often have types of one group
            wide = [kind for kind in self.point_kinds if KINDS[kind].digits[0] >= 20]
            integers = [kind for kind in self.point_kinds if kind in INTEGERS]
            narrow = [kind for kind in self.point_kinds if kind in _NARROW]
            few = draw.sample(self.point_kinds, min(2, len(self.point_kinds)))
            self.point_kinds = draw.choice([few, wide, integers, narrow]) or few
        for _ in range(draw.choice([1, 5])):  # points that all of these types have
            self.points = dense(draw, self.ranged, draw.choice([5, 15, 30]))
            fitting = _fitting(self.point_kinds, self.points)
            if len(fitting) == len(self.point_kinds):
                break
        self.point_kinds = fitting
        self.kinds = {family: _fitting(FAMILIES[family], self.pools[family]) for family in FAMILIES}
        self.kinds |= {kind: [kind] for kind in self.pools if kind not in FAMILIES}
        self.names = 0

    def _collate(self) -> None:
        """Add texts with a collation, often ones that are equal by some: in every third round."""
        draw = self.draw
        if draw.random() < 0.65:
            return
        kind, values = COLLATED + draw.choice(COLLATIONS), self.pools["string"]
        forms = [str.upper, str.lower, str.swapcase, "{} ".format, "{}\x00".format]
        forms += [partial(normalize, form) for form in ("NFC", "NFD")]
        alike = [draw.choice(forms)(draw.choice(values)) for _ in range(len(values))]
        self.pools[kind] = [*values, *alike, *draw.sample(["e", "E", "\xe9", "\xc9"], 2)]
        rest = [family for family in self.families if family != "string"]
        self.families = [kind, *(rest if {*rest} & {*RANGED} else ["exact"])]

    def _network(self) -> None:
        """Add texts of networks, whose ends are the points of ranges: in every fourth round."""
        if self.draw.random() < 0.75:
            return
        self.refused = self.draw.random() < 0.7
        found = texts(self.draw, self.draw.choice([5, 20]), refused=self.refused)
        self.pools["network"] = found
        self.pools["binary"] += [end for text in found[:5] for end in ends_of(text) or ()]
        self.families = [*self.families, "binary"]

    def _collide(self) -> None:
        """Add values that make different keys of one hash."""
        draw, pools = self.draw, self.pools
        pools["string"] += TEXTS[:2] if draw.random() < 0.5 else TEXTS[2:]
        pools["binary"] += map(partner, draw.sample(pools["binary"], 1))
        pools["exact"] += map(Decimal, draw.sample(EXTREMES, draw.choice([0, 4])))
        # As the parts of a key, first and last: (first, number) and (second, the one here).
        family = draw.choice(["exact", "string", "binary"])
        first, second = draw.sample(
            [fits("long", v) if family == "exact" else v for v in pools[family]], 2
        )
        longs = [n for n in (fits("long", v) for v in pools["exact"]) if n is not None]
        if longs and first is not None and second is not None:
            long = draw.choice(longs)
            other = second_of_pair(first, long, second)
            pools["exact"].append(Decimal(other))
            self.pair = ("long" if family == "exact" else family), (first, long), (second, other)
            self.families = list(dict.fromkeys([*self.families, family, "exact"]))

    def name(self, stem: str) -> str:
        """A name that no other column of the round has."""
        self.names += 1
        return f"{stem}{self.names}"

    def column(self, family: str, stem: str) -> tuple[str, str]:
        """A column: its name, that begins with the stem, and its type."""
        kinds = self.point_kinds if stem in POINTS else self.kinds[family]
        if stem == POINTS[0] and self.draw.random() < 0.3:  # the stream's often have more digits
            finest = max(KINDS[kind].digits[1] for kind in kinds)
            kinds = [kind for kind in kinds if KINDS[kind].digits[1] == finest]
        return self.name(stem), self.draw.choices(kinds, [_OFTEN.get(k, 1) for k in kinds])[0]

    def of_networks(
        self, points: list[tuple[str, str]]
    ) -> tuple[list[tuple[str, str]], list[tuple[str, str]]]:
        """Points that are the ends of networks, and columns of the texts; in rounds with these."""
        if "network" not in self.pools:
            return points, []
        found = [(self.name("t"), "network") for _ in range(self.draw.choice([1, 1, len(points)]))]
        tried = "try_" * self.refused
        ends = [
            (name, f"{tried}{end}({found[place % len(found)][0]})")
            for place, ((name, _), end) in enumerate(zip(points, ENDS, strict=False))
        ]
        return ends, found

    def value(self, kind: str, nulls: float, ranged: bool = False) -> Any:
        """A value of a kind: of the pool of its family."""
        draw = self.draw
        if draw.random() < nulls:
            return None
        if kind in CARRIED:
            return draw.choice(carried(kind))
        values = self.points if ranged else self.pools[KINDS[kind].family]
        for _ in range(20):
            found = fits(kind, draw.choice(values))
            if found is not None:
                return found
        return None

    def rows(
        self,
        columns: Columns,
        size: int,
        ranged: Sequence[str] = (),
        skew: float = 0,
        shares: Sequence[float] = NULLS,
    ) -> tuple[Row, ...]:
        """Rows of these columns, of which a share of ``skew`` repeats one of the first two."""
        draw = self.draw
        nulls = {name: draw.choice(shares) for name, _ in columns}
        made: list[Row] = []
        again_share = 0.8 if skew < 0.9 else 0.98
        for _ in range(size):
            if made and draw.random() < skew:
                again = made[draw.randrange(min(len(made), 2))]
                made.append(
                    tuple(
                        old if name not in ranged and draw.random() < again_share
                        else self.value(kind, nulls[name], name in ranged)
                        for old, (name, kind) in zip(again, columns, strict=True)
                    )
                )  # fmt: skip
            else:
                made.append(
                    tuple(self.value(k, nulls[name], name in ranged) for name, k in columns)
                )
        return tuple(made)

    @contextmanager
    def fewer(self) -> Iterator[None]:
        """Half of the values only, of those of keys, of points, or of both."""
        draw, pools, points = self.draw, self.pools, self.points
        if draw.random() < 0.5:
            self.pools = {family: self._half(values) for family, values in pools.items()}
        if draw.random() < 0.5:
            self.points = self._half(points)
        try:
            yield
        finally:
            self.pools, self.points = pools, points

    def _half(self, values: list[Any]) -> list[Any]:
        return self.draw.sample(values, -(-len(values) // 2))


def _fitting(kinds: list[str], values: Sequence[Any]) -> list[str]:
    """The kinds that have a quarter of some values; all if there are none: others have nulls."""
    many = {kind: sum(fits(kind, value) is not None for value in values) for kind in kinds}
    return [kind for kind in kinds if 4 * many[kind] >= len(values)] or kinds
