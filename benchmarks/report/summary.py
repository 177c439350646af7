"""The figures as a short Markdown table, and its place in the README."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from benchmarks.report.digits import bound, date, number, spread
from benchmarks.report.markup import clean
from benchmarks.report.verdicts import (
    GROUPS,
    Record,
    chosen,
    code,
    command,
    grouped,
    kind,
    machine,
    spread_of,
    telling,
    verdict,
    versions,
)

__all__ = ["BEGIN", "END", "summary", "update"]

BEGIN = "<!-- benchmarks: begin -->"
END = "<!-- benchmarks: end -->"

_MOST_LINES = 60
_MOST_FIGURES = 8  # of one benchmark
_PACKAGES = ("pyspark", "pyarrow", "duckdb", "polars")


def update(records: list[Record], readme: Path, check: bool = False) -> bool:
    """Put the summary between the markers of a README.

    Args:
        records: of benchmarks; full ones are taken before quick ones.
        readme: with the two markers, each once, in this order.
        check: only tell, write nothing.

    Returns:
        Whether the README was up to date already; then nothing is written.

    Raises:
        ValueError: without records, or when the markers are not there as they must be.
    """
    before, found, after = _split(readme.read_text("utf-8"), readme.name)
    wanted = f"\n\n{summary(records)}\n\n"
    if found == wanted:
        return True
    if not check:
        readme.write_text(f"{before}{BEGIN}{wanted}{END}{after}", "utf-8")
    return False


def _split(text: str, name: str) -> tuple[str, str, str]:
    for marker in (BEGIN, END):
        if (times := text.count(marker)) != 1:
            raise ValueError(
                f"{name} has {times or 'no'} {marker!r}, and needs one: put the two lines "
                f"{BEGIN!r} and {END!r} where the figures are to stand, and run this again"
            )
    before, _, rest = text.partition(BEGIN)
    if END not in rest:
        raise ValueError(
            f"{name} has {END!r} before {BEGIN!r}: put them the other way round, and run this again"
        )
    found, _, after = rest.partition(END)
    return before, found, after


def summary(records: list[Record]) -> str:
    """The figures in Markdown, at most about 60 lines.

    Where there are more figures, the most telling ones of each benchmark stay: all that are
    missed, however many, then those with a bound.

    Raises:
        ValueError: without records.
    """
    records = chosen(records)
    if not records:
        raise ValueError(f"there are no results to sum up: run `{command([])}` first")
    lines: list[str] = []
    for most in range(_MOST_FIGURES, 0, -1):
        lines = [*_head(records), "", *_table(records, most), "", *_foot(records, most)]
        if len(lines) <= _MOST_LINES:
            break
    return "\n".join(lines)


def _head(records: Sequence[Record]) -> list[str]:
    days = sorted({date(r["when"], clock=False) for r in records if r.get("when")})
    when = " to ".join(dict.fromkeys((days[0], days[-1]))) if days else "an unknown day"
    size = {"full": "", "quick": "; **quick, with small sizes**"}.get(kind(records))
    used = versions(records)
    packages = [f"{package} {'/'.join(used[package])}" for package in _PACKAGES if package in used]
    facts = [
        " and ".join(dict.fromkeys(map(machine, records))),
        ", ".join(packages),
        ", ".join(dict.fromkeys(f"commit {code(r)}" for r in records if code(r))),
    ]
    size = f"; {kind(records)} (marked)" if size is None else size
    return [f"Measured on {when}{size}: {_escaped('; '.join(filter(None, facts)))}."]


def _table(records: Sequence[Record], most: int) -> list[str]:
    lines = ["| figure | is | to be | spread | paper |", "| --- | ---: | ---: | ---: | --- |"]
    mixed = len({bool(record.get("quick")) for record in records}) > 1
    for group, of_group in grouped(records):
        lines.append(f"| **{_escaped(GROUPS.get(group, group.capitalize()))}** | | | | |")
        for record in of_group:
            name = f"`{record['name']}`"
            if mixed and record.get("quick"):
                name += " (quick)"
            if record.get("error"):
                lines.append(f"| {name} | **failed** | | | |")
            lines += [_row(name, figure) for figure in telling(record.get("figures", ()), most)]
    return lines


def _row(name: str, figure: Record) -> str:
    value = number(figure["value"], apart_from=figure.get("bound"))
    value += f" {_escaped(figure['unit'])}" if figure.get("unit") else ""
    if verdict(figure) == "missed":
        value = f"**missed** {value}"
    ends = spread_of(figure)
    at_most, limit = bool(figure.get("at_most")), figure.get("bound")
    simulated = " (simulated)" if figure.get("simulated") else ""
    cells = [
        f"{name} {_escaped(figure['name'])}{simulated}",
        value,
        "" if limit is None else bound(limit, at_most),
        "" if ends is None else spread(ends),
        _escaped(figure.get("paper") or ""),
    ]
    return f"| {' | '.join(cells)} |"


def _foot(records: Sequence[Record], most: int) -> list[str]:
    figures = [figure for record in records for figure in record.get("figures", ())]
    verdicts = [verdict(figure) for figure in figures]
    shown = sum(len(telling(record.get("figures", ()), most)) for record in records)
    part = f"The {shown} most telling of {len(figures)} figures. " if shown < len(figures) else ""
    counts = [f"{verdicts.count('reached')} reached", f"{verdicts.count('missed')} missed"]
    counts.append(f"{verdicts.count('no bound')} without a bound")
    if failed := sum(bool(record.get("error")) for record in records):
        counts.append(f"{failed} benchmark{'s' if failed > 1 else ''} failed")
    return [
        f"{part}{', '.join(counts)}. `{command(records)}` measures again,",
        "`python -m benchmarks report` makes a page of everything, "
        "`python -m benchmarks summary` writes this.",
    ]


def _escaped(text: str) -> str:
    """Text that Markdown leaves alone, on one line, in a cell."""
    text = " ".join(clean(text).split())
    for sign in ("\\", "|", "`", "[", "]", "~"):
        text = text.replace(sign, f"\\{sign}")
    return text.replace("&", "&amp;").replace("<", "&lt;").replace("*", "\\*")
