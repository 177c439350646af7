"""One HTML page from the records: pictures inside, no script, no network, light and dark.

The template escapes everything; :func:`benchmarks.harness.text.clean` is applied to every text.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from benchmarks.harness import text
from benchmarks.harness.records import Record, folder
from benchmarks.report import records

_TEMPLATES = Path(__file__).with_name("templates")


def environment(**options: Any) -> Environment:
    """Jinja2 with the functions of the report; missing fields of records are errors."""
    found = Environment(
        loader=FileSystemLoader(_TEMPLATES), undefined=StrictUndefined, trim_blocks=True,
        lstrip_blocks=True, **options,
    )  # fmt: skip
    known = {**vars(text), **vars(records), "anchor": anchor}
    found.filters |= {name: value for name, value in known.items() if callable(value)}
    found.globals |= known
    return found


def write(listed: Sequence[Record], file: Path, out: Path) -> Path:
    """Write the report; ``out`` has the folders of the pictures."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(page(listed, out), "utf-8")
    return file


def page(listed: Sequence[Record], out: Path = Path()) -> str:
    """The report as text; the same for the same records."""
    shown = records.chosen(listed)
    template = environment(autoescape=True, finalize=_finalize).get_template("page.html")
    return template.render(
        records=shown,
        style=Markup((_TEMPLATES / "style.css").read_text("utf-8")),
        mixed=len({one.quick for one in shown}) > 1,
        mixed_sources=len({(records.machine(one), records.code(one)) for one in shown}) > 1,
        picture=partial(picture, out),
    )


def _finalize(value: Any) -> Any:
    """What the template prints of a value."""
    if value is None:
        return ""
    return text.clean(value) if type(value) is str else value


def anchor(name: str) -> str:
    """A name as the target of a link."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-") or "unnamed"


def picture(out: Path, record: Record, path: str) -> dict[str, Any]:
    """A picture, an SVG file, for the page: its ``file`` name, ``source`` and ``caption``."""
    file, source = folder(out, record.quick) / path, None
    if file.is_file():
        # Not a text to be cleaned: base64 may look like a path.
        content = base64.b64encode(file.read_bytes()).decode()
        source = Markup(f"data:image/svg+xml;base64,{content}")
    return {"file": file.name, "source": source, "caption": record.title}
