"""What matches in a range join, by the nested loop of the fuzz; types and widths of `range_kinds`.

Rows of the stream have a key k and the columns p and x, those of the table k, q and y.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from itertools import chain, islice
from typing import Any

from range_kinds import Kind, When

from bsjoin import AsOf, Within
from tests.fuzz.exact import matcher, nearest_groups, order_or_none, take_order

Row = dict[str, Any]
Place = tuple[int, Any]


def order(value: Any) -> Place:
    """Spark's order: NaN above all."""
    return (1, 0.0) if value != value else (0, value)


def of_join_type(
    how: str, inner: Counter[tuple[Any, Any]], stream: Iterable[Any]
) -> Counter[tuple[Any, ...]]:
    """The rows of a join type, of the pairs that match and the stream's rows."""
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
