"""The figures as a short Markdown table, and its place in the documentation."""

from __future__ import annotations

import re
from pathlib import Path

from benchmarks.harness.records import Record
from benchmarks.harness.text import clean, date
from benchmarks.report.page import environment
from benchmarks.report.records import chosen, code, command, machine, sizes, telling, versions

BEGIN = "<!-- benchmarks: begin -->"
END = "<!-- benchmarks: end -->"

_MOST_LINES = 60
_MOST_FIGURES = 8  # of one benchmark
_PACKAGES = ("pyspark", "pyarrow", "duckdb", "polars")


def update(records: list[Record], readme: Path, check: bool = False) -> bool:
    """Put the summary between the markers of a page.

    Args:
        records: of benchmarks; full ones take precedence over quick ones.
        readme: has the two markers, each once, in this order.
        check: write nothing.

    Returns:
        Whether the page was up to date already; then nothing is written.

    Raises:
        ValueError: without records, or if the markers are not right.
    """
    text = readme.read_text("utf-8")
    for marker in (BEGIN, END):
        if (times := text.count(marker)) != 1:
            raise ValueError(
                f"{readme.name} has {times or 'no'} {marker!r}, and needs one: put the two lines "
                f"{BEGIN!r} and {END!r} around the place of the figures, and run this again"
            )
    before, _, rest = text.partition(BEGIN)
    found, end, after = rest.partition(END)
    if not end:
        raise ValueError(
            f"{readme.name} has {END!r} before {BEGIN!r}: exchange the two, and run this again"
        )
    wanted = f"\n\n{summary(records)}\n\n"
    if found == wanted:
        return True
    if not check:
        readme.write_text(f"{before}{BEGIN}{wanted}{END}{after}", "utf-8")
    return False


def summary(records: list[Record]) -> str:
    """The figures in Markdown, at most about 60 lines.

    If there are more figures, the most telling ones of each benchmark stay: all missed ones,
    then those with a bound.

    Raises:
        ValueError: without records.
    """
    shown = chosen(records)
    if not shown:
        raise ValueError(f"there are no results to summarise: run `{command([])}` first")
    days = sorted(date(record.when, clock=False) for record in shown)
    used = versions(shown)
    facts = [
        " and ".join(dict.fromkeys(map(machine, shown))),
        ", ".join(f"{package} {used[package]}" for package in _PACKAGES if package in used),
        ", ".join(dict.fromkeys(f"commit {code(one)}" for one in shown if code(one))),
    ]
    size = {"full": "", "quick": "; **quick, with small sizes**"}
    verdicts = [figure.verdict for record in shown for figure in record.figures]
    counts = [f"{verdicts.count('reached')} reached", f"{verdicts.count('missed')} missed"]
    counts.append(f"{verdicts.count('no bound')} without a bound")
    if failed := sum(bool(record.error) for record in shown):
        counts.append(f"{failed} benchmark{'s' if failed > 1 else ''} failed")
    jinja = environment()
    jinja.filters["md"] = _escaped
    for most in range(_MOST_FIGURES, 0, -1):
        count = sum(len(telling(record, most)) for record in shown)
        text = jinja.get_template("summary.md").render(
            records=shown,
            days=" to ".join(dict.fromkeys((days[0], days[-1]))),
            size=size.get(sizes(shown), f"; {sizes(shown)} (marked)"),
            mixed=len({record.quick for record in shown}) > 1,
            facts="; ".join(filter(None, facts)),
            most=most,
            part=f"The {count} most telling of {len(verdicts)} figures. " * (count < len(verdicts)),
            counts=", ".join(counts),
        )
        lines = [line.rstrip() for line in text.strip().splitlines()]
        if len(lines) <= _MOST_LINES:
            break
    return "\n".join(lines)


def _escaped(text: str) -> str:
    """Text without Markdown, on one line, for a cell."""
    text = re.sub(r"([\\|`\[\]~*])", r"\\\1", " ".join(clean(text).split()))
    return text.replace("&", "&amp;").replace("<", "&lt;")
