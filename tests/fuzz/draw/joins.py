"""Drawing chains of joins."""

from __future__ import annotations

import math
import random
from dataclasses import replace

from bsjoin.conditions import AsOf, Band
from tests.fuzz import keys
from tests.fuzz.case import Case, Columns, Join, Table, picked, result_columns
from tests.fuzz.draw.boxes import also
from tests.fuzz.draw.conditions import condition, served
from tests.fuzz.draw.matching import compare, no_points, places, searches
from tests.fuzz.draw.pools import POINTS, Pools
from tests.fuzz.values import COLLATED, KINDS

_SUMMED = ("byte", "short", "int")
_ORDERED = ("long", "decimal(4,1)", "decimal(10,2)", "decimal(18,0)", "date", "timestamp")
_ALSO_ORDERED = ("float", "double", "timestamp_ntz", "interval")
_HOWS = ("inner", "inner", "left", "left", "semi", "anti")


def chain(pools: Pools, shared: Case) -> tuple[Join, ...] | None:
    """Up to four joins; None if the first table does not suit the stream."""
    draw = pools.draw
    joins: list[Join] = []
    runtime = draw.choice(["jvm", "jvm", "python"])
    for _ in range(draw.choices([1, 2, 3, 4], [10, 4, 2, 1])[0]):
        columns = result_columns(replace(shared, joins=tuple(joins)))[-1]
        which = draw.randrange(len(shared.tables))
        join = _join(pools, which, shared.tables[which], columns, runtime)
        if join is None:
            break
        joins.append(join)
        if draw.random() < 0.1:
            runtime = draw.choice(["jvm", "python"])
    return tuple(joins) or None


def _join(pools: Pools, which: int, table: Table, columns: Columns, runtime: str) -> Join | None:
    draw, kinds = pools.draw, dict(table.columns)
    on: list[tuple[str, str]] = []
    for key in draw.sample(table.keys, len(table.keys)):
        used = {name for name, _ in on}
        suit = [n for n, kind in columns[1:] if n not in used and compare(kind, kinds[key])]
        if not suit:
            return None
        on.append((draw.choice(suit), key))
    if draw.random() < (0.6 if len(on) < 2 else 0.85):  # that have keys of the table's rows
        on = _matched(pools, table, columns) or on
    if not pools.plain and draw.random() < 0.3:
        on = [(keys.drawn(draw, ours, columns), theirs) for ours, theirs in on]
    when = None
    if table.when is not None:
        points = [(name, kinds[name]) for name in table.when.table_columns]
        closed = getattr(table.when, "closed", "both")
        suit = [column for column in columns[1:] if searches([column[1]], points, closed)]
        if not suit:
            return None
        often = [column for column in suit if column[0][0] == POINTS[0]]
        one = draw.choice(often if often and draw.random() < 0.7 else suit)
        others = [c for c in suit if searches([one[1], c[1]], points, closed)]
        ends = [c for c in others if c in often]
        other = draw.choice(ends if ends and draw.random() < 0.7 else others)
        if one in ends and other in ends and draw.random() < 0.8:  # an interval's, in order
            one, other = ends[0], ends[-1]
        when = condition(pools, [one, other], points, closed)
        when = served(when, table.when, (*table.columns, *columns), pools.plain)
    how = draw.choice(_HOWS)
    names = [name for name, _ in table.columns]
    select = None
    if how in ("inner", "left") and draw.random() < 0.4:
        select = tuple(draw.sample(names, draw.randrange(len(names) + 1)))
    partition = None
    if on and draw.random() < 0.12:
        partition = draw.choice([("hash", draw.choice([1, 3])), ("hot spot", 3)])
    selects = draw.random() < 0.4
    join = Join(which, tuple(on), how, when, select, partition, runtime, selects)
    join = replace(join, where=_where(join, table, columns))
    join = replace(join, nulls_equal=_nulls_equal(join, table))
    join = _aggregated(join, table, columns, pools.plain)
    if not pools.plain and _may_collect(join, table) and draw.random() < 0.4:
        join = replace(join, when=replace(when, collect=pools.name("near")))
    return replace(join, also=also(join, table, columns))


def _may_collect(join: Join, table: Table) -> bool:
    """Whether an array may have the rows that it finds."""
    return isinstance(join.when, AsOf) and join.where is None and bool(picked(table, join))


def _aggregated(join: Join, table: Table, columns: Columns, plain: bool) -> Join:
    """The join, some bands of which have aggregates; drawn by itself, too."""
    draw = random.Random(repr((join, columns, "agg")))
    is_alone = join.where is None and join.select is None and join.how in ("inner", "left")
    share = 0.4 if plain else 0.8
    if not isinstance(join.when, Band) or not is_alone or draw.random() > share:
        return join
    calls = ["count(*)"]
    for name, kind in draw.sample(table.columns, min(3, len(table.columns))):
        functions = ["count"]
        if not plain and _has_exact_sums(table, name):
            functions += ["sum", "avg"]
        elif kind in _SUMMED:
            functions.append("sum")
        if kind in (*_SUMMED, *_ORDERED, *([] if plain else _ALSO_ORDERED)):
            functions += ["min", "max"]
        calls += [f"{function}(`{name.replace('`', '``')}`)" for function in functions]
    taken = [name.lower() for name, _ in columns]
    names = (f"g{number}" for number in range(1000) if f"g{number}" not in taken)
    agg = dict(zip(names, draw.sample(calls, len(calls)), strict=False))
    return replace(join, when=replace(join.when, agg=agg))


def _has_exact_sums(table: Table, name: str) -> bool:
    """Whether all sums of a column's values are exact, whatever their order."""
    place, kind = table.rows(0).names().index(name), dict(table.columns)[name]
    values = [row[place] for rows in table.versions for row in rows if row[place] is not None]
    if kind.startswith("decimal"):
        return sum(KINDS[kind].digits) <= 18
    if KINDS[kind].family == "floating":
        return all(abs(v) < 2**40 and (4 * v).is_integer() for v in values if math.isfinite(v))
    return KINDS[kind].family == "exact" and sum(map(abs, values)) < 2**53


def _where(join: Join, table: Table, columns: Columns) -> tuple[str, str, str] | None:
    """The rest of the condition, for every fourth join.

    It is drawn by itself: the rest of a case is the same with and without it.
    """
    draw = random.Random(repr((join, columns)))
    theirs = [column for column in table.columns if column[0] not in table.keys]
    if not theirs or draw.random() < 0.75:
        return None
    name, kind = draw.choice(theirs)
    suit = [one for one, other in columns if other == kind and KINDS[kind].family != "carried"]
    if not suit or draw.random() < 0.2:
        return "null", columns[0][0], name
    what = draw.choice(["same", "above"])
    return "same" if kind.startswith(COLLATED) else what, draw.choice(suit), name


def _nulls_equal(join: Join, table: Table) -> tuple[str, ...]:
    """Which keys are null-safe, of those that may be: mostly all. Drawn by itself, too."""
    draw = random.Random(repr((join, table.nulls_equal)))
    if draw.random() < 0.7:
        return table.nulls_equal
    return tuple(draw.sample(table.nulls_equal, draw.randint(0, len(table.nulls_equal))))


def _matched(pools: Pools, table: Table, columns: Columns) -> list[tuple[str, str]] | None:
    """The columns that have keys of the table's rows, with their keys, in any order."""
    found = places(table, columns, no_points(columns)[1:])
    if found is None:
        return None
    names = [columns[i][0] for i in found]
    return pools.draw.sample(list(zip(names, table.keys, strict=True)), len(names))
