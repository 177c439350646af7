"""Joins as expressions over the functions of the jar: several joins are one pass over the rows.

A join that follows another one directly looks its keys up in the same rows: first all references
are found, then the rows that a join drops are dropped, then the columns of all tables are read.
Spark makes one stage of generated code of it. The figures of all joins are observed at one place:
every such place ends a stage, and its aggregates travel back with every task.
"""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

from bsjoin._plan import StoredTable
from bsjoin._spark.columns import quoted, unused
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
    clock: Column
    matches: Matches

    @property
    def found(self) -> Column:
        """The reference of the first match."""
        return self.matches.found

    @property
    def drops(self) -> bool:
        """Whether the join drops rows of the stream."""
        return self.planned.plan.how != "left"

    @property
    def stays(self) -> Column:
        """Whether the join, and those before it, keep a row of the stream."""
        if self.planned.plan.how == "anti":
            return self.found.between(_DROPPED + 1, -1)
        return self.found.between(_DROPPED + 1 if self.planned.plan.how == "left" else 0, GREATEST)

    def value(self, name: str) -> Column:
        """A column that the join brings, of the first match; null without one."""
        return self._get(self.planned.join.names.index(name), self.found, there=False)

    def values(self) -> list[Column]:
        """The columns that the join brings."""
        there = self.planned.plan.how == "inner"
        reference = F.col(self.ours.row) if self.matches.are_several else self.found
        return [
            self._get(i, reference, there=there).alias(field.name, metadata=field.metadata)
            for i, field in enumerate(self.planned.fields)
        ]

    def _get(self, number: int, reference: Column, *, there: bool) -> Column:
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
    pending: tuple[Column, ...]
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
        columns, clock, scratch = self.pending, F.lit(""), [*self.scratch]
        if table.version is None:
            # In a projection of its own, evaluated once for each row: all above is deterministic.
            columns = (*columns, functions.clock().alias(ours.clock))
            clock = F.col(ours.clock)
            scratch.append(ours.clock)
        frame = self.frame.select("*", *columns) if columns else self.frame
        key = planned.key(self._column)
        probes = tuple(planned.probes(self._column))
        matches = matches_of(planned.plan, functions, ours, probes)
        found = matches.first(functions.find(planned, key, clock), key.searched)
        if any(one.drops for one in self.lookups):
            found = F.when(self.lookups[-1].stays, found).otherwise(_DROPPED)
        carried = (column.alias(name) for name, column in matches.carried.items())
        lookup = _Lookup(planned, functions, ours, clock, matches)
        counts = self._counts()
        return Lookups(
            frame=frame,
            pending=(found.alias(ours.found), *carried, *counts.values()),
            columns=(*self.columns, *vars(ours).values()),
            lookups=(*self.lookups, lookup),
            scratch=(*scratch, ours.found, *matches.carried, *counts),
        )

    def _column(self, name: str) -> Column:
        """A column of the stream, or one that a join brings."""
        for one in self.lookups:
            if name in one.planned.join.names:
                return one.value(name)
        return self.frame[quoted(name)]

    def _counts(self) -> dict[str, Column]:
        """The number of matches of the last join by its name, if that may be several."""
        for one in self.lookups[-1:]:
            counted = one.matches.counted
            if counted is not None:
                return {one.ours.count: counted.alias(one.ours.count)}
        return {}

    def result(self) -> DataFrame:
        """The stream's columns, then those that the joins bring."""
        rows = self.frame.select("*", *self.pending)
        last, added = self.lookups[-1], self._counts()
        reports = last.planned.plan.reports
        if not reports and not last.matches.count_first:
            added = {}
        counted = bool(added)
        if reports:
            (version,) = unused([*self.columns, *self._brought()], "bsjoin_version")
            versions = [one.functions.version(one.clock) for one in self.lookups]
            # Texts of one length: the greatest is the latest.
            padded = [F.lpad(number.cast("string"), 10, "0") for number in versions]
            added[version] = F.concat_ws(",", *padded).alias(version)
        if added:
            rows = rows.select("*", *added.values())
        if reports:
            rows = observed_lookups(rows, [*map(_counted, self.lookups)], F.col(version))
        if any(one.drops for one in self.lookups) and not last.matches.drops_missing:
            rows = rows.where(last.stays)
        scratch = [*self.scratch, *added]
        for one in self.lookups:
            if one.matches.are_several:
                rows = one.matches.unrolled(rows, counted=counted or one is not last)
                scratch += one.matches.added
        values = [value for one in self.lookups for value in one.values()]
        ours = ", ".join(map(quoted, scratch))
        # One projection: each is analyzed when it is made, with all that is below.
        return rows.select(F.expr(f"* EXCEPT ({ours})"), *values)

    def _brought(self) -> list[str]:
        return [name for one in self.lookups for name in one.planned.join.names]


def _counted(lookup: _Lookup) -> CountedJoin:
    counted = lookup.matches.counted is not None
    count = F.col(lookup.ours.count) if counted else None
    return CountedJoin(lookup.planned.plan, lookup.found, count)
