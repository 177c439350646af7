"""What the records say: what is reached, what is lost, what stands beside a paper's claim."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from typing import Any

__all__ = [
    "GROUPS",
    "Record",
    "chosen",
    "code",
    "command",
    "from_paper",
    "grouped",
    "kind",
    "losses",
    "machine",
    "margin",
    "spread_of",
    "telling",
    "unsteady",
    "verdict",
    "versions",
]

Record = dict[str, Any]

GROUPS = {
    "engine": "The join engine",
    "paper": "The paper's experiments",
    "scheduling": "Scheduling",
    "kernels": "Kernels, without Spark",
}
_NUMBERED = re.compile(r"\b(Tables?|Figs?\.?|Figures?)\s*(\d+)", re.IGNORECASE)


def chosen(records: Iterable[Record]) -> list[Record]:
    """One record a benchmark: the full one before the quick one, then the latest."""
    best: dict[str, Record] = {}
    for record in records:
        name = record["name"]
        if name not in best or _rank(record) > _rank(best[name]):
            best[name] = record
    return [record for _, of_group in grouped(best.values()) for record in of_group]


def _rank(record: Record) -> tuple[bool, str]:
    return not record.get("quick", False), record.get("when", "")


def grouped(records: Iterable[Record]) -> list[tuple[str, list[Record]]]:
    """The records by group, in the order of the report; inside a group as they were given."""
    by_group: dict[str, list[Record]] = {group: [] for group in GROUPS}
    for record in records:
        by_group.setdefault(record["group"], []).append(record)
    return [(group, found) for group, found in by_group.items() if found]


def verdict(figure: Record) -> str:
    """``reached``, ``missed`` or ``no bound``."""
    if figure.get("bound") is None:
        return "no bound"
    return "reached" if figure["reached"] else "missed"


def spread_of(figure: Record) -> tuple[float, float] | None:
    """The ends of the spread; None too where one of them is no number."""
    ends = figure.get("spread")
    if ends is None or any(end is None or math.isnan(end) for end in ends):
        return None
    return ends[0], ends[1]


def unsteady(figure: Record) -> bool:
    """Whether some rounds say otherwise than the median."""
    bound, ends = figure.get("bound"), spread_of(figure)
    return bound is not None and ends is not None and ends[0] < bound < ends[1]


def margin(figure: Record) -> float:
    """How many times better than its bound; below 1 it is missed, 1 without a bound."""
    value: float = figure["value"]
    bound: float | None = figure.get("bound")
    if bound is None:
        return 1.0
    above, below = (bound, value) if figure.get("at_most") else (value, bound)
    if below == 0:
        return 1.0 if above == 0 else math.inf
    return above / below


def telling(figures: Sequence[Record], most: int) -> list[Record]:
    """The figures to show where there is room for a few: all missed; then bounded; the first."""
    most = max(most, sum(verdict(figure) == "missed" for figure in figures))
    order = {"missed": 0, "reached": 1, "no bound": 2}
    by_weight = sorted(range(len(figures)), key=lambda i: (order[verdict(figures[i])], i))
    return [figures[i] for i in sorted(by_weight[:most])]


def losses(records: Iterable[Record]) -> list[tuple[Record, Record]]:
    """Every figure that is missed, or a ratio below 1 where more is better, with its record.

    The missed ones come first, the furthest from its bound before the others; then what is below
    1 though nothing, or no more, was promised.
    """
    found = [
        (record, figure)
        for record in records
        for figure in record.get("figures", ())
        if verdict(figure) == "missed" or _is_slower(figure)
    ]
    return sorted(found, key=_weight)


def _is_slower(figure: Record) -> bool:
    return not figure.get("at_most") and not figure.get("unit") and figure["value"] < 1


def _weight(loss: tuple[Record, Record]) -> tuple[bool, float]:
    figure = loss[1]
    missed = verdict(figure) == "missed"
    weight = margin(figure) if missed else figure["value"]
    return not missed, weight if not math.isnan(weight) else 0.0


def from_paper(table: Record) -> tuple[int, int] | None:
    """Whether a table's title has a paper's number, as a key to sort by: tables before figures."""
    numbered = _NUMBERED.search(table["title"])
    if numbered is None:
        return None
    return (0 if numbered[1].lower().startswith("table") else 1), int(numbered[2])


def kind(records: Sequence[Record]) -> str:
    """``quick``, ``full``, or how many are what."""
    quick = sum(bool(record.get("quick")) for record in records)
    if quick in (0, len(records)):
        return "quick" if quick else "full"
    return f"{len(records) - quick} full, {quick} quick"


def command(records: Sequence[Record]) -> str:
    """What measures these again."""
    quick = bool(records) and all(record.get("quick") for record in records)
    return f"python -m benchmarks all {'--quick' if quick else '--full'}"


def code(record: Record) -> str:
    """The commit in short, and whether there were changes on top of it; nothing if unknown."""
    commit, changed, _ = str(record.get("commit") or "").partition("+")
    if len(commit) == 40:
        commit = commit[:12]
    return f"{commit} with changes" if changed else commit


def machine(record: Record) -> str:
    """The machine in a line: processor, cores, memory, Python, Java."""
    has = record.get("machine") or {}
    parts = [str(has.get("cpu") or has.get("machine") or "")]
    if cores := has.get("cores"):
        parts.append(f"{cores} core{'s' if cores != 1 else ''}")
    if memory := has.get("memory_gb"):
        parts.append(f"{memory:.0f} GB")
    for language in ("python", "java"):
        if has.get(language):
            parts.append(f"{language.capitalize()} {has[language]}")
    return ", ".join(part for part in parts if part) or "unknown machine"


def versions(records: Iterable[Record]) -> dict[str, list[str]]:
    """The versions of every package that the records name, each once."""
    found: dict[str, set[str]] = {}
    for record in records:
        for package, version in (record.get("versions") or {}).items():
            if version:
                found.setdefault(package, set()).add(str(version))
    return {package: sorted(found[package]) for package in sorted(found)}
