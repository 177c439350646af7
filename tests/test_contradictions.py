"""Range conditions that exclude each other: refused where no values fulfil all, and only there."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Iterator, Sequence
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from bsjoin import AsOf, Band, Overlaps, Within
from bsjoin.errors import ArgumentError
from bsjoin.planner.contradictions import check_together, excluding
from tests.fuzz.exact import matcher, order_or_none

CLOSED: tuple[Any, ...] = ("both", "left", "right", "neither")
PAIR: Any = ("p", "x"), ("q", "y")
STEPS = [Decimal(n) / 2 for n in range(8)]
MORE = [Decimal(n) / 2 for n in range(10)]
DOUBLES = [-math.inf, -1.0, -0.0, 0.75, 1.0, 1.5, 1e300, math.inf, math.nan]


def _conditions() -> list[Any]:
    found: list[Any] = []
    widths = [(0, 0), (1, 0), (2, -1), (-1, 2), (-1, 1), (-0.5, 2), (math.inf, -1), (0, math.inf)]
    for (before, after), closed in itertools.product(widths, CLOSED):
        if before + after > 0 or closed == "both":
            found.append(Band("p", "q", before, after, closed))
    found += [Band("x", "q", -1, 2), Band("p", "y", 1, -1), Band("x", "y", 0, 0)]
    for closed in CLOSED:
        found += [Within("p", "q", "y", closed), Within("x", "y", "q", closed)]
        for relation in ("overlaps", "contains", "within", "equals", "meets"):
            found.append(Overlaps(*PAIR, closed, relation))  # type: ignore[arg-type]
    found += [Overlaps(*PAIR, at_least=width) for width in (0, 1)]
    found += [Overlaps(*PAIR, "both", "within", at_least=1), Overlaps(("x", "p"), ("q", "y"))]
    return found


CONDITIONS = _conditions()


def _values(when: Any, kind: str, given: Sequence[Any]) -> NDArray[np.bool_]:
    """For which p, x, q and y a condition holds; the last value of each is null."""
    values, names = [*given, None], ("p", "x", "q", "y")
    places = [names.index(name) for name in (*when.stream_columns, *when.table_columns)]
    ours, theirs = len(when.stream_columns), len(when.table_columns)
    found = np.zeros((len(values),) * len(places), np.bool_)
    orders = [order_or_none(value) for value in values]
    for probe in itertools.product(range(len(values)), repeat=ours):
        if values[probe[0]] is None:
            continue
        holds = matcher(when, [values[i] for i in probe], kind)
        for row in itertools.product(range(len(values)), repeat=theirs):
            found[probe + row] = orders[row[0]] is not None and holds([orders[i] for i in row])
    shape = [1] * 4
    for place in places:
        shape[place] = len(values)
    return found.transpose(np.argsort(places)).reshape(shape)


def _held(kind: str, given: Sequence[Any]) -> Iterator[tuple[Any, Any, bool]]:
    """All pairs of conditions, and whether values are among these that fulfil both."""
    tables = [_values(when, kind, given) for when in CONDITIONS]
    assert all(table.any() for table in tables)
    whole = [np.broadcast_to(table, [len(given) + 1] * 4) for table in tables]
    for one, other in itertools.combinations(range(len(CONDITIONS)), 2):
        yield CONDITIONS[one], CONDITIONS[other], bool((whole[one] & whole[other]).any())


def test_what_no_numbers_fulfil_is_refused_and_nothing_else() -> None:
    wrong, refused = [], 0
    for one, other, holds in _held("decimal(4,1)", STEPS):
        excluded = bool(excluding([(one, False), (other, False)]))
        refused += excluded
        if excluded == holds:
            wrong.append((one, other, holds))
    assert not wrong
    assert refused > 100


@pytest.mark.long
def test_of_doubles_nothing_is_refused_that_some_fulfil() -> None:
    wrong, refused = [], 0
    for one, other, holds in _held("double", DOUBLES):
        excluded = bool(excluding([(one, True), (other, True)]))
        refused += excluded
        if excluded and holds:
            wrong.append((one, other))
    assert not wrong
    assert refused > 10


@pytest.mark.parametrize(
    ("one", "other", "excluded"),
    [
        (Band("p", "q", 5, -1), Band("p", "q", -1, 5), True),
        (Band("p", "q", 5, -1), Band("p", "q", 1, 5), False),  # both have p - 1
        (Band("p", "q", 5, -1, "left"), Band("p", "q", 1, 5), True),
        (Band("p", "q", "5 minutes", "-1 minute"), Band("p", "q", -61, 300), True),
        (Band("p", "q", "5 minutes", "-1 minute"), Band("p", "q", -60, 300), True),
        (Band("p", "q", "5 minutes", "-1 minute"), Band("p", "q", 60, 300), False),
        (Band("p", "q", 5, -1), Band("o", "q", -1, 5), False),
        (Band("p", "q", 5, Fraction(-1, 3)), Band("p", "q", Fraction(1, 3), 5), False),
        (Overlaps(*PAIR, relation="equals"), Overlaps(*PAIR, relation="meets"), True),
        (Overlaps(*PAIR, "both", "equals"), Overlaps(*PAIR, "both", "meets"), False),  # [5, 5]
        (Overlaps(*PAIR, "both", at_least=0), Overlaps(*PAIR, "both", "meets"), False),
        (Overlaps(*PAIR, "both", at_least=1), Overlaps(*PAIR, "both", "meets"), True),
        (AsOf("p", "q"), Band("p", "q", -1, 5), True),
        (AsOf("p", "q"), Band("p", "q", 0, 5), False),
        (AsOf("p", "q", exact=False), Band("p", "q", 0, 5), True),
        (AsOf("p", "q", "nearest", exact=False), Band("p", "q", 0, 0), True),
        (AsOf("p", "q", "nearest", tolerance=2), Band("p", "q", 9, -3), True),
        (AsOf("p", "q", "forward", tolerance=2), Band("p", "q", 9, -3), True),
        # By itself no row fulfils the first one: it is not that they exclude each other.
        (Overlaps(("p", "p"), ("q", "y")), Band("p", "q", 1, 1), False),
    ],
)
def test_examples(one: Any, other: Any, excluded: bool) -> None:
    for pair in ((one, other), (other, one)):
        typed = [(when, False) for when in pair]
        assert bool(excluding(typed)) == excluded
        if not excluded:
            check_together(typed)
            continue
        with pytest.raises(ArgumentError, match="these 2 exclude each other") as raised:
            check_together([(Band("a", "b", 1, 1), False), *typed])
        assert all(repr(when) in str(raised.value) for when in pair)


@pytest.mark.long
def test_three_conditions_may_exclude_each_other_only_together() -> None:
    """A sample of all threes of which each two have values is held against a nested loop."""
    tables = [_values(when, "decimal(4,1)", MORE) for when in CONDITIONS]
    draw, refused = random.Random(3), 0
    for _ in range(1_500):
        places = draw.sample(range(len(CONDITIONS)), 3)
        some = [CONDITIONS[place] for place in places]
        found = excluding([(when, False) for when in some])
        if 0 < len(found) < 3:
            continue
        one, two, three = (tables[place] for place in places)
        holds = bool((one & two & three).any())
        # Where ends belong to all, values on the grid of the widths fulfil what any values do.
        assert holds != bool(found) or not (found or _has_all_ends(some)), some
        refused += bool(found)
    assert refused > 3


def _has_all_ends(conditions: Sequence[Any]) -> bool:
    return all(when.closed == "both" for when in conditions)


def test_the_fewest_that_exclude_each_other_are_named() -> None:
    circle = [Band("p", "q", -1, 5), Band("x", "q", 5, -1), Band("x", "y", -1, 5)]
    closing = Band("p", "y", 5, -1)  # p < q < x < y < p
    more = [Band(f"s{n}", f"t{n}", 1, 1) for n in range(5)]
    more += [Overlaps(("a", f"a{n}"), ("b", f"b{n}"), relation="equals") for n in range(3)]
    # Each of these could hold in four ways: all of them together in a million.
    more += [Overlaps((f"c{n}", f"d{n}"), (f"e{n}", f"f{n}")) for n in range(10)]
    without = [(when, False) for when in (*circle, *more)]
    assert not excluding(without)
    assert excluding([(closing, False), *without]) == [closing, *circle]
    with pytest.raises(ArgumentError, match="these 4 exclude each other: no values of p, y, q, x"):
        check_together([(closing, False), *without])
    doubles = [(when, True) for when in (closing, *circle)]
    assert not excluding(doubles)  # infinity is all of them
    assert len(excluding([(replace(when, closed="neither"), True) for when, _ in doubles])) == 4
