"""The incremental cache, measured: figures, tables and a picture."""

from __future__ import annotations

import statistics
from dataclasses import replace
from typing import Any

from benchmarks.data.database import UNIFORM
from benchmarks.harness.outcome import Context, Figure, Outcome, Table
from benchmarks.harness.turns import paired
from benchmarks.incremental.picture import draw
from benchmarks.incremental.rates import (
    BATCH,
    EXPONENTS,
    FEW,
    JDBC,
    LARGE,
    RECORD,
    RECORDS,
    SMALL,
    WARM,
    hit_rates,
    labelled,
    measure,
)

__all__ = ["FLINK", "figures", "run"]

# Rows per second of Flink 2.3 SQL's look-up join with 10^6 keys on a machine with two cores
# (design page, section 3): of the past, and of full sizes only.
FLINK = {
    (1.04, SMALL): 328_000,
    (UNIFORM, SMALL): 56_000,
    (1.04, WARM): 750_000,
    (UNIFORM, WARM): 365_000,
}

_SHARES = (0.001, 0.01, 0.05, 0.1, 0.2, 0.5)


def run(context: Context) -> Outcome:
    """Measure; quick: 10^5 keys and one exponent beside uniform keys, instead of 10^6 and four."""
    quick = context.quick
    keys = 100_000 if quick else 1_000_000
    context.say(f"Streams over {keys:,} keys in PostgreSQL")
    measured = measure(
        context.spark,
        context.data,
        keys,
        batch=keys,
        batches=4 if quick else 10,
        small=10_000,
        rounds=1 if quick else 2,
        exponents=() if quick else EXPONENTS,
        few_batches=6 if quick else 40,
        records=2_000 if quick else RECORDS,
        seed=context.seed,
        say=context.say,
    )
    rates = hit_rates(keys, keys if quick else 4 * keys, _SHARES, context.seed)
    for z, by_share in rates.items():
        shown = ", ".join(f"{share:.1%}: {rate:.1%}" for share, rate in by_share.items())
        context.say(f"  z {z:<6} hit rate by share of the table that fits: {shown}")
    medians = {
        name: statistics.median(one["rate"] for one in runs)
        for name, runs in measured[1.04]["ways"].items()
    }
    medians[WARM] = statistics.median(one["warm"] for one in measured[1.04]["ways"][LARGE])
    flink = {
        f"Flink, {name.removeprefix('bsjoin, ')}": rate
        for (z, name), rate in FLINK.items()
        if z == 1.04 and not quick
    }
    picture = context.out / "incremental.png"
    draw(medians, flink, rates, picture)
    return Outcome(
        figures(measured, quick=quick),
        [_rates(measured), _hit_rates(rates)],
        [picture],
        {"rates": measured, "hit_rates": rates},
    )


def _rates(measured: dict[float, Any]) -> Table:
    ways = (LARGE, WARM, SMALL, FEW, BATCH, RECORD, JDBC)

    def rate(z: float, name: str) -> float | None:
        runs = measured[z]["ways"].get(LARGE if name == WARM else name)
        which = "warm" if name == WARM else "rate"
        return statistics.median(one[which] for one in runs) / 1e3 if runs else None

    rows = tuple((labelled(z), *(rate(z, name) for name in ways)) for z in sorted(measured))
    note = f"{WARM}: the second half of the micro-batches of {LARGE}."
    return Table("Thousand rows per second, by keys", ("keys", *ways), rows, note)


def _hit_rates(rates: dict[float, dict[float, float]]) -> Table:
    columns = ("keys", *(f"{share:.1%} fits" for share in _SHARES))
    rows = tuple(
        (f"z {z}", *(f"{by_share[share]:.1%}" for share in _SHARES))
        for z, by_share in rates.items()
    )
    note = "Of the cache alone, exact LRU; the first half of the keys warms it up, not counted."
    return Table("Hit rate, by the share of the table that fits", columns, rows, note)


def figures(measured: dict[float, Any], *, quick: bool) -> list[Figure]:
    """What the incremental cache has to reach (figures 6 to 8 of the design).

    Args:
        measured: by :func:`benchmarks.incremental.rates.measure`.
        quick: whether sizes are too small for the 50 times that were promised, and others than
            those of Flink's figures.
    """

    def rates(z: float, name: str, which: str = "rate") -> list[float]:
        return [one[which] for one in measured[z]["ways"][name]]

    found = [
        paired(
            "rows/s, bsjoin / one query per record, z 1.04",
            rates(1.04, LARGE),
            rates(1.04, RECORD),
            None if quick else 50.0,
        )
    ]
    for z, one in measured.items():
        asked = [run["asked"] / one["distinct"] for run in one["ways"][LARGE]]
        spread = (min(asked), max(asked))
        name = f"keys asked / distinct keys, {labelled(z)}"
        found.append(Figure(name, statistics.median(asked), 1.05, True, spread))
        name = f"rows/s, bsjoin / one query per micro-batch, {labelled(z)}"
        found.append(paired(name, rates(z, LARGE), rates(z, BATCH), 1.0))
    for (z, name), rate in FLINK.items() if not quick else ():
        ours = rates(z, LARGE, "warm") if name == WARM else rates(z, SMALL)
        bound = 2.0 if name == WARM else 1.0
        label = f"rows/s, {name} / Flink as measured before, {labelled(z)}"
        figure = paired(label, ours, [float(rate)] * len(ours), bound)
        found.append(replace(figure, unit="times"))  # a rate of this machine, in effect
    return found
