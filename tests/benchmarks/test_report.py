"""The report: from records to a page that stands alone; and the charts of tables."""

from __future__ import annotations

import base64
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from benchmarks import charts
from benchmarks.harness.machine import ROOT
from benchmarks.harness.outcome import Figure, Table
from benchmarks.harness.records import Record
from benchmarks.harness.text import clean
from benchmarks.report.page import losses, page, write

EMPTY = {"meta", "img", "br", "col", "circle", "line", "path", "rect"}
SVG = '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 9 4"><rect width="9" height="4"/></svg>'


def record(name: str, group: str = "engine", **more: Any) -> Record:
    """What a run of a benchmark leaves behind."""
    machine = {
        "cores": 2, "memory_gb": 23.5, "machine": "x86_64", "cpu": "Xeon Silver 4110",
        "python": "3.12.3", "java": "21.0.4",
    }  # fmt: skip
    found = Record(
        name, group, name.capitalize(), "", False, 20260721, "9cc2f38", 125.0,
        when="2026-11-21T09:05:33+00:00", machine=machine, versions={"pyspark": "4.3.0"},
    )  # fmt: skip
    return replace(found, **more)


def realistic() -> list[Record]:
    """Records of every group, with figures as they were measured."""
    sizes = Table("addBatch, ms", ("rows", "ours"), ((100_000, 106.2), (10_000_000, None)))
    paper = Table("Table 1: records/s", ("workers", "Flink", "bsjoin"), ((1, 1110, 11_000.0),))
    return [
        record(
            "latency",
            about="Micro-batches of 10,000 rows against tables of 10^5 to 10^7 rows.",
            figures=[
                Figure("bsjoin / identity arrow_udf", 1.05, 1.25, True, (1.0, 1.12)),
                Figure("nearly all pairs match", 0.71, 1.0, False, (0.66, 1.01)),
                Figure("Spark / bsjoin", 35.5, 5.0, False, (31.0, 38.2)),
                Figure("DuckDB / bsjoin", 0.31),
            ],
            tables=[sizes],
            pictures=["latency.svg", "gone.svg"],
        ),
        record(
            "product-recall",
            "paper",
            figures=[
                Figure("one query per record / bsjoin", 92.0, 50.0, paper="4 times (Table 1)"),
                Figure("128 workers / 16", 6.9, 4.0, paper="5.6 (Fig. 9a)", simulated=True),
            ],
            tables=[paper],
        ),
        record(
            "placement", "scheduling", figures=[Figure("planning", 12.4, 10.0, True, unit="ms")]
        ),
        record(
            "engines",
            "paper",
            quick=True,
            error=f'Traceback (most recent call last):\n  File "{ROOT}/benchmarks/x.py", line 3\n'
            "RuntimeError: DuckDB has 5 rows where bsjoin has 4 <see above>",
        ),
    ]


class Reader(HTMLParser):
    """What a browser would find: elements that are closed in order, ids, links, sources, texts."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.opened: list[str] = []
        self.ids: list[str] = []
        self.links: list[str] = []
        self.images: list[dict[str, str | None]] = []
        self.tags: list[str] = []
        self.texts: list[str] = []
        self.feed(text)
        self.close()
        assert self.opened == [], "some elements have no end"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        assert len(found) == len(attrs), f"<{tag}> has an attribute twice"
        if tag not in EMPTY:
            self.opened.append(tag)
        self.tags.append(tag)
        self.ids += [found["id"] or ""] if "id" in found else []
        self.links += [found["href"] or ""] if "href" in found else []
        self.images += [found] if tag == "img" else []
        assert not [name for name in found if name.startswith("on")]

    def handle_endtag(self, tag: str) -> None:
        if tag not in EMPTY:
            assert self.opened.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.opened[-1:] != ["style"]:
            self.texts.append(data)

    @property
    def text(self) -> str:
        return re.sub(r"\s+", " ", "".join(self.texts))


def part(text: str, name: str) -> str:
    """The section of the page with an id."""
    return text.split(f'id="{name}"')[1].split("</section>")[0]


def test_the_page_is_well_formed_and_stands_alone(tmp_path: Path) -> None:
    folder = tmp_path / "results" / "full"
    folder.mkdir(parents=True)
    (folder / "latency.svg").write_text(SVG)
    file = write(realistic(), tmp_path / "new/report.html", tmp_path)
    text = file.read_text("utf-8")
    assert text == page(realistic(), tmp_path)
    found = Reader(text)
    assert len(found.ids) == len(set(found.ids))
    assert all(link.startswith("#") and link[1:] in found.ids for link in found.links)
    for name in ("latency", "product-recall", "engines", "where-we-lose"):
        assert f"#{name}" in found.links
    assert not {"script", "link", "iframe", "object"} & set(found.tags)
    for word in ("http", str(ROOT), str(tmp_path), "url(", "@import"):
        assert word not in text.replace("http-equiv", "")
    source = found.images[0]["src"] or ""
    assert source == f"data:image/svg+xml;base64,{base64.b64encode(SVG.encode()).decode()}"
    assert "Latency" in (found.images[0]["alt"] or "")
    assert f"The picture gone.svg is missing; run {realistic()[0].command} again" in found.text


def test_everything_a_record_says_is_escaped_and_local_names_stay_here() -> None:
    bad = "<script>alert('&')</script>\"'"
    texts = dict.fromkeys(("title", "about", "commit", "error", "when"), bad)
    hostile = record(
        bad, bad, **texts, versions={bad: bad}, machine={**record("a").machine, "cpu": bad},
        figures=[Figure(bad, 0.5, 1.0, paper=bad)], tables=[Table(bad, (bad,), ((bad,),), bad)],
    )  # fmt: skip
    found = Reader(page([hostile, record("one")]))
    assert "script" not in found.tags
    assert found.text.count(bad) > 10
    told = f"{ROOT}/benchmarks/a.py, /home/me/venv/lib/pyspark/worker.py, {ROOT}"
    assert clean(told) == "benchmarks/a.py, …/pyspark/worker.py, ."
    assert clean("see https://db.example/a") == "see db.example/a"
    assert clean("mysql://me:secret@db/x") == "mysql://…@db/x"
    assert clean("sqlite:////home/me/x.db") == "sqlite:///…/me/x.db"
    for fine in ("rows/s, bsjoin / Spark", "10^7 / 10^5", "sqlite:///planes.db", "1/2/3", "and/or"):
        assert clean(fine) == fine


def test_what_failed_is_lost_or_is_simulated_says_so() -> None:
    text = page(realistic())
    error = "RuntimeError: DuckDB has 5 rows where bsjoin has 4 &lt;see above&gt;"
    assert error in part(text, "engines")
    assert "Failed, and so not compared at all: engines" in Reader(text).text
    names = [figure.name for _, figure in losses(realistic())]
    assert names == ["nearly all pairs match", "planning", "DuckDB / bsjoin"]
    lost = Reader(f"<section>{part(text, 'where-we-lose').split('>', 1)[1]}</section>").text
    assert "0.71" in lost
    assert "some rounds reach it" in lost
    assert "below 1, no bound" in lost
    won = page([record("one", figures=[Figure("a / b", 2.0, 1.0)])])
    assert "No figure is missed, and none is below 1" in won
    assert ">simulated</span>" not in won
    assert ">simulated</span>" in part(text, "product-recall")


TABLE = Table.of(
    "Ways",
    [
        {"way": "bsjoin", "size": 10, "ms": 2.0, "paper, ms": 8},
        {"way": "bsjoin", "size": 20, "ms": 4.0, "paper, ms": None},
        {"way": "Spark", "size": 10, "ms": 6.0, "paper, ms": 3},
    ],
)


def series(x: str, *y: str, by: str | None = None) -> dict[str, dict[Any, float]]:
    """The values of each series by place."""
    table = TABLE.drawn("line", x, *y, by=by)
    found = charts.series(table, table.charts[0])
    return {str(name): found[name].dropna().to_dict() for name in found}


def test_heads_or_values_are_series() -> None:
    assert series("way", "paper") == {"paper, ms": {"bsjoin": 8.0, "Spark": 3.0}}
    assert series("size", "ms", by="way") == {"bsjoin": {10: 2.0, 20: 4.0}, "Spark": {10: 6.0}}
    both = series("size", "ms", "paper", by="way")
    assert both["bsjoin, ms"] == {10: 2.0, 20: 4.0}
    assert both["Spark, paper, ms"] == {10: 3.0}


@pytest.mark.long
def test_both_kinds_are_drawn(tmp_path: Path) -> None:
    for kind in ("line", "bar"):
        table = TABLE.drawn(kind, "size", "ms", by="way").drawn(kind, "way", "ms", logy=True)
        files = [tmp_path / charts.draw([TABLE, table], tmp_path / f"{n}.svg")[0] for n in (1, 2)]
        one, other = (file.read_bytes() for file in files)
        assert one == other
        assert one.startswith(b"<?xml")
    assert charts.draw([TABLE], tmp_path / "none.svg") == []
