"""Deliberate faults in the oracle: where one has the fault of the engine, its answer differs.

So a case in which a fault shows is found without running it.
"""

from __future__ import annotations

import sys
from functools import cache
from pathlib import Path
from types import ModuleType

from tests.fuzz import exact
from tests.fuzz.case import Case

_BAND = "return lambda row: _is_between(row[0], low, high, closed)"
_UNIT = "Fraction(10) ** (n.as_tuple().exponent if hasattr(n, 'scaleb') else 0)"
_NO_DISTANCE = """(math.isnan(value) or math.isnan(point)))
            or (when.tolerance is not None and"""
_SUM = "return value + sign * by  # in double"
_WITHIN = "_is_between(probe[0], start, end, closed)"
_MOVED = "return Fraction(value) + sign * by"
_NEAREST = "[*islice(side.in_order(nearest), when.n)]"
_LATER = "return Fraction(behind) - Fraction(point) < Fraction(point)"
_TAKEN = "[side.first([n for n in found if by[n] == min(by.values())])]"
_EQUAL = "return _first(self.rows, self.kinds, self.order_by, numbers)"
_SAME = "            (a == b and not when.exact)"
_NONE = "if probe[0] is None or not among:\n        return []"
_ZERO = "if not among:\n        return []\n    probe = [value or 0 for value in probe]"
_SUMMED = "side.aggregated(found)] if"
_VERSION = "version = case.version(batch)"
_FOUND = "[] if equal is None else side.by_key.get(equal, [])"
_VALUES = "self.rows[n][column] for n in numbers]"
_ANSWER = "yield from _rows(row, join.how, found, side)"
_KEY = "None if value is None else equality(value)"
_FURTHER = "holds = matcher(when, probe, columns"


def _closed(call: str, **other: str) -> tuple[str, str]:
    """A range closed otherwise."""
    return call, call.replace("closed)", f"{other}.get(closed, closed))")


def _further(**other: str) -> tuple[str, str]:
    """The same of further bands."""
    changed = f"replace(when, closed={other}[when.closed]) if isinstance(when, Band) else when"
    return _FURTHER, f"from dataclasses import replace; {_FURTHER.replace('when', changed)}"


def _rows(rows: str) -> tuple[str, str]:
    """Other rows of a key."""
    return _FOUND, f"(lambda rows: {rows})({_FOUND})"


def _inexact(direction: str) -> tuple[str, str]:
    """``exact=False`` is ignored."""
    return _SAME, _SAME.replace("exact)", f"exact and when.direction != {direction!r})")


_ALIKE: dict[str, tuple[str, str]] = {
    "a number without rows is found": _rows("rows or min(side.by_key.items(), default=(0, []))[1]"),
    "the number behind the last one is found": _rows(
        "rows or min(side.by_key.items(), default=(0, []))[1]"),
    "runs of at most two rows": _rows("rows[:2]"),
    "a run loses its last row": _rows("rows[: max(1, len(rows) - 1)]"),
    "the last row of a key is lost": _rows("rows[: max(1, len(rows) - 1)]"),
    "a long run loses its last row": _rows("rows[:-1] if len(rows) > 64 else rows"),
    "5.5 is the key 5": (
        _KEY, _KEY.replace("value)", "math.floor(value) if hasattr(value, 'scaleb') else value)")),
    "an aggregate without its last row": (
        _VALUES, _VALUES.replace("numbers", "(numbers if column is None else sorted(numbers, key="
                                 "lambda n: order(self.rows[n][self.ranged[0]]))[:-1])")),
    "aggregates of a cache are of the first key": (
        _ANSWER, "one = side.__dict__.setdefault('one', (equal, found)) if found else (equal, [])\n"
                 f"        found = found if one[0] == equal else one[1]\n        {_ANSWER}"),
    "an aggregate has a row more": (_SUMMED, "side.aggregated(found[1:])] if"),
    "least is greatest": ('"min": min,', '"min": max,'),
    "a band overflows": (_MOVED, f"{_MOVED} if abs(Fraction(value) + sign * by) < 2**63 else 0"),
    "beyond the limits is far from them": (
        _MOVED, f"{_MOVED} if abs(Fraction(value) + sign * by) < 2**63 else 0"),
    "at the limit of 64 bits a band is cut at a row": (
        _MOVED, "return max(-(2**63), min(Fraction(value) + sign * by, 2**63 - 1))"),
    "half a unit is a unit": (
        _MOVED, "return Fraction(value) + math.ceil(sign * by) + Fraction(by != int(by), 2)"),
    "a value between two ranks is the lower one": (
        _BAND, f"down = lambda end, n: end // {_UNIT} * {_UNIT} if type(end) is Fraction else end\n"
               f"        {_BAND.replace('low, high', 'down(low, row[0]), down(high, row[0])')}"),
    "finer digits of a band are lost": (_BAND, f"""
        def is_above(n):
            if type(low) is not Fraction:
                return _is_between(n, low, None, closed)
            one = {_UNIT}
            fine = min(one, Fraction(10) ** -KINDS[kind].digits[1])
            least = -(-low // fine) if closed in ("both", "left") else low // fine + 1
            return n > least * fine - one

        return lambda row: is_above(row[0]) and _is_between(row[0], None, high, closed)"""),
    "a band that begins at -0.0 begins below it": (
        _SUM, "begins = sign < 0 == by == value and math.copysign(1, value) < 0\n"
              f"        {_SUM.replace('return', 'return -5e-324 if begins else')}"),
    "NaN has a distance to itself": (
        _NO_DISTANCE, "(math.isnan(value) != math.isnan(point) or "
                      "(math.isnan(point) and (when.tolerance is None or "
                      "when.direction == 'nearest'))))\n"
                      "            or (when.tolerance is not None and point == point and"),
    "a fraction of a width is lost": (_MOVED, "return Fraction(value) + sign * math.floor(by)"),
    "an infinity has a distance": ("return bool(value != point)", "return True"),
    "of equally near rows the later one": (_LATER, _LATER.replace("<", "<=")),
    "of equally near decimals the later one": (_LATER, _LATER.replace("<", "<=")),
    "of equally near doubles the later one": ("return bool(ahead < back)",
                                              "return bool(ahead <= back)"),
    "backward takes the last of equal rows": (_EQUAL, "return numbers[-1]"),
    "the last of equal rows is taken": (_EQUAL, "return numbers[-1]"),
    "of several nearest rows the last ones of equal points": (
        _NEAREST, "[*islice((n for g in nearest for n in [*side.in_order([g])][::-1]), when.n)]"),
    "of several nearest rows those with equal points are left out": (
        _NEAREST, "[*islice((side.first(group) for group in nearest), when.n)]"),
    "one row more than n": (_NEAREST, _NEAREST.replace("when.n", "when.n + 1")),
    "exact=False is ignored backward": _inexact("backward"),
    "exact=False is ignored forward": _inexact("forward"),
    "exact=False is ignored by the nearest row": _inexact("nearest"),
    "a band is closed on the left": _closed(_BAND, right="both", neither="left"),
    "a band is closed on the right": _closed(_BAND, left="both", neither="right"),
    "a band is closed on the wrong side": _closed(_BAND, left="both", right="neither"),
    "a further band is open": _further(both="left", right="neither", left="left",
                                       neither="neither"),
    "beside null keys, one row of a key": _rows("rows[:1]"),
    "a null point matches": (_NONE, _ZERO),
    "a null point matches in semi and anti joins": (_NONE, _ZERO),
    "the interval that starts first": ("(_Descending(order(start)),)", "(order(start),)"),
    "of intervals that start alike the last one": (_TAKEN, _TAKEN.replace("side.first", "max")),
    "of intervals that are alike the last one": (_TAKEN, _TAKEN.replace("side.first", "max")),
    "of the intervals that pass any one": (_TAKEN, "[found[0]]"),
    "an interval without an end is short": ("return (1,)", "return (-1,)"),
    "[5, 5) is not empty": ('start > end if closed == "both" else start >= end', "start > end"),
    "ends belong to all intervals": _closed(_WITHIN, left="both", neither="right"),
    "starts belong to all intervals": _closed(_WITHIN, right="both", neither="left"),
    "any match is a match": (_WITHIN, _WITHIN.replace("end", "None")),
    "the stream's null end is a value": ("if _is_empty(*probe, closed) or",
                                         "if probe[1] is None or"),
    "an empty interval of the stream matches": ("if _is_empty(*probe, closed) or", "if"),
    "(1, 2] and (2, 3] touch": ('start == end and closed == "both"))',
                                'start == end and closed in ("both", "right")))'),
    "an interval is not within one that ends with it": ("b is not None and b <= d",
                                                        "b is not None and b < d"),
    "an interval does not contain one that begins with it": ("not (a <= c and", "not (a < c and"),
    "an interval equals one that begins behind it": ("bool(a == c and b == d)",
                                                     "bool(a <= c and b == d)"),
    "an interval meets only what begins behind it": ("or (d is not None and d == a)", ""),
    "an overlap must be longer than at least": ("width_of(width, kind) <= Fraction(end)",
                                                "width_of(width, kind) < Fraction(end)"),
    "new versions are never read": (_VERSION, "version = 0"),
    "a stream is bound to a version": (_VERSION, "version = 0"),
    "a refresh is taken for the same rows": (_VERSION, "version = 0"),
    "a replay uses the newest version": (
        _VERSION, _VERSION.replace("batch", "batch + ((batch + 1, 'replay') in case.events)")),
}  # fmt: skip
"""By the names of faults a text of ``exact.py``, and what replaces it."""


def differs(fault: str, case: Case) -> bool:
    """Whether the oracle with a fault answers otherwise; True where it cannot have that."""
    if fault not in _ALIKE:
        return True
    try:
        return bool(_faulty(*_ALIKE[fault])._expected(case) != exact.expected(case))
    except Exception as error:  # of another class for each oracle
        return type(error).__name__ != exact.TooManyRowsError.__name__


@cache
def _faulty(old: str, new: str) -> ModuleType:
    text = Path(exact.__file__).read_text()
    assert text.count(old) == 1, (old, text.count(old))
    module = ModuleType(f"{exact.__name__}_{len(sys.modules)}")
    sys.modules[module.__name__] = module  # for its dataclasses
    exec(text.replace(old, new), module.__dict__)
    return module
