"""Making a case that fails smaller, and showing it as a test."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from tests.fuzz.case import Case, Rows, Table
from tests.fuzz.exact import TooManyRowsError, expected

_PLAIN: dict[str, Any] = {"batch_rows": 10_000, "zone": "UTC", "parts": 1, "generated": True}
_PLAIN_JOIN: dict[str, Any] = {
    "where": None, "partition": None, "select": None, "selects": False, "runtime": "python",
    "nulls_equal": (), "also": (),
}  # fmt: skip
_IMPORTS = """\
import datetime
from decimal import Decimal
from math import inf, nan
from pathlib import Path

from pyspark.sql import SparkSession

from bsjoin import AsOf, Band, Overlaps, Within
from tests.fuzz.case import Case, Join, Rows, Table
from tests.fuzz.engine import Engine
"""
"""What the text of a case names."""


def shrunk(case: Case, fails: Callable[[Case], bool], seconds: float = 120) -> Case:
    """A smaller case that fails, too: whatever can be left out is left out, one after the other."""
    end, going = time.monotonic() + seconds, True
    while going:
        going = False
        for smaller in _smaller(case):
            if time.monotonic() > end:
                return case
            if smaller != case and _is_valid(smaller) and fails(smaller):
                case, going = smaller, True
                break
    return case


def _is_valid(case: Case) -> bool:
    """Whether there are joins, each finds its columns, and no micro-batch is empty."""
    try:
        expected(case)
    except (KeyError, ValueError, TooManyRowsError):
        return False
    return bool(case.joins) and 0 not in case.cuts


def _smaller(case: Case) -> Iterator[Case]:
    """Cases with something left out, the most first."""
    for joins in _fewer(case.joins):
        used = sorted({join.table for join in joins})
        joins = tuple(replace(join, table=used.index(join.table)) for join in joins)
        yield replace(case, joins=joins, tables=tuple(case.tables[i] for i in used))
    if case.cuts:
        events = tuple(event for event in case.events if event == (0, "refresh"))
        yield replace(case, cuts=(), events=events)
        yield replace(case, cuts=(len(case.stream.rows),), events=())
    for events in _fewer(case.events):
        yield replace(case, events=events)
    for name, value in _PLAIN.items():
        yield replace(case, **{name: value})
    for number, join in enumerate(case.joins):
        for name, value in _PLAIN_JOIN.items():
            other = replace(join, **{name: value})
            yield replace(case, joins=_with(case.joins, number, other))
    for rows in _fewer(case.stream.rows):
        # A micro-batch that is gone would give its number, and its events, to another one.
        cuts = [sum(row in rows for row in case.stream.rows[i:j]) for i, j in case.batches()]
        stream = replace(case.stream, rows=rows)
        yield replace(case, stream=stream, cuts=tuple(cuts) if case.cuts else ())
    for number, table in enumerate(case.tables):
        for fewer in _smaller_tables(table):
            yield replace(case, tables=_with(case.tables, number, fewer))
    for i in range(1, len(case.stream.columns)):
        yield replace(case, stream=_without_column(case.stream, i))


def _smaller_tables(table: Table) -> Iterator[Table]:
    yield replace(table, boxes=())
    if len(table.versions) > 1:
        yield replace(table, versions=table.versions[:-1])
    for version, rows in enumerate(table.versions):
        for fewer in _fewer(rows):
            yield replace(table, versions=_with(table.versions, version, fewer))
    for i in range(len(table.columns)):
        versions = [_without_column(Rows(table.columns, rows), i) for rows in table.versions]
        yield replace(
            table, columns=versions[0].columns, versions=tuple(rows.rows for rows in versions)
        )


def _fewer(items: tuple[Any, ...]) -> Iterator[tuple[Any, ...]]:
    """The items without some, the most first."""
    size = len(items)
    while size:
        for start in range(0, len(items), size):
            yield items[:start] + items[start + size :]
        size //= 2


def _with(items: tuple[Any, ...], number: int, item: object) -> tuple[Any, ...]:
    return (*items[:number], item, *items[number + 1 :])


def _without_column(rows: Rows, place: int) -> Rows:
    def rest(items: tuple[Any, ...]) -> tuple[Any, ...]:
        return items[:place] + items[place + 1 :]

    return Rows(rest(rows.columns), tuple(map(rest, rows.rows)))


def as_test(seed: int, case: Case, wrong: str) -> str:
    """A file of a test that fails as the case does."""
    told = wrong.replace("\\", "\\\\").replace('"""', "'''")
    return (
        f"{_IMPORTS}\n\n"
        f"def test_seed_{seed}(spark: SparkSession, tmp_path: Path) -> None:\n"
        f'    """{told}"""\n'
        f"    case = {case!r}\n"
        "    assert not Engine(spark, tmp_path, applies=True).failures({0: case})\n"
    )
