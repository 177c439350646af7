"""The rows of the table that are candidates for a match, and the columns that they need.

A join with ``where=`` finds candidates by its keys and its range condition, and then checks each
pair, as one with several ranges does, or with a narrower relation of intervals. For a left, semi or
anti join the candidates are those of a left join, which keeps the rows of the stream without any.
So candidates have columns that the result does not have: those of the condition, and one that tells
a match from none. What looks rows up knows that; with ``indicator=`` the column is in the result.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TypeGuard

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql import types as T  # noqa: N812

from bsjoin.conditions import AsOf, Condition, Overlaps, chooses
from bsjoin.errors import ColumnError
from bsjoin.planner.arguments import JoinCall
from bsjoin.planner.columns import Names, names_of, unused
from bsjoin.planner.contradictions import check_together
from bsjoin.planner.keys import is_floating
from bsjoin.planner.planned_join import given_names
from bsjoin.planner.range_columns import check_range_types, range_columns
from bsjoin.planner.range_sql import condition_sql
from bsjoin.planner.references import with_columns
from bsjoin.planner.resolved_join import ResolvedJoin
from bsjoin.planner.where import Where, where_over
from bsjoin.spark import sql
from bsjoin.spark.sql import quoted


def with_candidates(
    join: ResolvedJoin,
    stream: DataFrame,
    schema: T.StructType,
    given: DataFrame | None,
    call: JoinCall,
) -> ResolvedJoin:
    """The join with the columns that checks and ``indicator=`` need behind those of its result.

    Raises:
        ColumnError: a name in the condition that no column has; or the indicator's is taken.
        ArgumentError: no condition on a pair of rows; or an indicator where all rows match, or
            none; or range conditions that exclude each other.
    """
    checks = _is_narrower(join.condition) or bool(join.checked)
    if call.where is None and call.indicator is None and not checks:
        return join
    stream_names = names_of(stream, "the stream")
    columns, names = list(join.columns), list(join.names)
    if call.where is not None or checks:
        where, needed = None, list[tuple[str, str]]()
        if call.where is not None:
            where, needed = _where(join, stream, stream_names, schema, given, call)
        if checks:
            join, condition, more = _checked(join, stream, stream_names, schema, needed)
            needed = [*needed, *more]
            if where is None:
                where = Where(condition, call.how, "", False)
            else:
                where = Where(condition & where.condition, where.how, where.text, where.in_python)
        assert where is not None
        columns += [column for column, _ in needed]
        names += [name for _, name in needed]
        join = replace(join, where=where, how="inner" if where.how == "inner" else "left")
        if chooses(join.condition):
            most = join.condition.n if isinstance(join.condition, AsOf) else 1
            join = replace(join, where=replace(where, most=most))
    taken, match = [*stream.columns, *names], call.indicator
    if match is not None and any(stream_names.same(match, name) for name in taken):
        raise ColumnError(
            f"indicator={match!r}: there is a column of that name already, among {taken}. Choose "
            "another name"
        )
    if match is None and join.how == "left":
        (match,) = unused(taken, "bsjoin_match")
    return replace(
        join,
        columns=tuple(columns),
        names=tuple(names),
        extra=len(columns) - len(join.columns),
        match=None if join.aggregates else match,
        indicator=call.indicator,
    )


def _where(
    join: ResolvedJoin,
    stream: DataFrame,
    stream_names: Names,
    schema: T.StructType,
    given: DataFrame | None,
    call: JoinCall,
) -> tuple[Where, list[tuple[str, str]]]:
    """The condition, and the columns that it needs besides those of the result."""
    assert call.where is not None
    if call.added:
        stream = stream.drop(*call.added)
    known = dict(_nameable(join, stream_names, schema, call))
    fields = [
        T.StructField(name, schema[column].dataType, True, schema[column].metadata)
        for column, name in known.items()
    ]
    names = [field.name for field in fields]
    own = given_names(given, names, list(known))
    known_names = [*stream.columns, *names]
    (every,) = unused(known_names, "bsjoin_all")
    pairs = with_columns(
        _with_nulls(stream, [every], fields), stream, given, fields, own, [every], marked=every
    )
    lacking = [name for name in pairs.columns if name not in known_names]
    where, needed = where_over(call.where, call.how, pairs, lacking, names)
    found = [(column, name) for column, name in known.items() if name in needed]
    return where, [(column, name) for column, name in found if column not in join.columns]


def _with_nulls(
    stream: DataFrame, more: Sequence[str], fields: Sequence[T.StructField]
) -> DataFrame:
    """Rows of the stream with nulls as more columns, and then as the table's."""
    fields = [*(T.StructField(name, T.BooleanType()) for name in more), *fields]
    if any(field.metadata or not isinstance(field.dataType, T.AtomicType) for field in fields):
        nulls = [
            F.lit(None).cast(field.dataType).alias(field.name, metadata=field.metadata)
            for field in fields
        ]
        return stream.select("*", *nulls)
    return sql.select(
        stream, *(f"{sql.cast('NULL', field.dataType)} AS {quoted(field.name)}" for field in fields)
    )


def _is_narrower(when: Condition | None) -> TypeGuard[Overlaps]:
    """Whether a condition has fewer matches than the search finds for it."""
    return isinstance(when, Overlaps) and (when.relation, when.at_least) != ("overlaps", None)


def _checked(
    join: ResolvedJoin,
    stream: DataFrame,
    stream_names: Names,
    schema: T.StructType,
    needed: Sequence[tuple[str, str]],
) -> tuple[ResolvedJoin, Column, list[tuple[str, str]]]:
    """The range conditions that pairs are checked for, and the columns that they need besides.

    The join that comes back spells these conditions as both sides do. ``needed`` are columns, with
    their names, that the result lacks and that are there for ``where=``.
    """
    table = Names(schema.names, "the table", stream_names.case_sensitive)
    checked = [_as_spelled(one, stream, stream_names, schema, table) for one in join.checked]
    when = join.condition
    conditions = checked if when is None else [when, *checked]
    check_together(
        [(one, is_floating(schema[one.table_columns[0]].dataType)) for one in conditions]
    )
    searched = [when] if _is_narrower(when) else []
    used = list(dict.fromkeys(name for one in (*searched, *checked) for name in one.table_columns))
    called = {**dict(needed), **dict(zip(join.columns, join.names, strict=True))}
    lacking = [name for name in used if name not in called]
    taken = [*stream.columns, *called.values()]
    more = list(
        zip(lacking, unused(taken, *(f"bsjoin_{n}" for n in range(len(lacking)))), strict=True)
    )
    called |= dict(more)
    ours = {field.name: (sql.column(field.name), field.dataType) for field in stream.schema}
    theirs = {name: (sql.column(called[name]), schema[name].dataType) for name in used}
    texts = [condition_sql(one, ours, theirs, overlaps=True) for one in searched]
    texts += [condition_sql(one, ours, theirs) for one in checked]
    condition = F.expr(" AND ".join(f"({text})" for text in texts if text))
    return replace(join, checked=tuple(checked)), condition, more


def _as_spelled(
    when: Condition, stream: DataFrame, stream_names: Names, schema: T.StructType, table: Names
) -> Condition:
    """A condition that is checked, on columns as both sides spell them, if their types suit it."""
    ranged = range_columns(when, schema, table)
    probes = [stream_names.find(name, "when") for name in when.stream_columns]
    check_range_types(when, [(name, stream.schema[name].dataType) for name in probes], ranged)
    return when.renamed(probes, ranged.names)


def _nameable(
    join: ResolvedJoin, stream: Names, schema: T.StructType, call: JoinCall
) -> Iterator[tuple[str, str]]:
    """The table's columns that a condition can name, and how: those of the result come first.

    A key is called as in the stream, and where it is an expression there as in the table.
    """
    yield from zip(join.columns, join.names, strict=True)
    taken = list(join.names)
    own = [key for name, key in join.keys if name in call.added]
    others = [name for name in schema.names if name not in join.table_keys]
    for column in [*others, *own]:
        name = column + call.suffix if column in stream else column
        clashes = name in stream or any(stream.same(name, other) for other in taken)
        if column not in join.columns and column in schema.names and not clashes:
            taken.append(name)
            yield column, name


def returned(rows: DataFrame, join: ResolvedJoin) -> DataFrame:
    """The result of a join: pairs that match and, of a left join, the stream's rows without one."""
    if join.aggregates and join.indicator is not None:  # an array
        found = F.size(F.col(quoted(join.names[0]))) > 0
        rows = rows.select("*", found.alias(join.indicator))
    hidden = [*join.names[len(join.names) - join.extra :], *join.added]
    if join.match is not None and join.match != join.indicator:
        hidden.append(join.match)
    return rows.drop(*hidden) if hidden else rows
