"""The report: from records to a page that stands alone."""

from __future__ import annotations

import base64
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

from benchmarks.harness.machine import ROOT
from benchmarks.harness.outcome import Figure, Table
from benchmarks.harness.records import Record
from benchmarks.harness.text import clean
from benchmarks.report import records
from benchmarks.report.page import page, write

EMPTY = {"meta", "img", "br", "col", "circle", "line", "path", "rect"}
PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
SVG = '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 9 4"><rect width="9" height="4"/></svg>'


def record(name: str, group: str = "engine", **more: Any) -> Record:
    """What a run of a benchmark leaves behind."""
    machine = {
        "cores": 2,
        "memory_gb": 23.5,
        "machine": "x86_64",
        "cpu": "Xeon Silver 4110",
        "python": "3.12.3",
        "java": "21.0.4",
    }
    versions = {"pyspark": "4.3.0", "pyarrow": "22.0.0", "duckdb": "1.4.2", "polars": "1.35"}
    found = Record(
        name, group, name.capitalize(), "", False, 20260721, "9cc2f38", 125.0,
        when="2026-11-21T09:05:33+00:00", machine=machine, versions=versions,
    )  # fmt: skip
    return replace(found, **more)


def realistic() -> list[Record]:
    """Records of every group, with figures as they were measured."""
    return [
        record(
            "latency",
            title="A micro-batch's time by the size of the table",
            about="Micro-batches of 10,000 rows against tables of 10^5 to 10^7 rows: bsjoin, an "
            "identity arrow_udf in the place of the join, and Spark's own join.",
            figures=[
                Figure("bsjoin / identity arrow_udf, 10^7 rows", 1.05, 1.25, True, (1.0, 1.12)),
                Figure("bsjoin, 10^7 / 10^5 rows", 0.81, 1.15, True, (0.78, 0.95)),
                Figure("Spark, AQE on / bsjoin, 10^7 rows", 35.5, 5.0, False, (31.0, 38.2)),
                Figure("Spark, AQE on / bsjoin, 10^5 rows", 1.7, 1.0, False, (0.94, 2.1)),
            ],
            tables=[
                Table(
                    "addBatch, milliseconds",
                    ("table rows", "bsjoin", "identity", "Spark, AQE on", "Spark, AQE off"),
                    ((100_000, 106.2, 84.0, 181.4, 175.0), (10_000_000, 86.1, 82.0, 3053.0, None)),
                )
            ],
            pictures=["latency/by-size.png"],
        ),
        record(
            "throughput",
            title="Many rows in one go",
            figures=[
                Figure("bsjoin / identity arrow_udf, 10^7 stream rows", 0.68, 0.85, False),
                Figure("DuckDB / bsjoin, without Spark's way in and out", 0.31),
            ],
        ),
        record(
            "ranges",
            title="Range joins against Spark, DuckDB and Polars",
            about="2 M rows, a stream of 100,000, 1,500 keys, ±1 h in 30 days; a ready table.",
            figures=[
                Figure("key and band: Spark as one writes it / bsjoin", 39.2, 50, False, (37, 51)),
                Figure("key and band: Spark in bins of 2 h / bsjoin", 2.4, 1.0, False, (2.2, 2.7)),
                Figure("the index alone, key and band: DuckDB / bsjoin", 40.3, 10.0, False),
                Figure("the index alone, key and as-of: Polars / bsjoin", 8.7, 1.0, False),
                Figure("band without key, 5,500 matches a row: bins / bsjoin", 0.57, 1.0, False),
                Figure(
                    "nearly all pairs match: nested loop / bsjoin", 0.71, 1.0, False, (0.66, 0.76)
                ),
            ],
            pictures=["ranges/comparisons.svg"],
        ),
        record(
            "product-recall",
            "paper",
            title="The paper's product-recall job",
            figures=[
                Figure(
                    "one query per record / bsjoin, 2 workers",
                    92.0,
                    50.0,
                    False,
                    (85.0, 94.0),
                    paper="more than 4 times Flink 1.8.0 at 128 TaskManagers (Table 1)",
                ),
                Figure(
                    "throughput, 128 workers / 16 workers",
                    6.9,
                    4.0,
                    paper="5.6 (Fig. 9a)",
                    simulated=True,
                ),
            ],
            tables=[
                Table(
                    "Table 1: throughput of the TPC job, records/s",
                    ("workers", "Flink 1.8.0", "Flink 1.12.2", "BS-Join", "bsjoin"),
                    ((1, 1110, 1205, 1402, 11_000.0), (2, 2020, 2213, 2800, 97_412.0)),
                    note="The paper's columns are of its cluster, ours of two cores.",
                ),
                Table("Fig. 9b: seconds by rows", ("rows", "bsjoin"), ((100_000, 0.1),)),
            ],
        ),
        record(
            "hotspot",
            "paper",
            title="Skewed streams",
            figures=[
                Figure(
                    "DS of the first adapted cycle, exponent 1.16, 128 partitions",
                    0.022,
                    0.05,
                    True,
                    paper="about 0.2 for 6 TaskManagers (Fig. 11a)",
                ),
                Figure("busiest of six hosts / mean, simulated", 1.0, 1.2, True, None, "", True),
            ],
        ),
        record(
            "placement",
            "scheduling",
            title="Planning placements",
            figures=[
                Figure("planning 1,000 tasks on 100 workers, cetsa", 12.4, 100.0, True, unit="ms"),
                Figure("planning 1,000 tasks on 100 workers, gs-bfd", 31.0, 100.0, True, unit="ms"),
                Figure("local search above the optimum, worst case", 0.031, 0.05, True),
            ],
        ),
        record(
            "skip-lists",
            "kernels",
            title="Skip lists with fixed and random levels",
            quick=True,
            seconds=8.4,
            figures=[
                Figure(
                    "reads, random / fixed levels, 2^18 rows", 1.39, 1.33, paper="1.33 (Fig. 13a)"
                ),
                Figure("variance of one search over ten builds", 0.0, 0.0, True, (0.0, 0.0)),
            ],
        ),
        record(
            "engines",
            "kernels",
            title="The index against DuckDB",
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


def one(**more: Any) -> Record:
    return record("one", **more)


def part(text: str, name: str) -> str:
    """The section of the page with an id."""
    return text.split(f'id="{name}"')[1].split("</section>")[0]


def test_the_page_is_well_formed_and_its_links_lead_somewhere() -> None:
    found = Reader(page(realistic()))
    assert page(realistic()) == page(realistic())
    assert len(found.ids) == len(set(found.ids))
    assert all(link.startswith("#") and link[1:] in found.ids for link in found.links)
    for name in ("latency", "product-recall", "engines", "at-a-glance", "beside-the-papers"):
        assert f"#{name}" in found.links


def test_the_page_stands_alone(tmp_path: Path) -> None:
    folder = tmp_path / "results" / "full"
    (folder / "ranges").mkdir(parents=True)
    (folder / "latency").mkdir()
    (folder / "latency/by-size.png").write_bytes(PNG)
    (folder / "ranges/comparisons.svg").write_text(SVG)
    file = write(realistic(), tmp_path / "new/report.html", tmp_path)
    assert file == tmp_path / "new/report.html"
    text = file.read_text("utf-8")
    found = Reader(text)
    assert not {"script", "link", "iframe", "object"} & set(found.tags)
    assert "http" not in text.replace("http-equiv", "")
    assert str(ROOT) not in text
    assert str(tmp_path) not in text
    assert "url(" not in text
    assert "@import" not in text
    images = found.images
    sources = [image["src"] or "" for image in images]
    assert sources[0] == f"data:image/png;base64,{base64.b64encode(PNG).decode()}"
    assert sources[1].startswith("data:image/svg+xml;base64,")
    assert all("by size" in alt or "comparisons" in alt for i in images if (alt := i["alt"]))


def test_a_picture_that_is_gone_or_of_an_unknown_kind_is_reported(tmp_path: Path) -> None:
    text = Reader(page([one(pictures=["a.png", "b.pdf"])], tmp_path)).text
    assert f"The picture a.png is missing; run {one().command} again" in text
    assert "b.pdf is neither PNG, SVG nor JPEG" in text


def test_everything_a_record_says_is_escaped() -> None:
    bad = "<script>alert('&')</script>\"'"
    texts = dict.fromkeys(("title", "about", "commit", "error", "when"), bad)
    machine = {**one().machine, "cpu": bad}
    hostile = record(
        bad, bad, **texts, versions={bad: bad}, machine=machine,
        figures=[Figure(bad, 0.5, 1.0, paper=bad)], tables=[Table(bad, (bad,), ((bad,),), bad)],
    )  # fmt: skip
    text = page([hostile, one()])
    assert "script" not in Reader(text).tags
    assert Reader(text).text.count(bad) > 10


def test_paths_addresses_and_passwords_stay_here() -> None:
    told = f"{ROOT}/benchmarks/a.py, /home/me/venv/lib/pyspark/worker.py, {ROOT}"
    assert clean(told) == "benchmarks/a.py, …/pyspark/worker.py, ."
    assert clean("see https://db.example/a") == "see db.example/a"
    assert clean("mysql://me:secret@db/x") == "mysql://…@db/x"
    assert clean("sqlite:////home/me/x.db") == "sqlite:///…/me/x.db"
    for fine in ("rows/s, bsjoin / Spark", "10^7 / 10^5", "sqlite:///planes.db", "1/2/3", "and/or"):
        assert clean(fine) == fine


def test_failed_benchmarks_are_shown_with_their_errors() -> None:
    text = page(realistic())
    for name in ("at-a-glance", "engines"):
        assert "RuntimeError: DuckDB has 5 rows where bsjoin has 4 &lt;see above&gt;" in part(
            text, name
        )
    assert "benchmarks/x.py" in part(text, "engines")
    assert "Failed, and so not compared at all: engines" in Reader(text).text


def test_what_is_lost_is_listed_the_furthest_first() -> None:
    names = [figure.name.split(":")[0] for _, figure in records.losses(realistic())]
    assert names == [
        "band without key, 5,500 matches a row",
        "nearly all pairs match",
        "key and band",
        "bsjoin / identity arrow_udf, 10^7 stream rows",
        "DuckDB / bsjoin, without Spark's way in and out",
    ]
    lost = Reader(f"<section>{part(page(realistic()), 'where-we-lose').split('>', 1)[1]}</section>")
    assert "0.71" in lost.text
    assert "some rounds reach it" in lost.text
    assert "below 1, no bound" in lost.text
    won = page([one(figures=[Figure("a / b", 2.0, 1.0)])])
    assert "No figure is missed, and no rival is faster." in won


def test_simulated_figures_are_marked_wherever_they_stand() -> None:
    text = page(realistic())
    for name in ("at-a-glance", "beside-the-papers", "product-recall"):
        assert ">simulated</span>" in part(text, name)
    assert ">simulated</span>" not in page([one(figures=[Figure("a / b", 2.0, 1.0)])])
