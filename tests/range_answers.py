"""What matches in a range join, by a nested loop and by DuckDB; types and widths of `range_kinds`.

Rows of the stream have a key k and the columns p and x, those of the table k, q and y.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from fractions import Fraction
from itertools import chain, islice
from typing import Any

import duckdb
import pyarrow as pa
from range_kinds import Kind, When

from bsjoin import AsOf, Band, Within
from tests.fuzz.exact import matcher, nearest_groups, order_or_none, take_order

__all__ = ["Row", "by_duckdb", "by_loop", "of_join_type", "order"]

Row = dict[str, Any]
Place = tuple[int, Any]


def order(value: Any) -> Place:
    """Spark's order: NaN above all."""
    return (1, 0.0) if value != value else (0, value)


def of_join_type(
    how: str, inner: Counter[tuple[Any, Any]], stream: Iterable[Any]
) -> Counter[tuple[Any, ...]]:
    """The rows of a join, of the pairs that match.

    Args:
        how: the join type.
        inner: the pairs; the first of each is a row of the stream.
        stream: its rows.
    """
    matched = {s for s, _ in inner}
    rest = [s for s in stream if s not in matched]
    wanted: dict[str, Counter[tuple[Any, ...]]] = {
        "inner": inner,
        "left": inner + Counter((s, None) for s in rest),
        "semi": Counter((s,) for s in matched),
        "anti": Counter((s,) for s in rest),
    }
    return wanted[how]


def by_loop(
    kind: Kind, stream: list[Row], table: list[Row], on: list[str], when: When
) -> list[list[int]]:
    """For each row of the stream the numbers of the table's rows that match it, ascending.

    As-of takes rows with the same value in their order; of intervals that are alike the last one is
    taken.
    """
    name = "double" if kind.floating else "long" if kind.widths else str(kind.arrow)
    points = [(row["k"], _numbers(kind, row, "p", "x")) for row in stream]
    rows = [(row["k"], _numbers(kind, row, "q", "y")) for row in table]
    found = []
    for key, probe in points:
        there = {
            n: row
            for n, (k, row) in enumerate(rows)
            if row[0] is not None and (not on or (k is not None and k == key))
        }
        if probe[0] is None:
            found.append([])
        elif isinstance(when, AsOf):
            values = {n: row[0] for n, row in there.items()}
            groups = map(sorted, nearest_groups(when, probe[0], name, values))
            found.append(sorted(islice(chain.from_iterable(groups), when.n)))
        else:
            holds = matcher(when, probe, name)
            all_ = [n for n, row in there.items() if holds([*map(order_or_none, row)])]
            if all_ and isinstance(when, Within) and when.take != "all":
                all_ = [min(all_, key=lambda n: (*take_order(when, there[n], name), -n))]
            found.append(all_)
    return found


def _numbers(kind: Kind, row: Row, *names: str) -> list[Any]:
    """Values in units of the codes."""
    values = [row[name] for name in names]
    return [None if value is None else kind.number(value) for value in values]


def by_duckdb(
    database: duckdb.DuckDBPyConnection,
    kind: Kind,
    stream: list[Row],
    table: list[Row],
    on: list[str],
    when: When,
) -> list[list[int]] | None:
    """As :func:`by_loop`, from conditions spelt out in SQL and from ASOF joins.

    None for decimals of different scale, which SQL may round; for the nearest of floats, where
    it would have to tell the rules for infinities again; and for that of long decimals, whose
    distances have no type there.
    """
    if kind.finer:
        return None
    database.register("s", _relation(kind.probes, stream, "p", "x"))
    database.register("t", _relation(kind, table, "q", "y"))
    same = "s.k = t.k" if on else "true"
    if not isinstance(when, AsOf):
        query = f"select s.n, t.n from s join t on {same} and {_condition(kind, when)}"
        if isinstance(when, Within) and when.take != "all":
            if when.take == "shortest" and (kind.floating or kind.long):
                return None
            by = {
                "latest_start": "t.q desc, ",
                "earliest_end": "t.y asc nulls last, ",
                "shortest": "t.yn::hugeint - t.qn::hugeint asc nulls last, ",
                "first": "",
            }[when.take]
            query += f" qualify row_number() over (partition by s.n order by {by}t.n desc) = 1"
    elif when.direction != "nearest" and when.n > 1:
        sign, down = {"backward": (">", "desc"), "forward": ("<", "")}[when.direction]
        near = f"s.p {sign}{'=' * when.exact} t.q and {_tolerated(kind, when.tolerance)}"
        query = (
            f"select s.n, t.n from s join t on {same} and {near} qualify row_number() over "
            f"(partition by s.n order by t.q {down}, t.n) <= {when.n}"
        )
    elif when.direction != "nearest":
        sign = {"backward": ">", "forward": "<"}[when.direction] + ("=" if when.exact else "")
        joined = f"s asof join t on {same} and s.p {sign} t.q"
        query = f"select s.n, t.n from {joined} where {_tolerated(kind, when.tolerance)}"
    elif kind.floating or kind.probes.long:
        return None
    else:
        other = "s.p = s.p and t.q = t.q" if when.exact else "s.p <> t.q"  # neither is null
        near = f"{same} and {other} and {_tolerated(kind, when.tolerance)}"
        query = (
            f"select s.n, t.n from s join t on {near} qualify row_number() over "
            "(partition by s.n order by abs(t.qn::hugeint - s.pn::hugeint), t.q, t.n) "
            f"<= {when.n}"
        )
    found: list[list[int]] = [[] for _ in stream]
    for left, right in sorted(database.execute(query).fetchall()):
        found[left].append(right)
    one = isinstance(when, AsOf) and when.n == 1
    return _first_of_equals(table, on, found) if one else found


def _relation(kind: Kind, rows: list[Row], *names: str) -> pa.Table:
    """The columns, and beside each its number in units of the codes, as a decimal of any size."""
    columns = {
        "n": pa.array(range(len(rows)), pa.int32()),
        "k": pa.array([row["k"] for row in rows], pa.string()),
    }
    for name in names:
        values = [row[name] for row in rows]
        columns[name] = pa.array(values, kind.arrow)
        if kind.widths and not kind.floating:
            numbers = [None if value is None else kind.number(value) for value in values]
            columns[f"{name}n"] = pa.array(numbers, pa.decimal128(38, 0))
    return pa.table(columns)


def _condition(kind: Kind, when: When) -> str:
    assert not isinstance(when, AsOf)
    low, high = ("=" if when.closed in ("both", side) else "" for side in ("left", "right"))
    if isinstance(when, Band):
        return f"{_end(kind, '>' + low, -when.before)} and {_end(kind, '<' + high, when.after)}"
    touch = "<=" if when.closed == "both" else "<"
    not_empty = f"(t.y is null or t.q {touch} t.y)"
    if isinstance(when, Within):
        return f"s.p >{low} t.q and (t.y is null or s.p <{high} t.y) and {not_empty}"
    return (
        f"s.p is not null and t.q is not null and {not_empty} and (t.y is null or s.p {touch} t.y) "
        f"and (s.x is null or (s.p {touch} s.x and t.q {touch} s.x))"
    )


def _end(kind: Kind, sign: str, delta: Any) -> str:
    """The table's value against the stream's and a width: exact, but for floats."""
    if kind.floating:
        return f"t.q {sign} s.p + '{delta!r}'::double"
    if math.isinf(delta):
        return "s.p is not null and t.q is not null"
    top, bottom = Fraction(delta).as_integer_ratio()
    return f"t.qn::hugeint * {bottom} {sign} s.pn::hugeint * {bottom} + ({top})"


def _tolerated(kind: Kind, tolerance: Any) -> str:
    if tolerance is None:
        return "true"
    near = f"{_end(kind, '>=', -tolerance)} and {_end(kind, '<=', tolerance)}"
    if not kind.floating:
        return near
    return f"not isnan(s.p) and (s.p = t.q or (isfinite(s.p) and isfinite(t.q) and {near}))"


def _first_of_equals(table: list[Row], on: list[str], found: list[list[int]]) -> list[list[int]]:
    """Of rows with the same value the first: DuckDB does not say which it takes."""
    keys = [(row["k"] if on else None, row["q"] is None or order(row["q"])) for row in table]
    return [[keys.index(keys[number]) for number in numbers] for numbers in found]
