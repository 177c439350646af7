"""Which drawn cases can reach the place of a deliberate fault, and have the values for it."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Any

import pyarrow as pa

from bsjoin import AsOf, Band, Overlaps, Within
from tests.fuzz.alike import differs
from tests.fuzz.case import Case, Join, Row, Table, brought
from tests.fuzz.collisions import hash_of
from tests.fuzz.draw.pools import INTEGERS
from tests.fuzz.mutants import Mutant
from tests.fuzz.values import KINDS


@dataclass(frozen=True)
class _At:
    """A join of a case, and its table."""

    case: Case
    join: Join
    table: Table

    @property
    def of_source(self) -> bool:
        """Whether its rows come from a cache of a source: always in Python."""
        return self.table.cache in ("sqlite", "callback")

    @property
    def in_jvm(self) -> bool:
        """Whether it runs in the JVM: not if it brings columns that are not read there."""
        kinds = dict(self.table.columns)
        taken = brought(self.table, self.join) if self.join.how in ("inner", "left") else []
        taken = [*taken, *([self.join.where[2]] if self.join.where else [])]
        is_read = not {kinds[name] for name in taken} & {"list", "texts", "struct", "map"}
        return self.join.runtime == "jvm" and not self.of_source and is_read

    @property
    def takes(self) -> bool:
        """Whether one of several intervals."""
        return isinstance(self.join.when, Within) and self.join.when.take != "all"

    @property
    def sums(self) -> bool:
        return isinstance(self.join.when, Band) and bool(self.join.when.agg)

    @property
    def is_boxed(self) -> bool:
        return bool(self.table.boxes and self.join.also)

    @property
    def changes(self) -> bool:
        """Whether it is a stream, and something happens between its micro-batches."""
        return bool(self.case.cuts and self.case.events)

    @property
    def is_refreshed(self) -> bool:
        """Whether it is a stream that goes on while tables are refreshed."""
        return self.changes and {event for _, event in self.case.events} == {"refresh"}

    @property
    def finer(self) -> list[Any]:
        """The points of the stream with more digits behind the point than the table's have."""
        if self.join.when is None or self.points not in ("exact", "wide"):
            return []
        kinds = dict(self.table.columns)
        digits = max(KINDS[kinds[name]].digits[1] for name in self.join.when.table_columns)
        return [value for value in self.values()[1] if Fraction(value) * 10**digits % 1]

    @property
    def points(self) -> str:
        """The family of the range columns; of decimals of more than 18 digits "wide"."""
        if self.table.when is None:
            return ""
        kinds = dict(self.table.columns) | dict(self.case.stream.columns)
        names = (*self.table.when.table_columns, *self.join.when.stream_columns)
        known = [kinds[name] for name in names if name in kinds]
        is_wide = any(kind[:3] == "dec" and sum(KINDS[kind].digits) > 18 for kind in known)
        return "wide" if is_wide else KINDS[known[0]].family

    @property
    def is_ranked(self) -> bool:
        """Whether the table's points are decimals of more than 18 digits, which have ranks."""
        kinds = dict(self.table.columns)
        points = [] if self.table.when is None else [*self.table.when.table_columns]
        return any(kinds[p][:3] == "dec" and sum(KINDS[kinds[p]].digits) > 18 for p in points)

    @property
    def sends_keys(self) -> bool:
        """Whether workers get keys, and no rows: these are wide, and no other join needs them."""
        kinds = [KINDS[kind].arrow for _, kind in self.case.stream.columns]
        sizes = [kind.bit_width // 8 if pa.types.is_primitive(kind) else 40 for kind in kinds]
        is_alone = len(self.case.joins) == 1 and self.join.when is None
        return is_alone and sum(sizes) > 48 and not self.of_source

    @property
    def loads_often(self) -> bool:
        """Whether a cache gets rows for several batches, or pieces of one."""
        least = min(self.case.batch_rows, self.table.max_keys)
        return self.of_source and len(self.keys_met()) > 3 and least < 20

    def of(self, *whens: type) -> bool:
        return isinstance(self.join.when, whens)

    def values(self) -> tuple[list[Any], list[Any]]:
        """The points of the table and of the stream that are not null."""
        if self.table.when is None:
            return [], []
        return (
            _columns(
                self.table.columns, sum(self.table.versions, ()), self.table.when.table_columns
            ),
            _columns(
                self.case.stream.columns, self.case.stream.rows, self.join.when.stream_columns
            ),
        )

    def lacks_points(self) -> bool:
        """Whether some rows of the table have none."""
        return self.table.when is not None and len(self.values()[0]) < sum(
            len(rows) * len(self.table.when.table_columns) for rows in self.table.versions
        )

    def keys(self) -> tuple[list[list[Row]], list[Row]]:
        """The keys of each version of the table and of the stream, if it has them."""
        on = {theirs: ours for ours, theirs in self.join.on}
        names = [name for name, _ in self.table.columns]
        ours = self.case.stream.names()
        if not on or not {*on.values()} <= {*ours}:
            return [], []
        there = [names.index(key) for key in self.table.keys]
        here = [ours.index(on[key]) for key in self.table.keys]
        versions = [[tuple(row[i] for i in there) for row in rows] for rows in self.table.versions]
        return versions, [tuple(row[i] for i in here) for row in self.case.stream.rows]

    def keys_met(self) -> set[Row]:
        """The keys that both sides have."""
        versions, stream = self.keys()
        return {*stream} & {*chain(*versions)}

    def longest(self) -> int:
        """The most rows of a key."""
        return max((n for keys in self.keys()[0] for n in Counter(keys).values()), default=0)

    def collides(self, *, inside: bool) -> bool:
        """Whether keys have one hash: of the stream and the table, or ``inside`` of the table."""
        kinds, (versions, stream) = dict(self.table.columns), self.keys()
        if self.of_source or any(kinds[k] not in _HASHED for k in self.table.keys):
            return False
        asked = _by_hash(stream)
        for keys in versions:
            for code, some in _by_hash(keys).items():
                found = asked.get(code, set())
                if (len(some) > 1 and some <= found) if inside else found - some:
                    return True
        return False

    def has_null_and_zero(self) -> bool:
        """Whether a null-safe key is null on one side, and on the other what is stored for it."""
        versions, stream = self.keys()
        for i, key in enumerate(self.table.keys):
            ours, theirs = ({key[i] for key in keys} for keys in (stream, [*chain(*versions)]))
            for one, other in ((ours, theirs), (theirs, ours)):
                if key in self.join.nulls_equal and None in one and other & {0, "", b""}:
                    return True
        return False

    def comes_twice_later(self) -> bool:
        """Whether keys of the first version have one row each, and some of a later one more."""
        twice = [len({*keys}) < len(keys) for keys in self.keys()[0]]
        return not self.of_source and any(twice) and not twice[0]

    def has_numbers(self, *, each: bool) -> bool:
        """Whether keys are dense integers, ``each`` once, and the stream has others."""
        kinds, (versions, stream) = dict(self.table.columns), self.keys()
        if self.of_source or self.table.when is not None or len(self.table.keys) != 1:
            return False
        if kinds[self.table.keys[0]] not in INTEGERS:
            return False
        for keys in versions:
            numbers = [n for (n,) in keys]
            if numbers and None not in numbers:
                most = max(numbers) - min(numbers) + 1
                has_each = len({*numbers}) == len(numbers) == most
                if most <= 4 * len(numbers) and has_each == each and {*stream} - {*keys, (None,)}:
                    return True
        return False


_HASHED = ("string", "binary", "long")


def _by_hash(keys: Iterable[Row]) -> dict[int, set[Row]]:
    found: dict[int, set[Row]] = {}
    for key in keys:
        code = 42
        for value in key:
            if value is None or (
                not isinstance(value, str | bytes) and not -(2**63) <= value < 2**63
            ):
                break
            code = hash_of(value if isinstance(value, str | bytes) else int(value), code)
        else:
            found.setdefault(code, set()).add(key)
    return found


def _columns(
    columns: Sequence[tuple[str, str]], rows: Iterable[Row], used: Iterable[str]
) -> list[Any]:
    places = [place for place, (name, _) in enumerate(columns) if name in used]
    return [row[place] for row in rows for place in places if row[place] is not None]


def _signs(values: Iterable[Any]) -> set[float]:
    """The signs of zeros."""
    return {math.copysign(1, value) for value in values if value is not None and value == 0}


def _has_both_zeros(one: Iterable[Any], other: Iterable[Any]) -> bool:
    signs = _signs(one), _signs(other)
    return all(signs) and len(signs[0] | signs[1]) == 2


def _zeros_of_keys(at: _At) -> bool:
    """Whether a floating key is 0.0 on one side and -0.0 on the other."""
    versions, stream = at.keys()
    return any(
        _has_both_zeros([key[i] for key in stream], [key[i] for key in chain(*versions)])
        for i, key in enumerate(at.table.keys)
        if KINDS[dict(at.table.columns)[key]].family == "floating"
    )


_REACHING: dict[str, Callable[[_At], bool]] = {
    # By files.
    "aggregate_tree": lambda at: at.sums,
    "Aggregate": lambda at: at.sums,
    "aggregating": lambda at: (
        at.sums and at.of_source and len(at.keys_met()) > 1 and at.case.batch_rows > 40
    ),
    "hash": lambda at: not at.of_source and bool(at.join.on),
    "segment": lambda at: at.collides(inside=True),
    "segment_writer": lambda at: at.collides(inside=True),
    "null_keys": lambda at: at.of_source and at.has_null_and_zero(),
    "encoding": lambda at: at.of(Band, AsOf) and at.points not in ("string", "binary", "wide"),
    "nearest": lambda at: at.of(AsOf) and at.join.when.n == 1,
    "nearest_rows": lambda at: at.of(AsOf) and at.join.when.n > 1,
    "NearestFinder": lambda at: at.of(AsOf),
    "range_search": lambda at: at.of(Band, AsOf),
    "row_pairs": lambda at: at.of(Band),
    "interval_orders": lambda at: at.takes,
    "first_of_each": lambda at: at.takes,
    "ChosenFinder": lambda at: at.takes,
    "intervals": lambda at: at.of(Within, Overlaps),
    "Intervals": lambda at: at.of(Within, Overlaps),
    "range_max_tree": lambda at: at.of(Within, Overlaps),
    "boxes": lambda at: at.is_boxed,
    "Boxes": lambda at: at.is_boxed,
    "versions": lambda at: at.changes,
    "Table": lambda at: at.changes,
    "storing": lambda at: bool(at.case.events),
    "matching": lambda at: at.of_source and _zeros_of_keys(at),
    "grouping": lambda at: at.of_source and at.lacks_points(),
    "content": lambda at: at.of_source,
    "loading": lambda at: at.of_source,
    "incremental_cache": lambda at: (
        at.of_source and at.longest() > 1 and any(None in key for key in at.keys()[1])
    ),
    "row_refs": lambda at: at.of_source,
    "columns": lambda at: at.of_source,
    "ordered_dictionary": lambda at: (
        at.points in ("string", "binary") and any(len(value) > 8 for value in at.values()[0])
    ),
    "wide": lambda at: at.points == "wide",
    "probes": lambda at: at.points in ("exact", "wide", "string", "binary"),
    "keys_only": lambda at: at.sends_keys and at.join.how == "left" and at.longest() > 1,
    "range_sql": lambda at: bool(at.join.also) or at.of(Overlaps),
    "Points": lambda at: at.join.when is not None,
    "RangeLookup": lambda at: at.join.when is not None,
    "RangeFinder": lambda at: at.of(Band, Overlaps),
    "RangeBound": lambda at: at.join.when is not None,
    "joins": lambda at: at.of(Band, AsOf),
    # By faults.
    "equal hashes are equal keys": lambda at: at.collides(inside=False),
    "keys of one hash are equal": lambda at: at.collides(inside=False),
    "the second key of a hash is missing": lambda at: at.collides(inside=True),
    "a null key is the value that is stored for it": lambda at: at.has_null_and_zero(),
    "another hash of the bucket is found": lambda at: bool(at.join.on),
    "only the second run of a bucket is read": lambda at: (
        max((len({*keys}) for keys in at.keys()[0]), default=0) > 50
    ),
    "above ends at the first equal row": lambda at: at.join.when is not None and at.longest() > 16,
    "a run loses its last row": lambda at: bool(at.join.on) and at.join.when is None,
    "a number without rows is found": lambda at: at.has_numbers(each=False),
    "the number behind the last one is found": lambda at: at.has_numbers(each=True),
    "NaN is below all": lambda at: any(v != v for v in chain(*at.values())),
    "-0.0 is below 0.0 in ranges": lambda at: (
        at.points == "floating" and _has_both_zeros(*at.values())
    ),
    "the last node of a tree is left out": lambda at: at.of(Within, Overlaps) and at.longest() > 30,
    "any match is a match": lambda at: at.of(Within, Overlaps) and at.join.how in ("semi", "anti"),
    "the next rows overwrite the last ones": lambda at: at.loads_often,
    "cached and queried rows are mixed up": lambda at: at.loads_often,
    "cached texts begin at zero": lambda at: (
        at.loads_often and any(kind == "string" for _, kind in at.table.columns)
    ),
    "a long run loses its last row": lambda at: at.sends_keys,
    "a left join loses long runs without rows": lambda at: (
        at.sends_keys and at.join.how == "left" and at.longest() > 64
    ),
    "without columns a key has one row": lambda at: (
        at.join.select == ()
        and at.join.how in ("inner", "left")
        and at.join.when is at.join.where is None
        and at.longest() > 1
        and not at.in_jvm
    ),
    "one null key of several is no null": lambda at: (
        not at.join.nulls_equal and any(None in key and {*key} != {None} for key in at.keys_met())
    ),
    "a value between two ranks is the lower one": lambda at: at.of(Band) and at.is_ranked,
    "half a unit is a unit": lambda at: (
        at.points == "exact"
        and not any(
            kind.startswith("decimal")
            for name, kind in at.case.stream.columns
            if name in at.join.when.stream_columns
        )
    ),
    "negative numbers are divided towards zero": lambda at: any(value < 0 for value in at.finer),
    "at the limit of 64 bits a band is cut at a row": lambda at: at.points == "exact",
    "finer digits of a band are lost": lambda at: (
        at.of(Band) and at.points in ("exact", "wide") and not at.is_ranked
    ),
    "a limit between two negative codes is that above": lambda at: (
        at.points == "exact" and any(value < 0 for value in at.finer)
    ),
    "a null point matches": lambda at: at.of(Band, AsOf) and at.points in ("exact", "floating"),
    "a null point matches in semi and anti joins": lambda at: (
        at.of(Band, AsOf) and at.points in ("exact", "floating") and at.join.how in ("semi", "anti")
    ),
    "of intervals that are alike the last one": lambda at: (
        at.takes and at.join.when.take == "earliest_end"
    ),
    "of the intervals that pass any one": lambda at: (
        at.takes and (at.join.where is not None or bool(at.join.also))
    ),
    "of equally near rows the later one": lambda at: at.of(AsOf) and at.points != "wide",
    "NaN has a distance to itself": lambda at: at.of(AsOf) and at.points == "floating",
    "a band that begins at -0.0 begins below it": lambda at: at.of(Band),
    "NaN has a distance": lambda at: at.of(AsOf) and any(v != v for v in at.values()[1]),
    # Of one that is taken the next one may be itself, without end.
    "an interval behind the range is found": lambda at: at.of(Within, Overlaps) and not at.takes,
    "forward goes into the next key": lambda at: (
        at.of(AsOf) and at.join.when.direction != "backward"
    ),
    "a null end is the least one": lambda at: at.of(Within, Overlaps) and at.lacks_points(),
    "new versions are never read": lambda at: at.changes,
    "a stream is bound to a version": lambda at: at.changes,
    "unique today is unique for ever": lambda at: (
        at.is_refreshed and at.join.when is None and at.comes_twice_later()
    ),
}
"""What a join has that comes to a fault, by its name or that of its file; to others any comes."""


def reaches(mutant: Mutant, case: Case) -> bool:
    """Whether a join of a case may come to where a fault is, with the values for it."""
    suits = _suiting(mutant)
    only_in_python = mutant.file.startswith(("runtimes/python", "index/", "cache/"))
    only_in_jvm = mutant.file.startswith("runtimes/jvm")
    places = (_At(case, join, case.tables[join.table]) for join in case.joins)
    return any(not (only_in_python if at.in_jvm else only_in_jvm) and suits(at) for at in places)


def may_show(mutant: Mutant, case: Case) -> bool:
    """Whether a case reaches a fault, and the oracle with the same fault answers otherwise."""
    return reaches(mutant, case) and differs(_name(mutant), case)


def _name(mutant: Mutant) -> str:
    return mutant.name.removeprefix("JVM: ")


@cache
def _suiting(mutant: Mutant) -> Callable[[_At], bool]:
    stem = Path(mutant.file).stem
    return _REACHING.get(_name(mutant)) or _REACHING.get(stem) or (lambda _: True)
