"""Drawing tables and their versions."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from bsjoin import Band
from bsjoin.values.sort_order import sort_orders
from tests.fuzz.case import Columns, Condition, Row, Table
from tests.fuzz.draw.boxes import boxes, many_of_a_key
from tests.fuzz.draw.conditions import CLOSED, condition, has_order, sorted_by
from tests.fuzz.draw.points import in_order
from tests.fuzz.draw.pools import INTEGERS, NULLS, Pools
from tests.fuzz.networks import with_ends
from tests.fuzz.values import CARRIED, COLLATED, KINDS, comparable, compared, fits

_SQLITE = {
    "exact": "long",
    "floating": "double",
    "string": "string",
    "binary": "binary",
    "boolean": "boolean",
    "date": "date",
}
"""The types of columns in SQLite; of others, text."""
_LIMITS: tuple[tuple[tuple[str, Any], ...], ...] = (
    (("max_rows", 1000),),
    (("max_rows", 1),),
    (("max_rows", 7),),
    (("max_bytes", 4096),),
    (("max_rows", 100), ("negative", False)),
)
"""Bounds of caches."""


def table(pools: Pools, first: bool, refreshed: bool) -> Table:
    """A table; some do not have all values that the stream has."""
    with pools.fewer():
        return _table(pools, first, refreshed)


def _table(pools: Pools, first: bool, refreshed: bool) -> Table:
    draw = pools.draw
    cache = draw.choices(["stored", "private", "sqlite", "callback"], [8, 1, 1.5, 3])[0]
    cache = "stored" if first else cache
    has_networks = "network" in pools.pools  # which are for ranges, and inside each other
    ranged = draw.random() < (0.9 if has_networks else 0.5) and cache != "sqlite"
    none = (20 if has_networks else 2) if ranged and cache != "callback" else 0
    many = draw.choices([0, 1, 2, 3, 5], [none, 10, 4, 1, 0.5])[0]
    families = draw.choices(pools.families, k=many)
    if cache == "sqlite":
        families = [f for f in families if f in _SQLITE] or ["exact"]
    keys = [pools.column(family, "k") for family in families]
    pair = pools.pair if cache != "sqlite" and draw.random() < 0.3 else None
    if pair:
        keys = [(pools.name("k"), pair[0]), (pools.name("k"), "long")]
    points, texts = list[tuple[str, str]](), list[tuple[str, str]]()
    when = None
    if ranged:
        sizes = [1, 2, 2, 2] if has_networks else [1, 2]
        points = [pools.column(pools.ranged, "r") for _ in range(draw.choice(sizes))]
        if len(points) == 2 and not comparable(points[0][1], points[1][1]):
            points = [points[0], (points[1][0], points[0][1])]
        points, texts = pools.of_networks(points)
        when = condition(pools, [("p", points[0][1])] * 2, points, draw.choice(CLOSED))
    payload = [pools.column(f, "c") for f in draw.choices(pools.families, k=draw.randrange(1, 3))]
    payload += texts
    for _ in range(draw.randrange(4)):  # of all types: to carry one costs little
        payload.append((pools.name("c"), draw.choice([*CARRIED, *KINDS])))
    columns = [*keys, *points, *payload]
    if cache == "sqlite":
        columns = [(name, _SQLITE.get(KINDS[kind].family, "string")) for name, kind in columns]
    if cache == "callback":  # sources have no intervals
        others = {kind: "string" for _, kind in columns if kind.startswith(COLLATED)}
        columns = [(n, (others | {"interval": "long"}).get(kind, kind)) for n, kind in columns]
    draw.shuffle(columns)
    limits = draw.choice(_LIMITS) if cache in ("sqlite", "callback") else ()
    unique = bool(keys) and draw.random() < 0.25
    strict = draw.random() < 0.4
    many = 1 if cache != "stored" else 3 if refreshed else 2
    names = [name for name, _ in columns]
    shape = _Shape(
        columns=tuple(columns),
        keys=[names.index(name) for name, _ in keys],
        points=[names.index(name) for name, _ in points],
        pair=pair[1:] if pair else (),
        shares=(0, 0, 0, 0.1) if strict else NULLS,
        in_sqlite=cache == "sqlite",
    )
    versions: list[tuple[Row, ...]] = []
    for _ in range(many):
        rows = _rows(pools, shape, versions)
        if isinstance(when, Band):
            rows = _at_limits(rows, [at for at in shape.points if columns[at][1] == "long"])
        # Keys without duplicates in this version only.
        if unique or (refreshed and not versions and draw.random() < 0.3):
            rows = _distinct(rows, shape.columns, shape.keys)
        versions.append(rows)
    when = sorted_by(when, columns, pools.plain)
    ranges: tuple[Condition, ...] = ()
    if cache == "stored" and not unique:
        ranges = boxes(shape.columns, [name for name, _ in keys], when)
    if ranges:
        versions = [many_of_a_key(rows, shape.keys) for rows in versions]
    latest_by, keep = _latest(columns, cache in ("stored", "private") and versions)
    return Table(
        columns=shape.columns,
        versions=tuple(versions),
        keys=tuple(name for name, _ in keys),
        when=when,
        boxes=ranges,
        cache=cache,
        unique=unique,
        latest_by=latest_by,
        keep=keep,
        nulls_equal=() if unique else _nulls_equal([name for name, _ in keys], versions),
        limits=limits,
        strict=strict,
        max_keys=draw.choice([10_000, 3]) if limits else 10_000,
    )


def _latest(columns: Sequence[tuple[str, str]], versions: object) -> tuple[tuple[str, ...], int]:
    """By what the latest rows of a key are kept, and how many; of few tables."""
    draw = random.Random(repr((columns, versions)))  # of its own: other draws stay what they are
    if not versions or draw.random() < 0.85:
        return (), 1
    names = [name for name, kind in columns if has_order(kind)]
    ends = ["", " asc", " nulls first", " asc nulls last"]
    by = draw.sample(names, min(len(names), draw.choice([1, 1, 2])))
    texts = [f"`{name.replace('`', '``')}`{draw.choice(ends)}" for name in by]
    return sort_orders(texts, "latest_by", descending=True), draw.choice([1, 1, 2])


def _nulls_equal(keys: Sequence[str], versions: object) -> tuple[str, ...]:
    """The keys that are null-safe in joins; of every fourth table."""
    draw = random.Random(repr((keys, "nulls equal", versions)))  # of its own, as above
    if not keys or draw.random() < 0.75:
        return ()
    return tuple(draw.sample(keys, draw.randint(1, len(keys))))


@dataclass(frozen=True)
class _Shape:
    """What the versions of a table have in common.

    Args:
        columns: all of them.
        keys: where the keys are.
        points: where the range columns are.
        pair: two keys of one hash, or nothing.
        shares: of nulls in a column.
        in_sqlite: whether values are those of SQLite.
    """

    columns: Columns
    keys: list[int]
    points: list[int]
    pair: tuple[Row, ...]
    shares: Sequence[float]
    in_sqlite: bool


def _rows(pools: Pools, shape: _Shape, versions: Sequence[tuple[Row, ...]]) -> tuple[Row, ...]:
    """The rows of the next version."""
    draw, columns, keys = pools.draw, shape.columns, shape.keys
    size = draw.choices([0, 1, 5, 15, 40, 80, 150], [1, 1, 2, 6, 7, 6, 3])[0]
    skew = draw.choice([0, 0, 0.6, 0.9 if size == 150 else 0])
    ranged = [columns[at][0] for at in shape.points]
    rows = pools.rows(columns, size, ranged, skew, shape.shares)
    if shape.in_sqlite:
        rows = tuple(tuple(map(_in_sqlite, row)) for row in rows)
    if ranged and keys and draw.random() < 0.8:
        rows = _few_keys(draw, rows, keys)
    elif len(keys) == 1 and draw.random() < 0.35:
        rows = _consecutive(pools, rows, keys[0], columns[keys[0]][1])
    if len(ranged) == 2:
        rows = tuple(in_order(draw, row, columns, *shape.points) for row in rows)
    if shape.pair:
        rows = tuple(map(_with_pair(keys, shape.pair), range(len(rows)), rows))
    if versions and draw.random() < 0.5:
        rows = _changed(draw, versions[-1], rows, keys)
    return with_ends(columns, rows)


def _at_limits(rows: tuple[Row, ...], places: Sequence[int]) -> tuple[Row, ...]:
    """The rows, where every fourth point that is near a limit of 64 bits is at it."""
    near = {row[at] for row in rows for at in places if abs(row[at] or 0) > 2**63 - 100}
    if not near:
        return rows
    draw, limits = random.Random(repr(near)), (2**63 - 1, -(2**63))  # of its own, as above
    moved = {value: limits[value < 0] for value in sorted(near) if draw.random() < 0.25}
    return tuple(
        tuple(moved.get(value, value) if i in places else value for i, value in enumerate(row))
        for row in rows
    )


def _changed(
    draw: random.Random, before: tuple[Row, ...], others: tuple[Row, ...], keys: Sequence[int]
) -> tuple[Row, ...]:
    """The rows before, of which some have what others have beside the key, or are replaced."""
    made: list[Row] = []
    for number, row in enumerate(before):
        other = others[number] if number < len(others) else None
        how = draw.random()
        if how < 0.2 and other is not None:
            made.append(tuple(row[i] if i in keys else other[i] for i in range(len(row))))
        elif how < 0.8:
            made.append(row)
        elif other is not None:
            made.append(other)
    return tuple(made)


def _few_keys(draw: random.Random, rows: tuple[Row, ...], places: Sequence[int]) -> tuple[Row, ...]:
    """The rows, most of them with one of a few keys: a condition then chooses among many."""
    some = rows[: draw.choice([1, 2, 4])]
    made = []
    for row in rows:
        changed = list(row)
        if draw.random() < 0.9:
            again = draw.choice(some)
            for i in places:
                changed[i] = again[i]
        made.append(tuple(changed))
    return tuple(made)


def _consecutive(pools: Pools, rows: tuple[Row, ...], place: int, kind: str) -> tuple[Row, ...]:
    """The rows with integer keys one after the other, which an index has in order."""
    numbers = [n for n in (fits("long", v) for v in pools.pools["exact"]) if n is not None]
    if kind not in INTEGERS or not numbers:
        return rows
    start = pools.draw.choice(numbers)
    keys = [fits(kind, Decimal(start + i)) for i in range(len(rows))]
    if None in keys:
        return rows
    shuffled = pools.draw.sample(keys, len(keys))
    return tuple(
        (*row[:place], key, *row[place + 1 :]) for row, key in zip(rows, shuffled, strict=True)
    )


def _in_sqlite(value: Any) -> Any:
    """SQLite has no NaN, no -0.0 and no texts with a zero byte, and dates are those of Python."""
    if isinstance(value, float):
        return None if value != value else value + 0.0
    if isinstance(value, str):
        return value.replace("\x00", "")
    return value


def _with_pair(places: Sequence[int], pair: tuple[Row, ...]) -> Callable[[int, Row], Row]:
    """Give every other row one of two keys of one hash."""

    def changed(number: int, row: Row) -> Row:
        if number % 2:
            return row
        made = list(row)
        for place, value in zip(places, pair[number // 2 % 2], strict=True):
            made[place] = value
        return tuple(made)

    return changed


def _distinct(rows: Sequence[Row], columns: Columns, keys: Sequence[int]) -> tuple[Row, ...]:
    """Of rows with the same key only the first."""
    found: dict[Any, Row] = {}
    for number, row in enumerate(rows):
        key = tuple(compared(columns[i][1], row[i]) for i in keys)
        found.setdefault((number,) if None in key else (key,), row)
    return tuple(found.values())
