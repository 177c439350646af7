"""What the BS-Join paper says of Figs. 11 and 12, and whether it holds in what was simulated."""

from __future__ import annotations

from itertools import pairwise

from benchmarks.harness.outcome import Figure, Table
from benchmarks.paper.hotspots import HASH, OURS, PAPER, WAYS, Found

__all__ = ["figures", "statements"]


def figures(found: Found) -> list[Figure]:
    """What the paper says of Figs. 11 and 12, as ratios."""
    least, most = min(found), max(found)
    worst = max(by[OURS].settled for by in found.values())
    even = [share for by in found.values() for share in by[OURS].shares]

    def simulated(
        name: str, value: float, bound: float | None, at_most: bool, paper: str
    ) -> Figure:
        return Figure(name, value, bound, at_most, paper=paper, simulated=True)

    return [
        simulated(
            f"DS by hash, Z {most:g} / Z {least:g}",
            found[most][HASH].settled / found[least][HASH].settled,
            1.0,
            False,
            "rises with the skew (Fig. 11a)",
        ),
        simulated(
            "DS with hot keys split, the largest of four exponents",
            worst,
            0.05,
            True,
            "stable and far below hash (Fig. 11a)",
        ),
        simulated(
            f"DS, hash / hot keys split, Z {most:g}",
            found[most][HASH].settled / found[most][OURS].settled,
            1.0,
            False,
            "far below hash for each Z (Fig. 11a)",
        ),
        simulated(
            f"DS, hash / the paper's rule, Z {most:g}",
            found[most][HASH].settled / found[most][PAPER].settled,
            None,
            False,
            "far below hash for each Z (Fig. 11a)",
        ),
        simulated(
            f"cached rows, Z {most:g} / Z {least:g}, hot keys split",
            found[most][OURS].cached[-1] / found[least][OURS].cached[-1],
            1.0,
            True,
            "falls obviously with the skew (Fig. 11b)",
        ),
        simulated(
            f"cached rows, hot keys split / hash, Z {most:g}",
            found[most][OURS].cached[-1] / found[most][HASH].cached[-1],
            1.05,
            True,
            "relatively low (Fig. 11b)",
        ),
        simulated(
            f"throughput, hot keys split / hash, Z {most:g}",
            found[most][OURS].throughput / found[most][HASH].throughput,
            1.0,
            False,
            "higher (Fig. 11c)",
        ),
        simulated(
            f"throughput, the paper's rule / hash, Z {most:g}",
            found[most][PAPER].throughput / found[most][HASH].throughput,
            None,
            False,
            "higher (Fig. 11c)",
        ),
        simulated(
            f"latency, hot keys split / hash, Z {most:g}",
            found[most][OURS].latency_ms / found[most][HASH].latency_ms,
            1.0,
            True,
            "lower (Fig. 11d)",
        ),
        simulated(
            "share of a TaskManager, largest / smallest, hot keys split, any Z",
            max(even) / min(even),
            1.1,
            True,
            "balanced for every Z (Fig. 12)",
        ),
    ]


def statements(found: Found) -> Table:
    """Each statement of the text about Figs. 11 and 12, what was found, and whether it holds."""
    first, last = min(found), max(found)

    def by_z(way: str, name: str) -> list[float]:
        values = [getattr(by[way], name) for by in found.values()]
        return [v[-1] if isinstance(v, list) else v for v in values]

    def listed(values: list[float], shape: str) -> str:
        return ", ".join(shape.format(value) for value in values)

    def rises(values: list[float]) -> bool:
        return all(a < b for a, b in pairwise(values))

    hash_, paper, ours = (by_z(way, "settled") for way in WAYS)
    cached = {way: by_z(way, "cached") for way in WAYS}
    rates = {way: by_z(way, "throughput") for way in WAYS}
    waits = {way: by_z(way, "latency_ms") for way in WAYS}
    spread = {
        way: [max(by[way].shares) - min(by[way].shares) for by in found.values()] for way in WAYS
    }
    rows: list[tuple[str, str, str, str]] = []

    def add(where: str, what: str, seen: str, holds: bool) -> None:
        rows.append((where, what, seen, "yes" if holds else "no"))

    add("Fig. 11a", "DS by hash rises with Z", listed(hash_, "{:.3f}"), rises(hash_))
    for way, values in ((PAPER, paper), (OURS, ours)):
        holds = all(2 * value <= other for value, other in zip(values, hash_, strict=True))
        add("Fig. 11a", f"DS far below hash ({way})", listed(values, "{:.3f}"), holds)
    for way in WAYS:
        add(
            "Fig. 11b",
            f"cached rows fall as Z rises ({way})",
            listed([value / 1e6 for value in cached[way]], "{:.2f} M"),
            rises(cached[way][::-1]),
        )
    for way in (PAPER, OURS):
        over = [a / b for a, b in zip(cached[way], cached[HASH], strict=True)]
        add(
            "Fig. 11b",
            f"fewer cached rows than by hash ({way} / hash)",
            listed(over, "{:.4f}"),
            max(over) < 1,
        )
    warm = {way: by_z(way, "warm") for way in WAYS}
    for what, values in (("all cached", warm[HASH]), ("with look-ups", rates[HASH])):
        add(
            "Fig. 11c",
            f"throughput by hash falls as Z rises ({what})",
            listed([value / 1e6 for value in values], "{:.2f} M/s"),
            rises(values[::-1]),
        )
    for way in (PAPER, OURS):
        over = [a / b for a, b in zip(warm[way], warm[HASH], strict=True)]
        what = f"throughput above hash, all cached ({way} / hash)"
        add("Fig. 11c", what, listed(over, "{:.2f}"), min(over) > 1)
        over = [a / b for a, b in zip(rates[way], rates[HASH], strict=True)]
        what = f"throughput above hash, with look-ups ({way} / hash)"
        add("Fig. 11c", what, listed(over, "{:.2f}"), min(over) > 1)
        over = [a / b for a, b in zip(waits[way], waits[HASH], strict=True)]
        add("Fig. 11d", f"latency below hash ({way} / hash)", listed(over, "{:.2f}"), max(over) < 1)
    add(
        "Fig. 12",
        "shares of the TaskManagers part by hash as Z rises (largest minus smallest, points)",
        listed(spread[HASH], "{:.1f}"),
        rises(spread[HASH]),
    )
    for way in (PAPER, OURS):
        add(
            "Fig. 12",
            f"each TaskManager has a balanced load, within 2 points ({way})",
            listed(spread[way], "{:.1f}"),
            max(spread[way]) <= 2,
        )
    return Table(
        "Figs. 11 and 12: what the paper says, and what was found",
        ("where", "the paper", f"found for Z {first:g} to {last:g}", "holds"),
        tuple(rows),
        "Simulated. The paper has these figures as pictures only: its text gives no numbers. Its "
        "rule evens rows, not distinct keys: a TaskManager with cold keys alone asks the database "
        "most, so that while caches fill the look-ups cost what the even rows save.",
    )
