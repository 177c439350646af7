"""Measured numbers in the text of the documentation are those of the benchmarks' records."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from benchmarks.harness.commands import main
from benchmarks.harness.outcome import Figure, Table
from benchmarks.harness.records import Record
from benchmarks.report import kept, prose

ONE, OTHER = "AMD, 2 cores; pyspark 4.3.0", "ARM, 8 cores; pyspark 4.3.0"
FIGURES = {
    "incremental": kept.Kept(
        "2026-11-22 to 2026-11-24",
        ONE,
        {
            one.name: one
            for one in (
                Figure("rows/s, bsjoin / one query, z 1.04", 1.13, 1.2, spread=(1.0, 1.27)),
                Figure("rows/s, bsjoin / one query, uniform", 1.66, paper="1.5 (Table 1)"),
            )
        },
    ),
    "bulk": kept.Kept("2026-11-28", OTHER, {"rows/s [JVM]": Figure("rows/s [JVM]", 0.25, 1.0)}),
    "waits": kept.Kept(
        "2026-11-28",
        ONE,
        {"wait a|b": Figure("wait a|b", 12.0, 15, True, unit="ms", simulated=True)},
    ),
}


def record(name: str, *figures: Figure, quick: bool = False, error: str | None = None) -> Record:
    return Record(
        name, "engine", "", "", quick=quick, seed=1, commit=None, seconds=1.0, error=error,
        figures=list(figures),
    )  # fmt: skip


def test_pages_have_the_figures_that_were_measured_and_no_others(
    capsys: pytest.CaptureFixture[str],
) -> None:
    before = kept.FIGURES.stat()
    assert main((), ["prose", "--check"]) == 0, capsys.readouterr().out
    after = kept.FIGURES.stat()
    assert (after.st_ino, after.st_mtime_ns) == (before.st_ino, before.st_mtime_ns)


def test_a_number_is_that_of_its_figure_and_a_comment_that_names_nothing_is_an_error() -> None:
    for comment, shown in (
        ("figure: incremental rows/s, bsjoin / one query, z 1.04", "1.13"),
        ("figure: incremental rows/s, bsjoin / one query, *", "1.13 to 1.66"),
        ("spread: incremental rows/s, bsjoin / one query, z 1.04", "1.00 to 1.27"),
        ("figure: bulk rows/s [JVM]", "0.25"),
        ("inverse: bulk rows/s [JVM]", "4.00"),
    ):
        text = f"It is <!-- {comment} -->9 to 10<!-- end --> times as fast."
        wanted = f"It is <!-- {comment} -->{shown}<!-- end --> times as fast."
        assert prose.filled(text, FIGURES) == wanted
        assert prose.filled(wanted, FIGURES) == wanted
        assert prose.unmarked(wanted) == []
    for text, told in (
        ("<!-- figure: bulk rows/s [Python] -->1<!-- end -->", r"nearest is \['bulk rows/s"),
        ("<!-- spread: bulk rows/s [JVM] -->1<!-- end -->", "has no spread"),
        ("<!-- figure: bulk rows/s [JVM] -->1", "has no `<!-- end -->`"),
    ):
        with pytest.raises(ValueError, match=told):
            prose.filled(text, FIGURES)
    with pytest.raises(ValueError, match="nearest is"):
        prose.listed("<!-- figures: incremental x -->\n<!-- end figures -->", FIGURES)


def test_a_measured_number_without_a_comment_is_noticed() -> None:
    for text in (
        "1.13 times as fast", "2 to 3 times faster", "60 to 80 times", "0.7 of the rate",
        "100 ms", "some 0.1 µs per row", "15ns", "40 to 50 milliseconds", "2.5 M rows/s",
        "90,000 rows per second", "35 % more rows/s",
    ):  # fmt: skip
        assert prose.unmarked(f"It is {text}.") != []
    assert prose.unmarked("Every ten minutes, three times, after 0.2 s, up to 100 rows.") == []


def test_full_runs_replace_the_figures_of_their_benchmark(tmp_path: Path) -> None:
    file = tmp_path / "figures.json"
    x, y = Figure("x", 1.5, 2.0, True, (1.0, 2.0), "2 (Table 1)", True, "ms"), Figure("y", 2.0)
    kept.remember([record("a", x, y)], file)
    assert kept.load(file)["a"].figures == {"x": x, "y": y}
    kept.remember([record("b", Figure("z", 3.0)), record("a", Figure("x", 1.25))], file)
    quick, failed = record("a", Figure("x", 9.0), quick=True), record("b", error="it failed")
    older = dataclasses.replace(record("a", Figure("x", 8.0)), when="2020-01-01T00:00:00+00:00")
    found = kept.remember([quick, failed, older], file)
    assert found == kept.load(file)
    assert {name: run.figures for name, run in found.items()} == {
        "a": {"x": Figure("x", 1.25)},
        "b": {"z": Figure("z", 3.0)},
    }
    assert found["a"].when == record("a").when[:10]
    assert "pyspark" in found["a"].machine
    assert kept.load(tmp_path / "none.json") == {}


def test_a_table_of_figures_shows_what_is_missed_and_what_the_papers_have() -> None:
    begin = "<!-- figures: incremental *; waits * -->"
    found = prose.listed(f"Before.\n\n{begin}\n<!-- end figures -->\n\nAfter.", FIGURES)
    assert found.splitlines()[2:9] == [
        begin,
        "",
        "| figure | is | to be | spread | paper |",
        "| --- | ---: | ---: | ---: | --- |",
        "| `incremental` rows/s, bsjoin / one query, z 1.04 | **missed** 1.13 | ≥ 1.2 "
        "| 1.00 to 1.27 | |",
        "| `incremental` rows/s, bsjoin / one query, uniform | 1.66 | | | 1.5 (Table 1) |",
        r"| `waits` wait a\|b (simulated) | 12.0 ms | ≤ 15 | | |",
    ]
    assert prose.listed(found, FIGURES) == found
    assert prose.unmarked(found) == []


def test_what_is_missed_stands_in_one_table_and_days_are_those_of_the_runs() -> None:
    found = prose.listed("<!-- figures: missed -->\n<!-- end figures -->", FIGURES)
    rows = [line.split("|")[1].strip() for line in found.splitlines() if "missed**" in line]
    assert rows == ["`bulk` rows/s [JVM]", "`incremental` rows/s, bsjoin / one query, z 1.04"]
    assert "wait" not in found
    assert "| paper |" not in found
    found = prose.listed("<!-- measured -->\n<!-- end measured -->", FIGURES)
    assert "Measured, 2026-11-22 to 2026-11-28: AMD, 2 cores; pyspark 4.3.0." in found
    assert "\n`bulk`, 2026-11-28: ARM, 8 cores; pyspark 4.3.0." in found


def test_the_page_of_figures_shows_every_one_that_is_kept() -> None:
    text = (prose.ROOT / "docs/figures.md").read_text("utf-8")
    shown = text.partition("## Missed")[0]
    absent = [
        one
        for one in kept.named(kept.load())
        if not one.startswith("placement-live ")  # beside the papers' claims on a page of its own
        and f"`{one.replace(' ', '` ', 1)}" not in shown
    ]
    assert absent == []


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
    for named in ("Waits | scaler", "Waits, live | p99, s"):
        with pytest.raises(ValueError, match="there are"):
            prose.tabled(f"<!-- table: waits | {named} -->\n<!-- end table -->", known)
