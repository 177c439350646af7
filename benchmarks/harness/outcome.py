"""What a benchmark receives, and what it returns: figures, tables, pictures, raw numbers."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

T = TypeVar("T")
Cell = str | float | None


@dataclass(frozen=True)
class Figure:
    """A ratio and its bound; if need be a number with a unit.

    Args:
        name: what is compared with what; records are compared by it.
        value: the ratio of medians.
        bound: the promised value; None if nothing was promised.
        at_most: whether the value must not exceed the bound (otherwise it must reach it); without
            a bound, whether less is better.
        spread: smallest and largest ratio of the rounds.
        paper: what the paper says about it, with its table or figure.
        simulated: the value comes from a simulator or a model.
        unit: for a number that is no ratio, such as ``"ms"``; it is not compared with other runs.
    """

    name: str
    value: float
    bound: float | None = None
    at_most: bool = False
    spread: tuple[float, float] | None = None
    paper: str = ""
    simulated: bool = False
    unit: str = ""

    @property
    def reached(self) -> bool:
        """Whether the bound is reached; True without a bound."""
        if self.bound is None:
            return True
        return self.value <= self.bound if self.at_most else self.value >= self.bound

    @property
    def verdict(self) -> str:
        """``reached``, ``missed`` or ``no bound``."""
        return "no bound" if self.bound is None else "reached" if self.reached else "missed"

    @property
    def unsteady(self) -> bool:
        """Whether some rounds contradict the verdict of the median."""
        return (
            None not in (self.bound, self.spread) and self.spread[0] < self.bound < self.spread[1]
        )

    @property
    def margin(self) -> float:
        """How many times better than its bound; below 1 it is missed, 1 without a bound."""
        if self.bound is None or self.value == self.bound:
            return 1.0
        above, below = (self.bound, self.value) if self.at_most else (self.value, self.bound)
        return above / below if below else math.inf


@dataclass(frozen=True)
class Table:
    """Numbers side by side, ours and the paper's.

    Args:
        title: with the number of the paper's table or figure, if it has one.
        columns: their heads, with units.
        rows: texts and numbers; None where nothing was measured.
        note: what a reader must know: what is simulated, what differs from the paper.
        charts: how it is drawn; see :meth:`drawn`.
    """

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    note: str = ""
    charts: tuple[Mapping[str, Any], ...] = ()

    @staticmethod
    def of(title: str, rows: Iterable[Mapping[str, Cell]], note: str = "") -> Table:
        """A table of rows that map heads to cells; a row may lack some."""
        listed = list(rows)
        columns = tuple(dict.fromkeys(head for row in listed for head in row))
        return Table(title, columns, tuple(tuple(map(row.get, columns)) for row in listed), note)

    def drawn(
        self, kind: Literal["line", "bar"], x: str, *y: str, by: str | None = None, **options: Any
    ) -> Table:
        """The same table with one chart more: ``y`` are the columns whose heads begin so."""
        chart = {"kind": kind, "x": x, "y": y, "by": by, "options": options}
        return replace(self, charts=(*self.charts, chart))


@dataclass
class Outcome:
    """The results of one benchmark; ``measured`` are the raw numbers, for the record."""

    figures: list[Figure] = field(default_factory=list)
    tables: list[Table] = field(default_factory=list)
    measured: Any = None

    @staticmethod
    def of(parts: Mapping[str, Outcome]) -> Outcome:
        """The parts of a benchmark as one; the raw numbers are told by their names."""
        return Outcome(
            [figure for one in parts.values() for figure in one.figures],
            [table for one in parts.values() for table in one.tables],
            measured={name: one.measured for name, one in parts.items()},
        )


@dataclass
class Context:
    """What a benchmark receives.

    Args:
        quick: small sizes: the same checks and rivals in fewer rounds.
        data: an existing folder for tables and streams, kept from run to run.
        seed: of everything that is drawn. Independent of it are the tables of TPC-H, of the road
            network and of plain arithmetic.
        say: prints one line of progress.
        name: of the catalogue entry, for functions that serve several.
    """

    quick: bool
    data: Path
    seed: int = 20260721
    say: Callable[[str], None] = print
    name: str = ""

    def pick(self, quick: T, full: T) -> T:
        """The first for quick sizes, the second for full ones."""
        return quick if self.quick else full

    @cached_property
    def spark(self) -> SparkSession:
        """The Spark session of the benchmarks, started on first use."""
        from benchmarks.harness.spark import spark_session

        return spark_session()


@dataclass(frozen=True)
class Benchmark:
    """One entry of the catalogue.

    Args:
        name: for the command line.
        group: its part of the report.
        title: one line.
        run: module and function, ``module:function``: ``(context: Context) -> Outcome``.
        quick_s: about how many seconds ``--quick`` takes on two cores.
        about: what is compared with what, and the source of the claim.
        bounds: "full" if they are promises about full sizes only.
    """

    name: str
    group: Literal["engine", "paper", "scheduling"]
    title: str
    run: str
    quick_s: int
    about: str
    bounds: Literal["always", "full"] = "always"
