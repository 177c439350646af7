"""Measured numbers in the text of the documentation are those of the benchmarks' records."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest

from benchmarks.harness.outcome import Figure, Table
from benchmarks.harness.records import Record
from benchmarks.report import prose

FIGURES: prose.Figures = {
    "incremental": {
        "rows/s, bsjoin / one query, z 1.04": (1.13, 1.0, 1.27),
        "rows/s, bsjoin / one query, uniform": (1.66,),
    },
    "bulk": {"rows/s [JVM]": (0.25,)},
}


def record(name: str, *figures: Figure, quick: bool = False, error: str | None = None) -> Record:
    return Record(
        name, "engine", "", "", quick=quick, seed=1, commit=None, seconds=1.0, error=error,
        figures=list(figures),
    )  # fmt: skip


@pytest.mark.parametrize("page", prose.pages(), ids=lambda page: page.name)
def test_a_page_has_the_figures_that_were_measured_and_no_others(page: Path) -> None:
    text = page.read_text("utf-8")
    figures = json.loads(prose.FIGURES.read_text("utf-8"))
    assert prose.filled(text, figures) == text, "run `python -m benchmarks prose`"
    assert prose.unmarked(text) == [], "put it between comments: see benchmarks/report/prose.py"


@pytest.mark.parametrize(
    ("comment", "shown"),
    [
        ("figure: incremental rows/s, bsjoin / one query, z 1.04", "1.13"),
        ("figure: incremental rows/s, bsjoin / one query, *", "1.13 to 1.66"),
        ("spread: incremental rows/s, bsjoin / one query, z 1.04", "1.00 to 1.27"),
        ("figure: bulk rows/s [JVM]", "0.25"),
        ("inverse: bulk rows/s [JVM]", "4.00"),
    ],
)
def test_a_number_is_that_of_its_figure(comment: str, shown: str) -> None:
    text = f"It is <!-- {comment} -->9 to 10<!-- end --> times as fast."
    wanted = f"It is <!-- {comment} -->{shown}<!-- end --> times as fast."
    assert prose.filled(text, FIGURES) == wanted
    assert prose.filled(wanted, FIGURES) == wanted
    assert prose.unmarked(wanted) == []


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (
            "<!-- figure: bulk rows/s [Python] -->1<!-- end -->",
            r"nearest is \['bulk rows/s",
        ),
        ("<!-- spread: bulk rows/s [JVM] -->1<!-- end -->", "has no spread"),
        ("<!-- figure: bulk rows/s [JVM] -->1", "has no `<!-- end -->`"),
    ],
)
def test_a_comment_that_names_nothing_is_an_error(text: str, told: str) -> None:
    with pytest.raises(ValueError, match=told):
        prose.filled(text, FIGURES)


@pytest.mark.parametrize(
    "text",
    [
        "1.13 times as fast", "2 to 3 times faster", "60 to 80 times", "0.7 of the rate",
        "100 ms", "some 0.1 µs per row", "15ns", "40 to 50 milliseconds", "2.5 M rows/s",
        "90,000 rows per second", "35 % more rows/s",
    ],
)  # fmt: skip
def test_a_measured_number_without_a_comment_is_noticed(text: str) -> None:
    assert prose.unmarked(f"It is {text}.") != []
    assert prose.unmarked("Every ten minutes, three times, after 0.2 s, up to 100 rows.") == []


TABLE = Table(
    "Waits, live", ("scaler", "p95, s", "rows"), (("OERA", 23.5, "9 of 9"), ("DS2", None, ""))
)


def test_a_table_is_that_of_its_record_and_stays_without_one() -> None:
    begin = "<!-- table: waits | Waits, live | scaler; p95, s -->"
    text = f"Before.\n\n{begin}\n<!-- end table -->\n\nAfter."
    known = {"waits": dataclasses.replace(record("waits"), tables=[TABLE])}
    found = prose.tabled(text, known)
    rows = "| scaler | p95, s |\n| --- | --- |\n| OERA | 23.5 |\n| DS2 | - |\n"
    assert found == f"Before.\n\n{begin}\n\n{rows}\n<!-- end table -->\n\nAfter."
    assert prose.tabled(found, known) == found
    assert prose.tabled(found, {}) == found


@pytest.mark.parametrize("named", ["Waits | scaler", "Waits, live | p99, s"])
def test_a_table_or_a_column_that_is_not_there_is_an_error(named: str) -> None:
    known = {"waits": dataclasses.replace(record("waits"), tables=[TABLE])}
    with pytest.raises(ValueError, match="there are"):
        prose.tabled(f"<!-- table: waits | {named} -->\n<!-- end table -->", known)
