"""Range conditions of a list that no pair of rows can fulfil together.

What a condition says are bounds of the differences of columns, as ``q - p <= 5``; where it allows
an end to be null, or one of two ends to be equal, it is a choice of several such sets. A set of
bounds has a solution exactly where no circle of columns has bounds with a sum below zero (T. H.
Cormen et al., "Introduction to Algorithms", 3rd edition, section 24.4).

What is refused can never hold. Numbers are taken for real ones: a list that only whole numbers, or
those of a type, cannot fulfil is not refused. Of floating-point columns no width is counted: a sum
may be rounded, and infinity plus a width is infinity.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations, product

from bsjoin.conditions import AsOf, Band, Condition, Overlaps, Within
from bsjoin.errors import ArgumentError
from bsjoin.values.widths import Width, size_of

_Column = tuple[str, str]
"""The side, and the name."""
_Most = tuple[Fraction, int]
"""The greatest difference, and -1 if that is not itself allowed: so a little less counts, too."""
_Bound = tuple[_Column, _Column, _Most]
"""The first column minus the second one is so much at most."""

_NOTHING: _Most = (Fraction(0), 0)


@dataclass(frozen=True)
class _Case:
    """One of the ways in which a condition holds.

    Args:
        nulls: the columns that are null.
        values: the columns that are not.
        bounds: of the differences of the latter.
    """

    nulls: frozenset[_Column]
    values: frozenset[_Column]
    bounds: tuple[_Bound, ...]

    def with_other(self, other: _Case) -> _Case:
        """Both together."""
        return _Case(
            self.nulls | other.nulls, self.values | other.values, self.bounds + other.bounds
        )

    def is_possible(self) -> bool:
        """Whether there are such values."""
        if self.nulls & self.values:
            return False
        most: dict[tuple[_Column, _Column], _Most] = {}
        for one, other, bound in self.bounds:
            most[one, other] = min(bound, most.get((one, other), bound))
        for middle, one, other in product(self.values, repeat=3):
            if (one, middle) in most and (middle, other) in most:
                first, second = most[one, middle], most[middle, other]
                through = first[0] + second[0], first[1] + second[1]
                most[one, other] = min(through, most.get((one, other), through))
        return all(most.get((one, one), _NOTHING) >= _NOTHING for one in self.values)


_ANY = _Case(frozenset(), frozenset(), ())
_Ways = tuple[Condition, list[_Case]]


def check_together(conditions: Sequence[tuple[Condition, bool]]) -> None:
    """Refuse a list in which conditions exclude each other.

    Args:
        conditions: on columns as both sides spell them, and whether these are floating-point
            numbers.

    Raises:
        ArgumentError: names the fewest of them that do.
    """
    if found := excluding(conditions):
        names = [name for when in found for name in (*when.stream_columns, *when.table_columns)]
        raise ArgumentError(
            f"when={found!r}: all conditions of a list hold for a pair of rows, and these "
            f"{len(found)} exclude each other: no values of {', '.join(dict.fromkeys(names))} "
            "fulfil all of them. Leave one of them out; for the pairs that fulfil either, join "
            "with each and unite the results"
        )


def excluding(conditions: Sequence[tuple[Condition, bool]]) -> list[Condition]:
    """The fewest conditions that no values fulfil together; none if some fulfil all.

    One that holds for no row by itself is left aside: it is not that it excludes others.
    """
    ways = [
        (when, cases)
        for when, floating in conditions
        if (cases := [case for case in _cases(when, floating) if case.is_possible()])
    ]

    return min(filter(None, map(_fewest, _connected(ways))), key=len, default=[])


def _connected(ways: Iterable[_Ways]) -> list[list[_Ways]]:
    """The conditions in groups that have no column in common: they cannot exclude each other."""
    groups: list[tuple[set[_Column], list[_Ways]]] = []
    for one in ways:
        columns, group = {column for case in one[1] for column in case.values | case.nulls}, [one]
        apart = []
        for others, members in groups:
            if columns & others:
                columns, group = columns | others, [*members, *group]
            else:
                apart.append((others, members))
        groups = [*apart, (columns, group)]
    return [group for _, group in groups]


def _fewest(ways: Sequence[_Ways]) -> list[Condition]:
    """The fewest of some conditions that exclude each other; none if all can hold."""

    def of_size(size: int) -> list[Condition]:
        for some in combinations(ways, size):
            if not _can_hold([cases for _, cases in some]):
                return [when for when, _ in some]
        return []

    if (found := of_size(2)) or _can_hold([cases for _, cases in ways]):
        return found
    return next(filter(None, map(of_size, range(3, len(ways) + 1))))


def _can_hold(ways: Sequence[Sequence[_Case]], before: _Case = _ANY) -> bool:
    """Whether conditions, each in one of its ways, can hold together."""
    if not ways:
        return True
    together = (before.with_other(case) for case in ways[0])
    return any(one.is_possible() and _can_hold(ways[1:], one) for one in together)


def _cases(when: Condition, floating: bool) -> Iterator[_Case]:
    stream = [("stream", name) for name in when.stream_columns]
    table = [("table", name) for name in when.table_columns]
    ends = [*stream[1:], *table[1:]]
    for missing in product((False, True), repeat=len(ends)):
        nulls = frozenset(end for end, is_null in zip(ends, missing, strict=True) if is_null)
        values = frozenset([stream[0], table[0], *_there(ends, nulls)])
        for bounds in _choices(when, stream, table, nulls):
            some = _of_doubles(bounds) if floating else bounds
            yield _Case(nulls, values, tuple(some))


def _of_doubles(bounds: Iterable[_Bound]) -> Iterator[_Bound]:
    """What is left where sums are rounded: that a width leads upward, or downward."""
    for one, other, (width, strict) in bounds:
        if width <= 0:
            yield one, other, (Fraction(0), strict)


def _choices(
    when: Condition, stream: list[_Column], table: list[_Column], nulls: frozenset[_Column]
) -> list[list[_Bound]]:
    """The sets of bounds of which one has to hold, if these ends are null and no others."""
    if isinstance(when, Band):
        return [_band(when, stream[0], table[0])]
    if isinstance(when, AsOf):
        return _as_of(when, stream[0], table[0])
    if isinstance(when, Within):
        return [_within(when, stream[0], table[0], *_there(table[1:], nulls))]
    return _overlaps(when, stream, table, nulls)


def _there(columns: Iterable[_Column], nulls: frozenset[_Column]) -> list[_Column]:
    return [column for column in columns if column not in nulls]


def _up_to(one: _Column, other: _Column, width: Width = 0, *, strict: bool = False) -> list[_Bound]:
    """``one <= other + width``, or below it; no bound if the width has no limit."""
    size = size_of(width)
    return [] if isinstance(size, float) else [(one, other, (size, -strict))]


def _band(when: Band, point: _Column, value: _Column) -> list[_Bound]:
    return [
        *_up_to(point, value, when.before, strict=when.closed not in ("both", "left")),
        *_up_to(value, point, when.after, strict=when.closed not in ("both", "right")),
    ]


def _as_of(when: AsOf, point: _Column, value: _Column) -> list[list[_Bound]]:
    below = _up_to(value, point, strict=not when.exact)
    above = _up_to(point, value, strict=not when.exact)
    if when.tolerance is not None:
        near = [_up_to(point, value, when.tolerance), _up_to(value, point, when.tolerance)]
        below, above = below + near[0], above + near[1]
    return {"backward": [below], "forward": [above], "nearest": [below, above]}[when.direction]


def _within(when: Within, point: _Column, start: _Column, *end: _Column) -> list[_Bound]:
    bounds = _up_to(start, point, strict=when.closed not in ("both", "left"))
    for one in end:
        bounds += _up_to(point, one, strict=when.closed not in ("both", "right"))
        bounds += _up_to(start, one, strict=when.closed != "both")
    return bounds


def _overlaps(
    when: Overlaps, stream: list[_Column], table: list[_Column], nulls: frozenset[_Column]
) -> list[list[_Bound]]:
    starts, ends = (stream[0], table[0]), _there((stream[1], table[1]), nulls)
    sides = [(start, end) for start, end in (stream, table) if end in ends]  # that are not empty
    if when.relation != "meets":
        sides = list(product(starts, ends))  # and have something in common
    shared = [bound for pair in sides for bound in _up_to(*pair, strict=when.closed != "both")]
    if when.at_least is not None:
        least = -Fraction(size_of(when.at_least))
        shared += [bound for pair in product(starts, ends) for bound in _up_to(*pair, least)]
    return [shared + bounds for bounds in _related(when, stream, table, ends)]


def _related(
    when: Overlaps, stream: list[_Column], table: list[_Column], ends: list[_Column]
) -> list[list[_Bound]]:
    if when.relation == "overlaps":
        return [[]]
    if when.relation == "meets":
        pairs = [(stream[1], table[0]), (table[1], stream[0])]
        return [[*_up_to(a, b), *_up_to(b, a)] for a, b in pairs if a in ends]
    if when.relation == "equals":
        both = product(_inside(stream, table, ends), _inside(table, stream, ends))
        return [bounds + more for bounds, more in both]
    outer, inner = (stream, table) if when.relation == "contains" else (table, stream)
    return _inside(outer, inner, ends)


def _inside(outer: list[_Column], inner: list[_Column], ends: list[_Column]) -> list[list[_Bound]]:
    """All of an interval is in another one: only one without an end has one without an end."""
    bounds = _up_to(outer[0], inner[0])
    if outer[1] not in ends:
        return [bounds]
    return [bounds + _up_to(inner[1], outer[1])] if inner[1] in ends else []
