"""What a benchmark is given, and what comes out of it: figures, tables, pictures, raw numbers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["Benchmark", "Context", "Figure", "Outcome", "Table"]


@dataclass(frozen=True)
class Figure:
    """A ratio, and what it is to be; at need a number with a unit.

    Args:
        name: what is compared with what.
        value: the ratio of medians.
        bound: the figure to reach; None where it is shown and nothing was promised.
        at_most: whether the value must stay below the bound, or above it; and, without a bound,
            whether less is better.
        spread: smallest and largest ratio, round by round where rounds are paired.
        paper: what the paper says of the same, in a few words with its table or figure.
        simulated: the value comes from a simulator, not from a run.
        unit: what it is counted in where it is no ratio, such as ``"ms"``; it is then not
            compared with what another run found.
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
        """Whether the figure is reached; one without a bound is."""
        if self.bound is None:
            return True
        return self.value <= self.bound if self.at_most else self.value >= self.bound

    def to_json(self) -> dict[str, Any]:
        """For the record."""
        return {**asdict(self), "reached": self.reached}


@dataclass(frozen=True)
class Table:
    """Numbers side by side, ours beside the paper's.

    Args:
        title: with the paper's number of the table or figure, if it has one.
        columns: their heads, with units.
        rows: texts and numbers; None for what was not measured.
        note: what a reader has to know to read it: what is simulated, what differs.
    """

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str | float | None, ...], ...]
    note: str = ""


@dataclass
class Outcome:
    """What one benchmark found.

    Args:
        figures: ratios, in the order to show them.
        tables: what is shown as numbers.
        pictures: PNG or SVG files below the context's ``out``.
        measured: the raw numbers, for the record: whatever JSON can hold.
    """

    figures: list[Figure] = field(default_factory=list)
    tables: list[Table] = field(default_factory=list)
    pictures: list[Path] = field(default_factory=list)
    measured: Any = None


@dataclass
class Context:
    """What a benchmark is given.

    Args:
        quick: sizes for minutes, not hours.
        out: where its pictures go; it is there.
        data: where tables and streams are kept from run to run; it is there.
        seed: of everything that is drawn. Fixed, whatever it is: tables made of arithmetic, those
            of TPC-H, and the road network; their streams are drawn. The kernels, each checked on
            its own rows, have a seed of their own.
        say: prints one line of progress.
    """

    quick: bool
    out: Path
    data: Path
    seed: int = 20260721
    say: Callable[[str], None] = print

    @cached_property
    def spark(self) -> SparkSession:
        """The Spark session of the benchmarks, started when it is first asked for."""
        from benchmarks.harness.session import spark_session

        return spark_session()


@dataclass(frozen=True)
class Benchmark:
    """One entry of the catalogue.

    Args:
        name: as the command line has it.
        group: where it stands in the report.
        title: one line.
        module: with a function ``run(context: Context) -> Outcome``.
        quick_s: about how many seconds it takes with ``--quick`` on two cores, Spark being started.
        about: what is compared with what and where the claim comes from; a paragraph.
        apart: whether it needs a process of its own, for it starts Spark in its own way.
    """

    name: str
    group: Literal["engine", "paper", "scheduling", "kernels"]
    title: str
    module: str
    quick_s: int
    about: str
    apart: bool = False
