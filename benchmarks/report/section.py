"""The parts of the report: a benchmark's section, tables of figures, tables of data, pictures."""

from __future__ import annotations

import base64
import re
from collections.abc import Sequence
from pathlib import Path

from benchmarks.report.charts import Scale, axis, interval
from benchmarks.report.digits import MISSING, column, date, duration, number
from benchmarks.report.digits import bound as bound_text
from benchmarks.report.digits import spread as spread_text
from benchmarks.report.markup import Child, Markup, prose, tag
from benchmarks.report.verdicts import (
    Record,
    code,
    from_paper,
    machine,
    spread_of,
    unsteady,
    verdict,
)

__all__ = [
    "anchor",
    "cell",
    "command_of",
    "data_table",
    "figure_name",
    "figures_table",
    "section",
    "table_anchor",
    "verdict_cell",
]

_KINDS = {".png": "image/png", ".svg": "image/svg+xml", ".jpg": "image/jpeg"}
_SIMULATED = tag("span", "simulated", class_="simulated", title="from a simulator, not from a run")


def anchor(name: str) -> str:
    """A name as the target of a link."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-") or "unnamed"


def table_anchor(record: Record, table: Record) -> str:
    """Where a table stands."""
    return f"{anchor(record['name'])}-{anchor(table['title'])}"


def section(record: Record, apart: bool = False) -> Markup:
    """All of one benchmark.

    Args:
        record: with its ``folder``, if it has pictures.
        apart: whether it comes from another machine or commit than the others, and says so.
    """
    name = record["name"]
    figures = record.get("figures", ())
    numbered = [table for table in record.get("tables", ()) if from_paper(table)]
    others = [table for table in record.get("tables", ()) if not from_paper(table)]
    quick = tag("span", "quick", class_="quick") if record.get("quick") else None
    parts: list[Child] = [tag("h3", prose(record["title"]), " ", tag("code", name), " ", quick)]
    if record.get("about"):
        parts.append(tag("p", prose(record["about"])))
    if record.get("error"):
        parts.append(_error(record))
    if figures:
        units = dict.fromkeys(figure.get("unit") or "" for figure in figures)
        parts += [_figures(record, unit) for unit in units]
    elif not record.get("error") and not record.get("tables"):
        parts.append(tag("p", "No figures."))
    if numbered:
        links = [
            (", " if place else "", tag("a", prose(t["title"]), href=f"#{table_anchor(record, t)}"))
            for place, t in enumerate(numbered)
        ]
        parts.append(tag("p", "Beside the papers: ", links, "."))
    parts += [data_table(table, table_anchor(record, table)) for table in others]
    pictures = record.get("pictures", ())
    parts += [
        _picture(record, picture, place, len(pictures)) for place, picture in enumerate(pictures)
    ]
    parts.append(_foot(record, apart))
    return tag("section", parts, id=anchor(name), class_="benchmark")


def _figures(record: Record, unit: str) -> Markup:
    """The figures of one unit on one axis; ratios have none."""
    figures = [figure for figure in record["figures"] if (figure.get("unit") or "") == unit]
    values = [figure["value"] for figure in figures]
    values += [f["bound"] for f in figures if f.get("bound") is not None]
    values += [end for f in figures for end in spread_of(f) or ()]
    scale = Scale.over(values, ratios=not unit)
    rows = [
        tag(
            "tr",
            figure_name(figure),
            tag("td", interval(figure, scale), class_="plot", role="cell"),
            cell("is", figure),
            cell("to be", figure),
            cell("spread", figure),
            verdict_cell(figure),
            role="row",
        )
        for figure in figures
    ]
    heads = ("is", "to be", "spread", "verdict")
    caption = f"Figures of {record['name']}, {unit or 'ratios'}"
    return figures_table([(Markup(""), rows)], scale, unit or "ratio", heads, caption)


def figures_table(
    groups: Sequence[tuple[Markup, Sequence[Markup]]],
    scale: Scale | None,
    says: str,
    heads: Sequence[str],
    caption: str,
) -> Markup:
    """A table of figures: names, charts if there is a scale, and numbers.

    Args:
        groups: rows under a head; an empty head shows none.
        scale: the axis of the charts.
        says: what the axis counts.
        heads: of the columns right of the chart.
        caption: for those who do not see it.
    """
    columns = [tag("th", "figure", scope="col", role="columnheader")]
    if scale is not None:
        kinds = {"scope": "col", "role": "columnheader", "class_": "plot"}
        columns.append(tag("th", tag("small", says), axis(scale, f"{says}, log axis"), **kinds))
    columns += [
        tag("th", head, scope="col", role="columnheader", class_=_side(head)) for head in heads
    ]
    bodies = []
    for head, rows in groups:
        over = tag("th", head, colspan=len(columns), scope="rowgroup", role="rowheader")
        first = tag("tr", over, class_="group", role="row") if head else None
        bodies.append(tag("tbody", first, rows, role="rowgroup"))
    top = tag("thead", tag("tr", columns, role="row"), role="rowgroup")
    return tag("table", tag("caption", caption), top, bodies, class_="figures", role="table")


def _side(head: str) -> str:
    sides = {"verdict": "verdict", "how far": "verdict", "the paper says": "text"}
    return sides.get(head, "number")


def figure_name(figure: Record, link: Markup | None = None) -> Markup:
    """A figure's name, whether it is simulated, and what the paper says."""
    simulated = (" ", _SIMULATED) if figure.get("simulated") else None
    paper = prose(f"paper: {figure['paper']}") if figure.get("paper") else None
    between = " · " if link and paper else None
    under = tag("small", link, between, paper) if link or paper else None
    return tag("th", prose(figure["name"]), simulated, under, scope="row", role="rowheader")


def cell(head: str, figure: Record) -> Markup:
    """The number of a figure that belongs under a head."""
    bound = figure.get("bound")
    if head == "is":
        shown: Child = (tag("b", number(figure["value"], apart_from=bound)), _unit(figure))
    elif head == "to be":
        shown = MISSING if bound is None else bound_text(bound, bool(figure.get("at_most")))
    else:
        shown = spread_text(spread_of(figure))
    kind = "number none" if shown == MISSING else "number"
    return tag("td", shown, class_=kind, role="cell", data_head=head)


def _unit(figure: Record) -> str | None:
    return f" {figure['unit']}" if figure.get("unit") else None


def verdict_cell(figure: Record) -> Markup:
    """Reached or missed, as a word and a sign; and whether the rounds agree."""
    said = verdict(figure)
    sign = {"reached": "✓ ", "missed": "✗ "}.get(said, "")
    other = "not in every round" if said == "reached" else "some rounds reach it"
    aside = tag("small", other) if unsteady(figure) else None
    shown = tag("span", sign + said, class_=said.replace(" ", "-"))
    return tag("td", shown, aside, class_="verdict", role="cell")


def data_table(table: Record, target: str, link: Markup | None = None) -> Markup:
    """Numbers side by side; it scrolls by itself where it is wider than the page."""
    columns, rows = table["columns"], table["rows"]
    shown = [column([row[i] for row in rows]) for i in range(len(columns))]
    right = [_is_numeric([row[i] for row in rows]) for i in range(len(columns))]
    heads = [
        tag("th", prose(head), scope="col", class_="number" if right[i] else "text")
        for i, head in enumerate(columns)
    ]
    body = []
    for y in range(len(rows)):
        cells = []
        for x in range(len(columns)):
            kind = "number" if right[x] else "text"
            first = {"scope": "row"} if x == 0 else {}
            cells.append(tag("td" if x else "th", prose(shown[x][y]), class_=kind, **first))
        body.append(tag("tr", cells))
    title = tag("h4", prose(table["title"]), (" ", tag("small", link)) if link else None)
    caption = tag("caption", table["title"])
    whole = tag("table", caption, tag("thead", tag("tr", heads)), tag("tbody", body), class_="data")
    wide = tag("div", whole, class_="wide", role="region", tabindex="0", aria_label=table["title"])
    note = tag("p", prose(table["note"]), class_="note") if table.get("note") else None
    return tag("div", title, wide, note, id=target, class_="table")


def _is_numeric(values: Sequence[object]) -> bool:
    given = [value for value in values if value is not None]
    return sum(isinstance(v, int | float) for v in given) * 2 >= len(given)


def _picture(record: Record, path: str, place: int, of: int) -> Markup:
    """A picture inside the page, or a word on what became of it."""
    file = Path(record.get("folder", ".")) / path
    named = _words(file.stem)
    caption = record["title"] if named == _words(record["name"]) else f"{record['title']}: {named}"
    caption += f" ({place + 1} of {of})" if of > 1 else ""
    kind = _KINDS.get(file.suffix.lower())
    if kind is None:
        return tag("p", f"The picture {file.name} is neither PNG, SVG nor JPEG.", class_="error")
    try:
        content = base64.b64encode(file.read_bytes()).decode()
    except OSError:
        missing = f"The picture {file.name} is not there any more; run "
        return tag("p", missing, tag("code", command_of(record)), " again.", class_="error")
    picture = tag("img", src=Markup(f"data:{kind};base64,{content}"), alt=caption)
    return tag("figure", picture, tag("figcaption", caption))


def _words(name: str) -> str:
    return re.sub(r"[-_]+", " ", name).strip()


def _error(record: Record) -> Markup:
    text = str(record["error"]).strip() or "no message"
    lines = text.splitlines()
    last = tag("p", tag("b", "✗ Failed: "), lines[-1])
    whole = tag("details", tag("summary", "all of it"), tag("pre", text)) if lines[1:] else None
    return tag("div", last, whole, class_="error")


def command_of(record: Record) -> str:
    """What runs this benchmark alone."""
    size = "--quick" if record.get("quick") else "--full"
    return record.get("command") or f"python -m benchmarks run {record['name']} {size}"


def _foot(record: Record, apart: bool) -> Markup:
    parts: list[Child] = ["Alone: ", tag("code", command_of(record))]
    if record.get("seconds") is not None:
        parts.append(f" · took {duration(record['seconds'])}")
    if record.get("when"):
        parts.append(f" · {date(record['when'])}")
    if record.get("seed") is not None:
        parts.append(f" · seed {record['seed']}")
    if apart:
        parts.append(f" · commit {code(record) or 'unknown'} · {machine(record)}")
    return tag("p", parts, class_="foot")
