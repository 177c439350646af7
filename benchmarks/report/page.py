"""One HTML page from the records: pictures inside, no script, no network, light and dark.

The template escapes everything; :func:`benchmarks.harness.text.clean` is applied to every text.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from benchmarks.harness import text
from benchmarks.harness.outcome import Figure
from benchmarks.harness.records import Record, folder, size_of

GROUPS = {
    "engine": "The join engine",
    "paper": "The paper's experiments",
    "scheduling": "Scheduling",
}


def chosen(records: Sequence[Record]) -> list[Record]:
    """One record per benchmark: full before quick, then the latest; in the order of the report."""
    ranked = sorted(records, key=lambda one: (not one.quick, one.when))
    best = {one.name: one for one in ranked}  # the last of a name
    listed = [best[name] for name in dict.fromkeys(one.name for one in records)]
    return [record for _, of_group in grouped(listed) for record in of_group]


def grouped(records: Iterable[Record]) -> list[tuple[str, list[Record]]]:
    """The records by the title of their group, in the order of the report."""
    by_group: dict[str, list[Record]] = {title: [] for title in GROUPS.values()}
    for record in records:
        by_group.setdefault(GROUPS.get(record.group, record.group.capitalize()), []).append(record)
    return [(group, found) for group, found in by_group.items() if found]


def losses(records: Iterable[Record]) -> list[tuple[Record, Figure]]:
    """Every missed figure, and every ratio below 1 where more is better, with its record.

    Missed ones come first, the farthest from their bounds before the others.
    """
    found = [
        (record, figure)
        for record in records
        for figure in record.figures
        if not figure.reached or not (figure.at_most or figure.unit or figure.value >= 1)
    ]
    return sorted(
        found, key=lambda one: (one[1].reached, one[1].value if one[1].reached else one[1].margin)
    )


def sizes(records: Sequence[Record]) -> str:
    """``quick``, ``full``, or how many are which."""
    quick = sum(record.quick for record in records)
    if quick in (0, len(records)):
        return size_of(quick > 0)
    return f"{len(records) - quick} full, {quick} quick"


def command(records: Sequence[Record]) -> str:
    """The command that measures all of these again."""
    return f"python -m benchmarks all --{'quick' if sizes(records) == 'quick' else 'full'}"


def code(record: Record) -> str:
    """The short commit, and whether there were changes on top; empty if unknown."""
    commit = record.commit or ""
    return commit[:12] + " with changes" * ("+" in commit)


def machine(record: Record) -> str:
    """The machine in a line: processor, cores, memory, Python, Java."""
    has = record.machine
    parts = [has["cpu"] or has["machine"], f"{has['cores']} cores", f"{has['memory_gb']:.0f} GB"]
    parts += [f"{name.capitalize()} {has[name]}" for name in ("python", "java") if has[name]]
    return ", ".join(parts)


def versions(records: Iterable[Record]) -> dict[str, str]:
    """The versions of every package, ``a/b`` where records differ."""
    pairs = sorted({pair for record in records for pair in record.versions.items()})
    return {name: "/".join(v for n, v in pairs if n == name) for name, _ in pairs}


_TEMPLATES = Path(__file__).with_name("templates")


def write(listed: Sequence[Record], file: Path, out: Path) -> Path:
    """Write the report; ``out`` has the folders of the pictures."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(page(listed, out), "utf-8")
    return file


def page(listed: Sequence[Record], out: Path = Path()) -> str:
    """The report as text; the same for the same records."""
    jinja = Environment(
        loader=FileSystemLoader(_TEMPLATES), undefined=StrictUndefined, trim_blocks=True,
        lstrip_blocks=True, autoescape=True, finalize=_finalize,
    )  # fmt: skip
    known = {**vars(text), **globals()}
    jinja.filters |= {name: value for name, value in known.items() if callable(value)}
    jinja.globals |= known
    shown = chosen(listed)
    return jinja.get_template("page.html").render(
        records=shown,
        style=Markup((_TEMPLATES / "style.css").read_text("utf-8")),
        mixed=len({one.quick for one in shown}) > 1,
        mixed_sources=len({(machine(one), code(one)) for one in shown}) > 1,
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
