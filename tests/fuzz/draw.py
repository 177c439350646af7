"""Drawing: a seed makes a case.

The cases of a round, of which each has a seed of its own, share tables and the stream: to build a
table costs more than to join with it.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from decimal import Decimal
from typing import Any

from bsjoin import AsOf, Band, Overlaps, Within
from tests.fuzz.case import Case, Columns, Join, Row, Rows, Table, result_columns
from tests.fuzz.collisions import TEXTS, partner, second_of_pair
from tests.fuzz.exact import TooManyRowsError, expected
from tests.fuzz.values import (
    CARRIED,
    FAMILIES,
    KINDS,
    MAX_DIGITS,
    RANGED,
    carried,
    comparable,
    dense,
    equality,
    fits,
    middle,
    order,
    pool,
    together,
)

__all__ = ["SEEDS_A_ROUND", "Round", "case_of", "draw_round"]

SEEDS_A_ROUND = 64
_BATCH_ROWS = (1, 2, 7, 49, 50, 51, 100, 10_000, 10_000)
_ZONES = ("UTC", "UTC", "America/New_York", "Asia/Kathmandu")
_CLOSED = ("both", "left", "right", "neither")
_HOWS = ("inner", "inner", "left", "left", "semi", "anti")
_NUMBER = "n"
_INTEGERS = ("byte", "short", "int", "long")
_NARROW = ("short", "int", "decimal(4,1)", "decimal(10,2)")
"""Together they have few digits: ranges of them are searched in the JVM."""
_POINTS = ("p", "r")
"""What the names of range columns begin with, of the stream and of tables."""
_NULLS = (0, 0.1, 0.1, 0.4)
"""The share of nulls in a column is one of these."""
_OFTEN = {"exact": 6, "floating": 4, "string": 2, "int": 3, "long": 3}
"""Families and kinds that are drawn more often than others."""


@dataclass(frozen=True)
class Round:
    """Cases that share tables, the stream and settings.

    Args:
        cases: by their seeds.
        streaming: whether they run in one streaming query.
    """

    cases: dict[int, Case]
    streaming: bool


def case_of(seed: int) -> Case:
    """The case of a seed.

    Raises:
        LookupError: the round of the seed has fewer cases.
    """
    return draw_round(seed // SEEDS_A_ROUND).cases[seed]


def draw_round(number: int) -> Round:
    """The cases of the seeds from ``number * SEEDS_A_ROUND`` on."""
    return _Drawing(random.Random(number)).round(number * SEEDS_A_ROUND)


class _Drawing:
    """The draws of a round."""

    def __init__(self, draw: random.Random):
        self.draw = draw
        self.streaming = draw.random() < 0.15
        # Few families: so keys of later joins come from earlier ones.
        drawn = draw.choices(sorted(FAMILIES), [_OFTEN.get(f, 1) for f in sorted(FAMILIES)], k=3)
        self.families = list(dict.fromkeys(drawn))[: draw.choice([1, 2, 2, 3])]
        if self.families == ["boolean"]:
            self.families = ["boolean", "exact"]
        self.pools = {
            family: pool(draw, family, draw.choice([2, 5, 12, 40])) for family in FAMILIES
        }
        self.pair: tuple[str, Row, Row] | None = None
        if draw.random() < 0.4:
            self.collide()
        self.ranged = draw.choice([f for f in self.families if f in RANGED])
        self.point_kinds = FAMILIES[self.ranged]
        if draw.random() < 0.7:  # so that both sides of a condition often have types of one group
            wide = [kind for kind in self.point_kinds if KINDS[kind].digits[0] >= 20]
            integers = [kind for kind in self.point_kinds if kind in _INTEGERS]
            narrow = [kind for kind in self.point_kinds if kind in _NARROW]
            few = draw.sample(self.point_kinds, min(2, len(self.point_kinds)))
            self.point_kinds = draw.choice([few, wide, integers, narrow]) or few
        self.points = dense(draw, self.ranged, draw.choice([5, 15, 30]))
        self.point_kinds = _fitting(self.point_kinds, self.points)
        self.kinds = {family: _fitting(FAMILIES[family], self.pools[family]) for family in FAMILIES}
        self.names = 0

    def collide(self) -> None:
        """Add values that make different keys of one hash."""
        draw, pools = self.draw, self.pools
        pools["string"] += TEXTS[:2] if draw.random() < 0.5 else TEXTS[2:]
        pools["binary"] += map(partner, draw.sample(pools["binary"], 1))
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

    def round(self, seed: int) -> Round:
        draw = self.draw
        tables = tuple(self.table(first=not n) for n in range(draw.choice([2, 3, 3])))
        stream = self.stream(tables)
        cuts, events = self.schedule(len(stream.rows))
        shared = Case(
            tables=tables,
            stream=stream,
            joins=(),
            cuts=cuts,
            batch_rows=draw.choice(_BATCH_ROWS),
            zone=draw.choice(_ZONES),
            parts=draw.choice([1, 1, 2]),
            generated=draw.random() < 0.2,  # which costs more than the rest of a small query
        )
        cases: dict[int, Case] = {}
        wanted = 12 if self.streaming else 40
        privates = 0
        for _ in range(3 * wanted):
            if len(cases) == wanted:
                break
            joins = self.chain(shared)
            if joins is None:
                continue
            private = any(tables[join.table].cache == "private" for join in joins)
            if private and (privates == 4 or self.streaming):  # each costs a build
                continue
            here = events
            if not self.streaming:  # the later half comes after a refresh
                here = ((0, "refresh"),) if len(cases) >= wanted // 2 else ()
            case = _small(replace(shared, joins=joins, events=here))
            if case is not None:
                privates += private
                cases[seed + len(cases)] = case
        return Round(cases, self.streaming)

    def schedule(self, rows: int) -> tuple[tuple[int, ...], tuple[tuple[int, str], ...]]:
        """Micro-batches, and what happens between them."""
        if not self.streaming:
            return (), ()
        draw, cuts, left = self.draw, [], rows
        for _ in range(draw.choice([1, 2, 2, 3])):
            size = min(left - 1, draw.choice([1, 2, 7, 20, 50]))
            if size:
                cuts.append(size)
                left -= size
        cuts.append(left)
        events = [
            (number, event)
            for number in range(1, len(cuts))
            for event, share in (("refresh", 0.7), ("restart", 0.15), ("replay", 0.3))
            if draw.random() < share
        ]
        return tuple(cuts), tuple(events)

    def name(self, stem: str) -> str:
        self.names += 1
        return f"{stem}{self.names}"

    def column(self, family: str, stem: str) -> tuple[str, str]:
        kinds = self.point_kinds if stem in _POINTS else self.kinds[family]
        return self.name(stem), self.draw.choices(kinds, [_OFTEN.get(k, 1) for k in kinds])[0]

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
        shares: Sequence[float] = _NULLS,
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

    def stream(self, tables: Sequence[Table]) -> Rows:
        """A number, and at least one column of each family in use, two of the ranged one.

        Most rows have the keys of a table's row.
        """
        draw = self.draw
        enough = Counter(self.families)
        for table in tables if draw.random() < 0.8 else ():  # a column for each key of a table
            kinds = dict(table.columns)
            enough |= Counter(KINDS[kinds[key]].family for key in table.keys)
        families = [*enough.elements(), *draw.choices(self.families, k=draw.randrange(3))]
        columns = [self.column(family, "s") for family in families]
        points = [self.column(self.ranged, "p") for _ in range(2)]
        extra = [(self.name("e"), draw.choice([*CARRIED, "string"]))] if draw.random() < 0.4 else []
        columns = [*columns, *points, *extra]
        draw.shuffle(columns)
        size = draw.choices([0, 1, 3, 12, 25, 40, 60, 103], [1, 1, 2, 5, 7, 7, 5, 3])[0]
        if self.streaming:
            size = max(size, 12)  # at least two micro-batches, so that something is between
        rows = self.rows(tuple(columns), size, [n for n, _ in points], draw.choice([0, 0, 0.6]))
        numbered = tuple(
            (number, *self.matching(row, columns, tables)) for number, row in enumerate(rows)
        )
        return Rows(((_NUMBER, "long"), *columns), numbered)

    def matching(self, row: Row, columns: Columns, tables: Sequence[Table]) -> Row:
        """The row, perhaps with keys and points of rows of some tables."""
        draw, changed = self.draw, list(row)
        free = _no_points(columns)
        ours = [i for i in range(len(columns)) if i not in free]
        for table in draw.sample(tables, len(tables)):
            rows = draw.choice(table.versions)
            if not rows or draw.random() < 0.3:
                continue
            names = [name for name, _ in table.columns]
            taken = dict(zip(names, draw.choice(rows), strict=True))
            used = self.keyed(changed, table, taken, columns, free)
            free = [i for i in free if i not in used]
            # A point is often one of that row, which is where a condition begins or ends to hold.
            theirs = table.when.table_columns if table.when and (used or not table.keys) else ()
            keys = [(names.index(key), taken[key]) for key in table.keys]
            beside = [row for row in rows if all(row[place] == key for place, key in keys)]
            for at in ours if theirs else ():
                name = draw.choice(theirs)
                if taken[name] is not None and draw.random() < 0.8:
                    others = [row[names.index(name)] for row in beside]
                    near = self.near(taken[name], others, columns[at][1])
                    changed[at] = near if near is not None else changed[at]
            ours = [] if theirs else ours
        ours = [i for i in range(len(columns)) if columns[i][0][0] == _POINTS[0]]
        return self.in_order(tuple(changed), columns, *ours)

    def in_order(self, row: Row, columns: Columns, first: int, second: int) -> Row:
        """The row, whose two points are mostly the beginning and the end of an interval."""
        low, high = row[first], row[second]
        if None in (low, high) or order(low) <= order(high) or self.draw.random() < 0.15:
            return row
        swapped = {first: high, second: low}
        for at, value in swapped.items():
            kind = columns[at][1]
            exact = KINDS[kind].family == "exact"
            swapped[at] = fits(kind, Decimal(value) if exact else value)
        if None in swapped.values():
            return row
        return tuple(swapped.get(i, value) for i, value in enumerate(row))

    def keyed(
        self,
        row: list[Any],
        table: Table,
        taken: Mapping[str, Any],
        columns: Columns,
        free: Sequence[int],
    ) -> set[int]:
        """Give a row of the stream the keys of a table's row; which columns now have them."""
        draw = self.draw
        found = _places(table, columns, _no_points(columns))
        if found is None or any(taken[key] is None for key in table.keys):
            return set()
        places = list(zip(found, table.keys, strict=True))
        if len(places) == 1 and draw.random() < 0.7:  # whichever a join takes
            ((at, key),) = places
            family = KINDS[columns[at][1]].family
            places = [(i, key) for i in free if KINDS[columns[i][1]].family == family]
        if not {at for at, _ in places} <= set(free):
            return set()
        for at, key in places:
            exact = KINDS[columns[at][1]].family == "exact"
            # Sometimes the number behind it, which the table may lack.
            value = Decimal(taken[key]) if exact else taken[key]
            if exact and draw.random() < 0.05:
                value += 1
            row[at] = fits(columns[at][1], value)
        return {at for at, _ in places}

    def near(self, value: Any, values: Sequence[Any], kind: str) -> Any:
        """A point at a value, between it and the next one, or a fraction of one away from it."""
        draw = self.draw
        exact = KINDS[kind].family == "exact"
        if KINDS[kind].family in ("string", "binary"):
            return value
        value = Decimal(value) if exact else value
        how = draw.random()
        if how < 0.4:  # of these two, neither is nearer
            others = [Decimal(v) if exact else v for v in values if v is not None]
            later = [other for other in others if other > value]
            if later:
                between = middle(value, min(later))
                if between is not None and (found := fits(kind, between)) is not None:
                    return found
        elif how < 0.7 and exact:
            away = draw.choice(["0.5", "-0.5", "0.25", "0.1", "-0.01", "0.001"])
            if (found := fits(kind, value + Decimal(away))) is not None:
                return found
        return fits(kind, value)

    def table(self, first: bool) -> Table:
        """A table; the first one is stored. Some do not have all values that the stream has."""
        draw, pools, points = self.draw, self.pools, self.points
        if draw.random() < 0.5:
            self.pools = {family: self.half(values) for family, values in pools.items()}
        if draw.random() < 0.5:
            self.points = self.half(points)
        try:
            return self._table(first)
        finally:
            self.pools, self.points = pools, points

    def half(self, values: list[Any]) -> list[Any]:
        return self.draw.sample(values, -(-len(values) // 2))

    def _table(self, first: bool) -> Table:
        draw = self.draw
        cache = draw.choices(["stored", "private", "sqlite", "callback"], [8, 1, 1.5, 3])[0]
        cache = "stored" if first else cache
        ranged = draw.random() < 0.5 and cache != "sqlite"
        many = draw.choices([0, 1, 2, 3], [2 if ranged and cache != "callback" else 0, 10, 4, 1])[0]
        families = draw.choices(self.families, k=many)
        if cache == "sqlite":
            families = [f for f in families if f in _SQLITE] or ["exact"]
        keys = [self.column(family, "k") for family in families]
        pair = self.pair if cache != "sqlite" and draw.random() < 0.3 else None
        if pair:
            keys = [(self.name("k"), pair[0]), (self.name("k"), "long")]
        points: list[tuple[str, str]] = []
        when = None
        if ranged:
            points = [self.column(self.ranged, "r") for _ in range(draw.choice([1, 2]))]
            if len(points) == 2 and not comparable(points[0][1], points[1][1]):
                points = [points[0], (points[1][0], points[0][1])]
            when = self.condition([("p", points[0][1])] * 2, points, draw.choice(_CLOSED))
        payload = [self.column(f, "c") for f in draw.choices(self.families, k=draw.randrange(1, 3))]
        for _ in range(draw.randrange(4)):  # of all types: to carry one costs little
            payload.append((self.name("c"), draw.choice([*CARRIED, *KINDS])))
        columns = [*keys, *points, *payload]
        if cache == "sqlite":
            columns = [(name, _SQLITE.get(KINDS[kind].family, "string")) for name, kind in columns]
        if cache == "callback":  # sources have no intervals
            columns = [(n, "long" if kind == "interval" else kind) for n, kind in columns]
        draw.shuffle(columns)
        limits: tuple[tuple[str, Any], ...] = ()
        if cache in ("sqlite", "callback"):
            limits = draw.choice(
                [
                    (("max_rows", 1000),),
                    (("max_rows", 1),),
                    (("max_rows", 7),),
                    (("max_bytes", 4096),),
                    (("max_rows", 100), ("negative", False)),
                ]
            )
        unique = bool(keys) and draw.random() < 0.25
        strict = draw.random() < 0.4
        shares = (0, 0, 0, 0.1) if strict else _NULLS
        names = [name for name, _ in columns]
        places = [names.index(name) for name, _ in keys]
        ranged_names = [name for name, _ in points]
        versions: list[tuple[Row, ...]] = []
        for _ in range((3 if self.streaming else 2) if cache == "stored" else 1):
            size = draw.choices([0, 1, 5, 15, 40, 80, 150], [1, 1, 2, 6, 7, 6, 3])[0]
            skew = draw.choice([0, 0, 0.6, 0.9 if size == 150 else 0])
            rows = self.rows(tuple(columns), size, ranged_names, skew, shares)
            if cache == "sqlite":
                rows = tuple(tuple(_in_sqlite(value) for value in row) for row in rows)
            if points and places and draw.random() < 0.8:
                rows = self.few_keys(rows, places)
            elif len(keys) == 1 and draw.random() < 0.35:
                rows = self.consecutive(rows, places[0], keys[0][1])
            if len(points) == 2:
                both = [names.index(name) for name in ranged_names]
                rows = tuple(self.in_order(row, tuple(columns), *both) for row in rows)
            if pair:
                rows = tuple(map(_with_pair(places, pair[1:]), range(len(rows)), rows))
            if versions and draw.random() < 0.5:
                rows = self.changed(versions[-1], rows, places)
            # Keys without duplicates in this version only.
            if unique or (self.streaming and not versions and draw.random() < 0.3):
                rows = _distinct(rows, places)
            versions.append(rows)
        return Table(
            columns=tuple(columns),
            versions=tuple(versions),
            keys=tuple(name for name, _ in keys),
            when=when,
            cache=cache,
            unique=unique,
            limits=limits,
            strict=strict,
            max_keys=draw.choice([10_000, 3]) if limits else 10_000,
        )

    def changed(
        self, before: tuple[Row, ...], others: tuple[Row, ...], keys: Sequence[int]
    ) -> tuple[Row, ...]:
        """The rows before, of which some have what others have beside the key, or are replaced."""
        draw, made = self.draw, list[Row]()
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

    def few_keys(self, rows: tuple[Row, ...], places: Sequence[int]) -> tuple[Row, ...]:
        """The rows, most of them with one of a few keys: a condition then chooses among many."""
        draw = self.draw
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

    def consecutive(self, rows: tuple[Row, ...], place: int, kind: str) -> tuple[Row, ...]:
        """The rows with integer keys one after the other, which an index has in order."""
        numbers = [n for n in (fits("long", v) for v in self.pools["exact"]) if n is not None]
        if kind not in _INTEGERS or not numbers:
            return rows
        start = self.draw.choice(numbers)
        keys = [fits(kind, Decimal(start + i)) for i in range(len(rows))]
        if None in keys:
            return rows
        shuffled = self.draw.sample(keys, len(keys))
        return tuple(
            (*row[:place], key, *row[place + 1 :]) for row, key in zip(rows, shuffled, strict=True)
        )

    def condition(
        self, probes: Sequence[tuple[str, str]], points: Sequence[tuple[str, str]], closed: str
    ) -> Any:
        """A condition on columns of both sides."""
        draw, names = self.draw, [name for name, _ in points]
        if len(points) == 2:
            if draw.random() < 0.5:
                return Within(probes[0][0], *names, closed)
            return Overlaps((probes[0][0], probes[1][0]), tuple(names), closed)
        family = self.ranged
        has_distance = family not in ("string", "binary")
        if has_distance and draw.random() < 0.5:
            while True:
                before, after = self.width(family), self.width(family)
                try:
                    return Band(probes[0][0], names[0], before, after, draw.choice(_CLOSED))
                except ValueError:
                    continue
        direction = draw.choice(["backward", "forward", *(["nearest"] * 2 if has_distance else [])])
        tolerance = None
        if has_distance and draw.random() < 0.4:
            tolerance = self.width(family, least=0)
        return AsOf(probes[0][0], names[0], direction, tolerance, draw.random() < 0.7)

    def width(self, family: str, least: int = -3) -> Any:
        draw = self.draw
        n = draw.choice([least, 0, 0, 1, 2, 5, 30])
        if family == "date":
            return draw.choice([timedelta(days=n), f"{n} days"] if n >= 0 else [timedelta(days=n)])
        if family in ("timestamp", "timestamp_ntz"):
            texts = [f"{n} seconds", f"{n} hours"] if n >= 0 else []
            return draw.choice([timedelta(microseconds=n), timedelta(minutes=30 * n), n, *texts])
        if draw.random() < 0.05:
            return float("inf")
        others = [Decimal(n) / 4, n + 0.5] if n >= 0 else [Decimal(n) / 2]
        return draw.choice([n, n, *others])

    def chain(self, shared: Case) -> tuple[Join, ...] | None:
        """Up to four joins; None if the first table does not suit the stream."""
        draw = self.draw
        joins: list[Join] = []
        runtime = draw.choice(["jvm", "jvm", "python"])
        for _ in range(draw.choices([1, 2, 3, 4], [10, 4, 2, 1])[0]):
            columns = result_columns(replace(shared, joins=tuple(joins)))[-1]
            which = draw.randrange(len(shared.tables))
            join = self.join(which, shared.tables[which], columns, runtime)
            if join is None:
                break
            joins.append(join)
            if draw.random() < 0.1:
                runtime = draw.choice(["jvm", "python"])
        return tuple(joins) or None

    def matched(self, table: Table, columns: Columns) -> list[tuple[str, str]] | None:
        """The columns of :meth:`keyed` with their keys, in any order."""
        places = _places(table, columns, _no_points(columns)[1:])
        if places is None:
            return None
        names = [columns[i][0] for i in places]
        return self.draw.sample(list(zip(names, table.keys, strict=True)), len(names))

    def join(self, which: int, table: Table, columns: Columns, runtime: str) -> Join | None:
        draw, kinds = self.draw, dict(table.columns)
        on: list[tuple[str, str]] = []
        for key in draw.sample(table.keys, len(table.keys)):
            used = {name for name, _ in on}
            suit = [n for n, kind in columns[1:] if n not in used and _compare(kind, kinds[key])]
            if not suit:
                return None
            on.append((draw.choice(suit), key))
        if draw.random() < (0.6 if len(on) < 2 else 0.85):  # that have keys of the table's rows
            on = self.matched(table, columns) or on
        when = None
        if table.when is not None:
            points = [(name, kinds[name]) for name in table.when.table_columns]
            closed = getattr(table.when, "closed", "both")
            suit = [column for column in columns[1:] if _searches([column[1]], points, closed)]
            if not suit:
                return None
            often = [column for column in suit if column[0][0] == _POINTS[0]]
            one = draw.choice(often if often and draw.random() < 0.7 else suit)
            others = [c for c in suit if _searches([one[1], c[1]], points, closed)]
            ends = [c for c in others if c in often]
            other = draw.choice(ends if ends and draw.random() < 0.7 else others)
            if one in ends and other in ends and draw.random() < 0.8:  # an interval's, in order
                one, other = ends[0], ends[-1]
            when = self.condition([one, other], points, closed)
        how = draw.choice(_HOWS)
        names = [name for name, _ in table.columns]
        select = None
        if how in ("inner", "left") and draw.random() < 0.4:
            select = tuple(draw.sample(names, draw.randrange(len(names) + 1)))
        partition = None
        if on and draw.random() < 0.12:
            partition = draw.choice([("hash", draw.choice([1, 3])), ("hot spot", 3)])
        selects = draw.random() < 0.4
        return Join(which, tuple(on), how, when, select, partition, runtime, selects)


_SQLITE = {
    "exact": "long",
    "floating": "double",
    "string": "string",
    "binary": "binary",
    "boolean": "boolean",
    "date": "date",
}
"""The types of columns in SQLite; of others, text."""


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


def _fitting(kinds: list[str], values: Sequence[Any]) -> list[str]:
    """The kinds that have a quarter of some values; all if there are none: others have nulls."""
    many = {kind: sum(fits(kind, value) is not None for value in values) for kind in kinds}
    return [kind for kind in kinds if 4 * many[kind] >= len(values)] or kinds


def _compare(stream: str, table: str) -> bool:
    return stream not in CARRIED and table not in CARRIED and comparable(stream, table)


def _no_points(columns: Columns) -> list[int]:
    """The columns of the stream that are no points."""
    return [i for i, (name, _) in enumerate(columns) if name[0] != _POINTS[0]]


def _places(table: Table, columns: Columns, free: Sequence[int]) -> list[int] | None:
    """Of columns of the stream the first that suits each key; None if one has none."""
    kinds, places = dict(table.columns), list[int]()
    for key in table.keys:
        suit = (i for i in free if i not in places and _compare(columns[i][1], kinds[key]))
        place = next(suit, None)
        if place is None:
            return None
        places.append(place)
    return places


def _searches(stream: Sequence[str], points: Columns, closed: str) -> bool:
    """Whether bsjoin searches a table's columns for columns of the stream."""
    kinds = [*stream, *(kind for _, kind in points)]
    if any(kind in CARRIED or not comparable(kind, kinds[-1]) for kind in kinds):
        return False
    if KINDS[kinds[-1]].family != "exact":
        return True
    stored = [kind for _, kind in points]
    if not any(kind.startswith("decimal") for kind in stored):
        stored = ["long"]
        wide = any(kind.startswith("decimal") and KINDS[kind].digits[0] > 18 for kind in stream)
        if wide and len(points) == 2 and closed != "left":
            return False
    return together([*stream, *stored]) <= MAX_DIGITS and together([*kinds, *stored]) <= MAX_DIGITS


def _distinct(rows: Sequence[Row], keys: Sequence[int]) -> tuple[Row, ...]:
    """Of rows with the same key only the first."""
    found: dict[Any, Row] = {}
    for number, row in enumerate(rows):
        key = tuple(None if row[i] is None else equality(row[i]) for i in keys)
        found.setdefault((number,) if None in key else (key,), row)
    return tuple(found.values())


def _small(case: Case) -> Case | None:
    """The case with as many of its joins as have a small result."""
    while case.joins:
        try:
            expected(case)
        except TooManyRowsError:
            case = replace(case, joins=case.joins[:-1])
        else:
            return case
    return None
