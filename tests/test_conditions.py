"""Range conditions are checked when they are made."""

from __future__ import annotations

import dataclasses
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest

from bsjoin.conditions import AsOf, Band, Overlaps, Within
from bsjoin.errors import ArgumentError

MADE = [
    Band("a", "b", 1, 2),
    Within("a", "b", "c"),
    Overlaps(("a", "b"), ("c", "d")),
    AsOf("a", "b"),
]


@pytest.mark.parametrize("condition", MADE, ids=lambda c: type(c).__name__)
def test_conditions_are_values(condition: Any) -> None:
    assert condition == dataclasses.replace(condition)
    assert hash(condition) == hash(dataclasses.replace(condition))
    with pytest.raises(dataclasses.FrozenInstanceError):
        condition.closed = "both"


@pytest.mark.parametrize(
    "widths",
    [
        (0, 0),
        (1, 2.5),
        (Decimal("0.1"), 3),
        (timedelta(hours=1), "5 minutes"),
        ("1 hour", 0),
        (60, "2 days"),
        (-5, 5),
        (-1, 3),
        (3, -1),
        (float("inf"), 0),
    ],
)
def test_a_band_takes_every_kind_of_width(widths: tuple[Any, Any]) -> None:
    band = Band("a", "b", *widths)
    assert (band.before, band.after) == widths


@pytest.mark.parametrize(
    ("widths", "closed"),
    [
        ((-2, 1), "both"),
        ((0, 0), "left"),
        ((5, -5), "neither"),
        (("-1 hour", "59 minutes"), "both"),
        ((float("inf"), float("-inf")), "both"),
        ((float("-inf"), float("inf")), "both"),
    ],
)
def test_an_empty_band_is_refused(widths: tuple[Any, Any], closed: Any) -> None:
    with pytest.raises(ArgumentError, match="is empty"):
        Band("a", "b", *widths, closed=closed)


@pytest.mark.parametrize(
    "width", ["1 month", "soon", None, float("nan"), Decimal("NaN"), True, [1]]
)
def test_what_is_no_width_is_refused(width: Any) -> None:
    with pytest.raises(ArgumentError, match="before="):
        Band("a", "b", width, 1)


@pytest.mark.parametrize(
    "make",
    [
        lambda: Band(5, "b", 1, 1),  # type: ignore[arg-type]
        lambda: Band("a", 3, 1, 1),  # type: ignore[arg-type]
        lambda: Within("a", "b", None),  # type: ignore[arg-type]
        lambda: AsOf(None, "b"),  # type: ignore[arg-type]
        lambda: Overlaps("ab", ("c", "d")),  # type: ignore[arg-type]
        lambda: Overlaps(("a",), ("c", "d")),  # type: ignore[arg-type]
        lambda: Overlaps(("a", "b"), ("c", 4)),  # type: ignore[arg-type]
    ],
)
def test_columns_are_names(make: Any) -> None:
    with pytest.raises(ArgumentError):
        make()


@pytest.mark.parametrize(
    "make",
    [
        lambda: Band("a", "b", 1, 1, closed="bot"),  # type: ignore[arg-type]
        lambda: Within("a", "b", "c", closed="bot"),  # type: ignore[arg-type]
        lambda: Overlaps(("a", "b"), ("c", "d"), closed="bot"),  # type: ignore[arg-type]
    ],
)
def test_an_unknown_word_is_refused_with_the_known_ones(make: Any) -> None:
    with pytest.raises(ArgumentError, match="Did you mean 'both'"):
        make()


def test_as_of_says_what_it_takes() -> None:
    with pytest.raises(ArgumentError, match="'backward'"):
        AsOf("a", "b", direction="backwards")  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match="must not be negative"):
        AsOf("a", "b", tolerance="-1 second")
    with pytest.raises(ArgumentError, match="exact=1"):
        AsOf("a", "b", exact=1)  # type: ignore[arg-type]
    assert AsOf("a", "b", tolerance=0).tolerance == 0


def test_a_list_of_two_columns_becomes_a_pair() -> None:
    condition = Overlaps(["a", "b"], ["c", "d"])  # type: ignore[arg-type]
    assert condition == Overlaps(("a", "b"), ("c", "d"))
    assert hash(condition)
