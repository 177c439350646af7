"""The pictures of the documentation are those that the script draws, and pages show them twice."""

from __future__ import annotations

import re
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

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


def contrast(one: str, other: str) -> float:
    """The contrast of two colours as WCAG 2 reckons it."""

    def light(colour: str) -> float:
        shares = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
        linear = [s / 12.92 if s <= 0.04045 else ((s + 0.055) / 1.055) ** 2.4 for s in shares]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    low, high = sorted((light(one), light(other)))
    return (high + 0.05) / (low + 0.05)


def test_texts_can_be_read_and_what_does_not_fit_is_refused() -> None:
    for scheme, page in (("light", "#ffffff"), ("dark", "#1e2129")):
        colors = svg.PALETTES[scheme]
        assert colors.keys() == svg.PALETTES["light"].keys()
        for ink in ("ink", "soft", "ours", "other", "third"):
            assert contrast(colors[ink], page) >= 4.5, ink
        pairs = [("ink", "plain"), ("soft", "plain")]
        for name in ("ours", "other", "third"):
            pairs += [("ink", f"{name}-fill"), (name, f"{name}-fill")]
        for ink, fill in pairs:
            assert contrast(colors[ink], colors[fill]) >= 4.5, (ink, fill)
    canvas = svg.Canvas(100, svg.PALETTES["light"], "title", "description")
    for x, y, text in ((260, 20, "x" * 90), (500, 20, "at the edge"), (260, 120, "below")):
        with pytest.raises(ValueError, match="fit"):
            canvas.text(x, y, text)
    for size, lines in (((60, 60), ["too long for it"]), ((200, 30), ["one", "two", "three"])):
        with pytest.raises(ValueError, match="fit"):
            canvas.box(10, 10, *size, lines)


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


def test_a_picture_that_differs_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(diagrams, "IMAGES", tmp_path)
    assert diagrams.main(["--check"]) == 1
    assert not list(tmp_path.iterdir())
    assert diagrams.main([]) == 0
    assert diagrams.main(["--check"]) == 0
    (tmp_path / "build-dark.svg").write_text("other", "utf-8")
    assert diagrams.main(["--check"]) == 1
    assert "build-dark.svg: not as drawn" in capsys.readouterr().out
