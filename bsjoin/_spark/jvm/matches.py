"""The rows of a key that match, as SQL expressions: one class for each way they are found.

A join first finds the reference of the first matching row, or a negative number; then, if it brings
several, how many they are; and unrolls them.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import types as T  # noqa: N812

from bsjoin._plan import JoinPlan, Search
from bsjoin._spark import sql
from bsjoin._spark.columns import ScratchColumns
from bsjoin._spark.jvm.functions import TableFunctions
from bsjoin.index.encoding import GREATEST

__all__ = ["Matches", "Scratch", "matches_of"]

_FAR = 1 << 64
_WHOLE_ROWS = 1 << 16
"""The most rows of a key that generated code unrolls at once."""
_PIECE_ROWS = 1 << 12
"""The rows in a piece: ``PIECE`` of ``Run.java``."""


@dataclass(frozen=True)
class Scratch(ScratchColumns):
    """What the columns are called that a look-up adds and drops again.

    Args:
        clock: the time that chooses the version.
        found: the reference of the first matching row; negative if there is none.
        count: how many rows match.
        point: the code of the point that a band is around; or the greatest start of an interval
            that matches.
        least: the least last point of an interval that matches.
        piece: the reference that a piece of the matching rows begins with.
        row: the reference of the row.
    """

    clock: str
    found: str
    count: str
    point: str
    least: str
    piece: str
    row: str


@dataclass(frozen=True)
class Matches:
    """All rows of the key match: a join by equality.

    Args:
        plan: the join.
        functions: of its table.
        ours: what its columns are called.
        probes: the stream's range columns as they are searched, and their type.
    """

    plan: JoinPlan
    functions: TableFunctions
    ours: Scratch
    probes: tuple[tuple[str, T.DataType], ...]

    @property
    def are_several(self) -> bool:
        """Whether a row of the stream may have several matches, and these are brought."""
        return self.plan.output.shape in ("rows", "runs")

    def first(self, key: str, hash_: str) -> str:
        """The reference of the first match; negative if there is none.

        Args:
            key: the reference of the first row of the key; null for a null key.
            hash_: what it was found by.
        """
        return self.functions.or_missing(key, hash_)

    @property
    def carried(self) -> Mapping[str, str]:
        """What is evaluated together with the first match, and used by the other expressions."""
        return {}

    @property
    def found(self) -> str:
        """The reference of the first match, once it is a column."""
        return self.ours.found

    @property
    def counted(self) -> str | None:
        """How many rows match, of the columns before; None if that is not used."""
        return self.functions.count(self.found) if self.are_several else None

    @property
    def count_first(self) -> bool:
        """Whether unrolling needs the number of matches as a column: it uses it twice."""
        return self.in_pieces

    @property
    def drops_missing(self) -> bool:
        """Whether unrolling leaves no row of one without a match."""
        return self.are_several and self.plan.how == "inner"

    @property
    def added(self) -> list[str]:
        """The columns that unrolling adds."""
        return [self.ours.piece, self.ours.row] if self.in_pieces else [self.ours.row]

    def unrolled(self, rows: DataFrame, *, counted: bool) -> DataFrame:
        """One row for each match, with its reference; a negative one for what a left join keeps.

        Generated code holds all rows that it makes of one row, so where these may be very many it
        gets them in pieces.

        Args:
            rows: the rows, with the reference of the first match.
            counted: whether they have the number of matches.
        """
        first, count = self.found, self.ours.count if counted else self.counted
        assert count is not None
        if self.plan.how == "left":
            count = f"greatest({count}, 1)"
        if self.in_pieces:
            pieces, piece = self.functions.call("run pieces", first, count), self.ours.piece
            rows = rows.selectExpr("*", f"explode({pieces}) AS {piece}")
            rest = f"cast({first} + {count} - {piece} AS int)"
            first, count = piece, f"least({rest}, {_PIECE_ROWS})"
        run = self.functions.call("run", first, count)
        return rows.selectExpr("*", f"explode({run}) AS {self.ours.row}")

    @property
    def in_pieces(self) -> bool:
        """Whether the matches of one row may be very many."""
        return self.plan.output.longest_run > _WHOLE_ROWS


@dataclass(frozen=True)
class _RangeMatches(Matches):
    """Those of the rows of the key match that meet a range condition."""

    @property
    def _search(self) -> Search:
        assert self.plan.search is not None
        return self.plan.search

    @property
    def _point(self) -> str:
        """The point, in its own units."""
        return self.functions.code(*self.probes[0])


@dataclass(frozen=True)
class _BandMatches(_RangeMatches):
    """The rows of the key in a band around the point: neighbours."""

    def first(self, key: str, hash_: str) -> str:
        found = self.functions.reference("band", key, self._point, **self._band)
        return self.functions.or_missing(found, self._point)

    @property
    def carried(self) -> Mapping[str, str]:
        return {self.ours.point: self._point} if self.are_several else {}

    @property
    def counted(self) -> str | None:
        if not self.are_several:
            return None
        return self.functions.call("band count", self.found, self.ours.point, **self._band)

    @property
    def _band(self) -> dict[str, Any]:
        search = self._search
        return {
            "before": _width(-search.before, search),
            "after": _width(search.after, search),
            "closed": search.closed,
            "unit": _unit(search),
        }


@dataclass(frozen=True)
class _NearestMatch(_RangeMatches):
    """One row of the key: the nearest to the point."""

    @property
    def are_several(self) -> bool:
        return False

    def first(self, key: str, hash_: str) -> str:
        search = self._search
        reach: dict[str, Any] = {}
        if search.tolerance is not None and (search.floating or search.tolerance < math.inf):
            reach = {
                "before": _width(-search.tolerance, search),
                "after": _width(search.tolerance, search),
            }
        nearest = self.functions.reference(
            "nearest",
            key,
            self._point,
            direction=search.direction,
            exact=search.exact,
            floating=search.floating,
            unit=_unit(search),
            **reach,
        )
        return self.functions.or_missing(nearest, self._point)


@dataclass(frozen=True)
class _IntervalMatches(_RangeMatches):
    """The rows of the key whose interval has a point in common with the stream's."""

    def first(self, key: str, hash_: str) -> str:
        found = self.functions.reference("interval", key, *self._limits)
        return self.functions.or_missing(found, self._point)

    @property
    def carried(self) -> Mapping[str, str]:
        if not self.are_several:
            return {}
        # Without a limit nothing is found, and the other expressions do not use it.
        limits = (f"coalesce({limit}, 0)" for limit in self._limits)
        return dict(zip((self.ours.point, self.ours.least), limits, strict=True))

    @property
    def counted(self) -> str | None:
        # What is brought is found without their number.
        reported = self.are_several and self.plan.reports
        return self._of("interval count", self.found) if reported else None

    count_first = False

    def unrolled(self, rows: DataFrame, *, counted: bool) -> DataFrame:
        first, left = self.found, self.plan.how == "left"
        if self.in_pieces:
            pieces, first = self._of("interval pieces", first, left=left), self.ours.piece
            rows = rows.selectExpr("*", f"explode({pieces}) AS {self.ours.piece}")
        found = self._of("interval rows", first, left=left, pieces=self.in_pieces)
        return rows.selectExpr("*", f"explode({found}) AS {self.ours.row}")

    def _of(self, what: str, reference: str, **more: Any) -> str:
        return self.functions.call(what, reference, self.ours.point, self.ours.least, **more)

    @property
    def _limits(self) -> tuple[str, str]:
        """The greatest start and the least last point of what matches; null where nothing does.

        The index has the end of an interval as its last point, or the code before if the end does
        not belong to it.
        """
        closed, (start, _), (end, _) = self._search.closed, self.probes[0], self.probes[-1]
        touching, is_point = closed == "both", len(self.probes) == 1
        # Spark may evaluate a branch that it does not take: nothing in one may overflow.
        if touching or (is_point and closed == "left"):
            last = self._code(-1)
        else:
            last = f"try_subtract({self._code(-1, up=True)}, 1L)"
        if closed == "right" and not is_point:
            least = f"try_add({self._code(0)}, 1L)"
        else:
            least = self._code(0, up=closed in ("both", "right"))
        if is_point:
            return last, least
        empty = f"{start} > {end}" if touching else f"{start} >= {end}"
        if closed in ("right", "neither"):
            empty = f"coalesce({empty}, false) OR {self._code(0)} = {GREATEST}L"
        last = sql.case((empty, "NULL"), (f"{end} IS NULL", f"{GREATEST}L"), otherwise=last)
        return last, least

    def _code(self, number: int, *, up: bool = False) -> str:
        """The code at or below one of the points; or at or above it."""
        return self.functions.code(*self.probes[number], unit=_unit(self._search), up=up)


def _unit(search: Search) -> int:
    """How many units of the stream's last digit a code is."""
    return int(10**search.finer)


def _width(size: Fraction | float, search: Search) -> dict[str, Any]:
    """By how much a point is moved, as ``Width.java`` reads it."""
    if search.floating:
        return {"bits": struct.unpack("<q", struct.pack("<d", size))[0]}
    if isinstance(size, float):  # infinite: further than any two codes are apart
        return {"step": _FAR if size > 0 else -_FAR}
    units = math.floor(size)
    step, rest = divmod(units, _unit(search))
    return {"step": max(-_FAR, min(step, _FAR)), "rest": rest, "further": units != size}


_KINDS: dict[str, Callable[..., Matches]] = {
    "band": _BandMatches,
    "asof": _NearestMatch,
    "within": _IntervalMatches,
    "overlaps": _IntervalMatches,
}


def matches_of(plan: JoinPlan, *more: Any) -> Matches:
    """The rows of a key that match in a join; the other arguments are those of :class:`Matches`."""
    return Matches(plan, *more) if plan.search is None else _KINDS[plan.search.kind](plan, *more)
