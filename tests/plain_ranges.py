"""Random range conditions in plain SQL, and tables for them, of all types of range columns."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from plain_joins import CODE, PLANNER, anew, lookup_lines, lookups, plan_of
from pyspark.sql import DataFrame, SparkSession
from sessions import configured

STREAM, TABLE = 60, 90
"""Rows."""
KEYS = 4
JOINS = (
    "SELECT {no}, s.id, t.id FROM {s} s JOIN {t} t ON {on}",
    "SELECT {no}, s.id, t.id FROM {s} s LEFT JOIN {t} t ON {on}",
    "SELECT {no}, s.id, t.id FROM {t} t RIGHT JOIN {s} s ON {on}",
    "SELECT {no}, s.id, t.id FROM {t} t JOIN {s} s ON {on}",
    "SELECT {no}, s.id, -1 FROM {s} s LEFT SEMI JOIN {t} t ON {on}",
    "SELECT {no}, s.id, -1 FROM {s} s LEFT ANTI JOIN {t} t ON {on}",
    "SELECT {no}, s.id, -1 FROM {s} s "
    "WHERE s.id % 5 = 0 OR EXISTS (SELECT 1 FROM {t} t WHERE {on})",
)


@dataclass(frozen=True)
class Kind:
    """A type of range columns.

    Args:
        stored: the table's type, and SQL for its ``n``-th value.
        given: the stream's, of types that Spark compares with the table's.
        ends: hostile values of the table.
        widths: what is added to a value, or subtracted; none where nothing can be.
        given_ends: hostile values of the stream; those of the table by default.
    """

    stored: tuple[str, str]
    given: Sequence[tuple[str, str]]
    ends: Sequence[str]
    widths: Sequence[str]
    given_ends: Sequence[str] | None = None


def _longs(*numbers: int) -> list[str]:
    return [f"bigint('{number}')" for number in numbers]


def _zero(text: str) -> str:
    return f"concat({text}, CAST(X'00' AS STRING))"


_TIME = ("timestamp", "timestamp_seconds(1709251200 + {n} * 3600)")
_NTZ = ("timestamp_ntz", "timestamp_ntz'2024-03-01 00:00:00' + {n} * INTERVAL '1' HOUR")
_DATE = ("date", "date_add(date'2024-03-01', {n})")
_TEXT = "concat('k', {n} + 25)"
_BYTES = "unhex(lpad(hex({n} + 20), 4, '0'))"
_MAPPED = "00000000000000000000FFFF"  # what IPv4 addresses have in common
_ADDRESS = f"concat(X'{_MAPPED}', unhex(lpad(hex({{n}} + 20), 8, '0')))"
_INFINITE = ["'NaN'", "'-Infinity'", "'Infinity'", "'-0.0'", "'0.0'"]

KINDS = {
    "int": Kind(
        ("int", "{n}"),
        [("int", "{n}"), ("bigint", "{n}"), ("smallint", "{n}"), ("decimal(12,1)", "{n} + 0.5")],
        ["-2147483648", "-2147483647", "2147483646", "2147483647"],
        ["3", "-2", "3L"],
        ["-32768", "32767"],
    ),
    "long": Kind(
        ("bigint", "{n}"),
        [
            ("bigint", "{n}"),
            ("int", "{n}"),
            ("decimal(20,0)", "{n}"),
            ("decimal(21,1)", "{n} + 0.5"),
        ],
        _longs(*(-(2**63) + n for n in range(3)), *(2**63 - n for n in (1, 2, 3))),
        ["3L", "-2L", "1"],
        ["-2147483648", "2147483647"],
    ),
    "date": Kind(
        _DATE,
        [_DATE, ("timestamp", "timestamp_seconds(1709251200 + {n} * 43200)"), _NTZ],
        ["date'0001-01-01'", "date'9999-12-31'"],
        ["INTERVAL '3' DAY", "INTERVAL '-1' DAY"],
    ),
    "timestamp": Kind(
        _TIME,
        [_TIME, ("date", "date_add(date'2024-03-01', int({n} / 12))"), _NTZ],
        ["timestamp_micros(-1000000000000000000)", "timestamp_micros(1000000000000000000)"],
        ["INTERVAL '90' MINUTE", "INTERVAL '2' DAY", "INTERVAL '0.000001' SECOND"],
        ["date'0001-01-01'", "date'9999-12-31'"],
    ),
    "timestamp_ntz": Kind(
        _NTZ,
        [_NTZ, _DATE],
        ["timestamp_ntz'0001-01-01 00:00:00'", "timestamp_ntz'9999-12-31 00:00:00'"],
        ["INTERVAL '90' MINUTE", "INTERVAL '2' DAY"],
    ),
    "decimal": Kind(
        ("decimal(10,2)", "{n} * 0.25"),
        [
            ("decimal(10,2)", "{n} * 0.25"),
            ("decimal(12,3)", "{n} * 0.125"),
            ("decimal(6,1)", "{n} * 0.5"),
            ("decimal(30,4)", "{n} * 0.125"),
            ("int", "{n} / 4"),
        ],
        ["99999999.99", "-99999999.99"],
        ["0.5", "0.125", "2"],
        ["9999.9", "-9999.9"],
    ),
    "double": Kind(
        ("double", "{n} * 0.5D"),
        [("double", "{n} * 0.5D"), ("float", "{n} * 0.5D"), ("int", "{n} / 2")],
        [*_INFINITE, "1e300D"],
        ["1.5D", "-0.5D", "1e300D"],
        ["0", "1"],
    ),
    "float": Kind(
        ("float", "{n} * 0.5D"),
        [("float", "{n} * 0.5D"), ("double", "{n} * 0.5D + 0.1D")],
        _INFINITE,
        ["1.5D", "float('0.1')"],
    ),
    "wide": Kind(
        ("decimal(30,4)", "{n} * 0.25"),
        [
            ("decimal(30,4)", "{n} * 0.25"),
            ("decimal(34,8)", "{n} * 0.25 + 0.00000001"),
            ("bigint", "{n} / 4"),
            ("decimal(6,1)", "{n} * 0.5"),
        ],
        [f"{sign}{'9' * 26}.{last}BD" for sign in ("", "-") for last in ("9999", "9998")],
        ["0.5", "0.00125", "2"],
        ["9999", "-9999"],
    ),
    "string": Kind(
        ("string", _TEXT),
        [("string", _TEXT), ("string", f"concat({_TEXT}, '!')")],
        ["''", "'k'", "repeat('k', 300)", "'\uff5e'", "'\U0001f600'", _zero("''"), _zero("'k25'")],
        [],
    ),
    "binary": Kind(
        ("binary", _BYTES),
        [("binary", _BYTES), ("binary", f"concat({_BYTES}, X'00')")],
        ["X''", "X'00'", "X'0000'", "X'7F'", "X'80'", "X'FF'", "unhex(repeat('FF', 40))"],
        [],
    ),
    "address": Kind(
        ("binary", _ADDRESS),
        [("binary", _ADDRESS), ("binary", f"concat({_ADDRESS}, X'01')")],
        [f"unhex('{_MAPPED}{end}')" for end in ("00000000", "00000001", "FFFFFFFF")],
        [],
        ["X''", "X'00'", f"X'{_MAPPED[:16]}'", f"X'{_MAPPED}'", "unhex(repeat('FF', 16))"],
    ),
}


class Ranges:
    """Rows and conditions, by a seed.

    Args:
        kind: of the range columns.
        seed: of all that is random.
    """

    def __init__(self, kind: str, seed: int) -> None:
        self.kind = KINDS[kind]
        self.random = random.Random(f"{kind} {seed}")

    def table(self, spark: SparkSession) -> DataFrame:
        """Keys ``k``, points or starts ``p``, ends ``q`` (null for many), and ``v``."""
        rows = []
        for number in range(TABLE):
            start = self.random.randrange(-10, 30)
            length = self.random.choice([0, 1, 2, 3, 5, 8, 25, -1, -4])
            p = self._cell(self.kind.stored, self.kind.ends, start, nulls=0.04)
            q = self._cell(self.kind.stored, self.kind.ends, start + length, nulls=0.2)
            rows.append(f"({number}, {self.random.randrange(KEYS)}, {p}, {q}, {number % 7})")
        return spark.sql(f"SELECT * FROM VALUES {', '.join(rows)} AS r(id, k, p, q, v)")

    def stream(self, spark: SparkSession, given: int = 0) -> DataFrame:
        """Keys ``k``, values ``a`` and ``b`` of the type with this number."""
        rows = []
        kind = self.kind.given[given]
        same = kind[0] == self.kind.stored[0]
        ends = self.kind.ends if same or self.kind.given_ends is None else self.kind.given_ends
        for number in range(STREAM):
            begin = self.random.randrange(-12, 32)
            a = self._cell(kind, ends, begin, nulls=0.06)
            b = self._cell(kind, ends, begin + self.random.choice([0, 1, 4, 9, -2]), nulls=0.06)
            rows.append(f"({number}, {self.random.randrange(KEYS + 1)}, {a}, {b})")
        return spark.sql(f"SELECT * FROM VALUES {', '.join(rows)} AS r(id, k, a, b)")

    def _cell(
        self, kind: tuple[str, str], ends: Sequence[str], number: int, *, nulls: float
    ) -> str:
        dtype, at = kind
        value = at.format(n=f"({number})")
        if self.random.random() < 0.08:
            value = self.random.choice(list(ends))
        if self.random.random() < nulls:
            value = "NULL"
        return f"CAST({value} AS {dtype})"

    def points(self) -> str:
        """A condition on points."""
        lower, upper = self._compared("t.p", ">"), self._compared("t.p", "<")
        both = f"{lower} AND {upper}"
        p, a, b = map(self._own, ("t.p", "s.a", "s.b"))
        between = (f"{p} BETWEEN {a} AND {b}", f"{a} BETWEEN {p} AND {p}")
        return self.random.choice([lower, upper, both, both, both, *between, f"{p} = {a}"])

    def intervals(self) -> str:
        """A condition on the starts and ends of intervals."""
        point = self._own("s.a")
        within = f"{self._of('t.p', '<', point)} AND {self._open(self._of('t.q', '>', point))}"
        end = self._open(self._of("t.q", ">", "s.a"))
        overlaps = f"{self._admitted(self._of('t.p', '<', 's.b'))} AND {end}"
        moved = f"{self._compared('t.p', '<')} AND {self._open(self._compared('t.q', '>'))}"
        inside = f"{self._admitted(self._compared('t.p', '>'))} AND {self._compared('t.q', '<')}"
        return self.random.choice([within] * 4 + [overlaps] * 3 + [moved, inside, self.points()])

    def _open(self, condition: str) -> str:
        """The condition on an end; or it is missing."""
        chosen = self.random.random()
        if chosen < 0.6:
            sides = ["t.q IS NULL", condition]
            return f"({' OR '.join(sides if chosen < 0.5 else sides[::-1])})"
        end = self.random.choice(list(self.kind.ends))
        greatest = f"coalesce(t.q, CAST({end} AS {self.kind.stored[0]}))"
        return condition.replace("t.q", greatest) if chosen < 0.7 else condition

    def _admitted(self, condition: str) -> str:
        """The condition; or some of the stream's rows meet it anyway."""
        if self.random.random() < 0.6:
            return condition
        some = ["s.b IS NULL", "s.a IS NULL", "s.id % 6 = 0", "s.b IS NULL OR s.id % 6 = 0"]
        either = f"({' OR '.join(self.random.sample([condition, self.random.choice(some)], 2))})"
        return either if self.random.random() < 0.3 else f"{either} AND t.p IS NOT NULL"

    def _own(self, column: str) -> str:
        if self.random.random() < 0.6 or not self.kind.widths:
            return column
        return f"{column} {self.random.choice('+-')} {self.random.choice(list(self.kind.widths))}"

    def _compared(self, column: str, sign: str) -> str:
        return self._of(self._own(column), sign, self._own(self.random.choice(["s.a", "s.b"])))

    def _of(self, own: str, sign: str, value: str) -> str:
        """Strict or not, in either order."""
        equal = self.random.choice(["", "="])
        if self.random.random() < 0.5:
            return f"{own} {sign}{equal} {value}"
        return f"{value} {'<' if sign == '>' else '>'}{equal} {own}"

    def queries(
        self, numbers: Iterable[int], stream: str, table: str, *, keyed: bool, interval: bool
    ) -> str:
        """Joins with these numbers, one below the other."""
        found = []
        for number in numbers:
            on = [self.intervals() if interval else self.points(), *["s.k = t.k"] * keyed]
            rest = ["t.v > 2", "t.v % 3 <> s.id % 3", "s.id % 2 = 0", "t.q IS NOT NULL"]
            on += [one for one in rest if self.random.random() < 0.12]
            self.random.shuffle(on)
            join = self.random.choice(JOINS)
            found.append(join.format(no=number, s=stream, t=table, on=" AND ".join(on)))
        return "\nUNION ALL\n".join(found)


def rows_of(df: DataFrame) -> Counter[tuple[Any, ...]]:
    """Rows and how often each is there."""
    return Counter(map(tuple, df.collect()))


def answers(spark: SparkSession, query: str, own: str | None = None, **more: Any) -> list[str]:
    """Hold a query against Spark's own joins; the lines of its plan with those of the index."""
    with configured(spark, more):
        df = spark.sql(query)
        # Spark's own joins are interpreted: that compiles nothing, and has the same rows.
        with configured(spark, {**CODE["interpreted"], PLANNER: "off"}):
            plain = spark.sql(own) if own else anew(df)
            assert lookups(plain) == 0, query
            wanted = rows_of(plain)
        found, lines = rows_of(df), lookup_lines(plan_of(df))
    lost, invented = wanted - found, found - wanted
    for name, wrong in (("lost", lost), ("invented", invented)):
        for row in list(wrong)[:1]:
            part = query.split("\nUNION ALL\n")[row[0]]
            raise AssertionError(f"{name} {sum(wrong.values())} rows, as {row} of\n{part}")
    return lines
