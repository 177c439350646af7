"""The figures of the last full run of each benchmark, kept in ``benchmarks/figures.json``.

The documentation takes all of its numbers from there. The records themselves are not kept in the
repository: they have the raw numbers and pictures of one machine.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.harness.machine import ROOT
from benchmarks.harness.outcome import Figure
from benchmarks.harness.records import Record, figure, write
from benchmarks.report.page import machine, versions

FIGURES = ROOT / "benchmarks" / "figures.json"
_PACKAGES = ("pyspark", "pyarrow", "duckdb", "polars")


@dataclass(frozen=True)
class Kept:
    """What is kept of a run: the day, or the first and the last, the machine, and its figures."""

    when: str
    machine: str
    figures: dict[str, Figure] = field(default_factory=dict)


def load(file: Path = FIGURES) -> dict[str, Kept]:
    """What is kept, by benchmark; nothing if there is no file."""
    known = json.loads(file.read_text("utf-8")) if file.exists() else {}
    for run in known.values():
        run["figures"] = {name: figure({"name": name, **of}) for name, of in run["figures"].items()}
    return {name: Kept(**run) for name, run in known.items()}


def current(records: Iterable[Record], file: Path = FIGURES) -> list[Record]:
    """The full records without an error, except those older than what is kept."""
    days = {name: run.when[-10:] for name, run in load(file).items()}
    return [
        one for one in records
        if not one.quick and one.error is None and one.when[:10] >= days.get(one.name, "")
    ]  # fmt: skip


def remember(records: Iterable[Record], file: Path = FIGURES) -> dict[str, Kept]:
    """Keep the figures of :func:`current` runs, all of a benchmark in place of its earlier ones."""
    known = load(file)
    for record in current(records, file):
        used = versions([record])
        packages = (f"{name} {used[name]}" for name in _PACKAGES if name in used)
        known[record.name] = Kept(
            record.when[:10],
            "; ".join([machine(record), ", ".join(packages)]),
            {one.name: one for one in record.figures},
        )
    written = {
        name: vars(run) | {"figures": {one: _fields(of) for one, of in run.figures.items()}}
        for name, run in sorted(known.items())
    }
    write(file, written)
    return known


def named(known: dict[str, Kept]) -> dict[str, Figure]:
    """All figures by benchmark and name, such as ``full-latency addBatch, …``."""
    return {f"{name} {one}": of for name, run in known.items() for one, of in run.figures.items()}


def missed(known: dict[str, Kept]) -> dict[str, Figure]:
    """The figures of :func:`named` that do not reach their bounds, the farthest first."""
    found = [(name, one) for name, one in named(known).items() if not one.reached]
    return dict(sorted(found, key=lambda one: one[1].margin))


def _fields(figure: Figure) -> dict[str, Any]:
    """A figure for JSON, without its name and what it does not have."""
    defaults = {one.name: one.default for one in dataclasses.fields(Figure)}
    return {
        name: value
        for name, value in vars(figure).items()
        if name != "name" and value != defaults[name]
    }
