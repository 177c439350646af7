"""Making a case that fails smaller, and showing it as a test."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace

from tests.fuzz.case import Case, Join, Rows, Table, result_columns

__all__ = ["as_test", "shrunk"]


def shrunk(case: Case, fails: Callable[[Case], bool], seconds: float = 120) -> Case:
    """A smaller case that fails, too: whatever can be left out is left out, one after the other.

    Args:
        case: fails.
        fails: runs a case.
        seconds: when to stop.
    """
    end, going = time.monotonic() + seconds, True
    while going and time.monotonic() < end:
        going = False
        for smaller in _smaller(case):
            if time.monotonic() > end:
                break
            if _is_valid(smaller) and fails(smaller):
                case, going = smaller, True
                break
    return case


def _smaller(case: Case) -> Iterator[Case]:
    """Cases with something left out, the most first."""
    for number in range(len(case.joins)):
        if len(case.joins) > 1:
            yield replace(case, joins=_without(case.joins, number, 1))
    yield from _fewer_tables(case)
    if case.cuts:
        events = tuple(event for event in case.events if event == (0, "refresh"))
        yield replace(case, cuts=(), events=events)
        yield replace(case, cuts=(len(case.stream.rows),), events=())
    for number in range(len(case.events)):
        yield replace(case, events=_without(case.events, number, 1))
    for plain in ({"batch_rows": 10_000}, {"zone": "UTC"}, {"parts": 1}, {"generated": True}):
        smaller = replace(case, **plain)  # type: ignore[arg-type]
        if smaller != case:
            yield smaller
    for number, join in enumerate(case.joins):
        plain_join = {
            "where": None, "partition": None, "select": None, "selects": False, "runtime": "python",
            "nulls_equal": (),
        }  # fmt: skip
        for name, value in plain_join.items():
            other = replace(join, **{name: value})  # type: ignore[arg-type]
            if other != join:
                yield replace(case, joins=_with(case.joins, number, other))
    many = len(case.stream.rows)
    for size in _sizes(many):
        for start in range(0, many, size):
            yield _without_stream_rows(case, start, size)
    for number, table in enumerate(case.tables):
        for version, rows in enumerate(table.versions):
            for size in _sizes(len(rows)):
                for start in range(0, len(rows), size):
                    fewer = _with(table.versions, version, _without(rows, start, size))
                    yield _with_table(case, number, replace(table, versions=fewer))
        if len(table.versions) > 1:
            yield _with_table(case, number, replace(table, versions=table.versions[:-1]))
    yield from _fewer_columns(case)


def _sizes(many: int) -> list[int]:
    found, size = [], many
    while size:
        found.append(size)
        size //= 2
    return found


def _without(items: tuple, start: int, size: int) -> tuple:  # type: ignore[type-arg]
    return items[:start] + items[start + size :]


def _with(items: tuple, number: int, item: object) -> tuple:  # type: ignore[type-arg]
    return (*items[:number], item, *items[number + 1 :])


def _with_table(case: Case, number: int, table: Table) -> Case:
    return replace(case, tables=_with(case.tables, number, table))


def _without_stream_rows(case: Case, start: int, size: int) -> Case:
    rows = replace(case.stream, rows=_without(case.stream.rows, start, size))
    cuts = []
    for first, stop in case.batches() if case.cuts else []:
        cuts.append(stop - first - max(0, min(stop, start + size) - max(first, start)))
    if 0 in cuts:  # the number of the micro-batch would mean another one
        return replace(case, stream=rows, cuts=tuple(cuts)) if not case.events else case
    return replace(case, stream=rows, cuts=tuple(cuts))


def _fewer_tables(case: Case) -> Iterator[Case]:
    used = sorted({join.table for join in case.joins})
    if len(used) < len(case.tables):
        joins = tuple(replace(join, table=used.index(join.table)) for join in case.joins)
        yield replace(case, tables=tuple(case.tables[i] for i in used), joins=joins)


def _fewer_columns(case: Case) -> Iterator[Case]:
    for i in range(1, len(case.stream.columns)):
        rows = tuple(_without(row, i, 1) for row in case.stream.rows)
        yield replace(case, stream=Rows(_without(case.stream.columns, i, 1), rows))
    for number, table in enumerate(case.tables):
        for i, (name, _) in enumerate(table.columns):
            needed = [*table.keys, *(table.when.table_columns if table.when else ())]
            needed += [order.column for order in getattr(table.when, "orders", ())]
            if name not in needed:
                versions = tuple(
                    tuple(_without(row, i, 1) for row in rows) for rows in table.versions
                )
                fewer = replace(table, columns=_without(table.columns, i, 1), versions=versions)
                joins = tuple(
                    _not_selecting(join, name) if join.table == number else join
                    for join in case.joins
                )
                yield replace(_with_table(case, number, fewer), joins=joins)


def _not_selecting(join: Join, name: str) -> Join:
    if join.select is None:
        return join
    return replace(join, select=tuple(column for column in join.select if column != name))


def _is_valid(case: Case) -> bool:
    """Whether every join finds its columns; and no micro-batch is empty."""
    if 0 in case.cuts:
        return False
    for join, columns in zip(case.joins, result_columns(case), strict=False):
        names = {name for name, _ in columns}
        used = [name for name, _ in join.on]
        if join.when is not None:
            used += join.when.stream_columns
        if join.where is not None:
            used.append(join.where[1])
            if join.where[2] not in dict(case.tables[join.table].columns):
                return False
        if not names.issuperset(used):
            return False
    return True


def as_test(seed: int, case: Case, wrong: str) -> str:
    """A test that fails as the case does."""
    told = wrong.replace("\\", "\\\\").replace('"""', "'''")
    return (
        f"def test_seed_{seed}(spark: SparkSession, tmp_path: Path) -> None:\n"
        f'    """{told}"""\n'
        f"    case = {case!r}\n"
        "    assert not Engine(spark, tmp_path).failures({0: case})\n"
    )
