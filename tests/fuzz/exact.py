"""The oracle: joins by a nested loop in exact arithmetic."""

from __future__ import annotations

import math
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal
from fractions import Fraction
from itertools import islice
from typing import Any

from bsjoin import AsOf, Band, Overlaps, Within
from bsjoin.conditions import chooses
from bsjoin.values.sort_order import SortOrder
from tests.fuzz import keys as keys_of
from tests.fuzz.case import Case, Columns, Join, Row, Rows, Table, brought, picked, result_columns
from tests.fuzz.values import KINDS, compared, equality, folded, order, place, shown

_MOST_ROWS = 3000


class TooManyRowsError(Exception):
    """A result is too large to be a small case."""


Answers = list[tuple[int, list[Row]]]

_ANSWERS: OrderedDict[int, tuple[Case, Answers]] = OrderedDict()
"""Of the cases seen last, by their identity: they are here, so another one has another."""
_MOST_ANSWERS = 128


class _Side:
    """A version of a table as a join sees it: rows by key, and the columns that it brings."""

    def __init__(self, table: Table, version: int, join: Join):
        rows = latest(table, version)
        names = rows.names()
        self.rows, self.names = rows.rows, names
        self.kinds = [kind for _, kind in table.columns]
        self.by_key: dict[Row, list[int]] = {}
        keys = [names.index(key) for _, key in join.on]
        for number, row in enumerate(rows.rows):
            key = _key_of(join, [folded(self.kinds[i], row[i]) for i in keys])
            if key is not None:
                self.by_key.setdefault(key, []).append(number)
        taken = [] if join.how in ("semi", "anti") else brought(table, join)
        self.taken = [names.index(name) for name in taken]
        self.nothing = (None,) * len(taken)
        self.ranged = (
            [] if join.when is None else [names.index(name) for name in join.when.table_columns]
        )
        self.order_by = [
            (names.index(order.column), order.descending, order.nulls_last)
            for order in (join.when.orders if chooses(join.when) else ())
        ]
        collects = isinstance(join.when, AsOf) and bool(join.when.collect)
        self.collected = [names.index(name) for name in picked(table, join)] if collects else []
        calls = join.when.aggregates.values() if isinstance(join.when, Band) else []
        self.aggregates = [
            (call.function, None if call.column is None else names.index(call.column))
            for call in calls
        ]
        self._known: dict[Row, dict[int, Row]] = {}
        self._orders: dict[Row, dict[int, Row]] = {}

    def known(self, key: Row) -> dict[int, Row]:
        """The range columns of the rows of a key that have a point, or a start."""
        found = self._known.get(key)
        if found is None:
            values = {n: tuple(self.rows[n][i] for i in self.ranged) for n in self.by_key[key]}
            found = self._known[key] = {n: v for n, v in values.items() if v[0] is not None}
        return found

    def orders(self, key: Row) -> dict[int, Row]:
        """What orders them."""
        found = self._orders.get(key)
        if found is None:
            found = self._orders[key] = {
                n: tuple(map(order_or_none, values)) for n, values in self.known(key).items()
            }
        return found

    def first(self, numbers: Sequence[int]) -> int:
        """The first of some rows in the order of as-of: they have the same key and point."""
        return _first(self.rows, self.kinds, self.order_by, numbers)

    def in_order(self, groups: Iterable[Sequence[int]]) -> Iterator[int]:
        """Rows of groups, each with the same key and point, in the order of as-of."""
        for group in groups:
            rest = list(group)
            while rest:
                rest.remove(one := self.first(rest))
                yield one

    def aggregated(self, numbers: Sequence[int]) -> Row:
        """The aggregates of some rows, or these in an array."""
        if self.collected:
            return ([tuple(self.rows[n][i] for i in self.collected) for n in numbers],)
        found = []
        for function, column in self.aggregates:
            values = [True if column is None else self.rows[n][column] for n in numbers]
            values = [value for value in values if value is not None]
            kind = "boolean" if column is None else self.kinds[column]
            found.append(_aggregate(function, values, kind))
        return tuple(found)

    def brings(self, row: int) -> Row:
        """What a row adds to the result."""
        return tuple(self.rows[row][i] for i in self.taken)


_EXTREMES: dict[str, Callable[..., Any]] = {"min": min, "max": max}


def _aggregate(function: str, values: Sequence[Any], kind: str) -> Any:
    """An aggregate of values that are not null."""
    if function == "count" or not values:
        return len(values) if function == "count" else None
    if function in _EXTREMES:
        found = _EXTREMES[function](values, key=order)
        return found + 0.0 if isinstance(found, float) else found
    total = sum(values)
    if function == "sum":
        return total + 0.0 if KINDS[kind].family == "floating" else total
    if not kind.startswith("decimal"):
        return total / len(values)
    digits = KINDS[kind].digits[1] + 4  # rounded half up, away from zero
    units = Fraction(total) * 10**digits / len(values)
    return Decimal(math.floor(abs(units) + Fraction(1, 2))).scaleb(-digits).copy_sign(total)


def _first(
    rows: Sequence[Row],
    kinds: Sequence[str],
    order_by: Sequence[tuple[int, bool, bool]],
    numbers: Sequence[int],
) -> int:
    """The first of some rows by a sort order, then by all columns."""
    columns = range(len(kinds))
    orders = [
        *((*order, False) for order in order_by),
        *((column, False, False, exact) for exact in (False, True) for column in columns),
    ]
    for column, descending, nulls_last, exact in orders:
        if len(numbers) == 1:
            break
        there = [n for n in numbers if rows[n][column] is not None]
        if there and (nulls_last or len(there) == len(numbers)):
            places = [place(kinds[column], rows[n][column], exact=exact) for n in there]
            best = max(places) if descending else min(places)
            numbers = [n for n, one in zip(there, places, strict=True) if one == best]
        else:
            numbers = [n for n in numbers if rows[n][column] is None]
    return numbers[0]


def _key_of(join: Join, key: Sequence[Any]) -> Row | None:
    """What two keys that are equal have in common; None for one that equals none."""
    pairs = [*zip(join.on, key, strict=True)]
    if any(value is None and theirs not in join.nulls_equal for (_, theirs), value in pairs):
        return None
    return tuple(None if value is None else equality(value) for value in key)


def latest(table: Table, version: int) -> Rows:
    """The rows of a version that the table has; those with null keys may lack."""
    given = table.rows(version)
    if not table.latest_by:
        return given
    names, kinds = given.names(), [kind for _, kind in given.columns]
    same = [*table.keys, *(() if table.when is None else table.when.table_columns)]
    places = [names.index(name) for name in same]
    orders = [
        (names.index(order.column), order.descending, order.nulls_last)
        for order in map(SortOrder.parse, table.latest_by)
    ]
    groups: dict[Row, list[int]] = {}
    for number, row in enumerate(given.rows):
        key = tuple(compared(kinds[i], row[i]) for i in places)
        groups.setdefault(key, []).append(number)
    kept: list[int] = []
    for numbers in groups.values():
        for _ in range(min(table.keep, len(numbers))):
            kept.append(_first(given.rows, kinds, orders, numbers))
            numbers.remove(kept[-1])
    return Rows(given.columns, tuple(given.rows[n] for n in kept))


def expected(case: Case) -> Answers:
    """For each micro-batch its number, and its rows.

    A round is drawn, then run: the answers that tell whether a case is small are kept for it.

    Raises:
        TooManyRowsError: the case is not small.
    """
    known = _ANSWERS.get(id(case))
    if known is None:
        while len(_ANSWERS) >= _MOST_ANSWERS:
            _ANSWERS.popitem(last=False)
        _ANSWERS[id(case)] = known = (case, _expected(case))
    return known[1]


def _expected(case: Case) -> Answers:
    columns = result_columns(case)
    sides: dict[tuple[int, int], _Side] = {}
    answers, total = [], 0
    for batch, (start, stop) in enumerate(case.batches()):
        version = case.version(batch)
        result: list[Row] = []
        for row in case.stream.rows[start:stop]:
            rows = [row]
            for number, join in enumerate(case.joins):
                side = sides.get((number, version))
                if side is None:
                    side = _Side(case.tables[join.table], version, join)
                    sides[number, version] = side
                rows = list(_joined(rows, join, side, columns[number]))
                total += len(rows)
                if total > _MOST_ROWS:
                    raise TooManyRowsError
            result += rows
        answers.append((batch, result))
    return answers


def _joined(rows: list[Row], join: Join, side: _Side, columns: Columns) -> Iterator[Row]:
    """The rows after a join."""
    names = [name for name, _ in columns]
    keys = [name for name, _ in join.on]
    for row in rows:
        equal = _key_of(join, keys_of.values(keys, columns, row))
        found: Sequence[int] = [] if equal is None else side.by_key.get(equal, [])
        if chooses(join.when):  # one of those that fulfil all else
            found = _checked(join, row, columns, side, found)
        if join.when is not None and equal is not None:
            probe = [row[names.index(name)] for name in join.when.stream_columns]
            kinds = [columns[names.index(name)][1] for name in join.when.stream_columns]
            found = _ranged(join.when, probe, kinds[0], equal, side, found)
        if not chooses(join.when):
            found = _checked(join, row, columns, side, found)
        yield from _rows(row, join.how, found, side)


def _checked(
    join: Join, row: Row, columns: Columns, side: _Side, found: Sequence[int]
) -> Sequence[int]:
    """Those of some rows that fulfil the further conditions of a join."""
    for one in join.also if found else ():
        found = _narrowed(one, row, columns, side, found)
    if join.where is None:
        return found
    names = [name for name, _ in columns]
    return [n for n in found if _passes(join.where, row, names, side, n)]


def _narrowed(
    when: Any, row: Row, columns: Columns, side: _Side, found: Sequence[int]
) -> list[int]:
    """Those of some rows that fulfil a further condition."""
    names = [name for name, _ in columns]
    places = [names.index(name) for name in when.stream_columns]
    probe = [row[i] for i in places]
    if probe[0] is None:
        return []
    holds = matcher(when, probe, columns[places[0]][1])
    theirs = [side.names.index(name) for name in when.table_columns]
    there = (n for n in found if side.rows[n][theirs[0]] is not None)
    return [n for n in there if holds([order_or_none(side.rows[n][i]) for i in theirs])]


def _passes(
    where: tuple[str, str, str], row: Row, names: Sequence[str], side: _Side, number: int
) -> bool:
    """Whether a pair of rows fulfils the rest of the condition."""
    what, ours, theirs = where
    one, other = row[names.index(ours)], side.rows[number][side.names.index(theirs)]
    if what == "null":
        return other is None
    if one is None or other is None:
        return what == "same" and one is None and other is None
    if what == "above":
        return bool(order(one) > order(other))
    kind = side.kinds[side.names.index(theirs)]
    return bool(compared(kind, one) == compared(kind, other))


def _rows(row: Row, how: str, found: Sequence[int], side: _Side) -> list[Row]:
    if how == "semi":
        return [row] if found else []
    if how == "anti":
        return [] if found else [row]
    if side.aggregates or side.collected:
        return [row + side.aggregated(found)] if found or how == "left" else []
    if how == "left" and not found:
        return [row + side.nothing]
    return [row + side.brings(number) for number in found]


def _ranged(
    when: Any, probe: Sequence[Any], kind: str, key: Row, side: _Side, among: Sequence[int]
) -> list[int]:
    """The rows that match, among some of the key's."""
    if probe[0] is None or not among:
        return []
    known = side.known(key)
    if isinstance(when, AsOf):
        values = {n: known[n][0] for n in among if n in known}
        nearest = nearest_groups(when, probe[0], kind, values)
        return [*islice(side.in_order(nearest), when.n)]
    holds, orders = matcher(when, probe, kind), side.orders(key)
    found = [n for n in among if n in orders and holds(orders[n])]
    if not found or not isinstance(when, Within) or when.take == "all":
        return found
    table_kind = side.kinds[side.ranged[0]]
    by = {n: take_order(when, known[n], table_kind) for n in found}
    return [side.first([n for n in found if by[n] == min(by.values())])]


def take_order(when: Within, ends: Sequence[Any], kind: str) -> tuple[Any, ...]:
    """What is less for an interval that is taken before another one."""
    start, end = ends
    if end == 2**63 - 1 and when.closed in ("both", "right"):
        end = None  # behind it there is no other number
    if when.take == "latest_start":
        return (_Descending(order(start)),)
    if when.take == "first":
        return ()
    if end is None:
        return (1,)
    if when.take == "earliest_end":
        return 0, order(end)
    floating = KINDS[kind].family == "floating"
    return 0, order(end - start) if floating else _number(end) - _number(start)


def _number(value: Any) -> Fraction:
    """A value as a number; one of bytes as a fraction, its first byte behind the point."""
    if isinstance(value, bytes):
        return Fraction(int.from_bytes(value), 256 ** len(value))
    return Fraction(value)


@dataclass(frozen=True)
class _Descending:
    value: Any

    def __lt__(self, other: _Descending) -> bool:
        return bool(other.value < self.value)


def matcher(when: Any, probe: Sequence[Any], kind: str) -> Callable[[Sequence[Any]], bool]:
    """Whether range columns of a row match, of which is given what orders their values."""
    closed = when.closed
    if isinstance(when, Band):
        low = order_or_none(_moved(probe[0], when.before, kind, -1))
        high = order_or_none(_moved(probe[0], when.after, kind, 1))
        return lambda row: _is_between(row[0], low, high, closed)
    orders = [*map(order_or_none, probe)]
    if isinstance(when, Within):
        return lambda row: is_within(orders, row, closed)
    assert isinstance(when, Overlaps)
    if when.relation == "overlaps" and when.at_least is None:
        return lambda row: overlaps(orders, row, closed)
    return lambda row: _are_related(when, orders, row, kind)


def _are_related(when: Overlaps, one: Sequence[Any], other: Sequence[Any], kind: str) -> bool:
    """Whether two intervals, of which what orders the ends is given, are in a relation."""
    (a, b), (c, d) = one, other
    if when.relation == "meets":
        empty = _is_empty(a, b, when.closed) or _is_empty(c, d, when.closed)
        return not empty and ((b is not None and b == c) or (d is not None and d == a))
    if not overlaps(one, other, when.closed):
        return False
    if when.relation == "equals":
        return bool(a == c and b == d)
    if when.relation == "contains" and not (a <= c and (b is None or (d is not None and d <= b))):
        return False
    if when.relation == "within" and not (c <= a and (d is None or (b is not None and b <= d))):
        return False
    if when.at_least is None:
        return True
    starts, ends = (a, c), [end for end in (b, d) if end is not None]
    return all(_is_long(start, end, when.at_least, kind) for start in starts for end in ends)


def _is_long(start: Any, end: Any, width: Any, kind: str) -> bool:
    """Whether an end is so far behind a start; what orders them is given."""
    if KINDS[kind].family != "floating":
        return bool(Fraction(start) + width_of(width, kind) <= Fraction(end))
    (above, number) = start  # NaN is above all
    return bool((above, number + (0 if above else float(width_of(width, kind)))) <= end)


def order_or_none(value: Any) -> Any:
    """What orders a value; None for one that is missing."""
    return None if value is None else order(value)


def _is_between(value: Any, low: Any, high: Any, closed: str) -> bool:
    """Whether a value is between two, of which None is without limit; what orders them is given."""
    if low is not None and not (low < value or (low == value and closed in ("both", "left"))):
        return False
    return high is None or bool(value < high or (value == high and closed in ("both", "right")))


def _is_empty(start: Any, end: Any, closed: str) -> bool:
    return end is not None and bool(start > end if closed == "both" else start >= end)


def is_within(probe: Sequence[Any], ends: Sequence[Any], closed: str) -> bool:
    start, end = ends
    return not _is_empty(start, end, closed) and _is_between(probe[0], start, end, closed)


def overlaps(probe: Sequence[Any], ends: Sequence[Any], closed: str) -> bool:
    """Whether two intervals, as intervals of real numbers, share a point."""
    if _is_empty(*probe, closed) or _is_empty(*ends, closed):
        return False

    def begins_in_time(start: Any, end: Any) -> bool:
        return end is None or bool(start < end or (start == end and closed == "both"))

    return begins_in_time(probe[0], ends[1]) and begins_in_time(ends[0], probe[1])


def width_of(width: Any, kind: str) -> Fraction | float:
    """A width in ones, days or microseconds."""
    family = KINDS[kind].family
    if isinstance(width, str):
        amount, unit = width.split()
        width = timedelta(**{unit.removesuffix("s") + "s": float(amount)})
    if isinstance(width, timedelta):
        micros = Fraction(width // timedelta(microseconds=1))
        return micros / 86_400_000_000 if family == "date" else micros
    if family in ("timestamp", "timestamp_ntz"):
        return Fraction(str(width)) * 1_000_000
    if family == "floating" or (isinstance(width, float) and math.isinf(width)):
        return float(width)
    return Fraction(str(width))


def _moved(value: Any, width: Any, kind: str, sign: int) -> Any:
    """An end of a band; None where it is without limit."""
    by = width_of(width, kind)
    if abs(by) == math.inf:
        return None
    if KINDS[kind].family == "floating":
        return value + sign * by  # in double, as Spark does
    return Fraction(value) + sign * by


def nearest_groups(
    when: AsOf, point: Any, kind: str, values: dict[int, Any]
) -> Iterator[list[int]]:
    """All rows with the nearest value, those with the next one, and so on, however many."""
    rest = dict(values)
    while nearest := _nearest_rows(when, point, kind, rest):
        yield nearest
        for number in nearest:
            del rest[number]


def _nearest_rows(when: AsOf, point: Any, kind: str, values: dict[int, Any]) -> list[int]:
    """All rows with the nearest value."""
    is_limited = when.tolerance is not None and width_of(when.tolerance, kind) != math.inf
    distances = is_limited or when.direction == "nearest"
    floating = KINDS[kind].family == "floating"
    allowed = {}
    for number, value in values.items():
        a, b = order(value), order(point)
        if (
            (a == b and not when.exact)
            or (when.direction == "backward" and a > b)
            or (when.direction == "forward" and a < b)
            or (floating and distances and (math.isnan(value) or math.isnan(point)))
            or (is_limited and _is_far(value, point, when.tolerance, kind))
        ):
            continue
        allowed[number] = value
    if not allowed:
        return []
    before = [v for v in allowed.values() if order(v) <= order(point)]
    behind = [v for v in allowed.values() if order(v) >= order(point)]
    best = max(before, key=order) if before else None
    if behind:
        first = min(behind, key=order)
        if best is None or (order(best) != order(point) and _nearer(point, best, first, floating)):
            best = first
    return [n for n, value in allowed.items() if order(value) == order(best)]


def _is_far(value: Any, point: Any, tolerance: Any, kind: str) -> bool:
    if KINDS[kind].family == "floating":
        if math.isinf(value) or math.isinf(point):
            return bool(value != point)
        by = float(tolerance)
        return not point - by <= value <= point + by
    by = width_of(tolerance, kind)
    return abs(Fraction(value) - Fraction(point)) > by


def _nearer(point: Any, before: Any, behind: Any, floating: bool) -> bool:
    """Whether the value behind a point is nearer than the one before it."""
    if not floating:
        return Fraction(behind) - Fraction(point) < Fraction(point) - Fraction(before)
    back, ahead = point - before, behind - point
    if math.isinf(back) and math.isinf(ahead):
        back, ahead = point / 2 - before / 2, behind / 2 - point / 2
    return bool(ahead < back)


def difference(found: Sequence[Row], rows: Sequence[Row], columns: Columns) -> str | None:
    """What is wrong with the rows of a micro-batch; None if nothing is."""
    kinds = [kind for _, kind in columns]
    wanted = Counter(tuple(map(shown, kinds, row)) for row in rows)
    got = Counter(found)
    return None if got == wanted else _described(got, wanted)


def _described(got: Counter[Row], wanted: Counter[Row]) -> str:
    return (
        f"{got.total()} rows, expected {wanted.total()}\n"
        f"  too many: {(got - wanted).most_common(3)}\n  lacking: {(wanted - got).most_common(3)}"
    )
