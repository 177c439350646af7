"""Charts of tables: what is a series, what a place, and a picture of every kind."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from benchmarks import charts
from benchmarks.harness.outcome import Table

TABLE = Table.of(
    "Ways",
    [
        {"way": "bsjoin", "size": 10, "ms": 2.0, "hits": "50.0%", "paper, ms": 8},
        {"way": "bsjoin", "size": 20, "ms": 4.0, "hits": "75.0%", "paper, ms": None},
        {"way": "Spark", "size": 10, "ms": 6.0, "hits": None, "paper, ms": 3},
    ],
)


def shown(table: Table) -> tuple[dict[str, dict[Any, float]], list[Any]]:
    """The values of each series by place, and the places."""
    found = charts.series(table, table.charts[0])
    return {str(name): found[name].dropna().to_dict() for name in found}, list(found.index)


def series(x: Any, *y: str, **more: Any) -> Any:
    table = TABLE.drawn("lines", x, *y, **more)
    return shown(table)


def test_heads_are_series_and_the_first_row_of_a_place_counts() -> None:
    assert series("size", "ms", "paper") == (
        {"ms": {10: 2.0, 20: 4.0}, "paper, ms": {10: 8.0}}, [10, 20]
    )  # fmt: skip
    assert series("size", "hits")[0] == {"hits": {10: 50.0, 20: 75.0}}


def test_values_of_a_column_are_series() -> None:
    assert series("size", "ms", by="way")[0] == {"bsjoin": {10: 2.0, 20: 4.0}, "Spark": {10: 6.0}}
    both = series("size", "ms", "paper", by="way")[0]
    assert list(both) == ["bsjoin, ms", "bsjoin, paper, ms", "Spark, ms", "Spark, paper, ms"]


def test_rows_can_be_series_and_chosen_divided_and_skipped() -> None:
    assert series("way", "ms", "paper", across=True, where={"size": 10}) == (
        {"bsjoin": {"ms": 2.0, "paper, ms": 8.0}, "Spark": {"ms": 6.0, "paper, ms": 3.0}},
        ["ms", "paper, ms"],
    )
    assert series(("way", "size"), "paper", over="ms", skip="Spark\n10")[0] == {
        "paper, ms": {"bsjoin\n10": 4.0}
    }


@pytest.mark.parametrize("kind", charts.KINDS)
def test_every_kind_is_drawn_the_same_each_time(kind: str, tmp_path: Path) -> None:
    table = TABLE.drawn(kind, "size", "ms").drawn(kind, ("way", "size"), "paper", xscale="linear")
    one, other = (charts.draw([TABLE, table], tmp_path / f"{n}.svg")[0] for n in (1, 2))
    assert one.read_bytes() == other.read_bytes()
    assert one.read_bytes().startswith(b"<?xml")
    assert charts.draw([TABLE], tmp_path / "none.svg") == []
