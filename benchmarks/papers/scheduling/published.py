"""What the papers report: tables, clusters, and the statements of the texts, beside ours."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from benchmarks.harness.outcome import Table
from scheduling import Resources, Worker

DEFAULT, ROUND_ROBIN, GS_BFD, CETSA, LBA_CE = "Default", "RR", "GS-BFD", "CETSA", "LBA-CE"
WAYS = (DEFAULT, ROUND_ROBIN, GS_BFD, CETSA, LBA_CE)

# Table 3 of CETSA and LBA-CE: nodes by priority; "11 ... 14" are l1 ... l4.
PRIORITY = ("m3", "m2", "m4", "l1", "l3", "l4", "xl1", "l2", "xl4", "xl3", "xl2")

# Tables 5 and 6: seconds for 1, 2 ... 10 million records at 60,000 records/s.
EXECUTION_S = {
    "Wordcount": {
        DEFAULT: (27, 48, 68, 90, 111, 132, 153, 175, 195, 215),
        ROUND_ROBIN: (29, 42, 61, 80, 95, 114, 133, 155, 171, 189),
        GS_BFD: (26, 45, 66, 88, 108, 129, 150, 170, 191, 211),
        CETSA: (27, 43, 66, 86, 106, 122, 146, 165, 183, 205),
        LBA_CE: (25, 43, 62, 79, 98, 115, 133, 151, 167, 185),
    },
    "Fixwindow": {
        DEFAULT: (26, 45, 64, 83, 102, 121, 141, 160, 179, 199),
        ROUND_ROBIN: (22, 40, 58, 74, 93, 111, 129, 145, 163, 179),
        GS_BFD: (26, 47, 68, 89, 110, 132, 154, 175, 198, 219),
        CETSA: (27, 50, 71, 94, 117, 140, 160, 182, 205, 227),
        LBA_CE: (22, 40, 59, 77, 96, 115, 133, 151, 169, 187),
    },
}

# Name, cores, GB, $/s, workers (one Small is the master): Table 4. Table 3 calls them m, l and xl.
_TABLE_4 = (
    ("m", "Small", 4, 8, 2.417e-3, (2, 3, 4)),
    ("l", "Medium", 8, 12, 4.861e-3, (1, 2, 3, 4)),
    ("xl", "Large", 12, 16, 7.778e-3, (1, 2, 3, 4)),
)


def table_4(*, slots: int = 4, delta: float = 0.8) -> tuple[Worker, ...]:
    """The 11 workers of Table 4, in the order of their addresses in Table 3.

    The twelfth node, a Small, is the master and takes no task.
    """
    return tuple(
        Worker(
            f"{short}{number}",
            Resources(float(cores), gigabytes * 1024.0, math.inf),
            slots,
            price_per_s=price,
            tier=tier,
            delta=delta,
        )
        for short, tier, cores, gigabytes, price, numbers in _TABLE_4
        for number in numbers
    )


@dataclass(frozen=True)
class Claim:
    """How much one way differs from another in the text of CETSA and LBA-CE, in percent."""

    place: str
    job: str
    measure: str
    way: str
    than: str
    percent: float


_W, _F = "Wordcount", "Fixwindow"
# Against Default, RR, GS-BFD and CETSA, in this order; None where the text has none.
_TEXT: tuple[tuple[str, str, str, str, tuple[float | None, ...]], ...] = (
    ("Fig. 10a", _W, "CPU use", CETSA, (36, 106, 23)),
    ("Fig. 10b", _W, "memory use", CETSA, (14, 20, 2)),
    ("Fig. 11", _W, "cost", CETSA, (-37.3, -58.9, -11.8)),
    ("Fig. 11", _W, "cost", LBA_CE, (-37.9, -36.4, -3.3)),
    ("Table 5", _W, "time", LBA_CE, (-11.9, None, -9.2, -7.1)),
    ("Fig. 12", _W, "S", LBA_CE, (-23.1, -4.5, -12.5, -23.9)),
    ("Fig. 13", _W, "communication", LBA_CE, (-18.5, -11.5)),
    ("Fig. 13", _W, "communication", CETSA, (-22, -24.8, -8.7)),
    ("Fig. 14", _W, "throughput", LBA_CE, (17.8, 8.2, 17.3, 13.2)),
    ("Fig. 17a", _F, "CPU use", CETSA, (58.3, 100.6, 20.8)),
    ("Fig. 17b", _F, "memory use", CETSA, (11.8, 28.6, 2.8)),
    ("Fig. 18", _F, "communication", LBA_CE, (-16.2, -4.6, 0.0)),
    ("Fig. 18", _F, "communication", CETSA, (-5, -25.1, -7.3)),
    ("Fig. 19", _F, "cost", LBA_CE, (-20.2, -34.3, -6.2)),
    ("Fig. 20", _F, "S", LBA_CE, (-24.6, -4.5, -25.0, -24.3)),
    ("Table 6", _F, "time", LBA_CE, (-7.5, None, -13.9, -17.8)),
    ("Fig. 21", _F, "throughput", LBA_CE, (10.3, 5.7, 29.1, 27.5)),
    ("Fig. 23", _F, "cost", CETSA, (None, None, -9.1)),
)


def claims() -> Iterator[Claim]:
    """The text's comparisons at 60,000 records/s."""
    for place, job, measure, way, values in _TEXT:
        for than, percent in zip((DEFAULT, ROUND_ROBIN, GS_BFD, CETSA), values, strict=False):
            if percent is not None:
                yield Claim(place, job, measure, way, than, percent)


CONTRADICTIONS = (
    ("CETSA, LBA-CE", "Fig. 11 has Wordcount 37.3 % cheaper under CETSA than under Default and "
     "58.9 % than under RR; the prices of Table 4 times the times of Table 5 give 69.6 and 68.2 %"),
    ("CETSA, LBA-CE", "Eq. 6 counts types twice; the X of Eq. 24 cancels wherever it is used"),
    ("CETSA, LBA-CE", "Algorithm 2 lacks its line 17, and the check of delta that the text "
     "requires; filled to the letter, its high list is less balanced than a random placement"),
    ("CETSA, LBA-CE", "Table 3 names nodes 11 ... 14, which are l1 ... l4, and its m, l, xl are "
     "Table 4's Small, Medium, Large"),
    ("St-Stream", "Eq. 1 adds GHz to GB, and Eq. 6 cannot be computed"),
    ("St-Stream", "Algorithm 2 mislabels its inputs, its line 12 moves load in the wrong "
     "direction, and 'no nodes above L_min' must read below"),
    ("OERA", "Algorithm 1 sizes with R(n - 1), shrinks below what comes in, and then oscillates "
     "on constant input"),
    ("Twister2", "two default instances make a container; the code of first fit has room for one"),
)  # fmt: skip
"""Where the papers contradict themselves, or an algorithm does not do what the text says."""


TOLERANCE = 0.25
"""The share of a paper's value that ours may differ by, in both directions."""


@dataclass(frozen=True)
class Row:
    """A statement of a paper, with its place there, beside ours.

    ``what`` has the unit; ``says`` or ``ours`` is None where there is none; ``how`` is
    ``simulated`` or ``not reproduced``; ``why`` they differ, or there is none.
    """

    paper: str
    place: str
    what: str
    says: float | None
    ours: float | None
    how: str = "simulated"
    why: str = ""

    @property
    def holds(self) -> str:
        """``yes``: within 25 %; ``direction``: the same sign and a quarter of it at least; ``no``.

        Empty where one of the two is missing.

        >>> Row("X", "Fig. 1", "cost, %", says=-20.0, ours=-26.0).holds
        'direction'
        """
        if self.says is None or self.ours is None or math.isnan(self.ours):
            return ""
        if abs(self.ours - self.says) <= TOLERANCE * (abs(self.says) or 1.0) * (1 + 1e-9):
            return "yes"
        return "direction" if self.ours * self.says >= TOLERANCE * self.says**2 > 0 else "no"


def held(rows: Iterable[Row]) -> tuple[int, int, int]:
    """How many rows with two values are within 25 %, how many have the direction, and how many."""
    verdicts = [one.holds for one in rows if one.holds]
    return verdicts.count("yes"), verdicts.count("direction"), len(verdicts)


def table(paper: str, rows: Iterable[Row], note: str) -> Table:
    """The statements of a paper."""
    lines = [
        {
            "place": one.place,
            "statement": one.what,
            "paper": _rounded(one.says),
            "ours": _rounded(one.ours),
            "how": one.how,
            "holds": one.holds or None,
            "why they differ": one.why,
        }
        for one in rows
    ]
    return Table.of(paper, lines, note)


def _rounded(value: float | None) -> float | None:
    if value is None or math.isnan(value):
        return None
    return round(value, 4 if abs(value) < 0.1 else 3 if abs(value) < 20 else 1) + 0.0
