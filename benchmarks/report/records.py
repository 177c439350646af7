"""What the report derives from records: verdicts, losses, order, facts about the machine."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from typing import Any

from benchmarks.harness.records import Record

GROUPS = {
    "engine": "The join engine",
    "paper": "The paper's experiments",
    "scheduling": "Scheduling",
    "kernels": "Kernels, without Spark",
}
_NUMBERED = re.compile(r"\b(Tables?|Figs?\.?|Figures?)\s*(\d+)", re.IGNORECASE)


def chosen(records: Iterable[Record]) -> list[Record]:
    """One record per benchmark: full before quick, then the latest; in the order of the report."""

    def rank(record: Record) -> tuple[bool, str]:
        return not record.get("quick", False), record.get("when", "")

    best: dict[str, Record] = {}
    for record in records:
        name = record["name"]
        if name not in best or rank(record) > rank(best[name]):
            best[name] = record
    return [record for _, of_group in grouped(best.values()) for record in of_group]


def grouped(records: Iterable[Record]) -> list[tuple[str, list[Record]]]:
    """The records by the title of their group, in the order of the report."""
    by_group: dict[str, list[Record]] = {title: [] for title in GROUPS.values()}
    for record in records:
        group = record["group"]
        by_group.setdefault(GROUPS.get(group, group.capitalize()), []).append(record)
    return [(group, found) for group, found in by_group.items() if found]


def verdict(figure: Record) -> str:
    """``reached``, ``missed`` or ``no bound``."""
    if figure.get("bound") is None:
        return "no bound"
    return "reached" if figure["reached"] else "missed"


def spread_of(figure: Record) -> tuple[float, float] | None:
    """The ends of the spread; None also if one of them is not a number."""
    ends = figure.get("spread")
    if ends is None or any(end is None or math.isnan(end) for end in ends):
        return None
    return ends[0], ends[1]


def unsteady(figure: Record) -> bool:
    """Whether some rounds contradict the verdict of the median."""
    bound, ends = figure.get("bound"), spread_of(figure)
    return bound is not None and ends is not None and ends[0] < bound < ends[1]


def margin(figure: Record) -> float:
    """How many times better than its bound; below 1 it is missed, 1 without a bound."""
    value, bound = figure["value"], figure.get("bound")
    if bound is None:
        return 1.0
    above, below = (bound, value) if figure.get("at_most") else (value, bound)
    if below == 0:
        return 1.0 if above == 0 else math.inf
    return float(above / below)


def telling(record: Record, most: int) -> list[Record]:
    """The figures to show if there is room for a few: all missed, then bounded, then the first."""
    figures = record.get("figures", ())
    most = max(most, sum(verdict(figure) == "missed" for figure in figures))
    order = {"missed": 0, "reached": 1, "no bound": 2}
    by_weight = sorted(range(len(figures)), key=lambda i: (order[verdict(figures[i])], i))
    return [figures[i] for i in sorted(by_weight[:most])]


def losses(records: Iterable[Record]) -> list[tuple[Record, Record]]:
    """Every missed figure, and every ratio below 1 where more is better, with its record.

    Missed ones come first, the farthest from their bounds before the others.
    """

    def weight(loss: tuple[Record, Record]) -> tuple[bool, float]:
        missed = verdict(loss[1]) == "missed"
        far = margin(loss[1]) if missed else loss[1]["value"]
        return not missed, 0.0 if math.isnan(far) else far

    def slower(figure: Record) -> bool:
        return not figure.get("at_most") and not figure.get("unit") and figure["value"] < 1

    found = [
        (record, figure)
        for record in records
        for figure in record.get("figures", ())
        if verdict(figure) == "missed" or slower(figure)
    ]
    return sorted(found, key=weight)


def paper_number(table: Record) -> tuple[int, int] | None:
    """The paper's number in a table's title, as a sort key: tables before figures."""
    numbered = _NUMBERED.search(table["title"])
    if numbered is None:
        return None
    return (0 if numbered[1].lower().startswith("table") else 1), int(numbered[2])


def sizes(records: Sequence[Record]) -> str:
    """``quick``, ``full``, or how many are which."""
    quick = sum(bool(record.get("quick")) for record in records)
    if quick in (0, len(records)):
        return "quick" if quick else "full"
    return f"{len(records) - quick} full, {quick} quick"


def command(records: Sequence[Record]) -> str:
    """The command that measures all of these again."""
    return f"python -m benchmarks all --{'quick' if sizes(records) == 'quick' else 'full'}"


def command_of(record: Record) -> str:
    """The command that runs one benchmark alone."""
    size = "--quick" if record.get("quick") else "--full"
    return record.get("command") or f"python -m benchmarks run {record['name']} {size}"


def code(record: Record) -> str:
    """The short commit, and whether there were changes on top; empty if unknown."""
    commit, changed, _ = str(record.get("commit") or "").partition("+")
    if len(commit) == 40:
        commit = commit[:12]
    return f"{commit} with changes" if changed else commit


def machine(record: Record) -> str:
    """The machine in a line: processor, cores, memory, Python, Java."""
    has: dict[str, Any] = record.get("machine") or {}
    parts = [str(has.get("cpu") or has.get("machine") or "")]
    if cores := has.get("cores"):
        parts.append(f"{cores} core{'s' if cores != 1 else ''}")
    if memory := has.get("memory_gb"):
        parts.append(f"{memory:.0f} GB")
    parts += [f"{name.capitalize()} {has[name]}" for name in ("python", "java") if has.get(name)]
    return ", ".join(filter(None, parts)) or "unknown machine"


def versions(records: Iterable[Record]) -> dict[str, str]:
    """The versions of every package, ``a/b`` where records differ."""
    found: dict[str, set[str]] = {}
    for record in records:
        for package, version in (record.get("versions") or {}).items():
            if version:
                found.setdefault(package, set()).add(str(version))
    return {package: "/".join(sorted(found[package])) for package in sorted(found)}
