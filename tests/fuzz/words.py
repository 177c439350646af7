"""What joins of cases have, in words: a fault is looked for in the cases that can show it."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from functools import reduce
from typing import Any, TypeAlias

from tests.fuzz.case import Case, Columns, Join, Row, Table, aggregates, brought, result_columns
from tests.fuzz.collisions import hash_of
from tests.fuzz.values import KINDS

__all__ = ["has_all", "wanted", "words"]

Points: TypeAlias = list[tuple[str, list[Any]]]
"""The kind and the values of some columns."""

_EXACT = Context(prec=80)
_INTEGERS = ("byte", "short", "int", "long")
_NEAR_LIMIT = (1 << 63) - 100
_MANY = 9
"""More rows of one key than a node of the tree of intervals has."""
_LONG = 65
"""More rows of one key than a list has in Python."""


def has_all(found: set[str], needed: list[set[str]]) -> bool:
    """Whether some words have one of each of these."""
    return all(found & some for some in needed)


def wanted(file: str, needs: str) -> list[set[str]]:
    """What a join needs, in the runtime of a file: one word of each set."""
    needed = [set(word.split("|")) for word in needs.split()]
    if file.startswith("runtimes/jvm/"):
        needed.append({"jvm"})
    if file.startswith(("runtimes/python/", "index/", "cache/", "storage/")):
        needed.append({"python"})
    return needed


def words(case: Case, number: int) -> set[str]:
    """What a join of a case has.

    Args:
        case: the case.
        number: of the join in the chain.
    """
    join, earlier = case.joins[number], case.joins[:number]
    table = case.tables[join.table]
    there, kinds = dict(table.columns), dict(result_columns(case)[number])
    source = table.cache in ("sqlite", "callback")
    found = {table.cache, join.how, "python" if source or join.runtime == "python" else "jvm"}
    found |= {"source"} if source else set()
    aggregated = bool(aggregates(table, join))
    filters = "filters" if join.how in ("semi", "anti") else "brings"
    found |= {"aggregates" if aggregated else filters}
    found |= {"streaming"} if case.cuts else set()
    found |= set() if join.where is None else {"where", f"where-{join.where[0]}"}
    found |= {event for _, event in case.events}
    if any((at, "refresh") in case.events for at, event in case.events if event == "replay"):
        found.add("replay-after-refresh")
    if any(one.how != "left" for one in earlier):
        found.add("after-drops")
    found |= _of_keys(case, join, table)
    names = brought(table, join)
    if not names:
        found.add("no-columns")
    found |= {f"brings-{there[name]}" for name in names}
    found |= {f"brings-{KINDS[there[name]].family}" for name in names}
    for name, nullable in zip(there, table.nullable(), strict=True):
        if name in names:
            found.add("nulls" if nullable else "strict")
    if join.when is None:
        return found | {"equality"}
    return found | _of_condition(case, join, table, kinds)


def _of_keys(case: Case, join: Join, table: Table) -> set[str]:
    there = dict(table.columns)
    found = {"no-keys" if not table.keys else "one-key" if len(table.keys) == 1 else "several-keys"}
    found |= {"null-safe"} if join.nulls_equal else set()
    kinds = [there[key] for key in table.keys]
    found |= {f"key-{KINDS[kind].family}" for kind in kinds}
    if len(kinds) == 1 and kinds[0] in _INTEGERS and not table.nulls_equal:
        found.add("integer-key")
    else:
        found.add("hashed-key")
    stream = dict(case.stream.columns)
    pairs = [(stream.get(ours, ""), there[theirs]) for ours, theirs in join.on]
    if any(a.startswith("decimal") and b in _INTEGERS for a, b in pairs):
        found.add("decimal-for-integer")
    ours = [case.stream.names().index(name) for name, _ in join.on if name in stream]
    if any(row[i] is None for row in case.stream.rows for i in ours):
        found.add("null-key")
    names = [name for name, _ in table.columns]
    places = [names.index(key) for key in table.keys]
    zeros = [
        {repr(row[i]) for row in rows for i in some}
        for rows, some in ((case.stream.rows, ours), (sum(table.versions, ()), places))
    ]
    if zeros[0] & {"0.0", "-0.0"} and "-0.0" in zeros[1]:
        found.add("zero-keys")
    if "integer-key" in found and any(_is_full(rows, places[0]) for rows in table.versions):
        found.add("full")
    if any(_share_a_hash(table, rows) for rows in table.versions):
        found.add("one-hash")
    many = max(
        (max(Counter(repr([r[i] for i in places]) for r in rows).values(), default=0))
        for rows in table.versions
    )
    found |= {"many"} if many >= _MANY else set()
    found |= {"several"} if many > 1 else {"single"}
    found |= {"long-runs"} if many >= _LONG else set()
    return found


def _share_a_hash(table: Table, rows: Sequence[Row]) -> bool:
    """Whether two keys have one hash; keys of integers, texts and binaries only."""
    names = [name for name, _ in table.columns]
    places = [names.index(key) for key in table.keys]
    kinds = dict(table.columns)
    if any(kinds[key] not in (*_INTEGERS, "string", "binary") for key in table.keys):
        return False
    keys = {tuple(row[i] for i in places) for row in rows}
    hashes = {reduce(lambda h, v: hash_of(v, h), key, 42) for key in keys if None not in key}
    return len(hashes) < sum(None not in key for key in keys)


def _is_full(rows: tuple[Row, ...], place: int) -> bool:
    """Whether each number from the least key to the greatest has one row."""
    keys = sorted(row[place] for row in rows if row[place] is not None)
    return len(keys) > 1 and len({*keys}) == len(keys) == keys[-1] - keys[0] + 1


def _of_condition(case: Case, join: Join, table: Table, kinds: dict[str, str]) -> set[str]:
    when: Any = join.when
    there = dict(table.columns)
    theirs = [there[name] for name in when.table_columns]
    ours = [kinds[name] for name in when.stream_columns]
    name = type(when).__name__
    found = {name, f"point-{KINDS[theirs[0]].family}"}
    if name in ("Within", "Overlaps"):
        found.add("intervals")
    if name == "Within" and when.take != "all":
        found |= {"takes", f"take-{when.take}"}
    if name == "AsOf":
        found |= {when.direction, "inclusive" if when.exact else "strictly"}
        found |= {"tolerance"} if when.tolerance is not None else set()
        found |= {"order-by"} if when.order_by else set()
        found |= {"n-nearest"} if when.n > 1 else set()
        if when.direction != "forward":
            found.add("looks-back")
        if when.direction != "backward":
            found.add("looks-ahead")
    else:
        found.add(f"closed-{when.closed}")
    wide = [kind for kind in (*ours, *theirs) if sum(KINDS[kind].digits) > 20]
    found |= {"wide"} if wide else set()
    found |= {"ranked"} if any(sum(KINDS[kind].digits) > 20 for kind in theirs) else set()
    if max(KINDS[kind].digits[1] for kind in ours) > min(KINDS[kind].digits[1] for kind in theirs):
        found.add("finer")
    found |= _of_points(case, join, table)
    return found


def _of_points(case: Case, join: Join, table: Table) -> set[str]:
    when: Any = join.when
    rows = _columns(
        table.columns, [row for version in table.versions for row in version], when.table_columns
    )
    probes = _columns(case.stream.columns, case.stream.rows, when.stream_columns)
    found = set()
    if _is_between(rows, probes):
        found.add("between")
    for word, has in _VALUES.items():
        sides = [{has(kind, v) for kind, values in side for v in values} for side in (rows, probes)]
        if all(True in side for side in sides):
            found.add(word)
    zeros = [{repr(v) for _, values in side for v in values} for side in (rows, probes)]
    if any("0.0" in one and "-0.0" in other for one, other in (zeros, zeros[::-1])):
        found.add("zeros")
    for word, side, place in _NULLS:
        columns = probes if side else rows
        if len(columns) > place and None in columns[place][1]:
            found.add(word)
    for side in (rows, probes):
        if len(side) > 1 and any(
            a is not None and a == b for a, b in zip(side[0][1], side[1][1], strict=True)
        ):
            found.add("empty")
    return found


def _is_between(rows: Points, probes: Points) -> bool:
    """Whether a point of the stream is less than a unit of the table's last digit beside a row's.

    The rest of it is then below what the table's column has digits for.
    """
    if any(KINDS[kind].family != "exact" for kind, _ in (*rows, *probes)):
        return False
    digits = min(KINDS[kind].digits[1] for kind, _ in rows)
    stored = {Decimal(v) for _, values in rows for v in values if v is not None}
    for value in (Decimal(v) for _, values in probes for v in values if v is not None):
        for rounding in (ROUND_FLOOR, ROUND_CEILING):
            beside = value.quantize(Decimal(1).scaleb(-digits), rounding, _EXACT)
            if beside != value and beside in stored:
                return True
    return False


def _columns(columns: Columns, rows: Sequence[Row], names: Sequence[str]) -> Points:
    """The kind and the values of some columns, of those that there are."""
    places = {name: i for i, (name, _) in enumerate(columns)}
    return [
        (columns[places[name]][1], [row[places[name]] for row in rows])
        for name in names
        if name in places
    ]


_VALUES: dict[str, Callable[[str, Any], bool]] = {
    "limits": lambda kind, v: kind == "long" and v is not None and abs(v) >= _NEAR_LIMIT,
    "nan": lambda kind, v: isinstance(v, float) and v != v,
    "infinity": lambda kind, v: v in (math.inf, -math.inf),
    "negative": lambda kind, v: isinstance(v, int | float | Decimal) and v < 0,
}
"""Words for what values on both sides are."""
_NULLS = (
    ("null-point", 1, 0),
    ("null-asked-end", 1, 1),
    ("null-row", 0, 0),
    ("null-end", 0, 1),
)
"""Words for nulls of the stream (1) or the table (0), in the first or the second column."""
