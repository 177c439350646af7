"""Measured numbers and tables in the documentation, from the last full runs.

A sentence holds a number between two comments, which name the figure:

    as fast as `<!-- figure: incremental rows/s, bsjoin / Flink -->1.79<!-- end -->` times Flink

``figure`` is its value, of several (``*`` stands for any text) the smallest to the largest;
``spread`` the smallest to the largest ratio of the rounds; ``inverse`` one over the value.
``python -m benchmarks prose`` writes them anew, and keeps the figures in
``benchmarks/figures.json``. A table of a record stands between two comments, too, which name its
benchmark, its title and those of its columns that are shown:

    <!-- table: placement-live | Scalers, live | scaler; core seconds -->
    <!-- end table -->

It is written anew when there is a record of a full run.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from pathlib import Path

from benchmarks.harness.records import Record, write
from benchmarks.harness.text import cell, number

__all__ = ["FIGURES", "ROOT", "filled", "pages", "remember", "tabled", "typed_by_hand", "unmarked"]
__all__ += ["update"]

ROOT = Path(__file__).resolve().parents[2]
FIGURES = ROOT / "benchmarks" / "figures.json"
# Pages that are measurements themselves, each of its own day and machine.
_MEASUREMENTS = ("docs/decisions/", "docs/figures.md", "docs/fault-tests.md", "docs/changelog.md")
_MARKED = re.compile(
    r"<!-- (?P<form>figure|spread|inverse): (?P<name>.+?) -->(?P<text>.*?)<!-- end -->", re.DOTALL
)
_TABLE = re.compile(
    r"<!-- table: (?P<benchmark>[\w-]+) \| (?P<title>[^|\n]+) \| (?P<columns>[^|\n]+) -->\n"
    r"(?P<text>.*?)<!-- end table -->",
    re.DOTALL,
)
_OPENED = re.compile(r"<!-- (?:figure|spread|inverse):")
# Settings and rules are in seconds and longer; what is shorter has been measured.
_MEASURED = re.compile(
    r"\b\d[\d.,]*(?: to \d[\d.,]*)? ?(?:ms|µs|us|ns|milliseconds|microseconds|nanoseconds)\b"
    r"|\b\d[\d.,]* ?(?:k |M )?rows(?:/s| per second| a second)\b|\b\d[\d.]* ?% more rows"
    r"|\b\d[\d.,]*(?: to \d[\d.,]*)? times\b|\b\d\.\d+ (?:to \d[\d.]* )?of the rate\b"
)

Figures = dict[str, dict[str, tuple[float, ...]]]
"""By benchmark and name: the value, and if there is a spread, its two ends."""


def remember(records: Iterable[Record], file: Path = FIGURES) -> Figures:
    """Keep the figures of full runs, all of a benchmark in the place of its earlier ones.

    Returns:
        All figures that the file has then.
    """
    known: Figures = json.loads(file.read_text("utf-8")) if file.exists() else {}
    for record in records:
        if not record.quick and record.error is None:
            known[record.name] = {
                one.name: (one.value, *(one.spread or ())) for one in record.figures
            }
    write(file, {name: known[name] for name in sorted(known)})
    return known


def pages() -> list[Path]:
    """The pages with prose: README and documentation, without those that are measurements."""
    found = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    return [
        page for page in found if not page.relative_to(ROOT).as_posix().startswith(_MEASUREMENTS)
    ]


def update(figures: Figures, check: bool = False, records: Iterable[Record] = ()) -> list[str]:
    """Write the numbers and tables of all pages anew; the pages that change, or would.

    Args:
        figures: what was measured.
        check: write nothing.
        records: of full runs, for tables; those of others stay. Default none.

    Raises:
        ValueError: a page names a figure, a table or a column that there is not.
    """
    known = {one.name: one for one in records if not one.quick and one.error is None}
    changed = []
    for page in pages():
        text = page.read_text("utf-8")
        try:
            wanted = tabled(filled(text, figures), known)
        except ValueError as error:
            raise ValueError(f"{page.relative_to(ROOT)}: {error}") from None
        if wanted != text:
            changed.append(page.relative_to(ROOT).as_posix())
            if not check:
                page.write_text(wanted, "utf-8")
    return changed


def filled(text: str, figures: Figures) -> str:
    """A text with its numbers written anew.

    Raises:
        ValueError: it names a figure that there is not, or does not end a number.
    """
    if len(_OPENED.findall(text)) != len(_MARKED.findall(text)):
        raise ValueError("a number begins with a comment and has no `<!-- end -->`")
    return _MARKED.sub(
        lambda found: (
            f"<!-- {found['form']}: {found['name']} -->"
            f"{_shown(found['form'], found['name'], figures)}<!-- end -->"
        ),
        text,
    )


def tabled(text: str, records: Mapping[str, Record]) -> str:
    """A text with the tables of records written anew.

    Raises:
        ValueError: it names a table or a column that the record has not.
    """

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
    return [found[0] for found in _MEASURED.finditer(_MARKED.sub("…", text))]


def typed_by_hand() -> list[str]:
    """What :func:`unmarked` finds on all pages, each with its page."""
    return [
        f"{page.relative_to(ROOT).as_posix()}: {text}"
        for page in pages()
        for text in unmarked(page.read_text("utf-8"))
    ]


def _shown(form: str, name: str, figures: Figures) -> str:
    """What stands for a figure, or for several whose names match."""
    known = {
        f"{benchmark} {one}": value
        for benchmark, of in figures.items()
        for one, value in of.items()
    }
    pattern = re.sub(r"([\[\]?])", r"[\1]", name)  # only a star is special
    found = [value for one, value in known.items() if fnmatchcase(one, pattern)]
    if not found:
        near = difflib.get_close_matches(name, known, 1, 0)
        raise ValueError(f"no figure is called {name!r}; the nearest is {near}")
    if form == "spread" and any(len(value) == 1 for value in found):
        raise ValueError(f"the figure {name!r} has no spread")
    values = sorted(
        end for value in found for end in (value[1:] if form == "spread" else value[:1])
    )
    if form == "inverse":
        values = sorted(1 / value for value in values)
    return " to ".join(dict.fromkeys(number(value) for value in (values[0], values[-1])))
