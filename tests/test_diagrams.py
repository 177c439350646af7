"""The pictures of the documentation are those that the script draws, and pages show them twice."""

from __future__ import annotations

import re
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.append(str(ROOT / "scripts"))
import diagrams  # noqa: E402
import latency_chart  # noqa: E402
import svg  # noqa: E402

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
DRAWN = diagrams.drawn()


def test_pictures_are_as_drawn_say_what_they_show_and_need_no_other_file() -> None:
    for name, drawn in DRAWN.items():
        there = (diagrams.IMAGES / name).read_text("utf-8")
        assert there == drawn, f"{name}: run `python scripts/diagrams.py`"
        title, told = ET.fromstring(drawn)[:2]
        assert (title.tag[-5:], told.tag[-4:]) == ("title", "desc")
        assert title.text
        assert len(told.text or "") > 60
        assert not re.search(r"href|url\((?!#)|@import|<script", drawn)


def test_a_diagram_is_on_a_page_once_in_each_colour() -> None:
    shown = set()
    for page in PAGES:
        text = page.read_text("utf-8")
        shown |= {*re.findall(r"images/([\w-]+-(?:light|dark)\.svg)", text)}
        for name, scheme, only in re.findall(
            r"\(\S*images/([\w-]+)-(light|dark)\.svg(\S*)\)", text
        ):
            assert only == f"#gh-{scheme}-mode-only", name
            other = {"light": "dark", "dark": "light"}[scheme]
            assert text.count(f"{name}-{scheme}.svg") == text.count(f"{name}-{other}.svg")
    assert shown == DRAWN.keys()


def test_the_chart_takes_its_numbers_from_the_figures() -> None:
    figures = {
        f"addBatch, {way}, {rows:,} rows": {"value": ms, "unit": "ms"}
        for way, rows, ms in [
            ("Spark, AQE on", 1000, 200.0), ("Spark, AQE on", 10_000_000, 4321.0),
            ("bsjoin, JVM", 1000, 40.0), ("bsjoin, JVM", 10_000_000, 41.0),
            ("no join", 10_000_000, 39.0),
        ]
    }  # fmt: skip
    figures["addBatch, bsjoin, JVM / no join, 1,000 rows"] = {"value": 1.5}
    text = latency_chart.chart(svg.PALETTES["dark"], figures).written()
    assert re.findall(r">([\d,]+ ms)<", text) == ["39 ms", "41 ms", "4,321 ms"]
    assert "10 million" in text
