"""Joins as SQL expressions over the functions of the jar: several joins are one pass over the rows.

A join that follows another one directly looks its keys up in the same rows: first all references
are found, then the rows that a join drops are dropped, then the columns of all tables are read.
Spark makes one stage of generated code of it. The figures of all joins are observed at one place:
every such place ends a stage, and its aggregates travel back with every task.
"""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import Column, DataFrame

from bsjoin._plan import StoredTable
from bsjoin._spark import sql
from bsjoin._spark.columns import unused
from bsjoin._spark.jvm.functions import TableFunctions
from bsjoin._spark.jvm.matches import Matches, Scratch, matches_of
from bsjoin._spark.metrics import CountedJoin, observed_lookups
from bsjoin._spark.planned_join import PlannedJoin
from bsjoin.index.encoding import GREATEST

__all__ = ["Lookups"]

_DROPPED = -3
"""The reference in a row that an earlier join drops; one that is missing is -1 or -2."""


@dataclass(frozen=True)
class _Lookup:
    """One join.

    Args:
        planned: the join.
        functions: of its table.
        ours: what its columns are called.
        clock: the time that chooses the version of the table.
        matches: which rows of a key match.
    """

    planned: PlannedJoin
    functions: TableFunctions
    ours: Scratch
    clock: str
    matches: Matches

    @property
    def found(self) -> str:
        """The reference of the first match."""
        return self.matches.found

    @property
    def drops(self) -> bool:
        """Whether the join drops rows of the stream."""
        return self.planned.plan.how != "left"

    @property
    def stays(self) -> str:
        """Whether the join, and those before it, keep a row of the stream."""
        if self.planned.plan.how == "anti":
            return f"{self.found} BETWEEN {_DROPPED + 1} AND -1"
        least = _DROPPED + 1 if self.planned.plan.how == "left" else 0
        return f"{self.found} BETWEEN {least} AND {GREATEST}L"

    def value(self, name: str) -> str:
        """A column that the join brings, of the first match; null without one."""
        return self._get(self.planned.join.names.index(name), self.found, there=False)

    def values(self) -> list[str | Column]:
        """The columns that the join brings: each with its name."""
        there = self.planned.plan.how == "inner"
        reference = self.ours.row if self.matches.are_several else self.found
        return [
            sql.named(self._get(i, reference, there=there), field.name, field.metadata)
            for i, field in enumerate(self.planned.fields)
        ]

    def _get(self, number: int, reference: str, *, there: bool) -> str:
        column = self.planned.plan.output.columns[number]
        return self.functions.get(reference, column, self.planned.fields[number], there=there)


@dataclass(frozen=True)
class Lookups:
    """Joins that follow each other, each in the rows of the same stream.

    Args:
        frame: the stream's columns, and those that the look-ups need.
        pending: columns to add to it, with those of the next join in the same projection.
        columns: the names of the stream's columns and of ours.
        lookups: the joins, first to last.
        scratch: the names of the columns of ours that there are, pending ones included.
    """

    frame: DataFrame
    pending: tuple[str, ...]
    columns: tuple[str, ...]
    lookups: tuple[_Lookup, ...]
    scratch: tuple[str, ...] = ()

    @classmethod
    def of(cls, planned: PlannedJoin, before: Lookups | None) -> Lookups:
        """A join, after those that its stream is the direct result of.

        Args:
            planned: a join with a stored table for which the package's ``unsupported`` has no
                objection.
            before: the joins that made the stream's rows; None if it is no result of joins.
        """
        if before is None or not before._reaches(planned):
            before = cls(planned.stream, (), tuple(planned.stream.columns), ())
        return before._then(planned)

    def _reaches(self, planned: PlannedJoin) -> bool:
        """Whether a join can be looked up before any join has multiplied the rows."""
        multiplied = {
            name
            for one in self.lookups
            if one.matches.are_several
            for name in one.planned.join.names
        }
        taken = {name.lower() for name in self.columns}
        return (
            planned.plan.reports == self.lookups[-1].planned.plan.reports
            and multiplied.isdisjoint([*planned.join.stream_keys, *planned.join.probes])
            and taken.isdisjoint(name.lower() for name in planned.join.names)
        )

    def _then(self, planned: PlannedJoin) -> Lookups:
        table = planned.plan.table
        assert isinstance(table, StoredTable)
        functions = TableFunctions.of(self.frame.sparkSession, table)
        ours = Scratch.beside([*self.columns, *self._brought(), *planned.join.names])
        columns, clock, scratch = self.pending, "''", [*self.scratch]
        if table.version is None:
            # In a projection of its own, evaluated once for each row: all above is deterministic.
            clock = ours.clock
            columns = (*columns, f"{functions.clock()} AS {clock}")
            scratch.append(clock)
        frame = sql.select(self.frame, *columns) if columns else self.frame
        key = planned.key(self._column)
        probes = tuple(planned.probes(self._column))
        matches = matches_of(planned.plan, functions, ours, probes)
        found = matches.first(functions.find(planned, key, clock), key.searched)
        if any(one.drops for one in self.lookups):
            found = sql.case((self.lookups[-1].stays, found), otherwise=f"{_DROPPED}L")
        lookup = _Lookup(planned, functions, ours, clock, matches)
        added = {ours.found: found, **matches.carried, **self._counts()}
        return Lookups(
            frame=frame,
            pending=tuple(f"{value} AS {name}" for name, value in added.items()),
            columns=(*self.columns, *vars(ours).values()),
            lookups=(*self.lookups, lookup),
            scratch=(*scratch, *added),
        )

    def _column(self, name: str) -> str:
        """A column of the stream, or one that a join brings."""
        for one in self.lookups:
            if name in one.planned.join.names:
                return one.value(name)
        return sql.column(name)

    def _counts(self) -> dict[str, str]:
        """The number of matches of the last join by its name, if that may be several."""
        for one in self.lookups[-1:]:
            if (counted := one.matches.counted) is not None:
                return {one.ours.count: counted}
        return {}

    def result(self) -> DataFrame:
        """The stream's columns, then those that the joins bring."""
        rows = sql.select(self.frame, *self.pending)
        last, added = self.lookups[-1], self._counts()
        reports = last.planned.plan.reports
        if not reports and not last.matches.count_first:
            added = {}
        counted = bool(added)
        if reports:
            names = (f"bsjoin_version_{i}" for i in range(len(self.lookups)))
            versions = unused([*self.columns, *self._brought()], *names)
            for one, name in zip(self.lookups, versions, strict=True):
                added[name] = one.functions.version(one.clock)
        if added:
            rows = sql.select(rows, *(f"{value} AS {name}" for name, value in added.items()))
        if reports:
            rows = observed_lookups(rows, [*map(_counted, self.lookups)], versions)
        if any(one.drops for one in self.lookups) and not last.matches.drops_missing:
            rows = rows.where(last.stays)
        scratch = [*self.scratch, *added]
        for one in self.lookups:
            if one.matches.are_several:
                rows = one.matches.unrolled(rows, counted=counted or one is not last)
                scratch += one.matches.added
        values = [value for one in self.lookups for value in one.values()]
        # One projection: each is analyzed when it is made, with all that is below.
        return sql.select(rows, *values, without=scratch)

    @property
    def read_again(self) -> int:
        """How many columns of joins before the last one the result reads once more."""
        return sum(len(one.planned.join.names) for one in self.lookups[:-1])

    def _brought(self) -> list[str]:
        return [name for one in self.lookups for name in one.planned.join.names]


def _counted(lookup: _Lookup) -> CountedJoin:
    counted = lookup.matches.counted is not None
    return CountedJoin(lookup.planned.plan, lookup.found, lookup.ours.count if counted else None)
