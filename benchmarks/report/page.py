"""One HTML page from the records: pictures inside, no script, no network, light and dark.

The templates escape everything; :func:`benchmarks.report.numbers.clean` is applied to every text.
"""

from __future__ import annotations

import base64
import math
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from benchmarks.harness.records import Record
from benchmarks.harness.text import duration
from benchmarks.report import numbers, records

_TEMPLATES = Path(__file__).with_name("templates")
_PICTURES = {".png": "image/png", ".svg": "image/svg+xml", ".jpg": "image/jpeg"}
_EDGE = 5.0  # per cent of a chart that stay free on either side
_MOST_TICKS = 6


def environment(**options: Any) -> Environment:
    """Jinja2 with the filters of the report; missing fields of records are errors."""
    found = Environment(
        loader=FileSystemLoader(_TEMPLATES),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        **options,
    )
    found.filters |= {
        "anchor": anchor,
        "column": numbers.column,
        "code": records.code,
        "date": numbers.date,
        "duration": duration,
        "machine": records.machine,
        "prose": numbers.prose,
        "verdict": records.verdict,
    }
    found.tests["paper_number"] = records.paper_number
    found.globals |= {
        **{name: getattr(numbers, name) for name in ("MISSING", "bound", "number")},
        **{
            name: getattr(records, name)
            for name in (
                "code", "command", "command_of", "grouped", "losses", "machine", "margin",
                "paper_number", "sizes", "spread_of", "telling", "unsteady", "verdict", "versions",
            )
        },
        "is_numeric": is_numeric,
        "multiples": multiples,
        "picture": picture,
        "scale": Scale.over,
    }  # fmt: skip
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
    return template.render(records=shown, style=style, mixed_sources=len(sources) > 1)


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
    """What a template prints of a value."""
    if value is None:
        return ""
    return numbers.clean(value) if type(value) is str else value


def anchor(name: str) -> str:
    """A name as the target of a link."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-") or "unnamed"


def is_numeric(values: Iterable[object]) -> bool:
    """Whether at least half of the given values are numbers."""
    given = [value for value in values if value is not None]
    return sum(isinstance(v, int | float) for v in given) * 2 >= len(given)


def picture(record: Record, path: str) -> dict[str, Any]:
    """A picture for the page: its ``file`` name, ``kind``, ``source`` and ``caption``."""
    file = Path(record.get("folder", ".")) / path
    kind = _PICTURES.get(file.suffix.lower())
    words, name = (re.sub(r"[-_]+", " ", text).strip() for text in (file.stem, record["name"]))
    caption = record["title"] if words == name else f"{record['title']}: {words}"
    source = None
    if kind is not None and file.is_file():
        # Not a text to be cleaned: base64 may look like a path.
        content = base64.b64encode(file.read_bytes()).decode()
        source = Markup(f"data:{kind};base64,{content}")
    return {"file": file.name, "kind": kind, "source": source, "caption": caption}


@dataclass(frozen=True)
class Scale:
    """A logarithmic axis from ``low`` to ``high``; places on it are percentages of its width."""

    low: float
    high: float

    @classmethod
    def over(cls, values: Iterable[float | None], ratios: bool = True) -> Scale:
        """An axis for all values that have a logarithm (for ratios also 1), at least a factor 4."""
        drawn = [v for v in values if v is not None and 0 < v < math.inf]
        drawn += [1.0] if ratios or not drawn else []
        low, high = min(drawn), max(drawn)
        room = max(1.15, math.sqrt(4 / (high / low)))
        return cls(low / room, high * room)

    def place(self, value: float) -> float:
        """Per cent from the left; values outside of the axis are at its ends."""
        inside = min(max(value, self.low), self.high)
        share = math.log(inside / self.low) / math.log(self.high / self.low)
        return round(_EDGE + (100 - 2 * _EDGE) * share, 2)

    def ticks(self) -> list[float]:
        """Round numbers on the axis, few enough to fit side by side on a phone."""
        first, last = math.floor(math.log10(self.low)), math.ceil(math.log10(self.high))
        step = math.ceil((last - first) / _MOST_TICKS)
        for parts, every in (((1, 2, 5), 1), ((1, 3), 1), ((1,), step)):
            powers = [e for e in range(first, last + 1) if e % every == 0]
            ticks = [part * 10.0**e for e in powers for part in parts]
            ticks = [tick for tick in ticks if self.low <= tick <= self.high]
            if len(ticks) <= _MOST_TICKS:
                break
        return ticks


def multiples(figure: Record) -> Record:
    """A figure and its spread as multiples of its bound, more is better: a figure of its own."""
    value, *ends = (
        records.margin({**figure, "value": value})
        for value in (figure["value"], *(records.spread_of(figure) or ()))
    )
    bound = None if figure["bound"] is None or math.isnan(value) else 1.0
    return {**figure, "value": value, "spread": sorted(ends) or None, "bound": bound,
            "at_most": False}  # fmt: skip
