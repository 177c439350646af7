"""Measured numbers and tables in the documentation, from the last full runs.

A sentence holds a number between two comments, which name the figure:

    as fast as `<!-- figure: incremental rows/s, bsjoin / Flink -->1.79<!-- end -->` times Flink

``figure`` is its value, of several (``*`` stands for any text) the smallest to the largest;
``spread`` the smallest to the largest ratio of the rounds; ``inverse`` one over the value. Tables
stand between two comments, too. One of figures names them, or asks for all that are missed:

    <!-- figures: full-latency *; full-memory * -->
    <!-- end figures -->
    <!-- figures: missed -->
    <!-- end figures -->

One of a record names its benchmark, its title and those of its columns that are shown, and is
written anew when there is a record of a full run:

    <!-- table: placement-live | Scalers, live | scaler; core seconds -->
    <!-- end table -->

``<!-- measured -->`` and ``<!-- end measured -->`` hold days and machines. ``python -m benchmarks
prose`` writes all of these anew.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from pathlib import Path

from benchmarks.harness.machine import ROOT
from benchmarks.harness.outcome import Figure
from benchmarks.harness.records import Record
from benchmarks.harness.text import bound, cell, number, spread
from benchmarks.report.kept import Kept, missed, named

__all__ = ["ROOT", "filled", "listed", "pages", "tabled", "typed_by_hand", "unmarked", "update"]

# Pages that are measurements themselves, each of its own day and machine.
_MEASUREMENTS = ("docs/decisions/", "docs/fault-tests.md", "docs/changelog.md")
_MARKED = re.compile(
    r"<!-- (?P<form>figure|spread|inverse): (?P<name>.+?) -->(?P<text>.*?)<!-- end -->", re.DOTALL
)
_TABLE = re.compile(
    r"<!-- table: (?P<benchmark>[\w-]+) \| (?P<title>[^|\n]+) \| (?P<columns>[^|\n]+) -->\n"
    r"(?P<text>.*?)<!-- end table -->",
    re.DOTALL,
)
_LIST = re.compile(
    r"<!-- figures: (?P<names>[^\n]+?) -->\n(?P<text>.*?)<!-- end figures -->", re.DOTALL
)
_DAYS = re.compile(r"<!-- measured -->.*?<!-- end measured -->", re.DOTALL)
_OPENED = re.compile(r"<!-- (?:figure|spread|inverse):")
# Settings and rules are in seconds and longer; what is shorter has been measured.
_MEASURED = re.compile(
    r"\b\d[\d.,]*(?: to \d[\d.,]*)? ?(?:ms|µs|us|ns|milliseconds|microseconds|nanoseconds)\b"
    r"|\b\d[\d.,]* ?(?:k |M )?rows(?:/s| per second| a second)\b|\b\d[\d.]* ?% more rows"
    r"|\b\d[\d.,]*(?: to \d[\d.,]*)? times\b|\b\d\.\d+ (?:to \d[\d.]* )?of the rate\b"
)


def pages() -> list[Path]:
    """The pages with prose: README and documentation, without those that are measurements."""
    found = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    return [
        page for page in found if not page.relative_to(ROOT).as_posix().startswith(_MEASUREMENTS)
    ]


def update(
    kept: Mapping[str, Kept], check: bool = False, records: Iterable[Record] = ()
) -> list[str]:
    """Write the numbers and tables of all pages anew; the pages that change, or would (``check``).

    Tables of records are those of full runs; others stay.

    Raises:
        ValueError: a page names a figure, a table or a column that there is not.
    """
    known = {one.name: one for one in records if not one.quick and one.error is None}
    changed = []
    for page in pages():
        text = page.read_text("utf-8")
        try:
            wanted = tabled(listed(filled(text, kept), kept), known)
        except ValueError as error:
            raise ValueError(f"{page.relative_to(ROOT)}: {error}") from None
        if wanted != text:
            changed.append(page.relative_to(ROOT).as_posix())
            if not check:
                page.write_text(wanted, "utf-8")
    return changed


def filled(text: str, kept: Mapping[str, Kept]) -> str:
    """A text with its numbers written anew."""
    if len(_OPENED.findall(text)) != len(_MARKED.findall(text)):
        raise ValueError("a number begins with a comment and has no `<!-- end -->`")
    figures = named(kept)
    return _MARKED.sub(
        lambda found: (
            f"<!-- {found['form']}: {found['name']} -->"
            f"{_shown(found['form'], found['name'], figures)}<!-- end -->"
        ),
        text,
    )


def listed(text: str, kept: Mapping[str, Kept]) -> str:
    """A text with its tables of figures, and with its days and machines, written anew."""
    figures = named(kept)

    def written(found: re.Match[str]) -> str:
        if found["names"] == "missed":
            chosen = missed(kept)
        else:
            patterns = found["names"].split("; ")
            chosen = {name: figures[name] for one in patterns for name in _matching(one, figures)}
        return f"<!-- figures: {found['names']} -->\n\n{_rows(chosen)}\n<!-- end figures -->"

    days = f"<!-- measured -->\n\n{_measured(kept)}\n\n<!-- end measured -->"
    return _DAYS.sub(lambda _: days, _LIST.sub(written, text))


def tabled(text: str, records: Mapping[str, Record]) -> str:
    """A text with the tables of records written anew."""

    def written(found: re.Match[str]) -> str:
        if (record := records.get(found["benchmark"])) is None:
            return found[0]
        table = next((one for one in record.tables if one.title == found["title"]), None)
        columns = found["columns"].split("; ")
        names = () if table is None else table.columns
        if table is None or not set(columns) <= set(names):
            there = names or [one.title for one in record.tables]
            raise ValueError(f"{found[0].splitlines()[0]}: there are {there}")
        at = [names.index(column) for column in columns]
        rows = [[cell(row[i]) for i in at] for row in table.rows]
        lines = [columns, ["---"] * len(at), *rows]
        shown = "".join(f"| {' | '.join(line)} |\n" for line in lines)
        return f"{found[0].splitlines()[0]}\n\n{shown}\n<!-- end table -->"

    return _TABLE.sub(written, text)


def unmarked(text: str) -> list[str]:
    """What looks like a measured ratio, time or rate, and is not marked."""
    for marked in (_LIST, _DAYS, _MARKED):
        text = marked.sub("…", text)
    return [found[0] for found in _MEASURED.finditer(text)]


def typed_by_hand() -> list[str]:
    """What :func:`unmarked` finds on all pages, each with its page."""
    return [
        f"{page.relative_to(ROOT).as_posix()}: {text}"
        for page in pages()
        for text in unmarked(page.read_text("utf-8"))
    ]


def _matching(name: str, figures: Mapping[str, Figure]) -> list[str]:
    """The names that match one with stars, of which there is one; only a star is special."""
    pattern = re.sub(r"([\[\]?])", r"[\1]", name)
    found = [one for one in figures if fnmatchcase(one, pattern)]
    if not found:
        near = difflib.get_close_matches(name, figures, 1, 0)
        raise ValueError(f"no figure is called {name!r}; the nearest is {near}")
    return found


def _shown(form: str, name: str, figures: Mapping[str, Figure]) -> str:
    """What stands for a figure, or for several whose names match."""
    found = [figures[one] for one in _matching(name, figures)]
    if form == "spread":
        if any(one.spread is None for one in found):
            raise ValueError(f"the figure {name!r} has no spread")
        values = sorted(end for one in found for end in one.spread or ())
    else:
        values = sorted(one.value for one in found)
    if form == "inverse":
        values = sorted(1 / value for value in values)
    return " to ".join(dict.fromkeys(number(value) for value in (values[0], values[-1])))


def _rows(figures: Mapping[str, Figure]) -> str:
    """Figures as a table in Markdown; what the papers have is a column where there is any."""
    papers = any(one.paper for one in figures.values())
    lines = ["| figure | is | to be | spread |" + " paper |" * papers]
    lines.append("| --- | ---: | ---: | ---: |" + " --- |" * papers)
    for name, one in figures.items():
        benchmark, _, told = name.partition(" ")
        is_ = f"{number(one.value, one.bound)} {one.unit}".strip()
        cells = [
            f"`{benchmark}` {_escaped(told)}{' (simulated)' * one.simulated}",
            is_ if one.reached else f"**missed** {is_}",
            bound(one),
            spread(one),
            *[_escaped(one.paper)] * papers,
        ]
        lines.append("|" + "|".join(f" {text} " if text else " " for text in cells) + "|")
    return "\n".join(lines) + "\n"


def _escaped(text: str) -> str:
    """A text as it is, in a cell of a table in Markdown."""
    return re.sub(r"([|*<])", r"\\\1", text)


def _measured(kept: Mapping[str, Kept]) -> str:
    """The machines, and the days on which they were used; which runs were not made on the first."""
    machines: dict[str, list[str]] = {}
    for name, run in kept.items():
        machines.setdefault(run.machine, []).append(name)
    lines = []
    for machine, names in sorted(machines.items(), key=lambda one: -len(one[1])):
        days = sorted(day for name in names for day in kept[name].when.split(" to "))
        shown = " to ".join(dict.fromkeys((days[0], days[-1])))
        which = ", ".join(f"`{name}`" for name in names) if lines else "Measured"
        lines.append(f"{which}, {shown}: {machine}.")
    return "\n".join(lines)
