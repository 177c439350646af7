"""One HTML page from the records: pictures inside, no script, no network, light and dark."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from benchmarks.report.charts import Scale, legend, multiple, multiples
from benchmarks.report.digits import date, duration
from benchmarks.report.markup import Markup, prose, tag
from benchmarks.report.section import (
    anchor,
    data_table,
    figure_name,
    figures_table,
    section,
    table_anchor,
    verdict_cell,
)
from benchmarks.report.section import cell as number_cell
from benchmarks.report.verdicts import (
    GROUPS,
    Record,
    chosen,
    code,
    command,
    from_paper,
    grouped,
    kind,
    losses,
    machine,
    margin,
    telling,
    unsteady,
    verdict,
    versions,
)

__all__ = ["page", "write"]

_STYLE = Path(__file__).with_name("style.css")
_TELLING = 3
# Nothing may be fetched, whatever a record says: the browser itself holds the page to it.
_POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'"

_SMALL = " (small sizes, in one Spark session one after the other; full sizes have a process each)"


def write(records: list[Record], file: Path) -> Path:
    """Write the report.

    Args:
        records: of benchmarks, in the order to show them inside a group, each with the ``folder``
            that its pictures are relative to. Of several records of a benchmark the full one, then
            the latest, is taken.
        file: where to; its folder is made if need be.

    Returns:
        The file.
    """
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(page(records), "utf-8")
    return file


def page(records: list[Record]) -> str:
    """The report as text; the same for the same records."""
    records = chosen(records)
    mixed = len({bool(record.get("quick")) for record in records}) > 1
    records = [{**r, "among": mixed and r.get("quick")} for r in records]
    parts = [_head(records)]
    if records:
        parts += [_glance(records), _lost(records), _beside(records)]
        apart = len({(machine(record), code(record)) for record in records}) > 1
        for group, of_group in grouped(records):
            heading = tag("h2", GROUPS.get(group, group.capitalize()), id=f"group-{anchor(group)}")
            parts += [heading, *(section(record, apart) for record in of_group)]
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=_POLICY),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("title", "bsjoin: benchmarks"),
        tag("style", Markup(_STYLE.read_text("utf-8"))),
    )
    body = tag("body", _navigation(records), tag("main", parts, id="top"))
    return "<!DOCTYPE html>\n" + tag("html", head, body, lang="en") + "\n"


def _navigation(records: Sequence[Record]) -> Markup:
    """Links to everything; on a phone to the parts only, for the tables link to the rest."""
    if not records:
        return Markup("")
    links = [_link("top", "Benchmarks"), _link("at-a-glance", "At a glance")]
    links.append(_link("where-we-lose", "Where we lose"))
    links.append(_link("beside-the-papers", "Beside the papers"))
    for group, of_group in grouped(records):
        links.append(_link(f"group-{anchor(group)}", GROUPS.get(group, group.capitalize())))
        links += [_link(anchor(r["name"]), r["name"], _sign(r)) for r in of_group]
    return tag("nav", tag("ul", links), aria_label="Contents")


def _link(to: str, text: str, sign: Markup | None = None) -> Markup:
    kind = "deep" if sign is not None else None
    return tag("li", tag("a", text, sign, href=f"#{to}"), class_=kind)


def _sign(record: Record) -> Markup:
    if record.get("error"):
        return tag("span", " failed", class_="missed")
    missed = sum(verdict(figure) == "missed" for figure in record.get("figures", ()))
    return tag("span", f" {missed} missed", class_="missed") if missed else Markup("")


def _head(records: Sequence[Record]) -> Markup:
    title = tag("h1", "bsjoin: benchmarks")
    again = tag("code", command(records))
    if not records:
        text = ("Nothing has been measured yet. ", again, " measures, and makes this page.")
        return tag("header", title, tag("p", text, class_="lead"))
    times = sorted(record["when"] for record in records if record.get("when"))
    days = [date(times[0]), date(times[-1])] if times else ["no date"]
    facts = [
        ("Measured", " to ".join(dict.fromkeys(days))),
        ("Sizes", kind(records) + (_SMALL if "quick" in kind(records) else "")),
        *(("Machine", text) for text in dict.fromkeys(map(machine, records))),
        ("Versions", ", ".join(f"{p} {'/'.join(v)}" for p, v in versions(records).items())),
        ("Commit", ", ".join(dict.fromkeys(filter(None, map(code, records))))),
    ]
    listed = [(tag("dt", name), tag("dd", text)) for name, text in facts if text]
    listed.append((tag("dt", "Again"), tag("dd", again, ", then ", tag("code", _REPORT))))
    lead = (
        "Both sides of every ratio were measured in one run, in turns, after a check that their "
        "results are equal. A ratio is of medians; its spread is from the smallest to the largest "
        "round."
    )
    parts = (title, tag("p", lead, class_="lead"), _tiles(records), tag("dl", listed))
    return tag("header", parts)


_REPORT = "python -m benchmarks report"


def _tiles(records: Sequence[Record]) -> Markup:
    """How it stands, in numbers."""
    verdicts = [verdict(figure) for r in records for figure in r.get("figures", ())]
    failed = sum(bool(record.get("error")) for record in records)
    took = sum(record.get("seconds") or 0 for record in records)
    tiles: list[tuple[str, str, str | None]] = [
        (str(verdicts.count("reached")), "reached", "reached"),
        (str(verdicts.count("missed")), "missed", "missed" if "missed" in verdicts else None),
        (str(verdicts.count("no bound")), "without a bound", None),
        (str(len(records)), "benchmark" if len(records) == 1 else "benchmarks", None),
        (duration(took), "to measure", None),
    ]
    if failed:
        tiles.insert(2, (str(failed), "failed", "missed"))
    shown = [
        tag("li", tag("b", count, class_=of), " ", tag("span", text)) for count, text, of in tiles
    ]
    return tag("ul", shown, class_="tiles")


def _glance(records: Sequence[Record]) -> Markup:
    """The most telling figures of all benchmarks, on one axis of multiples of their bounds."""
    picked = {r["name"]: telling(r.get("figures", ()), _TELLING) for r in records}
    bounded = [f for figures in picked.values() for f in figures if f.get("bound") is not None]
    scale = Scale.over(times for figure in bounded for times in multiples(figure))
    rows: list[tuple[Markup, list[Markup]]] = []
    for group, of_group in grouped(records):
        inside: list[Markup] = []
        for record in of_group:
            inside += [
                _glance_row(record, figure, multiple(figure, scale))
                for figure in picked[record["name"]]
            ]
            if record.get("error"):
                inside.append(_failed_row(record))
        rows.append((prose(GROUPS.get(group, group.capitalize())), inside))
    note = (
        "The most telling figures of each benchmark, the missed ones among them. The chart says "
        "how many times better than its bound a figure is; in the sections below, what it is."
    )
    heads = ("is", "to be", "spread", "verdict")
    table = figures_table(rows, scale, "times the bound", heads, "At a glance")
    key = legend(any(f.get("simulated") for figures in picked.values() for f in figures))
    return tag("section", tag("h2", "At a glance"), tag("p", note), key, table, id="at-a-glance")


def _glance_row(record: Record, figure: Record, chart: Markup) -> Markup:
    return tag(
        "tr",
        figure_name(figure, _to(record)),
        tag("td", chart, class_="plot", role="cell"),
        number_cell("is", figure),
        number_cell("to be", figure),
        number_cell("spread", figure),
        verdict_cell(figure),
        role="row",
    )


def _failed_row(record: Record) -> Markup:
    last = str(record["error"]).strip().splitlines() or ["no message"]
    return tag(
        "tr",
        tag("th", prose(record["title"]), tag("small", _to(record)), scope="row", role="rowheader"),
        tag("td", last[-1], colspan="4", class_="error", role="cell"),
        tag("td", tag("span", "failed", class_="missed"), class_="verdict", role="cell"),
        role="row",
    )


def _to(record: Record) -> Markup:
    link = tag("a", record["name"], href=f"#{anchor(record['name'])}")
    return Markup(f"{link} {tag('span', 'quick', class_='quick')}") if record["among"] else link


def _lost(records: Sequence[Record]) -> Markup:
    """Missed figures, and rivals that are faster, without excuse."""
    rows = [
        tag(
            "tr",
            figure_name(figure, _to(record)),
            number_cell("is", figure),
            number_cell("to be", figure),
            number_cell("spread", figure),
            _how_far(figure),
            role="row",
        )
        for record, figure in losses(records)
    ]
    heads = ("is", "to be", "spread", "how far")
    if rows:
        note = (
            "What is missed, the furthest first; then what is below 1 where more is better, though "
            "no more was promised."
        )
        body = figures_table([(Markup(""), rows)], None, "", heads, "Where we lose")
    else:
        note, body = "No figure is missed, and no rival is faster.", Markup("")
    failed = [r for r in records if r.get("error")]
    text = [tag("p", note), body]
    if failed:
        links = [(", " if place else "", _to(record)) for place, record in enumerate(failed)]
        text.append(tag("p", "Failed, and so not compared at all: ", links, "."))
    return tag("section", tag("h2", "Where we lose"), text, id="where-we-lose")


def _how_far(figure: Record) -> Markup:
    if verdict(figure) == "missed":
        said = f"{_per_cent(margin(figure))} of the way"
        aside = tag("small", "some rounds reach it") if unsteady(figure) else None
        return tag("td", tag("span", said, class_="missed"), aside, class_="verdict", role="cell")
    said = "reached its bound" if figure.get("bound") is not None else "nothing promised"
    return tag("td", f"below 1, {said}", class_="verdict", role="cell")


def _per_cent(share: float) -> str:
    return f"{share:.0%}" if share < 0.995 else f"{share:.1%}"


def _beside(records: Sequence[Record]) -> Markup:
    """Every figure with a paper's claim, and every table that has a paper's number."""
    rows = [
        tag(
            "tr",
            figure_name({**figure, "paper": ""}, _to(record)),
            tag("td", prose(str(figure["paper"])), class_="text", role="cell"),
            number_cell("is", figure),
            number_cell("to be", figure),
            number_cell("spread", figure),
            verdict_cell(figure),
            role="row",
        )
        for record in records
        for figure in record.get("figures", ())
        if figure.get("paper")
    ]
    numbered = [
        (key, record, table)
        for record in records
        for table in record.get("tables", ())
        if (key := from_paper(table)) is not None
    ]
    shown: list[Markup] = []
    if rows:
        heads = ("the paper says", "is", "to be", "spread", "verdict")
        body = [(Markup(""), rows)]
        shown.append(figures_table(body, None, "", heads, "Beside the papers' claims"))
    shown += [
        data_table(table, table_anchor(record, table), _to(record))
        for _, record, table in sorted(numbered, key=lambda found: found[0])
    ]
    if not shown:
        shown = [tag("p", "No figure of these benchmarks stands beside a paper's.")]
    return tag("section", tag("h2", "Beside the papers"), shown, id="beside-the-papers")
