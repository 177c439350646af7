"""Range conditions are checked when they are made; their widths mean what they say."""

from __future__ import annotations

import dataclasses
import json
import math
from datetime import timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import types as T  # noqa: N812

from bsjoin.conditions import (
    AsOf,
    Band,
    Overlaps,
    Within,
    condition_from_json,
    condition_to_json,
)
from bsjoin.errors import ArgumentError
from bsjoin.planner.keys import type_of
from bsjoin.planner.range_columns import check_range_types, predicate_of
from bsjoin.storage import RangeColumns
from bsjoin.values.widths import size_of

INF = math.inf
MICROSECOND = timedelta(microseconds=1)
UNITS = {
    "microsecond": 1, "us": 1, "millisecond": 10**3, "ms": 10**3, "second": 10**6, "sec": 10**6,
    "s": 10**6, "minute": 60 * 10**6, "min": 60 * 10**6, "hour": 3600 * 10**6, "h": 3600 * 10**6,
    "day": 86_400 * 10**6, "d": 86_400 * 10**6, "week": 604_800 * 10**6,
}  # fmt: skip
CONDITIONS = [
    Band("p", "q", 1, 2.5, "left"),
    Band("p", "q", Decimal("-1.50"), 10**30),
    Band("p", "q", INF, np.float64(0.1)),
    Band("p", "q", "1 hour", timedelta(days=-1, hours=24, microseconds=1)),
    Band("p", "q", -1, 3),
    Band("p", "q", 60, "2 days"),
    Band("p", "q", 1, 1, agg={"n": "COUNT(*)", "avg price": "avg(`a b`)"}),
    Within("a,b", "`q`", "y\n", "both"),
    Within("p", "q", "y", take="shortest"),
    Within("p", "q", "y", take="first", order_by=["v desc", "`a b`"]),
    Overlaps(("p", "x"), ("q", "y"), "neither"),
    Overlaps(["a", "b"], ["c", "d"]),  # type: ignore[arg-type]
    AsOf("p", "q"),
    AsOf("p", "q", tolerance=0),
    AsOf("p", "q", "nearest", "5 minutes", False),
    AsOf("p", "q", n=3),
    AsOf("p", "q", order_by="v desc", n=2**31 - 1),
]


@pytest.mark.parametrize("when", CONDITIONS, ids=repr)
def test_conditions_are_values_and_are_read_as_they_were_written(when: Any) -> None:
    found = condition_from_json(json.loads(json.dumps(condition_to_json(when))))
    assert found == when == dataclasses.replace(when)
    assert type(found) is type(when)
    assert hash(found) == hash(when)
    for name in ("before", "after", "tolerance"):
        assert isinstance(getattr(when, name, None), type(getattr(found, name, None)))
    with pytest.raises(dataclasses.FrozenInstanceError):
        when.closed = "both"


BAND: dict[str, Any] = condition_to_json(Band("p", "q", 1, 2))["Band"]
NO_CONDITIONS: list[Any] = [
    None,
    [],
    "Band",
    {},
    {"Band": BAND, "AsOf": {}},
    {"__class__": BAND},
    {"Band": [1]},
    {"Band": {}},
    {"Band": BAND | {"more": 1}},
    {"Band": BAND | {"stream_col": 5}},
    {"Band": BAND | {"closed": "open"}},
    {"Band": BAND | {"closed": ["both"]}},
    {"Band": BAND | {"before": 1}},
    {"Band": BAND | {"before": None}},
    {"Overlaps": {"stream": "pq", "batch": ["q", "y"], "closed": "left"}},
    {"AsOf": condition_to_json(AsOf("p", "q"))["AsOf"] | {"exact": 1}},
    {"AsOf": condition_to_json(AsOf("p", "q"))["AsOf"] | {"n": 0}},
    {"AsOf": condition_to_json(AsOf("p", "q"))["AsOf"] | {"take": "all"}},
    {"Within": condition_to_json(Within("p", "q", "y"))["Within"] | {"take": "first"}},
    *(
        {"Band": BAND | {"before": width}}
        for width in (
            {"int": 1},
            {"int": "one"},
            {"int": "9" * 5000},
            {"float": "nan"},
            {"decimal": "1e999999999"},
            {"decimal": "x"},
            {"fraction": "1e20"},  # nor with nine digits more
            {"fraction": "1/0"},
            {"microseconds": True},
            {"microseconds": 10**30},
            {"text": "soon"},
            {"eval": "1"},
        )
    ),
]


def test_what_is_no_condition_is_not_read() -> None:
    for data in NO_CONDITIONS:
        with pytest.raises(ValueError, match=r"\w"):
            condition_from_json(data)


def test_what_cannot_be_a_condition_is_refused_by_name() -> None:
    any_: Any = None
    band, within, overlaps, asof = Band, Within, Overlaps, AsOf  # type: Any, Any, Any, Any
    refused: list[tuple[Any, str]] = [
        (lambda: band(5, "b", 1, 1), "stream_col"),
        (lambda: band("a", 3, 1, 1), "batch_col"),
        (lambda: within("a", "b", any_), "end_col"),
        (lambda: asof(any_, "b"), "stream_col"),
        (lambda: within("a", "b", "c", take="frist"), "Did you mean 'first'"),
        (lambda: within("a", "b", "c", take="first"), 'take="first": give the order'),
        (lambda: within("a", "b", "c", order_by="v"), 'no meaning with take="all"'),
        (lambda: overlaps("ab", ("c", "d")), "stream"),
        (lambda: overlaps(("a",), ("c", "d")), "stream"),
        (lambda: overlaps(("a", "b"), ("c", 4)), "batch"),
        (lambda: band("a", "b", 1, 1, closed="bot"), "Did you mean 'both'"),
        (lambda: within("a", "b", "c", closed="bot"), "Did you mean 'both'"),
        (lambda: overlaps(("a", "b"), ("c", "d"), closed="bot"), "Did you mean 'both'"),
        (lambda: asof("a", "b", direction="backwards"), "'backward'"),
        (lambda: asof("a", "b", tolerance="-1 second"), "must not be negative"),
        (lambda: asof("a", "b", exact=1), "exact=1"),
        *((lambda n=n: asof("a", "b", n=n), f"n={n}: give how many") for n in (0, -1, 2**31)),
        *((lambda n=n: asof("a", "b", n=n), f"n={n}: give how many") for n in (True, 2.0, None)),
        (lambda: band("p", "q", Decimal(10**40), -(10**40) - 1), "is empty"),
        (lambda: band("a", "b", -2, 1), "is empty"),
        (lambda: band("a", "b", 0, 0, "left"), "is empty"),
        (lambda: band("a", "b", 5, -5, "neither"), "is empty"),
        (lambda: band("a", "b", "-1 hour", "59 minutes"), "is empty"),
        (lambda: band("a", "b", INF, -INF), "is empty"),
        (lambda: band("a", "b", -INF, INF), "is empty"),
        (lambda: band("p", "q", Decimal("1e999999999"), 1), "more than 1000 digits"),
        (lambda: band("p", "q", Decimal("1e-999999999"), 1), "more than 1000 digits"),
        (lambda: band("p", "q", 10**2000, 1), "more than 1000 digits"),
    ]
    for make, says in refused:
        with pytest.raises(ArgumentError, match=says):
            make()


NO_WIDTHS: list[Any] = [
    True, np.bool_(True), None, pd.NA, pd.NaT, np.timedelta64("NaT"), math.nan, np.float32("nan"),
    Decimal("NaN"), Decimal("sNaN"), 1j, np.complex64(1), np.datetime64("2026-01-01"),
    pd.Timestamp("2026-01-01"), np.timedelta64(1, "Y"), np.timedelta64(5), np.timedelta64(1, "ns"),
    np.timedelta64(2**62, "W"), pd.Timedelta(1500, "ns"), "0.5 us", "0.0000001 seconds", "1 month",
    "soon", "", b"1", [1], np.array([1]), 10**1500,
]  # fmt: skip


@pytest.mark.parametrize("width", NO_WIDTHS, ids=repr)
def test_what_is_no_width_or_has_no_exact_one_is_refused(width: Any) -> None:
    for make in (lambda: Band("p", "q", width, 1), lambda: Band("p", "q", 1, width)):
        with pytest.raises(ArgumentError, match=r"(before|after)="):
            make()
    if width is not None:
        with pytest.raises(ArgumentError, match="tolerance="):
            AsOf("p", "q", tolerance=width)


def reaches(width: Any, name: str) -> Fraction | float:
    """How far a band of the width reaches, in units of the codes of a type of columns."""
    when = Band("p", "q", width, 0)
    columns = RangeColumns(("q",), (name,), None)
    schema = T.StructType([T.StructField("p", type_of(name))])
    check_range_types(when, [("p", type_of(name))], columns)
    return predicate_of(when, columns, schema).before


@given(st.floats(0, allow_nan=False, allow_infinity=False))
def test_a_float_means_its_shortest_text(number: float) -> None:
    written = Decimal(repr(number))
    for width in (number, np.float64(number), written, Fraction(written)):
        assert size_of(Band("p", "q", width, 0).before) == Fraction(written)
        assert Band("p", "q", width, 0) == Band("p", "q", number, 0)
        assert hash(AsOf("p", "q", tolerance=width)) == hash(AsOf("p", "q", tolerance=written))


@given(
    st.integers(-(2**31), 2**31 - 1), st.sampled_from([np.int32, np.int64, np.longdouble, Decimal])
)
def test_scalars_mean_their_value(number: int, kind: Any) -> None:
    made = Band("p", "q", kind(number), abs(number))
    assert made == Band("p", "q", number, abs(number))
    assert type(made.before).__module__ != "numpy"
    assert condition_from_json(json.loads(json.dumps(condition_to_json(made)))) == made


@given(st.integers(0, 2**63 - 1), st.sampled_from([*UNITS]), st.booleans())
def test_durations_are_counted_in_whole_microseconds(n: int, unit: str, plural: bool) -> None:
    text = f"{n} {unit}{'s' * (plural and len(unit) > 3)}"
    microseconds = n * UNITS[unit]
    if microseconds >= 2**63:
        with pytest.raises(ArgumentError, match="292,000 years"):
            reaches(text, "timestamp")
    else:
        assert reaches(text, "timestamp") == microseconds
        assert reaches(Fraction(microseconds, 10**6), "timestamp_ntz") == microseconds
        assert Band("p", "q", text, 0) == Band("p", "q", f"{microseconds} us", 0)


@given(st.timedeltas(timedelta(0)), st.sampled_from(["ns", "us", "ms", "s", "m", "h", "D", "W"]))
def test_durations_of_other_libraries_mean_the_same(duration: timedelta, unit: str) -> None:
    microseconds = duration // MICROSECOND
    assert size_of(duration) * 10**6 == microseconds
    if microseconds >= 2**63 // 1000:
        return  # NumPy wraps, pandas has no such durations
    other = np.timedelta64(duration).astype(f"m8[{unit}]")
    if int(other.astype("m8[us]").astype(int)) == microseconds:
        assert Band("p", "q", other, 0) == Band("p", "q", duration, 0)
    assert Band("p", "q", pd.Timedelta(duration), 0) == Band("p", "q", duration, 0)
    assert type(Band("p", "q", pd.Timedelta(duration), 0).before) is timedelta


@pytest.mark.parametrize(
    ("width", "name", "text"),
    [
        (1e-7, "timestamp", "round it to six digits"),
        (0.1 + 0.2, "timestamp_ntz", "round it to six digits"),
        (Fraction(1, 3), "timestamp", "round it to six digits"),
        (1e13, "timestamp", "292,000 years"),
        (timedelta.max, "timestamp", "292,000 years"),
        (1.0, "date", "give whole days"),
        ("25 hours", "date", "give whole days"),
        (timedelta(days=1, microseconds=1), "date", "give whole days"),
        ("1 day", "long", "is a duration"),
        (10**400, "double", "a double has no such number"),
        (Decimal("1e-400"), "double", "a double has no such number"),
    ],
)
def test_what_a_type_cannot_have_is_refused(width: Any, name: str, text: str) -> None:
    with pytest.raises(ArgumentError, match=text) as error:
        reaches(width, name)
    assert f"before={width!r}"[:20] in str(error.value)


def test_widths_are_exact_and_equal_ones_make_equal_conditions() -> None:
    assert Band("p", "q", 0.1, Decimal("-0.1")).after == Decimal("-0.1")
    assert Band("p", "q", 0.3, -0.1 - 0.1).before == 0.3
    Band("p", "q", Decimal("1e40"), Decimal("-1e40") + Decimal("1e12"))
    hour = Band("p", "q", "1 hour", 0)
    assert hour == Band("p", "q", timedelta(hours=1), 0.0) == Band("p", "q", "60 min", Decimal(0))
    assert hour != Band("p", "q", 3600, 0)  # on numbers it is no duration
    assert hour != Band("p", "q", "1 hour", 0, "left") != AsOf("p", "q")
    assert len({hour, Band("p", "q", "3600 s", 0), AsOf("p", "q"), AsOf("p", "q")}) == 2
