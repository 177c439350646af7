"""One HTML page from the records: pictures inside, no script, no network, light and dark.

The template escapes everything; :func:`benchmarks.harness.text.clean` is applied to every text.
"""

from __future__ import annotations

import base64
import math
import re
from collections.abc import Sequence
from io import BytesIO
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from benchmarks import charts
from benchmarks.harness import text
from benchmarks.harness.records import Record
from benchmarks.report import records

_TEMPLATES = Path(__file__).with_name("templates")
_PICTURES = {".png": "image/png", ".svg": "image/svg+xml", ".jpg": "image/jpeg"}
_MARKS = {"reached": (charts.SPARK, "o"), "missed": (charts.OURS, "D")}


def environment(**options: Any) -> Environment:
    """Jinja2 with the filters of the report; missing fields of records are errors."""
    found = Environment(
        loader=FileSystemLoader(_TEMPLATES), undefined=StrictUndefined, trim_blocks=True,
        lstrip_blocks=True, **options,
    )  # fmt: skip
    known = {"anchor": anchor, "picture": picture}
    for module in (text, records):  # the report's verdict is that of one figure
        for name, value in vars(module).items():
            if getattr(value, "__module__", "") == module.__name__ and not name.startswith("_"):
                known[name] = value
    found.filters |= known
    found.tests["paper_number"] = records.paper_number
    found.globals |= known | {"MISSING": text.MISSING}
    return found


def write(listed: list[Record], file: Path) -> Path:
    """Write the report."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(page(listed), "utf-8")
    return file


def page(listed: list[Record]) -> str:
    """The report as text; the same for the same records."""
    shown = completed(records.chosen(listed))
    template = environment(autoescape=True, finalize=_finalize).get_template("page.html")
    style = Markup((_TEMPLATES / "style.css").read_text("utf-8"))
    sources = {(records.machine(record), records.code(record)) for record in shown}
    drawn = glance(shown)
    return template.render(
        records=shown, style=style, mixed_sources=len(sources) > 1, glance=drawn and _data(drawn)
    )


def completed(listed: list[Record]) -> list[Record]:
    """The records with every optional field, and ``among``: a quick one among full ones."""
    fields = {"about": "", "error": None, "pictures": (), "quick": False, "seconds": None}
    fields |= {"seed": None, "tables": (), "when": None}
    of_figure = {"at_most": False, "bound": None, "paper": "", "simulated": False, "unit": ""}
    mixed = len({bool(record.get("quick")) for record in listed}) > 1
    return [
        {
            **fields,
            **record,
            "figures": [{**of_figure, **figure} for figure in record.get("figures", ())],
            "among": mixed and record.get("quick", False),
        }
        for record in listed
    ]


def _finalize(value: Any) -> Any:
    """What the template prints of a value."""
    if value is None:
        return ""
    return text.clean(value) if type(value) is str else value


def anchor(name: str) -> str:
    """A name as the target of a link."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-") or "unnamed"


def picture(record: Record, path: str) -> dict[str, Any]:
    """A picture for the page: its ``file`` name, ``kind``, ``source`` and ``caption``."""
    file = Path(record.get("folder", ".")) / path
    kind = _PICTURES.get(file.suffix.lower())
    words, name = (re.sub(r"[-_]+", " ", word).strip() for word in (file.stem, record["name"]))
    caption = record["title"] if words == name else f"{record['title']}: {words}"
    source = _data(file.read_bytes(), kind) if kind is not None and file.is_file() else None
    return {"file": file.name, "kind": kind, "source": source, "caption": caption}


def _data(content: bytes, kind: str = "image/svg+xml") -> Markup:
    """A picture as a URL; not a text to be cleaned: base64 may look like a path."""
    return Markup(f"data:{kind};base64,{base64.b64encode(content).decode()}")


def glance(shown: Sequence[Record]) -> bytes | None:
    """The most telling figures with a bound, as multiples of it: an SVG; None without any."""
    rows = [
        (f"{text.clean(record['name'])}: {text.clean(figure['name'])}"[:90], figure)
        for record in shown
        for figure in records.telling(record, 3)
        if figure["bound"] is not None and 0 < records.margin(figure) < math.inf
    ]
    if not rows:
        return None
    drawn = BytesIO()
    with charts.panels(drawn, (12, 1 + 0.24 * len(rows))) as (axes,):
        for place, (_, figure) in enumerate(rows):
            color, mark = _MARKS[records.verdict(figure)]
            ends = records.spread_of(figure) or ()
            times = [records.margin({**figure, "value": end}) for end in ends]
            axes.plot(times, [place] * len(times), color=color, alpha=0.5, lw=3)
            face = "white" if figure["simulated"] else color
            axes.plot(records.margin(figure), place, mark, color=color, mfc=face, ms=6)
        axes.axvline(1, color="0.2", lw=1.5)
        names = [name.replace("$", r"\$") for name, _ in rows]
        axes.set_yticks(range(len(rows)), names, fontsize=7)
        axes.invert_yaxis()
        label = "times better than its bound (diamond: missed; hollow: from a simulator)"
        charts.finish(axes, "", grid="x", legend=False, xscale="log", xlabel=label)
    return drawn.getvalue()
