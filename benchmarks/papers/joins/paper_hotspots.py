"""Figures 11 and 12 of the BS-Join paper: six TaskManagers under Zipf streams, by way of routing.

A simulation: see :mod:`benchmarks.papers.joins.hosts`; every cache has room for all keys.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from benchmarks.data.zipf import Shifting
from benchmarks.harness.outcome import Context, Figure, Outcome, Table
from benchmarks.papers.joins.hosts import HOSTS, LOOK_UP_US, ROW_US, Routed, simulate
from benchmarks.papers.joins.skews import EXPONENTS, HASH, PAPER
from benchmarks.papers.joins.skews import SPLIT as OURS

WAYS = (HASH, PAPER, OURS)

Found = dict[float, dict[str, Routed]]
"""By exponent and way."""


def run(context: Context) -> Outcome:
    """Figs. 11 and 12, and the paper's statements about them."""
    keys, rows = 10_000_000, 1_000_000
    count = context.pick(6, 12)
    found: Found = {}
    for z in EXPONENTS:
        stream = Shifting(keys, z, rows, seed=context.seed)
        cycles = [stream.cycle(index) for index in range(count)]
        found[z] = {way: simulate(way, cycles, keys) for way in WAYS}
        skews = "   ".join(f"{way} {one.settled:.3f}" for way, one in found[z].items())
        context.say(f"Zipf {z:g}, {HOSTS} TaskManagers: DS   {skews}")
    note = f"Simulated: {keys:,} keys, {count} cycles of {rows:,} rows, {HOSTS} TaskManagers. "
    by = {str(z): {way: vars(one) for way, one in ways.items()} for z, ways in found.items()}
    measured = {"keys": keys, "rows": rows, "by_exponent": by}
    return Outcome(figures(found), [statements(found, note)], measured=measured)


def figures(found: Found) -> list[Figure]:
    """The paper's statements about Figs. 11 and 12 as ratios."""
    low, high = min(found), max(found)
    hash_, paper, ours = (found[high][way] for way in WAYS)
    worst = max(by[OURS].settled for by in found.values())
    even = [share for by in found.values() for share in by[OURS].shares]
    rows: tuple[tuple[str, float, float | None, bool, str], ...] = (
        (f"DS by hash, Z {high:g} / Z {low:g}", hash_.settled / found[low][HASH].settled,
         1.0, False, "rises with the skew (Fig. 11a)"),
        ("DS with hot keys split, the largest of four exponents", worst,
         0.05, True, "stable and far below hash (Fig. 11a)"),
        (f"DS, hash / hot keys split, Z {high:g}", hash_.settled / ours.settled,
         1.0, False, "far below hash for each Z (Fig. 11a)"),
        (f"DS, hash / the paper's rule, Z {high:g}", hash_.settled / paper.settled,
         None, False, "far below hash for each Z (Fig. 11a)"),
        (f"cached rows, Z {high:g} / Z {low:g}, hot keys split",
         ours.cached[-1] / found[low][OURS].cached[-1],
         1.0, True, "falls obviously with the skew (Fig. 11b)"),
        (f"cached rows, hot keys split / hash, Z {high:g}", ours.cached[-1] / hash_.cached[-1],
         1.05, True, "relatively low (Fig. 11b)"),
        (f"throughput, hot keys split / hash, Z {high:g}", ours.throughput / hash_.throughput,
         1.0, False, "higher (Fig. 11c)"),
        (f"throughput, the paper's rule / hash, Z {high:g}", paper.throughput / hash_.throughput,
         None, False, "higher (Fig. 11c)"),
        (f"latency, hot keys split / hash, Z {high:g}", ours.latency_ms / hash_.latency_ms,
         1.0, True, "lower (Fig. 11d)"),
        ("share of a TaskManager, largest / smallest, hot keys split, any Z",
         max(even) / min(even), 1.1, True, "balanced for every Z (Fig. 12)"),
    )  # fmt: skip
    return [
        Figure(name, value, bound, at_most, paper=said, simulated=True)
        for name, value, bound, at_most, said in rows
    ]


def statements(found: Found, note: str = "") -> Table:
    """Each statement of the text about Figs. 11 and 12, our numbers, and whether it holds."""
    rows = []

    def add(where: str, what: str, values: list[float], shape: str, holds: bool) -> None:
        head = f"found for Z {min(found):g} to {max(found):g}"
        seen = {"where": where, "the paper": what, head: ", ".join(map(shape.format, values))}
        rows.append(seen | {"holds": "yes" if holds else "no"})

    def by_z(way: str, name: str) -> list[float]:
        values = [getattr(by[way], name) for by in found.values()]
        return [value[-1] if isinstance(value, list) else value for value in values]

    def rises(values: list[float]) -> bool:
        return all(a < b for a, b in pairwise(values))

    def over_hash(way: str, name: str) -> list[float]:
        return [a / b for a, b in zip(by_z(way, name), by_z(HASH, name), strict=True)]

    skew = by_z(HASH, "settled")
    add("Fig. 11a", "DS by hash rises with Z", skew, "{:.3f}", rises(skew))
    for way in (PAPER, OURS):
        far = max(over_hash(way, "settled")) <= 0.5
        add("Fig. 11a", f"DS far below hash ({way})", by_z(way, "settled"), "{:.3f}", far)
    for way in WAYS:
        cached = by_z(way, "cached")
        what = f"cached rows fall as Z rises ({way})"
        add("Fig. 11b", what, [n / 1e6 for n in cached], "{:.2f} M", rises(cached[::-1]))
    for way in (PAPER, OURS):
        over = over_hash(way, "cached")
        what = f"fewer cached rows than by hash ({way} / hash)"
        add("Fig. 11b", what, over, "{:.4f}", max(over) < 1)
    for what, name in (("all cached", "warm"), ("with look-ups", "throughput")):
        rates = by_z(HASH, name)
        what = f"throughput by hash falls as Z rises ({what})"
        add("Fig. 11c", what, [rate / 1e6 for rate in rates], "{:.2f} M/s", rises(rates[::-1]))
    for way in (PAPER, OURS):
        for what, name in (("all cached", "warm"), ("with look-ups", "throughput")):
            over = over_hash(way, name)
            what = f"throughput above hash, {what} ({way} / hash)"
            add("Fig. 11c", what, over, "{:.2f}", min(over) > 1)
        over = over_hash(way, "latency_ms")
        add("Fig. 11d", f"latency below hash ({way} / hash)", over, "{:.2f}", max(over) < 1)
    part = {way: list(map(np.ptp, by_z(way, "shares"))) for way in WAYS}
    what = "shares of the TaskManagers part by hash as Z rises (largest minus smallest, points)"
    add("Fig. 12", what, part[HASH], "{:.1f}", rises(part[HASH]))
    for way in (PAPER, OURS):
        what = f"each TaskManager has a balanced load, within 2 points ({way})"
        add("Fig. 12", what, part[way], "{:.1f}", max(part[way]) <= 2)
    return Table.of(
        "Figs. 11 and 12: what the paper says, and what was found",
        rows,
        f"{note}A row takes {ROW_US:g} µs, a look-up of a key {LOOK_UP_US:g} µs; a cycle takes "
        "the time of its busiest TaskManager, and a cache has room for all. The paper has these "
        "figures as pictures only: its text gives no numbers. Its rule evens rows, not distinct "
        "keys: a TaskManager with cold keys alone asks the database most, so that while caches "
        "fill the look-ups cost what the even rows save.",
    )
